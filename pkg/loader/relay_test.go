package loader

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// relayFamily has a client of zone a, and a router of zone b that complains about
// what the client is sent.
type relayFamily struct {
	fragmentFamily
	router, other netip.Addr
	types         []uint8 // of errors that are relayed
}

var relayFamilies = []relayFamily{
	{fragmentFamilies[0], testutil.ZoneBClient4, testutil.Outside4, []uint8{3, 11, 12}},
	{fragmentFamilies[1], testutil.ZoneBClient6, testutil.Outside6, []uint8{1, 2, 3, 4}},
}

// complaint is an error about a frame, with as much of it as n says; 0 for all.
func (f relayFamily) complaint(t *testing.T, kind uint8, quoted []byte, n int, base ...testutil.Mutate) frame {
	if n != 0 {
		quoted = quoted[:14+n]
	}
	return func(mutate ...testutil.Mutate) []byte {
		return testutil.ICMPError(t, f.router, f.vip, kind, 0, [4]byte{0, 0, 5, 0}, quoted, append(slices.Clone(base), mutate...)...)
	}
}

// header is the length of the quoted packet's IP header.
func (f relayFamily) header() int {
	if f.vip.Is4() {
		return 20
	}
	return 40
}

// relayed is the outcome of an error that reaches a backend.
func relayed(member, rule uint32, zone uint8, flow TraceFlow) outcome {
	return outcome{Trace: Trace{Verdict: VerdictTX, Rule: rule, Member: member, Flow: flow, Zone: zone}}
}

// An error reaches the backend that has the flow of the packet it quotes, as it
// came but for the link addresses, and leaves the entry as it is.
func TestICMPErrorsReachTheBackendOfTheFlow(t *testing.T) {
	d := newFixture(t)
	for _, f := range relayFamilies {
		for _, kind := range f.types {
			for rule, request := range map[uint32]frame{
				ruleTCP80:  tcp(t, ap(f.client, 4000), ap(f.vip, 80)),
				ruleUDPAll: udp(t, ap(f.client, 4000), ap(f.vip, 53)),
			} {
				answer := udp(t, ap(f.vip, 53), ap(f.client, 4000), testutil.Payload(make([]byte, 64)))()
				if rule == ruleTCP80 {
					answer = tcp(t, ap(f.vip, 80), ap(f.client, 4000), testutil.Payload(make([]byte, 64)))()
				}
				forgetFlows(d)
				newFlowsGoTo(t, d, memberA)
				send(t, d, request, started(memberA, rule, zoneA, newOther))
				newFlowsGoTo(t, d, memberB)
				must(t, d.SetClock(fixtureStart+fixtureIdle/2))
				before := slices.Clone(d.flows4)
				before6 := slices.Clone(d.flows6)
				want := relayed(memberA, rule, zoneA, TraceHit)
				send(t, d, f.complaint(t, kind, answer, 0), want)
				send(t, d, f.complaint(t, kind, answer, f.header()+8), want)
				send(t, d, f.complaint(t, kind, answer, f.header()+8, testutil.VLAN(7)), want)
				if !slices.Equal(before, d.flows4) || !slices.Equal(before6, d.flows6) {
					t.Errorf("%s, type %d: the flow table changed", f.name, kind)
				}
				must(t, d.SetClock(fixtureStart))
				send(t, d, request, followed(memberA, rule, zoneA, confirmed))
			}
		}
	}
}

// A gateway that never saw the flow sends the error where it would send the
// flow's packets, and remembers nothing.
func TestICMPErrorsOfUnknownFlowsGoWhereTheFlowWould(t *testing.T) {
	d := newSelectFixture(t, Options{})
	for _, f := range relayFamilies {
		for _, a := range affinities {
			changeRules(t, d, func(r *Rule) { r.Affinity = a.affinity })
			used := map[uint32]bool{}
			for port := uint16(1); port <= 60; port++ {
				client, vip := ap(f.client, port), ap(f.vip, 80)
				member := chosen(t, d, testutil.TCP(t, client, vip))
				forgetFlows(d)
				answer := testutil.TCP(t, vip, client)
				send(t, d, f.complaint(t, f.types[0], answer, f.header()+8), relayed(member, ruleL3, 0, TraceNone))
				used[member] = true
			}
			if many := len(used) > 10; many != a.affinity.hashesPorts() {
				t.Errorf("%s %s: %d members were used", f.name, a.name, len(used))
			}
		}
		// The same for a protocol without ports, and for later fragments.
		esp := testutil.IP(t, f.client, f.vip, layers.IPProtocolESP, make([]byte, 20))
		member := chosen(t, d, esp)
		forgetFlows(d)
		esp = testutil.IP(t, f.vip, f.client, layers.IPProtocolESP, make([]byte, 20))
		send(t, d, f.complaint(t, f.types[1], esp, f.header()+8), relayed(member, ruleL3, 0, TraceNone))
		if n := usedFlows(d); n != 0 {
			t.Errorf("%s: %d entries", f.name, n)
		}
	}
}

