package metrics

import (
	"l4lb/pkg/controller"
	"l4lb/pkg/passive"
)

// Suspicions are what is suspected of backends; *passive.Watch has them.
type Suspicions interface {
	Of(k passive.Key) []passive.Suspicion
	// Total is how many suspicions began, and whether the backend is watched.
	Total(k passive.Key, s passive.Signal) (n uint64, watched bool)
}

// collectSuspicions shows backends of services with passiveSignals.
func (c *Collector) collectSuspicions(s sink, service string, m controller.MemberStatus) {
	k := passive.Key{Service: service, Instance: m.Backend.Instance, Addr: m.Backend.Addr}
	now := map[passive.Signal]bool{}
	for _, suspicion := range c.opts.Suspicions.Of(k) {
		now[suspicion.Signal] = true
	}
	for _, signal := range passive.Signals() {
		n, watched := c.opts.Suspicions.Total(k, signal)
		if !watched {
			continue
		}
		labels := []string{service, m.Backend.Instance, m.Backend.Addr.String(), zoneLabel(m.Backend.Zone), string(signal)}
		s.flag(c.d.suspected, now[signal], labels...)
		s.put(c.d.suspicions, float64(n), labels...)
	}
}
