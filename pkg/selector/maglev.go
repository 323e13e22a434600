package selector

import (
	"cmp"
	"slices"
)

// fillMaglev is the filling of the Maglev paper: owners take turns, and each
// takes the first free slot of its own walk. With equal weights they take turns
// one by one. With others, an owner's turns are spread over the rounds in
// proportion to its quota, so that all are done in the last round.
func fillMaglev(owners []owner) []uint32 {
	quotas := roundedQuotas(owners)
	rounds := slices.Max(quotas)

	// Turn t (from 0) of an owner is in round floor(t*rounds/quota). Sort all
	// turns by round, in owner order within a round, by counting.
	round := func(t, quota int) int {
		return int(uint64(t) * uint64(rounds) / uint64(quota)) // int may have 32 bits
	}
	first := make([]int, rounds+1)
	for _, quota := range quotas {
		for t := range quota {
			first[round(t, quota)+1]++
		}
	}
	for r := range rounds {
		first[r+1] += first[r]
	}
	turns := make([]uint32, TableSize)
	for k, quota := range quotas {
		for t := range quota {
			r := round(t, quota)
			turns[first[r]] = uint32(k)
			first[r]++
		}
	}

	walks := make([]walk, len(owners))
	at := make([]uint32, len(owners))
	for k := range owners {
		walks[k] = newWalk(owners[k].key)
		at[k] = walks[k].start
	}
	table := make([]uint32, TableSize)
	taken := make([]bool, TableSize)
	for _, k := range turns {
		slot, w := at[k], walks[k]
		for taken[slot] {
			slot = w.next(slot)
		}
		taken[slot] = true
		table[slot] = owners[k].index
		at[k] = w.next(slot)
	}
	return table
}

// roundedQuotas gives out the slots that are left after rounding down to the
// owners with the largest remainders; the first in order where those are equal.
func roundedQuotas(owners []owner) []int {
	quotas := make([]int, len(owners))
	order := make([]int, len(owners))
	left := TableSize
	for k := range owners {
		quotas[k] = owners[k].quota
		left -= quotas[k]
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(owners[b].rest, owners[a].rest)
	})
	for _, k := range order[:left] {
		quotas[k]++
	}
	return quotas
}
