package model

import (
	"slices"

	"l4lb/pkg/lb"
)

// match finds the most specific rule of a packet (semantics.md 6): a port before
// all ports, the protocol before L3_DEFAULT, a single address before a /96. ours
// says whether any rule has the address.
func (m *Model) match(p *Packet) (best *lb.ForwardingRule, ours bool) {
	bestRank := 0
	for i := range m.cfg.Rules {
		r := &m.cfg.Rules[i]
		if !r.Address.Contains(p.Dst) {
			continue
		}
		ours = true
		rank := 0
		switch {
		case r.Protocol == lb.RuleL3Default:
			rank = 1
		case !carries(r.Protocol, p.Protocol):
		case r.AllPorts:
			rank = 3
		case p.namesPort() && slices.Contains(r.Ports, p.DstPort):
			rank = 5
		}
		if rank > 0 && r.Address.IsSingleIP() {
			rank++
		}
		if rank > bestRank {
			best, bestRank = r, rank
		}
	}
	return best, ours
}

func carries(rule lb.RuleProtocol, protocol uint8) bool {
	return rule == lb.RuleTCP && protocol == protoTCP || rule == lb.RuleUDP && protocol == protoUDP
}

// unitOf is the part of the rule's service that serves it.
func (m *Model) unitOf(r *lb.ForwardingRule) *unit {
	ipv6 := r.Address.Addr().Is6()
	own, other := m.units[unitKey{r.Service, ipv6}], m.units[unitKey{r.Service, !ipv6}]
	if !own.configured() && other.configured() {
		return other
	}
	return own
}

// configured reports whether the configuration gives the unit any member.
func (u *unit) configured() bool {
	for _, b := range u.members {
		if !b.gone {
			return true
		}
	}
	return false
}

// endByRules ends what a new configuration leaves without its rule, or with one
// that means something else.
func (m *Model) endByRules(old *lb.Config) {
	for i := range old.Rules {
		was := &old.Rules[i]
		is := m.cfg.Rule(was.Name)
		if is == nil || takesLess(was, is) {
			m.end(func(e *entry) bool { return e.rule == was.Name && !e.routed && !e.unit.coarse() })
		}
	}
	m.endByRoutes(old)
	for i := range old.Services {
		was := &unit{Service: old.Services[i]}
		is := m.cfg.Service(was.Name)
		if is != nil && keyMeaning(was) != keyMeaning(&unit{Service: *is}) {
			m.end(func(e *entry) bool { return e.unit.Name == was.Name })
		}
	}
}

// takesLess reports whether the new form of a rule misses packets of the old.
func takesLess(was, is *lb.ForwardingRule) bool {
	if was.Address != is.Address || was.Protocol != is.Protocol || was.Service != is.Service {
		return true
	}
	missing := func(port uint16) bool { return !slices.Contains(is.Ports, port) }
	return !is.AllPorts && (was.AllPorts || slices.ContainsFunc(was.Ports, missing))
}

// keyMeaning is what an entry's key of the service stands for.
func keyMeaning(u *unit) lb.SessionAffinity {
	if u.coarse() {
		return u.Affinity
	}
	return ""
}
