package controller

import (
	"net/netip"
	"strings"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// endEntries makes invalid, by generation and epoch, the entries that must not
// be followed any more. The new choices are in force by now.
func (e *Engine) endEntries() error {
	if e.nothingEnds() {
		return nil
	}
	e.version++
	e.dp.Settle()
	e.sweepFlows()
	if err := e.endAdmissions(); err != nil {
		return err
	}
	for key, s := range e.units {
		if err := e.endMembers(s); err != nil {
			return err
		}
		s.dirty, s.moved = false, false
		other := e.units[unitKey{key.service, !key.ipv6}]
		if len(s.members) == 0 && (s.gone || spare(s, other)) {
			if err := e.serviceIDs.free(key.name()); err != nil {
				return err
			}
			delete(e.units, key)
		}
	}
	return e.flushRules()
}

// nothingEnds reports whether no generation or epoch would change.
func (e *Engine) nothingEnds() bool {
	if e.sweep || len(e.staleRanges) > 0 {
		return false
	}
	for _, r := range e.rules {
		if r.flush || r.gone {
			return false
		}
	}
	for _, s := range e.units {
		if s.dirty || s.flush {
			return false
		}
		for _, m := range s.members {
			if m.flush {
				return false
			}
		}
	}
	return true
}

func (e *Engine) endMembers(s *service) error {
	var chosen map[*member]bool
	if s.dirty {
		chosen = s.chosen()
	}
	for key, m := range s.members {
		keeps, wasChosen := m.keeps, m.chosen
		if s.dirty {
			keeps, m.chosen = m.decideKeeps(s, s.plan.AnyHealthy), chosen[m]
		}
		record := m.record
		for c := range record.Generation {
			// Losing its hold ends an entry for good: a backend that
			// recovers starts with none. Where nothing else was to be
			// chosen, a sick backend got entries that hold until the
			// choice changes.
			ends := !keeps[c] && (m.keeps[c] || wasChosen && s.moved)
			if m.flush || ends {
				record.Generation[c]++
			}
		}
		m.keeps, m.flush = keeps, false
		if err := e.putMember(s, m, record); err != nil {
			return err
		}
		if m.gone && m.drained {
			if err := e.removeMember(s, key, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) removeMember(s *service, key memberKey, m *member) error {
	delete(s.members, key)
	delete(m.path.members, m)
	return e.memberIDs.free(key.name(s.name))
}

// chosen are the members that new connections may go to.
func (s *service) chosen() map[*member]bool {
	out := make(map[*member]bool, len(s.members))
	for _, set := range s.plan.Sets {
		for _, i := range set.Members {
			out[s.order[i]] = true
		}
	}
	return out
}

// adoptLeftovers deals, once, with what an earlier run knew and this
// configuration does not: backends drain as if they were removed now, rules and
// services end.
func (e *Engine) adoptLeftovers(now time.Time) error {
	if e.adopted {
		return nil
	}
	e.adopted = true
	known := map[string]bool{}
	for _, s := range e.units {
		for key := range s.members {
			known[key.name(s.name)] = true
		}
	}
	for name, id := range e.memberIDs.byName {
		if known[name] {
			continue
		}
		if err := e.adoptMember(name, id, now); err != nil {
			return err
		}
	}
	for name, id := range e.ruleIDs.byName {
		if e.rules[name] == nil {
			e.rules[name] = &rule{id: id, cfg: lb.ForwardingRule{Name: name}, record: e.dp.Rule(id), gone: true}
		}
	}
	for name := range e.serviceIDs.byName {
		serviceName, family, _ := strings.Cut(name, "/")
		if e.units[unitKey{serviceName, family != ""}] == nil {
			if err := e.serviceIDs.free(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) adoptMember(name string, id uint32, now time.Time) error {
	serviceName, rest, _ := strings.Cut(name, "/")
	instance, text, _ := strings.Cut(rest, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return e.memberIDs.free(name)
	}
	key := unitKey{serviceName, addr.Is6()}
	s := e.units[key]
	if s == nil {
		s = newService(key, e.serviceIDs.byName[key.name()])
		s.gone = true
		e.units[key] = s
	}
	m := &member{
		id: id, key: memberKey{instance, addr}, record: e.dp.Member(id),
		backend: lb.Backend{Instance: instance, Addr: addr},
		gone:    true, draining: true, drainEnd: now.Add(s.cfg.DrainTimeout),
		keeps: [loader.ClassMax]bool{true, true},
	}
	m.backend.TunnelAddr = m.record.Tunnel.Dest()
	m.health = selector.HealthOf(stateOf(m.record.State))
	if e.index.services[serviceName] == nil {
		m.drainEnd = time.Time{} // as a service that is removed
	}
	e.join(s, m)
	s.dirty = true
	return nil
}
