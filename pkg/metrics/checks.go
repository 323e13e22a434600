package metrics

import (
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
)

type (
	checkRecord struct {
		target healthcheck.Target
		detail healthcheck.Detail
	}
	checkOwner struct {
		protocol lb.HealthCheckType
		detail   healthcheck.Detail
	}
)

// asker is a health check at an address. A target whose parameters changed goes
// on counting where the one before it stopped, and has an asker of it.
type asker struct {
	addr  netip.Addr
	via   healthcheck.Via
	check string
}

func (c *Collector) collectChecks(s sink) {
	snapshot := c.opts.Checks.Snapshot()
	before := c.askers
	c.askers = map[asker]healthcheck.Target{}
	present := map[healthcheck.Target]bool{}
	for _, t := range snapshot.Targets {
		present[t.Target] = true
		for _, name := range t.Checks {
			a := asker{t.Target.Addr, t.Target.Via, name}
			if old, ok := before[a]; ok && old != t.Target {
				c.inherit(old, t)
			}
			c.askers[a] = t.Target
		}
		for detail, n := range t.Results {
			c.checks.add(checkRecord{t.Target, detail}, checkOwner{t.Target.Check.Type, detail}, counts{n})
		}
	}
	// A target that is added again counts from 0.
	for r := range c.checks.last {
		if !present[r.target] {
			delete(c.checks.last, r)
		}
	}
	c.putChecks(s, snapshot)
}

// inherit makes what a target counted before its parameters changed not count
// again. One that was there before under its own name did not inherit.
func (c *Collector) inherit(old healthcheck.Target, now healthcheck.Status) {
	for detail := range now.Results {
		if _, known := c.checks.last[checkRecord{now.Target, detail}]; known {
			return
		}
	}
	for detail := range now.Results {
		c.checks.last[checkRecord{now.Target, detail}] = c.checks.last[checkRecord{old, detail}]
	}
}

func (c *Collector) putChecks(s sink, snapshot healthcheck.Snapshot) {
	for o, n := range c.checks.totals {
		s.put(c.d.probes, float64(n[0]), string(o.protocol), string(o.detail))
	}
	for protocol, h := range snapshot.Latency {
		s.histogram(c.d.probeDuration, h, string(protocol))
	}
	s.histogram(c.d.probeLateness, snapshot.Lateness)
	s.put(c.d.probesInFlight, float64(snapshot.InFlight))
	s.put(c.d.probesWaiting, float64(snapshot.Waiting))
	for change, n := range snapshot.Transitions {
		s.put(c.d.transitions, float64(n), string(change.Type), string(change.State))
	}
	for protocol, n := range snapshot.Damped {
		s.put(c.d.damped, float64(n), string(protocol))
	}
	for _, t := range snapshot.Targets {
		s.put(c.d.targetSince, float64(t.Since.UnixMilli())/1000, strings.Join(t.Checks, ","), string(t.Target.Check.Type),
			t.Target.Endpoint().String(), t.Target.AddrPort().String(), string(t.State))
	}
}

// histogram writes a Histogram with cumulative buckets.
func (s sink) histogram(d description, h healthcheck.Histogram, labels ...string) {
	buckets := map[float64]uint64{}
	sum := uint64(0)
	for i, bound := range healthcheck.HistogramBounds() {
		sum += h.Counts[i]
		buckets[bound.Seconds()] = sum
	}
	s.out <- prometheus.MustNewConstHistogram(d.desc, h.Count(), h.Sum.Seconds(), buckets, labels...)
}
