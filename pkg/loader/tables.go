package loader

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Those of bpf/include/types.h: types of inner maps are not in the object.
const (
	tableWide    = 1 << 31
	tableMembers = 256
)

type slotTable struct {
	Member   [tableMembers]uint32
	Slot     [TableSize]uint8
	Reserved [7]uint8
}

type wideSlotTable struct {
	Slot     [TableSize]uint32
	Reserved uint32
}

// tableSet hands out the ids of selection tables. A table is built aside and
// cannot be seen by a packet before its id is written to a pick; it is given back
// only when no pick names it.
type tableSet struct {
	narrow, wide *ebpf.Map // of the same size
	used         map[uint32]bool
	next         uint32
}

func newTableSet(narrow, wide *ebpf.Map) tableSet {
	return tableSet{narrow: narrow, wide: wide, used: map[uint32]bool{}, next: 1}
}

// NewTable stores a selection table of TableSize slots of member ids and
// returns its id. A table of more than 256 members takes four times the memory.
func (d *Datapath) NewTable(slots []uint32) (uint32, error) {
	if len(slots) != TableSize {
		return 0, fmt.Errorf("selection table of %d slots, want %d", len(slots), TableSize)
	}
	id, err := d.tables.free()
	if err != nil {
		return 0, err
	}
	var content []byte
	if table, ok := packTable(slots); ok {
		content = bytesOf(table)
	} else {
		content = bytesOf(wideTable(slots))
		id |= tableWide
	}
	inner, err := newInner(content)
	if err != nil {
		return 0, fmt.Errorf("create selection table: %w", err)
	}
	defer inner.Close()
	outer, index := d.tables.place(id)
	if err := outer.Put(index, inner); err != nil {
		return 0, fmt.Errorf("store selection table %d: %w", index, err)
	}
	d.tables.used[index] = true
	return id, nil
}

// DeleteTable gives a table back. The kernel frees it when the packets that
// still look at it are done.
func (d *Datapath) DeleteTable(id uint32) error {
	outer, index := d.tables.place(id)
	if err := outer.Delete(index); err != nil {
		return fmt.Errorf("delete selection table %d: %w", index, err)
	}
	delete(d.tables.used, index)
	return nil
}

// TableCapacity is one more than the number of tables there can be at a time.
func (d *Datapath) TableCapacity() uint32 { return d.tables.narrow.MaxEntries() }

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
	for range t.narrow.MaxEntries() {
		id := t.next
		if t.next++; t.next >= t.narrow.MaxEntries() {
			t.next = 1
		}
		if !t.used[id] {
			return id, nil
		}
	}
	return 0, fmt.Errorf("selection tables: %w (%d)", ErrFull, t.narrow.MaxEntries())
}

// place is where the table with this id is stored.
func (t *tableSet) place(id uint32) (outer *ebpf.Map, index uint32) {
	if id&tableWide != 0 {
		return t.wide, id &^ tableWide
	}
	return t.narrow, id
}

// packTable is the table of no more than tableMembers members.
func packTable(slots []uint32) (t *slotTable, ok bool) {
	t = &slotTable{}
	places := map[uint32]uint8{}
	for slot, id := range slots {
		place, known := places[id]
		if !known {
			if len(places) == tableMembers {
				return nil, false
			}
			place = uint8(len(places))
			places[id] = place
			t.Member[place] = id
		}
		t.Slot[slot] = place
	}
	return t, true
}

func wideTable(slots []uint32) *wideSlotTable {
	t := &wideSlotTable{}
	copy(t.Slot[:], slots)
	return t
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

func newInner(content []byte) (_ *ebpf.Map, err error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "l4lb_slots", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(content)),
		MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(m.FD(), 0, len(content), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("map memory: %w", err)
	}
	copy(mem, content)
	if err := unix.Munmap(mem); err != nil {
		m.Close()
		return nil, fmt.Errorf("unmap memory: %w", err)
	}
	return m, nil
}
