package differential

import (
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// change is what happens between packets: one input or several at once, at times
// after a jump.
func (g *generator) change() step {
	var s step
	if g.oneIn(4) {
		s.wait = g.jump()
	}
	for range 1 + g.IntN(2)*g.IntN(3) {
		s.events = append(s.events, g.event()...)
		if last := len(s.events) - 1; last >= 0 && s.events[last].config != nil {
			break // the daemon reconciles after each reload
		}
	}
	return s
}

func (g *generator) event() []event {
	if len(g.config.Services) == 0 || g.oneIn(6) {
		g.config = reload(g.random, g.config)
		return []event{{config: g.config}}
	}
	s := &g.config.Services[g.IntN(len(g.config.Services))]
	switch n := g.IntN(12); {
	case n == 0:
		return g.massFlip(s, choose(g.random, lb.Healthy, lb.Healthy, lb.Unhealthy), nil)
	case n == 1:
		failover := g.oneIn(2)
		return g.massFlip(s, choose(g.random, lb.Healthy, lb.Unhealthy), &failover)
	case n == 2:
		return g.pick(s, func(instance string) event { return event{link: &linkEvent{instance, g.oneIn(2)}} })
	case n == 3, n == 4:
		return g.pick(s, func(instance string) event {
			return event{drain: &drainEvent{instance, choose(g.random, "", s.Name), g.oneIn(2)}}
		})
	}
	if s.HealthCheck == "" {
		return nil
	}
	return g.pick(s, func(instance string) event { return g.healthOf(s.Name, instance, g.state()) })
}

func (g *generator) state() lb.HealthState {
	return choose(g.random, lb.Healthy, lb.Healthy, lb.Healthy, lb.Unhealthy, lb.Unhealthy, lb.Unhealthy, lb.Unknown, lb.Draining)
}

// pick makes an event of one instance: mostly of one that is configured.
func (g *generator) pick(s *lb.Service, make func(instance string) event) []event {
	backends := g.config.Backends(s)
	if len(backends) == 0 || g.oneIn(20) {
		return []event{make(instanceName(g.IntN(groupCount), g.IntN(groupCapacity)))}
	}
	return []event{make(backends[g.IntN(len(backends))].Instance)}
}

// massFlip gives all backends of a service a state, or all of one pool.
func (g *generator) massFlip(s *lb.Service, state lb.HealthState, failover *bool) []event {
	var events []event
	if s.HealthCheck == "" {
		return nil
	}
	for _, b := range g.config.Backends(s) {
		if failover == nil || b.Failover == *failover {
			events = append(events, g.healthOf(s.Name, b.Instance, state))
		}
	}
	return events
}

// healthOf mostly comes with a weight.
func (g *generator) healthOf(service, instance string, state lb.HealthState) event {
	h := selector.HealthOf(state)
	switch {
	case g.oneIn(12):
		h.Weight.Err = choose(g.random, lb.WeightInvalid, lb.WeightMissing, lb.WeightNone, lb.WeightUnavailable)
	case state == lb.Healthy || g.oneIn(3):
		h.Weight = lb.Weight{PPM: choose[uint64](g.random, 0, 1, 1, 2, 5) * lb.WeightOne}
	}
	return event{health: &healthEvent{service, instance, h}}
}

// jump is a wait of about one of the times that matter.
func (g *generator) jump() time.Duration {
	times := []time.Duration{time.Second}
	for _, s := range g.config.Services {
		times = append(times, s.Tracking.IdleTimeout, s.DrainTimeout)
		if s.Failover != nil {
			times = append(times, s.Failover.DrainTimeout)
		}
	}
	off := choose(g.random, -time.Second, -time.Millisecond, 0, time.Millisecond, time.Second)
	return max(0, choose(g.random, times...)+off)
}
