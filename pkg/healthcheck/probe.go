package healthcheck

import (
	"context"
	"net/netip"
	"time"
)

// localWarnEvery is the least time between two warnings that the gateway
// itself cannot make probes.
const localWarnEvery = 10 * time.Second

// startWaiting starts due probes, longest due first, as far as the bound
// allows. The caller holds mu.
func (c *Checker) startWaiting() {
	if c.ctx.Err() != nil {
		return
	}
	for len(c.waiting) > 0 && c.inFlight < c.maxInFlight {
		r := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		if !r.removed {
			c.start(r)
		}
	}
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
}

// start begins a probe of r. The caller holds mu.
func (c *Checker) start(r *record) {
	ctx, cancel := context.WithCancel(c.ctx)
	r.cancel = cancel
	c.inFlight++
	due := r.due
	c.probes.Go(func() {
		defer cancel()
		c.probe(ctx, r, due)
	})
}

// probe makes one probe of r and takes its result into account.
func (c *Checker) probe(ctx context.Context, r *record, due time.Time) {
	begun := time.Now()
	var source netip.Addr
	limited, cancel := context.WithTimeout(context.WithValue(ctx, sourceKey{}, &source), r.target.Check.Timeout)
	defer cancel()
	res := c.probers[r.target.Check.Type].Probe(limited, r.target)
	now := time.Now()
	if !res.Source.IsValid() {
		res.Source = source
	}
	if res.Latency == 0 {
		res.Latency = now.Sub(begun)
	}
	c.mu.Lock()
	entry := c.finish(r, res, begun.Sub(due), now)
	c.mu.Unlock()
	if entry != nil {
		c.write(entry)
	}
}

// finish applies a result, puts r back on the schedule and returns what is to
// be logged. A probe that was cancelled says nothing. The caller holds mu.
func (c *Checker) finish(r *record, res Result, late time.Duration, now time.Time) *logEntry {
	c.inFlight--
	r.cancel = nil
	defer c.startWaiting()
	if r.removed || c.ctx.Err() != nil {
		return nil
	}
	c.lateness.observe(late)
	c.latencyOf(r).observe(res.Latency)

	previous, before, weight, damped := r.machine.state, r.last, r.weight, r.machine.damped
	changed, reweighted := r.apply(res, now)
	if r.machine.damped > damped {
		c.damped[r.target.Check.Type]++
	}
	if changed {
		c.transitions[Change{r.target.Check.Type, r.machine.state}]++
	}
	if changed || reweighted {
		c.queue.push(r, Event{Target: r.target, Previous: previous, State: r.machine.state, Result: res, At: now}, weight)
		c.poke()
	}
	r.advance(now)
	c.idle.add(r)
	if r.due.Before(c.alarm) {
		c.poke()
	}
	if res.Inconclusive() && now.Sub(c.localWarn) >= localWarnEvery {
		c.localWarn = now
		return newLogEntry(r, previous, before.Detail, msgLocalError)
	}
	switch {
	case changed:
		return newLogEntry(r, previous, before.Detail, msgState)
	case r.logged && before.Detail != res.Detail:
		return newLogEntry(r, previous, before.Detail, msgDetail)
	}
	return nil
}

// latencyOf is the histogram that r's probes count in. The caller holds mu.
func (c *Checker) latencyOf(r *record) *Histogram {
	h := c.latency[r.target.Check.Type]
	if h == nil {
		h = &Histogram{}
		c.latency[r.target.Check.Type] = h
	}
	return h
}
