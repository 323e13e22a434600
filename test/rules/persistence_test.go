package rules

import (
	"testing"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// The decision table of semantics.md 1.8: does an entry survive its backend
// turning unhealthy? ALWAYS_PERSIST with PER_SESSION cannot be configured.
func TestPersistenceOnUnhealthyBackends(t *testing.T) {
	type row struct {
		protocol        string
		mode            lb.TrackingMode
		affinity        lb.SessionAffinity
		byDefault, ever bool // DEFAULT_FOR_PROTOCOL; ALWAYS_PERSIST
	}
	var rows []row
	affinities := []lb.SessionAffinity{
		lb.AffinityNone, lb.AffinityClientIPPortProto, lb.AffinityClientIPProto, lb.AffinityClientIP, lb.AffinityClientIPNoDestination,
	}
	for _, protocol := range []string{"TCP", "SCTP", "UDP", "ICMP", "ESP", "AH", "GRE"} {
		connection := protocol == "TCP" || protocol == "SCTP"
		for _, affinity := range affinities {
			rows = append(rows,
				row{protocol, lb.PerConnection, affinity, connection, true},
				row{protocol, lb.PerSession, affinity, connection && affinity.FiveTuple(), false})
		}
	}
	for _, r := range rows {
		survives := map[lb.Persistence]bool{lb.PersistDefault: r.byDefault, lb.PersistNever: false}
		if r.mode == lb.PerConnection {
			survives[lb.PersistAlways] = r.ever
		}
		for policy, want := range survives {
			t.Run(r.protocol+", "+string(r.mode)+", "+string(r.affinity)+", "+string(policy), func(t *testing.T) {
				w := newWorld(t, lb.Service{
					Affinity: r.affinity, Tracking: lb.Tracking{Mode: r.mode, Persistence: policy},
				})
				frame := packets(t)[r.protocol]
				pinned, _ := w.send(frame)
				w.health(lb.Unhealthy, pinned)
				w.expect(frame, pinned, want)
			})
		}
	}
}

// expect sends a packet whose entry is pinned to a backend and wants it to
// survive, or else a new entry at another backend.
func (w *world) expect(frame []byte, pinned string, survives bool) {
	w.t.Helper()
	backend, flow := w.send(frame)
	if survives && (backend != pinned || flow != loader.TraceHit) {
		w.t.Errorf("went to %q (%v), want %q by its entry", backend, flow, pinned)
	}
	if !survives && (backend == pinned || flow != loader.TraceNew) {
		w.t.Errorf("went to %q (%v), want a new choice that is not %q", backend, flow, pinned)
	}
}

// Nothing is healthy, so there is nowhere better to go: entries stay, whatever
// the policy (semantics.md 1.8).
func TestEntriesStayWhenNothingIsHealthy(t *testing.T) {
	for _, policy := range []lb.Persistence{lb.PersistDefault, lb.PersistNever, lb.PersistAlways} {
		for name, frame := range packets(t) {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				w := newWorld(t, lb.Service{
					Affinity: lb.AffinityNone, Tracking: lb.Tracking{Mode: lb.PerConnection, Persistence: policy},
				})
				pinned, _ := w.send(frame)
				w.health(lb.Unhealthy, "p1", "p2", "p3", "p4")
				w.expect(frame, pinned, true)
			})
		}
	}
}

// A service that goes to no healthy backend and back sends nothing into the
// void: what a sick backend kept while nothing was healthy moves when something
// is again, except a connection that persists.
func TestEntriesMoveWhenSomethingIsHealthyAgain(t *testing.T) {
	for name, frame := range packets(t) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, lb.Service{
				Affinity: lb.AffinityNone, Tracking: lb.Tracking{Mode: lb.PerConnection, Persistence: lb.PersistDefault},
			})
			pinned, _ := w.send(frame)
			w.health(lb.Unhealthy, "p1", "p2", "p3", "p4")
			w.expect(frame, pinned, true)
			back := "p1"
			if pinned == back {
				back = "p2"
			}
			w.health(lb.Healthy, back)
			w.expect(frame, pinned, name == "TCP" || name == "SCTP")
		})
	}
}
