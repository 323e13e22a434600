package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"l4lb/pkg/lb"
)

// Asymmetry is a reason why the two directions of a connection may meet
// different backends: two rules over the same instances are next hops, one for
// either direction, and do not choose alike (semantics.md 4.4).
type Asymmetry struct {
	Error
	Services []string // of the two rules; one name where both have the same
}

// pair is two next hops over instances that they share.
type pair struct{ a, b *nextHopUse }

// nextHopUse is a rule with what its routes are for.
type nextHopUse struct {
	rule    *forwardingRule
	service *service
	dests   []netip.Prefix
}

// asymmetries looks at every pair of next hops that is obviously meant for the
// two directions: same family, instances in common, other destinations.
func asymmetries(c *check) []Asymmetry {
	var out []Asymmetry
	seen := map[Error]bool{}
	for _, p := range c.pairs() {
		tell := func(at pos, format string, args ...any) {
			text := fmt.Sprintf("rules %q and %q are next hops over the same instances, but %s", p.a.rule.name.v, p.b.rule.name.v, fmt.Sprintf(format, args...))
			e := Error{c.file, at.line, at.col, text}
			services := []string{p.a.service.name.v, p.b.service.name.v}
			if !seen[e] {
				out = append(out, Asymmetry{e, slices.Compact(services)})
			}
			seen[e] = true
		}
		for _, judge := range []func(pair, func(pos, string, ...any)){
			sourceOnly, otherFields, oneSideZonal, otherFilling, otherFailover, c.otherMembers,
		} {
			judge(p, tell)
		}
	}
	slices.SortStableFunc(out, func(a, b Asymmetry) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
	return out
}

func (c *check) pairs() []pair {
	var uses []*nextHopUse
	for i := range c.routes {
		f := c.nextHopRule(&c.routes[i], false)
		at := slices.IndexFunc(uses, func(u *nextHopUse) bool { return u.rule == f })
		if at < 0 {
			at = len(uses)
			uses = append(uses, &nextHopUse{rule: f, service: c.serviceNamed[f.service.v]})
		}
		uses[at].dests = append(uses[at].dests, c.routes[i].dest.v)
	}
	var out []pair
	for i, a := range uses {
		for _, b := range uses[i+1:] {
			sameDest := slices.ContainsFunc(a.dests, func(p netip.Prefix) bool { return slices.Contains(b.dests, p) })
			sameFamily := a.rule.address.v.Addr().Is4() == b.rule.address.v.Addr().Is4()
			if !sameFamily || sameDest {
				continue // of other packets, or one instead of the other
			}
			others := c.instancesOf(b)
			if slices.ContainsFunc(c.instancesOf(a), func(m string) bool { return slices.Contains(others, m) }) {
				out = append(out, pair{a, b})
			}
		}
	}
	return out
}

// instancesOf lists the instances that a rule can send to, failover ones marked.
func (c *check) instancesOf(u *nextHopUse) []string {
	var out []string
	ipv4 := u.rule.address.v.Addr().Is4()
	for i := range u.service.backends {
		ref := &u.service.backends[i]
		group := c.groupNamed[ref.group.v]
		for j := range group.endpoints {
			if e := &group.endpoints[j]; e.addr.v.Is4() == ipv4 {
				name := e.instance.v
				if ref.failover.v {
					name += " (failover)"
				}
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writtenAt is where a value was written, or the service that lacks it.
func writtenAt[T any](s *service, v val[T]) pos {
	if v.set {
		return v.pos
	}
	return s.pos
}

func sourceOnly(p pair, tell func(pos, string, ...any)) {
	for _, s := range []*service{p.a.service, p.b.service} {
		if s.affinity.or(lb.AffinityNone) == lb.AffinityClientIPNoDestination {
			tell(s.affinity.pos, "sessionAffinity %s hashes the source alone, which is another one in each direction: use CLIENT_IP, CLIENT_IP_PROTO or CLIENT_IP_PORT_PROTO on both", s.affinity.v)
		}
	}
}

// fields are what an affinity hashes: NONE is what CLIENT_IP_PORT_PROTO is.
func fields(s *service) lb.SessionAffinity {
	if a := s.affinity.or(lb.AffinityNone); !a.FiveTuple() {
		return a
	}
	return lb.AffinityClientIPPortProto
}

func otherFields(p pair, tell func(pos, string, ...any)) {
	if a, b := fields(p.a.service), fields(p.b.service); a != b {
		tell(writtenAt(p.b.service, p.b.service.affinity), "sessionAffinity is %s for one and %s for the other: use the same on both", a, b)
	}
}

func oneSideZonal(p pair, tell func(pos, string, ...any)) {
	if p.a.service.zonal.enabled() == p.b.service.zonal.enabled() {
		return
	}
	s := p.a.service
	if !s.zonal.enabled() {
		s = p.b.service
	}
	tell(s.zonal.spillover.pos, "only one has zonal affinity, which narrows the choice of one direction: use it on both, for traffic that stays in its zone, or on none")
}

func otherFilling(p pair, tell func(pos, string, ...any)) {
	a, b := p.a.service.policy.or(lb.DefaultLocalityLbPolicy), p.b.service.policy.or(lb.DefaultLocalityLbPolicy)
	if a != b {
		tell(writtenAt(p.b.service, p.b.service.policy), "localityLbPolicy is %s for one and %s for the other: use the same on both", a, b)
	}
}

func otherFailover(p pair, tell func(pos, string, ...any)) {
	a, b := &p.a.service.failover, &p.b.service.failover
	if a.ratio.v != b.ratio.v || a.drop.v != b.drop.v {
		tell(p.b.service.pos, "their failover policies differ, so that one can fail over alone: use the same on both")
	}
}

func (c *check) otherMembers(p pair, tell func(pos, string, ...any)) {
	a, b := c.instancesOf(p.a), c.instancesOf(p.b)
	var odd []string
	for _, m := range append(slices.Clone(a), b...) {
		if slices.Contains(a, m) != slices.Contains(b, m) {
			odd = append(odd, m)
		}
	}
	if len(odd) > 0 {
		tell(p.b.rule.service.pos, "only one has the backends %s: give both services the same instances", strings.Join(odd, ", "))
	}
}
