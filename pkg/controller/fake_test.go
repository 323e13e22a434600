package controller

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/loader"
)

// fakeDP is a data plane in memory. At every write it checks what must hold for
// packets that come in between writes.
type fakeDP struct {
	t       testing.TB
	writes  []string // since the last reset
	members map[uint32]loader.Member
	rules   map[uint32]loader.Rule
	names   map[loader.NameKind]map[uint32]string
	tables  map[uint32][]uint32
	owners  map[uint32]map[uint32]bool // members that a table names
	flows   map[uint32]bool            // members that may have flows
	picks   map[uint32]*[loader.ZoneMax]uint32
	fronts  []loader.Frontend
	routes  []loader.Route
	zones   []loader.ZonePrefix
	cleared map[uint32]int

	admissions map[uint32]loader.Admission
	ranges     map[uint32][]netip.Prefix
	entries    []conntrack.Record // of the flow tables
	sweeps     int
	nextRanges uint32

	nextTable  uint32
	unsettled  bool // packets may still see older choices
	afterWrite func()
	quick      bool // tables are not looked into
	err        error

	memberCap, ruleCap, serviceCap, tableCap, rangeCap uint32
}

func newFakeDP(t testing.TB) *fakeDP {
	return &fakeDP{
		t: t, members: map[uint32]loader.Member{}, rules: map[uint32]loader.Rule{},
		names: map[loader.NameKind]map[uint32]string{
			loader.NameMember: {}, loader.NameRule: {}, loader.NameService: {}, loader.NameZone: {},
		},
		tables: map[uint32][]uint32{}, owners: map[uint32]map[uint32]bool{}, flows: map[uint32]bool{}, picks: map[uint32]*[loader.ZoneMax]uint32{}, cleared: map[uint32]int{},
		admissions: map[uint32]loader.Admission{}, ranges: map[uint32][]netip.Prefix{},
		memberCap: 1 << 14, ruleCap: 1 << 12, serviceCap: 1 << 10, tableCap: 1 << 12, rangeCap: 64,
	}
}

// restart forgets what no pinned map keeps.
func (d *fakeDP) restart() {
	d.tables, d.picks, d.fronts, d.zones = map[uint32][]uint32{}, map[uint32]*[loader.ZoneMax]uint32{}, nil, nil
	d.admissions, d.ranges = map[uint32]loader.Admission{}, map[uint32][]netip.Prefix{}
	d.routes = nil
	d.unsettled = false
}

func (d *fakeDP) write(format string, args ...any) error {
	d.writes = append(d.writes, fmt.Sprintf(format, args...))
	if d.afterWrite != nil {
		d.afterWrite()
	}
	return d.err
}

// must reports a write that packets would suffer from.
func (d *fakeDP) must(ok bool, format string, args ...any) {
	if !ok {
		d.t.Helper()
		d.t.Errorf("invariant: "+format, args...)
	}
}

func (d *fakeDP) SetMember(id uint32, m loader.Member) error {
	old, known := d.members[id]
	name := d.names[loader.NameMember][id]
	d.must(name != "", "member %d is written without a name", id)
	d.must(d.names[loader.NameService][uint32(m.Service)] != "", "member %q names service %d, which does not exist", name, m.Service)
	if known && old.Generation != m.Generation && d.flows[id] {
		d.must(!d.unsettled, "member %q loses its entries before the new choices are in force", name)
	}
	d.members[id] = m
	return d.write("member %s", name)
}

// used reports whether a table in force names the member.
func (d *fakeDP) used(id uint32) bool {
	for _, picks := range d.picks {
		for _, table := range picks {
			if d.owners[table][id] {
				return true
			}
		}
	}
	return false
}

