package selector

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// NoSet is the set id of clients whose new connections are dropped.
const NoSet = -1

// ServicePlan says for every client zone which set new connections go to.
// Equal sets have one id, so one table is filled for each distinct set.
type ServicePlan struct {
	Kind Kind // of the original eligible set
	// Healthy holds per member, in input order, whether it counts as healthy.
	Healthy []bool
	// AnyHealthy reports whether the original set holds a healthy member;
	// if not, connections have nowhere better to go (semantics.md 1.8).
	AnyHealthy bool
	NoZone     int   // id of the set for clients without a compatible zone
	Zones      []int // ids, in the order of the zones that were asked for
	Sets       []Set
}

// Set is a modified eligible set, without the members that cannot be reached.
type Set struct {
	// Members are indexes into the members that were planned, ordered like
	// Table: what a table slot holds is an index into both.
	Members []int
	// Table is what Fill takes, in the order of SortMembers. Two sets with
	// equal Table have equal tables, within and across plans.
	Table []TableMember
}

// Plan runs selection for clients of no zone and of each of these zones.
// It is Explain for all of them at once, in time linear in members and zones.
func Plan(members []Member, p Policy, zones []string) ServicePlan {
	v := newView(members, p)
	b := planner{view: v, ids: map[string]int{}}
	plan := ServicePlan{
		Kind:       v.kind,
		Healthy:    v.healthy,
		AnyHealthy: slices.ContainsFunc(v.original, func(i int) bool { return v.healthy[i] }),
		NoZone:     b.id(v.original),
		Zones:      make([]int, len(zones)),
	}
	byZone := map[string][]int{}
	if _, reached := v.reached(true); reached {
		for _, i := range v.test {
			byZone[v.members[i].Zone] = append(byZone[v.members[i].Zone], i)
		}
	}
	for k, zone := range zones {
		plan.Zones[k] = plan.NoZone
		if matched := byZone[zone]; len(matched) > 0 {
			plan.Zones[k] = b.id(v.zonal(matched).modified)
		}
	}
	plan.Sets = b.sets
	return plan
}

// planner gives ids to distinct sets.
type planner struct {
	view *view
	ids  map[string]int // packed member indexes to set id
	sets []Set
}

func (b *planner) id(modified []int) int {
	reachable := filter(modified, func(i int) bool { return !b.view.members[i].Unreachable })
	if len(reachable) == 0 {
		return NoSet
	}
	packed := make([]byte, 0, 4*len(reachable))
	for _, i := range reachable {
		packed = binary.LittleEndian.AppendUint32(packed, uint32(i))
	}
	if id, ok := b.ids[string(packed)]; ok {
		return id
	}
	id := len(b.sets)
	b.ids[string(packed)] = id
	b.sets = append(b.sets, b.view.set(reachable))
	return id
}

func (v *view) set(members []int) Set {
	weights := v.tableWeights(members)
	order := make([]int, len(members))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(v.members[members[a]].Instance, v.members[members[b]].Instance),
			cmp.Compare(weights[a], weights[b]),
		)
	})
	s := Set{Members: make([]int, len(order)), Table: make([]TableMember, len(order))}
	for k, o := range order {
		s.Members[k] = members[o]
		s.Table[k] = TableMember{Name: v.members[members[o]].Instance, Weight: weights[o]}
	}
	return s
}
