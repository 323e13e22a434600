package loader

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
)

const smallMTU = 1400

// newSmallLinkFixture has a link to the members that takes less than the clients'.
func newSmallLinkFixture(t *testing.T) *Datapath {
	t.Helper()
	d := newFixtureWith(t, Options{TooBigPerSecond: 1 << 20})
	addRoutes(t, d, outside()...)
	for _, id := range []uint32{memberA, memberB} {
		changeMember(t, d, id, func(m *Member) { m.MTU = smallMTU })
	}
	return d
}

// A route's packet that is too long for the link to its backend is answered, on its
// first way and along its entry, and takes no hop; one that just fits goes on.
func TestRoutedPacketsThatAreTooBigForTheLinkAreAnswered(t *testing.T) {
	d := newSmallLinkFixture(t)
	prepareManyRuns(t, d)
	for _, family := range []tunnelCase{{}, {inner6: true}} {
		src, dst := testutil.ZoneAClient4, testutil.Outside4
		if family.inner6 {
			src, dst = testutil.ZoneAClient6, testutil.Outside6
		}
		for _, tags := range [][]testutil.Mutate{nil, {testutil.VLAN(7)}} {
			size := func(n int, more ...testutil.Mutate) frame {
				return tcp(t, ap(src, 4000), ap(dst, 80), append(append([]testutil.Mutate{family.size(n)}, tags...), more...)...)
			}
			forgetFlows(d)
			sendRouted(t, d, size(smallMTU), 64, started(memberA, ruleNextHop, zoneA, newOther))
			sendRouted(t, d, size(smallMTU), 64, followed(memberA, ruleNextHop, zoneA, confirmed))

			forgetFlows(d)
			f := size(smallMTU + 1)
			want := tooBig(lbReasonREASON_TOO_BIG, VerdictTX, ruleNextHop, TraceNew, tooBigAnswer(t, f(), src, dst, smallMTU, tags...))
			want.Zone, want.events = zoneA, []FlowEvent{newOther}
			send(t, d, f, want)
			want.Flow, want.events = TraceHit, []FlowEvent{confirmed}
			send(t, d, f, want)

			if !family.inner6 {
				f = size(1500, noDF)
				want = tooBig(lbReasonREASON_TOO_BIG_NO_DF, VerdictTX, ruleNextHop, TraceHit, tooBigAnswer(t, f(), src, dst, smallMTU, tags...))
				want.Zone = zoneA
				send(t, d, f, want)
			}
		}
	}
}

// What must not be answered is dropped; a TTL that is used up is told of first.
func TestRoutedPacketsThatAreTooBigAndNotAnswered(t *testing.T) {
	d := newSmallLinkFixture(t)
	src, dst := testutil.ZoneAClient4, testutil.Outside4
	icmp := raw(testutil.ICMPError(t, src, dst, 3, 1, [4]byte{}, make([]byte, 1474)))
	trace, _, err := d.Run(icmp())
	must(t, err)
	if trace.Verdict != VerdictDrop || trace.Reason != Reason(lbReasonREASON_TOO_BIG_UNANSWERED) {
		t.Errorf("an ICMP error: %+v", trace)
	}
	f := otherIP(t, src, dst, layers.IPProtocolGRE, make([]byte, 1450), testutil.TTL(1))
	trace, out, err := d.Run(f())
	must(t, err)
	if trace.Verdict != VerdictPass || trace.Reason != Reason(lbReasonREASON_TTL_EXPIRED) || testutil.Diff(f(), out) != "" {
		t.Errorf("a packet without TTL: %+v", trace)
	}
}

// Packets for a VIP are not looked at: they are not routed, and what their sender
// does not know it has to be told by the backend's router.
func TestLinkMTUIsForRoutesAlone(t *testing.T) {
	d := newSmallLinkFixture(t)
	newFlowsGoTo(t, d, memberA)
	f, _ := tunnelCase{}.web(t, tunnelCase{}.size(1500))
	send(t, d, f, outcome{
		Trace:  Trace{Verdict: VerdictTX, Rule: ruleTCP80, Member: memberA, Flow: TraceNew},
		events: []FlowEvent{newOther}, out: f(testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC)),
	})
}

// The MTU and a tunnel have the same record: either follows the other, and what is
// in force is never written over.
func TestLinkAndTunnelFollowEachOther(t *testing.T) {
	d := load(t, Options{})
	header, err := tunnelCase{kind: lb.ForwardGUE}.tunnel().Header()
	must(t, err)
	other := header
	other.MTU--
	for i, want := range []Member{
		{MTU: smallMTU}, {Tunnel: header}, {Tunnel: other}, {MTU: 9000}, {MTU: 9000}, {MTU: smallMTU}, {}, {Tunnel: header}, {},
	} {
		id := uint32(3)
		at := wayIndex(id, d.members[id].State)
		before := d.tunnels[at]
		must(t, d.SetMember(id, want))
		if diff := cmp.Diff(want, d.Member(id)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		if d.tunnels[at] != before {
			t.Errorf("step %d wrote over the record in force", i)
		}
	}
	if d.Member(2) != (Member{}) || d.Member(4) != (Member{}) || d.Member(3).Tunnel != (encap.Header{}) {
		t.Error("other members have ways")
	}
}
