package controller

import (
	"fmt"
	"time"

	"l4lb/pkg/loader"
)

// Reconcile writes what changed since the last call and returns when time alone
// will change something, zero when nothing is pending.
//
// The order keeps every packet right: what new choices refer to is written
// before them, and entries lose their hold only when the choice that replaces
// them is in force, so that no flow is remembered once more at a backend that
// it is just leaving. A service that is gone stops to choose only when no rule
// leads to it any more.
func (e *Engine) Reconcile(now time.Time) (next time.Time, err error) {
	if e.cfg == nil {
		return time.Time{}, nil
	}
	if err := e.adoptLeftovers(now); err != nil {
		return next, err
	}
	if err := e.writeZones(); err != nil {
		return next, fmt.Errorf("write zones: %w", err)
	}
	zones := clientZoneNames(e.cfg)
	var stale []uint32
	var gone []*service
	for _, s := range e.units {
		for _, m := range s.members {
			m.endDrain(now)
		}
		s.endLeftPool(now)
		switch {
		case s.gone:
			gone = append(gone, s)
		case s.dirty:
			if err := e.updateService(s, zones, now, &stale); err != nil {
				return next, err
			}
		}
	}
	if err := e.writeAdmissions(); err != nil {
		return next, err
	}
	if err := e.writeRules(); err != nil {
		return next, err
	}
	if err := e.writeFrontends(); err != nil {
		return next, fmt.Errorf("write frontends: %w", err)
	}
	if err := e.writeRoutes(); err != nil {
		return next, fmt.Errorf("write routes: %w", err)
	}
	for _, s := range gone {
		if err := e.updateService(s, zones, now, &stale); err != nil {
			return next, err
		}
	}
	if err := e.endEntries(); err != nil {
		return next, err
	}
	for _, table := range stale {
		if err := e.dp.DeleteTable(table); err != nil {
			return next, err
		}
	}
	return e.nextDeadline(), nil
}

// updateService writes what new connections to a service meet.
func (e *Engine) updateService(s *service, zones []string, now time.Time, stale *[]uint32) error {
	e.findTunnels(s)
	e.planSets(s, zones)
	if s.switchPool(now) {
		e.flushService(s)
	}
	if err := e.writeMembers(s); err != nil {
		return err
	}
	return e.writeTables(s, zones, stale)
}

// flushService ends all entries of a service by the epochs of its rules.
func (e *Engine) flushService(s *service) {
	s.flush = true
	for _, r := range e.rules {
		if r.unit == s {
			r.flush = true
		}
	}
}

// writeMembers writes how members are reached; generations stay.
func (e *Engine) writeMembers(s *service) error {
	for _, m := range s.members {
		record := m.withWay(m.record, e.linkMTU(m))
		record.StatBase = m.id * e.dp.StatSlots()
		record.Service = uint16(s.id)
		record.IdleTicks = 0
		if sessionKind(&s.cfg) != loader.FlowPorts {
			record.IdleTicks = e.dp.Ticks(s.cfg.Tracking.IdleTimeout)
		}
		if !m.gone {
			record.Zone = e.zoneID(m.backend.Zone)
		}
		record.State = stateCode(m.health.State)
		if len(e.drained) > 0 && e.drainedByHand(s, m) {
			record.State |= stateDrained
		}
		if err := e.putMember(s, m, record); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) putMember(s *service, m *member, record loader.Member) error {
	if m.written && record == m.record {
		return nil
	}
	if err := e.dp.SetMember(m.id, record); err != nil {
		return fmt.Errorf("write backend %q of %q: %w", m.key.instance, s.name, err)
	}
	m.record, m.written = record, true
	return nil
}
