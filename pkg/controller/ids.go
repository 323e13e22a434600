package controller

import (
	"fmt"

	"l4lb/pkg/loader"
)

// ids gives names of one kind ids that stay the same as long as the name is in
// use, over restarts too: the names are kept in a pinned map.
type ids struct {
	dp       Datapath
	kind     loader.NameKind
	capacity uint32 // ids are 1 to capacity-1
	byName   map[string]uint32
	used     map[uint32]bool
	next     uint32
}

func restoreIDs(dp Datapath, kind loader.NameKind, capacity uint32) (*ids, error) {
	names, err := dp.Names(kind)
	if err != nil {
		return nil, err
	}
	t := &ids{dp: dp, kind: kind, capacity: capacity, byName: map[string]uint32{}, used: map[uint32]bool{}, next: 1}
	for id, name := range names {
		if id == 0 || id >= capacity {
			return nil, fmt.Errorf("restore %q: id %d is outside 1..%d", name, id, capacity-1)
		}
		t.byName[name], t.used[id] = id, true
	}
	return t, nil
}

// get returns the name's id, a new one if it has none.
func (t *ids) get(name string) (id uint32, isNew bool, err error) {
	if id, ok := t.byName[name]; ok {
		return id, false, nil
	}
	if uint32(len(t.used)) >= t.capacity-1 {
		return 0, false, fmt.Errorf("no id for %q: %w (%d)", name, loader.ErrFull, t.capacity-1)
	}
	for t.used[t.next] || t.next == 0 {
		t.next = (t.next + 1) % t.capacity
	}
	id = t.next
	t.next = (t.next + 1) % t.capacity
	if err := t.dp.SetName(t.kind, id, name); err != nil {
		return 0, false, fmt.Errorf("store name %q: %w", name, err)
	}
	t.byName[name], t.used[id] = id, true
	return id, true, nil
}

// free gives an id back. The name is forgotten.
func (t *ids) free(name string) error {
	id, ok := t.byName[name]
	if !ok {
		return nil
	}
	delete(t.byName, name)
	delete(t.used, id)
	if err := t.dp.DeleteName(t.kind, id); err != nil {
		return fmt.Errorf("forget name %q: %w", name, err)
	}
	return nil
}

// lacks is 1 when the name has no id yet.
func (t *ids) lacks(name string) uint32 {
	if _, ok := t.byName[name]; ok {
		return 0
	}
	return 1
}

// inUse counts the ids that are taken.
func (t *ids) inUse() uint32 { return uint32(len(t.used)) }
