package loader

import (
	"path/filepath"

	"github.com/cilium/ebpf"
)

// nameRecords is the size of the names map, which has room for every id.
func (o Options) nameRecords() uint32 { return o.Members + o.Rules + o.Services + 2*ZoneMax }

// PinnedSizes reads the capacities of the maps that are pinned under dir; ok is
// false where there are none, or too few to tell.
func PinnedSizes(dir string) (o Options, ok bool) {
	entries := map[string]uint32{}
	for _, name := range []string{lbMapL4lbMembers, lbMapL4lbRules, lbMapL4lbStats, lbMapL4lbNames} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if err != nil {
			return o, false
		}
		entries[name] = m.MaxEntries()
		m.Close()
	}
	o.Members, o.Rules = entries[lbMapL4lbMembers], entries[lbMapL4lbRules]
	o.StatSlots = entries[lbMapL4lbStats] / max(o.Members, 1)
	named := o.nameRecords() // of the rest: there are no services in o yet
	if entries[lbMapL4lbNames] <= named || o.StatSlots == 0 {
		return o, false
	}
	o.Services = entries[lbMapL4lbNames] - named
	return o, true
}
