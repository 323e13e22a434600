package differential

import (
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// shrink looks for a shorter sequence that fails too, though not always in the
// same way: it takes steps away, then single events, then parts of the
// configurations, as long as something goes and there is time.
func shrink(flowSeed uint64, steps []step, limit time.Duration) []step {
	deadline := time.Now().Add(limit)
	try := func(shorter []step) bool {
		if time.Now().After(deadline) {
			return false
		}
		_, m := run(flowSeed, shorter)
		if m == nil {
			return false
		}
		steps = shorter[:m.step+1]
		return true
	}
	for size := -1; size != weight(steps); {
		size = weight(steps)
		for chunk := len(steps) / 2; chunk > 0; chunk /= 2 {
			for at := 1; at < len(steps); {
				if !try(slices.Delete(slices.Clone(steps), at, min(at+chunk, len(steps)))) {
					at += chunk
				}
			}
		}
		shrinkEvents(&steps, try)
		shrinkConfigs(&steps, try)
	}
	return steps
}

// weight is what shrinking makes less of.
func weight(steps []step) int {
	n := len(steps)
	for _, s := range steps {
		n += len(s.events)
		for _, e := range s.events {
			if e.config != nil {
				n += len(e.config.Services) + len(e.config.Rules) + len(e.config.Routes)
				for _, g := range e.config.Groups {
					n += 1 + len(g.Endpoints)
				}
			}
		}
	}
	return n
}

func shrinkEvents(steps *[]step, try func([]step) bool) {
	for i := 0; i < len(*steps); i++ {
		for k := 0; i < len(*steps) && k < len((*steps)[i].events); {
			if i == 0 && k == 0 {
				k++
				continue
			}
			shorter := slices.Clone(*steps)
			shorter[i].events = slices.Delete(slices.Clone(shorter[i].events), k, k+1)
			if !try(shorter) {
				k++
			}
		}
	}
}

// shrinkConfigs takes a service, a rule, a group or an instance out of all
// configurations at once.
func shrinkConfigs(steps *[]step, try func([]step) bool) {
	without := func(take func(*lb.Config)) {
		shorter := slices.Clone(*steps)
		for i := range shorter {
			shorter[i].events = slices.Clone(shorter[i].events)
			for k, e := range shorter[i].events {
				if e.config != nil {
					cfg := cloneConfig(e.config)
					take(cfg)
					dropRoutes(cfg)
					shorter[i].events[k].config = cfg
				}
			}
		}
		if weight(shorter) < weight(*steps) {
			try(shorter)
		}
	}
	for _, name := range namesIn(*steps, func(c *lb.Config) []lb.Service { return c.Services }, func(s lb.Service) string { return s.Name }) {
		without(func(c *lb.Config) {
			c.Services = slices.DeleteFunc(c.Services, func(s lb.Service) bool { return s.Name == name })
			c.Rules = slices.DeleteFunc(c.Rules, func(r lb.ForwardingRule) bool { return r.Service == name })
		})
	}
	for _, name := range namesIn(*steps, func(c *lb.Config) []lb.ForwardingRule { return c.Rules }, func(r lb.ForwardingRule) string { return r.Name }) {
		without(func(c *lb.Config) {
			c.Rules = slices.DeleteFunc(c.Rules, func(r lb.ForwardingRule) bool { return r.Name == name })
		})
	}
	for _, name := range namesIn(*steps, func(c *lb.Config) []lb.Route { return c.Routes }, func(t lb.Route) string { return t.Name }) {
		without(func(c *lb.Config) {
			c.Routes = slices.DeleteFunc(c.Routes, func(t lb.Route) bool { return t.Name == name })
		})
	}
	for _, name := range namesIn(*steps, func(c *lb.Config) []lb.Group { return c.Groups }, func(g lb.Group) string { return g.Name }) {
		without(func(c *lb.Config) { removeGroup(c, name) })
	}
	for i := range groupCount {
		for n := range groupCapacity {
			without(func(c *lb.Config) {
				for k := range c.Groups {
					g := &c.Groups[k]
					g.Endpoints = slices.DeleteFunc(g.Endpoints, func(e lb.Endpoint) bool { return e.Instance == instanceName(i, n) })
				}
			})
		}
	}
}

func removeGroup(c *lb.Config, name string) {
	c.Groups = slices.DeleteFunc(c.Groups, func(g lb.Group) bool { return g.Name == name })
	for k := range c.Services {
		s := &c.Services[k]
		s.Backends = slices.DeleteFunc(s.Backends, func(b lb.BackendRef) bool { return b.Group == name })
	}
}

func namesIn[T any](steps []step, list func(*lb.Config) []T, name func(T) string) []string {
	var out []string
	for _, s := range steps {
		for _, e := range s.events {
			if e.config != nil {
				for _, x := range list(e.config) {
					out = append(out, name(x))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
