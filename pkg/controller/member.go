package controller

import (
	"net/netip"
	"strings"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

type memberKey struct {
	instance string
	addr     netip.Addr
}

// member is a backend of one service, from its first configuration until the
// last of its connections may go.
type member struct {
	id      uint32
	key     memberKey
	backend lb.Backend
	health  selector.Health
	path    *path
	tunnel  *tunnel // nil: its packets go as they are

	// gone: the configuration no longer has it; it stays for its drain.
	gone bool
	// draining: in no set; entries hold until drainEnd. After it, drained.
	draining, drained bool
	drainEnd          time.Time

	record  loader.Member // as written
	written bool
	keeps   [loader.ClassMax]bool // entries of the class held at the last reconcile
	flush   bool                  // drop entries of all classes at the next reconcile
	chosen  bool                  // new connections may have come to it since the last reconcile
}

// name is how a member id is remembered: "service/instance/address".
func (k memberKey) name(service string) string {
	return strings.Join([]string{service, k.instance, k.addr.String()}, "/")
}

// state is the member's state as the API reports it.
func (m *member) state() lb.HealthState {
	if m.draining {
		return lb.Draining
	}
	return m.health.State
}

// addMember makes a member, with the id, generations, health and drain by hand
// that an earlier run left for it, if one did.
func (e *Engine) addMember(s *service, b lb.Backend) (*member, error) {
	key := memberKey{b.Instance, b.Addr}
	id, isNew, err := e.memberIDs.get(key.name(s.name))
	if err != nil {
		return nil, err
	}
	m := &member{id: id, key: key, backend: b, record: e.dp.Member(id)}
	m.keeps = [loader.ClassMax]bool{true, true}
	if isNew {
		// Whatever had this id before, its entries are not this member's.
		for c := range m.record.Generation {
			m.record.Generation[c]++
		}
		m.record.State = stateCode(lb.Unknown)
		m.record.IfIndex = 0
		if err := e.clearTraffic(m, 0, uint16(e.dp.StatSlots())); err != nil {
			return nil, err
		}
	}
	if m.record.State&stateDrained != 0 {
		e.drained[drainKey{b.Instance, s.name}] = true
	}
	m.health = selector.HealthOf(stateOf(m.record.State))
	if s.cfg.HealthCheck == "" {
		m.health = selector.HealthOf(lb.Healthy)
	}
	e.join(s, m)
	return m, nil
}

// join makes a member one of its service.
func (e *Engine) join(s *service, m *member) {
	s.members[m.key] = m
	e.follow(s, m)
}

// clearTraffic zeroes a member's counters for the rules of some slots.
func (e *Engine) clearTraffic(m *member, first, n uint16) error {
	for slot := range uint32(n) {
		if err := e.dp.ClearTraffic(m.id*e.dp.StatSlots() + uint32(first) + slot); err != nil {
			return err
		}
	}
	return nil
}

// decideKeeps says for each class whether entries hold on (semantics.md 1.8).
// A member whose link address is lost is as good as unhealthy.
func (m *member) decideKeeps(s *service, anyHealthy bool) [loader.ClassMax]bool {
	lost := m.path.known && !m.usable() && m.health.State != lb.Unknown
	sick := m.health.State == lb.Unhealthy || lost
	if !sick || !anyHealthy {
		return [loader.ClassMax]bool{true, true}
	}
	return [loader.ClassMax]bool{
		loader.ClassConnection: persists(&s.cfg, true),
		loader.ClassOther:      persists(&s.cfg, false),
	}
}

// persists is the decision table of semantics.md 1.8.
func persists(s *lb.Service, connection bool) bool {
	switch s.Tracking.Persistence {
	case lb.PersistAlways:
		return true
	case lb.PersistNever:
		return false
	}
	return connection && (s.Tracking.Mode == lb.PerConnection || s.Affinity.FiveTuple())
}

// stateDrained is set in the State of a record for a drain by hand, beside the
// code of the state.
const stateDrained = 1 << 7

var stateCodes = [...]lb.HealthState{lb.Unknown, lb.Healthy, lb.Unhealthy}

// stateCode is how a state is kept for the next daemon. What is not the result
// of a check is unknown to it.
func stateCode(s lb.HealthState) uint8 {
	for i, state := range stateCodes {
		if state == s {
			return uint8(i)
		}
	}
	return 0
}

func stateOf(code uint8) lb.HealthState {
	if code &^= stateDrained; int(code) < len(stateCodes) {
		return stateCodes[code]
	}
	return lb.Unknown
}
