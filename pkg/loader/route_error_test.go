package loader

import (
	"net/netip"
	"slices"
	"testing"

	"l4lb/internal/testutil"
)

// routeErrors has a client of zone a, and a router of zone b that complains to a
// host beyond a route about what the client is sent from there.
var routeErrors = []struct {
	client, beyond, router netip.Addr
	kind                   uint8
}{
	{testutil.ZoneAClient4, testutil.Outside4, testutil.ZoneBClient4, 3},
	{testutil.ZoneAClient6, testutil.Outside6, testutil.ZoneBClient6, 2},
}

// An ICMP error on its way by a route goes through the backend that the flow of
// the packet it quotes goes through: by the entry, and on a gateway that never
// saw the flow by the choice that it would get. It takes a hop as any packet.
func TestICMPErrorsByARouteMeetTheBackendOfTheirFlow(t *testing.T) {
	d := newRoutedFixture(t, outside()...)
	for _, f := range routeErrors {
		request := tcp(t, ap(f.client, 4000), ap(f.beyond, 80))
		answer := tcp(t, ap(f.beyond, 80), ap(f.client, 4000))
		complaint := func(quoted []byte) frame {
			return func(mutate ...testutil.Mutate) []byte {
				return testutil.ICMPError(t, f.router, f.beyond, f.kind, 0, [4]byte{}, quoted, mutate...)
			}
		}
		forgetFlows(d)
		sendRouted(t, d, complaint(answer()), 64, relayed(memberA, ruleNextHop, zoneA, TraceNone))
		newFlowsGoTo(t, d, memberA)
		sendRouted(t, d, request, 64, started(memberA, ruleNextHop, zoneA, newOther))
		newFlowsGoTo(t, d, memberB)
		before4, before6 := slices.Clone(d.flows4), slices.Clone(d.flows6)
		sendRouted(t, d, complaint(answer()), 64, relayed(memberA, ruleNextHop, zoneA, TraceHit))
		if !slices.Equal(before4, d.flows4) || !slices.Equal(before6, d.flows6) {
			t.Error("an error left a trace in the flow table")
		}
		expired := passed(lbReasonREASON_TTL_EXPIRED)
		expired.Rule, expired.Member, expired.Zone, expired.Flow = ruleNextHop, memberA, zoneA, TraceHit
		send(t, d, raw(complaint(answer())(testutil.TTL(1))), expired)
		// One about a packet that the host beyond did not send is a packet
		// like any other.
		sendRouted(t, d, complaint(request()), 64, started(memberB, ruleNextHop, zoneB, newOther))
		setFixturePick(t, d, 0, memberA, memberB)
		setFixturePick(t, d, zoneA, memberA)
		setFixturePick(t, d, zoneB, memberB)
	}
}
