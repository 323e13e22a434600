package healthcheck

import "l4lb/pkg/lb"

// machine turns results into a state. It changes only on consecutive results
// (semantics.md 5.2): a pass ends a run of failures and the reverse. A backend
// that was never judged is UNKNOWN, and its first pass alone makes it HEALTHY,
// so that a new backend serves after one probe.
type machine struct {
	state          lb.HealthState
	passes, misses int // length of the present run; one of them is 0
	// damped counts runs against the state that ended before the threshold.
	damped uint64
}

// observe takes one result and reports whether the state changed.
func (m *machine) observe(ok bool, healthyThreshold, unhealthyThreshold int) bool {
	next := m.state
	if ok && m.misses > 0 && m.state == lb.Healthy || !ok && m.passes > 0 && m.state == lb.Unhealthy {
		m.damped++
	}
	if ok {
		m.passes, m.misses = m.passes+1, 0
		if m.state == lb.Unknown || m.passes >= healthyThreshold {
			next = lb.Healthy
		}
	} else {
		m.passes, m.misses = 0, m.misses+1
		if m.misses >= unhealthyThreshold {
			next = lb.Unhealthy
		}
	}
	changed := next != m.state
	m.state = next
	return changed
}

// seeded is a machine that starts where an earlier one left off. Only HEALTHY
// and UNHEALTHY are results of checks; anything else starts UNKNOWN.
func seeded(state lb.HealthState) machine {
	if state != lb.Healthy && state != lb.Unhealthy {
		state = lb.Unknown
	}
	return machine{state: state}
}
