package healthcheck

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/pkg/lb"
)

func TestIntervalIsStartToStart(t *testing.T) {
	const interval = time.Second
	answers := map[string]func(context.Context, Target) Detail{
		"at once": passes,
		"slow":    func(context.Context, Target) Detail { time.Sleep(700 * time.Millisecond); return DetailHealthy },
		"hanging": hangs,
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			fake, target := newFake(answer), fakeTarget(1, every(interval, interval))
			bubble(t, fake, Options{}, func(c *Checker) {
				mustSet(t, c, target)
				time.Sleep(100 * interval)
			})
			starts := fake.startsOf(target)
			if len(starts) < 99 || len(starts) > 101 {
				t.Fatalf("%d probes in 100 intervals", len(starts))
			}
			for i := 1; i < len(starts); i++ {
				if gap := starts[i].Sub(starts[i-1]); gap != interval {
					t.Fatalf("gap %d is %v, want %v", i, gap, interval)
				}
			}
		})
	}
}

func TestFirstProbesAreSpread(t *testing.T) {
	tests := []struct {
		targets  int
		interval time.Duration
		window   time.Duration
	}{
		{1, 5 * time.Second, startWindow},
		{1, 50 * time.Millisecond, 50 * time.Millisecond},
		{1000, 5 * time.Second, time.Second},
		{4000, 2 * time.Second, 2 * time.Second},
	}
	for _, tt := range tests {
		fake := newFake(passes)
		var targets []Target
		for n := range tt.targets {
			targets = append(targets, fakeTarget(n, every(tt.interval, tt.interval)))
		}
		var begun time.Time
		bubble(t, fake, Options{}, func(c *Checker) {
			begun = time.Now()
			mustSet(t, c, targets...)
			time.Sleep(tt.window)
		})
		tenths := make([]int, 10)
		for _, target := range targets {
			starts := fake.startsOf(target)
			if len(starts) == 0 {
				t.Fatalf("%d targets: one was not probed within %v", tt.targets, tt.window)
			}
			tenths[min(9, int(10*starts[0].Sub(begun)/tt.window))]++
		}
		if tt.targets >= 1000 && (slices.Max(tenths) > tt.targets/7 || slices.Min(tenths) < tt.targets/14) {
			t.Errorf("%d targets start unevenly over %v: %v", tt.targets, tt.window, tenths)
		}
	}
}

func TestTargetsSetBeforeRunAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake(passes)
		c := New(Options{Probers: map[lb.HealthCheckType]Prober{lb.CheckTCP: fake}})
		var targets []Target
		for n := range 1000 {
			targets = append(targets, fakeTarget(n, nil))
		}
		mustSet(t, c, targets...)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if n := len(fake.starts); n < 400 || n > 600 {
			t.Errorf("%d of 1000 targets were probed after half the window", n)
		}
		cancel()
		<-done
		if err := c.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v, want ErrRunning", err)
		}
	})
}

func TestMaxInFlight(t *testing.T) {
	fake := newFake(hangs)
	var targets []Target
	for n := range 100 {
		targets = append(targets, fakeTarget(n, every(time.Second, 500*time.Millisecond)))
	}
	bubble(t, fake, Options{MaxInFlight: 20}, func(c *Checker) {
		mustSet(t, c, targets...)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		s := c.Snapshot()
		if s.InFlight != 20 || s.Waiting == 0 {
			t.Errorf("in flight %d, waiting %d; want 20 and some", s.InFlight, s.Waiting)
		}
		// 20 places of 0.5 s serve 40 of 100 probes a second: the rest is
		// late, is counted, and everyone has a turn.
		if bound, ok := s.Lateness.QuantileBound(0.5); ok && bound < 500*time.Millisecond {
			t.Errorf("median lateness at most %v, want more", bound)
		}
		for _, st := range s.Targets {
			if st.Results[DetailTimeout] < 6 || st.Skipped == 0 {
				t.Errorf("%s: %d probes, %d skipped", st.Target, st.Results[DetailTimeout], st.Skipped)
			}
		}
	})
	if fake.peak != 20 {
		t.Errorf("%d probes were in flight at once, want 20", fake.peak)
	}
}

// TestScheduleAgainstSort adds and removes in random order and expects records
// in order of their due times.
func TestScheduleAgainstSort(t *testing.T) {
	var s schedule
	var want []*record
	base := time.Unix(0, 0)
	for i := range 2000 {
		r := &record{due: base.Add(time.Duration(i*7919%2003) * time.Second)}
		s.add(r)
		if i%3 == 0 {
			s.remove(r)
			s.remove(r)
			continue
		}
		want = append(want, r)
	}
	slices.SortFunc(want, func(a, b *record) int { return a.due.Compare(b.due) })
	for i, w := range want {
		if i > 0 && s.takeDue(w.due.Add(-time.Nanosecond)) != nil {
			t.Fatal("a record was taken before it was due")
		}
		if got := s.takeDue(w.due); got != w {
			t.Fatalf("record %d: due %v, want %v", i, got.due, w.due)
		}
	}
	if len(s) != 0 {
		t.Errorf("%d records are left", len(s))
	}
}

func TestLateRecordSkipsWholeIntervals(t *testing.T) {
	base := time.Unix(1000, 0)
	r := &record{target: fakeTarget(1, every(time.Second, time.Second)), due: base}
	r.advance(base.Add(1500 * time.Millisecond)) // half an interval late: no skip
	if want := base.Add(time.Second); !r.due.Equal(want) || r.skipped != 0 {
		t.Errorf("due %v skipped %d, want %v and 0", r.due, r.skipped, want)
	}
	r.advance(base.Add(10*time.Second + 300*time.Millisecond))
	if want := base.Add(10 * time.Second); !r.due.Equal(want) || r.skipped != 8 {
		t.Errorf("due %v skipped %d, want %v and 8", r.due, r.skipped, want)
	}
}
