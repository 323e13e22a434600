package model

import (
	"net/netip"
	"time"

	"l4lb/pkg/lb"
)

// connectionKey is what the packets of a connection have in common: addresses,
// protocol and, where there are any, ports (semantics.md 1.6).
type connectionKey struct {
	src, dst         netip.Addr
	protocol         uint8
	srcPort, dstPort uint16
	// pieces: fragments of a protocol that has ports.
	pieces bool
}

// sessionKey is a coarser key of a PER_SESSION service; fields that its
// affinity leaves out are empty.
type sessionKey struct {
	unit     *unit
	src, dst netip.Addr
	protocol uint8
}

// entry is a tracked connection or session.
type entry struct {
	unit   *unit
	member *member
	rule   string // which made it
	routed bool   // by way of a route
	zone   string // of the client, then
	// persistent: on an unhealthy backend it stays by default (semantics.md
	// 1.8).
	persistent bool
	// onPurpose: made on a backend that 1.8 would have it leave.
	onPurpose bool
	last      time.Time
}

// Handle decides about one packet (semantics.md 1.13).
func (m *Model) Handle(p *Packet, now time.Time) Result {
	m.pass(now)
	rule, ours := m.match(p)
	if !ours {
		rule = m.route(p)
	}
	if p.isICMPError() {
		about := p.concerns()
		if about != nil {
			if next, routed := m.nextHop(about); next != nil || ours {
				return m.relay(about, next, routed, now)
			}
		}
		if ours {
			return Result{Verdict: Pass, Reason: ReasonICMPError, Flow: FlowNone}
		}
	}
	switch {
	case !ours && rule == nil:
		return Result{Verdict: Pass, Flow: FlowNone}
	case ours && rule == nil && p.isEchoRequest() && p.BadChecksum:
		return Result{Verdict: Drop, Reason: ReasonBadChecksum, Flow: FlowNone}
	case ours && rule == nil && p.isEchoRequest():
		return Result{Verdict: Answer, Reason: ReasonEchoReply, Flow: FlowNone}
	}
	if e := m.connection(p, rule, !ours, now); e != nil {
		e.last = now
		return e.result(p, e.rule, e.routed)
	}
	if rule == nil {
		return unwanted(p)
	}
	if p.opens() {
		if reason := m.admit(p, rule, !ours, now); reason != "" {
			return Result{Verdict: Drop, Reason: reason, Rule: rule.Name, Routed: !ours, Flow: FlowNone}
		}
		if p.Fragment == Whole && m.unitOf(rule).coarse() {
			delete(m.connections, connectionOf(p)) // one that another rule made
		}
	}
	if e := m.session(p, rule, now); e != nil {
		e.last = now
		return e.result(p, rule.Name, !ours)
	}
	if !p.opens() {
		if reason := m.admit(p, rule, !ours, now); reason != "" {
			return Result{Verdict: Drop, Reason: reason, Rule: rule.Name, Routed: !ours, Flow: FlowNone}
		}
	}
	return m.begin(p, rule, !ours, m.unitOf(rule), now)
}

// nextHop is the rule that takes a packet, as it is ours or by a route.
func (m *Model) nextHop(p *Packet) (rule *lb.ForwardingRule, routed bool) {
	rule, ours := m.match(p)
	if ours {
		return rule, false
	}
	return m.route(p), true
}

// connection finds the entry of a packet's connection, whatever rule made it. Of
// the fragments between two hosts each follows its own rule's only.
func (m *Model) connection(p *Packet, rule *lb.ForwardingRule, routed bool, now time.Time) *entry {
	e := m.connections[connectionOf(p)]
	if e == nil || p.opens() || !m.inTime(e, now) {
		return nil
	}
	if p.Fragment != Whole && (rule == nil || e.rule != rule.Name || e.routed != routed) {
		return nil
	}
	return e
}

// session finds the entry of a packet's session, which another rule of the
// service may have made.
func (m *Model) session(p *Packet, rule *lb.ForwardingRule, now time.Time) *entry {
	u := m.unitOf(rule)
	if !u.coarse() {
		return nil
	}
	e := m.sessions[u.sessionOf(p)]
	if e == nil || !m.inTime(e, now) || !rule.Admission.Allows(p.Src) {
		return nil
	}
	return e
}

// relay sends an ICMP error where the packet that it concerns would go, which
// leaves no trace of it.
func (m *Model) relay(about *Packet, rule *lb.ForwardingRule, routed bool, now time.Time) Result {
	if e := m.connection(about, rule, routed, now); e != nil {
		return e.result(about, e.rule, e.routed)
	}
	if rule == nil {
		return unwanted(about)
	}
	if !rule.Admission.Allows(about.Src) {
		return Result{Verdict: Drop, Reason: ReasonSourceNotAllowed, Rule: rule.Name, Routed: routed, Flow: FlowNone}
	}
	if e := m.session(about, rule, now); e != nil {
		return e.result(about, rule.Name, routed)
	}
	e, dropped := m.selectFor(about, rule, routed, m.unitOf(rule), now)
	if e == nil {
		return dropped
	}
	r := e.result(about, rule.Name, routed)
	r.Flow = FlowNone
	return r
}

