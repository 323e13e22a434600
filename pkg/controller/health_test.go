package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/probe"
	"l4lb/pkg/selector"
)

// probesOf lists what is probed for a member.
func probesOf(b *healthBook, service, instance, address string) string {
	var out []string
	for _, t := range b.probed[healthOwner{service, instance, addr(address)}] {
		out = append(out, t.String())
	}
	return strings.Join(out, ", ")
}

// twoFamilies is the service web with an IPv6 backend, behind three addresses.
func twoFamilies(cfg *lb.Config) {
	group("web-b", "b1 10.2.0.11", "b1 2001:db8::b1")(cfg)
	cfg.Rules = append(cfg.Rules, testRule("other-port", "192.0.2.10", "web", 8080),
		testRule("second", "192.0.2.9", "web", 80), testRule("six", "2001:db8:f::10", "web", 80))
	for i := range cfg.Services {
		cfg.Services[i].Forwarding = lb.ForwardL2
	}
}

func TestWhatIsProbed(t *testing.T) {
	tests := []struct {
		name     string
		edit     func(*lb.Config)
		through  bool
		instance string
		addr     string
		want     string
	}{
		{"each address of the family, once", nil, true, "b1", "10.2.0.11", "TCP 192.0.2.9:80 via 10.2.0.11, TCP 192.0.2.10:80 via 10.2.0.11"},
		{"the other family", nil, true, "b1", "2001:db8::b1", "TCP [2001:db8:f::10]:80 via 2001:db8::b1"},
		{"asked to be direct", web(func(s *lb.Service) { s.Probe = lb.ProbeDirect }), true, "b1", "10.2.0.11", "TCP 10.2.0.11:80"},
		{"no rule", func(cfg *lb.Config) { cfg.Rules = nil }, true, "b1", "10.2.0.11", "TCP 10.2.0.11:80"},
		{"no rule of the family", func(cfg *lb.Config) { cfg.Rules = cfg.Rules[:1] }, true, "b1", "2001:db8::b1", "TCP [2001:db8::b1]:80"},
		{"no health check", web(func(s *lb.Service) { s.HealthCheck = "" }), true, "b1", "10.2.0.11", ""},
		{"nothing delivers", nil, false, "b1", "10.2.0.11", "TCP 10.2.0.11:80"},
	}
	for _, tt := range tests {
		cfg := testConfig(twoFamilies)
		if tt.edit != nil {
			tt.edit(cfg)
		}
		b := newHealthBook(cfg, indexConfig(cfg), tt.through)
		if got := probesOf(b, "web", tt.instance, tt.addr); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestServicesShareTargets has ten services at one address: one probe for all.
func TestServicesShareTargets(t *testing.T) {
	cfg := testConfig(func(cfg *lb.Config) {
		for i := range 9 {
			name := fmt.Sprint("web-", i)
			cfg.Services = append(cfg.Services, testService(name, "web-a", "web-b"))
			cfg.Rules = append(cfg.Rules, testRule(name, "192.0.2.10", name, uint16(1000+i)))
		}
	})
	b := newHealthBook(cfg, indexConfig(cfg), true)
	if len(b.owners) != 4 {
		t.Errorf("%d targets for four backends", len(b.owners))
	}
	for target, owners := range b.owners {
		if len(owners) != 10 {
			t.Errorf("%s tells the health of %d members, want 10", target, len(owners))
		}
	}
}

func TestCombine(t *testing.T) {
	states := map[string]lb.HealthState{"H": lb.Healthy, "U": lb.Unhealthy, "?": lb.Unknown}
	tests := map[string]string{
		"H": "H", "U": "U", "?": "?", "HH": "H", "HU": "U", "UH": "U", "H?": "?", "?H": "?", "U?": "U", "?U": "U", "HH?": "?", "H?U": "U",
	}
	for list, want := range tests {
		var known []selector.Health
		for _, c := range list {
			known = append(known, selector.HealthOf(states[string(c)]))
		}
		if got := combine(known); got.State != states[want] {
			t.Errorf("%s: got %s, want %s", list, got.State, states[want])
		}
	}
	told := selector.Health{State: lb.Healthy, Weight: lb.Weight{PPM: 5}}
	later := selector.Health{State: lb.Healthy, Weight: lb.Weight{PPM: 7}}
	if got := combine([]selector.Health{selector.HealthOf(lb.Healthy), told, later}); got.Weight != told.Weight {
		t.Errorf("weight %+v, want the first that was told", got.Weight)
	}
}

type fakeProbes struct{ paths map[netip.Addr]probe.Path }

func (f *fakeProbes) SetPaths(list []probe.Path) error {
	f.paths = map[netip.Addr]probe.Path{}
	for _, p := range list {
		f.paths[p.Backend] = p
	}
	return nil
}

// withProbes makes the parts probe through VIPs.
func (p *parts) withProbes(cfg *lb.Config) *fakeProbes {
	f := &fakeProbes{}
	p.c.opts.Probes = f
	check(p.t, p.c.apply(cfg, p.start))
	return f
}

// tell reports the health of a backend at one VIP.
func (p *parts) tell(state lb.HealthState, vip, backend string) {
	p.t.Helper()
	for t, s := range p.health.status {
		if t.Addr == addr(vip) && t.Via.Backend == addr(backend) {
			s.State = state
			p.health.status[t] = s
			p.health.events <- healthcheck.Event{Target: t, State: state, Result: healthcheck.Result{Weight: lb.Weight{Err: lb.WeightNone}}}
			return
		}
	}
	p.t.Fatalf("%s via %s is not probed", vip, backend)
}

// TestOneAddressOfTwoFails takes a backend out that passes at one VIP only, and
// keeps what holds for each rule.
func TestOneAddressOfTwoFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig(twoFamilies, group("web-b", "b1 10.2.0.11", "b2 10.2.0.12"))
		p := newParts(t, newFakeDP(t), cfg, 0)
		probes := p.withProbes(cfg)
		p.run()
		p.resolve()
		if got := probes.paths[addr("10.2.0.12")]; !got.Usable || got.IfIndex != 7 || got.DMAC != linkOf(addr("10.2.0.12"), true).DMAC {
			t.Errorf("the way of probes is %+v", got)
		}
		backends := []string{"10.1.0.11", "10.1.0.12", "10.2.0.11", "10.2.0.12"}
		for _, b := range backends {
			p.tell(lb.Healthy, "192.0.2.9", b)
		}
		for _, b := range backends[:3] {
			p.tell(lb.Healthy, "192.0.2.10", b)
		}
		p.wantChosen("a1 a2 b1")
		p.tell(lb.Healthy, "192.0.2.10", "10.2.0.12")
		p.wantChosen("a1 a2 b1 b2")
		p.tell(lb.Unhealthy, "192.0.2.9", "10.1.0.11")
		p.wantChosen("a2 b1 b2")
		var got []string
		for _, h := range p.c.RuleHealth("web", "a1", addr("10.1.0.11")) {
			got = append(got, fmt.Sprint(h.Rules, h.State))
		}
		if want := []string{"[second]UNHEALTHY", "[other-port web-vip]HEALTHY"}; !slices.Equal(got, want) {
			t.Errorf("health by rule %v, want %v", got, want)
		}
		cfg2 := testConfig(twoFamilies, group("web-b", "b1 10.2.0.11", "b2 10.2.0.12"))
		cfg2.Rules = slices.DeleteFunc(cfg2.Rules, func(r lb.ForwardingRule) bool { return r.Name == "second" })
		check(t, p.c.Reload(t.Context(), cfg2))
		p.wantChosen("a1 a2 b1 b2")
		// A new address is taken to be as the member was, until it is probed.
		cfg3 := testConfig(twoFamilies, group("web-b", "b1 10.2.0.11", "b2 10.2.0.12"))
		cfg3.Rules = append(cfg3.Rules, testRule("third", "192.0.2.11", "web", 80))
		check(t, p.c.Reload(t.Context(), cfg3))
		p.wantChosen("a1 a2 b1 b2")
	})
}

// TestHealthOutlivesTheDaemon starts a second controller on what the first left:
// a backend is at each VIP what it was as a member.
func TestHealthOutlivesTheDaemon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg, dp := testConfig(twoFamilies), newFakeDP(t)
		first := newParts(t, dp, cfg, 0)
		first.withProbes(cfg)
		first.run()
		first.resolve()
		for _, b := range []string{"10.1.0.11", "10.1.0.12", "10.2.0.11"} {
			first.tell(lb.Healthy, "192.0.2.9", b)
			first.tell(lb.Healthy, "192.0.2.10", b)
		}
		first.tell(lb.Unhealthy, "192.0.2.9", "10.1.0.12")
		first.wantChosen("a1 b1")
		second := newParts(t, dp, cfg, 0)
		second.withProbes(cfg)
		want := map[string]lb.HealthState{"10.1.0.11": lb.Healthy, "10.1.0.12": lb.Unhealthy, "10.2.0.11": lb.Healthy}
		for target, status := range second.health.status {
			if state, ok := want[target.Via.Backend.String()]; ok && status.State != state {
				t.Errorf("%s starts %s, want %s", target, status.State, state)
			}
		}
	})
}
