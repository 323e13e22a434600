package controller

import (
	"cmp"
	"fmt"
	"slices"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// rule is a forwarding rule that has an id.
type rule struct {
	id     uint32
	cfg    lb.ForwardingRule
	unit   *service
	slot   uint16 // among the rules of its service
	slotOf string // the service that slot is of
	record loader.Rule
	routed bool // the rule's use as the next hop of routes
	routes []lb.Route
	fresh  bool // not written yet: entries of what had its id before are not its own
	gone   bool
	flush  bool // drop its entries at the next reconcile

	admitted admitted
}

// configureRules gives every rule its id and unit, and marks the rest as gone.
func (e *Engine) configureRules() error {
	for _, r := range e.rules {
		r.gone = true
	}
	for i := range e.cfg.Rules {
		cfg := e.cfg.Rules[i]
		r, err := e.configureRule(cfg.Name, cfg)
		if err != nil {
			return err
		}
		r.flush = r.flush || meansOther(r.cfg, cfg)
		r.cfg = cfg
	}
	if err := e.configureRouted(); err != nil {
		return err
	}
	e.adoptEpochs()
	return e.assignSlots()
}

// configureRule finds the rule of that name or makes one. Its cfg is what it
// was before.
func (e *Engine) configureRule(name string, cfg lb.ForwardingRule) (*rule, error) {
	r := e.rules[name]
	if r == nil {
		var err error
		if r, err = e.addRule(name, cfg); err != nil {
			return nil, err
		}
		r.cfg = cfg
	}
	r.gone = false
	r.unit = e.unitOf(cfg.Service, cfg.Address.Addr().Is6())
	return r, nil
}

// addRule makes a rule with what an earlier run left for it, if one did.
func (e *Engine) addRule(name string, cfg lb.ForwardingRule) (*rule, error) {
	id, isNew, err := e.ruleIDs.get(name)
	if err != nil {
		return nil, err
	}
	r := &rule{id: id, record: e.dp.Rule(id), fresh: isNew}
	if isNew {
		if err := e.dp.ClearRefused(id); err != nil {
			return nil, err
		}
	} else {
		for _, ipv6 := range []bool{false, true} {
			if s := e.units[unitKey{cfg.Service, ipv6}]; s != nil && s.id == uint32(r.record.Service) {
				r.slot, r.slotOf = r.record.StatSlot, cfg.Service
			}
		}
		r.flush = r.slotOf == "" // it was of another service
	}
	e.rules[name] = r
	return r, nil
}

// meansOther reports whether entries of the old rule must not be used for the
// new one: another address, protocol or service, or a port less.
func meansOther(old, cfg lb.ForwardingRule) bool {
	if old.Address != cfg.Address || old.Protocol != cfg.Protocol || old.Service != cfg.Service {
		return true
	}
	if cfg.AllPorts {
		return false
	}
	return old.AllPorts || slices.ContainsFunc(old.Ports, func(p uint16) bool { return !slices.Contains(cfg.Ports, p) })
}

// unitOf is the unit with backends of an address family or, where the service
// has none of it, the other.
func (e *Engine) unitOf(service string, ipv6 bool) *service {
	s, other := e.units[unitKey{service, ipv6}], e.units[unitKey{service, !ipv6}]
	if s == nil || spare(s, other) {
		return other
	}
	return s
}

// spare reports whether no rule uses a unit, because other, the one of the other
// family, is there for them. A service without backends is its IPv4 unit.
func spare(s, other *service) bool {
	return other != nil && !s.serves() && (s.key.ipv6 || other.serves())
}

// adoptEpochs takes the epoch of PER_SESSION entries from a rule of an earlier
// run; without one any value will do.
func (e *Engine) adoptEpochs() {
	for _, r := range e.sortedRules() {
		if s := r.unit; !s.epochKnown {
			s.epoch, s.epochKnown = r.record.ServiceEpoch, !r.fresh && !r.flush
		}
	}
	for _, s := range e.units {
		s.epochKnown = true
	}
}

// assignSlots gives the rules of a service distinct counters, which start at
// zero.
func (e *Engine) assignSlots() error {
	used := map[string]map[uint16]bool{}
	var fresh []*rule
	for _, r := range e.sortedRules() {
		if r.routed {
			continue // it shares those of the rule
		}
		if used[r.cfg.Service] == nil {
			used[r.cfg.Service] = map[uint16]bool{}
		}
		if r.slotOf != r.cfg.Service || used[r.cfg.Service][r.slot] {
			fresh = append(fresh, r)
			continue
		}
		used[r.cfg.Service][r.slot] = true
	}
	for _, r := range fresh {
		r.slot, r.slotOf = 0, r.cfg.Service
		for used[r.cfg.Service][r.slot] {
			r.slot++
		}
		used[r.cfg.Service][r.slot] = true
		for _, m := range r.unit.members {
			if !m.written {
				continue // has none yet
			}
			if err := e.clearTraffic(m, r.slot, 1); err != nil {
				return err
			}
		}
	}
	for _, r := range e.sortedRules() {
		if r.routed {
			r.slot, r.slotOf = e.rules[r.cfg.Name].slot, r.cfg.Service
		}
	}
	return nil
}

// sortedRules lists the rules of the configuration by id.
func (e *Engine) sortedRules() []*rule {
	list := make([]*rule, 0, len(e.rules))
	for _, r := range e.rules {
		if !r.gone {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *rule) int { return cmp.Compare(a.id, b.id) })
	return list
}

// writeRules writes the records of rules whose facts changed. Epochs change
// later, when the new choices are in force.
func (e *Engine) writeRules() error {
	if !e.frontsDirty {
		return nil
	}
	for _, r := range e.sortedRules() {
		cfg := &r.unit.cfg
		kind := sessionKind(cfg)
		record := r.record
		if r.fresh {
			record.Epoch++
		} else if record.Kind != kind {
			// Old keys would mean something else. A rule that comes from
			// another service leaves the sessions of its new one alone.
			r.flush = true
			r.unit.flush = r.unit.flush || record.Service == uint16(r.unit.id)
		}
		record.Service, record.StatSlot = uint16(r.unit.id), r.slot
		record.ServiceEpoch = r.unit.epoch
		record.IdleTicks = e.dp.Ticks(cfg.Tracking.IdleTimeout)
		record.Affinity, record.Kind = affinity(cfg.Affinity), kind
		record.GlobalAccess, record.Routed = r.cfg.AllowGlobalAccess, r.routed
		admission := &r.cfg.Admission
		record.SourceFilter = len(admission.AllowedSources) > 0
		record.RateLimited = admission.Flows.Limited() || admission.SourceFlows.Limited()
		record.Signals = cfg.PassiveSignals != nil
		if err := e.putRule(r, record); err != nil {
			return err
		}
		r.fresh = false
	}
	return nil
}

func (e *Engine) putRule(r *rule, record loader.Rule) error {
	if record == r.record {
		return nil
	}
	if err := e.dp.SetRule(r.id, record); err != nil {
		return fmt.Errorf("write rule %q: %w", r.cfg.Name, err)
	}
	r.record = record
	return nil
}

// flushRules ends the entries of rules and services that are to be flushed, at
// once: by epoch. Rules that are gone give their ids back.
func (e *Engine) flushRules() error {
	for _, s := range e.units {
		if s.flush {
			s.epoch, s.flush = s.epoch+1, false
		}
	}
	for name, r := range e.rules {
		record := r.record
		if r.flush || r.gone {
			record.Epoch++
		}
		if !r.gone {
			record.ServiceEpoch = r.unit.epoch
		}
		if err := e.putRule(r, record); err != nil {
			return err
		}
		r.flush = false
		if r.gone {
			if err := e.ruleIDs.free(name); err != nil {
				return err
			}
			delete(e.rules, name)
		}
	}
	return nil
}

// affinity says which fields of a packet choose its backend (semantics.md 1.4).
func affinity(a lb.SessionAffinity) loader.Affinity {
	switch a {
	case lb.AffinityClientIPProto:
		return loader.AffinityClientIPProto
	case lb.AffinityClientIP:
		return loader.AffinityClientIP
	case lb.AffinityClientIPNoDestination:
		return loader.AffinityClientOnly
	}
	return loader.AffinityFiveTuple
}

// sessionKind is the tracking key of semantics.md 1.6.
func sessionKind(s *lb.Service) loader.FlowKind {
	if s.Tracking.Mode != lb.PerSession {
		return loader.FlowPorts
	}
	switch s.Affinity {
	case lb.AffinityClientIPProto:
		return loader.FlowClientIPProto
	case lb.AffinityClientIP:
		return loader.FlowClientIP
	case lb.AffinityClientIPNoDestination:
		return loader.FlowClientOnly
	}
	return loader.FlowPorts
}
