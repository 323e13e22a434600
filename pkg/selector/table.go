package selector

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"l4lb/pkg/lb"
)

// TableSize is the number of slots of a table. It is prime, which the fillings
// need: every step size visits every slot.
const TableSize = 65537

// ErrPolicy is returned for a locality policy that fills no tables.
var ErrPolicy = errors.New("unknown locality policy")

// TableMember is one owner of slots. Name is the identity that is hashed;
// Weight is in any unit and counts only under the weighted policies.
type TableMember struct {
	Name   string
	Weight uint64
}

// SortMembers puts members in the order that table slots refer to.
func SortMembers(members []TableMember) {
	slices.SortFunc(members, func(a, b TableMember) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Weight, b.Weight))
	})
}

// Fill returns a table of TableSize slots. Each holds an index into members as
// SortMembers orders them. The table is a pure function of policy, seed and the
// set of members: their order does not matter, and every machine gets the same
// one. A member of weight 0 owns no slot; every other owns its exact share
// rounded down or up, so one whose share is below one slot may own none.
// Without members, or when all weights are 0, there is no table: Fill returns
// nil. The error is ErrPolicy. Members is not changed.
func Fill(policy lb.LocalityLbPolicy, members []TableMember, seed uint64) ([]uint32, error) {
	var fill func([]owner) []uint32
	switch policy {
	case lb.PolicyMaglev, lb.PolicyWeightedMaglev:
		fill = fillMaglev
	case lb.PolicyRendezvous, lb.PolicyWeightedRendezvous:
		fill = fillRendezvous
	default:
		return nil, fmt.Errorf("fill table: %w %q", ErrPolicy, policy)
	}
	owners := newOwners(members, policy.Weighted(), seed)
	if len(owners) == 0 {
		return nil, nil
	}
	return fill(owners), nil
}

// owner is a member with a weight above 0.
type owner struct {
	index  uint32 // into the sorted members
	key    uint64 // hash of the name
	weight uint64
	total  uint64 // of all owners' weights
	// The share of the table, in slots, is quota + rest/total.
	quota int
	rest  uint64
}

// newOwners returns the members that own slots, in order.
func newOwners(members []TableMember, weighted bool, seed uint64) []owner {
	sorted := slices.Clone(members)
	SortMembers(sorted)
	var owners []owner
	var largest uint64
	same := uint64(0) // how many owners before this one have its name
	for k, m := range sorted {
		if !weighted {
			m.Weight = 1
		}
		if k > 0 && sorted[k-1].Name == m.Name {
			same++
		} else {
			same = 0
		}
		if m.Weight > 0 {
			owners = append(owners, owner{
				index: uint32(k), key: hashName(m.Name, seed+same), weight: m.Weight,
			})
			largest = max(largest, m.Weight)
		}
	}
	// Keep the sum within 62 bits; only absurd weights lose precision.
	shift := max(0, bits.Len64(largest)+bits.Len(uint(len(owners)))-62)
	var total uint64
	for k := range owners {
		owners[k].weight = max(1, owners[k].weight>>shift)
		total += owners[k].weight
	}
	for k := range owners {
		o := &owners[k]
		o.total = total
		hi, lo := bits.Mul64(o.weight, TableSize)
		quota, rest := bits.Div64(hi, lo, total)
		o.quota, o.rest = int(quota), rest
	}
	return owners
}

// ceil is the most slots the owner may have.
func (o *owner) ceil() int {
	if o.rest > 0 {
		return o.quota + 1
	}
	return o.quota
}

// fraction is the share beyond quota, in 16 bits.
func (o *owner) fraction() uint64 {
	hi, lo := bits.Mul64(o.rest, 1<<16)
	quotient, _ := bits.Div64(hi, lo, o.total)
	return quotient
}
