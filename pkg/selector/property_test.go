package selector

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

const propertyRuns = 3000

var zones = []string{"a", "b", "c"}

// randomService makes up members and a policy. Weights are valid or unavailable
// when the policy is weighted, with many zeros.
func randomService(r *rand.Rand, states []lb.HealthState) ([]Member, Policy) {
	pick := func(n int) bool { return r.IntN(n) == 0 }
	failovers := pick(2)
	healthyShare := r.IntN(4)
	out := make([]Member, r.IntN(12))
	for k := range out {
		m := Member{
			Instance:    fmt.Sprintf("i-%02d", k),
			Addr:        netip.AddrFrom4([4]byte{192, 0, 2, byte(k)}),
			Zone:        zones[r.IntN(len(zones))],
			Failover:    failovers && pick(2),
			State:       lb.Healthy,
			Weight:      lb.Weight{PPM: uint64(r.IntN(3)) * lb.WeightOne},
			Unreachable: pick(12),
		}
		if r.IntN(4) >= healthyShare {
			m.State = states[r.IntN(len(states))]
		}
		if pick(12) {
			m.Weight = lb.Weight{Err: lb.WeightUnavailable}
		}
		out[k] = m
	}
	p := Policy{Weighted: pick(3)}
	ratios := []lb.Ratio{0, 300_000, 500_000, 800_000, lb.RatioOne}
	if failovers && pick(2) {
		p.Failover = &lb.FailoverPolicy{Ratio: ratios[r.IntN(len(ratios))], DropTrafficIfUnhealthy: pick(2)}
	}
	p.Zonal.Spillover = []lb.Spillover{lb.ZonalDisabled, lb.ZonalStayWithinZone, lb.ZonalSpillCrossZone}[r.IntN(3)]
	if p.Zonal.Spillover == lb.ZonalSpillCrossZone {
		p.Zonal.SpilloverRatio = ratios[r.IntN(len(ratios))]
	}
	return out, p
}

var allStates = []lb.HealthState{lb.Healthy, lb.Unhealthy, lb.Unknown, lb.Draining}

func TestModifiedSetIsEmptyOnlyOnDrop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range propertyRuns {
		in, p := randomService(r, allStates)
		e := Explain(in, p, inZone("a"))
		empty := len(e.ModifiedEligible) == 0
		if empty != (e.OriginalEligible.Kind == Drop) || empty != (e.Reason == Dropped) {
			t.Fatalf("%+v\n%+v\n%+v", in, p, e)
		}
	}
}

func TestSetsNeverMixPrimariesAndFailovers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range propertyRuns {
		in, p := randomService(r, allStates)
		failover := map[string]bool{}
		for _, m := range in {
			failover[m.Instance] = m.Failover
		}
		e := Explain(in, p, inZone("a"))
		for _, set := range [][]string{e.OriginalEligible.Backends, e.ZonalTest, e.ModifiedEligible} {
			for _, name := range set {
				if failover[name] != (e.OriginalEligible.Kind == HealthyFailovers) {
					t.Fatalf("%s in %+v\n%+v", name, e, in)
				}
			}
		}
	}
}

// Without a failover policy, adding a healthy backend to the client's zone never
// lets traffic leave the zone that was kept in it before.
func TestAddingHealthyBackendNeverSpills(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	checked := 0
	for range propertyRuns {
		in, p := randomService(r, []lb.HealthState{lb.Healthy, lb.Unhealthy, lb.Draining})
		for k := range in {
			in[k].Failover = false
		}
		p.Failover = nil
		if p.Zonal.Spillover == lb.ZonalDisabled {
			continue
		}
		inside := func(in []Member) bool {
			zone := map[string]string{}
			for _, m := range in {
				zone[m.Instance] = m.Zone
			}
			for _, name := range Explain(in, p, inZone("a")).ModifiedEligible {
				if zone[name] != "a" {
					return false
				}
			}
			return true
		}
		if !inside(in) {
			continue
		}
		checked++
		added := Member{Instance: "new", Zone: "a", State: lb.Healthy, Weight: lb.Weight{PPM: lb.WeightOne}}
		if after := append(in[:len(in):len(in)], added); !inside(after) {
			t.Fatalf("%+v\n%+v\n%+v", in, p, Explain(after, p, inZone("a")))
		}
	}
	if checked < propertyRuns/10 {
		t.Errorf("only %d cases stayed in the zone", checked)
	}
}

func TestInputOrderNeverMatters(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range propertyRuns {
		in, p := randomService(r, allStates)
		want, wantPlan := Explain(in, p, inZone("b")), Plan(in, p, zones)
		r.Shuffle(len(in), func(a, b int) { in[a], in[b] = in[b], in[a] })
		if diff := cmp.Diff(want, Explain(in, p, inZone("b"))); diff != "" {
			t.Fatalf("%+v\n%s", in, diff)
		}
		gotPlan := Plan(in, p, zones)
		wantPlan.Healthy, gotPlan.Healthy = nil, nil // in input order by definition
		for k := range wantPlan.Sets {
			wantPlan.Sets[k].Members, gotPlan.Sets[k].Members = nil, nil
		}
		if diff := cmp.Diff(wantPlan, gotPlan); diff != "" {
			t.Fatalf("%+v\n%s", in, diff)
		}
	}
}

func TestPlanAgreesWithExplain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range propertyRuns {
		in, p := randomService(r, allStates)
		for _, client := range []lb.Client{inZone("a"), inZone("c"), {}, {Class: lb.ClientIncompatible}} {
			comparePlan(t, in, p, client, Explain(in, p, client))
		}
		if t.Failed() {
			t.Fatalf("%+v\n%+v", in, p)
		}
	}
}
