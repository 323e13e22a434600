package loader

import (
	"fmt"
	"time"
)

const bucketFlows = 4

// bucketParts are the numbers of buckets in the parts of a flow table: a flow may
// be in one near bucket, one middle one and two far ones, and is in the first
// that had room.
type bucketParts struct{ near, middle, far uint32 }

func (p bucketParts) all() uint32 { return p.near + p.middle + p.far }

// flowBuckets gives the parts 1, 7 and 5 eighths of the places asked for. While
// there are few flows, all are near, in few pages and lines. At half of the entries
// asked for, 2 % of the flows are far, at 80 % a tenth; with all of them 0.002 % of
// the flows find their four buckets full.
func flowBuckets(entries uint32) bucketParts {
	unit := (entries + 8*bucketFlows - 1) / (8 * bucketFlows)
	return bucketParts{near: unit, middle: 7 * unit, far: 5 * unit}
}

// maxIdle is the longest idle timeout there is (semantics.md 1.7).
const maxIdle = 57600 * time.Second

// spillUnits is SPILL_UNITS of bpf/include/flow.h: spill marks tell the time by
// that many units, of which maxIdle takes 16 to 32.
const spillUnits = 128

// spillShift makes the unit a power of two ticks.
func spillShift(c clock) uint8 {
	shift := uint8(0)
	for c.ticks(maxIdle)>>shift > spillUnits/4 {
		shift++
	}
	return shift
}

// keepMarks has spill marks count for as long as an entry with this idle time may
// be silent: a unit longer, since a CPU whose clock is behind may have written
// the mark. It is called before a record with that time is written. How long
// marks count grows only: a flow whose mark was taken back is not to be found.
func (d *Datapath) keepMarks(idleTicks uint32) error {
	shift := spillShift(d.clock)
	life := min(uint32((uint64(idleTicks)+1<<shift-1)>>shift)+1, spillUnits-2)
	if life <= d.spillLife {
		return nil
	}
	if err := d.objs.SpillLife.Set(life); err != nil {
		return fmt.Errorf("set the life of spill marks: %w", err)
	}
	d.spillLife = life
	return nil
}

// adoptSpillLife starts with what the pinned records need.
func (d *Datapath) adoptSpillLife() error {
	longest := uint32(0)
	for i := range d.rules {
		longest = max(longest, d.rules[i].Idle)
	}
	for i := range d.members {
		longest = max(longest, d.members[i].Idle)
	}
	return d.keepMarks(longest)
}
