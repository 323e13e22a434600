package healthcheck

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// Status is what is known of one target.
type Status struct {
	Target Target   // canonical, see Target.Key
	Checks []string // names of the health checks that ask for it, sorted
	State  lb.HealthState
	Since  time.Time // of State
	Weight lb.Weight
	// Last is the newest result, of detail UNKNOWN before the first, and
	// LastAt when it came.
	Last   Result
	LastAt time.Time
	// Passes and Misses is the length of the present run; one of them is 0.
	Passes, Misses int
	// Transitions counts changes of state since the target was added; many of
	// them are flaps, which the thresholds should damp.
	Transitions uint64
	// Damped counts runs of passes or misses that ended before the threshold:
	// flaps that the thresholds kept from new connections.
	Damped uint64
	// Source is the local address of the newest connection, not valid before
	// the first.
	Source netip.Addr
	// Results counts probes by outcome since the target was added, and
	// LatencySum is their time taken together.
	Results    map[Detail]uint64
	LatencySum time.Duration
	// Skipped counts starts left out because the gateway was late by more
	// than an interval.
	Skipped uint64
	// History holds the newest 16 transitions, oldest first.
	History []Transition
}

// Snapshot is the state of a Checker at one moment.
type Snapshot struct {
	Targets []Status // by address, port, backend, type
	// InFlight probes are running, Waiting ones are due but over MaxInFlight.
	InFlight, Waiting int
	// Lateness is the time from when a probe was due to when it started.
	Lateness Histogram
	// Latency is the duration of probes by protocol.
	Latency map[lb.HealthCheckType]Histogram
	// Transitions counts changes of state since the Checker was made, also
	// of targets that are gone.
	Transitions map[Change]uint64
	// Damped counts, by protocol, flaps that the thresholds kept from
	// changing a state, also of targets that are gone.
	Damped map[lb.HealthCheckType]uint64
}

// Change is a kind of transition.
type Change struct {
	Type  lb.HealthCheckType
	State lb.HealthState // the new one
}

// Snapshot returns a copy that no later probe changes.
func (c *Checker) Snapshot() Snapshot {
	s := c.copyState()
	slices.SortFunc(s.Targets, func(a, b Status) int {
		return cmp.Or(
			a.Target.AddrPort().Compare(b.Target.AddrPort()),
			a.Target.Via.Backend.Compare(b.Target.Via.Backend),
			cmp.Compare(a.Target.Check.Type, b.Target.Check.Type),
			slices.Compare(a.Checks, b.Checks),
		)
	})
	return s
}

// copyState is the part of Snapshot that holds the lock.
func (c *Checker) copyState() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Snapshot{
		Targets:  make([]Status, 0, len(c.records)),
		InFlight: c.inFlight, Waiting: len(c.waiting),
		Lateness: c.lateness,
		Latency:  make(map[lb.HealthCheckType]Histogram, len(c.latency)),
		Damped:   maps.Clone(c.damped), Transitions: maps.Clone(c.transitions),
	}
	for _, r := range c.records {
		s.Targets = append(s.Targets, r.status())
	}
	for kind, h := range c.latency {
		s.Latency[kind] = *h
	}
	return s
}

// Status returns what is known of one target; ok is false if it is not probed.
func (c *Checker) Status(t Target) (s Status, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[t.Key()]
	if r == nil {
		return Status{}, false
	}
	return r.status(), true
}

func (r *record) status() Status {
	return Status{
		Target: r.target, Checks: slices.Clone(r.checks),
		State: r.machine.state, Since: r.since, Weight: r.weight,
		Last: r.last, LastAt: r.lastAt,
		Passes: r.machine.passes, Misses: r.machine.misses,
		Transitions: r.transitions, Damped: r.machine.damped, Source: r.source,
		Results: maps.Clone(r.results), LatencySum: r.latency, Skipped: r.skipped,
		History: slices.Clone(r.history),
	}
}
