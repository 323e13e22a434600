package loader

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// datagram cuts a UDP datagram of 4000 bytes into the three fragments that a link
// with an MTU of 1500 makes of it.
func datagram(t *testing.T, src, dst netip.AddrPort, base ...testutil.Mutate) (out []frame) {
	t.Helper()
	payload := make([]byte, 3992)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	whole := testutil.UDP(t, src, dst, testutil.Payload(payload))
	for i := range 3 {
		out = append(out, func(mutate ...testutil.Mutate) []byte {
			all := testutil.Fragments(t, whole, 1448, append(base[:len(base):len(base)], mutate...)...)
			if len(all) != 3 {
				t.Fatalf("%d fragments", len(all))
			}
			return all[i]
		})
	}
	return out
}

// fragmentFamily is a client of zone a and the fixture's VIPs.
type fragmentFamily struct {
	name              string
	client, vip, vipB netip.Addr
}

var fragmentFamilies = []fragmentFamily{
	{"ipv4", testutil.ZoneAClient4, testutil.VIP4, testutil.VIP4B},
	{"ipv6", testutil.ZoneAClient6, testutil.VIP6, testutil.VIP6B},
}

// All fragments go to one backend, byte for byte as they came, in whatever order:
// by hash, and by the one entry that they share.
func TestFragmentsOfADatagramGoToOneBackend(t *testing.T) {
	d := newFixture(t)
	for _, f := range fragmentFamilies {
		for _, base := range [][]testutil.Mutate{nil, {testutil.VLAN(7, 8), serviceTag}} {
			whole := datagram(t, ap(f.client, 4000), ap(f.vip, 53), base...)
			for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}, {1, 1, 0, 0, 2}, {2, 1}} {
				forgetFlows(d)
				newFlowsGoTo(t, d, memberA)
				send(t, d, whole[order[0]], started(memberA, ruleUDPAll, zoneA, newOther))
				newFlowsGoTo(t, d, memberB)
				send(t, d, whole[order[1]], followed(memberA, ruleUDPAll, zoneA, confirmed))
				for _, i := range order[2:] {
					send(t, d, whole[i], followed(memberA, ruleUDPAll, zoneA))
				}
				if n := usedFlows(d); n != 1 {
					t.Errorf("%s, %v: %d entries", f.name, order, n)
				}
			}
		}
	}
}

// Nothing is remembered of a datagram: those that overlap, are never completed
// or lie about their place share the one entry of the two hosts.
func TestFragmentsCostOneEntryForTwoHosts(t *testing.T) {
	d := newFixture(t)
	for _, f := range fragmentFamilies {
		forgetFlows(d)
		for n := range 200 {
			f := otherIP(t, f.client, f.vip, layers.IPProtocolUDP, make([]byte, 16), func(p *testutil.Packet) {
				testutil.Fragment([]uint16{0, 1, 1, 185, 8190}[n%5], n%5 < 4)(p)
				testutil.FragmentID(uint16(n))(p)
			})
			trace, _, err := d.Run(f())
			if err != nil || trace.Verdict != VerdictTX || trace.Member != memberA {
				t.Fatalf("fragment %d: %+v, %v", n, trace, err)
			}
		}
		if n := usedFlows(d); n != 1 {
			t.Errorf("%s: %d entries, want 1", f.name, n)
		}
	}
}