func (a Affinity) hashesPorts() bool { return a == AffinityFiveTuple }

// The quoted packet may have options, extension headers and a part of a datagram.
func TestQuotedPacketsOfEveryShape(t *testing.T) {
	d := newFixture(t)
	for _, f := range relayFamilies {
		vip, client := ap(f.vip, 53), ap(f.client, 4000)
		request := udp(t, client, vip)
		shapes := map[string][]byte{
			"plain":                     testutil.UDP(t, vip, client),
			"a first fragment":          testutil.UDP(t, vip, client, testutil.Fragment(0, true)),
			"an empty datagram":         testutil.UDP(t, vip, client, testutil.Payload(nil)),
			"a wrong transport content": testutil.UDP(t, vip, client, testutil.TTL(0)),
		}
		if f.vip.Is4() {
			shapes["options"] = testutil.UDP(t, vip, client, ipOptions(options8))
			shapes["options up to the largest header"] = testutil.UDP(t, vip, client, ipOptions([]byte{7, 39, 4, 36: 0, 38: 0, 39: 1}))
		} else {
			shapes["hop-by-hop and destination options"] = testutil.UDP(t, vip, client, testutil.HopByHop(1), testutil.DestOptions(0))
			shapes["an authentication header"] = testutil.UDP(t, vip, client, testutil.AH(3))
			shapes["six extension headers"] = testutil.UDP(t, vip, client, destOptions(6)...)
			shapes["options around a fragment header"] = testutil.UDP(t, vip, client, testutil.HopByHop(0), testutil.Fragment(0, true), testutil.DestOptions(1))
		}
		newFlowsGoTo(t, d, memberA)
		send(t, d, request, started(memberA, ruleUDPAll, zoneA, newOther))
		newFlowsGoTo(t, d, memberB)
		for name, quoted := range shapes {
			t.Run(f.name+", "+name, func(t *testing.T) {
				send(t, d, f.complaint(t, f.types[0], quoted, 0), relayed(memberA, ruleUDPAll, zoneA, TraceHit))
				send(t, d, f.complaint(t, f.types[0], quoted, 0, testutil.VLAN(1, 2), serviceTag), relayed(memberA, ruleUDPAll, zoneA, TraceHit))
			})
		}
		// A later fragment has no ports: what is known is the fragments' entry.
		later := f.complaint(t, f.types[0], testutil.UDP(t, vip, client, testutil.Fragment(9, true)), 0)
		send(t, d, later, relayed(memberB, ruleUDPAll, zoneA, TraceNone))
		send(t, d, udp(t, client, vip, testutil.Fragment(9, true)), started(memberB, ruleUDPAll, zoneA, newOther))
		newFlowsGoTo(t, d, memberA)
		send(t, d, later, relayed(memberB, ruleUDPAll, zoneA, TraceHit))
		web := testutil.TCP(t, ap(f.vip, 80), client, testutil.Fragment(9, true))
		send(t, d, f.complaint(t, f.types[0], web, 0), dropped(lbReasonREASON_FRAGMENT, 0, 0))
	}
}

// The error belongs to the session of the quoted packet, whatever its ports.
func TestICMPErrorsFollowSessions(t *testing.T) {
	d := newFixture(t)
	for _, k := range sessionKinds {
		changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = k.kind, k.affinity })
		for _, f := range relayFamilies {
			forgetFlows(d)
			newFlowsGoTo(t, d, memberA)
			send(t, d, udp(t, ap(f.client, 4000), ap(f.vip, 53)), started(memberA, ruleUDPAll, zoneA, newOther))
			newFlowsGoTo(t, d, memberB)
			answer := testutil.UDP(t, ap(f.vip, 99), ap(f.client, 5000))
			send(t, d, f.complaint(t, f.types[0], answer, 0), relayed(memberA, ruleUDPAll, zoneA, TraceHit))
			send(t, d, udp(t, ap(f.client, 4001), ap(f.vip, 53)), followed(memberA, ruleUDPAll, zoneA, confirmed))
		}
	}
}

