package loader

import (
	"testing"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
	"l4lb/pkg/model"
)

// A route takes its hop before the tunnel, also from frames that the router on
// the way to the backend sent, which may be clients'.
func TestRoutedPacketsGoThroughTunnels(t *testing.T) {
	for _, outer6 := range []bool{false, true} {
		c := tunnelCase{kind: lb.ForwardGUE, outer6: outer6}
		d := newRoutedFixture(t, outside()...)
		c.open(t, d)
		src, dst := ap(testutil.Client4, 4000), ap(testutil.Outside4, 80)
		flow := model.Packet{Src: src.Addr(), Dst: dst.Addr(), Protocol: 6, SrcPort: 4000, DstPort: 80}
		fromRouter := testutil.MACs(testutil.BackendAMAC, testutil.GatewayMAC)
		f := tcp(t, src, dst, fromRouter)
		for _, want := range []outcome{
			started(memberA, ruleNextHop, 0, newOther), followed(memberA, ruleNextHop, 0, confirmed), followed(memberA, ruleNextHop, 0),
		} {
			want.out = c.around(t, f(testutil.TTL(63)), flow)
			send(t, d, f, want)
		}
		expired := passed(lbReasonREASON_TTL_EXPIRED)
		expired.Rule, expired.Member, expired.Flow = ruleNextHop, memberA, TraceHit
		send(t, d, raw(f(testutil.TTL(1))), expired)
	}
}

// Fragments and ICMP errors go where their flow's packets go.
func TestFragmentsAndErrorsGoThroughTunnels(t *testing.T) {
	d := newFixture(t)
	c := tunnelCase{kind: lb.ForwardIPIP}
	c.open(t, d)
	src, dst := testutil.Client4, testutil.VIP4
	later := udp(t, ap(src, 4000), ap(dst, 53), testutil.Fragment(100, false))
	want := started(memberA, ruleUDPAll, 0, newOther)
	want.out = c.around(t, later(), model.Packet{Src: src, Dst: dst, Protocol: 17})
	send(t, d, later, want)

	answer := testutil.TCP(t, ap(dst, 80), ap(src, 4000))
	relayed := testutil.ICMPError(t, testutil.Router4, dst, 3, 4, [4]byte{2: 5, 3: 0}, answer)
	trace, out, err := d.Run(relayed)
	must(t, err)
	if trace.Verdict != VerdictTX || trace.Member != memberA || trace.Reason != 0 {
		t.Fatalf("%+v", trace)
	}
	if diff := testutil.Diff(relayed[14:], out[34:]); diff != "" {
		t.Errorf("the error inside (-want +got):\n%s", diff)
	}
}
