package metrics

import (
	"l4lb/pkg/controller"
	"l4lb/pkg/loader"
)

// collectRefused shows what rules with source ranges or limits did not take.
func (c *Collector) collectRefused(s sink, snapshot *controller.Snapshot) {
	c.refused.begin()
	for i := range snapshot.Rules {
		r := &snapshot.Rules[i]
		if !r.Rule.Admission.Asks() {
			continue
		}
		ids := []uint32{r.ID}
		if r.RoutedID != 0 {
			ids = append(ids, r.RoutedID)
		}
		for _, id := range ids {
			n, err := c.opts.Counters.Refused(id)
			if c.failure(err) {
				continue
			}
			c.refused.add(id, r.Rule.Name, counts{n.NotAllowed, n.Limited, n.SourceLimited})
		}
	}
	c.refused.end()
	for rule, n := range c.refused.totals {
		for i, reason := range []loader.Reason{
			loader.ReasonSourceNotAllowed, loader.ReasonRateLimited, loader.ReasonSourceRateLimited,
		} {
			s.put(c.d.ruleRefused, float64(n[i]), rule, reason.String())
		}
	}
}
