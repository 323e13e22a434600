package loader

import (
	"net/netip"
	"testing"

	"l4lb/internal/testutil"
)

// portUnreachable is what a backend or a router answers a client's packet with.
func portUnreachable(tb testing.TB, from, client netip.Addr, about []byte) frame {
	kind, code := uint8(3), uint8(3)
	if client.Is6() {
		kind, code = 1, 4
	}
	return icmpError(tb, from, client, kind, code, about)
}

func icmpError(tb testing.TB, from, to netip.Addr, kind, code uint8, about []byte) frame {
	return func(mutate ...testutil.Mutate) []byte {
		return testutil.ICMPError(tb, from, to, kind, code, [4]byte{}, about, mutate...)
	}
}

// ICMP port unreachable that passes by is counted to the backend of the flow that
// it quotes, and goes on untouched.
func TestPortUnreachableIsCountedToItsBackend(t *testing.T) {
	for _, family := range []struct {
		name                          string
		vip, client, stranger, router netip.Addr
	}{
		{"IPv4", testutil.VIP4, testutil.ZoneAClient4, testutil.Outside4, testutil.Router4},
		{"IPv6", testutil.VIP6, testutil.ZoneAClient6, testutil.Outside6, testutil.Router6},
	} {
		t.Run(family.name, func(t *testing.T) {
			d := newFixture(t)
			changeRules(t, d, func(r *Rule) { r.Signals = true })
			client := ap(family.client, 4000)
			dns, web := udp(t, client, ap(family.vip, 53)), syn(t, client, ap(family.vip, 80))
			run(t, d, dns())
			run(t, d, web())
			newFlowsGoTo(t, d, memberB) // the entry counts, not the choice
			count := func(rule uint32) uint64 {
				t.Helper()
				s, err := d.Signals(d.Member(memberA).StatBase + rule)
				must(t, err)
				return s.Unreachable
			}
			pass := func(f frame) {
				t.Helper()
				in := f()
				trace, out, err := d.Run(f())
				if diff := testutil.Diff(in, out); diff != "" || err != nil || trace != (Trace{Verdict: VerdictPass}) {
					t.Errorf("%+v, %v\n%s", trace, err, diff)
				}
			}
			pass(portUnreachable(t, family.vip, family.client, dns()))
			pass(portUnreachable(t, family.router, family.client, dns()))
			if n := count(ruleUDPAll); n != 2 {
				t.Errorf("%d errors about the datagram, want 2", n)
			}
			pass(portUnreachable(t, family.vip, family.client, web()))
			if n := count(ruleTCP80); n != 1 {
				t.Errorf("%d errors about the SYN, want 1", n)
			}

			before := readCounters(t, d)
			others := map[string]frame{
				"a flow that is not known":       portUnreachable(t, family.vip, family.client, udp(t, ap(family.client, 4001), ap(family.vip, 53))()),
				"a packet for somebody else":     portUnreachable(t, family.stranger, family.client, udp(t, client, ap(family.stranger, 53))()),
				"another client than it went to": portUnreachable(t, family.vip, family.stranger, dns()),
				"another error":                  icmpError(t, family.vip, family.client, 1, 0, dns()),
				"a quote that is cut off":        raw(portUnreachable(t, family.vip, family.client, dns())()[:70]),
			}
			if family.client.Is4() {
				others["another error"] = icmpError(t, family.vip, family.client, 3, 1, dns())
				others["a quote that is cut off"] = raw(portUnreachable(t, family.vip, family.client, dns())()[:50])
			}
			for name, f := range others {
				run(t, d, f())
				for counter := range readCounters(t, d).since(before) {
					if counter != "reason " && counter != "reason MALFORMED" {
						t.Errorf("%s: %s counts", name, counter)
					}
				}
			}

			changeRules(t, d, func(r *Rule) { r.Signals = false })
			pass(portUnreachable(t, family.vip, family.client, dns()))
			if n := count(ruleUDPAll); n != 2 {
				t.Errorf("%d errors where nobody wants them counted, want 2", n)
			}

			forgetFlows(d)
			newFlowsGoTo(t, d, memberA)
			changeRules(t, d, func(r *Rule) { r.Signals, r.Kind, r.Affinity = true, FlowClientIP, AffinityClientIP })
			run(t, d, dns())
			pass(portUnreachable(t, family.vip, family.client, dns()))
			if n := count(ruleUDPAll); n != 3 {
				t.Errorf("%d errors with that about a session, want 3", n)
			}
		})
	}
}
