package controller

import (
	"cmp"
	"slices"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// service is a unit: the members of a backend service with addresses of one
// family.
type service struct {
	name    string // of the backend service
	key     unitKey
	id      uint32
	cfg     lb.Service
	members map[memberKey]*member
	dirty   bool
	gone    bool
	adopted bool // it was there in an earlier run

	pool pool
	// leftEnd is when the connections of the pool that is not active end;
	// zero when they have ended or none was left.
	leftEnd time.Time

	// epoch is what PER_SESSION entries must have, which the rules of a
	// service share. flush ends them at the next reconcile.
	epoch      uint16
	epochKnown bool
	flush      bool

	plan   selector.ServicePlan
	order  []*member         // configured members, what plan's indexes mean
	stale  bool              // the configured members changed since order was made
	tables map[string]uint32 // of plan.Sets, by content
	picks  [loader.ZoneMax]uint32
	moved  bool // picks changed in this reconcile
}

func newService(key unitKey, id uint32) *service {
	return &service{name: key.service, key: key, id: id, members: map[memberKey]*member{}, tables: map[string]uint32{}}
}

// pool says which backends new connections use.
type pool int

const (
	poolUnknown pool = iota
	poolPrimary
	poolFailover
)

// configureService makes or changes the units of a backend service.
func (e *Engine) configureService(cfg *lb.Service, now time.Time) error {
	backends := map[bool][]lb.Backend{}
	for _, b := range e.index.backends(cfg) {
		backends[b.Addr.Is6()] = append(backends[b.Addr.Is6()], b)
	}
	for _, ipv6 := range []bool{false, true} {
		key := unitKey{cfg.Name, ipv6}
		// A service without any backend is a unit too: its rules drop.
		empty := len(backends[ipv6]) == 0 && (ipv6 || len(backends[true]) > 0)
		if empty && e.units[key] == nil {
			continue
		}
		if err := e.configureUnit(key, cfg, backends[ipv6], now); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) configureUnit(key unitKey, cfg *lb.Service, backends []lb.Backend, now time.Time) error {
	s := e.units[key]
	if s == nil {
		id, isNew, err := e.serviceIDs.get(key.name())
		if err != nil {
			return err
		}
		s = newService(key, id)
		s.adopted = !isNew
		e.units[key] = s
	}
	if s.cfg.Name != "" && sessionKind(&s.cfg) != sessionKind(cfg) {
		s.flush = true // also where no rule uses the service now
	}
	s.cfg, s.dirty, s.gone, s.stale = *cfg, true, false, true
	present := make(map[memberKey]bool, len(backends))
	for _, b := range backends {
		k := memberKey{b.Instance, b.Addr}
		present[k] = true
		m := s.members[k]
		if m == nil {
			var err error
			if m, err = e.addMember(s, b); err != nil {
				return err
			}
		}
		m.backend, m.gone = b, false
		if cfg.HealthCheck == "" && m.health.State != lb.Draining {
			m.health = selector.HealthOf(lb.Healthy)
		}
		e.updateDrain(s, m, now)
	}
	for _, m := range s.members {
		e.follow(s, m)
	}
	e.removeMembers(s, present, now)
	return nil
}

// removeMembers lets the members that are not present leave.
func (e *Engine) removeMembers(s *service, present map[memberKey]bool, now time.Time) {
	attached := make(map[string]bool, len(s.cfg.Backends))
	for _, ref := range s.cfg.Backends {
		attached[ref.Group] = true
	}
	for k, m := range s.members {
		if present[k] || m.gone {
			continue
		}
		m.gone = true
		if !attached[m.backend.Group] {
			// The whole group left the service: nothing drains
			// (semantics.md 1.10).
			m.draining, m.drainEnd = true, now
			continue
		}
		e.updateDrain(s, m, now)
	}
}

// detach ends a service: its groups are detached, nothing drains.
func (s *service) detach() {
	s.gone, s.dirty, s.stale = true, true, true
	for _, m := range s.members {
		m.gone, m.draining, m.drainEnd = true, true, time.Time{}
	}
}

// planSets runs selection over the members.
func (e *Engine) planSets(s *service, zones []string) {
	if s.stale {
		s.order, s.stale = s.configured(), false
	}
	s.plan = selector.Plan(selectorMembers(s.order), s.policy(), zones)
}

// configured lists the members that the configuration has, in a fixed order.
func (s *service) configured() []*member {
	order := make([]*member, 0, len(s.members))
	for _, m := range s.members {
		if !m.gone {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b *member) int { return compareKeys(a.key, b.key) })
	return order
}

// serves reports whether the configuration has a member in the unit.
func (s *service) serves() bool {
	for _, m := range s.members {
		if !m.gone {
			return true
		}
	}
	return false
}

func selectorMembers(order []*member) []selector.Member {
	out := make([]selector.Member, len(order))
	for i, m := range order {
		out[i] = selector.Member{
			Instance: m.key.instance, Addr: m.key.addr, Zone: m.backend.Zone, Failover: m.backend.Failover,
			State: m.state(), Weight: m.health.Weight, Unreachable: !m.usable(),
		}
	}
	return out
}

func (s *service) policy() selector.Policy {
	return selector.Policy{Failover: s.cfg.Failover, Zonal: s.cfg.Zonal, Weighted: s.cfg.LocalityLbPolicy.Weighted()}
}

// switchPool follows failover and failback (semantics.md 2.2). It returns
// whether all entries of the service are to be flushed now. What happened while
// no daemon ran is not known: the connections of the pool that is not in use
// then end as if it had been left now.
func (s *service) switchPool(now time.Time) (flush bool) {
	next := s.pool
	switch s.plan.Kind {
	case selector.HealthyPrimaries, selector.UnhealthyPrimaries:
		next = poolPrimary
	case selector.HealthyFailovers:
		next = poolFailover
	}
	first := s.pool == poolUnknown
	changed := next != s.pool && (!first || s.adopted)
	s.pool = next
	if !changed || s.cfg.Failover == nil {
		return false
	}
	if s.cfg.Failover.DisableConnectionDrain {
		s.leftEnd = time.Time{}
		if first {
			s.leftEnd = now
		}
		return !first
	}
	s.leftEnd = now.Add(s.cfg.Failover.DrainTimeout)
	return false
}

// endLeftPool drops the connections of the pool that was left, when their time
// is over.
func (s *service) endLeftPool(now time.Time) {
	if s.leftEnd.IsZero() || now.Before(s.leftEnd) {
		return
	}
	s.leftEnd = time.Time{}
	for _, m := range s.members {
		if m.backend.Failover != (s.pool == poolFailover) {
			m.flush = true
		}
	}
}

func compareKeys(a, b memberKey) int {
	return cmp.Or(cmp.Compare(a.instance, b.instance), a.addr.Compare(b.addr))
}
