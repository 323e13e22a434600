package controller

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"l4lb/pkg/loader"
)

// wantFull checks the error of a configuration that does not fit.
func wantFull(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, loader.ErrFull) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one of %q that is ErrFull", err, text)
	}
}

// canonical describes what the maps do to packets, without the numbers that are
// free: ids, generations, epochs, counters. One line each, sorted.
func (w *world) canonical() string {
	d := w.dp
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for id, name := range d.names[loader.NameMember] {
		m := d.members[id]
		add("member %s: %x %x %d zone %q state %d service %s", name, m.DMAC, m.SMAC, m.IfIndex,
			d.names[loader.NameZone][uint32(m.Zone)], m.State, d.names[loader.NameService][uint32(m.Service)])
	}
	for id, name := range d.names[loader.NameRule] {
		r := d.rules[id]
		add("rule %s: service %s idle %d affinity %d kind %d global %v routed %v", name,
			d.names[loader.NameService][uint32(r.Service)], r.IdleTicks, r.Affinity, r.Kind, r.GlobalAccess, r.Routed)
	}
	for id, name := range d.names[loader.NameService] {
		picks := d.picksOf(id)
		add("service %s: %s", name, d.tableText(picks[0]))
		for zone, zoneName := range d.names[loader.NameZone] {
			add("service %s from %s: %s", name, zoneName, d.tableText(picks[zone]))
		}
	}
	for _, f := range d.fronts {
		rule := func(id uint32) string { return d.names[loader.NameRule][id] }
		add("address %s: tcp %q udp %q l3 %q", f.Address, rule(f.TCP), rule(f.UDP), rule(f.L3))
		for _, p := range f.Ports {
			add("address %s: protocol %d port %d %q", f.Address, p.Protocol, p.Port, rule(p.Rule))
		}
	}
	for _, r := range d.routes {
		add("route %s:", r.Dest)
		for i, h := range r.Hops {
			add("route %s %d: %q from %v in %d", r.Dest, i, d.names[loader.NameRule][h.Rule], h.Source, h.IfIndex)
		}
	}
	for _, z := range d.zones {
		add("clients %s: %q %v", z.Prefix, d.names[loader.NameZone][uint32(z.Zone)], z.OtherRegion)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tableText names a table's members and its bytes.
func (d *fakeDP) tableText(table uint32) string {
	if table == 0 {
		return "drop"
	}
	names := map[uint32]string{}
	h := fnv.New64a()
	for _, id := range d.tables[table] {
		if names[id] == "" {
			names[id] = d.names[loader.NameMember][id]
		}
		h.Write([]byte(names[id]))
	}
	var list []string
	for _, name := range names {
		list = append(list, name)
	}
	slices.SortFunc(list, cmp.Compare[string])
	return fmt.Sprintf("%s %x", strings.Join(list, " "), h.Sum64())
}
