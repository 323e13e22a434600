package selector

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

var allPolicies = []lb.LocalityLbPolicy{
	lb.PolicyMaglev, lb.PolicyWeightedMaglev, lb.PolicyRendezvous, lb.PolicyWeightedRendezvous,
}

// named returns n members of weight 10, sorted.
func named(n int) []TableMember {
	out := make([]TableMember, n)
	for k := range out {
		out[k] = TableMember{Name: fmt.Sprintf("backend-%05d", k), Weight: 10}
	}
	return out
}

func mustFill(tb testing.TB, policy lb.LocalityLbPolicy, members []TableMember, seed uint64) []uint32 {
	tb.Helper()
	table, err := Fill(policy, members, seed)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

// slotsOf counts the slots of each member.
func slotsOf(members []TableMember, table []uint32) []int {
	out := make([]int, len(members))
	for _, k := range table {
		out[k]++
	}
	return out
}

// balance returns the largest and the smallest count relative to the mean.
func balance(members []TableMember, table []uint32) (high, low float64) {
	counts := slotsOf(members, table)
	mean := float64(TableSize) / float64(len(members))
	return float64(slices.Max(counts)) / mean, float64(slices.Min(counts)) / mean
}

// needless is the percentage of slots that moved from one member that stayed
// to another: members and stay are sorted, and stay is a subset.
func needless(members []TableMember, table []uint32, stay []TableMember, after []uint32) float64 {
	stays := map[string]bool{}
	for _, m := range stay {
		stays[m.Name] = true
	}
	moved := 0
	for slot, k := range table {
		name := members[k].Name
		if stays[name] && stay[after[slot]].Name != name {
			moved++
		}
	}
	return 100 * float64(moved) / TableSize
}

// meanNeedless removes every step-th member, for some offsets, and returns the
// mean of what moved without need.
func meanNeedless(tb testing.TB, policy lb.LocalityLbPolicy, n, step, trials int) float64 {
	members := named(n)
	table := mustFill(tb, policy, members, 1)
	sum := 0.0
	for trial := range trials {
		offset := (trial*step/trials + 1) % step
		var stay []TableMember
		for k, m := range members {
			if k%step != offset {
				stay = append(stay, m)
			}
		}
		sum += needless(members, table, stay, mustFill(tb, policy, stay, 1))
	}
	return sum / float64(trials)
}

// halved returns the percentage of slots that move when one weight is halved,
// and the least that must.
func halved(tb testing.TB, policy lb.LocalityLbPolicy, n int) (moved, ideal float64) {
	members := named(n)
	before := mustFill(tb, policy, members, 1)
	members[n/2].Weight /= 2
	after := mustFill(tb, policy, members, 1)
	for slot := range before {
		if before[slot] != after[slot] {
			moved += 100.0 / TableSize
		}
	}
	return moved, 100 * (1/float64(n) - 0.5/(float64(n)-0.5))
}

// TestTableQuality prints the numbers of docs/development/tables.md with -v and
// asserts that the default beats Maglev.
func TestTableQuality(t *testing.T) {
	t.Logf("%-24s %5s %9s %9s %9s %9s %16s %8s", "policy", "n", "max/mean", "min/mean",
		"remove 1", "10 %", "halve (ideal)", "fill")
	for _, n := range []int{3, 10, 32, 100, 256, 1000} {
		measured := map[lb.LocalityLbPolicy][3]float64{}
		for _, policy := range []lb.LocalityLbPolicy{lb.PolicyWeightedMaglev, lb.PolicyWeightedRendezvous} {
			members := named(n)
			start := time.Now()
			table := mustFill(t, policy, members, 1)
			took := time.Since(start)
			high, low := balance(members, table)
			one := meanNeedless(t, policy, n, n, min(n, 5))
			tenth := 0.0
			if n >= 10 {
				tenth = meanNeedless(t, policy, n, 10, 3)
			}
			moved, ideal := halved(t, policy, n)
			measured[policy] = [3]float64{high, one, tenth}
			t.Logf("%-24s %5d %9.4f %9.4f %8.3f%% %8.3f%% %7.3f (%6.3f) %8s", policy, n, high, low,
				one, tenth, moved, ideal, took.Round(100*time.Microsecond))
		}
		logPlain(t, n)
		ours, maglev := measured[lb.PolicyWeightedRendezvous], measured[lb.PolicyWeightedMaglev]
		for k, what := range []string{"max/mean", "moves when one is removed", "moves when a tenth is removed"} {
			if ours[k] > maglev[k] {
				t.Errorf("n=%d: %s %.4f is worse than Maglev's %.4f", n, what, ours[k], maglev[k])
			}
		}
	}
}

// logPlain prints the balance of rendezvous hashing without prices, which moves
// nothing without need.
func logPlain(t *testing.T, n int) {
	t.Helper()
	members := named(n)
	owners := newOwners(members, false, 1)
	logs, prices := newLogs(), make([]int64, n)
	for k := range prices {
		prices[k] = logs.log2(uint64(n))
	}
	a := &assignment{
		owners: owners, candidates: newCandidates(owners, prices, logs), logs: logs, prices: prices,
		owner: make([]uint32, TableSize), lead: make([]int64, TableSize), counts: make([]int, n),
	}
	a.assign()
	high, low := balance(members, a.owner)
	t.Logf("%-24s %5d %9.4f %9.4f %8.3f%% %8.3f%%", "(without prices)", n, high, low, 0.0, 0.0)
}

func BenchmarkFill(b *testing.B) {
	for _, policy := range []lb.LocalityLbPolicy{lb.PolicyMaglev, lb.PolicyRendezvous} {
		for _, n := range []int{3, 10, 100, 1000, 10000} {
			members := named(n)
			b.Run(fmt.Sprintf("%s/%d", policy, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					mustFill(b, policy, members, 1)
				}
			})
		}
	}
}
