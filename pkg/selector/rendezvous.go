package selector

import "math"

// fillRendezvous is weighted rendezvous hashing with exact balance: every slot
// goes to the candidate of the lowest score (a hash of slot and name, scaled by
// weight) plus a price of the candidate, and the prices are set so that
// everybody's count comes out right. Prices depend on the whole set, but barely
// change when one member does, so neither do the slots.
// docs/development/tables.md has the reasons and the numbers.
func fillRendezvous(owners []owner) []uint32 {
	logs := newLogs()
	prices := make([]int64, len(owners))
	for k := range owners {
		prices[k] = logs.log2(owners[k].total) - logs.log2(owners[k].weight)
	}
	a := &assignment{
		owners:     owners,
		candidates: newCandidates(owners, prices, logs),
		logs:       logs,
		prices:     prices,
		owner:      make([]uint32, TableSize),
		lead:       make([]int64, TableSize),
		counts:     make([]int, len(owners)),
	}
	a.assign()
	for round := range priceRounds {
		a.reassign(a.reprice(round))
	}
	a.settle()
	for slot, k := range a.owner {
		a.owner[slot] = owners[k].index
	}
	return a.owner
}

// priceRounds is how often prices are corrected. More rounds leave settle less
// to do but chase the noise of single slots, which moves others.
const priceRounds = 3

// assignment is a table in the making.
type assignment struct {
	owners     []owner
	candidates *candidates
	logs       *logs
	prices     []int64
	owner      []uint32 // per slot, index into owners
	lead       []int64  // per slot, at most what the second best is behind
	counts     []int    // slots per owner
}

// assign gives every slot to its cheapest candidate.
func (a *assignment) assign() {
	for slot := range a.owner {
		a.owner[slot], a.lead[slot] = a.cheapest(slot)
		a.counts[a.owner[slot]]++
	}
}

// reassign does the same after prices moved against each other by at most
// spread. Slots that are further from a change than that are passed over.
func (a *assignment) reassign(spread int64) {
	for slot, lead := range a.lead {
		if a.lead[slot] -= spread; lead > spread {
			continue
		}
		a.counts[a.owner[slot]]--
		a.owner[slot], a.lead[slot] = a.cheapest(slot)
		a.counts[a.owner[slot]]++
	}
}

// cheapest returns the best candidate and its lead over the second.
func (a *assignment) cheapest(slot int) (owner uint32, lead int64) {
	best, second := int64(math.MaxInt64/2), int64(math.MaxInt64/2)
	for _, c := range a.candidates.of(slot) {
		v := int64(c.cost) + a.prices[c.owner]
		switch {
		case v < best || v == best && c.owner < owner:
			best, second, owner = v, best, c.owner
		case v < second:
			second = v
		}
	}
	return owner, second - best
}

// reprice raises the price of owners that have too much and lowers that of the
// others. With these scores an owner's count is proportional to 2^-price, so
// the first correction is the whole logarithm of count/share. The later ones
// are half of it: what is left is mostly noise. It returns the difference of the
// largest and the smallest change.
func (a *assignment) reprice(round int) int64 {
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	for k := range a.owners {
		o := &a.owners[k]
		// Halves keep empty counts and shares finite.
		have := a.logs.log2(uint64(2*a.counts[k]+1) << 16)
		want := a.logs.log2(uint64(2*o.quota+1)<<16 + o.fraction()<<1)
		change := have - want
		if round > 0 {
			change >>= 1
		}
		a.prices[k] += change
		lowest, highest = min(lowest, change), max(highest, change)
	}
	return highest - lowest
}
