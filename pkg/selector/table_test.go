package selector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"l4lb/pkg/lb"
)

// sum is a checksum that does not depend on the machine.
func sum(table []uint32) string {
	h := fnv.New64a()
	for _, k := range table {
		h.Write(binary.LittleEndian.AppendUint32(nil, k))
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// weightedMembers have weights 0, 1, 2, ... 9, 0, 1, ...
func weightedMembers(n int) []TableMember {
	members := named(n)
	for k := range members {
		members[k].Weight = uint64(k % 10)
	}
	return members
}

// TestTablesAreTheSameInEveryRelease pins the bytes: gateways of two releases
// that serve one VIP must agree. A change here moves every user's connections.
func TestTablesAreTheSameInEveryRelease(t *testing.T) {
	want := map[lb.LocalityLbPolicy][4]string{
		lb.PolicyMaglev:             {"b535dd41aa10c055", "9b98d1f0fb73c991", "4edbb0d513fddee1", "b409e2c5f0f6abff"},
		lb.PolicyWeightedMaglev:     {"cd8dd6e820205764", "19eaced0f53e080e", "7f2feee6311f6d09", "7a5f9bd660b4454d"},
		lb.PolicyRendezvous:         {"cb234c15fd9f72b4", "8b7ae59c4e170526", "790ca27230b90bac", "618db0e6d6ad2049"},
		lb.PolicyWeightedRendezvous: {"cd8dd6e820205764", "c6948211890ff2c9", "daae6e932de966ba", "52dfc7e7e02c1c2b"},
	}
	for _, policy := range allPolicies {
		got := [4]string{}
		for k, n := range []int{2, 12, 100, 1000} {
			got[k] = sum(mustFill(t, policy, weightedMembers(n), 0x6c346c62))
		}
		if got != want[policy] {
			t.Errorf("%s: got %q, want %q", policy, got, want[policy])
		}
	}
}

func TestOrderOfMembersNeverMatters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, policy := range allPolicies {
		members := weightedMembers(27)
		members = append(members, members[8], members[9]) // instances that are there twice
		members[8].Weight = 4
		want := mustFill(t, policy, members, 7)
		for range 100 {
			r.Shuffle(len(members), func(a, b int) { members[a], members[b] = members[b], members[a] })
			given := slices.Clone(members)
			if !slices.Equal(mustFill(t, policy, members, 7), want) {
				t.Fatalf("%s: table depends on the order of members", policy)
			}
			if !slices.Equal(given, members) {
				t.Fatalf("%s: Fill changed its input", policy)
			}
		}
	}
}

func TestSeedChangesTables(t *testing.T) {
	for _, policy := range allPolicies {
		a, b := mustFill(t, policy, named(10), 1), mustFill(t, policy, named(10), 2)
		same := 0
		for slot := range a {
			if a[slot] == b[slot] {
				same++
			}
		}
		if same > TableSize/8 {
			t.Errorf("%s: %d of %d slots are the same under another seed", policy, same, TableSize)
		}
	}
}

// TestSharesAreExact: every member owns its share of the slots, rounded down or
// up, whatever the weights.
func TestSharesAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cases := map[string][]uint64{
		"one":               {5},
		"one to ten":        {1, 10},
		"zero owns nothing": {0, 3, 0, 1},
		"one to 100":        append(slices.Repeat([]uint64{100}, 50), slices.Repeat([]uint64{1}, 50)...),
		"one giant":         append([]uint64{1_000_000}, slices.Repeat([]uint64{1}, 300)...),
		"shares of nothing": append([]uint64{1 << 63, 1 << 62}, slices.Repeat([]uint64{1}, 20)...),
		"largest sums":      slices.Repeat([]uint64{1<<64 - 1}, 9),
		"more than slots":   slices.Repeat([]uint64{1}, TableSize+3),
	}
	for k := range 4 {
		weights := make([]uint64, 1+r.IntN(300))
		for i := range weights {
			weights[i] = r.Uint64N(1 << (1 + r.IntN(30)))
		}
		cases[fmt.Sprintf("random %d", k)] = append(weights, 1)
	}
	for name, weights := range cases {
		members := named(len(weights))
		total := 0.0
		for k, w := range weights {
			members[k].Weight = w
			total += float64(w)
		}
		for _, policy := range []lb.LocalityLbPolicy{lb.PolicyWeightedMaglev, lb.PolicyWeightedRendezvous} {
			for k, got := range slotsOf(members, mustFill(t, policy, members, 1)) {
				want := TableSize * float64(weights[k]) / total
				if d := float64(got) - want; d <= -1-1e-6 || d >= 1+1e-6 || weights[k] == 0 && got > 0 {
					t.Errorf("%s: %s: member %d of weight %d owns %d slots, want %.3f", name, policy, k, weights[k], got, want)
				}
			}
		}
	}
}

func TestUnweightedPoliciesIgnoreWeights(t *testing.T) {
	for _, policy := range []lb.LocalityLbPolicy{lb.PolicyMaglev, lb.PolicyRendezvous} {
		if !slices.Equal(mustFill(t, policy, weightedMembers(12), 1), mustFill(t, policy, named(12), 1)) {
			t.Errorf("%s: weights change the table", policy)
		}
	}
}

func TestNoTable(t *testing.T) {
	if table, err := Fill(lb.PolicyWeightedRendezvous, []TableMember{{"a", 0}}, 1); table != nil || err != nil {
		t.Errorf("all weights 0: %d slots, error %v", len(table), err)
	}
	if table, err := Fill(lb.PolicyMaglev, nil, 1); table != nil || err != nil {
		t.Errorf("no members: %d slots, error %v", len(table), err)
	}
	if _, err := Fill("ROUND_ROBIN", named(1), 1); !errors.Is(err, ErrPolicy) {
		t.Errorf("error %v, want ErrPolicy", err)
	}
}

// TestDisruption bounds what moves without need when members leave, in percent
// of all slots, and what moves when one weight is halved, relative to the least.
func TestDisruption(t *testing.T) {
	tests := []struct {
		n           int
		one, tenth  float64
		halvedTimes float64
	}{
		{3, 0.1, 0, 1.1},
		{10, 0.35, 0.35, 1.1},
		{100, 0.35, 0.65, 1.6},
		{1000, 0.42, 2.1, 6},
	}
	for _, tt := range tests {
		policy := lb.PolicyWeightedRendezvous
		if got := meanNeedless(t, policy, tt.n, tt.n, min(tt.n, 5)); got > tt.one {
			t.Errorf("n=%d: removing one moves %.3f %% without need, want at most %.3f", tt.n, got, tt.one)
		}
		if tt.n >= 10 {
			if got := meanNeedless(t, policy, tt.n, 10, 3); got > tt.tenth {
				t.Errorf("n=%d: removing 10 %% moves %.3f %% without need, want at most %.3f", tt.n, got, tt.tenth)
			}
		}
		if got, ideal := halved(t, policy, tt.n); got > tt.halvedTimes*ideal {
			t.Errorf("n=%d: halving a weight moves %.3f %%, the least is %.3f", tt.n, got, ideal)
		}
	}
}
