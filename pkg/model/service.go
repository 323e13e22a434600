package model

import (
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// unit is the members of one service with addresses of one family.
type unit struct {
	lb.Service
	members map[memberKey]*member
	changed bool
	gone    bool // the service is no longer configured

	eligible []*member          // E of semantics.md 1.3
	test     []*member          // T of 3.3
	healthy  bool               // E holds a healthy member
	choices  map[string]*choice // by client zone, "" for none
	chosenBy lb.LocalityLbPolicy

	pool pool
	// leftEnd is when the entries of the pool that is not in use end; zero
	// when there are none to end.
	leftEnd time.Time
}

type unitKey struct {
	service string
	ipv6    bool
}

// pool is the state of semantics.md 2.3.
type pool int

const (
	poolNone pool = iota
	poolPrimary
	poolFailover
)

type memberKey struct {
	instance string
	addr     netip.Addr
}

// member is a backend of a unit, from its first configuration until its last
// entry may go.
type member struct {
	lb.Backend
	state  lb.HealthState
	weight lb.Weight

	gone     bool // no longer configured, here for its drain
	draining bool // chosen for nothing new
	drained  bool // and the time of its old entries is over
	drainEnd time.Time
}

// SetConfig replaces the configuration.
func (m *Model) SetConfig(cfg *lb.Config, now time.Time) {
	m.pass(now)
	old := m.cfg
	m.cfg = cfg
	for i := range cfg.Services {
		m.configure(&cfg.Services[i], now)
	}
	for key, u := range m.units {
		if cfg.Service(key.service) == nil {
			u.gone, u.changed = true, true
			for _, b := range u.members {
				b.gone = true
			}
			m.end(func(e *entry) bool { return e.unit == u })
		}
	}
	m.endByRules(old)
	m.endBySources()
	m.renewRates(old)
	m.forgetDrains()
}

// forgetDrains drops the drains by hand of what is not configured any more.
func (m *Model) forgetDrains() {
	for key := range m.drained {
		found := false
		for unit, u := range m.units {
			found = found || u.has(key.instance) && (key.service == "" || key.service == unit.service)
		}
		if !found {
			delete(m.drained, key)
		}
	}
}

// has reports whether the instance is configured in the unit.
func (u *unit) has(instance string) bool {
	for _, b := range u.members {
		if b.Instance == instance && !b.gone {
			return true
		}
	}
	return false
}

func (m *Model) configure(s *lb.Service, now time.Time) {
	for _, ipv6 := range []bool{false, true} {
		key := unitKey{s.Name, ipv6}
		u := m.units[key]
		if u == nil {
			u = &unit{members: map[memberKey]*member{}}
			m.units[key] = u
		}
		u.Service, u.changed, u.gone = *s, true, false
		present := map[memberKey]bool{}
		for _, b := range m.cfg.Backends(s) {
			if b.Addr.Is6() == ipv6 {
				m.updateDrain(u, u.configureMember(b), now)
				present[memberKey{b.Instance, b.Addr}] = true
			}
		}
		for mk, b := range u.members {
			if !present[mk] && !b.gone {
				m.remove(u, mk, now)
			}
		}
	}
}

func (u *unit) configureMember(b lb.Backend) *member {
	key := memberKey{b.Instance, b.Addr}
	x := u.members[key]
	if x == nil {
		x = &member{state: lb.Unknown, weight: lb.Weight{Err: lb.WeightUnavailable}}
		u.members[key] = x
	}
	x.Backend, x.gone = b, false
	if u.HealthCheck == "" && x.state != lb.Draining {
		x.state, x.weight = lb.Healthy, lb.Weight{Err: lb.WeightMissing}
	}
	return x
}

// remove takes a member out. It drains if it left a group that is still
// attached, and does not when the group was detached (semantics.md 1.10).
func (m *Model) remove(u *unit, key memberKey, now time.Time) {
	b := u.members[key]
	b.gone = true
	m.updateDrain(u, b, now)
	attached := slices.ContainsFunc(u.Backends, func(r lb.BackendRef) bool { return r.Group == b.Group })
	if !attached || b.drained {
		m.end(func(e *entry) bool { return e.member == b })
		delete(u.members, key)
	}
}

// updateDrain starts or ends a member's drain. One that is under way is not
// started again.
func (m *Model) updateDrain(u *unit, b *member, now time.Time) {
	want := b.gone || b.state == lb.Draining ||
		m.drained[drainKey{b.Instance, ""}] || m.drained[drainKey{b.Instance, u.Name}]
	if want && !b.draining {
		b.drained, b.drainEnd = false, now.Add(m.drainTimeout(u, b))
	}
	b.draining = want
}

// drainTimeout is the largest of the services that share the member's group
// (semantics.md 1.10).
func (m *Model) drainTimeout(u *unit, b *member) time.Duration {
	timeout := u.DrainTimeout
	for _, s := range m.cfg.Services {
		for _, ref := range s.Backends {
			if ref.Group == b.Group {
				timeout = max(timeout, s.DrainTimeout)
			}
		}
	}
	return timeout
}

// followPool notices failover and failback, and reports whether all entries of
// the unit are to be flushed for it (semantics.md 2.2).
func (u *unit) followPool(now time.Time) (flush bool) {
	old := u.pool
	switch {
	case len(u.eligible) == 0: // drop: no pool is entered
	case u.Failover != nil && u.eligible[0].Failover:
		u.pool = poolFailover
	default:
		u.pool = poolPrimary
	}
	if u.pool == old || old == poolNone || u.Failover == nil {
		return false
	}
	if u.Failover.DisableConnectionDrain {
		u.leftEnd = time.Time{}
		return true
	}
	u.leftEnd = now.Add(u.Failover.DrainTimeout)
	return false
}
