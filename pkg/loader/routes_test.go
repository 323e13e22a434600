package loader

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

const (
	ruleNextHop  = 4 // the next hop of the fixture's routes
	ruleNextHop2 = 5 // another one
)

// newRoutedFixture is the fixture with the routes in list; ruleNextHop and
// ruleNextHop2 may be next hops.
func newRoutedFixture(tb testing.TB, list ...Route) *Datapath {
	tb.Helper()
	d := newFixture(tb)
	addRoutes(tb, d, list...)
	return d
}

func addRoutes(tb testing.TB, d *Datapath, list ...Route) {
	tb.Helper()
	for _, id := range []uint32{ruleNextHop, ruleNextHop2} {
		r := fixtureRule(1) // whose counters a next hop shares
		r.Routed = true
		must(tb, d.SetRule(id, r))
	}
	must(tb, d.SetRoutes(list))
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// via is a route without restrictions.
func via(rule uint32, dest string) Route {
	return Route{Dest: prefix(dest), Hops: []Hop{{Rule: rule}}}
}

// outside are the routes of most tests.
func outside() []Route {
	return []Route{via(ruleNextHop, "203.0.113.0/24"), via(ruleNextHop, "2001:db8:e::/48")}
}

// sendRouted puts a frame through that came with one TTL and has to leave with
// one less.
func sendRouted(t *testing.T, d *Datapath, f frame, ttl uint8, want outcome) {
	t.Helper()
	m := d.Member(want.Member)
	want.out = f(testutil.TTL(ttl-1), testutil.MACs(m.SMAC[:], m.DMAC[:]))
	send(t, d, func(mutate ...testutil.Mutate) []byte {
		return f(append([]testutil.Mutate{testutil.TTL(ttl)}, mutate...)...)
	}, want)
}

// Whatever is sent to the gateway for a destination of a route leaves as it
// came, but for the link addresses and a TTL that is one less: at first, and
// along its entry.
func TestRoutedFramesTakeAHopAndNothingElse(t *testing.T) {
	a4, b4, a6, b6 := testutil.ZoneAClient4, testutil.ZoneBClient4, testutil.ZoneAClient6, testutil.ZoneBClient6
	out4, out6 := testutil.Outside4, testutil.Outside6
	payload := []byte("\x12\x34\x00\x50payload of some protocol")
	tests := []struct {
		name  string
		frame frame
		zone  uint8 // the fixture gives it the member of the same number
	}{
		{"tcp over ipv4", tcp(t, ap(a4, 4000), ap(out4, 80)), zoneA},
		{"tcp over ipv6", tcp(t, ap(b6, 4000), ap(out6, 80)), zoneB},
		{"a port that no rule has", tcp(t, ap(b4, 4000), ap(out4, 9)), zoneB},
		{"udp over ipv4", udp(t, ap(b4, 4000), ap(out4, 53)), zoneB},
		{"udp over ipv6", udp(t, ap(a6, 4000), ap(out6, 53)), zoneA},
		{"icmp echo", echo(t, a4, out4), zoneA},
		{"icmpv6 echo", echo(t, b6, out6), zoneB},
		{"icmp timestamp", raw4(t, a4, out4, 13), zoneA},
		{"gre", otherIP(t, a4, out4, layers.IPProtocolGRE, payload), zoneA},
		{"gre over ipv6", otherIP(t, a6, out6, layers.IPProtocolGRE, payload), zoneA},
		{"esp", otherIP(t, b4, out4, layers.IPProtocolESP, payload), zoneB},
		{"sctp", otherIP(t, a4, out4, layers.IPProtocolSCTP, payload), zoneA},
		{"an unassigned protocol without payload", otherIP(t, a4, out4, 200, nil), zoneA},
		{"one 802.1Q tag", tcp(t, ap(a4, 4000), ap(out4, 80), testutil.VLAN(7)), zoneA},
		{"802.1Q in 802.1ad, ipv6", udp(t, ap(b6, 4000), ap(out6, 53), testutil.VLAN(7, 8), serviceTag), zoneB},
		{"ipv4 options", tcp(t, ap(a4, 4000), ap(out4, 80), ipOptions(options8)), zoneA},
		{"ipv6 extension headers", tcp(t, ap(a6, 4000), ap(out6, 80), testutil.HopByHop(0), testutil.DestOptions(1)), zoneA},
		{"a segment of full size", tcp(t, ap(a4, 4000), ap(out4, 80), testutil.Payload(make([]byte, 1460))), zoneA},
		{"a first fragment", udp(t, ap(a4, 4000), ap(out4, 53), testutil.Fragment(0, true)), zoneA},
		{"a later fragment", udp(t, ap(b4, 4000), ap(out4, 53), testutil.Fragment(185, false)), zoneB},
		{"an ipv6 fragment", udp(t, ap(a6, 4000), ap(out6, 53), testutil.Fragment(185, true)), zoneA},
	}
	d := newRoutedFixture(t, outside()...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			member := uint32(tt.zone)
			sendRouted(t, d, tt.frame, 64, started(member, ruleNextHop, tt.zone, newOther))
			sendRouted(t, d, tt.frame, 64, followed(member, ruleNextHop, tt.zone, confirmed))
			sendRouted(t, d, tt.frame, 2, followed(member, ruleNextHop, tt.zone))
			sendRouted(t, d, tt.frame, 255, followed(member, ruleNextHop, tt.zone))
		})
	}
}

