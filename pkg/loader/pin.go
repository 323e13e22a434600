package loader

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// pinnedMaps are those that carry state over restarts. Everything else is
// written anew by each daemon, into maps that only its program knows, and takes
// effect when that program replaces the old one.
var pinnedMaps = []string{
	lbMapL4lbFlows4, lbMapL4lbFlows6, lbMapL4lbMembers, lbMapL4lbTunnels, lbMapL4lbRules,
	lbMapL4lbStats, lbMapL4lbZstats, lbMapL4lbReasons, lbMapL4lbEvents, lbMapL4lbRefused, lbMapL4lbNames,
}

// pinned is what an earlier process left in a pin directory.
type pinned struct {
	dir      string
	maps     map[string]*ebpf.Map
	flowSeed uint64
}

// openPinned opens what is there. The flow table's seed lives as long as the
// table: it is new exactly when there is no names map that remembers it.
func openPinned(dir string) (*pinned, error) {
	p := &pinned{dir: dir, maps: map[string]*ebpf.Map{}}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create pin directory: %w", err)
		}
		for _, name := range pinnedMaps {
			m, err := loadPinnedMap(dir, name)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				p.close()
				return nil, err
			}
			p.maps[name] = m
		}
	}
	if names := p.maps[lbMapL4lbNames]; names != nil {
		seed, err := lookupSeed(names)
		if err != nil {
			p.close()
			return nil, err
		}
		p.flowSeed = seed
		return p, nil
	}
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("make flow table seed: %w", err)
	}
	p.flowSeed = binary.NativeEndian.Uint64(seed[:])
	return p, nil
}

// layout names what the fields of pinned maps mean and how flows are hashed into
// buckets. It changes with any change of those that sizes do not show.
const layout = "3"

// check refuses maps of another layout: flows would be lost or misread.
func (p *pinned) check(spec *ebpf.CollectionSpec) error {
	if names := p.maps[lbMapL4lbNames]; names != nil {
		if found, err := lookupName(names, nameKindSeed, layoutID); err != nil || found != layout {
			return fmt.Errorf("%w: %q under %s, want %q: start once with --discard-state, which forgets the flows",
				ErrLayout, found, p.dir, layout)
		}
	}
	for name, m := range p.maps {
		if err := spec.Maps[name].Compatible(m); err != nil {
			return fmt.Errorf("%w: %s under %s: %w: stop the gateway's traffic and start once with --discard-state, which forgets the flows",
				ErrLayout, name, p.dir, err)
		}
	}
	return nil
}

// pinNew pins the maps that were not adopted, the names first with the seed in
// them: without names the rest means nothing.
func (p *pinned) pinNew(d *Datapath) error {
	if p.dir == "" {
		return nil
	}
	if p.maps[lbMapL4lbNames] == nil {
		err := putName(d.objs.L4lbNames, nameKindSeed, 0, fmt.Sprintf("%016x", p.flowSeed))
		if err != nil {
			return fmt.Errorf("store flow table seed: %w", err)
		}
		if err := putName(d.objs.L4lbNames, nameKindSeed, layoutID, layout); err != nil {
			return fmt.Errorf("store layout: %w", err)
		}
	}
	all := d.objs.byName()
	for i := len(pinnedMaps) - 1; i >= 0; i-- {
		name := pinnedMaps[i]
		if p.maps[name] != nil {
			continue
		}
		if err := all[name].Pin(filepath.Join(p.dir, name)); err != nil {
			return fmt.Errorf("pin map %s: %w", name, err)
		}
	}
	return nil
}

func (p *pinned) close() {
	for _, m := range p.maps {
		m.Close()
	}
}

func (o *lbObjects) byName() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		lbMapL4lbFlows4: o.L4lbFlows4, lbMapL4lbFlows6: o.L4lbFlows6,
		lbMapL4lbMembers: o.L4lbMembers, lbMapL4lbTunnels: o.L4lbTunnels, lbMapL4lbRules: o.L4lbRules,
		lbMapL4lbStats: o.L4lbStats, lbMapL4lbZstats: o.L4lbZstats,
		lbMapL4lbReasons: o.L4lbReasons, lbMapL4lbEvents: o.L4lbEvents,
		lbMapL4lbRefused: o.L4lbRefused, lbMapL4lbNames: o.L4lbNames,
	}
}

// Discard removes everything pinned under dir: the programs of pinned links are
// detached, flows are forgotten.
func Discard(dir string) error {
	err := removePinned(dir, func(string) bool { return false })
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("discard pinned state: %w", err)
	}
	return nil
}
