package selector

import "l4lb/pkg/lb"

// weightsApply reports whether the reported weights are used: every instance
// reported a valid one or has UNAVAILABLE_WEIGHT (semantics.md 1.9). The API
// calls the weight of an instance in unknown state unavailable too, so a new
// backend, or one that cannot be reached, does not turn off everybody's weights.
func weightsApply(members []Member) bool {
	for i := range members {
		m := &members[i]
		switch {
		case m.State == lb.Draining:
		case m.Weight.Valid(), m.Weight.Err == lb.WeightUnavailable:
		case m.Weight.Err == lb.WeightNone && (m.State == lb.Unknown || m.Unreachable):
		default:
			return false
		}
	}
	return true
}

// tableWeights returns the weights that share a table among these members:
// the reported ones where they apply, else equal ones. If all are 0 they are
// equal too, since new connections must go somewhere (semantics.md 1.9).
func (v *view) tableWeights(set []int) []uint64 {
	out := make([]uint64, len(set))
	var any bool
	for k, i := range set {
		if v.weighted {
			out[k] = v.members[i].Weight.PPM
		}
		any = any || out[k] > 0
	}
	if !any {
		for k := range out {
			out[k] = lb.WeightOne
		}
	}
	return out
}
