package healthcheck

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/pkg/lb"
)

// TestDetectionTime lets a backend die at a random moment of the probing cycle
// and holds the Event against the bound of docs/setup/health-checks.md:
// interval × unhealthyThreshold after death, and timeout more if the backend
// hangs instead of refusing. Counted from the start of the first probe that
// fails it is never more than interval × unhealthyThreshold.
func TestDetectionTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		interval := time.Duration(1+rng.IntN(10)) * time.Second
		timeout := interval
		if rng.IntN(2) == 0 {
			timeout = time.Duration(1 + rng.Int64N(int64(interval)))
		}
		threshold := 1 + rng.IntN(10)
		hanging := rng.IntN(2) == 0
		var death atomic.Pointer[time.Time]
		fake := newFake(func(ctx context.Context, target Target) Detail {
			switch {
			case death.Load() == nil || time.Now().Before(*death.Load()):
				return DetailHealthy
			case hanging:
				return hangs(ctx, target)
			}
			return DetailRefused
		})
		target := fakeTarget(round, func(c *lb.HealthCheck) {
			c.CheckInterval, c.Timeout, c.UnhealthyThreshold = interval, timeout, threshold
		})
		bubble(t, fake, Options{}, func(c *Checker) {
			mustSet(t, c, target)
			time.Sleep(3 * interval)
			drain(c)
			deathAt := time.Now().Add(time.Duration(rng.Int64N(int64(interval))))
			death.Store(&deathAt)
			time.Sleep(time.Until(deathAt))
			event := <-c.Events()
			took := time.Since(deathAt)
			bound := interval * time.Duration(threshold)
			least := bound - interval
			if hanging {
				bound += timeout
				least += timeout
			}
			if event.State != lb.Unhealthy || event.Previous != lb.Healthy || took > bound || took < least {
				t.Fatalf("interval %v timeout %v threshold %d hanging %v: %s after %v, want within %v to %v",
					interval, timeout, threshold, hanging, event.State, took, least, bound)
			}
			starts := fake.startsOf(target)
			firstFailed := starts[len(starts)-threshold]
			if took := time.Since(firstFailed); took > interval*time.Duration(threshold) {
				t.Fatalf("%v after the first failed probe began", took)
			}
		})
	}
}

// TestSlowReaderDelaysNoProbe leaves Events unread for long.
func TestSlowReaderDelaysNoProbe(t *testing.T) {
	flap := map[Target]int{}
	fake := newFake(nil)
	fake.answer = func(_ context.Context, target Target) Detail {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		if flap[target]++; flap[target]%2 == 0 {
			return DetailRefused
		}
		return DetailHealthy
	}
	one := func(c *lb.HealthCheck) {
		every(time.Second, time.Second)(c)
		c.HealthyThreshold, c.UnhealthyThreshold = 1, 1
	}
	a, b := fakeTarget(1, one), fakeTarget(2, one)
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, a, b)
		time.Sleep(1001 * time.Second)
		synctest.Wait()
		if n := len(fake.startsOf(a)); n != 1001 {
			t.Errorf("%d probes in 1001 s", n)
		}
		c.mu.Lock()
		waiting := len(c.queue.list)
		c.mu.Unlock()
		if waiting > 2 {
			t.Errorf("%d events wait for two targets", waiting)
		}
		last := map[Target]lb.HealthState{a.Key(): lb.Unknown, b.Key(): lb.Unknown}
		for round := range 6 { // an even and an odd number of changes, in turn
			events := drain(c)
			if len(events) > 3 {
				t.Errorf("%d events of two targets, one of them on offer", len(events))
			}
			for _, e := range events {
				if e.Previous != last[e.Target] || e.Previous == e.State {
					t.Errorf("%s: event from %s to %s, the one before led to %s", e.Target, e.Previous, e.State, last[e.Target])
				}
				last[e.Target] = e.State
			}
			for target, state := range last {
				if state != c.State(target) {
					t.Errorf("%s: events end at %s, state is %s", target, state, c.State(target))
				}
			}
			time.Sleep(time.Duration(4+round%2) * time.Second)
		}
		if st, _ := c.Status(a); len(st.History) != historyLen {
			t.Errorf("history of %d transitions, want %d", len(st.History), historyLen)
		}
	})
}
