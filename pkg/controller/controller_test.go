package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/pkg/announce"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// The first choice waits for the answers of all backends, and no longer.
func TestFirstReconcileWaitsForAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), 10*time.Second)
		p.run()
		time.Sleep(300 * time.Millisecond)
		p.events(lb.Healthy, "10.1.0.11", "10.1.0.12", "10.2.0.11")
		p.resolve()
		if len(p.attached) > 0 || len(p.dp.picks) > 0 || p.c.Ready() || p.c.Snapshot() != nil {
			t.Error("did not wait for the last backend")
		}
		p.events(lb.Unhealthy, "10.2.0.12")
		p.wantChosen("a1 a2 b1")
		if len(p.attached) != 1 || p.attached[0] > 400*time.Millisecond || !p.c.Ready() {
			t.Errorf("attached at %v, ready %v", p.attached, p.c.Ready())
		}
		want := []announce.Announcement{{Iface: "eth0", Addr: addr("192.0.2.10")}}
		if fmt.Sprint(p.announce.list) != fmt.Sprint(want) {
			t.Errorf("announces %v, want %v", p.announce.list, want)
		}
		if got := p.logged(); len(got) != 1 || !strings.HasPrefix(got[0], `"data plane in force" services=1 rules=1`) {
			t.Errorf("log: %q", got)
		}
	})
}

// The wait is bounded: then backends nobody heard of count as unknown.
func TestFirstReconcileWaitsAtMostItsBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), 3*time.Second)
		p.run()
		p.resolve()
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		if p.c.Ready() {
			t.Error("ready before the bound")
		}
		time.Sleep(1 * time.Nanosecond)
		p.wantChosen("a1 a2 b1 b2")
		if len(p.attached) != 1 || p.attached[0] != 3*time.Second {
			t.Errorf("attached at %v", p.attached)
		}
	})
}

// A daemon that finds state does not wait: it goes on where the last one was.
func TestRestartDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), 10*time.Second).ready()
		p.events(lb.Unhealthy, "10.1.0.11")
		p.wantChosen("a2 b1 b2")
		p.stop()
		check(t, p.ended())

		p.dp.restart()
		again := newParts(t, p.dp, testConfig(), 10*time.Second)
		for target, s := range again.health.status {
			if (s.State == lb.Unhealthy) != (target.Addr == addr("10.1.0.11")) {
				t.Errorf("%s starts %s", target, s.State)
			}
		}
		again.run()
		again.resolve()
		again.wantChosen("a2 b1 b2")
		if len(again.attached) != 1 || again.attached[0] != 0 {
			t.Errorf("attached at %v", again.attached)
		}
	})
}

func TestStopWhileWaitingWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), 10*time.Second)
		p.dp.writes = nil
		p.run()
		p.stop()
		check(t, p.ended())
		if len(p.dp.writes)+len(p.attached) > 0 || p.c.Ready() {
			t.Errorf("writes %v, attached %v", p.dp.writes, p.attached)
		}
	})
}

func TestRefusedAttachEndsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), 0)
		p.attach = loader.ErrBusy
		p.run()
		if err := p.ended(); !errors.Is(err, loader.ErrBusy) {
			t.Errorf("Run: %v", err)
		}
		if p.c.Ready() || p.announce.list != nil {
			t.Error("ready or announcing without a program")
		}
	})
}

// What a person reads when backends change.
func TestTransitionsAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		p.events(lb.Unhealthy, "10.1.0.11")
		p.wantChosen("a2 b1 b2")
		p.events(lb.Unhealthy, "10.1.0.12", "10.2.0.11", "10.2.0.12")
		p.wantChosen("a1 a2 b1 b2")
		want := `"backend changed" service=web backend=a1 zone=zone-a from=HEALTHY to=UNHEALTHY
"backend changed" service=web backend=a2 zone=zone-a from=HEALTHY to=UNHEALTHY
"backend changed" service=web backend=b1 zone=zone-b from=HEALTHY to=UNHEALTHY
"backend changed" service=web backend=b2 zone=zone-b from=HEALTHY to=UNHEALTHY
"eligible set changed" service=web from=HEALTHY_PRIMARIES to=UNHEALTHY_PRIMARIES`
		if got := strings.Join(p.logged(), "\n"); got != want {
			t.Errorf("log:\n%s\nwant:\n%s", got, want)
		}
	})
}

// Backends that fail together cost one table.
func TestEventsAreGathered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		start := time.Now()
		p.events(lb.Unhealthy, "10.1.0.11", "10.1.0.12", "10.2.0.11")
		p.wantChosen("b2")
		time.Sleep(gatherMax)
		p.wantChosen("b2")
		if n := strings.Count(strings.Join(p.dp.writes, ","), "table"); n != 2 {
			t.Errorf("%d tables written or deleted, want 2", n)
		}
		for i := range 100 { // an endless stream holds nothing up
			p.events([]lb.HealthState{lb.Healthy, lb.Unhealthy}[i%2], "10.1.0.11")
			time.Sleep(gatherPause / 2)
		}
		if n := strings.Count(strings.Join(p.dp.writes, ","), "pick"); n < 64*2 {
			t.Errorf("%d picks in %v of events", n, time.Since(start))
		}
	})
}

func TestLinksFollowTheNeighbours(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		e := p.neigh.entries[addr("10.1.0.11")]
		e.State = "UNRESOLVED"
		p.neigh.entries[e.Addr] = e
		p.neigh.changes <- struct{}{}
		p.wantChosen("a2 b1 b2")
		if s := p.c.Snapshot().Services[0].Members[0]; s.Link.Usable || s.Link.IfIndex != 7 || s.Eligible || s.Health != lb.Healthy {
			t.Errorf("status: %+v", s)
		}
	})
}

// An error in writing maps ends Run, and the request that met it gets it too.
func TestBrokenDataPlaneIsFatal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		p.dp.err = errBroken
		if err := p.c.Drain(t.Context(), "a1", ""); !errors.Is(err, errBroken) {
			t.Errorf("Drain: %v", err)
		}
		if err := p.ended(); !errors.Is(err, errBroken) {
			t.Errorf("Run: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.c.Drain(ctx, "a1", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain without a controller: %v", err)
		}
	})
}
