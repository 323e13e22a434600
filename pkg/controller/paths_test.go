package controller

import (
	"net/netip"
	"testing"

	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
	"l4lb/pkg/probe"
)

// throughGUE has the service web reach its backends through GUE, and a1 at an
// address of its own.
func throughGUE(cfg *lb.Config) {
	web(func(s *lb.Service) { s.Forwarding, s.Tunnel.Port = lb.ForwardGUE, 6080 })(cfg)
	cfg.Group("web-a").Endpoints[0].TunnelAddr = addr("2001:db8:9::11")
}

// Health checks of a tunnelled service ask at the VIP, by the tunnel of its
// traffic. Two services ask once where their tunnels are the same.
func TestTunnelledServicesAreProbedThroughTheirTunnel(t *testing.T) {
	cfg := testConfig(throughGUE, func(cfg *lb.Config) {
		same, other := *cfg.Service("web"), *cfg.Service("web")
		same.Name, other.Name = "same", "other"
		other.Tunnel.Port = 6090
		cfg.Services = append(cfg.Services, same, other)
		cfg.Rules = append(cfg.Rules, testRule("same", "192.0.2.10", "same", 81), testRule("other", "192.0.2.10", "other", 82))
	})
	b := newHealthBook(cfg, indexConfig(cfg), true)
	owners := map[lb.Way]int{}
	for target, list := range b.owners {
		if target.Addr != addr("192.0.2.10") || target.Via.Backend.Is6() {
			t.Errorf("%s is probed", target)
		}
		owners[target.Via.Way] += len(list)
	}
	want := map[lb.Way]int{}
	for _, end := range []string{"2001:db8:9::11", "10.1.0.12", "10.2.0.11", "10.2.0.12"} {
		want[lb.Way{Forwarding: lb.ForwardGUE, End: addr(end), Port: 6080}] = 2
		want[lb.Way{Forwarding: lb.ForwardGUE, End: addr(end), Port: 6090}] = 1
	}
	if len(owners) != len(want) {
		t.Errorf("%d ways, want %d: %v", len(owners), len(want), owners)
	}
	for way, n := range want {
		if owners[way] != n {
			t.Errorf("%+v tells the health of %d members, want %d", way, owners[way], n)
		}
	}
}

// A VIP of a family that no backend has is asked through the tunnel all the same,
// as its packets go there.
func TestVIPsOfTheOtherFamilyAreProbedThroughTunnels(t *testing.T) {
	six := func(cfg *lb.Config) { cfg.Rules = append(cfg.Rules, testRule("six", "2001:db8:f::10", "web", 80)) }
	both := group("web-b", "b1 10.2.0.11", "b1 2001:db8::b1")
	for _, tt := range []struct {
		name string
		edit []func(*lb.Config)
		addr string
		want string
	}{
		{"no backend has it", []func(*lb.Config){throughGUE, six}, "10.2.0.11", "TCP 192.0.2.10:80 via 10.2.0.11, TCP [2001:db8:f::10]:80 via 10.2.0.11"},
		{"a backend has it", []func(*lb.Config){throughGUE, six, both}, "10.2.0.11", "TCP 192.0.2.10:80 via 10.2.0.11"},
		{"and is asked itself", []func(*lb.Config){throughGUE, six, both}, "2001:db8::b1", "TCP [2001:db8:f::10]:80 via 2001:db8::b1"},
		{"without a tunnel", []func(*lb.Config){six}, "10.2.0.11", "TCP 192.0.2.10:80 via 10.2.0.11"},
	} {
		cfg := testConfig(tt.edit...)
		if got := probesOf(newHealthBook(cfg, indexConfig(cfg), true), "web", "b1", tt.addr); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The ways of probes are the tunnels of the traffic, before any reconcile.
func TestProbesTakeTheTunnelOfTheTraffic(t *testing.T) {
	w := newWorld(t, testConfig())
	if err := w.e.SetConfig(testConfig(throughGUE), w.now); err != nil {
		t.Fatal(err)
	}
	pathTo := func(instance string) (found probe.Path) {
		t.Helper()
		for _, p := range w.e.tunnelPaths() {
			if p.Backend == addr(map[string]string{"a1": "10.1.0.11", "a2": "10.1.0.12"}[instance]) {
				found = p
			}
		}
		if !found.Backend.IsValid() {
			t.Fatalf("no way to %s", instance)
		}
		return found
	}
	end := addr("2001:db8:9::11")
	if p := pathTo("a1"); p.Usable {
		t.Errorf("the way to the tunnel's end is not known, and probes leave: %+v", p)
	}
	link := linkOf(end, true)
	link.MTU, link.Source = 1500, addr("2001:db8::1")
	w.e.SetLink(end, link)
	p := pathTo("a1")
	if !p.Usable || p.DMAC != link.DMAC || p.SMAC != link.SMAC || p.IfIndex != int(link.IfIndex) ||
		p.Way != (lb.Way{Forwarding: lb.ForwardGUE, End: end, Port: 6080}) {
		t.Errorf("got %+v", p)
	}
	w.reconcile()
	for _, s := range w.e.units {
		for _, m := range s.members {
			if m.key.instance == "a1" && m.record.Tunnel != p.Tunnel {
				t.Errorf("traffic gets %+v, probes %+v", m.record.Tunnel, p.Tunnel)
			}
		}
	}
	link.MTU = encap.MinMTU
	w.e.SetLink(end, link)
	if p := pathTo("a1"); p.Usable {
		t.Errorf("there is no room for the headers, and probes leave: %+v", p)
	}
	link.MTU, link.Source = 1500, netip.Addr{}
	w.e.SetLink(end, link)
	if p := pathTo("a1"); p.Usable {
		t.Errorf("the gateway has no address, and probes leave: %+v", p)
	}
}
