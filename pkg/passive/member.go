package passive

import (
	"time"

	"l4lb/pkg/lb"
)

// sample is what was counted until a moment.
type sample struct {
	at     time.Time
	counts Counts
}

// member is one backend that is watched.
type member struct {
	samples   []sample // oldest first, back to before the window
	seen      window   // as of the newest
	suspected map[Signal]*state
	totals    map[Signal]uint64
}

// state is a suspicion that holds. It ends when nothing speaks for it during a
// whole window.
type state struct {
	since time.Time
	calm  time.Time // since when nothing does; zero while something does
	why   string
}

// window is what happened within the time that is looked at.
type window struct{ syns, confirmed, unreachable uint64 }

func (w *window) add(o window) {
	w.syns, w.confirmed, w.unreachable = w.syns+o.syns, w.confirmed+o.confirmed, w.unreachable+o.unreachable
}

func (w window) without(o window) window {
	return window{w.syns - o.syns, w.confirmed - o.confirmed, w.unreachable - o.unreachable}
}

// unconfirmed are connections that had their time and no second packet.
func (w window) unconfirmed() uint64 { return w.syns - min(w.syns, w.confirmed) }

// exceeds reports whether so many percent of the share of the connections are
// unconfirmed.
func (w window) exceeds(share lb.Ratio, percent uint64) bool {
	return w.syns > 0 && w.unconfirmed()*uint64(lb.RatioOne)*100 >= uint64(share)*w.syns*percent
}

// add takes a sample and looks at the window anew. SYNs of the last confirmTime
// are left out: they may still be confirmed. Confirmations of that time count,
// though some are theirs, so that a backend is never suspected for being slow.
func (m *member) add(now time.Time, c Counts, length time.Duration) {
	if n := len(m.samples); n > 0 && c.fell(m.samples[n-1].counts) {
		m.samples = nil
	}
	m.samples = append(m.samples, sample{now, c})
	for len(m.samples) > 1 && !m.samples[1].at.After(now.Add(-length-confirmTime)) {
		m.samples = m.samples[1:]
	}
	begin := m.samples[0].counts
	m.seen = window{
		syns:        m.at(now.Add(-confirmTime)).minus(begin).SYNs,
		confirmed:   c.minus(begin).Confirmed,
		unreachable: c.minus(m.at(now.Add(-length))).Unreachable,
	}
}

// at is what was counted until a moment, or until the first sample.
func (m *member) at(t time.Time) Counts {
	out := m.samples[0].counts
	for _, s := range m.samples {
		if s.at.After(t) {
			break
		}
		out = s.counts
	}
	return out
}

// judge starts and ends suspicions. total is the window of all members of the
// group: where the others fare alike it is not this backend, but the clients or
// the way to them.
func (m *member) judge(now time.Time, k Key, p *lb.PassiveSignals, total window) (out []Change) {
	const all, half = 100, 50
	least := uint64(p.Minimum)
	others := total.without(m.seen)
	alike := others.syns >= least && others.exceeds(p.UnconfirmedShare, half)
	starts := map[Signal]bool{
		UnconfirmedSyn:  m.seen.syns >= least && m.seen.exceeds(p.UnconfirmedShare, all) && !alike,
		PortUnreachable: m.seen.unreachable >= least,
	}
	holds := map[Signal]bool{
		UnconfirmedSyn:  m.seen.exceeds(p.UnconfirmedShare, half),
		PortUnreachable: 2*m.seen.unreachable >= least,
	}
	for _, signal := range Signals() {
		s := m.suspected[signal]
		switch {
		case s == nil && starts[signal]:
			s = &state{since: now, why: why(signal, m.seen, p.Window)}
			m.suspected[signal] = s
			m.totals[signal]++
			out = append(out, Change{Suspicion: s.suspicion(k, signal)})
		case s == nil:
		case holds[signal]:
			s.calm, s.why = time.Time{}, why(signal, m.seen, p.Window)
		case s.calm.IsZero():
			s.calm = now
		case now.Sub(s.calm) >= p.Window:
			delete(m.suspected, signal)
			out = append(out, Change{s.suspicion(k, signal), true})
		}
	}
	return out
}

func (s *state) suspicion(k Key, signal Signal) Suspicion {
	return Suspicion{Key: k, Signal: signal, Since: s.since, Why: s.why}
}

func (m *member) suspicions(k Key) (out []Suspicion) {
	for _, signal := range Signals() {
		if s := m.suspected[signal]; s != nil {
			out = append(out, s.suspicion(k, signal))
		}
	}
	return out
}

// leave ends the suspicions of a backend that is watched no longer.
func (m *member) leave(k Key) (out []Change) {
	for _, s := range m.suspicions(k) {
		out = append(out, Change{s, true})
	}
	return out
}
