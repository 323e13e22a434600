// Package passive suspects backends by what their traffic shows: connections
// that get no further than their SYN, and ICMP port unreachable. A suspicion is
// reported and does nothing: whoever decides about backends cannot know of it,
// as no package that writes maps may import this one.
package passive

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"l4lb/pkg/lb"
)

// Signal is what a backend is suspected by.
type Signal string

const (
	// UnconfirmedSyn: many new connections had no packet after their SYN.
	UnconfirmedSyn Signal = "UNCONFIRMED_SYN"
	// PortUnreachable: ICMP port unreachable came back about its flows.
	PortUnreachable Signal = "PORT_UNREACHABLE"
)

// Signals lists every Signal.
func Signals() []Signal { return []Signal{UnconfirmedSyn, PortUnreachable} }

// confirmTime is how long after its SYN a connection may be confirmed: a round
// trip to the client, and a SYN+ACK that is sent again.
const confirmTime = 2 * time.Second

// Key names a backend of a service.
type Key struct {
	Service, Instance string
	Addr              netip.Addr
}

// Counts are what the data plane counted of a backend, since any time. A count
// that falls begins anew.
type Counts struct{ SYNs, Confirmed, Unreachable uint64 }

func (c Counts) minus(o Counts) Counts {
	return Counts{c.SYNs - o.SYNs, c.Confirmed - o.Confirmed, c.Unreachable - o.Unreachable}
}

// fell reports whether a count is less than it was.
func (c Counts) fell(before Counts) bool {
	return c.SYNs < before.SYNs || c.Confirmed < before.Confirmed || c.Unreachable < before.Unreachable
}

// Group is the backends of a service, which are compared with each other.
type Group struct {
	Policy  lb.PassiveSignals
	Members map[Key]Counts
}

// Suspicion is a backend that is suspected.
type Suspicion struct {
	Key    Key
	Signal Signal
	Since  time.Time
	// Why has the newest numbers: "unconfirmedSyn 37/40 in 10s".
	Why string
}

// Change is the start or the end of a suspicion.
type Change struct {
	Suspicion
	Ended bool
}

// Watch follows backends. Observe is for one goroutine, the rest for any.
type Watch struct {
	mu      sync.Mutex
	members map[Key]*member
}

// NewWatch makes a watch of nobody.
func NewWatch() *Watch { return &Watch{members: map[Key]*member{}} }

// Observe takes what was counted until now, about once a second, and returns
// what changed by it. Backends that are not in groups are forgotten.
func (w *Watch) Observe(now time.Time, groups []Group) []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Change
	seen := map[Key]bool{}
	for _, g := range groups {
		keys := slices.SortedFunc(maps.Keys(g.Members), compareKeys)
		total := window{}
		for _, k := range keys {
			seen[k] = true
			m := w.members[k]
			if m == nil {
				m = &member{suspected: map[Signal]*state{}, totals: map[Signal]uint64{}}
				w.members[k] = m
			}
			m.add(now, g.Members[k], g.Policy.Window)
			total.add(m.seen)
		}
		for _, k := range keys {
			out = append(out, w.members[k].judge(now, k, &g.Policy, total)...)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.members), compareKeys) {
		if !seen[k] {
			out = append(out, w.members[k].leave(k)...)
			delete(w.members, k)
		}
	}
	return out
}

// Of lists the suspicions of one backend, by signal.
func (w *Watch) Of(k Key) []Suspicion {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.members[k]
	if m == nil {
		return nil
	}
	return m.suspicions(k)
}

// Total is how many suspicions of a backend began, and whether it is watched.
func (w *Watch) Total(k Key, s Signal) (n uint64, watched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.members[k]
	if m == nil {
		return 0, false
	}
	return m.totals[s], true
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance), a.Addr.Compare(b.Addr))
}

// why writes the numbers of a window.
func why(s Signal, w window, length time.Duration) string {
	if s == PortUnreachable {
		return fmt.Sprintf("portUnreachable %d in %v", w.unreachable, length)
	}
	return fmt.Sprintf("unconfirmedSyn %d/%d in %v", w.unconfirmed(), w.syns, length)
}