// The header's checksum is right after every TTL, and one that was wrong stays
// wrong by as much (RFC 1624).
func TestChecksumFollowsTheTTL(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 53))
	sendRouted(t, d, f, 255, started(memberA, ruleNextHop, zoneA, newOther))
	sendRouted(t, d, f, 254, followed(memberA, ruleNextHop, zoneA, confirmed))
	for ttl := uint8(253); ttl > 1; ttl-- {
		sendRouted(t, d, f, ttl, followed(memberA, ruleNextHop, zoneA))
	}
	for id := range 300 { // checksums around both zeros of one's complement
		g := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 53), func(p *testutil.Packet) { p.IP4.Id = uint16(id * 219) })
		sendRouted(t, d, g, 64, followed(memberA, ruleNextHop, zoneA))
	}
	wrong := func(sum uint16) testutil.Mutate {
		return func(p *testutil.Packet) { p.KeepChecksums, p.UDP.Checksum, p.IP4.Checksum = true, 0xdead, sum }
	}
	want := followed(memberA, ruleNextHop, zoneA)
	want.out = f(wrong(0xbfef), testutil.TTL(63), testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC))
	send(t, d, raw(f(wrong(0xbeef))), want)
}

// A packet whose TTL is used up is given to the kernel as it came, which answers
// time exceeded. It begins no flow and ends none.
func TestUsedUpTTLIsTheKernels(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	for _, f := range []frame{
		tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 80)),
		udp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.Outside6, 53)),
		echo(t, testutil.ZoneAClient4, testutil.Outside4),
	} {
		expired := passed(lbReasonREASON_TTL_EXPIRED)
		expired.Rule, expired.Member, expired.Zone = ruleNextHop, memberA, zoneA
		for _, ttl := range []uint8{0, 1} {
			send(t, d, raw(f(testutil.TTL(ttl))), expired)
		}
		sendRouted(t, d, f, 64, started(memberA, ruleNextHop, zoneA, newOther))
		sendRouted(t, d, f, 64, followed(memberA, ruleNextHop, zoneA, confirmed))
		expired.Flow = TraceHit
		for _, ttl := range []uint8{0, 1} {
			send(t, d, raw(f(testutil.TTL(ttl))), expired)
		}
		sendRouted(t, d, f, 64, followed(memberA, ruleNextHop, zoneA))
	}
}

// A packet for a VIP is not routed, so its TTL does not count.
func TestTTLOfAVIPsPacketsIsLeftAlone(t *testing.T) {
	d := newRoutedFixture(t, via(ruleNextHop, "0.0.0.0/0"))
	f := tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80), testutil.TTL(1))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
}

