package controller

import (
	"net/netip"
	"strings"
	"testing"

	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

func tunnelled(kind lb.Forwarding) func(*lb.Config) {
	return web(func(s *lb.Service) { s.Forwarding = kind })
}

// far is the way to a backend behind a router, of an MTU.
func far(a netip.Addr, mtu int) Link {
	l := linkOf(a, true)
	l.MTU, l.Source = mtu, addr("10.0.0.1")
	if a.Is6() {
		l.Source = addr("2001:db8:1::1")
	}
	return l
}

// setFar gives ways of an MTU to all addresses that packets are sent to.
func (w *world) setFar(mtu int) {
	for _, a := range w.e.addresses() {
		w.e.SetLink(a, far(a, mtu))
	}
	w.reconcile()
}

// A member's record has the tunnel that its service asks for, to where its
// endpoint says, and the link addresses of the way there.
func TestTunnelsAreWritten(t *testing.T) {
	end := addr("2001:db8:9::12")
	w := newWorld(t, testConfig(tunnelled(lb.ForwardGENEVE), func(cfg *lb.Config) {
		s := cfg.Service("web")
		s.Tunnel = lb.TunnelOptions{Port: 6081, VNI: 7, ClampMSS: true}
		cfg.Group("web-a").Endpoints[1].TunnelAddr = end
	}))
	w.setFar(1500)
	for instance, want := range map[string]encap.Tunnel{
		"a1": {Dest: addr("10.1.0.11"), Source: netip.MustParsePrefix("10.0.0.1/32")},
		"a2": {Dest: end, Source: netip.MustParsePrefix("2001:db8:1::1/128")},
	} {
		want.Kind, want.Port, want.VNI, want.ClampMSS, want.LinkMTU = lb.ForwardGENEVE, 6081, 7, true, 1500
		header, err := want.Header()
		check(t, err)
		got := w.member("web", instance)
		w.want("tunnel to "+instance, got.Tunnel, header)
		w.want("link address to "+instance, got.DMAC, linkOf(want.Dest, true).DMAC)
	}
	w.setFar(9000)
	w.want("MTU after a change of the way", w.member("web", "a1").Tunnel.MTU, 9000-36)
	for _, m := range w.e.Snapshot().Services[0].Members {
		if m.Backend.Instance == "a2" {
			w.want("status", m.Tunnel, TunnelStatus{
				Kind: lb.ForwardGENEVE, Source: netip.MustParsePrefix("2001:db8:1::1/128"), Overhead: 56, MTU: 9000 - 56,
			})
			w.want("sent to", m.SentTo, end)
		}
	}
}

// The record of a member without a tunnel has the MTU of its link, but in generic
// mode, where the kernel may hand over several packets as one.
func TestLinkMTUIsWritten(t *testing.T) {
	for mode, want := range map[lb.XDPMode]uint16{lb.XDPNative: 1400, lb.XDPGeneric: 0} {
		w := newWorld(t, testConfig(func(cfg *lb.Config) { cfg.Gateway.XDPMode = mode }))
		w.setFar(1400)
		w.want(string(mode)+", MTU", w.member("web", "a1").MTU, want)
		w.setFar(1 << 16) // the loopback interface's
		w.want(string(mode)+", MTU of 64 KiB", w.member("web", "a1").MTU, want/1400*65535)
	}
	w := newWorld(t, testConfig(tunnelled(lb.ForwardGUE)))
	w.setFar(1400)
	w.want("MTU beside a tunnel", w.member("web", "a1").MTU, 0)
}

// Only IPIP needs addresses to tell flows apart.
func TestTunnelSources(t *testing.T) {
	sources := []netip.Prefix{netip.MustParsePrefix("10.0.0.8/29"), netip.MustParsePrefix("2001:db8:1:2::/64")}
	for kind, spread := range map[lb.Forwarding]int{lb.ForwardIPIP: 3, lb.ForwardGUE: 0} {
		w := newWorld(t, testConfig(tunnelled(kind), func(cfg *lb.Config) { cfg.Gateway.TunnelSources = sources }))
		w.setFar(1500)
		w.want(string(kind), w.member("web", "a1").Tunnel.Spread, spread)
	}
}

// Where no tunnel can be made, the backend is as good as lost, and nothing is
// sent to it without.
func TestBackendsWithoutATunnelAreNotReached(t *testing.T) {
	for name, tt := range map[string]struct {
		link    func(*Link)
		problem string
	}{
		"no room":   {func(l *Link) { l.MTU = 590 }, "MTU is too small"},
		"no source": {func(l *Link) { l.Source = netip.Addr{} }, "no source address"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testConfig(tunnelled(lb.ForwardIPIP)))
			w.setFar(1500)
			w.wantChosen("web", "", "a1 a2 b1 b2")
			l := far(addr("10.1.0.11"), 1500)
			tt.link(&l)
			w.e.SetLink(addr("10.1.0.11"), l)
			w.reconcile()
			w.wantChosen("web", "", "a2 b1 b2")
			if m := w.member("web", "a1"); m.IfIndex != 0 {
				t.Errorf("record %+v", m)
			}
			if p := w.e.Snapshot().Services[0].Members[0].Tunnel.Problem; !strings.Contains(p, tt.problem) {
				t.Errorf("problem %q, want %q", p, tt.problem)
			}
			w.e.SetLink(addr("10.1.0.11"), far(addr("10.1.0.11"), 1500))
			w.reconcile()
			w.wantChosen("web", "", "a1 a2 b1 b2")
		})
	}
}

