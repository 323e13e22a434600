package config

import (
	"slices"
	"time"

	"l4lb/pkg/lb"
)

const (
	minIdleSec         = 600 // also the default; semantics.md 1.7
	maxIdleSec         = 57600
	defaultIdleTimeout = minIdleSec * time.Second
)

func requireServiceFields(c *check) {
	for i := range c.services {
		s := &c.services[i]
		require(c.report, s.pos, s.name, "backend service", "name", "web")
		for j := range s.backends {
			require(c.report, s.backends[j].pos, s.backends[j].group, "backend", "group", "web-a")
		}
	}
}

func oneHealthCheck(c *check) {
	for i := range c.services {
		if checks := c.services[i].checks; len(checks) > 1 {
			c.errorf(checks[1].pos, "healthChecks has %d entries: a backend service has at most one health check", len(checks))
		}
	}
}

func serviceReferences(c *check) {
	for i := range c.services {
		s := &c.services[i]
		for _, ref := range s.checks {
			resolve(c.report, "healthChecks", "health check", ref, c.checkNamed)
		}
		for j := range s.backends {
			resolve(c.report, "group", "group", s.backends[j].group, c.groupNamed)
		}
	}
}

func uniqueBackendGroups(c *check) {
	for i := range c.services {
		s := &c.services[i]
		seen := map[string]int{}
		for j := range s.backends {
			g := s.backends[j].group
			if !g.ok() {
				continue
			}
			if line, twice := seen[g.v]; twice {
				c.errorf(g.pos, "group %q is already attached to service %q at line %d: remove one", g.v, s.name.v, line)
				continue
			}
			seen[g.v] = g.pos.line
		}
	}
}

// alwaysPersistNeedsPerConnection is the ruling of semantics.md 1.8 and 10.6.
func alwaysPersistNeedsPerConnection(c *check) {
	for i := range c.services {
		t := &c.services[i].tracking
		if t.persistence.or("") == lb.PersistAlways && t.mode.or("") == lb.PerSession {
			c.errorf(t.persistence.pos, "connectionPersistenceOnUnhealthyBackends %q cannot be used with trackingMode PER_SESSION: use DEFAULT_FOR_PROTOCOL or NEVER_PERSIST, or trackingMode PER_CONNECTION", lb.PersistAlways)
		}
	}
}

// idleTimeoutAllowed: the API's idle timeout can be set only where a tracking
// entry is coarser than a connection (semantics.md 1.7). Ours can everywhere.
func idleTimeoutAllowed(c *check) {
	for i := range c.services {
		s := &c.services[i]
		idle := s.tracking.idle
		if !idle.ok() || !s.tracking.mode.known() || !s.affinity.known() {
			continue
		}
		sec := idle.v / time.Second
		coarse := s.tracking.mode.or(lb.PerConnection) == lb.PerSession && !s.affinity.or(lb.AffinityNone).FiveTuple()
		switch {
		case coarse && (sec < minIdleSec || sec > maxIdleSec):
			c.errorf(idle.pos, "idleTimeoutSec %d is out of range: use %d to %d, or l4lb.idleTimeoutSec for 1 to %d",
				sec, minIdleSec, maxIdleSec, maxIdleSec)
		case !coarse && sec != minIdleSec:
			c.errorf(idle.pos, "idleTimeoutSec %d can differ from %d only with trackingMode PER_SESSION and sessionAffinity CLIENT_IP, CLIENT_IP_PROTO or CLIENT_IP_NO_DESTINATION: set l4lb.idleTimeoutSec, which every service may have",
				sec, minIdleSec)
		}
	}
}

func spilloverRatioNeedsSpill(c *check) {
	for i := range c.services {
		z := &c.services[i].zonal
		if z.ratio.set && z.spillover.known() && z.spillover.or(lb.ZonalDisabled) != lb.ZonalSpillCrossZone {
			c.errorf(z.ratio.pos, "spilloverRatio has no meaning with spillover %s: remove it, or use %s",
				z.spillover.or(lb.ZonalDisabled), lb.ZonalSpillCrossZone)
		}
	}
}

// zonalExcludesSubsetting is a row of semantics.md 3.7.
func zonalExcludesSubsetting(c *check) {
	for i := range c.services {
		s := &c.services[i]
		if s.zonal.enabled() && s.subset.policy.or("NONE") != "NONE" {
			c.errorf(s.subset.policy.pos, "subsetting %q excludes zonal affinity: remove one of the two", s.subset.policy.v)
		}
	}
}

// hasFailover reports whether the service divides its backends in primaries
// and failover backends: by a policy, or by a failover group under the default
// policy.
func (s *service) hasFailover() bool {
	return s.failover.set || slices.ContainsFunc(s.backends, func(b backend) bool { return b.failover.or(false) })
}
