package loader

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/internal/testutil"
	"l4lb/pkg/encap"
)

func TestRecordsAreReadBackAsWritten(t *testing.T) {
	d := load(t, Options{})
	m := Member{
		DMAC: [6]byte{1, 2, 3, 4, 5, 6}, SMAC: [6]byte{7, 8, 9, 10, 11, 12}, IfIndex: 13,
		Generation: [ClassMax]uint16{14, 15}, StatBase: 16, Zone: 17, State: 18, Service: 19,
		Tunnel: encap.Header{
			IP: [40]byte{20, 39: 21}, UDP: [8]byte{22, 7: 23}, GENEVE: [8]byte{24, 7: 25}, MTU: 26, Size: 27, Flags: 28, Spread: 29,
		},
	}
	r := Rule{
		Service: 1, Epoch: 2, ServiceEpoch: 3, StatSlot: 4, IdleTicks: 5,
		Affinity: AffinityClientOnly, Kind: FlowClientOnly, GlobalAccess: true,
	}
	last := d.MemberCapacity() - 1
	must(t, d.SetMember(last, m))
	must(t, d.SetRule(d.RuleCapacity()-1, r))
	if diff := cmp.Diff(m, d.Member(last)); diff != "" {
		t.Errorf("member (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r, d.Rule(d.RuleCapacity()-1)); diff != "" {
		t.Errorf("rule (-want +got):\n%s", diff)
	}
	if d.MemberCapacity() != 64 || d.RuleCapacity() != 64 || d.StatCapacity() != 64*d.opts.StatSlots {
		t.Errorf("capacities: %d members, %d rules, %d traffic records", d.MemberCapacity(), d.RuleCapacity(), d.StatCapacity())
	}
}

// Ids start at 1 and end below the capacity; tables and picks have sizes too.
func TestIdsOutOfRangeAreRefused(t *testing.T) {
	d := load(t, Options{})
	for name, err := range map[string]error{
		"member 0":     d.SetMember(0, Member{}),
		"member 64":    d.SetMember(64, Member{}),
		"rule 0":       d.SetRule(0, Rule{}),
		"rule 64":      d.SetRule(64, Rule{}),
		"zone 64":      d.SetPick(1, ZoneMax, 1),
		"service 16":   d.SetPick(16, 0, 1),
		"service 2^26": d.SetPick(1<<26, 0, 1),
	} {
		if !errors.Is(err, ErrFull) {
			t.Errorf("%s: %v, want ErrFull", name, err)
		}
	}
}

func TestInterfacesThatShareASlotAreRefused(t *testing.T) {
	d := newFixture(t)
	if err := d.SetPort(TestIfIndex+portSlots, [6]byte(testutil.RouterMAC)); err == nil {
		t.Error("two interfaces in one slot of the port table")
	}
	must(t, d.SetPort(TestIfIndex, [6]byte(testutil.RouterMAC)))
	f := webFrom(t, "10.1.1.1")
	send(t, d, f, passed(0))
	send(t, d, raw(f(testutil.MACs(testutil.ClientMAC, testutil.RouterMAC))), outcome{
		Trace:  Trace{Verdict: VerdictTX, Rule: ruleTCP80, Member: memberA, Flow: TraceNew, Zone: zoneA},
		events: []FlowEvent{newOther}, out: f(testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC)),
	})
}

func TestSelectionTablesRunOutAndComeBack(t *testing.T) {
	d := load(t, Options{Services: 2}) // eight ids, of which 0 is none
	slots := make([]uint32, TableSize)
	ids := map[uint32]bool{}
	for range 7 {
		id, err := d.NewTable(slots)
		must(t, err)
		ids[id] = true
	}
	if len(ids) != 7 || ids[0] {
		t.Errorf("ids %v", ids)
	}
	if _, err := d.NewTable(slots); !errors.Is(err, ErrFull) {
		t.Errorf("the eighth table: %v, want ErrFull", err)
	}
	must(t, d.DeleteTable(3))
	if id, err := d.NewTable(slots); id != 3 || err != nil {
		t.Errorf("after a table was given back: %d, %v", id, err)
	}
	for _, n := range []int{0, TableSize - 1, TableSize + 1} {
		if _, err := d.NewTable(make([]uint32, n)); err == nil || errors.Is(err, ErrFull) {
			t.Errorf("a table of %d slots: %v", n, err)
		}
	}
	if err := d.DeleteTable(100); err == nil {
		t.Error("a table that was never there was deleted")
	}
}

