package config

import (
	"fmt"
	"net/netip"

	"l4lb/pkg/lb"
)

const defaultMetricsListen = "127.0.0.1:9464"

func requireGateway(c *check) {
	g := &c.gateway
	if !g.set {
		c.errorf(pos{1, 1}, "the configuration has no l4lb.gateway: add it with a name and interfaces")
		return
	}
	require(c.report, g.pos, g.name, "gateway", "name", "gw-1")
	if len(g.interfaces) == 0 {
		c.errorf(g.pos, "gateway without interfaces: add interfaces: [eth0], the links that packets arrive on")
	}
}

func uniqueInterfaces(c *check) {
	seen := map[string]bool{}
	for _, name := range c.gateway.interfaces {
		if name.ok() && seen[name.v] {
			c.errorf(name.pos, "interfaces %q is listed twice: remove one", name.v)
		}
		seen[name.v] = true
	}
}

func distinctListeners(c *check) {
	g := &c.gateway
	metrics := g.metricsListen.or(defaultMetricsListen)
	if g.adminListen.ok() && g.metricsListen.known() && g.adminListen.v == metrics {
		c.errorf(g.adminListen.pos, "adminListen %q is metricsListen too: give each its own port", metrics)
	}
}

func requireZoneNames(c *check) {
	for i := range c.zones {
		require(c.report, c.zones[i].pos, c.zones[i].name, "zone", "name", "zone-a")
	}
}

// uniqueClientRanges refuses a prefix that is in two places: the longest
// prefix decides where a client is, so equal ones have no winner.
func uniqueClientRanges(c *check) {
	type owner struct {
		where string
		line  int
	}
	seen := map[netip.Prefix]owner{}
	claim := func(where string, list []val[netip.Prefix]) {
		for _, p := range list {
			if !p.ok() {
				continue
			}
			if first, taken := seen[p.v]; taken {
				c.errorf(p.pos, "range %s of %s is already in %s at line %d: keep one, or make one of them longer",
					p.v, where, first.where, first.line)
				continue
			}
			seen[p.v] = owner{where, p.pos.line}
		}
	}
	for i := range c.zones {
		claim(fmt.Sprintf("zone %q", c.zones[i].name.v), c.zones[i].ranges)
	}
	claim("incompatibleClientRanges", c.incompatible)
	claim("otherRegionClientRanges", c.otherRegion)
}

// defaultXDPMode never falls back: a native attach that fails is an error.
const defaultXDPMode = lb.XDPNative
