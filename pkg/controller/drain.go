package controller

import (
	"fmt"
	"time"

	"l4lb/pkg/lb"
)

// drainKey is a drain by hand; service "" is for all.
type drainKey struct{ instance, service string }

// Drain takes an instance out gracefully, of one service or, with "", of all:
// no new connections, established ones until the drain timeout. It holds over
// restarts, until Undrain or until the instance leaves the configuration. The
// error wraps ErrUnknown.
func (e *Engine) Drain(instance, serviceName string, now time.Time) error {
	return e.setDrained(instance, serviceName, true, now)
}

// Undrain takes a Drain back; entries that are still there hold again. For one
// service it leaves the others drained.
func (e *Engine) Undrain(instance, serviceName string, now time.Time) error {
	return e.setDrained(instance, serviceName, false, now)
}

func (e *Engine) setDrained(instance, serviceName string, drain bool, now time.Time) error {
	found := map[string]bool{} // services the instance is in
	for unit, s := range e.units {
		for key, m := range s.members {
			if key.instance == instance && !m.gone {
				found[unit.service] = true
			}
		}
	}
	if len(found) == 0 || serviceName != "" && !found[serviceName] {
		if serviceName != "" {
			return fmt.Errorf("instance %q of backend service %q: %w", instance, serviceName, ErrUnknown)
		}
		return fmt.Errorf("instance %q: %w", instance, ErrUnknown)
	}
	all := drainKey{instance, ""}
	switch {
	case drain:
		e.drained[drainKey{instance, serviceName}] = true
	case serviceName == "":
		for k := range e.drained {
			if k.instance == instance {
				delete(e.drained, k)
			}
		}
	default:
		if e.drained[all] {
			delete(e.drained, all)
			for name := range found {
				e.drained[drainKey{instance, name}] = true
			}
		}
		delete(e.drained, drainKey{instance, serviceName})
	}
	for _, s := range e.units {
		for key, m := range s.members {
			if key.instance == instance {
				e.updateDrain(s, m, now)
				s.dirty = true
			}
		}
	}
	return nil
}

// forgetDrains drops drains by hand of instances that are not configured any
// more: what comes back under the name is something else.
func (e *Engine) forgetDrains() {
	if len(e.drained) == 0 {
		return
	}
	configured := map[drainKey]bool{}
	for unit, s := range e.units {
		for key, m := range s.members {
			if !m.gone {
				configured[drainKey{key.instance, ""}] = true
				configured[drainKey{key.instance, unit.service}] = true
			}
		}
	}
	for k := range e.drained {
		if !configured[k] {
			delete(e.drained, k)
		}
	}
}

func (e *Engine) drainedByHand(s *service, m *member) bool {
	return e.drained[drainKey{m.key.instance, ""}] || e.drained[drainKey{m.key.instance, s.name}]
}

// updateDrain starts or ends a member's drain by what asks for it: the
// configuration, a drain by hand, or its reported state.
func (e *Engine) updateDrain(s *service, m *member, now time.Time) {
	want := m.gone || m.health.State == lb.Draining || e.drainedByHand(s, m)
	switch {
	case want && !m.draining:
		m.draining, m.drained = true, false
		m.drainEnd = now.Add(e.drainTimeout(s, m))
	case !want && m.draining:
		m.draining, m.drained = false, false
	}
}

// drainTimeout is the largest of the services that share the member's group
// (semantics.md 1.10).
func (e *Engine) drainTimeout(s *service, m *member) time.Duration {
	return max(s.cfg.DrainTimeout, e.index.drains[m.backend.Group])
}

// endDrain drops the entries of a member whose drain is over.
func (m *member) endDrain(now time.Time) {
	if m.draining && !m.drained && !now.Before(m.drainEnd) {
		m.drained, m.flush = true, true
	}
}

// nextDeadline is the earliest end of a drain.
func (e *Engine) nextDeadline() (next time.Time) {
	consider := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, s := range e.units {
		consider(s.leftEnd)
		for _, m := range s.members {
			if m.draining && !m.drained {
				consider(m.drainEnd)
			}
		}
	}
	return next
}
