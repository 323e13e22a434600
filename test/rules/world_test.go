// Package rules has the rows of the specification's tables as named cases that
// run on the real program, driven by the real engine.
package rules

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// world is a virtual data plane with one service of primaries p1 to p4 and, with
// a failover policy, failovers f1 to f4, behind one L3_DEFAULT rule.
type world struct {
	t   *testing.T
	dp  *loader.Datapath
	e   *controller.Engine
	now time.Time
	ids map[uint32]string
}

var start = time.Unix(1_700_000_000, 0)

func newWorld(t *testing.T, service lb.Service) *world {
	t.Helper()
	testutil.RequireRoot(t)
	dp, err := loader.Load(loader.Options{
		FlowEntries: 1024, Members: 64, Rules: 16, Services: 16, Frontends: 16, ZoneNodes: 16, Virtual: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, dp.Close()) })
	e, err := controller.NewEngine(dp)
	must(t, err)
	w := &world{t: t, dp: dp, e: e, now: start}
	must(t, dp.SetPort(loader.TestIfIndex, [6]byte(testutil.GatewayMAC)))
	cfg := config(service)
	must(t, e.SetConfig(cfg, w.now))
	for i := range cfg.Groups {
		for _, end := range cfg.Groups[i].Endpoints {
			e.SetLink(end.Addr, controller.Link{
				DMAC: [6]byte(testutil.BackendAMAC), SMAC: [6]byte(testutil.GatewayMAC),
				IfIndex: loader.TestIfIndex, Usable: true,
			})
			e.SetInstanceHealth(end.Instance, selector.HealthOf(lb.Healthy), w.now)
		}
	}
	w.reconcile()
	return w
}

func config(service lb.Service) *lb.Config {
	service.Name, service.Protocol = "s", lb.ServiceUnspecified
	service.HealthCheck = "hc"
	service.LocalityLbPolicy = lb.DefaultLocalityLbPolicy
	service.Zonal.Spillover = lb.ZonalDisabled
	service.Tracking.IdleTimeout = 600 * time.Second
	service.Backends = []lb.BackendRef{{Group: "p"}}
	groups := []lb.Group{group("p", 0)}
	if service.Failover != nil {
		service.Backends = append(service.Backends, lb.BackendRef{Group: "f", Failover: true})
		groups = append(groups, group("f", 100))
	}
	return &lb.Config{
		HealthChecks: []lb.HealthCheck{{Name: "hc", Type: lb.CheckTCP}},
		Groups:       groups,
		Services:     []lb.Service{service},
		Rules: []lb.ForwardingRule{{
			Name: "r", Address: netip.PrefixFrom(testutil.VIP4, 32), Protocol: lb.RuleL3Default, AllPorts: true, Service: "s",
		}},
	}
}

// group has four members named after it, at addresses from 10.1.0.first on.
func group(name string, first byte) lb.Group {
	g := lb.Group{Name: name}
	for i := range byte(4) {
		g.Endpoints = append(g.Endpoints, lb.Endpoint{
			Instance: name + string('1'+rune(i)), Addr: netip.AddrFrom4([4]byte{10, 1, 0, first + i + 1}),
		})
	}
	return g
}

func (w *world) reconcile() {
	w.t.Helper()
	for {
		must(w.t, w.dp.SetClock(time.Hour+w.now.Sub(start)))
		next, err := w.e.Reconcile(w.now)
		must(w.t, err)
		if next.IsZero() || next.After(w.now) {
			break
		}
	}
	w.ids = map[uint32]string{}
	for _, s := range w.e.Snapshot().Services {
		for _, m := range s.Members {
			w.ids[m.ID] = m.Backend.Instance
		}
	}
}

// later lets time pass.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.reconcile()
}

// health sets the state of instances.
func (w *world) health(state lb.HealthState, instances ...string) {
	w.t.Helper()
	for _, name := range instances {
		w.e.SetInstanceHealth(name, selector.HealthOf(state), w.now)
	}
	w.reconcile()
}

// send runs a packet and returns its backend and what tracking made of it.
func (w *world) send(frame []byte) (backend string, flow loader.TraceFlow) {
	w.t.Helper()
	trace, _, err := w.dp.Run(frame)
	must(w.t, err)
	return w.ids[trace.Member], trace.Flow
}

// packets are one of each protocol, none of them a SYN.
func packets(t *testing.T) map[string][]byte {
	src, dst := testutil.Client4, testutil.VIP4
	from, to := netip.AddrPortFrom(src, 4000), netip.AddrPortFrom(dst, 80)
	other := func(p layers.IPProtocol) []byte { return testutil.IP(t, src, dst, p, make([]byte, 24)) }
	return map[string][]byte{
		"TCP": testutil.TCP(t, from, to), "UDP": testutil.UDP(t, from, to), "ICMP": testutil.Echo(t, src, dst),
		"SCTP": other(layers.IPProtocolSCTP), "ESP": other(layers.IPProtocolESP),
		"AH": other(layers.IPProtocolAH), "GRE": other(layers.IPProtocolGRE),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
