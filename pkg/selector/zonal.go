package selector

import "l4lb/pkg/lb"

// zonalResult is the outcome of the zonal step for one client zone.
type zonalResult struct {
	matched      []int // C
	intersection []int // I
	modified     []int // M
	reason       Reason
}

// match reports whether the client's zone holds a member of the test set.
func (r zonalResult) match() bool { return len(r.matched) > 0 }

// reached reports whether the zonal step is taken at all, and if not, why
// (semantics.md 3.2, the first two preconditions).
func (v *view) reached(compatible bool) (Reason, bool) {
	switch {
	case v.kind == Drop:
		return Dropped, false
	case v.policy.Zonal.Spillover == "" || v.policy.Zonal.Spillover == lb.ZonalDisabled:
		return AffinityDisabled, false
	case !compatible:
		return ClientNotCompatible, false
	}
	return "", true
}

// zonal narrows the original set for a client whose zone holds these members
// of the test set (semantics.md 3.4).
func (v *view) zonal(matched []int) zonalResult {
	r := zonalResult{matched: matched}
	r.intersection = filter(matched, func(i int) bool { return v.eligible[i] })
	switch {
	case len(matched) == 0:
		r.modified, r.reason = v.original, NoZonalMatch
	case v.stays(len(r.intersection), len(matched)):
		r.modified, r.reason = r.intersection, StayedInZone
	case v.policy.Zonal.Spillover == lb.ZonalStayWithinZone:
		r.modified, r.reason = matched, StayedInZoneUnhealthy
	default:
		r.modified, r.reason = v.original, Spilled
	}
	return r
}

// stays reports whether the intersection serves the zone. Ratio 0 is not
// "at least 0 %" but "at least one" (semantics.md 3.4).
func (v *view) stays(intersection, matched int) bool {
	z := v.policy.Zonal
	if z.Spillover == lb.ZonalStayWithinZone || z.SpilloverRatio == 0 {
		return intersection > 0
	}
	return z.SpilloverRatio.AtMost(intersection, matched)
}
