package model

import (
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// bucket is a rate: so many flows at once, and what comes back with time, in
// thousandths of a flow.
type bucket struct {
	level int64
	at    time.Time
}

type sourceKey struct {
	rule   string
	prefix netip.Prefix
}

// routedName is whose rates are those of a rule's routes.
func routedName(rule string) string { return rule + " routed" }

// admit decides whether a rule takes a new flow: a reason to drop it, or "". A
// rule that has used up its rate takes nothing from its sources.
func (m *Model) admit(p *Packet, rule *lb.ForwardingRule, routed bool, now time.Time) string {
	a, name := &rule.Admission, rule.Name
	if routed {
		name = routedName(name)
	}
	if !a.Allows(p.Src) {
		return ReasonSourceNotAllowed
	}
	own := fill(m.rates, name, a.Flows, now)
	if own != nil && own.level < 1000 {
		return ReasonRateLimited
	}
	if a.SourceFlows.Limited() {
		prefix, err := p.Src.Prefix(a.SourcePrefix)
		if err != nil {
			panic(err) // a length that configuration does not let in
		}
		source := fill(m.sourceRates, sourceKey{name, prefix}, a.SourceFlows, now)
		if source.level < 1000 {
			return ReasonSourceRateLimited
		}
		source.level -= 1000
	}
	if own != nil {
		own.level -= 1000
	}
	return ""
}

// fill is the bucket as it is now; nil without a limit.
func fill[K comparable](buckets map[K]*bucket, key K, r lb.FlowRate, now time.Time) *bucket {
	if !r.Limited() {
		return nil
	}
	full := int64(r.Burst) * 1000
	b := buckets[key]
	if b == nil {
		b = &bucket{level: full, at: now}
		buckets[key] = b
	}
	b.level = min(full, b.level+now.Sub(b.at).Milliseconds()*int64(r.PerSecond))
	b.at = now
	return b
}

// renewRates empties what was counted by limits that have changed, and for next
// hops that are none any more.
func (m *Model) renewRates(old *lb.Config) {
	for i := range old.Rules {
		was := &old.Rules[i]
		is := m.cfg.Rule(was.Name)
		flows := is == nil || is.Admission.Flows != was.Admission.Flows
		sources := is == nil || is.Admission.SourceFlows != was.Admission.SourceFlows ||
			is.Admission.SourcePrefix != was.Admission.SourcePrefix || is.Address.Addr().Is4() != was.Address.Addr().Is4()
		m.forgetRates(was.Name, flows, sources)
		none := !slices.Contains(m.cfg.NextHops(), was.Name)
		m.forgetRates(routedName(was.Name), flows || none, sources || none)
	}
}

func (m *Model) forgetRates(name string, flows, sources bool) {
	if flows {
		delete(m.rates, name)
	}
	for key := range m.sourceRates {
		if sources && key.rule == name {
			delete(m.sourceRates, key)
		}
	}
}

// endBySources ends what the rules would not let in now: a connection whose rule
// does not allow its source, or for whose packets another rule has come that does
// not; a session whose source no rule of its service allows.
func (m *Model) endBySources() {
	for key, e := range m.connections {
		own := m.cfg.Rule(e.rule)
		taker := own // fragments follow their own rule only
		if !key.pieces {
			taker, _ = m.match(&Packet{Src: key.src, Dst: key.dst, Protocol: key.protocol, SrcPort: key.srcPort, DstPort: key.dstPort})
		}
		for _, r := range []*lb.ForwardingRule{own, taker} {
			if r != nil && !r.Admission.Allows(key.src) {
				delete(m.connections, key)
			}
		}
	}
	for key := range m.sessions {
		rules, allowed := 0, false
		for i := range m.cfg.Rules {
			if r := &m.cfg.Rules[i]; m.unitOf(r) == key.unit {
				rules++
				allowed = allowed || r.Admission.Allows(key.src)
			}
		}
		if rules > 0 && !allowed {
			delete(m.sessions, key)
		}
	}
}
