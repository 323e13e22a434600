package healthcheck

import (
	"time"

	"l4lb/pkg/lb"
)

// Event says that a target's state or weight changed. Where only the weight
// did, Previous equals State.
type Event struct {
	Target          Target // canonical, see Target.Key
	Previous, State lb.HealthState
	Result          Result // the probe that decided it; its Weight is the target's
	At              time.Time
}

// pending is an Event that the reader has not taken yet.
type pending struct {
	rec    *record
	event  Event
	weight lb.Weight // before the event
	void   bool      // nothing is left to tell
}

// queue holds the events in order, at most one per target, so that a slow
// reader costs bounded memory and finds the newest state.
type queue struct{ list []*pending }

// push adds what happened to r, or merges it into what waits already. An event
// and its reverse cancel out.
func (q *queue) push(r *record, event Event, weightBefore lb.Weight) {
	if p := r.event; p != nil {
		event.Previous = p.event.Previous
		p.event = event
		p.void = event.State == event.Previous && event.Result.Weight == p.weight
		return
	}
	r.event = &pending{rec: r, event: event, weight: weightBefore}
	q.list = append(q.list, r.event)
}

// pop takes the oldest event that still has something to tell, or nil.
func (q *queue) pop() *pending {
	for len(q.list) > 0 {
		p := q.list[0]
		q.list[0] = nil
		q.list = q.list[1:]
		p.rec.event = nil
		if !p.void && !p.rec.removed {
			return p
		}
	}
	q.list = nil
	return nil
}
