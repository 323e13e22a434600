package config

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
)

func requireGroupFields(c *check) {
	for i := range c.groups {
		g := &c.groups[i]
		require(c.report, g.pos, g.name, "group", "name", "web-a")
		for j := range g.endpoints {
			e := &g.endpoints[j]
			require(c.report, e.pos, e.instance, "endpoint", "instance", "web-a-1")
			require(c.report, e.pos, e.addr, "endpoint", "ipAddress", "10.1.0.11")
		}
	}
}

func uniqueEndpoints(c *check) {
	type key struct {
		instance string
		addr     netip.Addr
	}
	for i := range c.groups {
		g := &c.groups[i]
		seen := make(map[key]int, len(g.endpoints))
		for j := range g.endpoints {
			e := &g.endpoints[j]
			if !e.instance.ok() || !e.addr.ok() {
				continue
			}
			k := key{e.instance.v, e.addr.v}
			if line, twice := seen[k]; twice {
				c.errorf(e.pos, "endpoint %s with %s is already in this group at line %d: remove one", k.instance, k.addr, line)
				continue
			}
			seen[k] = e.pos.line
		}
	}
}

// membership is what rules ask about the instances of one service.
type membership struct {
	addrs map[string]*families
	// The first instance in the file without an IPv4 or IPv6 address, or "".
	without4, without6 string
}

// any reports whether an instance has an address of a's family.
func (m *membership) any(a netip.Addr) bool {
	for _, f := range m.addrs {
		if *f.of(a) != nil {
			return true
		}
	}
	return false
}

// families are an instance's first endpoints by address family.
type families struct{ v4, v6 *endpoint }

func (f *families) of(a netip.Addr) **endpoint {
	if a.Is4() {
		return &f.v4
	}
	return &f.v6
}

// members walks the endpoints of a service once; later calls are free.
func (c *check) members(s *service) *membership {
	if m := c.instances[s]; m != nil {
		return m
	}
	m := &membership{addrs: map[string]*families{}}
	var order []string
	for _, e := range c.endpoints(s) {
		f := m.addrs[e.instance.v]
		if f == nil {
			f = &families{}
			m.addrs[e.instance.v] = f
			order = append(order, e.instance.v)
		}
		if slot := f.of(e.addr.v); *slot == nil {
			*slot = e
		}
	}
	for _, name := range slices.Backward(order) {
		if m.addrs[name].v4 == nil {
			m.without4 = name
		}
		if m.addrs[name].v6 == nil {
			m.without6 = name
		}
	}
	c.instances[s] = m
	return m
}

// endpoints yields the well-formed endpoints of a service with their groups,
// each group once.
func (c *check) endpoints(s *service) iter.Seq2[*group, *endpoint] {
	return func(yield func(*group, *endpoint) bool) {
		done := map[*group]bool{}
		for i := range s.backends {
			g := c.groupNamed[s.backends[i].group.or("")]
			if g == nil || done[g] {
				continue
			}
			done[g] = true
			for j := range g.endpoints {
				e := &g.endpoints[j]
				if e.instance.ok() && e.addr.ok() && !yield(g, e) {
					return
				}
			}
		}
	}
}

// oneAddressPerInstance: within a service an instance has at most one address
// of a family and an address one instance. The instance's name is what is
// hashed, so anything else would leave open which address a flow is sent to.
func oneAddressPerInstance(c *check) {
	type owner struct {
		e *endpoint
		g *group
	}
	for i := range c.services {
		s := &c.services[i]
		owners := map[netip.Addr]owner{}
		for g, e := range c.endpoints(s) {
			first := *c.members(s).addrs[e.instance.v].of(e.addr.v)
			if first != e && first.addr.v != e.addr.v {
				c.errorf(e.addr.pos, "instance %s has %s here and %s at line %d, both in service %q: give each instance one address of a family",
					e.instance.v, e.addr.v, first.addr.v, first.addr.pos.line, s.name.v)
			}
			o, taken := owners[e.addr.v]
			switch {
			case !taken:
				owners[e.addr.v] = owner{e, g}
			case o.e.instance.v != e.instance.v:
				c.errorf(e.addr.pos, "ipAddress %s is %s here and %s at line %d, both in service %q: correct one",
					e.addr.v, e.instance.v, o.e.instance.v, o.e.addr.pos.line, s.name.v)
			case o.g != g:
				c.errorf(e.addr.pos, "instance %s is in service %q twice, by groups %s and %s: remove it from one",
					e.instance.v, s.name.v, o.g.name.v, g.name.v)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
