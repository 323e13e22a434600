package controller

import (
	"testing"
	"time"

	"l4lb/pkg/lb"
)

// withFailover makes web-b the failover group.
func withFailover(p lb.FailoverPolicy) func(*lb.Config) {
	return web(func(s *lb.Service) {
		if p.DrainTimeout == 0 {
			p.DrainTimeout = 300 * time.Second
		}
		s.Failover, s.Backends[1].Failover = &p, true
	})
}

// What connections of the pool that is left meet (semantics.md 2.2).
func TestFailoverAndFailbackDrain(t *testing.T) {
	w := newWorld(t, testConfig(withFailover(lb.FailoverPolicy{Ratio: lb.RatioOne})))
	w.wantChosen("web", "", "a1 a2")
	w.want("pool", w.e.Snapshot().Services[0].Pool, "primary")
	start := w.now

	w.want("lost at failover", w.changes(func() { w.set(lb.Unhealthy, "a1") }), "a1:other")
	w.wantChosen("web", "", "b1 b2")
	w.want("pool", w.e.Snapshot().Services[0].Pool, "failover")
	w.want("deadline", w.reconcile().Sub(start), 300*time.Second)
	w.now = start.Add(300*time.Second - 1)
	w.want("lost before the end", w.changes(func() {}), "")
	w.now = start.Add(300 * time.Second)
	w.want("lost at the end", w.changes(func() {}), "a1:connection,other a2:connection,other")
	w.want("deadline", w.reconcile().IsZero(), true)

	w.want("lost at failback", w.changes(func() { w.set(lb.Healthy, "a1") }), "")
	w.wantChosen("web", "", "a1 a2")
	w.now = w.now.Add(300 * time.Second)
	w.want("lost at its end", w.changes(func() {}), "b1:connection,other b2:connection,other")
}

// A failback before the end saves the connections of the primaries.
func TestFailbackBeforeTheDrainEnds(t *testing.T) {
	w := newWorld(t, testConfig(withFailover(lb.FailoverPolicy{DrainTimeout: 100 * time.Second})))
	start := w.now
	w.set(lb.Unhealthy, "a1", "a2")
	w.reconcile()
	w.after(60 * time.Second)
	w.set(lb.Healthy, "a1", "a2")
	w.want("deadline", w.reconcile().Sub(start), 160*time.Second)
	w.now = start.Add(100 * time.Second)
	w.want("lost at the old deadline", w.changes(func() {}), "")
	w.now = start.Add(160 * time.Second)
	w.want("lost at the new one", w.changes(func() {}), "b1:connection,other b2:connection,other")
}

// Without draining a switch ends all entries of the service by its rules'
// epochs, and of no other service.
func TestDisabledDrainFlushesByEpoch(t *testing.T) {
	w := newWorld(t, testConfig(withOther, withFailover(lb.FailoverPolicy{DisableConnectionDrain: true}), func(cfg *lb.Config) {
		cfg.Rules = append(cfg.Rules, testRule("second", "192.0.2.12", "web", 80))
	}))
	rules := func() [3]uint32 {
		return [3]uint32{epochs(w, "web-vip"), epochs(w, "second"), epochs(w, "other-vip")}
	}
	before := rules()
	w.set(lb.Unhealthy, "a1", "a2")
	w.want("deadline", w.reconcile().IsZero(), true)
	after := rules()
	const one = 1<<16 | 1
	w.want("epochs", after, [3]uint32{before[0] + one, before[1] + one, before[2]})
	w.reconcile()
	w.want("epochs once more", rules(), after)
	w.set(lb.Healthy, "a1")
	w.reconcile()
	w.want("epochs at failback", rules(), [3]uint32{before[0] + 2*one, before[1] + 2*one, before[2]})
}

// epochs packs both epochs of a rule.
func epochs(w *world, name string) uint32 {
	r := w.rule(name)
	return uint32(r.Epoch)<<16 | uint32(r.ServiceEpoch)
}

// Last resort is the primaries' pool; from drop nothing switches.
func TestLastResortAfterFailover(t *testing.T) {
	w := newWorld(t, testConfig(withFailover(lb.FailoverPolicy{})))
	w.set(lb.Unhealthy, "a1", "a2")
	w.reconcile()
	w.wantChosen("web", "", "b1 b2")
	w.want("lost", w.changes(func() { w.set(lb.Unhealthy, "b1", "b2") }), "")
	w.wantChosen("web", "", "a1 a2")
	w.want("pool", w.e.Snapshot().Services[0].Pool, "primary")
}

func TestDropIsNoSwitch(t *testing.T) {
	w := newWorld(t, testConfig(withFailover(lb.FailoverPolicy{DropTrafficIfUnhealthy: true, DisableConnectionDrain: true})))
	before := epochs(w, "web-vip")
	w.set(lb.Unhealthy, w.instances()...)
	w.reconcile()
	w.wantChosen("web", "", "")
	w.set(lb.Healthy, "a2")
	w.reconcile()
	w.wantChosen("web", "", "a2")
	w.want("epochs", epochs(w, "web-vip"), before)
}

// The first selection is no switch, whatever the pool.
func TestStartInFailoverIsNoSwitch(t *testing.T) {
	w := &world{t: t, dp: newFakeDP(t), now: time.Unix(1_700_000_000, 0)}
	cfg := testConfig(withFailover(lb.FailoverPolicy{}))
	var err error
	if w.e, err = NewEngine(w.dp); err != nil {
		t.Fatal(err)
	}
	w.config(cfg)
	w.set(lb.Healthy, "b1", "b2")
	w.set(lb.Unhealthy, "a1", "a2")
	w.want("deadline", w.reconcile().IsZero(), true)
	w.wantChosen("web", "", "b1 b2")
}

// What the last daemon left of a failover, the next one ends.
func TestRestartDuringFailover(t *testing.T) {
	for _, disable := range []bool{false, true} {
		p := lb.FailoverPolicy{DisableConnectionDrain: disable}
		w := newWorld(t, testConfig(withFailover(p)))
		w.set(lb.Unhealthy, "a1", "a2")
		w.reconcile()
		before, epoch := w.records(), epochs(w, "web-vip")
		w.startBare(testConfig(withFailover(p)), true)
		start := w.now
		next := w.reconcile()
		w.wantChosen("web", "", "b1 b2")
		if !disable {
			w.want("deadline", next.Sub(start), 300*time.Second)
			w.want("lost at once", w.lost(before), "a1:other a2:other")
		}
		w.now = next
		w.want("deadline after", w.reconcile().IsZero(), true)
		w.want("lost at the deadline", w.lost(before), "a1:connection,other a2:connection,other")
		w.want("epochs", epochs(w, "web-vip"), epoch)
	}
}