// The port of a first fragment says which rule it is for. The others are of no
// port: a rule must take all.
func TestRulesOfFragments(t *testing.T) {
	d := newFixture(t)
	must(t, d.SetRule(ruleTCPAll, fixtureRule(ruleTCPAll)))
	client, other := ap(testutil.ZoneAClient4, 4000), testutil.ZoneAClient6
	single := netip.PrefixFrom(testutil.VIP4, 32)
	ports := []FrontendPort{{Protocol: 6, Port: 80, Rule: ruleTCP80}, {Protocol: 17, Port: 53, Rule: ruleTCP81}}
	must(t, d.SetRule(ruleTCP81, fixtureRule(ruleTCP81)))
	portOnly := Frontend{Address: single, Ports: ports}
	all := Frontend{Address: single, Ports: ports, TCP: ruleTCPAll, UDP: ruleUDPAll, L3: ruleL3}
	udpAll := Frontend{Address: single, UDP: ruleUDPAll}
	l3 := Frontend{Address: single, L3: ruleL3}
	first, later := testutil.Fragment(0, true), testutil.Fragment(185, true)
	bytes := func(proto layers.IPProtocol, payload string, m ...testutil.Mutate) frame {
		return otherIP(t, client.Addr(), testutil.VIP4, proto, []byte(payload), m...)
	}
	dns, web := ap(testutil.VIP4, 53), ap(testutil.VIP4, 80)
	const wanted, unknown = lbReasonREASON_NO_RULE, lbReasonREASON_FRAGMENT

	tests := []struct {
		name     string
		frontend Frontend
		frame    frame
		rule     uint32
		reason   lbReason
	}{
		{"a first fragment takes its port's rule", all, udp(t, client, dns, first), ruleTCP81, 0},
		{"a first tcp fragment takes its port's rule", all, tcp(t, client, web, first), ruleTCP80, 0},
		{"a first fragment of another port takes the rule for all", all, udp(t, client, ap(testutil.VIP4, 54), first), ruleUDPAll, 0},
		{"a later fragment takes the rule for all ports", all, udp(t, client, dns, later), ruleUDPAll, 0},
		{"a later tcp fragment takes the rule for all ports", all, tcp(t, client, web, later), ruleTCPAll, 0},
		{"the last fragment takes the rule for all ports", udpAll, udp(t, client, dns, testutil.Fragment(9, false)), ruleUDPAll, 0},
		{"a later fragment takes L3_DEFAULT", l3, udp(t, client, dns, later), ruleL3, 0},
		{"a later fragment is dropped where only ports have rules", portOnly, udp(t, client, dns, later), 0, unknown},
		{"a later tcp fragment is dropped where only udp has a rule", udpAll, tcp(t, client, web, later), 0, unknown},
		{"a later fragment of any protocol", l3, bytes(layers.IPProtocolESP, "12345678", later), ruleL3, 0},
		{"a later fragment of a protocol without a rule", udpAll, bytes(layers.IPProtocolESP, "12345678", later), 0, unknown},
		{"a first fragment of a port without a rule", portOnly, udp(t, client, ap(testutil.VIP4, 54), first), 0, wanted},
		{"a first fragment of a protocol without a rule", udpAll, bytes(layers.IPProtocolGRE, "12345678", first), 0, wanted},
		{"a first fragment that is too short for its port", portOnly, bytes(layers.IPProtocolUDP, "\x0f\xa0\x00", first), 0, unknown},
		{"too short for its port, where all ports have a rule", all, bytes(layers.IPProtocolUDP, "\x0f\xa0\x00", first), ruleUDPAll, 0},
		{"a first tcp fragment of eight bytes", all, bytes(layers.IPProtocolTCP, "\x0f\xa0\x00\x50\x00\x00\x00\x00", first), ruleTCP80, 0},
		{"a first fragment of an echo request without L3_DEFAULT", udpAll, echo(t, client.Addr(), testutil.VIP4, first), 0, wanted},
		{"a later fragment of an echo request without L3_DEFAULT", udpAll, echo(t, client.Addr(), testutil.VIP4, later), 0, unknown},
		{"a first fragment of an echo request under L3_DEFAULT", all, echo(t, client.Addr(), testutil.VIP4, first), ruleL3, 0},
		{"a later fragment of an echo request under L3_DEFAULT", all, echo(t, client.Addr(), testutil.VIP4, later), ruleL3, 0},
		{"an icmp fragment too short for a header", all, bytes(layers.IPProtocolICMPv4, "\x08", first), ruleL3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			must(t, d.SetFrontends([]Frontend{tt.frontend}))
			if tt.rule == 0 {
				send(t, d, tt.frame, dropped(tt.reason, 0, 0))
				return
			}
			send(t, d, tt.frame, started(memberA, tt.rule, zoneA, newOther))
			send(t, d, tt.frame, followed(memberA, tt.rule, zoneA, confirmed))
		})
	}
	// What the fragment header of IPv6 names is the same in all fragments, so
	// it is the protocol, even where it is one more extension header.
	single = netip.PrefixFrom(testutil.VIP6, 128)
	behind := udp(t, ap(other, 4000), ap(testutil.VIP6, 53), first, testutil.DestOptions(0))
	must(t, d.SetFrontends([]Frontend{{Address: single, UDP: ruleUDPAll}}))
	send(t, d, behind, dropped(lbReasonREASON_NO_RULE, 0, 0))
	must(t, d.SetFrontends([]Frontend{{Address: single, UDP: ruleUDPAll, L3: ruleL3}}))
	send(t, d, behind, started(memberA, ruleL3, zoneA, newOther))
	send(t, d, udp(t, ap(other, 4000), ap(testutil.VIP6, 53), testutil.HopByHop(0), first), started(memberA, ruleUDPAll, zoneA, newOther))
}

// A fragment follows an entry of its own rule only: the port's and that for all
// ports may be of different services.
func TestFragmentsFollowTheirOwnRuleOnly(t *testing.T) {
	d := newFixture(t)
	must(t, d.SetRule(ruleTCP81, fixtureRule(ruleTCP81)))
	for _, f := range fragmentFamilies {
		must(t, d.SetFrontends([]Frontend{{
			Address: netip.PrefixFrom(f.vip, f.vip.BitLen()), UDP: ruleUDPAll,
			Ports: []FrontendPort{{Protocol: 17, Port: 53, Rule: ruleTCP81}},
		}}))
		whole := datagram(t, ap(f.client, 4000), ap(f.vip, 53))
		newFlowsGoTo(t, d, memberA)
		send(t, d, whole[0], started(memberA, ruleTCP81, zoneA, newOther))
		newFlowsGoTo(t, d, memberB)
		send(t, d, whole[1], started(memberB, ruleUDPAll, zoneA, newOther))
		send(t, d, whole[2], followed(memberB, ruleUDPAll, zoneA, confirmed))
		newFlowsGoTo(t, d, memberA)
		send(t, d, whole[0], started(memberA, ruleTCP81, zoneA, newOther))
	}
}

