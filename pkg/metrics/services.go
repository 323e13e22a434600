package metrics

import (
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/neigh"
	"l4lb/pkg/selector"
)

// states of a backend, in the order of the API.
func states() []lb.HealthState {
	return []lb.HealthState{lb.Healthy, lb.Unhealthy, lb.Draining, lb.Unknown}
}

func kinds() []selector.Kind {
	return []selector.Kind{
		selector.HealthyPrimaries, selector.HealthyFailovers, selector.UnhealthyPrimaries, selector.Drop,
	}
}

func neighbourStates() []neigh.State {
	return []neigh.State{
		neigh.Pending, neigh.Resolved, neigh.Stale, neigh.Unresolved,
		neigh.NoRoute, neigh.LinkDown, neigh.Local, neigh.NotEthernet,
	}
}

func (c *Collector) collectServices(s sink, snapshot *controller.Snapshot) {
	for _, service := range snapshot.Services {
		family := "ipv4"
		if service.IPv6 {
			family = "ipv6"
		}
		eligible, byState := 0, map[lb.HealthState]int{}
		for _, m := range service.Members {
			byState[m.State]++
			if m.Eligible {
				eligible++
			}
			c.collectBackend(s, service.Name, m)
		}
		for _, state := range states() {
			s.put(c.d.serviceBackends, float64(byState[state]), service.Name, family, string(state))
		}
		s.put(c.d.serviceEligible, float64(eligible), service.Name, family)
		for _, kind := range kinds() {
			s.flag(c.d.serviceSet, service.Kind == kind, service.Name, family, string(kind))
		}
	}
}

func (c *Collector) collectBackend(s sink, service string, m controller.MemberStatus) {
	labels := []string{service, m.Backend.Instance, m.Backend.Addr.String(), zoneLabel(m.Backend.Zone)}
	for _, state := range states() {
		s.flag(c.d.backendState, m.State == state, append(labels[:4:4], string(state))...)
	}
	s.flag(c.d.backendReachable, m.Link.Usable, labels...)
	c.collectSuspicions(s, service, m)
	if m.Weight.Valid() {
		s.put(c.d.backendWeight, float64(m.Weight.PPM)/lb.WeightOne, labels...)
	}
}

func (c *Collector) collectNeighbours(s sink) {
	byState := map[neigh.State]int{}
	for _, e := range c.opts.Neighbours.Snapshot() {
		byState[e.State]++
	}
	for _, state := range neighbourStates() {
		s.put(c.d.neighbours, float64(byState[state]), string(state))
	}
}
