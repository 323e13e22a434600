package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

// Admission is what a rule asks of new flows beyond a backend.
type Admission struct {
	// Ranges are the allowed sources: an id that NewRanges gave, 0 for all.
	Ranges uint32
	// Flows limits the new flows of the rule, SourceFlows those of each
	// source: the addresses that agree in the first SourceBits bits.
	Flows, SourceFlows FlowRate
	SourceBits         uint8
}

// FlowRate is so many new flows a second in the long run, and Burst at once.
// The zero value is no limit.
type FlowRate struct{ PerSecond, Burst uint32 }

// MaxFlowRate is the largest rate and burst.
const MaxFlowRate = 10_000_000

// words are the rate as the program wants it, in 1/16 ns.
func (r FlowRate) words() (cost, burst uint64) {
	if r.PerSecond == 0 {
		return 0, 0
	}
	cost = 16e9 / uint64(min(r.PerSecond, MaxFlowRate))
	return cost, cost * uint64(min(max(r.Burst, 1), MaxFlowRate))
}

// SetAdmission says which new flows a rule takes. Its record counts where the
// rule has SourceFilter or RateLimited. Limits that change start with full
// buckets; those that stay go on.
func (d *Datapath) SetAdmission(rule uint32, a Admission) error {
	if rule == 0 || int(rule) >= len(d.admits) {
		return fmt.Errorf("admission of rule %d: %w (%d)", rule, ErrFull, len(d.admits))
	}
	r := &d.admits[rule]
	atomic.StoreUint32(&r.Ranges, a.Ranges)
	cost, burst := a.Flows.words()
	if cost != r.Cost || burst != r.Burst {
		atomic.StoreUint64(&r.Cost, 0) // no packet sees a cost with another's burst
		atomic.StoreUint64(&r.Burst, burst)
		atomic.StoreUint64(&r.FullAt, 0)
		atomic.StoreUint64(&r.Cost, cost)
	}
	cost, burst = a.SourceFlows.words()
	mask := sourceMask(a.SourceBits)
	if cost != r.SourceCost || burst != r.SourceBurst || mask != r.SourceMask {
		atomic.StoreUint64(&r.SourceCost, 0)
		atomic.StoreUint64(&r.SourceBurst, burst)
		atomic.StoreUint64(&r.SourceMask[0], mask[0])
		atomic.StoreUint64(&r.SourceMask[1], mask[1])
		atomic.AddUint32(&r.Edition, 1)
		atomic.StoreUint64(&r.SourceCost, cost)
	}
	return nil
}

// sourceMask is the mask of the first bits of an address in its 16-byte form.
func sourceMask(bits uint8) [2]uint64 {
	var mask [16]byte
	for i := range min(bits, 128) {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return [2]uint64{binary.NativeEndian.Uint64(mask[:8]), binary.NativeEndian.Uint64(mask[8:])}
}

// rangeSets hands out sets of source ranges. A set is written aside and cannot
// be seen by a packet before an Admission names it.
type rangeSets struct {
	trie *ebpf.Map
	sets map[uint32][]netip.Prefix
	used int
	next uint32
}

func newRangeSets(trie *ebpf.Map) rangeSets {
	return rangeSets{trie: trie, sets: map[uint32][]netip.Prefix{}, next: 1}
}

// NewRanges stores a set of source ranges and returns its id.
func (d *Datapath) NewRanges(list []netip.Prefix) (uint32, error) {
	s := &d.ranges
	if s.used+len(list) > int(s.trie.MaxEntries()) {
		return 0, fmt.Errorf("%d source ranges beside %d: %w (%d)", len(list), s.used, ErrFull, s.trie.MaxEntries())
	}
	for s.sets[s.next] != nil || s.next == 0 {
		s.next++
	}
	id := s.next
	s.next++
	s.sets[id] = slices.Clone(list)
	s.used += len(list)
	for _, p := range list {
		if err := s.trie.Put(rangeKey(id, p), uint64(1)); err != nil {
			return 0, errors.Join(fmt.Errorf("store source range %s: %w", p, err), d.DeleteRanges(id))
		}
	}
	return id, nil
}

// DeleteRanges gives a set back that no Admission names any more and no packet
// looks at.
func (d *Datapath) DeleteRanges(id uint32) error {
	list := d.ranges.sets[id]
	for _, p := range list {
		err := d.ranges.trie.Delete(rangeKey(id, p))
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete source range %s: %w", p, err)
		}
	}
	d.ranges.used -= len(list)
	delete(d.ranges.sets, id)
	return nil
}

// RangeCapacity is how many source ranges all sets together can hold.
func (d *Datapath) RangeCapacity() uint32 { return d.objs.L4lbRanges.MaxEntries() }

func rangeKey(id uint32, p netip.Prefix) lbRangeKey {
	bits := 32 + p.Bits() // after the set's number
	if p.Addr().Is4() {
		bits += 96
	}
	return lbRangeKey{Length: uint32(bits), Ranges: id, Addr: p.Addr().As16()}
}

// Refused counts the packets of a rule that were refused, by reason.
type Refused struct{ NotAllowed, Limited, SourceLimited uint64 }

// Refused sums the record of a rule over the CPUs.
func (d *Datapath) Refused(rule uint32) (Refused, error) {
	var perCPU []lbRefused
	if err := d.objs.L4lbRefused.Lookup(rule, &perCPU); err != nil {
		return Refused{}, fmt.Errorf("read refusals of rule %d: %w", rule, err)
	}
	var sum Refused
	for _, r := range perCPU {
		sum.NotAllowed += r.NotAllowed
		sum.Limited += r.Limited
		sum.SourceLimited += r.SourceLimited
	}
	return sum, nil
}

// ClearRefused zeroes the record of a rule before its id is given to a new one.
func (d *Datapath) ClearRefused(rule uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	return d.objs.L4lbRefused.Put(rule, make([]lbRefused, cpus))
}
