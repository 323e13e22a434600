package loader

import (
	"net/netip"
	"testing"

	"l4lb/internal/testutil"
)

// The client's zone chooses among the tables of a service, and is counted with
// the backend's.
func TestClientZoneChoosesTheTable(t *testing.T) {
	d := newFixture(t)
	vip4, vip6 := ap(testutil.VIP4, 80), ap(testutil.VIP6, 80)
	tests := []struct {
		name   string
		client string
		vip    netip.AddrPort
		member uint32
		zone   uint8
	}{
		{"zone a", "10.1.200.7", vip4, memberA, zoneA},
		{"the last address of zone a", "10.1.255.255", vip4, memberA, zoneA},
		{"zone b", "10.2.0.0", vip4, memberB, zoneB},
		{"zone a over ipv6", "2001:db8:a:1::7", vip6, memberA, zoneA},
		{"zone b over ipv6", "2001:db8:b:ffff::7", vip6, memberB, zoneB},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			f := syn(t, ap(netip.MustParseAddr(tt.client), 4000), tt.vip)
			send(t, d, f, started(tt.member, ruleTCP80, tt.zone, newSYN))
		})
	}
	t.Run("a client in no zone is given any backend", func(t *testing.T) {
		forgetFlows(d)
		setFixturePick(t, d, 0, memberB)
		for _, f := range []frame{
			syn(t, ap(testutil.Client4, 4000), vip4),
			syn(t, ap(netip.MustParseAddr("10.0.255.255"), 4000), vip4),
			syn(t, ap(testutil.Client6, 4000), vip6),
		} {
			send(t, d, f, started(memberB, ruleTCP80, 0, newSYN))
		}
	})
}

// Clients of another region need a rule with allowGlobalAccess (semantics.md 6).
func TestOtherRegionNeedsGlobalAccess(t *testing.T) {
	d := newFixture(t)
	setFixturePick(t, d, 0, memberB)
	frames := []frame{
		syn(t, ap(netip.MustParseAddr("10.99.1.2"), 4000), ap(testutil.VIP4, 80)),
		syn(t, ap(netip.MustParseAddr("2001:db8:99::7"), 4000), ap(testutil.VIP6, 80)),
	}
	sendAll(t, d, dropped(lbReasonREASON_OTHER_REGION, ruleTCP80, 0), frames...)
	changeRule(t, d, ruleTCP80, func(r *Rule) { r.GlobalAccess = true })
	// They are in no zone (semantics.md 3.6).
	sendAll(t, d, started(memberB, ruleTCP80, 0, newSYN), frames...)
	// Taking the access away leaves established flows alone.
	changeRule(t, d, ruleTCP80, func(r *Rule) { r.GlobalAccess = false })
	for _, f := range []frame{
		tcp(t, ap(netip.MustParseAddr("10.99.1.2"), 4000), ap(testutil.VIP4, 80)),
		tcp(t, ap(netip.MustParseAddr("2001:db8:99::7"), 4000), ap(testutil.VIP6, 80)),
	} {
		send(t, d, f, followed(memberB, ruleTCP80, 0, confirmed))
	}
}

// Established flows ignore zonal affinity (semantics.md 1.7): a client whose
// prefix moves to another zone keeps its backend and is counted as before.
func TestEstablishedFlowsIgnoreZoneChanges(t *testing.T) {
	d := newFixture(t)
	client := ap(testutil.ZoneAClient4, 4000)
	f := tcp(t, client, ap(testutil.VIP4, 80))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	must(t, d.SetZones([]ZonePrefix{{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Zone: zoneB}}))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA))
	next := tcp(t, ap(client.Addr(), 4001), ap(testutil.VIP4, 80))
	send(t, d, next, started(memberB, ruleTCP80, zoneB, newOther))

	must(t, d.SetZones([]ZonePrefix{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), OtherRegion: true}}))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA))
}

// New flows are dropped where the client's eligible set is empty
// (dropTrafficIfUnhealthy), and leave no entry (semantics.md 1.1).
func TestNewFlowsOfAnEmptyEligibleSetAreDropped(t *testing.T) {
	d := newFixture(t)
	client := ap(testutil.ZoneAClient4, 4000)
	f := tcp(t, client, ap(testutil.VIP4, 80))
	old := tcp(t, ap(client.Addr(), 5000), ap(testutil.VIP4, 80))
	send(t, d, old, started(memberA, ruleTCP80, zoneA, newOther))
	must(t, d.SetPick(serviceWeb, zoneA, 0))
	want := dropped(lbReasonREASON_NO_BACKEND, ruleTCP80, 0)
	want.Zone = zoneA
	sendAll(t, d, want, f, f, syn(t, client, ap(testutil.VIP4, 80)))
	send(t, d, old, followed(memberA, ruleTCP80, zoneA, confirmed))

	setFixturePick(t, d, zoneA, memberB)
	send(t, d, f, started(memberB, ruleTCP80, zoneA, newOther))
}

// A backend whose link address is not known gets nothing; the flow is not
// remembered before it is.
func TestBackendsWithoutLinkAddressGetNothing(t *testing.T) {
	d := newFixture(t)
	client := ap(testutil.ZoneAClient4, 4000)
	f := tcp(t, client, ap(testutil.VIP4, 80))
	old := tcp(t, ap(client.Addr(), 5000), ap(testutil.VIP4, 80))
	send(t, d, old, started(memberA, ruleTCP80, zoneA, newOther))
	changeMember(t, d, memberA, func(m *Member) { m.IfIndex = 0 })

	want := dropped(lbReasonREASON_NO_NEIGHBOUR, ruleTCP80, memberA)
	want.Zone = zoneA
	sendAll(t, d, want, f, f)
	lost := want
	lost.Flow, lost.events = TraceHit, []FlowEvent{confirmed}
	send(t, d, old, lost)

	changeMember(t, d, memberA, func(m *Member) { m.IfIndex, m.DMAC = TestIfIndex, [6]byte{2, 0x4c, 9, 9, 9, 9} })
	send(t, d, old, followed(memberA, ruleTCP80, zoneA))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
}
