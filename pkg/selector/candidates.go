package selector

import "slices"

const (
	// perSlot is how many candidates a slot keeps: one cache line. The owner is
	// nearly always among the best three; the rest are there for settle.
	perSlot = 8
	// horizon is the mean number of candidates that reach a slot before the
	// race is called off.
	horizon = 6
	// fewest is how many a slot must have; where fewer came before the horizon,
	// all owners are asked.
	fewest = 2
)

// candidate is an owner that may get a slot. The lower cost + price wins.
type candidate struct {
	owner uint32
	cost  int32 // logarithm of the arrival time
}

// candidates are the possible owners of every slot.
type candidates struct {
	slots  []candidate // perSlot for each slot
	counts []uint8
	prices []int64 // per owner, to know who is worst
}

// of returns a slot's candidates.
func (c *candidates) of(slot int) []candidate {
	return c.slots[slot*perSlot : slot*perSlot+int(c.counts[slot])]
}

// add offers a candidate to a slot, which keeps the best.
func (c *candidates) add(slot uint32, n candidate) {
	if count := c.counts[slot]; count < perSlot {
		c.slots[slot*perSlot+uint32(count)] = n
		c.counts[slot]++
		return
	}
	list := (*[perSlot]candidate)(c.slots[slot*perSlot:])
	worst, at := int64(n.cost)+c.prices[n.owner], -1
	for k, x := range list {
		if v := int64(x.cost) + c.prices[x.owner]; v > worst {
			worst, at = v, k
		}
	}
	if at >= 0 {
		list[at] = n
	}
}

// newCandidates runs the race: each owner walks the table and reaches its j-th
// slot at the j-th arrival time divided by its share. Sparse on purpose: the
// work depends on the horizon, hardly on the number of owners.
func newCandidates(owners []owner, prices []int64, l *logs) *candidates {
	c := &candidates{
		slots:  make([]candidate, TableSize*perSlot),
		counts: make([]uint8, TableSize),
		prices: prices,
	}
	arrivals := l.arrivals()
	end := l.log2(horizon)
	for k := range owners {
		steps := TableSize
		if len(owners) > perSlot {
			// The price is still the logarithm of 1/share.
			steps, _ = slices.BinarySearch(arrivals[:TableSize], int32(end-prices[k]))
		}
		w := newWalk(owners[k].key)
		for j, slot := 0, w.start; j < steps; j++ {
			c.add(slot, candidate{uint32(k), cost(arrivals, owners[k].key, uint32(j))})
			slot = w.next(slot)
		}
	}
	c.askAll(owners, arrivals)
	return c
}

// cost is where within step j the owner arrives: a hash of both, so that equal
// steps of two owners are no ties.
func cost(arrivals []int32, key uint64, j uint32) int32 {
	x := key + uint64(j)*golden
	jitter := int64((x ^ x>>32) * 0xbf58476d1ce4e5b9 >> 40)
	return arrivals[j] + int32(int64(arrivals[j+1]-arrivals[j])*jitter>>24)
}

// askAll offers every owner to the slots that have too few candidates.
func (c *candidates) askAll(owners []owner, arrivals []int32) {
	var short []uint32
	for slot, count := range c.counts {
		if int(count) < min(fewest, len(owners)) {
			c.counts[slot] = 0
			short = append(short, uint32(slot))
		}
	}
	if len(short) == 0 {
		return
	}
	for k := range owners {
		w := newWalk(owners[k].key)
		inverse := w.inverse()
		for _, slot := range short {
			c.add(slot, candidate{uint32(k), cost(arrivals, owners[k].key, w.rank(slot, inverse))})
		}
	}
}
