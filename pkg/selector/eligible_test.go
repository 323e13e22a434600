package selector

import (
	"fmt"
	"testing"

	"l4lb/pkg/lb"
)

// pool writes h of n healthy members in the notation of members.
func pool(kind string, h, n int) string {
	return fmt.Sprintf("%d%s@a/ok %d%s@a/bad", h, kind, n-h, kind)
}

// TestFailoverTable is semantics.md 2.4.
func TestFailoverTable(t *testing.T) {
	tests := []struct {
		name           string
		hp, p, hf, f   int
		ratio          lb.Ratio
		drop, noPolicy bool
		kind           Kind
		want           string
	}{
		{name: "F1 all healthy", hp: 4, p: 4, hf: 4, f: 4, kind: HealthyPrimaries, want: "4 p-a-ok"},
		{name: "F2 one primary left, ratio 0", hp: 1, p: 4, hf: 4, f: 4, kind: HealthyPrimaries, want: "1 p-a-ok"},
		{name: "F3 no primary left", p: 4, hf: 4, f: 4, kind: HealthyFailovers, want: "4 f-a-ok"},
		{name: "F4 equality stays primary", hp: 2, p: 4, hf: 4, f: 4, ratio: 500_000, kind: HealthyPrimaries, want: "2 p-a-ok"},
		{name: "F5 below the ratio", hp: 1, p: 4, hf: 4, f: 4, ratio: 500_000, kind: HealthyFailovers, want: "4 f-a-ok"},
		{name: "F6 no healthy failover beats the ratio", hp: 1, p: 4, f: 4, ratio: 500_000, kind: HealthyPrimaries, want: "1 p-a-ok"},
		{name: "F7 ratio 1, one missing", hp: 3, p: 4, hf: 4, f: 4, ratio: lb.RatioOne, kind: HealthyFailovers, want: "4 f-a-ok"},
		{name: "F8 ratio 1, all there", hp: 4, p: 4, hf: 4, f: 4, ratio: lb.RatioOne, kind: HealthyPrimaries, want: "4 p-a-ok"},
		{name: "F9 last resort is the primaries", p: 4, f: 4, ratio: 500_000, kind: UnhealthyPrimaries, want: "4 p-a-bad"},
		{name: "F10 drop", p: 4, f: 4, ratio: 500_000, drop: true, kind: Drop},
		{name: "F11 drop needs all unhealthy", p: 4, hf: 1, f: 4, ratio: 500_000, drop: true, kind: HealthyFailovers, want: "1 f-a-ok"},
		{name: "F12 drop does not touch the ratio", hp: 1, p: 4, hf: 1, f: 4, ratio: 500_000, drop: true, kind: HealthyFailovers, want: "1 f-a-ok"},
		{name: "F13 compares exactly", hp: 3, p: 10, hf: 2, f: 2, ratio: 300_000, kind: HealthyPrimaries, want: "3 p-a-ok"},
		{name: "F14 just below", hp: 2, p: 10, hf: 2, f: 2, ratio: 300_000, kind: HealthyFailovers, want: "2 f-a-ok"},
		{name: "F15 one of one", hp: 1, p: 1, hf: 1, f: 1, ratio: lb.RatioOne, kind: HealthyPrimaries, want: "1 p-a-ok"},
		{name: "F16 no primary configured", hf: 2, f: 2, ratio: 500_000, kind: HealthyFailovers, want: "2 f-a-ok"},
		{name: "F17 no policy fails open", p: 4, noPolicy: true, kind: UnhealthyPrimaries, want: "4 p-a-bad"},
		{name: "failover backends without a policy have the default one", hp: 1, p: 4, hf: 4, f: 4, noPolicy: true, kind: HealthyPrimaries, want: "1 p-a-ok"},
		{name: "no policy, primaries down", p: 4, hf: 1, f: 4, noPolicy: true, kind: HealthyFailovers, want: "1 f-a-ok"},
		{name: "a policy without failover backends drops too", p: 4, drop: true, kind: Drop},
		{name: "only failover backends, all down", f: 2, kind: Drop},
		{name: "no backends", noPolicy: true, kind: Drop},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Policy{Failover: &lb.FailoverPolicy{Ratio: tt.ratio, DropTrafficIfUnhealthy: tt.drop}}
			if tt.noPolicy {
				p.Failover = nil
			}
			e := Explain(members(t, pool("P", tt.hp, tt.p)+","+pool("F", tt.hf, tt.f)), p, lb.Client{})
			if got := groups(e.OriginalEligible.Backends); got != tt.want || e.OriginalEligible.Kind != tt.kind {
				t.Errorf("got %s [%s], want %s [%s]", e.OriginalEligible.Kind, got, tt.kind, tt.want)
			}
			if got := groups(e.ModifiedEligible); got != tt.want {
				t.Errorf("modified set [%s], want [%s]", got, tt.want)
			}
			if dropped := e.Reason == Dropped; dropped != (tt.kind == Drop) {
				t.Errorf("reason %s with kind %s", e.Reason, tt.kind)
			}
		})
	}
}

func TestStatesInSets(t *testing.T) {
	half := &lb.FailoverPolicy{Ratio: 500_000}
	tests := []struct {
		name, members string
		failover      *lb.FailoverPolicy
		kind          Kind
		want          string
	}{
		{name: "draining is in no set", members: "1P@a/ok 2P@a/leaving", kind: HealthyPrimaries, want: "1 p-a-ok"},
		{
			name: "draining does not count in the failover ratio", members: "1P@a/ok 1P@a/bad 9P@a/leaving 1F@a/ok",
			failover: half, kind: HealthyPrimaries, want: "1 p-a-ok",
		},
		{name: "draining is no last resort", members: "1P@a/bad 1P@a/leaving", kind: UnhealthyPrimaries, want: "1 p-a-bad"},
		{name: "all draining drops", members: "2P@a/leaving", kind: Drop},
		{name: "unknown is not healthy", members: "1P@a/ok 2P@a/new", kind: HealthyPrimaries, want: "1 p-a-ok"},
		{
			name: "unknown next to unhealthy is not healthy", members: "1P@a/bad 1P@a/new 1F@a/new",
			kind: UnhealthyPrimaries, want: "1 p-a-bad, 1 p-a-new",
		},
		{
			name: "all unknown count as healthy", members: "3P@a/new 2F@a/new", failover: half,
			kind: HealthyPrimaries, want: "3 p-a-new",
		},
		{
			name: "draining does not keep the unknown from counting", members: "3P@a/new 2P@a/leaving",
			kind: HealthyPrimaries, want: "3 p-a-new",
		},
		{
			name: "unreachable counts as unhealthy", members: "1P@a/ok 2P@a/lost 1F@a/ok", failover: half,
			kind: HealthyFailovers, want: "1 f-a-ok",
		},
		{name: "unreachable is shown in last resort", members: "1P@a/bad 1P@a/lost", kind: UnhealthyPrimaries, want: "1 p-a-bad, 1 p-a-lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Explain(members(t, tt.members), Policy{Failover: tt.failover}, lb.Client{})
			if got := groups(e.OriginalEligible.Backends); got != tt.want || e.OriginalEligible.Kind != tt.kind {
				t.Errorf("got %s [%s], want %s [%s]", e.OriginalEligible.Kind, got, tt.kind, tt.want)
			}
		})
	}
}