// A backend whose own route leads back here does not get its packets back.
func TestBackendThatRoutesBackIsNotSentItsOwnPacket(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	fromA := testutil.MACs(testutil.BackendAMAC, testutil.GatewayMAC)
	fromB := testutil.MACs(testutil.BackendBMAC, testutil.GatewayMAC)
	for _, f := range []frame{
		tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 80)),
		udp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.Outside6, 53)),
	} {
		back := passed(lbReasonREASON_SENT_BY_BACKEND)
		back.Rule, back.Member, back.Zone = ruleNextHop, memberA, zoneA
		send(t, d, raw(f(fromA)), back)
		sendRouted(t, d, f, 64, started(memberA, ruleNextHop, zoneA, newOther))
		back.Flow, back.events = TraceHit, []FlowEvent{confirmed}
		send(t, d, raw(f(fromA, testutil.TTL(63))), back)
		// Another one's is forwarded like anybody's.
		want := followed(memberA, ruleNextHop, zoneA)
		want.out = f(testutil.TTL(63), testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC))
		send(t, d, raw(f(fromB)), want)
	}
}

// A SYN+ACK is the return direction of a connection and follows its entry; a SYN
// begins anew (semantics.md 1.2).
func TestSYNACKThroughARouteFollowsItsEntry(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	f := tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 80))
	flags := func(letters string) frame {
		return func(mutate ...testutil.Mutate) []byte {
			return f(append(slices.Clone(mutate), testutil.Flags(letters))...)
		}
	}
	sendRouted(t, d, flags("SA"), 64, started(memberA, ruleNextHop, zoneA, newOther))
	newFlowsGoTo(t, d, memberB)
	sendRouted(t, d, flags("SA"), 64, followed(memberA, ruleNextHop, zoneA, confirmed))
	sendRouted(t, d, flags("S"), 64, started(memberB, ruleNextHop, zoneA, newSYN))
	sendRouted(t, d, flags("A"), 64, followed(memberB, ruleNextHop, zoneA))
}

// What is of no route, or not sent to us, is left alone.
func TestPacketsOfNoRouteAreLeftAlone(t *testing.T) {
	list := []Route{
		via(ruleNextHop, "203.0.113.0/25"), via(ruleNextHop, "::/0"),
		{Dest: prefix("203.0.113.64/26")},
		{Dest: prefix("2001:db8:f::1/128")},
		{Dest: prefix("ff00::/8")},
	}
	d := newRoutedFixture(t, list...)
	a4, a6 := ap(testutil.ZoneAClient4, 4000), ap(testutil.ZoneAClient6, 4000)
	at := func(s string) netip.AddrPort { return ap(netip.MustParseAddr(s), 80) }
	mapped := tcp(t, a6, at("2001:db8:e::9"), func(p *testutil.Packet) {
		p.IP6.DstIP = netip.MustParseAddr("::ffff:203.0.113.9").AsSlice()
	})
	for _, f := range []frame{
		tcp(t, a4, at("203.0.113.64")), tcp(t, a4, at("203.0.113.127")), tcp(t, a4, at("203.0.113.128")),
		tcp(t, a4, at("198.51.100.1")), // ::/0 is no IPv4 route
		tcp(t, a6, at("2001:db8:f::1")), tcp(t, a6, at("ff02::1")), mapped,
		echo(t, testutil.ZoneAClient4, netip.MustParseAddr("203.0.113.64")),
		udp(t, a4, at("203.0.113.64"), testutil.Fragment(0, true)),
		tcp(t, a4, at("203.0.113.9"), testutil.MACs(testutil.ClientMAC, testutil.RouterMAC)),
		tcp(t, a4, at("203.0.113.9"), testutil.MACs(testutil.ClientMAC, testutil.BroadcastMAC)),
	} {
		send(t, d, f, passed(lbReasonREASON_NONE))
	}
	sendRouted(t, d, tcp(t, a4, at("203.0.113.63")), 64, started(memberA, ruleNextHop, zoneA, newOther))
	sendRouted(t, d, tcp(t, a6, at("2001:db8:f::2")), 64, started(memberA, ruleNextHop, zoneA, newOther))
}
