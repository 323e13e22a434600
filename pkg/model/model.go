// Package model says what the data plane must do, as plainly as Go can: maps
// and loops instead of hashes, tables and epochs. It is semantics.md 1.13 with
// sections 1 to 3 and 6, written from that text and not from the program. The
// differential test sends the same packets and events to both.
//
// What semantics.md leaves open is decided here so:
//
//   - An entry ends for good: when its backend recovers, or a drain is taken
//     back after its end, nothing comes back.
//   - A drain by hand is over when its instance leaves the configuration.
//   - Where an unhealthy backend is chosen on purpose (semantics.md 3.4), entries
//     that 1.8 would end hold until there is another choice.
//   - A backend in UNKNOWN state loses nothing; one that cannot be reached counts
//     as unhealthy.
//   - A connection belongs to the rule that it was made by. A rule that is added
//     later, however specific, takes new connections. A rule that goes, or gets
//     another address, protocol or service or a port less, ends its connections.
//   - So does a connection by a route: a route that is added later takes new
//     connections, one that goes or takes less ends those of its next hop.
//   - PER_SESSION entries with a coarse key belong to the service, whose rules
//     share them. They end with the service, or when its key changes meaning.
//   - A rule's source ranges and rates concern new connections: a SYN, and what
//     follows no entry. Of the sources that a reload leaves out the entries end.
//     Limits that change begin with full buckets.
//   - The region rule and the zone of a client concern new connections only.
//   - A reload that changes the idle timeout is good for older entries too. That
//     one which ran out before comes back by it can not be relied on.
//   - A dual-stack service is two: the members of each family have their own sets
//     and entries. A rule is served by those of its family, where the service has
//     none by the others.
package model

import (
	"net/netip"
	"time"

	"l4lb/pkg/lb"
)

// Model is the reference. Inputs take effect at the next Settle; time passes
// with every call. It is not safe for concurrent use.
type Model struct {
	cfg       *lb.Config
	units     map[unitKey]*unit
	drained   map[drainKey]bool // by hand
	reachable map[netip.Addr]bool
	subnets   []netip.Prefix // of the gateway

	connections map[connectionKey]*entry
	sessions    map[sessionKey]*entry
	rates       map[string]*bucket // by rule
	sourceRates map[sourceKey]*bucket

	deadline time.Time         // the first end of a drain; zero for none
	tables   map[string]*table // by what they are filled from
}

// drainKey is what an operator drained: service "" for all.
type drainKey struct{ instance, service string }

// New returns a model without configuration, to which nothing is ours.
func New() *Model {
	return &Model{
		cfg: &lb.Config{}, units: map[unitKey]*unit{}, drained: map[drainKey]bool{},
		reachable: map[netip.Addr]bool{}, tables: map[string]*table{},
		connections: map[connectionKey]*entry{}, sessions: map[sessionKey]*entry{},
		rates: map[string]*bucket{}, sourceRates: map[sourceKey]*bucket{},
	}
}

// Entries is the number of tracking entries.
func (m *Model) Entries() int { return len(m.connections) + len(m.sessions) }

// SetHealth is the state of a backend of one service and the weight it reported
// with it. Where the answer did not come, the last weight stands (semantics.md
// 1.9).
func (m *Model) SetHealth(service, instance string, addr netip.Addr, state lb.HealthState, w lb.Weight, now time.Time) {
	m.pass(now)
	u := m.units[unitKey{service, addr.Is6()}]
	if u == nil {
		return
	}
	b := u.members[memberKey{instance, addr}]
	if b == nil {
		return
	}
	if w.Err == lb.WeightUnavailable && w.PPM == 0 {
		w.PPM = b.weight.PPM
	}
	if b.state == state && b.weight == w {
		return
	}
	b.state, b.weight = state, w
	m.updateDrain(u, b, now)
	u.changed = true
}

// SetReachable says whether the link address of a backend is known.
func (m *Model) SetReachable(addr netip.Addr, reachable bool, now time.Time) {
	m.pass(now)
	if m.reachable[addr] == reachable {
		return
	}
	m.reachable[addr] = reachable
	for _, u := range m.units {
		for key := range u.members {
			u.changed = u.changed || key.addr == addr
		}
	}
}

// Drain takes an instance out of a service, or with "" of all, by hand: no new
// connections, old ones until the drain timeout (semantics.md 1.10).
func (m *Model) Drain(instance, service string, now time.Time) {
	m.pass(now)
	m.drained[drainKey{instance, service}] = true
	m.drainsChanged(instance, now)
}

// Undrain takes a Drain back. Of a service it leaves the others drained.
func (m *Model) Undrain(instance, service string, now time.Time) {
	m.pass(now)
	if all := (drainKey{instance, ""}); m.drained[all] && service != "" {
		delete(m.drained, all)
		for key, u := range m.units {
			if u.has(instance) {
				m.drained[drainKey{instance, key.service}] = true
			}
		}
	}
	for key := range m.drained {
		if key.instance == instance && (service == "" || key.service == service) {
			delete(m.drained, key)
		}
	}
	m.drainsChanged(instance, now)
}

func (m *Model) drainsChanged(instance string, now time.Time) {
	for _, u := range m.units {
		for _, b := range u.members {
			if b.Instance == instance {
				m.updateDrain(u, b, now)
				u.changed = true
			}
		}
	}
}

// Settle makes the inputs since the last call effective, all at once.
func (m *Model) Settle(now time.Time) {
	m.pass(now)
	for key, u := range m.units {
		if !u.changed {
			continue
		}
		u.changed = false
		m.computeEligible(u)
		flush := u.followPool(now)
		changed := m.choose(u)
		u.chosenBy = u.LocalityLbPolicy
		m.end(func(e *entry) bool { return e.unit == u && (flush || m.ends(e, changed)) })
		if u.gone {
			delete(m.units, key)
		}
	}
	m.findDeadline()
	m.pass(now)
}

// pass ends the drains whose time is over.
func (m *Model) pass(now time.Time) {
	if m.deadline.IsZero() || now.Before(m.deadline) {
		return
	}
	for _, u := range m.units {
		for key, b := range u.members {
			if b.draining && !b.drained && !now.Before(b.drainEnd) {
				b.drained = true
				m.end(func(e *entry) bool { return e.member == b })
				if b.gone {
					delete(u.members, key)
				}
			}
		}
		if !u.leftEnd.IsZero() && !now.Before(u.leftEnd) {
			u.leftEnd = time.Time{}
			m.end(func(e *entry) bool { return e.unit == u && e.member.Failover != (u.pool == poolFailover) })
		}
	}
	m.findDeadline()
}

func (m *Model) findDeadline() {
	m.deadline = time.Time{}
	first := func(t time.Time) {
		if m.deadline.IsZero() || t.Before(m.deadline) {
			m.deadline = t
		}
	}
	for _, u := range m.units {
		if !u.leftEnd.IsZero() {
			first(u.leftEnd)
		}
		for _, b := range u.members {
			if b.draining && !b.drained {
				first(b.drainEnd)
			}
		}
	}
}
