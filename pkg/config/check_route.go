package config

import "net/netip"

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

// uniqueRoutes is the second rule of semantics.md 4.3.
func uniqueRoutes(c *check) {
	type key struct {
		dest     netip.Prefix
		priority int
		rule     *forwardingRule
	}
	seen := map[key]*route{}
	for i := range c.routes {
		t := &c.routes[i]
		f := c.nextHopRule(t, false)
		if f == nil || !t.dest.ok() || !t.priority.known() {
			continue
		}
		k := key{t.dest.v, t.priority.or(defaultRoutePriority), f}
		if first := seen[k]; first != nil {
			c.errorf(t.dest.pos, "destRange %s with priority %d and this next hop is already the route at line %d: remove one", k.dest, k.priority, first.pos.line)
			continue
		}
		seen[k] = t
	}
}
