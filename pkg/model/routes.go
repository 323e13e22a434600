package model

import (
	"cmp"
	"net/netip"
	"slices"

	"l4lb/pkg/lb"
)

// SetHost gives the gateway's own subnets, for which there are no routes
// (semantics.md 4.2).
func (m *Model) SetHost(subnets []netip.Prefix) { m.subnets = subnets }

// route finds the rule that is the next hop of a packet which is for no rule's
// address: of the routes that take it, the longest, then the one with the lowest
// priority, then that of the first rule by name (semantics.md 4.2, 4.3).
func (m *Model) route(p *Packet) *lb.ForwardingRule {
	holds := func(subnet netip.Prefix) bool { return subnet.Contains(p.Dst) }
	if slices.ContainsFunc(m.subnets, holds) || slices.ContainsFunc(lb.NeverRouted(), holds) {
		return nil
	}
	var best *lb.Route
	for i := range m.cfg.Routes {
		t := &m.cfg.Routes[i]
		if takes(t, p) && (best == nil || before(t, best)) {
			best = t
		}
	}
	if best == nil {
		return nil
	}
	return m.cfg.Rule(best.Rule)
}

func takes(t *lb.Route, p *Packet) bool {
	from := func(source netip.Prefix) bool { return source.Contains(p.Src) }
	return t.Dest.Contains(p.Dst) &&
		(len(t.Sources) == 0 || slices.ContainsFunc(t.Sources, from)) &&
		(len(t.Interfaces) == 0 || slices.Contains(t.Interfaces, p.Interface))
}

func before(a, b *lb.Route) bool {
	return cmp.Or(
		cmp.Compare(b.Dest.Bits(), a.Dest.Bits()), cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Name, b.Name),
	) < 0
}

// stays says why a packet that a route would send to a backend is left to the
// kernel, if it is.
func stays(p *Packet, b *member) string {
	switch {
	case p.Sender == b.Addr:
		return ReasonSentByBackend
	case p.TTL <= 1:
		return ReasonTTLExpired
	}
	return ""
}

// endByRoutes ends the connections of next hops whose routes take less now.
func (m *Model) endByRoutes(old *lb.Config) {
	for i := range old.Rules {
		was := &old.Rules[i]
		is := m.cfg.Rule(was.Name)
		less := is == nil || is.Service != was.Service || is.Address != was.Address
		for _, t := range old.Routes {
			same := func(now lb.Route) bool {
				return now.Rule == t.Rule && now.Dest == t.Dest && slices.Equal(now.Sources, t.Sources) && slices.Equal(now.Interfaces, t.Interfaces)
			}
			less = less || t.Rule == was.Name && !slices.ContainsFunc(m.cfg.Routes, same)
		}
		if less {
			m.end(func(e *entry) bool { return e.routed && e.rule == was.Name && !e.unit.coarse() })
		}
	}
}
