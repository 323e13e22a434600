package rules

import (
	"testing"
	"time"

	"l4lb/pkg/lb"
)

func failoverWorld(t *testing.T, disableDrain bool) *world {
	return newWorld(t, lb.Service{
		Affinity: lb.AffinityNone,
		Tracking: lb.Tracking{Mode: lb.PerConnection, Persistence: lb.PersistDefault},
		Failover: &lb.FailoverPolicy{DisableConnectionDrain: disableDrain, DrainTimeout: 300 * time.Second},
	})
}

var primaries = []string{"p1", "p2", "p3", "p4"}

// The table of semantics.md 2.2, at failover: what becomes of connections to the
// primaries.
func TestConnectionsAtFailover(t *testing.T) {
	for name, tt := range map[string]struct {
		disableDrain bool
		protocol     string
		after        time.Duration
		stays        bool
	}{
		"draining enabled, TCP persists":                     {false, "TCP", 0, true},
		"draining enabled, TCP persists for 300 s":           {false, "TCP", 299 * time.Second, true},
		"draining enabled, TCP ends after 300 s":             {false, "TCP", 300 * time.Second, false},
		"draining enabled, UDP leaves its unhealthy backend": {false, "UDP", 0, false},
		"draining disabled, TCP is flushed":                  {true, "TCP", 0, false},
		"draining disabled, UDP is flushed":                  {true, "UDP", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := failoverWorld(t, tt.disableDrain)
			frame := packets(t)[tt.protocol]
			pinned, _ := w.send(frame)
			w.health(lb.Unhealthy, primaries...)
			w.later(tt.after)
			w.expect(frame, pinned, tt.stays)
		})
	}
}

// The same at failback, for connections to the failovers, which are healthy.
func TestConnectionsAtFailback(t *testing.T) {
	for name, tt := range map[string]struct {
		disableDrain bool
		protocol     string
		after        time.Duration
		stays        bool
	}{
		"draining enabled, TCP persists":           {false, "TCP", 0, true},
		"draining enabled, TCP persists for 300 s": {false, "TCP", 299 * time.Second, true},
		"draining enabled, TCP ends after 300 s":   {false, "TCP", 300 * time.Second, false},
		"draining enabled, UDP stays meanwhile":    {false, "UDP", 299 * time.Second, true},
		"draining enabled, UDP ends after 300 s":   {false, "UDP", 300 * time.Second, false},
		"draining disabled, TCP is flushed":        {true, "TCP", 0, false},
		"draining disabled, UDP is flushed":        {true, "UDP", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := failoverWorld(t, tt.disableDrain)
			frame := packets(t)[tt.protocol]
			w.health(lb.Unhealthy, primaries...)
			pinned, _ := w.send(frame)
			if pinned[0] != 'f' {
				t.Fatalf("a connection during failover went to %s", pinned)
			}
			w.health(lb.Healthy, primaries...)
			w.later(tt.after)
			w.expect(frame, pinned, tt.stays)
		})
	}
}

// A pool that is active again before its connections ended keeps them.
func TestPoolThatComesBackKeepsItsConnections(t *testing.T) {
	w := failoverWorld(t, false)
	frame := packets(t)["TCP"]
	pinned, _ := w.send(frame)
	w.health(lb.Unhealthy, primaries...)
	w.later(200 * time.Second)
	w.expect(frame, pinned, true)
	w.health(lb.Healthy, primaries...)
	w.later(200 * time.Second)
	w.expect(frame, pinned, true)
}
