package controller

import (
	"testing"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

func weighted(s *lb.Service) { s.LocalityLbPolicy = lb.PolicyWeightedMaglev }

func weigh(state lb.HealthState, weight uint64) selector.Health {
	return selector.Health{State: state, Weight: lb.Weight{PPM: weight * lb.WeightOne}}
}

// shares counts an instance's slots in the table for clients of no zone, in
// percent, rounded.
func (w *world) shares(instance string) int {
	table := w.dp.tables[w.dp.picksOf(w.id(loader.NameService, "web"))[0]]
	member, n := w.member("web", instance), 0
	for _, id := range table {
		if w.dp.members[id].StatBase == member.StatBase {
			n++
		}
	}
	return (100*n + loader.TableSize/2) / loader.TableSize
}

func (w *world) wantShares(a1, a2, b1, b2 int) {
	w.t.Helper()
	got := [4]int{w.shares("a1"), w.shares("a2"), w.shares("b1"), w.shares("b2")}
	w.want("shares", got, [4]int{a1, a2, b1, b2})
}

func newWeightedWorld(t *testing.T) *world {
	w := newWorld(t, testConfig(web(weighted)))
	w.wantShares(25, 25, 25, 25) // MISSING_WEIGHT: equal
	for i, name := range w.instances() {
		w.health(weigh(lb.Healthy, uint64(i+1)), name)
	}
	w.reconcile()
	w.wantShares(10, 20, 30, 40)
	return w
}

// A change of weight makes a new table and moves no entry.
func TestWeightsMakeTheTable(t *testing.T) {
	w := newWeightedWorld(t)
	w.dp.writes = nil
	w.want("lost", w.changes(func() { w.health(weigh(lb.Healthy, 4), "a1") }), "")
	w.wantShares(31, 15, 23, 31)
	w.want("writes", summary(w.dp.writes), "delete table, pick web ×64, table")
}

// A probe without an answer leaves the weight as it was; when the backend is
// well again without having said another, it still counts.
func TestWeightIsKeptOnUnavailable(t *testing.T) {
	w := newWeightedWorld(t)
	w.dp.writes = nil
	silent := selector.Health{State: lb.Healthy, Weight: lb.Weight{Err: lb.WeightUnavailable}}
	w.health(silent, "b2")
	w.reconcile()
	w.wantShares(10, 20, 30, 40)
	w.want("writes", len(w.dp.writes), 0)
	w.set(lb.Unhealthy, "b2")
	w.reconcile()
	w.wantShares(17, 33, 50, 0)
	w.set(lb.Unhealthy, "a1", "a2", "b1")
	w.reconcile()
	w.wantShares(10, 20, 30, 40) // last resort, by weight
}

// One invalid or missing weight makes all equal (semantics.md 1.9).
func TestOneBadWeightMakesAllEqual(t *testing.T) {
	for _, bad := range []lb.WeightError{lb.WeightInvalid, lb.WeightMissing} {
		w := newWeightedWorld(t)
		w.health(selector.Health{State: lb.Healthy, Weight: lb.Weight{Err: bad}}, "a1")
		w.reconcile()
		w.wantShares(25, 25, 25, 25)
		w.health(weigh(lb.Healthy, 1), "a1")
		w.reconcile()
		w.wantShares(10, 20, 30, 40)
	}
}

// The four steps of semantics.md 1.3.3.
func TestWeightedEligibleOrder(t *testing.T) {
	w := newWeightedWorld(t)
	w.health(weigh(lb.Healthy, 0), "a1", "a2")
	w.reconcile()
	w.wantShares(0, 0, 43, 57)
	w.health(weigh(lb.Unhealthy, 3), "b1")
	w.health(weigh(lb.Unhealthy, 4), "b2")
	before := w.records()
	w.reconcile()
	w.wantShares(0, 0, 43, 57) // sick with weight goes before well without
	w.want("lost", w.lost(before), "")
	w.health(weigh(lb.Unhealthy, 0), "b1", "b2")
	w.reconcile()
	w.wantShares(50, 50, 0, 0)
	w.health(weigh(lb.Unhealthy, 0), "a1", "a2")
	w.reconcile()
	w.wantShares(25, 25, 25, 25)
}
