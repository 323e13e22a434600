package healthcheck

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

func TestSameTargetIsProbedOnce(t *testing.T) {
	fake := newFake(passes)
	a := fakeTarget(1, func(c *lb.HealthCheck) { c.Name = "b-check" })
	b := fakeTarget(1, func(c *lb.HealthCheck) { c.Name = "a-check"; c.LogEnabled = true })
	mapped := Target{Addr: netip.AddrFrom16(a.Addr.As16()), Check: a.Check}
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, a, b, mapped, a)
		time.Sleep(50*time.Second + startWindow)
		synctest.Wait()
		s := c.Snapshot()
		if len(s.Targets) != 1 || len(fake.startsOf(a)) != 11 {
			t.Fatalf("%d targets, %d probes; want 1 and 11", len(s.Targets), len(fake.startsOf(a)))
		}
		if diff := cmp.Diff([]string{"a-check", "b-check"}, s.Targets[0].Checks); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUnchangedTargetKeepsStateAndRhythm(t *testing.T) {
	fake := newFake(passes)
	kept, gone := fakeTarget(1, nil), fakeTarget(2, nil)
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, kept, gone)
		time.Sleep(23 * time.Second)
		for n := range 50 {
			mustSet(t, c, fakeTarget(10+n, nil), kept)
			time.Sleep(300 * time.Millisecond)
		}
		synctest.Wait()
		if got := c.State(kept); got != lb.Healthy {
			t.Errorf("state %s", got)
		}
		if got := c.State(gone); got != lb.Unknown {
			t.Errorf("state %s of a removed target", got)
		}
		st, _ := c.Status(kept)
		if st.Results[DetailHealthy] != uint64(len(fake.startsOf(kept))) {
			t.Errorf("counted %d of %d probes", st.Results[DetailHealthy], len(fake.startsOf(kept)))
		}
	})
	starts := fake.startsOf(kept)
	for i := 1; i < len(starts); i++ {
		if gap := starts[i].Sub(starts[i-1]); gap != 5*time.Second {
			t.Errorf("gap %d is %v", i, gap)
		}
	}
	if n := len(fake.startsOf(gone)); n != 5 {
		t.Errorf("a target removed after 23 s was probed %d times", n)
	}
}

func TestChangedParametersTakeEffectAtOnce(t *testing.T) {
	fake := newFake(func(_ context.Context, target Target) Detail {
		if target.Check.Port == 81 {
			return DetailRefused
		}
		return DetailHealthy
	})
	slow := fakeTarget(1, every(300*time.Second, 300*time.Second))
	fast := fakeTarget(1, func(c *lb.HealthCheck) {
		every(time.Second, time.Second)(c)
		c.Port = 81
	})
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, slow)
		time.Sleep(10 * time.Second)
		drain(c)
		mustSet(t, c, fast)
		if got := c.State(fast); got != lb.Healthy {
			t.Errorf("state %s right after the change, want the old one", got)
		}
		time.Sleep(startWindow)
		synctest.Wait()
		if n := len(fake.startsOf(fast)); n != 1 {
			t.Errorf("%d probes by the new parameters within %v", n, startWindow)
		}
		time.Sleep(time.Second)
		events := drain(c)
		if len(events) != 1 || events[0].State != lb.Unhealthy || events[0].Target != fast.Key() {
			t.Errorf("events %+v, want UNHEALTHY of the new target", events)
		}
	})
}

func TestRemovedTargetIsCancelled(t *testing.T) {
	fake := newFake(hangs)
	target := fakeTarget(1, func(c *lb.HealthCheck) {
		every(300*time.Second, 300*time.Second)(c)
		c.UnhealthyThreshold = 1
	})
	var out bytes.Buffer
	bubble(t, fake, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, func(c *Checker) {
		mustSet(t, c, target)
		time.Sleep(startWindow)
		synctest.Wait()
		if n := c.Snapshot().InFlight; n != 1 {
			t.Fatalf("%d probes in flight", n)
		}
		mustSet(t, c)
		synctest.Wait()
		if n := c.Snapshot().InFlight; n != 0 {
			t.Errorf("%d probes in flight after removal", n)
		}
		if events := drain(c); len(events) != 0 {
			t.Errorf("events of a removed target: %+v", events)
		}
		if n := c.Snapshot().Lateness.Count(); n != 0 || out.Len() != 0 {
			t.Errorf("%d results counted after removal, log %q", n, out.String())
		}
		for n := range 100 {
			mustSet(t, c, fakeTarget(n, nil))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.idle) != 1 {
			t.Errorf("%d targets on the schedule, want 1", len(c.idle))
		}
	})
}

func TestInitialState(t *testing.T) {
	fake := newFake(hangs)
	a, b, d := fakeTarget(1, nil), fakeTarget(2, nil), fakeTarget(3, nil)
	states := map[Target]lb.HealthState{a.Key(): lb.Healthy, b.Key(): lb.Unhealthy}
	bubble(t, fake, Options{}, func(c *Checker) {
		if err := c.SetTargets([]Target{a, b, d}, func(t Target) lb.HealthState { return states[t] }); err != nil {
			t.Fatal(err)
		}
		states[d.Key()] = lb.Unknown
		for target, want := range states {
			if got := c.State(target); got != want {
				t.Errorf("%s: %s, want %s", target, got, want)
			}
		}
	})
}

