package selector

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

// TestWeights is semantics.md 1.3.3 and 1.9: which members are in the set, and
// with which weights they share its table.
func TestWeights(t *testing.T) {
	const none, missing, invalid, unavailable = -1, -2, -3, -4
	errs := map[int]lb.WeightError{
		none: lb.WeightNone, missing: lb.WeightMissing, invalid: lb.WeightInvalid, unavailable: lb.WeightUnavailable,
	}
	policy := &lb.FailoverPolicy{}
	tests := []struct {
		name, members string
		weights       []int
		failover      *lb.FailoverPolicy
		off           bool
		kind          Kind
		want          map[string]uint64 // relative table weights
	}{
		{
			name: "healthy with weight", members: "3P@a/ok 1P@a/bad", weights: []int{1, 10, 0, 5},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 10},
		},
		{
			name: "unhealthy with weight beats healthy without", members: "2P@a/ok 2P@a/bad", weights: []int{0, 0, 5, 0},
			kind: UnhealthyPrimaries, want: map[string]uint64{"p-a-bad-0": 5},
		},
		{
			name: "all weights 0: the healthy, equally", members: "2P@a/ok 2P@a/bad", weights: []int{0, 0, 0, 0},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 1},
		},
		{
			name: "unhealthy without weight are the last", members: "2P@a/bad", weights: []int{0, 0},
			kind: UnhealthyPrimaries, want: map[string]uint64{"p-a-bad-0": 1, "p-a-bad-1": 1},
		},
		{
			name: "one missing weight makes all equal", members: "2P@a/ok 1P@a/bad", weights: []int{0, 10, missing},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 1},
		},
		{
			name: "one invalid weight makes all equal", members: "2P@a/ok", weights: []int{3, invalid},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 1},
		},
		{
			name: "a weight not parsed makes all equal", members: "2P@a/ok", weights: []int{3, none},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 1},
		},
		{
			name: "an unavailable weight does not", members: "2P@a/ok 1P@a/bad", weights: []int{3, 4, unavailable},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 3, "p-a-ok-1": 4},
		},
		{
			name: "nor does a member in unknown state", members: "2P@a/ok 1P@a/new", weights: []int{3, 4, none},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 3, "p-a-ok-1": 4},
		},
		{
			name: "nor one that cannot be reached", members: "2P@a/ok 1P@a/lost", weights: []int{3, 4, none},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 3, "p-a-ok-1": 4},
		},
		{
			name: "nor one that is leaving", members: "2P@a/ok 1P@a/leaving", weights: []int{3, 4, missing},
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 3, "p-a-ok-1": 4},
		},
		{
			name: "a failover policy ignores weights in the set", members: "2P@a/ok 1F@a/ok", weights: []int{0, 4, 9},
			failover: policy, kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 0, "p-a-ok-1": 4},
		},
		{
			name: "and spreads equally when all are 0", members: "2P@a/ok 1F@a/ok", weights: []int{0, 0, 9},
			failover: policy, kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 1},
		},
		{
			name: "weighting off", members: "2P@a/ok", weights: []int{0, 4}, off: true,
			kind: HealthyPrimaries, want: map[string]uint64{"p-a-ok-0": 1, "p-a-ok-1": 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := members(t, tt.members)
			for k, w := range tt.weights {
				in[k].Weight = lb.Weight{PPM: uint64(max(w, 0)) * lb.WeightOne, Err: errs[w]}
			}
			plan := Plan(in, Policy{Failover: tt.failover, Weighted: !tt.off}, nil)
			got := map[string]uint64{}
			for _, m := range plan.Sets[plan.NoZone].Table {
				got[m.Name] = m.Weight / lb.WeightOne
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || plan.Kind != tt.kind {
				t.Errorf("kind %s, want %s; weights (-want +got):\n%s", plan.Kind, tt.kind, diff)
			}
		})
	}
}