// The first and the last slot are part of the table, whatever its form: one of up
// to 256 members, in which the one that is looked for comes last, and of more.
func TestFirstAndLastSlotsCanBeChosen(t *testing.T) {
	d := newSelectFixture(t, Options{})
	for _, members := range []uint32{1, 14, 15, 254, 255} {
		for _, at := range []int{int(members), int(members) + 64, TableSize - 64, TableSize - 1} {
			table := make([]uint32, TableSize)
			for i := range members {
				table[i] = 1000 + i // no members, their flows are dropped
			}
			n := min(32, TableSize-at)
			for i := range n {
				table[at+i] = 7
			}
			testSlots(t, d, table, at, n)
		}
	}
}

func testSlots(t *testing.T, d *Datapath, table []uint32, at, n int) {
	id, err := d.NewTable(table)
	must(t, err)
	must(t, d.SetPick(serviceWeb, 0, id))
	c := newCrowd(t, udp(t, ap(testutil.Client4, 1), ap(testutil.VIP4, 53)))
	hit := false
	for i := uint32(0); i < 20*TableSize && !hit; i++ {
		verdict, mac := run(t, d, c.flow(i))
		hit = verdict == VerdictTX && mac == memberMAC(7)
	}
	if !hit {
		t.Errorf("no flow met the %d slots from %d on", n, at)
	}
	must(t, d.SetPick(serviceWeb, 0, 0))
	must(t, d.DeleteTable(id))
}

func TestNamesAreKeptByKindAndId(t *testing.T) {
	d := load(t, Options{})
	must(t, d.SetName(NameMember, 1, "web/web-a-1/10.1.0.11"))
	must(t, d.SetName(NameMember, 2, strings.Repeat("n", 192)))
	must(t, d.SetName(NameRule, 1, "web-vip"))
	must(t, d.SetName(NameRule, 1, "web-vip-2"))
	if err := d.SetName(NameMember, 3, strings.Repeat("n", 193)); err == nil {
		t.Error("a name of 193 bytes was taken")
	}
	want := map[NameKind]map[uint32]string{
		NameMember:  {1: "web/web-a-1/10.1.0.11", 2: strings.Repeat("n", 192)},
		NameRule:    {1: "web-vip-2"},
		NameService: {},
	}
	for kind, names := range want {
		got, err := d.Names(kind)
		if err != nil || !maps.Equal(got, names) {
			t.Errorf("kind %d: %v, %v, want %v", kind, got, err, names)
		}
	}
	must(t, d.DeleteName(NameRule, 1))
	if got, err := d.Names(NameRule); err != nil || len(got) != 0 {
		t.Errorf("after the name was deleted: %v, %v", got, err)
	}
}

func TestTrafficIsSummedAndCleared(t *testing.T) {
	d := newFixture(t)
	f := webFrom(t, "10.1.1.1")
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
	record := d.Member(memberA).StatBase + uint32(d.Rule(ruleTCP80).StatSlot)
	got, err := d.Traffic(record)
	if want := (Traffic{Packets: 2, Bytes: 120, Flows: 1}); err != nil || got != want {
		t.Errorf("traffic %+v, %v, want %+v", got, err, want)
	}
	got, err = d.ZoneTraffic(zoneA, zoneA)
	if want := (Traffic{Packets: 2, Bytes: 120}); err != nil || got != want {
		t.Errorf("zone traffic %+v, %v, want %+v", got, err, want)
	}
	reasons, err := d.Reasons()
	if err != nil || reasons != [ReasonMax]uint64{} {
		t.Errorf("reasons %v, %v", reasons, err)
	}
	flowEvents, err := d.FlowEvents()
	if want := ([FlowEventMax]uint64{newOther: 1, confirmed: 1}); err != nil || flowEvents != want {
		t.Errorf("flow events %v, %v, want %v", flowEvents, err, want)
	}
	must(t, d.ClearTraffic(record))
	if got, err := d.Traffic(record); err != nil || got != (Traffic{}) {
		t.Errorf("after it was cleared: %+v, %v", got, err)
	}
	if _, err := d.Traffic(d.StatCapacity()); err == nil {
		t.Error("a record beyond the end was read")
	}
}