// What keeps a new flow from its backend keeps an error about it, too.
func TestICMPErrorsThatNoBackendGets(t *testing.T) {
	d := newFixture(t)
	for _, f := range relayFamilies {
		about := func(port uint16, client netip.Addr) frame {
			return f.complaint(t, f.types[0], testutil.TCP(t, ap(f.vip, port), ap(client, 4000)), 0)
		}
		send(t, d, about(81, f.client), dropped(lbReasonREASON_NO_RULE, 0, 0))
		far := netip.MustParseAddr("10.99.0.1")
		if f.vip.Is6() {
			far = netip.MustParseAddr("2001:db8:99::1")
		}
		send(t, d, about(80, far), dropped(lbReasonREASON_OTHER_REGION, ruleTCP80, 0))
		must(t, d.SetPick(serviceWeb, zoneA, 0))
		none := dropped(lbReasonREASON_NO_BACKEND, ruleTCP80, 0)
		none.Zone = zoneA
		send(t, d, about(80, f.client), none)
		setFixturePick(t, d, zoneA, memberA)
		changeMember(t, d, memberA, func(m *Member) { m.IfIndex = 0 })
		unreachable := dropped(lbReasonREASON_NO_NEIGHBOUR, ruleTCP80, memberA)
		unreachable.Zone = zoneA
		send(t, d, about(80, f.client), unreachable)
		changeMember(t, d, memberA, func(m *Member) { m.IfIndex = TestIfIndex })
	}
}

// An error that does not hold a packet of the VIP it was sent to is passed as it
// came.
func TestICMPErrorsAboutNothingOfOursArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	for _, f := range relayFamilies {
		vip, client := ap(f.vip, 80), ap(f.client, 4000)
		send(t, d, tcp(t, client, vip), started(memberA, ruleTCP80, zoneA, newOther))
		answer := testutil.TCP(t, vip, client)
		change := func(at int, to byte) []byte {
			b := slices.Clone(answer)
			b[14+at] = to
			return b
		}
		kind := f.types[0]
		frames := map[string]frame{
			"about a packet of another vip":        f.complaint(t, kind, testutil.TCP(t, ap(f.vipB, 80), client), 0),
			"about a packet for the vip":           f.complaint(t, kind, testutil.TCP(t, client, vip), 0),
			"about a packet of somebody else":      f.complaint(t, kind, testutil.TCP(t, ap(f.other, 80), client), 0),
			"about a packet of another ip version": f.complaint(t, kind, change(0, 0x55), 0),
			"in pieces":                            f.complaint(t, kind, answer, 0, testutil.Fragment(0, true)),
		}
		if f.vip.Is4() {
			frames["a quoted header of 16 bytes"] = f.complaint(t, kind, change(0, 0x44), 0)
			frames["a quoted header longer than the quote"] = f.complaint(t, kind, change(0, 0x4f), 0)
			frames["source quench"] = f.complaint(t, 4, answer, 0)
			frames["redirect"] = f.complaint(t, 5, answer, 0)
		} else {
			frames["seven quoted extension headers"] = f.complaint(t, kind, testutil.TCP(t, vip, client, destOptions(7)...), 0)
			frames["a quoted extension header longer than the quote"] = f.complaint(t, kind, testutil.TCP(t, vip, client, testutil.HopByHop(0), func(p *testutil.Packet) {
				p.Ext6[0].Bytes[1] = 99
			}), 0)
			frames["type 0"] = f.complaint(t, 0, answer, 0)
			frames["type 5"] = f.complaint(t, 5, answer, 0)
			frames["type 127"] = f.complaint(t, 127, answer, 0)
		}
		for name, frame := range frames {
			t.Run(f.name+", "+name, func(t *testing.T) {
				send(t, d, frame, passed(lbReasonREASON_ICMP_ERROR))
			})
		}
		for n := range f.header() + 8 {
			send(t, d, f.complaint(t, kind, answer, max(n, 1)), passed(lbReasonREASON_ICMP_ERROR))
		}
		// The frame's padding is no part of the quote.
		padded := f.complaint(t, kind, answer, f.header()+7)()
		send(t, d, raw(append(padded, 0, 0, 0, 0)), passed(lbReasonREASON_ICMP_ERROR))
	}
}
