package controller

import (
	"net/netip"
	"testing"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// frontendOf is what was written for an address.
func (w *world) frontendOf(address string) loader.Frontend {
	w.t.Helper()
	for _, f := range w.dp.fronts {
		if f.Address == netip.MustParsePrefix(address) {
			return f
		}
	}
	w.t.Fatalf("no frontend %s", address)
	return loader.Frontend{}
}

// A packet for a single address inside a /96 matches the rules of both; the
// address's own go first where they are equally specific.
func TestAddressInsideAPrefixHasItsRules(t *testing.T) {
	rule := func(name, address string, protocol lb.RuleProtocol, ports ...uint16) lb.ForwardingRule {
		r := testRule(name, "2001:db8::", "web", ports...)
		r.Address, r.Protocol, r.AllPorts = netip.MustParsePrefix(address), protocol, len(ports) == 0
		return r
	}
	w := newWorld(t, testConfig(func(cfg *lb.Config) {
		cfg.Rules = []lb.ForwardingRule{
			rule("wide", "2001:db8::/96", lb.RuleTCP, 80, 443),
			rule("wide-udp", "2001:db8::/96", lb.RuleUDP),
			rule("inner", "2001:db8::5/128", lb.RuleTCP, 80),
			rule("inner-rest", "2001:db8::5/128", lb.RuleL3Default),
			rule("elsewhere", "2001:db8:1::5/128", lb.RuleTCP, 80),
		}
	}))
	id := func(name string) uint32 { return w.id(loader.NameRule, name) }
	f := w.frontendOf("2001:db8::5/128")
	w.want("all UDP ports", f.UDP, id("wide-udp"))
	w.want("everything else", f.L3, id("inner-rest"))
	w.want("ports", len(f.Ports), 2)
	for _, p := range f.Ports {
		w.want("rule of a port", p.Rule, map[uint16]uint32{80: id("inner"), 443: id("wide")}[p.Port])
	}
	w.want("all UDP ports of an address outside", w.frontendOf("2001:db8:1::5/128").UDP, 0)
	w.want("ports of the /96", len(w.frontendOf("2001:db8::/96").Ports), 2)
}