func TestInvalidTargetsChangeNothing(t *testing.T) {
	bad := map[string]Target{
		"no address":         {Check: check(lb.CheckTCP, nil)},
		"no port":            fakeTarget(1, func(c *lb.HealthCheck) { c.Port = 0 }),
		"no prober":          fakeTarget(1, func(c *lb.HealthCheck) { c.Type = "UDP" }),
		"too short":          fakeTarget(1, every(0, 0)),
		"timeout 6s":         fakeTarget(1, every(5*time.Second, 6*time.Second)),
		"healthy threshold":  fakeTarget(1, func(c *lb.HealthCheck) { c.HealthyThreshold = 0 }),
		"unhealthy thresh":   fakeTarget(1, func(c *lb.HealthCheck) { c.UnhealthyThreshold = 0 }),
		"proxy header":       fakeTarget(1, func(c *lb.HealthCheck) { c.ProxyHeader = "PROXY_V2" }),
		"request is longer":  fakeTarget(1, func(c *lb.HealthCheck) { c.Request = strings.Repeat("x", 1025) }),
		"response is longer": fakeTarget(1, func(c *lb.HealthCheck) { c.Response = strings.Repeat("x", 1025) }),
		"request path":       fakeTarget(1, func(c *lb.HealthCheck) { c.RequestPath = "/ HTTP/1.1\r\nX: y" }),
		"path \"healthz\"":   fakeTarget(1, func(c *lb.HealthCheck) { c.RequestPath = "healthz" }),
		"host":               fakeTarget(1, func(c *lb.HealthCheck) { c.Host = "a\r\nX: y" }),
	}
	good := fakeTarget(7, nil)
	bubble(t, newFake(passes), Options{}, func(c *Checker) {
		mustSet(t, c, good)
		for want, target := range bad {
			err := c.SetTargets([]Target{target, fakeTarget(8, nil)}, nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		}
		if s := c.Snapshot(); len(s.Targets) != 1 || s.Targets[0].Target != good.Key() {
			t.Errorf("targets changed: %+v", s.Targets)
		}
	})
}

// via is a target at a VIP that is delivered to the n-th backend.
func via(n int, edit func(*lb.HealthCheck)) Target {
	t := fakeTarget(n, edit)
	return Target{Addr: netip.MustParseAddr("198.51.100.1"), Via: Via{Backend: t.Addr, Way: lb.Way{Forwarding: lb.ForwardL2}}, Check: t.Check}
}

// TestBackendsOfOneVIPAreApart probes one address through two backends: each
// has its own state, and keeps it when the parameters change.
func TestBackendsOfOneVIPAreApart(t *testing.T) {
	sick := netip.MustParseAddr("192.0.0.2")
	fake := newFake(func(_ context.Context, t Target) Detail {
		if t.Via.Backend == sick {
			return DetailRefused
		}
		return DetailHealthy
	})
	quick := func(c *lb.HealthCheck) { every(time.Second, time.Second)(c) }
	changed := func(c *lb.HealthCheck) { quick(c); c.RequestPath = "/other" }
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, via(1, quick), via(2, quick), fakeTarget(1, quick))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(c.Snapshot().Targets); n != 3 {
			t.Fatalf("%d targets, want 3", n)
		}
		fake.mu.Lock()
		fake.answer = hangs
		fake.mu.Unlock()
		mustSet(t, c, via(1, changed), via(2, changed))
		if a, b := c.State(via(1, changed)), c.State(via(2, changed)); a != lb.Healthy || b != lb.Unhealthy {
			t.Errorf("states %s and %s after the parameters changed, want HEALTHY and UNHEALTHY", a, b)
		}
		mustSet(t, c, via(3, changed))
		if got := c.State(via(3, changed)); got != lb.Unknown {
			t.Errorf("a backend that is new at the VIP is %s", got)
		}
	})
	if got := via(2, nil).Endpoint(); got != sick {
		t.Errorf("endpoint %s, want the backend", got)
	}
	if got := fakeTarget(2, nil).Endpoint(); got != sick {
		t.Errorf("endpoint %s of a direct target", got)
	}
}

// TestFlapsAreCounted has one miss in three: the threshold damps it.
func TestFlapsAreCounted(t *testing.T) {
	probes := 0
	fake := newFake(nil)
	fake.answer = func(context.Context, Target) Detail {
		if probes++; probes%3 == 0 {
			return DetailTimeout
		}
		return DetailHealthy
	}
	target := fakeTarget(1, every(time.Second, time.Second))
	bubble(t, fake, Options{}, func(c *Checker) {
		mustSet(t, c, target)
		time.Sleep(30*time.Second + startWindow)
		synctest.Wait()
		s, st := c.Snapshot(), Status{}
		st, _ = c.Status(target)
		if st.Damped != 10 || s.Damped[lb.CheckTCP] != 10 || st.Transitions != 1 || s.Transitions[Change{lb.CheckTCP, lb.Healthy}] != 1 {
			t.Errorf("damped %d and %v, transitions %d and %v; want 10 and 1", st.Damped, s.Damped, st.Transitions, s.Transitions)
		}
		c.SetTargets(nil, nil)
		if s := c.Snapshot(); s.Damped[lb.CheckTCP] != 10 || len(s.Targets) != 0 {
			t.Errorf("after the target is gone: %+v", s)
		}
	})
}
