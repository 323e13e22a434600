package selector

import (
	"cmp"
	"math"
	"slices"
)

// settle moves slots until every owner has its share, rounded down or up. Which
// of the two is left open: an owner at the lower one takes in a stray slot
// without passing another on, which would move one more.
func (a *assignment) settle() {
	over := func(k uint32) bool { return a.counts[k] > a.owners[k].ceil() }
	under := func(k uint32) bool { return a.counts[k] < a.owners[k].quota }
	room := func(k uint32) bool { return a.counts[k] < a.owners[k].ceil() }
	spare := func(k uint32) bool { return a.counts[k] > a.owners[k].quota }
	a.move(over, room)
	a.move(spare, under)
}

// move lets slots go from givers to takers, the smallest loss first, while
// there are both. A loss is by how much the taker's score is worse. Small losses
// nearly always suffice, so they are collected in bands.
func (a *assignment) move(gives, takes func(owner uint32) bool) {
	low := int64(math.MinInt64)
	for band := int64(1) << (logBits - 6); ; band <<= 4 {
		if !a.anyOwner(gives) || !a.anyOwner(takes) {
			return
		}
		last := band > 64<<logBits
		if last {
			band = math.MaxInt64
		}
		for _, m := range a.moves(gives, takes, low, band) {
			if a.owner[m.slot] == m.from && gives(m.from) && takes(m.to) {
				a.give(m.slot, m.to)
			}
		}
		if last {
			break
		}
		low = band
	}
	a.moveAny(gives, takes)
}

func (a *assignment) give(slot, to uint32) {
	a.counts[a.owner[slot]]--
	a.counts[to]++
	a.owner[slot] = to
	a.lead[slot] = math.MinInt64 // not the cheapest any more
}

func (a *assignment) anyOwner(is func(uint32) bool) bool {
	for k := range a.owners {
		if is(uint32(k)) {
			return true
		}
	}
	return false
}

// possibleMove is a slot that may change hands, and what that loses.
type possibleMove struct {
	loss           int64
	slot, from, to uint32
}

// moves lists the possible moves with low <= loss < high, smallest first.
func (a *assignment) moves(gives, takes func(uint32) bool, low, high int64) []possibleMove {
	giver, taker := make([]bool, len(a.owners)), make([]bool, len(a.owners))
	for k := range a.owners {
		giver[k], taker[k] = gives(uint32(k)), takes(uint32(k))
	}
	var out []possibleMove
	for slot, from := range a.owner {
		if !giver[from] || a.lead[slot] >= high {
			continue
		}
		list := a.candidates.of(slot)
		var own int64
		for _, c := range list {
			if c.owner == from {
				own = int64(c.cost) + a.prices[from]
			}
		}
		for _, c := range list {
			loss := int64(c.cost) + a.prices[c.owner] - own
			if taker[c.owner] && c.owner != from && loss >= low && loss < high {
				out = append(out, possibleMove{loss, uint32(slot), from, c.owner})
			}
		}
	}
	slices.SortFunc(out, func(x, y possibleMove) int {
		return cmp.Or(cmp.Compare(x.loss, y.loss), cmp.Compare(x.slot, y.slot), cmp.Compare(x.to, y.to))
	})
	return out
}

// moveAny is for the rare set, of very uneven weights, whose takers are not
// among the candidates of the givers' slots: any slot then goes to any taker,
// in order.
func (a *assignment) moveAny(gives, takes func(uint32) bool) {
	to := uint32(0)
	for slot, from := range a.owner {
		if !gives(from) {
			continue
		}
		for int(to) < len(a.owners) && !takes(to) {
			to++
		}
		if int(to) == len(a.owners) {
			return
		}
		a.give(uint32(slot), to)
	}
}
