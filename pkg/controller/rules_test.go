package controller

import (
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

func webVIP(f func(*lb.ForwardingRule)) func(*lb.Config) {
	return func(cfg *lb.Config) { f(cfg.Rule("web-vip")) }
}

// Which changes of a rule end its entries.
func TestRuleChanges(t *testing.T) {
	other := func(cfg *lb.Config) { withOther(cfg) }
	tests := []struct {
		name          string
		edit          func(*lb.Config)
		epoch, shared bool
	}{
		{"nothing", func(*lb.Config) {}, false, false},
		{"a port more", webVIP(func(r *lb.ForwardingRule) { r.Ports = []uint16{80, 443, 8080} }), false, false},
		{"all ports", webVIP(func(r *lb.ForwardingRule) { r.Ports, r.AllPorts = nil, true }), false, false},
		{"a port less", webVIP(func(r *lb.ForwardingRule) { r.Ports = []uint16{80} }), true, false},
		{"global access", webVIP(func(r *lb.ForwardingRule) { r.AllowGlobalAccess = true }), false, false},
		{"another address", webVIP(func(r *lb.ForwardingRule) { r.Address = testRule("", "192.0.2.99", "").Address }), true, false},
		{"another protocol", webVIP(func(r *lb.ForwardingRule) { r.Protocol = lb.RuleUDP }), true, false},
		{"another service", webVIP(func(r *lb.ForwardingRule) { r.Service = "other" }), true, false},
		{"idle timeout", web(func(s *lb.Service) { s.Tracking.IdleTimeout = time.Second }), false, false},
		{"affinity of connections", web(func(s *lb.Service) { s.Affinity = lb.AffinityClientIP }), false, false},
		{"another tracking key", web(func(s *lb.Service) {
			s.Affinity, s.Tracking.Mode = lb.AffinityClientIP, lb.PerSession
		}), true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, testConfig(other))
			before := w.rule("web-vip")
			w.reload(testConfig(other, tt.edit))
			after := w.rule("web-vip")
			w.want("epoch changed", after.Epoch != before.Epoch, tt.epoch)
			if after.Service == before.Service {
				w.want("service epoch changed", after.ServiceEpoch != before.ServiceEpoch, tt.shared)
			}
			w.want("global access", after.GlobalAccess, w.e.cfg.Rule("web-vip").AllowGlobalAccess)
			w.want("idle", after.IdleTicks, w.dp.Ticks(w.e.cfg.Service("web").Tracking.IdleTimeout))
			w.want("epoch of another rule", w.rule("other-vip").Epoch, 1)
		})
	}
}

// A rule that goes ends its entries and gives its id back.
func TestRuleRemoved(t *testing.T) {
	w := newWorld(t, testConfig(withOther))
	id := w.id(loader.NameRule, "web-vip")
	w.reload(testConfig(withOther, func(cfg *lb.Config) { cfg.Rules = cfg.Rules[1:] }))
	w.want("epoch", w.dp.rules[id].Epoch, 2)
	w.want("name", w.dp.names[loader.NameRule][id], "")
	w.want("addresses", len(w.dp.fronts), 1)
	w.want("selection goes on", w.chosen("web", ""), "a1 a2 b1 b2")
}

// PER_SESSION entries are shared by the rules of a service, whenever these came.
func TestRulesOfAServiceShareItsEpoch(t *testing.T) {
	sticky := web(func(s *lb.Service) { s.Affinity, s.Tracking.Mode = lb.AffinityClientIP, lb.PerSession })
	two := func(cfg *lb.Config) { cfg.Rules = append(cfg.Rules, testRule("second", "192.0.2.12", "web", 80)) }
	w := newWorld(t, testConfig(sticky))
	epoch := w.rule("web-vip").ServiceEpoch
	for range 3 { // on ids with a past
		w.reload(testConfig(sticky, two))
		w.want("second rule's", w.rule("second").ServiceEpoch, epoch)
		w.reload(testConfig(sticky))
		w.e.ruleIDs.next = 1
	}
	w.reload(testConfig(sticky, two, web(func(s *lb.Service) { s.Affinity = lb.AffinityClientIPProto })))
	w.want("first rule's after a change of key", w.rule("web-vip").ServiceEpoch, epoch+1)
	w.want("second rule's after a change of key", w.rule("second").ServiceEpoch, epoch+1)

	w.dp.restart()
	w.start(testConfig(sticky, two, web(func(s *lb.Service) { s.Affinity = lb.AffinityClientIPProto })))
	w.want("after a restart", w.rule("second").ServiceEpoch, epoch+1)
	w.want("after a restart", w.rule("web-vip").ServiceEpoch, epoch+1)
}