// A reload changes the way under a service's connections; what is known of it
// decides whether a packet leaves at all, never that it leaves without a tunnel.
func TestForwardingChanges(t *testing.T) {
	w := newWorld(t, testConfig())
	w.setFar(1500)
	w.want("tunnel", w.member("web", "a1").Tunnel, encap.Header{})
	end := addr("10.9.9.9")
	lost := w.changes(func() {
		check(t, w.e.SetConfig(testConfig(tunnelled(lb.ForwardGUE), func(cfg *lb.Config) {
			cfg.Group("web-a").Endpoints[0].TunnelAddr = end
		}), w.now))
	})
	w.want("lost", lost, "")
	if m := w.member("web", "a1"); m.IfIndex != 0 || m.Tunnel != (encap.Header{}) {
		t.Errorf("the way to where the tunnel ends is not known: %+v", m)
	}
	w.want("tunnel of a2", w.member("web", "a2").Tunnel.MTU, 1472)
	w.setFar(1500)
	w.want("tunnel of a1 ends at", w.member("web", "a1").Tunnel.Dest(), end)
	w.want("lost", w.changes(func() { w.config(testConfig()) }), "")
	w.want("tunnel", w.member("web", "a1").Tunnel, encap.Header{})
	w.want("link address", w.member("web", "a1").DMAC, linkOf(addr("10.1.0.11"), true).DMAC)
}

// A new process keeps the tunnels that it finds until it knows the ways, and
// those of backends that are no longer configured.
func TestRestartKeepsTunnels(t *testing.T) {
	cfg := testConfig(tunnelled(lb.ForwardIPIP), func(cfg *lb.Config) {
		cfg.Group("web-a").Endpoints[0].TunnelAddr = addr("2001:db8:9::11")
	})
	w := newWorld(t, cfg)
	w.setFar(1500)
	before := w.records()
	w.startBare(testConfig(tunnelled(lb.ForwardIPIP), group("web-a", "a2 10.1.0.12")), false)
	w.health(selector.HealthOf(lb.Healthy), w.instances()...)
	w.reconcile()
	for name, m := range w.records() {
		w.want("tunnel of "+name, m.Tunnel, before[name].Tunnel)
		w.want("interface of "+name, m.IfIndex, before[name].IfIndex)
	}
	w.setFar(1500)
	for name, m := range w.records() {
		w.want("tunnel of "+name, m.Tunnel, before[name].Tunnel)
	}
}

// A rule of the other family uses the backends that there are.
func TestTunnelsCarryTheOtherFamily(t *testing.T) {
	w := newWorld(t, testConfig(tunnelled(lb.ForwardGUE), func(cfg *lb.Config) {
		cfg.Rules = append(cfg.Rules, testRule("web-six", "2001:db8:f::10", "web", 80))
	}))
	w.want("service of the IPv6 rule", w.rule("web-six").Service, w.rule("web-vip").Service)
}
