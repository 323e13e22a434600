package selector

import "l4lb/pkg/lb"

// view is a service's members as selection sees them: everything that does not
// depend on the client. All lists hold indexes into members in canonical order.
type view struct {
	members []Member
	policy  Policy
	healthy []bool // per member

	kind     Kind
	original []int  // E
	test     []int  // T, the zonal match test set (semantics.md 3.3)
	eligible []bool // per member: in E
	weighted bool   // the weights apply (semantics.md 1.9)
}

// newView computes the original eligible set (semantics.md 1.3).
func newView(members []Member, p Policy) *view {
	v := &view{members: members, policy: p, healthy: healthy(members)}
	v.weighted = p.Weighted && weightsApply(members)

	failover := p.Failover
	var primaries, failovers []int
	for _, i := range canonicalOrder(members) {
		if members[i].Failover && failover == nil {
			failover = &lb.FailoverPolicy{}
		}
		switch {
		case members[i].State == lb.Draining: // in no set, in no ratio
		case members[i].Failover:
			failovers = append(failovers, i)
		default:
			primaries = append(primaries, i)
		}
	}
	if failover == nil {
		v.withoutFailover(primaries)
	} else {
		v.withFailover(failover, primaries, failovers)
	}
	v.eligible = make([]bool, len(members))
	for _, i := range v.original {
		v.eligible[i] = true
	}
	return v
}

// withoutFailover is semantics.md 1.3.1, and 1.3.3 where weights apply.
func (v *view) withoutFailover(all []int) {
	classes := []struct {
		kind  Kind
		holds func(i int) bool
	}{
		{HealthyPrimaries, func(i int) bool { return v.healthy[i] }},
		{UnhealthyPrimaries, func(i int) bool { return !v.healthy[i] }},
	}
	v.kind = Drop
	for _, zeroWeight := range []bool{false, true} {
		for _, class := range classes {
			set := filter(all, func(i int) bool {
				zero := v.weighted && v.members[i].Weight.PPM == 0
				return class.holds(i) && zero == zeroWeight
			})
			if len(set) > 0 {
				v.kind, v.original, v.test = class.kind, set, all
				return
			}
		}
	}
}

// withFailover is semantics.md 1.3.2: the first row that is true.
func (v *view) withFailover(p *lb.FailoverPolicy, primaries, failovers []int) {
	isHealthy := func(i int) bool { return v.healthy[i] }
	hp, hf := filter(primaries, isHealthy), filter(failovers, isHealthy)

	switch {
	case len(hp) == 0 && len(hf) == 0:
		v.kind = Drop
		if !p.DropTrafficIfUnhealthy && len(primaries) > 0 {
			v.kind, v.original, v.test = UnhealthyPrimaries, primaries, primaries
		}
	case len(hp) == 0:
		v.kind, v.original, v.test = HealthyFailovers, hf, failovers
	case len(hf) == 0, p.Ratio == 0, p.Ratio.AtMost(len(hp), len(primaries)):
		v.kind, v.original, v.test = HealthyPrimaries, hp, primaries
	default:
		v.kind, v.original, v.test = HealthyFailovers, hf, failovers
	}
}

func filter(list []int, keep func(int) bool) []int {
	out := make([]int, 0, len(list))
	for _, i := range list {
		if keep(i) {
			out = append(out, i)
		}
	}
	return out
}