// unwanted is the end of a packet for a VIP that no rule takes.
func unwanted(p *Packet) Result {
	r := Result{Verdict: Drop, Reason: ReasonNoRule, Flow: FlowNone}
	if p.Fragment == LaterFragment {
		r.Reason = ReasonFragment
	}
	return r
}

// begin selects a backend and remembers it: steps 2 to 4 of semantics.md 1.1.
func (m *Model) begin(p *Packet, rule *lb.ForwardingRule, routed bool, u *unit, now time.Time) Result {
	e, dropped := m.selectFor(p, rule, routed, u, now)
	if e == nil {
		return dropped
	}
	r := e.result(p, rule.Name, routed)
	if r.Flow = FlowNew; r.Verdict == Pass {
		r.Flow = FlowNone // and it is not remembered
		return r
	}
	if !u.coarse() {
		m.connections[connectionOf(p)] = e
	} else {
		m.sessions[u.sessionOf(p)] = e
	}
	return r
}

// selectFor selects a backend: the entry that the packet would get, or nil and why
// there is none.
func (m *Model) selectFor(p *Packet, rule *lb.ForwardingRule, routed bool, u *unit, now time.Time) (*entry, Result) {
	client := m.cfg.Clients.Classify(p.Src)
	zone := ""
	if client.Compatible() {
		zone = client.Zone
	}
	dropped := Result{Verdict: Drop, Rule: rule.Name, Routed: routed, Flow: FlowNone, ClientZone: zone}
	if client.Class == lb.ClientOtherRegion && !rule.AllowGlobalAccess {
		dropped.Reason = ReasonOtherRegion
		return nil, dropped
	}
	b := m.pick(u, zone, selectionHash(p, u.Affinity, m.cfg.Gateway.HashSeed))
	if b == nil {
		dropped.Reason = ReasonNoBackend
		return nil, dropped
	}
	e := &entry{
		unit: u, member: b, rule: rule.Name, routed: routed, zone: zone, last: now,
		persistent: !u.coarse() && (p.Protocol == protoTCP || p.Protocol == protoSCTP),
	}
	e.onPurpose = !m.usable(e)
	return e, dropped
}

// result is that of a packet which the entry's backend gets by a rule.
func (e *entry) result(p *Packet, rule string, routed bool) Result {
	r := Result{
		Verdict: Forward, Rule: rule, Routed: routed, Service: e.unit.Name, Backend: e.member.Instance, Addr: e.member.Addr,
		Flow: FlowHit, ClientZone: e.zone,
	}
	if routed {
		if reason := stays(p, e.member); reason != "" {
			r.Verdict, r.Reason = Pass, reason
		}
	}
	return r
}

// inTime reports whether the entry was not idle too long (semantics.md 1.7).
func (m *Model) inTime(e *entry, now time.Time) bool {
	return now.Sub(e.last) <= e.unit.Tracking.IdleTimeout
}

func connectionOf(p *Packet) connectionKey {
	key := connectionKey{src: p.Src, dst: p.Dst, protocol: p.Protocol}
	switch {
	case p.hasPorts():
		key.srcPort, key.dstPort = p.SrcPort, p.DstPort
	case p.Protocol == protoTCP || p.Protocol == protoUDP || p.Protocol == protoSCTP:
		key.pieces = true
	}
	return key
}

// coarse reports whether the tracking key is coarser than a connection
// (semantics.md 1.6).
func (u *unit) coarse() bool {
	return u.Tracking.Mode == lb.PerSession && !u.Affinity.FiveTuple()
}

func (u *unit) sessionOf(p *Packet) sessionKey {
	key := sessionKey{unit: u, src: p.Src, dst: p.Dst, protocol: p.Protocol}
	switch u.Affinity {
	case lb.AffinityClientIP:
		key.protocol = 0
	case lb.AffinityClientIPNoDestination:
		key.protocol, key.dst = 0, netip.Addr{}
	}
	return key
}

// usable is still_usable of semantics.md 1.13, the part of health; entries end
// with their member's drain on their own.
func (m *Model) usable(e *entry) bool {
	b := e.member
	sick := b.state == lb.Unhealthy || !m.reachable[b.Addr] && b.state != lb.Unknown
	if !sick || !e.unit.healthy {
		return true
	}
	switch e.unit.Tracking.Persistence {
	case lb.PersistAlways:
		return true
	case lb.PersistNever:
		return false
	}
	return e.persistent
}

// ends reports whether a change of its service ends an entry. changed says that
// new connections go elsewhere.
func (m *Model) ends(e *entry, changed bool) bool {
	if m.usable(e) {
		e.onPurpose = false
		return false
	}
	return changed || !e.onPurpose
}

// end deletes the entries that it is true for.
func (m *Model) end(ended func(*entry) bool) {
	for key, e := range m.connections {
		if ended(e) {
			delete(m.connections, key)
		}
	}
	for key, e := range m.sessions {
		if ended(e) {
			delete(m.sessions, key)
		}
	}
}
