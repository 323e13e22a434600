package doctor

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

// routed is a gateway of three services: a VIP's, that of a next hop, and one
// behind tunnels.
func routed() *gateway {
	direct := lb.Service{Probe: lb.ProbeDirect, Forwarding: lb.ForwardL2, HealthCheck: "hc", Backends: []lb.BackendRef{{Group: "g"}}}
	web, appliances, far := direct, direct, direct
	web.Name, appliances.Name, far.Name, far.Forwarding = "web", "fw", "far", lb.ForwardGUE
	rule := func(name, addr, service string) lb.ForwardingRule {
		return lb.ForwardingRule{Name: name, Address: netip.MustParsePrefix(addr), Protocol: lb.RuleTCP, Ports: []uint16{80}, Service: service}
	}
	backend := netip.MustParseAddr("10.1.0.11")
	return &gateway{
		Options: Options{Config: &lb.Config{
			HealthChecks: []lb.HealthCheck{{Name: "hc", Type: lb.CheckTCP, Port: 8080}},
			Groups:       []lb.Group{{Name: "g", Endpoints: []lb.Endpoint{{Instance: "a", Addr: backend}}}},
			Services:     []lb.Service{web, appliances, far},
			Rules:        []lb.ForwardingRule{rule("web", "192.0.2.10/32", "web"), rule("hop", "192.0.2.20/32", "fw"), rule("far", "192.0.2.30/32", "far")},
			Routes:       []lb.Route{{Name: "r", Dest: netip.MustParsePrefix("203.0.113.0/24"), Rule: "hop"}},
		}},
		ways: map[netip.Addr]way{backend: {link: &netlink.LinkAttrs{Name: "eth0"}}},
	}
}

// Backends that do not have the VIP, or that a tunnel leads to, are asked at their
// own address; the others at the VIP.
func TestWhereBackendsAreAsked(t *testing.T) {
	trials, notes := routed().trials()
	want := map[string]string{"192.0.2.10": "80", "": "8080 8080"}
	got := map[string]string{}
	for _, tr := range trials {
		vip := ""
		if !tr.direct {
			vip = tr.vip.String()
		}
		_, port, _ := strings.Cut(tr.target(false).AddrPort().String(), ":")
		got[vip] = strings.TrimSpace(got[vip] + " " + port)
	}
	if len(got) != 2 || got["192.0.2.10"] != want["192.0.2.10"] || got[""] != want[""] {
		t.Errorf("asked at %v, want %v", got, want)
	}
	if len(notes) != 1 || !strings.Contains(notes[0].What, "GUE tunnels") || notes[0].Mend[0] != "l4lbd doctor --backend --vip 192.0.2.30 --tunnel GUE" {
		t.Errorf("notes %+v", notes)
	}
	failed := &trial{peer: peer{"a", netip.MustParseAddr("10.1.0.11")}, direct: true, atVIP: healthcheck.Result{Detail: healthcheck.DetailRefused}}
	if f := failed.finding(); f.Status != Problem || f.Subject != "a (10.1.0.11)" || f.What != "the check of its own address fails: REFUSED" {
		t.Errorf("got %+v", f)
	}
}

func TestRoomForTunnelsIsNoted(t *testing.T) {
	g := routed()
	f, small := g.tunnelNote(&netlink.LinkAttrs{Name: "eth0", MTU: 1500})
	if !small || f.Status != Note || f.Mend[0] != "ip link set dev eth0 mtu 1528" {
		t.Errorf("got %v %+v", small, f)
	}
	if _, small := g.tunnelNote(&netlink.LinkAttrs{Name: "eth0", MTU: 1528}); small {
		t.Error("1528 bytes are enough")
	}
	g.Config.Services = g.Config.Services[:2]
	if _, small := g.tunnelNote(&netlink.LinkAttrs{Name: "eth0", MTU: 1500}); small {
		t.Error("there is no tunnel")
	}
}
