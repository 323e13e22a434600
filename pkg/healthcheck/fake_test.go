package healthcheck

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/pkg/lb"
)

// fakeProber answers from a function and records when probes began.
type fakeProber struct {
	answer func(ctx context.Context, t Target) Detail
	weight lb.Weight

	mu       sync.Mutex
	starts   map[Target][]time.Time
	inFlight map[Target]int
	overlaps int // probes of a target begun during another one
	peak     int // most probes in flight at once
	now      int
}

func newFake(answer func(context.Context, Target) Detail) *fakeProber {
	return &fakeProber{
		answer: answer, weight: noWeight,
		starts: map[Target][]time.Time{}, inFlight: map[Target]int{},
	}
}

func passes(context.Context, Target) Detail { return DetailHealthy }

// hangs waits for the timeout, as a peer does that answers nothing.
func hangs(ctx context.Context, _ Target) Detail {
	<-ctx.Done()
	return DetailTimeout
}

func (f *fakeProber) Probe(ctx context.Context, t Target) Result {
	f.mu.Lock()
	f.starts[t] = append(f.starts[t], time.Now())
	if f.inFlight[t]++; f.inFlight[t] > 1 {
		f.overlaps++
	}
	f.now++
	f.peak = max(f.peak, f.now)
	weight := f.weight
	f.mu.Unlock()
	detail := f.answer(ctx, t)
	f.mu.Lock()
	f.inFlight[t]--
	f.now--
	f.mu.Unlock()
	return Result{Detail: detail, Text: "fake", Weight: weight}
}

func (f *fakeProber) setWeight(w lb.Weight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.weight = w
}

func (f *fakeProber) startsOf(t Target) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.starts[t.Key()]...)
}

// fakeTarget is the n-th backend, checked with TCP.
func fakeTarget(n int, edit func(*lb.HealthCheck)) Target {
	addr := netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)})
	return Target{Addr: addr, Check: check(lb.CheckTCP, edit)}
}

func every(interval, timeout time.Duration) func(*lb.HealthCheck) {
	return func(c *lb.HealthCheck) { c.CheckInterval, c.Timeout = interval, timeout }
}

// bubble runs f with a running Checker in fake time and stops the Checker
// after it. Goroutines that are left then fail the test.
func bubble(t *testing.T, fake *fakeProber, o Options, f func(c *Checker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Logger == nil {
			o.Logger = slog.New(slog.DiscardHandler)
		}
		o.Probers = map[lb.HealthCheckType]Prober{lb.CheckTCP: fake, lb.CheckHTTP: fake}
		c := New(o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		f(c)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if fake.overlaps != 0 {
			t.Errorf("%d probes began during another one of the same target", fake.overlaps)
		}
	})
}

func mustSet(t *testing.T, c *Checker, targets ...Target) {
	t.Helper()
	if err := c.SetTargets(targets, nil); err != nil {
		t.Fatal(err)
	}
}

// drain takes all events that are waiting.
func drain(c *Checker) []Event {
	var events []Event
	for {
		synctest.Wait()
		select {
		case e := <-c.Events():
			events = append(events, e)
		default:
			return events
		}
	}
}