// Whole datagrams have entries of their own; with a session key, fragments share
// theirs (semantics.md 1.6, 1.11).
func TestFragmentsAndWholeDatagrams(t *testing.T) {
	d := newFixture(t)
	for _, f := range fragmentFamilies {
		whole := udp(t, ap(f.client, 4000), ap(f.vip, 53))
		fragments := datagram(t, ap(f.client, 4000), ap(f.vip, 53))
		must(t, d.SetRule(ruleUDPAll, fixtureRule(ruleUDPAll)))
		afterSwitch(t, d, whole, fragments[0], ruleUDPAll, false, newOther)
		for _, k := range sessionKinds {
			changeRule(t, d, ruleUDPAll, func(r *Rule) { r.Kind, r.Affinity = k.kind, k.affinity })
			afterSwitch(t, d, whole, fragments[1], ruleUDPAll, true, newOther)
			afterSwitch(t, d, fragments[2], whole, ruleUDPAll, true, newOther)
		}
	}
}

// A SYN is a new connection in pieces too (semantics.md 1.2).
func TestFirstFragmentWithASYNIsANewConnection(t *testing.T) {
	d := newFixture(t)
	for _, f := range fragmentFamilies {
		cut := testutil.Fragment(0, true)
		begin := syn(t, ap(f.client, 4000), ap(f.vip, 80), cut)
		must(t, d.SetRule(ruleTCP80, fixtureRule(ruleTCP80)))
		afterSwitch(t, d, begin, begin, ruleTCP80, false, newSYN)
		afterSwitch(t, d, begin, tcp(t, ap(f.client, 4000), ap(f.vip, 80), cut), ruleTCP80, true, 0)
		afterSwitch(t, d, begin, syn(t, ap(f.client, 4000), ap(f.vip, 80), testutil.Flags("SA"), cut), ruleTCP80, true, 0)
		changeRule(t, d, ruleTCP80, func(r *Rule) { r.Kind, r.Affinity = FlowClientIP, AffinityClientIP })
		afterSwitch(t, d, begin, begin, ruleTCP80, true, newSYN)
	}
}

// The choice is by addresses and protocol for the first fragment too (semantics.md
// 1.4).
func TestFragmentsAreHashedWithoutPorts(t *testing.T) {
	d := newSelectFixture(t, Options{})
	for _, pair := range [][2]netip.Addr{{testutil.ZoneAClient4, testutil.VIP4}, {testutil.ZoneAClient6, testutil.VIP6}} {
		later := chosen(t, d, testutil.UDP(t, ap(pair[0], 1), ap(pair[1], 2), testutil.Fragment(185, false)))
		other := 0
		for port := uint16(1); port <= 50; port++ {
			src, dst := ap(pair[0], port), ap(pair[1], 53)
			if got := chosen(t, d, testutil.UDP(t, src, dst, testutil.Fragment(0, true))); got != later {
				t.Errorf("first fragment from port %d: member %d, later ones %d", port, got, later)
			}
			other += differs(later, chosen(t, d, testutil.UDP(t, src, dst)))
		}
		if other < 40 {
			t.Errorf("only %d of 50 whole datagrams go elsewhere: the test shows nothing", other)
		}
	}
	// The lone fragment of IPv6 (RFC 6946) is one.
	lone := testutil.Fragment(0, false)
	a := chosen(t, d, testutil.UDP(t, ap(testutil.ZoneAClient6, 1), ap(testutil.VIP6, 53), lone))
	b := chosen(t, d, testutil.UDP(t, ap(testutil.ZoneAClient6, 2), ap(testutil.VIP6, 53), testutil.Fragment(9, true)))
	if a != b {
		t.Errorf("a lone fragment goes to member %d, others to %d", a, b)
	}
}

// Lengths that disagree pass the fragment on as any other packet.
func TestFragmentsThatLieAboutLengthsArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	v4 := testutil.UDP(t, ap(testutil.ZoneAClient4, 1), ap(testutil.VIP4, 53), testutil.Fragment(0, true))
	v4[17] = 200 // longer than the frame
	v6 := testutil.UDP(t, ap(testutil.ZoneAClient6, 1), ap(testutil.VIP6, 53), testutil.Fragment(9, true))
	v6[18], v6[19] = 0, 7 // the fragment header does not fit
	cut := v6[:14+40+7]
	for _, b := range [][]byte{v4, v6, cut} {
		send(t, d, raw(b), passed(lbReasonREASON_MALFORMED))
	}
}