func (d *fakeDP) SetRule(id uint32, r loader.Rule) error {
	name := d.names[loader.NameRule][id]
	d.must(name != "", "rule %d is written without a name", id)
	d.must(uint32(r.StatSlot) < d.StatSlots(), "rule %q has counter slot %d", name, r.StatSlot)
	if old, inForce := d.rules[id], d.inForce()[id]; inForce {
		d.must(old.Epoch == r.Epoch || !d.unsettled, "rule %q loses its entries before the new choices are in force", name)
		d.must(d.names[loader.NameService][uint32(r.Service)] != "", "rule %q uses service %d, which does not exist", name, r.Service)
	}
	d.rules[id] = r
	return d.write("rule %s", name)
}

// inForce is the set of rules that packets can match.
func (d *fakeDP) inForce() map[uint32]bool {
	out := map[uint32]bool{}
	for _, f := range d.fronts {
		for _, id := range []uint32{f.TCP, f.UDP, f.L3} {
			out[id] = id != 0
		}
		for _, p := range f.Ports {
			out[p.Rule] = true
		}
	}
	for _, r := range d.routes {
		for _, h := range r.Hops {
			out[h.Rule] = true
		}
	}
	delete(out, 0)
	return out
}

func (d *fakeDP) SetRoutes(list []loader.Route) error {
	d.Settle() // no packet looks at the old table any more when the kernel returns
	d.routes = list
	for _, r := range list {
		for _, h := range r.Hops {
			rule, ok := d.rules[h.Rule]
			d.must(ok && rule.Routed, "route to %s names rule %d, which is no next hop", r.Dest, h.Rule)
			d.must(d.names[loader.NameService][uint32(rule.Service)] != "", "route to %s has service %d, which does not exist", r.Dest, rule.Service)
		}
	}
	d.unsettled = true
	return d.write("routes")
}

func (d *fakeDP) NewTable(slots []uint32) (uint32, error) {
	d.must(len(slots) == loader.TableSize, "table of %d slots", len(slots))
	checked := map[uint32]bool{}
	for _, id := range slots {
		if d.quick {
			break
		}
		if checked[id] {
			continue
		}
		checked[id] = true
		d.must(d.members[id].IfIndex != 0, "table names member %d, which has no record that can be sent to", id)
	}
	if len(d.tables) >= int(d.tableCap)-1 {
		return 0, loader.ErrFull
	}
	d.nextTable++
	d.tables[d.nextTable], d.owners[d.nextTable] = slots, checked
	return d.nextTable, d.write("table")
}

func (d *fakeDP) DeleteTable(id uint32) error {
	d.must(d.tables[id] != nil, "table %d is deleted but does not exist", id)
	d.must(!d.unsettled, "table %d is deleted while packets may still use it", id)
	for service, picks := range d.picks {
		for zone, table := range picks {
			d.must(table != id, "table %d is deleted but picked by service %d, zone %d", id, service, zone)
		}
	}
	delete(d.tables, id)
	return d.write("delete table")
}

func (d *fakeDP) SetPick(service, zone, table uint32) error {
	d.must(table == 0 || d.tables[table] != nil, "service %d, zone %d picks table %d, which does not exist", service, zone, table)
	d.must(d.names[loader.NameService][service] != "", "service %d has picks but no name", service)
	if d.picks[service] == nil {
		d.picks[service] = &[loader.ZoneMax]uint32{}
	}
	d.picks[service][zone] = table
	maps.Copy(d.flows, d.owners[table])
	d.unsettled = true
	return d.write("pick %s", d.names[loader.NameService][service])
}

func (d *fakeDP) SetFrontends(list []loader.Frontend) error {
	d.Settle() // as the real one, before it switches
	d.fronts = list
	for id := range d.inForce() {
		r, ok := d.rules[id]
		d.must(ok, "frontend names rule %d, which has no record", id)
		d.must(d.names[loader.NameService][uint32(r.Service)] != "", "frontend's rule %d has service %d, which does not exist", id, r.Service)
	}
	d.unsettled = true
	return d.write("frontends")
}

