package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// computeEligible sets E and T (semantics.md 1.3, 3.3).
func (m *Model) computeEligible(u *unit) {
	var primaries, failovers, hp, hf []*member
	anyFailover := u.Failover != nil
	for _, b := range u.ordered() {
		anyFailover = anyFailover || b.Failover
		if b.draining { // in no set, in no ratio
			continue
		}
		healthy := m.isHealthy(u, b)
		if b.Failover {
			failovers = append(failovers, b)
			if healthy {
				hf = append(hf, b)
			}
			continue
		}
		primaries = append(primaries, b)
		if healthy {
			hp = append(hp, b)
		}
	}
	if anyFailover {
		u.eligible, u.test = u.failoverPolicy(primaries, failovers, hp, hf)
	} else {
		u.eligible, u.test = m.noFailoverPolicy(u, primaries), primaries
	}
	u.healthy = slices.ContainsFunc(u.eligible, func(b *member) bool { return m.isHealthy(u, b) })
}

// noFailoverPolicy is semantics.md 1.3.1, and 1.3.3 where weights apply.
func (m *Model) noFailoverPolicy(u *unit, all []*member) []*member {
	weighted := m.weightsApply(u)
	for _, wantZero := range []bool{false, true} {
		for _, wantHealthy := range []bool{true, false} {
			var set []*member
			for _, b := range all {
				zero := weighted && b.weight.PPM == 0
				if zero == wantZero && m.isHealthy(u, b) == wantHealthy {
					set = append(set, b)
				}
			}
			if len(set) > 0 {
				return set
			}
		}
	}
	return nil
}

// failoverPolicy is the ordered list of semantics.md 1.3.2.
func (u *unit) failoverPolicy(primaries, failovers, hp, hf []*member) (eligible, test []*member) {
	p := lb.FailoverPolicy{}
	if u.Failover != nil {
		p = *u.Failover
	}
	switch {
	case len(hp) == 0 && len(hf) == 0:
		if p.DropTrafficIfUnhealthy {
			return nil, nil
		}
		return primaries, primaries
	case len(hp) == 0:
		return hf, failovers
	case len(hf) == 0:
		return hp, primaries
	case p.Ratio == 0:
		return hp, primaries
	case len(hp)*1_000_000 >= int(p.Ratio)*len(primaries):
		return hp, primaries
	}
	return hf, failovers
}

// ordered lists the configured members. The order is that of the tables.
func (u *unit) ordered() []*member {
	var list []*member
	for _, b := range u.members {
		if !b.gone {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *member) int {
		return cmp.Or(strings.Compare(a.Instance, b.Instance), a.Addr.Compare(b.Addr))
	})
	return list
}

// isHealthy reports whether a member counts as healthy. As long as no check of
// the unit has spoken, all do; afterwards UNKNOWN does not.
func (m *Model) isHealthy(u *unit, b *member) bool {
	if !m.reachable[b.Addr] {
		return false
	}
	if b.state != lb.Unknown {
		return b.state == lb.Healthy
	}
	for _, other := range u.members {
		if !other.gone && !other.draining && other.state != lb.Unknown {
			return false
		}
	}
	return true
}

// weightsApply: every instance reported a valid weight or has an unavailable one
// (semantics.md 1.9). One of which nothing is known yet takes no part.
func (m *Model) weightsApply(u *unit) bool {
	if !u.LocalityLbPolicy.Weighted() {
		return false
	}
	for _, b := range u.members {
		switch {
		case b.gone, b.draining, b.weight.Err == "", b.weight.Err == lb.WeightUnavailable:
		case b.weight.Err == lb.WeightNone && (b.state == lb.Unknown || !m.reachable[b.Addr]):
		default:
			return false
		}
	}
	return true
}

// zonal turns E into M for a client of a zone (semantics.md 3.2, 3.4).
func (u *unit) zonal(zone string) []*member {
	z := u.Zonal
	if z.Spillover == lb.ZonalDisabled || z.Spillover == "" || zone == "" || len(u.eligible) == 0 {
		return u.eligible
	}
	var matched, both []*member
	for _, b := range u.test {
		if b.Zone == zone {
			matched = append(matched, b)
			if slices.Contains(u.eligible, b) {
				both = append(both, b)
			}
		}
	}
	switch {
	case len(matched) == 0:
		return u.eligible
	case z.Spillover == lb.ZonalStayWithinZone && len(both) == 0:
		return matched
	case z.Spillover == lb.ZonalStayWithinZone:
		return both
	case z.SpilloverRatio == 0 && len(both) > 0:
		return both
	case z.SpilloverRatio > 0 && len(both)*1_000_000 >= int(z.SpilloverRatio)*len(matched):
		return both
	}
	return u.eligible
}

// choice is where new connections of the clients of one zone go: M, without the
// members that nothing can be sent to.
type choice struct {
	members []*member
	shares  []selector.TableMember
	table   *table
}

// table is the slots of a set: indexes into its members.
type table struct{ slots []uint32 }

// choose computes the choices for clients of every zone and of none, and reports
// whether any is another one than before.
func (m *Model) choose(u *unit) (changed bool) {
	before := u.choices
	u.choices = map[string]*choice{"": m.choiceFor(u, "")}
	for _, z := range m.cfg.Clients.Zones {
		u.choices[z.Name] = m.choiceFor(u, z.Name)
	}
	same := func(a, b *choice) bool {
		return a != nil && b != nil && slices.Equal(a.members, b.members) && slices.Equal(a.shares, b.shares)
	}
	return u.chosenBy != u.LocalityLbPolicy || !maps.EqualFunc(before, u.choices, same)
}

func (m *Model) choiceFor(u *unit, zone string) *choice {
	c := &choice{}
	var sum uint64
	for _, b := range u.zonal(zone) {
		if !m.reachable[b.Addr] {
			continue
		}
		share := selector.TableMember{Name: b.Instance}
		if m.weightsApply(u) {
			share.Weight = b.weight.PPM
		}
		sum += share.Weight
		c.members, c.shares = append(c.members, b), append(c.shares, share)
	}
	for i := range c.shares {
		if sum == 0 { // no weights, or all are 0: equal shares
			c.shares[i].Weight = lb.WeightOne
		}
	}
	return c
}

// pick is the member for a hash, nil where there is none.
func (m *Model) pick(u *unit, zone string, hash uint64) *member {
	c := u.choices[zone]
	if len(c.members) == 0 {
		return nil
	}
	if c.table == nil {
		c.table = m.fill(u.LocalityLbPolicy, c.shares)
	}
	slots := c.table.slots
	return c.members[slots[slotOf(hash, len(slots))]]
}

// fill keeps tables: in a long run sets come back.
func (m *Model) fill(policy lb.LocalityLbPolicy, list []selector.TableMember) *table {
	key := fmt.Sprint(policy, list, m.cfg.Gateway.HashSeed)
	t := m.tables[key]
	if t == nil {
		slots, err := selector.Fill(policy, list, m.cfg.Gateway.HashSeed)
		if err != nil {
			panic(err) // a policy that configuration does not let in
		}
		t = &table{slots}
		m.tables[key] = t
	}
	return t
}
