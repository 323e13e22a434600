package config

import "l4lb/pkg/lb"

// noEffect lists settings that are valid and do nothing in this file. They
// are warnings: a configuration that is being built up passes through them.
func noEffect() []func(*check) {
	return []func(*check){zoneWithoutClients, weightsWithoutSource, drainWithoutFailover, logSettingsUnused, rangeWithinRange, passiveSignalsUnused, sessionsHideSYNs, tunnelAddressUnused, tunnelSourcesUnused}
}

// zoneWithoutClients finds the zone name that was mistyped on one side.
func zoneWithoutClients(c *check) {
	if len(c.zones) == 0 {
		return
	}
	known := map[string]*zone{}
	for i := range c.zones {
		known[c.zones[i].name.v] = &c.zones[i]
	}
	for i := range c.services {
		s := &c.services[i]
		if !s.zonal.enabled() {
			continue
		}
		for j := range s.backends {
			g := c.groupNamed[s.backends[j].group.v]
			if g.zone.set && known[g.zone.v] == nil {
				c.warnf(g.zone.pos, "zone %q has no client ranges, so zonal affinity never chooses group %q: %s",
					g.zone.v, g.name.v, existing(g.zone.v, "zone", known))
			}
		}
	}
}

// weightsWithoutSource: weights are told by HTTP answers (semantics.md 1.9).
func weightsWithoutSource(c *check) {
	for i := range c.services {
		s := &c.services[i]
		if !s.policy.or(lb.DefaultLocalityLbPolicy).Weighted() {
			continue
		}
		if len(s.checks) == 0 || !isHTTP(c.checkNamed[s.checks[0].v].kind.v) {
			c.warnf(s.policy.pos, "localityLbPolicy %q has no source of weights, so all are equal: use a health check of type HTTP", s.policy.v)
		}
	}
}

func drainWithoutFailover(c *check) {
	for i := range c.services {
		if s := &c.services[i]; s.extension.failoverDrain.set && !s.hasFailover() {
			c.warnf(s.extension.failoverDrain.pos, "failoverDrainTimeoutSec has no effect on a service without failover")
		}
	}
}

func logSettingsUnused(c *check) {
	for i := range c.services {
		log := &c.services[i].log
		for _, at := range []struct {
			set bool
			pos pos
			key string
		}{{log.rate.set, log.rate.pos, "sampleRate"}, {log.mode.set, log.mode.pos, "optionalMode"}} {
			if at.set && !log.enable.or(false) {
				c.warnf(at.pos, "%s has no effect while logConfig.enable is false", at.key)
			}
		}
	}
}
