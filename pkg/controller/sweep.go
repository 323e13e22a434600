package controller

import (
	"net/netip"
	"reflect"
	"slices"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// filterFacts is what decides which rule lets in whom.
type filterFacts struct {
	address  netip.Prefix
	protocol lb.RuleProtocol
	ports    []uint16
	allPorts bool
	unit     uint32
	allowed  []netip.Prefix
}

// filtersChanged reports whether entries may be there that the filters of
// sources would not let in now: some rule has a filter, and it, or which rule
// takes which packet, is not what it was. An earlier run's is not known.
func (e *Engine) filtersChanged() bool {
	facts := map[string]filterFacts{}
	filtered := false
	for name, r := range e.rules {
		if r.gone {
			continue
		}
		c := &r.cfg
		facts[name] = filterFacts{c.Address, c.Protocol, c.Ports, c.AllPorts, r.unit.id, c.Admission.AllowedSources}
		filtered = filtered || len(c.Admission.AllowedSources) > 0
	}
	changed := !reflect.DeepEqual(facts, e.filters)
	e.filters = facts
	return filtered && changed
}

// Sweep has the next Reconcile look at every entry once more. A program that was
// just put in an older one's place needs it: until then the older one made
// entries by what it knew.
func (e *Engine) Sweep() {
	for _, r := range e.rules {
		e.sweep = e.sweep || !r.gone && len(r.cfg.Admission.AllowedSources) > 0
	}
}

// sweepFlows ends the flows of sources that are no longer allowed. It is the one
// place that looks at every entry; packets that follow one ask for nothing.
func (e *Engine) sweepFlows() {
	if !e.sweep {
		return
	}
	e.sweep = false
	s := newSweeper(e)
	e.dp.AmendFlows(s.ruleOf)
}

// sweeper decides whose an entry is by the rules in force.
type sweeper struct {
	rules  map[uint32]*rule
	units  map[uint32][]*rule // by id of the unit, rules by id
	fronts map[netip.Prefix]*loader.Frontend
	allows map[uint32]prefixSet // by id of the rule; none allows all
}

func newSweeper(e *Engine) *sweeper {
	s := &sweeper{
		rules: map[uint32]*rule{}, units: map[uint32][]*rule{},
		fronts: map[netip.Prefix]*loader.Frontend{}, allows: map[uint32]prefixSet{},
	}
	for _, r := range e.sortedRules() {
		s.rules[r.id] = r
		s.units[r.unit.id] = append(s.units[r.unit.id], r)
		if list := r.cfg.Admission.AllowedSources; len(list) > 0 {
			s.allows[r.id] = newPrefixSet(list)
		}
	}
	for i := range e.fronts {
		s.fronts[e.fronts[i].Address] = &e.fronts[i]
	}
	return s
}

// ruleOf is the rule that an entry is to have: 0 ends it.
func (s *sweeper) ruleOf(r conntrack.Record) uint32 {
	if r.Kind.Session() {
		return s.ruleOfSession(r)
	}
	if !s.allowed(r.Rule, r.Src) || !s.allowed(s.taker(r), r.Src) {
		return 0
	}
	return r.Rule
}

// ruleOfSession: the rules of a service share sessions. One that the rule it was
// made by would not let in is another rule's that does.
func (s *sweeper) ruleOfSession(r conntrack.Record) uint32 {
	own := s.rules[r.Rule]
	if own != nil && own.unit.id == uint32(r.Service) && s.allowed(r.Rule, r.Src) {
		return r.Rule
	}
	rules := s.units[uint32(r.Service)]
	for _, other := range rules {
		if s.allowed(other.id, r.Src) {
			return other.id
		}
	}
	if len(rules) == 0 {
		return r.Rule // nothing leads to it
	}
	return 0
}

func (s *sweeper) allowed(rule uint32, src netip.Addr) bool {
	set, filtered := s.allows[rule]
	return !filtered || set.contains(src)
}

// taker is the rule that takes the entry's packets now; 0 where there is none. It
// may be a later, more specific one than that which made the entry. Fragments
// follow an entry of their own rule only.
func (s *sweeper) taker(r conntrack.Record) uint32 {
	if r.Kind == conntrack.NoPorts && (r.Protocol == 6 || r.Protocol == 17 || r.Protocol == 132) {
		return r.Rule
	}
	f := s.fronts[netip.PrefixFrom(r.Dst, r.Dst.BitLen())]
	if wide, err := r.Dst.Prefix(96); err == nil && f == nil {
		f = s.fronts[wide]
	}
	if f == nil {
		return 0
	}
	all := uint32(0)
	switch r.Protocol {
	case 6:
		all = f.TCP
	case 17:
		all = f.UDP
	}
	i := slices.IndexFunc(f.Ports, func(p loader.FrontendPort) bool {
		return r.Kind == conntrack.Ports && p.Protocol == r.Protocol && p.Port == r.DstPort
	})
	switch {
	case i >= 0:
		return f.Ports[i].Rule
	case all != 0:
		return all
	}
	return f.L3
}

// prefixSet finds an address by looking once for each length that occurs.
type prefixSet struct {
	lengths []int
	has     map[netip.Prefix]bool
}

func newPrefixSet(list []netip.Prefix) prefixSet {
	s := prefixSet{has: make(map[netip.Prefix]bool, len(list))}
	for _, p := range list {
		s.has[p] = true
		if !slices.Contains(s.lengths, p.Bits()) {
			s.lengths = append(s.lengths, p.Bits())
		}
	}
	return s
}

func (s *prefixSet) contains(a netip.Addr) bool {
	for _, bits := range s.lengths {
		if p, err := a.Prefix(bits); err == nil && s.has[p] {
			return true
		}
	}
	return false
}
