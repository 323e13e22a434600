package loader

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// lineSlots is LINE_SLOTS of bpf/include/types.h.
const lineSlots = 16

// tableSet hands out selection tables. A table is built aside and cannot be
// seen by a packet before its id is written to a pick; it is given back only
// when no pick names it.
type tableSet struct {
	outer *ebpf.Map
	used  map[uint32]bool
	next  uint32
}

func newTableSet(outer *ebpf.Map) tableSet {
	return tableSet{outer: outer, used: map[uint32]bool{}, next: 1}
}

// NewTable stores a selection table of TableSize slots of member ids and
// returns its id.
func (d *Datapath) NewTable(slots []uint32) (uint32, error) {
	if len(slots) != TableSize {
		return 0, fmt.Errorf("selection table of %d slots, want %d", len(slots), TableSize)
	}
	id, err := d.tables.free()
	if err != nil {
		return 0, err
	}
	inner, err := newInner(slots)
	if err != nil {
		return 0, fmt.Errorf("create selection table: %w", err)
	}
	defer inner.Close()
	if err := d.objs.L4lbTables.Put(id, inner); err != nil {
		return 0, fmt.Errorf("store selection table %d: %w", id, err)
	}
	d.tables.used[id] = true
	return id, nil
}

// DeleteTable gives a table back. The kernel frees it when the packets that
// still look at it are done.
func (d *Datapath) DeleteTable(id uint32) error {
	if err := d.objs.L4lbTables.Delete(id); err != nil {
		return fmt.Errorf("delete selection table %d: %w", id, err)
	}
	delete(d.tables.used, id)
	return nil
}

// TableCapacity is one more than the number of tables there can be at a time.
func (d *Datapath) TableCapacity() uint32 { return d.objs.L4lbTables.MaxEntries() }

// SetPick publishes the table of a service for a client zone; table 0 drops
// its new flows. The one write is the switch: no packet sees half of a table.
func (d *Datapath) SetPick(service, zone, table uint32) error {
	index := service*ZoneMax + zone
	if zone >= ZoneMax || int(service) >= len(d.picks)/ZoneMax {
		return fmt.Errorf("pick of service %d, zone %d: %w", service, zone, ErrFull)
	}
	atomic.StoreUint32(&d.picks[index].Table, table)
	return nil
}

func (t *tableSet) free() (uint32, error) {
	for range t.outer.MaxEntries() {
		id := t.next
		if t.next++; t.next >= t.outer.MaxEntries() {
			t.next = 1
		}
		if !t.used[id] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("selection tables: %w (%d)", ErrFull, t.outer.MaxEntries())
}

func newInner(slots []uint32) (_ *ebpf.Map, err error) {
	lines := TableSize/lineSlots + 1
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "l4lb_slots", Type: ebpf.Array, KeySize: 4, ValueSize: lineSlots * 4,
		MaxEntries: uint32(lines), Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	size := (lines*lineSlots*4 + page - 1) &^ (page - 1)
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("map memory: %w", err)
	}
	copy(unsafe.Slice((*uint32)(unsafe.Pointer(&mem[0])), TableSize), slots)
	if err := unix.Munmap(mem); err != nil {
		m.Close()
		return nil, fmt.Errorf("unmap memory: %w", err)
	}
	return m, nil
}
