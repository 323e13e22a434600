package loader

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"l4lb/internal/testutil"
)

// The fixture's ids.
const (
	serviceWeb = 1

	memberA = 1 // zone a
	memberB = 2 // zone b

	ruleTCP80  = 1 // VIP4, VIP6: TCP port 80
	ruleUDPAll = 2 // VIP4, VIP6: all UDP ports
	ruleL3     = 3 // VIP4B, VIP6B: L3_DEFAULT

	zoneA = 1
	zoneB = 2
)

const (
	fixtureIdle  = 600 * time.Second
	fixtureStart = time.Hour
)

// newFixture loads a virtual data plane with one service of two members: clients
// of zone a are given member A, those of zone b member B, everybody else half
// and half.
func newFixture(tb testing.TB) *Datapath {
	tb.Helper()
	return newFixtureWith(tb, Options{})
}

// newFixtureWith sets options that differ from the fixture's.
func newFixtureWith(tb testing.TB, o Options) *Datapath {
	tb.Helper()
	d := load(tb, o)
	fillFixture(tb, d)
	return d
}

// load loads a small virtual data plane for the test's lifetime.
func load(tb testing.TB, o Options) *Datapath {
	tb.Helper()
	testutil.RequireRoot(tb)
	o.Virtual = true
	o.FlowEntries = cmp.Or(o.FlowEntries, 4096)
	o.Members, o.Rules = cmp.Or(o.Members, 64), cmp.Or(o.Rules, 64)
	o.Services, o.Frontends = cmp.Or(o.Services, 16), cmp.Or(o.Frontends, 64)
	o.ZoneNodes, o.Sources = cmp.Or(o.ZoneNodes, 64), cmp.Or(o.Sources, 4096)
	d, err := Load(o)
	if err != nil {
		tb.Fatalf("load: %+v", err)
	}
	tb.Cleanup(func() { must(tb, d.Close()) })
	return d
}

func fillFixture(tb testing.TB, d *Datapath) {
	tb.Helper()
	must(tb, d.SetClock(fixtureStart))
	must(tb, d.SetPort(TestIfIndex, [6]byte(testutil.GatewayMAC)))
	must(tb, d.SetMember(memberA, fixtureMember(testutil.BackendAMAC, zoneA, 0)))
	must(tb, d.SetMember(memberB, fixtureMember(testutil.BackendBMAC, zoneB, 4)))
	for id := uint32(ruleTCP80); id <= ruleL3; id++ {
		must(tb, d.SetRule(id, fixtureRule(id)))
	}
	must(tb, d.SetZones(fixtureZones()))
	for i, members := range fixtureTables {
		if id := newTable(tb, d, members...); id != uint32(i+1) {
			tb.Fatalf("table %d has id %d", i, id)
		}
	}
	setFixturePick(tb, d, 0, memberA, memberB)
	setFixturePick(tb, d, zoneA, memberA)
	setFixturePick(tb, d, zoneB, memberB)
	must(tb, d.SetFrontends(fixtureFrontends()))
}

// fixtureTables are the members of the tables with ids 1, 2 and 3.
var fixtureTables = [][]uint32{{memberA, memberB}, {memberA}, {memberB}}

func fixtureZones() []ZonePrefix {
	return []ZonePrefix{
		{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Zone: zoneA},
		{Prefix: netip.MustParsePrefix("10.2.0.0/16"), Zone: zoneB},
		{Prefix: netip.MustParsePrefix("2001:db8:a::/48"), Zone: zoneA},
		{Prefix: netip.MustParsePrefix("2001:db8:b::/48"), Zone: zoneB},
		{Prefix: netip.MustParsePrefix("10.99.0.0/16"), OtherRegion: true},
		{Prefix: netip.MustParsePrefix("2001:db8:99::/48"), OtherRegion: true},
	}
}

func fixtureMember(mac []byte, zone uint8, stat uint32) Member {
	return Member{
		DMAC: [6]byte(mac), SMAC: [6]byte(testutil.GatewayMAC), IfIndex: TestIfIndex,
		Generation: [ClassMax]uint16{1, 1}, Zone: zone, StatBase: stat, Service: serviceWeb,
	}
}

func fixtureRule(id uint32) Rule {
	return Rule{Service: serviceWeb, Epoch: 1, ServiceEpoch: 1, StatSlot: uint16(id), IdleTicks: uint32(fixtureIdle / time.Millisecond)}
}

func fixtureFrontends() []Frontend {
	web := []FrontendPort{{Protocol: 6, Port: 80, Rule: ruleTCP80}}
	single := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	return []Frontend{
		{Address: single(testutil.VIP4), UDP: ruleUDPAll, Ports: web},
		{Address: single(testutil.VIP6), UDP: ruleUDPAll, Ports: web},
		{Address: single(testutil.VIP4B), L3: ruleL3},
		{Address: single(testutil.VIP6B), L3: ruleL3},
	}
}

// setFixturePick publishes one of the fixture's tables, in which the members
// take turns.
func setFixturePick(tb testing.TB, d *Datapath, zone uint32, members ...uint32) {
	tb.Helper()
	table := slices.IndexFunc(fixtureTables, func(t []uint32) bool { return slices.Equal(t, members) }) + 1
	if table == 0 {
		tb.Fatalf("the fixture has no table of %d", members)
	}
	must(tb, d.SetPick(serviceWeb, zone, uint32(table)))
}

// newTable stores a table in which the members take turns.
func newTable(tb testing.TB, d *Datapath, members ...uint32) uint32 {
	tb.Helper()
	slots := make([]uint32, TableSize)
	for i := range slots {
		slots[i] = members[i%len(members)]
	}
	table, err := d.NewTable(slots)
	must(tb, err)
	return table
}

// newFlowsGoTo gives the new flows of every client to one member.
func newFlowsGoTo(tb testing.TB, d *Datapath, member uint32) {
	tb.Helper()
	for _, zone := range []uint32{0, zoneA, zoneB} {
		setFixturePick(tb, d, zone, member)
	}
}

// prepareManyRuns keeps the program attached to an interface that has no
// traffic. Otherwise the kernel takes it into its dispatcher and out again at
// each Run, which can cost milliseconds.
func prepareManyRuns(tb testing.TB, d *Datapath) {
	tb.Helper()
	testutil.NewNetNS(tb, "idle").Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{
			Program: d.objs.L4lbIngress, Interface: TestIfIndex, Flags: link.XDPGenericMode,
		})
		if err == nil {
			tb.Cleanup(func() { must(tb, l.Close()) })
		}
		return err
	})
}

// forgetFlows empties the flow tables.
func forgetFlows(d *Datapath) {
	clear(d.flows4)
	clear(d.flows6)
}

// changeRules rewrites the fixture's rules.
func changeRules(tb testing.TB, d *Datapath, change func(*Rule)) {
	tb.Helper()
	for id := uint32(ruleTCP80); id <= ruleL3; id++ {
		changeRule(tb, d, id, change)
	}
}

func changeRule(tb testing.TB, d *Datapath, id uint32, change func(*Rule)) {
	tb.Helper()
	r := d.Rule(id)
	change(&r)
	must(tb, d.SetRule(id, r))
}

func changeMember(tb testing.TB, d *Datapath, id uint32, change func(*Member)) {
	tb.Helper()
	m := d.Member(id)
	change(&m)
	must(tb, d.SetMember(id, m))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
