package healthcheck

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// historyLen is how many transitions of a target are kept.
const historyLen = 16

// Transition is one change of a target's state.
type Transition struct {
	Previous, State lb.HealthState
	Result          Result // the probe that decided it
	At              time.Time
}

// record is what the Checker knows about one target. Its Checker's mutex
// guards all of it except target, which never changes.
type record struct {
	target Target   // canonical
	checks []string // names of the health checks that ask for it, sorted
	logged bool     // one of them has logging enabled

	// due is when the next probe starts, or the one in flight should have.
	due     time.Time
	pos     int // place in the schedule
	removed bool
	cancel  context.CancelFunc // of the probe in flight

	machine machine
	since   time.Time
	weight  lb.Weight
	last    Result
	lastAt  time.Time
	history []Transition // oldest first
	event   *pending     // queued and not yet taken by the reader

	results map[Detail]uint64
	latency time.Duration // sum over all probes
	skipped uint64

	transitions uint64
	source      netip.Addr
}

func newRecord(t Target, state lb.HealthState, now time.Time) *record {
	return &record{
		target: t, machine: seeded(state), since: now, weight: noWeight,
		last: Result{Detail: DetailUnknown, Weight: noWeight}, results: map[Detail]uint64{},
	}
}

// inherit takes over what was known of the target under other parameters. The
// present run of passes or misses is not: it was counted by other rules.
func (r *record) inherit(old *record) {
	r.machine = seeded(old.machine.state)
	r.machine.damped, r.transitions, r.source = old.machine.damped, old.transitions, old.source
	r.since, r.weight, r.last, r.lastAt = old.since, old.weight, old.last, old.lastAt
	r.history = slices.Clone(old.history)
	r.results, r.latency, r.skipped = maps.Clone(old.results), old.latency, old.skipped
}

// apply takes the result of a probe that ended at now. It reports whether the
// state changed and whether the weight did.
func (r *record) apply(res Result, now time.Time) (state, weight bool) {
	r.results[res.Detail]++
	r.latency += res.Latency
	r.last, r.lastAt = res, now
	if res.Source.IsValid() {
		r.source = res.Source
	}
	if res.Inconclusive() {
		return false, false
	}
	weight = r.weight != res.Weight
	r.weight = res.Weight
	previous := r.machine.state
	c := &r.target.Check
	if !r.machine.observe(res.OK(), c.HealthyThreshold, c.UnhealthyThreshold) {
		return false, weight
	}
	r.since = now
	r.transitions++
	if len(r.history) == historyLen {
		r.history = slices.Delete(r.history, 0, 1)
	}
	r.history = append(r.history, Transition{Previous: previous, State: r.machine.state, Result: res, At: now})
	return true, weight
}

// advance moves due to the next start of the target's own rhythm. Starts that
// passed by while the gateway was late or asleep are skipped, not made up for.
func (r *record) advance(now time.Time) {
	interval := r.target.Check.CheckInterval
	r.due = r.due.Add(interval)
	if late := now.Sub(r.due); late >= interval {
		n := late / interval
		r.due = r.due.Add(n * interval)
		r.skipped += uint64(n)
	}
}