func (d *fakeDP) SetZones(list []loader.ZonePrefix) error {
	for _, z := range list {
		d.must(z.Zone == 0 || d.names[loader.NameZone][uint32(z.Zone)] != "", "prefix %s is in zone %d, which has no name", z.Prefix, z.Zone)
	}
	d.zones = list
	return d.write("zones")
}

func (d *fakeDP) SetName(kind loader.NameKind, id uint32, name string) error {
	d.names[kind][id] = name
	if kind == loader.NameRule {
		d.must(!d.inForce()[id], "rule id %d is given to %q while packets match it", id, name)
	}
	return d.write("name %s", name)
}

func (d *fakeDP) DeleteName(kind loader.NameKind, id uint32) error {
	name := d.names[kind][id]
	switch kind {
	case loader.NameMember:
		d.must(!d.used(id), "member %q is forgotten while a table names it", name)
		delete(d.flows, id)
	case loader.NameRule:
		d.must(!d.inForce()[id], "rule %q is forgotten while packets match it", name)
	case loader.NameService:
		for zone, table := range d.picksOf(id) {
			d.must(table == 0, "service %q is forgotten while zone %d has a table", name, zone)
		}
	}
	delete(d.names[kind], id)
	return d.write("forget %s", name)
}

func (d *fakeDP) picksOf(service uint32) [loader.ZoneMax]uint32 {
	if p := d.picks[service]; p != nil {
		return *p
	}
	return [loader.ZoneMax]uint32{}
}

func (d *fakeDP) Names(kind loader.NameKind) (map[uint32]string, error) {
	return maps.Clone(d.names[kind]), nil
}

func (d *fakeDP) ClearTraffic(record uint32) error {
	d.cleared[record]++
	return nil
}

func (d *fakeDP) NewRanges(list []netip.Prefix) (uint32, error) {
	d.nextRanges++
	d.ranges[d.nextRanges] = list
	return d.nextRanges, d.write("ranges")
}

func (d *fakeDP) DeleteRanges(id uint32) error {
	d.must(d.ranges[id] != nil, "ranges %d are deleted but do not exist", id)
	d.must(!d.unsettled, "ranges %d are deleted while packets may still use them", id)
	for rule, a := range d.admissions {
		d.must(a.Ranges != id, "ranges %d are deleted but rule %d names them", id, rule)
	}
	delete(d.ranges, id)
	return d.write("delete ranges")
}

func (d *fakeDP) SetAdmission(rule uint32, a loader.Admission) error {
	d.must(a.Ranges == 0 || d.ranges[a.Ranges] != nil, "rule %d names ranges %d, which do not exist", rule, a.Ranges)
	d.admissions[rule] = a
	d.unsettled = true
	return d.write("admission %s", d.names[loader.NameRule][rule])
}

func (d *fakeDP) AmendFlows(f func(conntrack.Record) uint32) {
	d.must(!d.unsettled, "entries are looked at while packets may still make others by older filters")
	kept := d.entries[:0]
	for _, r := range d.entries {
		if r.Rule = f(r); r.Rule != 0 {
			kept = append(kept, r)
		}
	}
	d.entries = kept
	d.sweeps++
}

func (d *fakeDP) ClearRefused(rule uint32) error { return nil }
func (d *fakeDP) RangeCapacity() uint32          { return d.rangeCap }

func (d *fakeDP) Settle()                        { d.unsettled = false }
func (d *fakeDP) Member(id uint32) loader.Member { return d.members[id] }
func (d *fakeDP) Rule(id uint32) loader.Rule     { return d.rules[id] }
func (d *fakeDP) MemberCapacity() uint32         { return d.memberCap }
func (d *fakeDP) RuleCapacity() uint32           { return d.ruleCap }
func (d *fakeDP) ServiceCapacity() uint32        { return d.serviceCap }
func (d *fakeDP) TableCapacity() uint32          { return d.tableCap }
func (d *fakeDP) StatSlots() uint32              { return 8 }

// Ticks has the resolution of the virtual clock.
func (d *fakeDP) Ticks(t time.Duration) uint32 { return uint32(t / time.Millisecond) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
