package controller

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// Host is what the engine knows of the gateway's own network.
type Host struct {
	// Addresses are those of the gateway, each with the length of its subnet.
	// Packets for these subnets take no route (semantics.md 4.2).
	Addresses []netip.Prefix
	// Interfaces are the indexes of the gateway's interfaces by name.
	Interfaces map[string]uint32
}

// SetHost gives the gateway's own network. Where it now has an address in the
// destination of a route, the connections through routes are looked up anew.
func (e *Engine) SetHost(h Host) {
	old := e.host
	e.host, e.routesDirty = Host{subnets(h.Addresses), maps.Clone(h.Interfaces)}, true
	gained := func(t *lb.Route) bool {
		return slices.ContainsFunc(e.host.Addresses, func(p netip.Prefix) bool {
			return p.Overlaps(t.Dest) && !slices.Contains(old.Addresses, p)
		})
	}
	for _, r := range e.rules {
		for i := range r.routes {
			r.flush = r.flush || gained(&r.routes[i])
		}
	}
}

func subnets(addresses []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(addresses))
	for i, p := range addresses {
		out[i] = p.Masked()
	}
	slices.SortFunc(out, comparePrefixes)
	return slices.Compact(out)
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// routedName is how the id of a rule's use as a next hop is remembered; it is no
// rule's name.
func routedName(rule string) string { return rule + loader.RoutedSuffix }

// configureRouted gives every rule that is a next hop a second record. One whose
// routes took more than they do now ends its connections.
func (e *Engine) configureRouted() error {
	byRule := map[string][]lb.Route{}
	for _, t := range e.cfg.Routes {
		byRule[t.Rule] = append(byRule[t.Rule], t)
	}
	for i := range e.cfg.Rules {
		cfg := e.cfg.Rules[i]
		routes := byRule[cfg.Name]
		if len(routes) == 0 {
			continue
		}
		r, err := e.configureRule(routedName(cfg.Name), cfg)
		if err != nil {
			return err
		}
		if r.cfg.Service != cfg.Service || r.cfg.Address != cfg.Address || !takesAll(routes, r.routes) {
			r.flush = true
		}
		r.cfg, r.routes, r.routed = cfg, routes, true
	}
	return nil
}

// takesAll reports whether each of the old routes is among the new ones.
func takesAll(routes, old []lb.Route) bool {
	for i := range old {
		same := func(t lb.Route) bool {
			return t.Dest == old[i].Dest && slices.Equal(t.Sources, old[i].Sources) && slices.Equal(t.Interfaces, old[i].Interfaces)
		}
		if !slices.ContainsFunc(routes, same) {
			return false
		}
	}
	return true
}

// writeRoutes replaces the routes where they changed.
func (e *Engine) writeRoutes() error {
	if !e.routesDirty {
		return nil
	}
	list := e.routeTable()
	if !reflect.DeepEqual(list, e.routes) {
		if err := e.dp.SetRoutes(list); err != nil {
			return err
		}
		e.routes = list
	}
	e.routesDirty = false
	e.version++
	return nil
}

// routeTable lists what becomes of each destination that a route names, and of
// those parts of it that no route takes.
func (e *Engine) routeTable() []loader.Route {
	byDest := map[netip.Prefix][]*lb.Route{}
	for i := range e.cfg.Routes {
		if t := &e.cfg.Routes[i]; !e.within(t.Dest).IsValid() {
			byDest[t.Dest] = append(byDest[t.Dest], t)
		}
	}
	var out []loader.Route
	for dest, routes := range byDest {
		// Priority, then the tie rule of semantics.md 4.3.
		slices.SortFunc(routes, func(a, b *lb.Route) int {
			return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Name, b.Name))
		})
		out = append(out, loader.Route{Dest: dest})
	}
	for i := range out {
		out[i].Hops = e.hops(out[i].Dest, byDest)
	}
	for _, p := range e.exempt() {
		if _, routed := byDest[p]; !routed && covered(p, byDest) {
			out = append(out, loader.Route{Dest: p})
		}
	}
	slices.SortFunc(out, func(a, b loader.Route) int { return comparePrefixes(a.Dest, b.Dest) })
	return slices.CompactFunc(out, func(a, b loader.Route) bool { return a.Dest == b.Dest })
}

// exempt lists destinations that take no route, those of the host first.
func (e *Engine) exempt() []netip.Prefix {
	return append(slices.Clone(e.host.Addresses), lb.NeverRouted()...)
}

// within is the subnet of the gateway that a destination is in, if any.
func (e *Engine) within(dest netip.Prefix) netip.Prefix {
	for _, p := range e.host.Addresses {
		if p.Bits() <= dest.Bits() && p.Contains(dest.Addr()) {
			return p
		}
	}
	return netip.Prefix{}
}

// covered reports whether a destination is in that of a route.
func covered(p netip.Prefix, byDest map[netip.Prefix][]*lb.Route) bool {
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		if wide, err := p.Addr().Prefix(bits); err == nil && byDest[wide] != nil {
			return true
		}
	}
	return false
}

// hops lists the ways of a destination: those of its own routes, then those of
// shorter and shorter prefixes, for packets that the restrictions of the former
// keep out. What is behind one without restrictions is never reached.
func (e *Engine) hops(dest netip.Prefix, byDest map[netip.Prefix][]*lb.Route) []loader.Hop {
	var out []loader.Hop
	for bits := dest.Bits(); bits >= 0; bits-- {
		wide, err := dest.Addr().Prefix(bits)
		if err != nil {
			break // no such length: there is none
		}
		for _, t := range byDest[wide] {
			out = append(out, e.hopsOf(t)...)
			if len(t.Sources) == 0 && len(t.Interfaces) == 0 {
				return out
			}
		}
	}
	return out
}

// hopsOf are those of one route. An interface that the host does not have sends
// no packets.
func (e *Engine) hopsOf(t *lb.Route) []loader.Hop {
	sources := t.Sources
	if len(sources) == 0 {
		sources = []netip.Prefix{{}}
	}
	indexes := []uint32{0}
	if len(t.Interfaces) > 0 {
		indexes = nil
		for _, name := range t.Interfaces {
			if index := e.host.Interfaces[name]; index != 0 {
				indexes = append(indexes, index)
			}
		}
	}
	var out []loader.Hop
	for _, source := range sources {
		for _, index := range indexes {
			out = append(out, loader.Hop{Source: source, IfIndex: index, Rule: e.rules[routedName(t.Rule)].id})
		}
	}
	return out
}
