package loader

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// The first hop that fits is taken, and the longest prefix knows those of the
// shorter ones.
func TestRouteIsChosenByPrefixSourceAndInterface(t *testing.T) {
	zoneASource, zoneA6 := prefix("10.1.0.0/16"), prefix("2001:db8:a::/48")
	d := newRoutedFixture(
		t,
		Route{Dest: prefix("203.0.113.0/24"), Hops: []Hop{
			{Source: zoneASource, IfIndex: 7, Rule: ruleNextHop}, // of another interface
			{Source: zoneASource, IfIndex: TestIfIndex, Rule: ruleNextHop2},
			{Source: prefix("10.2.0.0/16"), Rule: ruleNextHop},
			{Source: prefix("10.99.0.1/32"), Rule: ruleNextHop2},
		}},
		via(ruleNextHop2, "203.0.0.0/16"),
		Route{Dest: prefix("2001:db8:e::/48"), Hops: []Hop{{Source: zoneA6, Rule: ruleNextHop2}, {IfIndex: 7, Rule: ruleNextHop2}}},
		Route{Dest: prefix("2001:db8::/32"), Hops: []Hop{{Source: prefix("::/0"), Rule: ruleNextHop}}},
	)
	at := func(s string) netip.AddrPort { return ap(netip.MustParseAddr(s), 80) }
	from := func(a netip.Addr) netip.AddrPort { return ap(a, 4000) }
	tests := []struct {
		name       string
		frame      frame
		rule, zone uint8 // rule 0: left alone
	}{
		{"a source range and the interface", tcp(t, from(testutil.ZoneAClient4), at("203.0.113.1")), ruleNextHop2, zoneA},
		{"another source range", tcp(t, from(testutil.ZoneBClient4), at("203.0.113.1")), ruleNextHop, zoneB},
		{"no source range, and no hop behind", tcp(t, from(testutil.Client4), at("203.0.113.1")), 0, 0},
		{"a shorter prefix", tcp(t, from(testutil.ZoneBClient4), at("203.0.114.1")), ruleNextHop2, zoneB},
		{"a source range of ipv6", tcp(t, from(testutil.ZoneAClient6), at("2001:db8:e::1")), ruleNextHop2, zoneA},
		{"another interface's, ipv6", tcp(t, from(testutil.ZoneBClient6), at("2001:db8:e::1")), 0, 0},
		{"every source", tcp(t, from(testutil.ZoneBClient6), at("2001:db8:d::1")), ruleNextHop, zoneB},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.rule == 0 {
				send(t, d, tt.frame, passed(lbReasonREASON_NONE))
				return
			}
			sendRouted(t, d, tt.frame, 64, started(uint32(tt.zone), uint32(tt.rule), tt.zone, newOther))
		})
	}
}

// Regions and missing neighbours count for a route as they do for a VIP.
func TestRoutedPacketsAreDroppedForTheReasonsOfAVIP(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	other := tcp(t, ap(netip.MustParseAddr("10.99.0.1"), 4000), ap(testutil.Outside4, 80))
	send(t, d, other, dropped(lbReasonREASON_OTHER_REGION, ruleNextHop, 0))
	changeRule(t, d, ruleNextHop, func(r *Rule) { r.GlobalAccess = true })
	must(t, d.SetPick(serviceWeb, 0, 0))
	send(t, d, other, dropped(lbReasonREASON_NO_BACKEND, ruleNextHop, 0))
	setFixturePick(t, d, 0, memberA)
	sendRouted(t, d, other, 64, started(memberA, ruleNextHop, 0, newOther))
	changeMember(t, d, memberA, func(m *Member) { m.IfIndex = 0 })
	none := dropped(lbReasonREASON_NO_NEIGHBOUR, ruleNextHop, memberA)
	none.Flow = TraceHit
	none.events = []FlowEvent{confirmed}
	send(t, d, other, none)
}

// A route ends with its rule's epoch, and taking all routes away leaves packets
// to the kernel.
func TestRoutesAreReplacedAtOnce(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 53))
	sendRouted(t, d, f, 64, started(memberA, ruleNextHop, zoneA, newOther))
	must(t, d.SetRoutes([]Route{via(ruleNextHop2, "203.0.113.9/32"), via(ruleNextHop, "203.0.113.0/24")}))
	sendRouted(t, d, f, 64, followed(memberA, ruleNextHop, zoneA, confirmed))
	changeRule(t, d, ruleNextHop, func(r *Rule) { r.Epoch++ })
	sendRouted(t, d, f, 64, started(memberA, ruleNextHop2, zoneA, newOther))
	for range 2 { // there may be none to take away
		must(t, d.SetRoutes(nil))
		changeRule(t, d, ruleNextHop2, func(r *Rule) { r.Epoch++ })
		send(t, d, f, passed(lbReasonREASON_NONE))
	}
	must(t, d.SetRoutes(outside()))
	sendRouted(t, d, f, 64, started(memberA, ruleNextHop, zoneA, newOther))
}

func TestRouteTableHasRoomForWhatIsConfigured(t *testing.T) {
	if RouteHops != lb.MaxAlternatives {
		t.Errorf("%d hops, %d alternatives", RouteHops, lb.MaxAlternatives)
	}
	d := newRoutedFixture(t)
	full := Route{Dest: prefix("203.0.113.0/24")}
	for i := range RouteHops - 1 {
		full.Hops = append(full.Hops, Hop{Source: prefix(fmt.Sprintf("198.51.100.%d/32", i)), Rule: ruleNextHop2})
	}
	full.Hops = append(full.Hops, Hop{Source: prefix("10.0.0.0/8"), Rule: ruleNextHop})
	list := []Route{full}
	for i := range 1000 {
		list = append(list, via(ruleNextHop2, fmt.Sprintf("10.%d.%d.0/24", 100+i/256, i%256)))
	}
	must(t, d.SetRoutes(list))
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.Outside4, 53))
	sendRouted(t, d, f, 64, started(memberA, ruleNextHop, zoneA, newOther))
	last := udp(t, ap(testutil.ZoneAClient4, 4000), ap(netip.MustParseAddr("10.103.231.1"), 53))
	sendRouted(t, d, last, 64, started(memberA, ruleNextHop2, zoneA, newOther))

	full.Hops = append(full.Hops, Hop{Rule: ruleNextHop})
	if err := d.SetRoutes([]Route{full}); !errors.Is(err, ErrFull) {
		t.Errorf("one hop too many: %v", err)
	}
	forgetFlows(d)
	sendRouted(t, d, last, 64, started(memberA, ruleNextHop2, zoneA, newOther)) // the old one is in force
}

// A backend's own packet for a VIP goes where any client's goes (semantics.md
// 1.12): to itself, too.
func TestBackendThatIsItsOwnClient(t *testing.T) {
	d := newFixture(t)
	f := tcp(t, ap(testutil.ZoneABackend4, 4000), ap(testutil.VIP4, 80), testutil.MACs(testutil.BackendAMAC, testutil.GatewayMAC))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
}
