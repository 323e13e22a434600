package loader

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"l4lb/internal/testutil"
	"l4lb/pkg/conntrack"
)

func TestEachFlowReadsWhatTheProgramWrote(t *testing.T) {
	d := newFixture(t)
	frames := [][]byte{
		testutil.SYN(t, netip.AddrPortFrom(testutil.ZoneAClient4, 4000), netip.AddrPortFrom(testutil.VIP4, 80)),
		testutil.UDP(t, netip.AddrPortFrom(testutil.ZoneBClient6, 5000), netip.AddrPortFrom(testutil.VIP6, 53)),
	}
	for _, frame := range frames {
		_, _, err := d.Run(frame)
		must(t, err)
	}
	_, _, err := d.Run(frames[1])
	must(t, err)
	now, err := d.Now()
	must(t, err)
	var got []conntrack.Record
	d.EachFlow(func(r conntrack.Record) bool {
		if !r.Holds(d.RuleState(r.Rule), d.MemberState(r.Member), now) {
			t.Errorf("entry %+v does not hold", r)
		}
		got = append(got, r)
		return true
	})
	want := []conntrack.Record{
		{
			Src: testutil.ZoneAClient4, Dst: testutil.VIP4, SrcPort: 4000, DstPort: 80, Protocol: 6, State: conntrack.Probation,
			Member: memberA, Rule: ruleTCP80, Generation: 1, Epoch: 1, Last: now, Zone: zoneA,
		},
		{
			Src: testutil.ZoneBClient6, Dst: testutil.VIP6, SrcPort: 5000, DstPort: 53, Protocol: 17, State: conntrack.Confirmed,
			Member: memberB, Rule: ruleUDPAll, Generation: 1, Epoch: 1, Last: now, Zone: zoneB,
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}

// BenchmarkDumpMillion reads a table of a million entries through the mapping.
func BenchmarkDumpMillion(b *testing.B) {
	testutil.RequireRoot(b)
	d, err := Load(Options{FlowEntries: 1 << 20, Virtual: true})
	must(b, err)
	defer d.Close()
	must(b, d.SetRule(1, Rule{Service: 1, Epoch: 1, IdleTicks: 1000}))
	must(b, d.SetMember(1, Member{Generation: [ClassMax]uint16{1, 1}, IfIndex: TestIfIndex}))
	const entries = 1 << 20
	for i := range entries {
		flow := &d.flows4[i/bucketFlows].Flow[i%bucketFlows]
		binary.NativeEndian.PutUint32(flow.Key.Saddr[:], uint32(i))
		flow.Key.Tail.Proto = 6
		flow.Value, flow.Meta.Epoch = 1<<48|1<<32|2<<24|1, 1
	}
	for b.Loop() {
		report, err := conntrack.Dump(d, conntrack.Names{}, conntrack.Filter{Limit: 100})
		must(b, err)
		if report.Total != entries {
			b.Fatalf("%d entries, want %d", report.Total, entries)
		}
	}
}

// Nothing is left of the flows, in neither family, and new ones begin as on a new
// table.
func TestClearFlowsEmptiesTheTables(t *testing.T) {
	d := newFixture(t)
	newFlowsGoTo(t, d, memberA)
	f4, f6 := tcp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 80)), tcp(t, ap(testutil.Client6, 4000), ap(testutil.VIP6, 80))
	for _, f := range []frame{f4, f6} {
		run(t, d, f())
	}
	if got := eachFlow(d); got != 2 {
		t.Fatalf("%d flows, want 2", got)
	}
	d.ClearFlows()
	if got := eachFlow(d); got != 0 {
		t.Errorf("%d flows are left", got)
	}
}
