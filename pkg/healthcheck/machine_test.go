package healthcheck

import (
	"math/rand/v2"
	"testing"

	"l4lb/pkg/lb"
)

// oracle finds the state after results from the rules alone: it looks back
// from each point for a run that is long enough, and keeps no counters. damped
// is how many runs against the state ended before they changed it.
func oracle(initial lb.HealthState, results []bool, healthy, unhealthy int) (state lb.HealthState, damped uint64) {
	state = initial
	for end := 1; end <= len(results); end++ {
		against := map[lb.HealthState]bool{lb.Healthy: false, lb.Unhealthy: true}
		if worse, judged := against[state]; judged && end > 1 && results[end-2] == worse && results[end-1] != worse {
			damped++
		}
		need, next := unhealthy, lb.Unhealthy
		if results[end-1] {
			need, next = healthy, lb.Healthy
			if state == lb.Unknown {
				need = 1
			}
		}
		if end < need {
			continue
		}
		run := true
		for _, r := range results[end-need : end] {
			run = run && r == results[end-1]
		}
		if run {
			state = next
		}
	}
	return state, damped
}

func TestMachineAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	states := []lb.HealthState{lb.Unknown, lb.Healthy, lb.Unhealthy}
	for range 100_000 {
		initial := states[rng.IntN(len(states))]
		healthy, unhealthy := 1+rng.IntN(10), 1+rng.IntN(10)
		bias := rng.Float64()
		results := make([]bool, rng.IntN(40))
		m := seeded(initial)
		before := m.state
		for i := range results {
			results[i] = rng.Float64() < bias
			changed := m.observe(results[i], healthy, unhealthy)
			if changed != (m.state != before) {
				t.Fatalf("observe reports change %v from %s to %s", changed, before, m.state)
			}
			before = m.state
		}
		if want, damped := oracle(initial, results, healthy, unhealthy); m.state != want || m.damped != damped {
			t.Fatalf("from %s, thresholds %d/%d, results %v: got %s and %d flaps damped, want %s and %d",
				initial, healthy, unhealthy, results, m.state, m.damped, want, damped)
		}
	}
}

func TestMachineRules(t *testing.T) {
	tests := []struct {
		name    string
		initial lb.HealthState
		results string // + passes, - fails
		want    lb.HealthState
	}{
		{"nothing is known", lb.Unknown, "", lb.Unknown},
		{"first pass counts at once", lb.Unknown, "+", lb.Healthy},
		{"one failure does not", lb.Unknown, "-", lb.Unknown},
		{"pass after a failure", lb.Unknown, "--+", lb.Healthy},
		{"threshold from unknown", lb.Unknown, "---", lb.Unhealthy},
		{"a pass breaks the run", lb.Healthy, "--+--", lb.Healthy},
		{"threshold from healthy", lb.Healthy, "--+---", lb.Unhealthy},
		{"one pass is not enough", lb.Unhealthy, "+", lb.Unhealthy},
		{"a failure breaks the run", lb.Unhealthy, "+-+", lb.Unhealthy},
		{"threshold from unhealthy", lb.Unhealthy, "+-++", lb.Healthy},
		{"other states are not seeds", lb.Draining, "", lb.Unknown},
	}
	for _, tt := range tests {
		m := seeded(tt.initial)
		for _, r := range tt.results {
			m.observe(r == '+', 2, 3)
		}
		if m.state != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, m.state, tt.want)
		}
	}
}