// Rules of a service have counters of their own, which start at zero.
func TestCounterSlots(t *testing.T) {
	two := func(cfg *lb.Config) { cfg.Rules = append(cfg.Rules, testRule("second", "192.0.2.12", "web", 80)) }
	w := newWorld(t, testConfig(two))
	w.want("slots", [2]uint16{w.rule("web-vip").StatSlot, w.rule("second").StatSlot}, [2]uint16{0, 1})
	a1 := w.id(loader.NameMember, "web/a1/10.1.0.11")
	w.want("first use", w.dp.cleared[a1*8+1], 1)

	w.reload(testConfig(two, func(cfg *lb.Config) { cfg.Rules[0].Name = "renamed" }))
	w.want("slots", [2]uint16{w.rule("renamed").StatSlot, w.rule("second").StatSlot}, [2]uint16{0, 1})
	w.want("cleared for its new rule", w.dp.cleared[a1*8], 2)
	w.want("not cleared", w.dp.cleared[a1*8+1], 1)

	// A rule that comes from another service takes the lowest that is free.
	third := func(cfg *lb.Config) {
		withOther(cfg)
		cfg.Rules = append(cfg.Rules, testRule("third", "192.0.2.13", "other", 80))
	}
	w.reload(testConfig(two, third))
	w.want("slot at other", w.rule("third").StatSlot, 1)
	w.reload(testConfig(third, func(cfg *lb.Config) { cfg.Rule("third").Service = "web" }))
	w.want("slot at web", w.rule("third").StatSlot, 1)
}

// Frontends by kind of rule.
func TestFrontends(t *testing.T) {
	w := newWorld(t, testConfig(func(cfg *lb.Config) {
		udp := testRule("udp", "192.0.2.10", "web")
		udp.Protocol, udp.AllPorts = lb.RuleUDP, true
		rest := testRule("rest", "192.0.2.10", "web")
		rest.Protocol = lb.RuleL3Default
		tcp := testRule("tcp", "192.0.2.11", "web")
		tcp.AllPorts = true
		cfg.Rules = append(cfg.Rules, udp, rest, tcp)
	}))
	w.want("addresses", len(w.dp.fronts), 2)
	first, second := w.dp.fronts[0], w.dp.fronts[1]
	w.want("udp", first.UDP, w.id(loader.NameRule, "udp"))
	w.want("rest", first.L3, w.id(loader.NameRule, "rest"))
	w.want("ports", first.Ports, []loader.FrontendPort{
		{Protocol: 6, Port: 80, Rule: w.id(loader.NameRule, "web-vip")},
		{Protocol: 6, Port: 443, Rule: w.id(loader.NameRule, "web-vip")},
	})
	w.want("tcp", second.TCP, w.id(loader.NameRule, "tcp"))
}

// A service that is replaced never leaves its rule without backends in between:
// the fake data plane sees every write.
func TestServiceReplacedUnderItsRule(t *testing.T) {
	w := newWorld(t, testConfig())
	rename := func(cfg *lb.Config) { cfg.Services[0].Name, cfg.Rules[0].Service = "new", "new" }
	drops := 0
	w.dp.afterWrite = func() {
		for id := range w.dp.inForce() {
			if w.dp.picksOf(uint32(w.dp.rules[id].Service))[0] == 0 {
				drops++
			}
		}
	}
	w.config(testConfig(rename))
	w.set(lb.Healthy, w.instances()...)
	w.reconcile()
	w.want("writes after which new connections drop", drops, 0)
	w.wantChosen("new", "", "a1 a2 b1 b2")
	w.want("old service", w.id(loader.NameService, "web"), 0)
}
