package config

import "net/netip"

const (
	maxFlowRate = 10_000_000
	// minBurstShare of a second's flows must be let in at once: the clock that
	// rates are kept by moves by up to 10 ms.
	minBurstShare = 100
)

// usableSourceRanges: ranges that no client of the rule can be in, or that say
// the same twice, are mistakes.
func usableSourceRanges(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		x := &f.extension
		if x.rangesAt != (pos{}) && len(x.ranges) == 0 {
			c.errorf(x.rangesAt, "allowedSourceRanges is empty: remove it to allow every client, or list networks such as 10.0.0.0/8")
		}
		seen := map[netip.Prefix]val[netip.Prefix]{}
		for _, r := range x.ranges {
			if !r.ok() {
				continue
			}
			if first, twice := seen[r.v]; twice {
				c.errorf(r.pos, "allowedSourceRanges %s is listed twice, first at line %d: remove one", r.v, first.pos.line)
				continue
			}
			seen[r.v] = r
			if f.address.ok() && r.v.Addr().Is4() != f.address.v.Addr().Is4() {
				c.errorf(r.pos, "allowedSourceRanges %s is %s but IPAddress %s is %s, so no client can be in it: move it to a rule of its family",
					r.v, familyName(r.v.Addr()), f.address.v.Addr(), familyName(f.address.v.Addr()))
			}
		}
	}
}

func familyName(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// usableFlowRates: a burst goes with its rate and is not below what the clock's
// steps need, a prefix length goes with a rate for sources and fits the family.
func usableFlowRates(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		x := &f.extension
		for _, limit := range []struct {
			rate, burst         val[int]
			rateName, burstName string
		}{
			{x.rate, x.burst, "newFlowsPerSecond", "newFlowsBurst"},
			{x.sourceRate, x.sourceBurst, "newFlowsPerSecondPerSource", "newFlowsBurstPerSource"},
		} {
			least := (limit.rate.v + minBurstShare - 1) / minBurstShare
			switch {
			case limit.burst.set && !limit.rate.set:
				c.errorf(limit.burst.pos, "%s has no effect without %s: add it or remove the burst", limit.burstName, limit.rateName)
			case limit.burst.ok() && limit.rate.ok() && limit.burst.v < least:
				c.errorf(limit.burst.pos, "%s %d is less than the flows of 10 ms at %s %d: use at least %d",
					limit.burstName, limit.burst.v, limit.rateName, limit.rate.v, least)
			}
		}
		p := x.sourcePrefix
		if p.set && !x.sourceRate.set {
			c.errorf(p.pos, "sourcePrefixLength has no effect without newFlowsPerSecondPerSource: add it or remove the length")
		}
		if p.ok() && f.address.ok() && f.address.v.Addr().Is4() && p.v > 32 {
			c.errorf(p.pos, "sourcePrefixLength %d does not fit IPAddress %s: use 1 to 32", p.v, f.address.v.Addr())
		}
	}
}

// rangeWithinRange finds ranges that add nothing to a wider one of their rule.
func rangeWithinRange(c *check) {
	for i := range c.rules {
		list := c.rules[i].extension.ranges
		for _, r := range list {
			for _, wide := range list {
				if wide.v != r.v && wide.v.Bits() < r.v.Bits() && wide.v.Contains(r.v.Addr()) {
					c.warnf(r.pos, "allowedSourceRanges %s has no effect: it lies within %s of line %d", r.v, wide.v, wide.pos.line)
					break
				}
			}
		}
	}
}
