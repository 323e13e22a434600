package config

import (
	"fmt"
	"net/netip"

	"l4lb/pkg/lb"
)

const defaultRoutePriority = 1000 // semantics.md 4.2

func requireRouteFields(c *check) {
	for i := range c.routes {
		t := &c.routes[i]
		require(c.report, t.pos, t.name, "route", "name", "via-firewalls")
		require(c.report, t.pos, t.dest, "route", "destRange", "203.0.113.0/24")
		require(c.report, t.pos, t.nextHop, "route", "nextHopIlb", "fw-rule")
	}
}

// routeReferences finds the next hops and checks that they can carry the
// route's packets.
func routeReferences(c *check) {
	for i := range c.routes {
		t := &c.routes[i]
		f := c.nextHopRule(t, true)
		if f == nil || !f.address.ok() || !t.dest.ok() {
			continue
		}
		if f.address.v.Addr().Is4() != t.dest.v.Addr().Is4() {
			c.errorf(t.dest.pos, "destRange %s is of another address family than rule %q with %s: use a rule of the same family",
				t.dest.v, f.name.v, f.address.v.Addr())
		}
	}
}

// nextHopRule is the forwarding rule that a route names, by name or address.
func (c *check) nextHopRule(t *route, complain bool) *forwardingRule {
	if !t.nextHop.ok() {
		return nil
	}
	a, err := netip.ParseAddr(t.nextHop.v)
	if err != nil {
		if !complain {
			return c.ruleNamed[t.nextHop.v]
		}
		return resolve(c.report, "nextHopIlb", "forwarding rule", t.nextHop, c.ruleNamed)
	}
	var found *forwardingRule
	for i := range c.rules {
		f := &c.rules[i]
		if !f.address.ok() || !f.address.v.Contains(a) {
			continue
		}
		if found != nil {
			if complain {
				c.errorf(t.nextHop.pos, "nextHopIlb %s is the address of several rules, %s and %s: write the name of the one that is meant",
					a, found.name.v, f.name.v)
			}
			return nil
		}
		found = f
	}
	if found == nil && complain {
		c.errorf(t.nextHop.pos, "nextHopIlb %s is the address of no forwarding rule: add one with this IPAddress, or write a rule's name", a)
	}
	return found
}

// uniqueRoutes is the second rule of semantics.md 4.3; restrictions are to us
// what tags are there.
func uniqueRoutes(c *check) {
	type key struct {
		dest     netip.Prefix
		priority int
		rule     *forwardingRule
		from     string
	}
	seen := map[key]*route{}
	for i := range c.routes {
		t := &c.routes[i]
		f := c.nextHopRule(t, false)
		if f == nil || !t.dest.ok() || !t.priority.known() {
			continue
		}
		from := fmt.Sprint(values(t.from.sources), values(t.from.interfaces))
		k := key{t.dest.v, t.priority.or(defaultRoutePriority), f, from}
		if first := seen[k]; first != nil {
			c.errorf(t.dest.pos, "destRange %s with priority %d and this next hop is already the route at line %d: remove one", k.dest, k.priority, first.pos.line)
			continue
		}
		seen[k] = t
	}
}

// routeCanMatch refuses destinations that no packet is forwarded to.
func routeCanMatch(c *check) {
	for i := range c.routes {
		dest := c.routes[i].dest
		if !dest.ok() {
			continue
		}
		for _, p := range lb.NeverRouted() {
			if p.Bits() <= dest.v.Bits() && p.Contains(dest.v.Addr()) {
				c.errorf(dest.pos, "destRange %s is in %s, which no router forwards to: use another destination", dest.v, p)
			}
		}
	}
}

// routeSources checks what restricts a route.
func routeSources(c *check) {
	known := map[string]bool{}
	for _, name := range c.gateway.interfaces {
		known[name.v] = true
	}
	for i := range c.routes {
		t := &c.routes[i]
		sources, interfaces := map[netip.Prefix]bool{}, map[string]bool{}
		for _, p := range t.from.sources {
			switch {
			case !p.ok():
			case t.dest.ok() && p.v.Addr().Is4() != t.dest.v.Addr().Is4():
				c.errorf(p.pos, "sourceRanges %s is of another address family than destRange %s: remove it", p.v, t.dest.v)
			case sources[p.v]:
				c.errorf(p.pos, "sourceRanges %s is listed twice: remove one", p.v)
			}
			sources[p.v] = true
		}
		for _, name := range t.from.interfaces {
			switch {
			case !name.ok():
			case !known[name.v]:
				c.errorf(name.pos, "interfaces %q is not an interface of the gateway: use one of l4lb.gateway.interfaces", name.v)
			case interfaces[name.v]:
				c.errorf(name.pos, "interfaces %q is listed twice: remove one", name.v)
			}
			interfaces[name.v] = true
		}
	}
}

// routeAlternatives bounds the list that a packet for a destination may have to
// be compared with: restricted routes to it and to shorter prefixes.
func routeAlternatives(c *check) {
	byDest := map[netip.Prefix][]*route{}
	for i := range c.routes {
		if t := &c.routes[i]; t.dest.ok() {
			byDest[t.dest.v] = append(byDest[t.dest.v], t)
		}
	}
	for i := range c.routes {
		t := &c.routes[i]
		if n := alternatives(t, byDest); n > lb.MaxAlternatives {
			c.errorf(t.dest.pos, "destRange %s has %d alternatives by source range and interface, with those of shorter ranges: use at most %d", t.dest.v, n, lb.MaxAlternatives)
		}
	}
}

func alternatives(t *route, byDest map[netip.Prefix][]*route) int {
	n := 0
	for bits := t.dest.v.Bits(); t.dest.ok() && bits >= 0; bits-- {
		wide, err := t.dest.v.Addr().Prefix(bits)
		if err != nil {
			break // it is longer than an address
		}
		for _, other := range byDest[wide] {
			n += max(1, len(other.from.sources)) * max(1, len(other.from.interfaces))
		}
	}
	return n
}
