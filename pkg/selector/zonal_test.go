package selector

import (
	"testing"

	"l4lb/pkg/lb"
)

var (
	stay     = lb.ZonalAffinity{Spillover: lb.ZonalStayWithinZone}
	disabled = lb.ZonalAffinity{Spillover: lb.ZonalDisabled}
)

func spill(r lb.Ratio) lb.ZonalAffinity {
	return lb.ZonalAffinity{Spillover: lb.ZonalSpillCrossZone, SpilloverRatio: r}
}

// TestZonalTable is semantics.md 3.5: the reference's examples and the extra
// vectors. A case stands for every option that it lists.
func TestZonalTable(t *testing.T) {
	const (
		two       = "2P@a/ok 2P@b/ok 2F@c/ok 2F@d/ok"
		down      = "2P@a/bad 2P@b/bad 2F@c/ok 2F@d/ok"
		numeric   = "5P@1/ok 3P@2/ok 2P@2/bad"
		halfDown  = "3P@a/bad 3P@b/ok"
		allDown   = "3P@a/bad 3P@b/bad"
		mixed     = "2P@a/bad 2F@c/bad 2F@d/ok"
		bothKinds = "1P@a/ok 3P@a/bad 1F@a/ok 1F@a/bad 2F@b/ok"
	)
	any3 := []lb.ZonalAffinity{stay, spill(0), spill(500_000), spill(lb.RatioOne)}
	tests := []struct {
		name, members, zone string
		failover            *lb.FailoverPolicy
		options             []lb.ZonalAffinity
		ratio, want         string
		reason              Reason
	}{
		{name: "Z1", members: two, zone: "a", options: any3, ratio: "2/2", want: "2 p-a-ok", reason: StayedInZone},
		{name: "Z2", members: down, zone: "a", options: any3, want: "2 f-c-ok, 2 f-d-ok", reason: NoZonalMatch},
		{name: "Z3", members: numeric, zone: "1", options: []lb.ZonalAffinity{spill(lb.RatioOne)}, ratio: "5/5", want: "5 p-1-ok", reason: StayedInZone},
		{name: "Z4", members: numeric, zone: "2", options: []lb.ZonalAffinity{spill(lb.RatioOne)}, ratio: "3/5", want: "5 p-1-ok, 3 p-2-ok", reason: Spilled},
		{name: "Z5", members: "4P@a/ok 1P@a/bad 1P@b/ok", zone: "a", options: []lb.ZonalAffinity{spill(800_000)}, ratio: "4/5", want: "4 p-a-ok", reason: StayedInZone},
		{name: "Z6", members: "3P@a/ok 2P@a/bad 1P@b/ok", zone: "a", options: []lb.ZonalAffinity{spill(800_000)}, ratio: "3/5", want: "3 p-a-ok, 1 p-b-ok", reason: Spilled},
		{name: "Z7", members: "1P@a/ok 9P@a/bad 1P@b/ok", zone: "a", options: []lb.ZonalAffinity{spill(0)}, ratio: "1/10", want: "1 p-a-ok", reason: StayedInZone},
		{name: "Z8", members: halfDown, zone: "a", options: []lb.ZonalAffinity{spill(0)}, ratio: "0/3", want: "3 p-b-ok", reason: Spilled},
		{name: "Z9", members: numeric, zone: "1", options: []lb.ZonalAffinity{spill(800_000)}, ratio: "5/5", want: "5 p-1-ok", reason: StayedInZone},
		{name: "Z10", members: numeric, zone: "2", options: []lb.ZonalAffinity{spill(800_000)}, ratio: "3/5", want: "5 p-1-ok, 3 p-2-ok", reason: Spilled},
		{name: "Z11", members: numeric, zone: "2", options: []lb.ZonalAffinity{spill(600_000)}, ratio: "3/5", want: "3 p-2-ok", reason: StayedInZone},
		{name: "Z12", members: numeric, zone: "2", options: []lb.ZonalAffinity{spill(lb.RatioOne)}, ratio: "3/5", want: "5 p-1-ok, 3 p-2-ok", reason: Spilled},
		{name: "Z13 Z14", members: numeric, zone: "2", options: []lb.ZonalAffinity{spill(0), stay}, ratio: "3/5", want: "3 p-2-ok", reason: StayedInZone},
		{name: "Z15", members: numeric, zone: "3", options: any3, want: "5 p-1-ok, 3 p-2-ok", reason: NoZonalMatch},
		{name: "Z16", members: halfDown, zone: "a", options: []lb.ZonalAffinity{stay}, ratio: "0/3", want: "3 p-a-bad", reason: StayedInZoneUnhealthy},
		{name: "Z17 Z18", members: halfDown, zone: "a", options: []lb.ZonalAffinity{spill(0), spill(500_000)}, ratio: "0/3", want: "3 p-b-ok", reason: Spilled},
		{name: "Z19 Z20", members: allDown, zone: "a", options: any3, ratio: "3/3", want: "3 p-a-bad", reason: StayedInZone},
		{name: "Z21", members: allDown, zone: "c", options: any3, want: "3 p-a-bad, 3 p-b-bad", reason: NoZonalMatch},
		{name: "Z22", members: allDown + " 1F@c/bad", zone: "a", failover: &lb.FailoverPolicy{DropTrafficIfUnhealthy: true}, options: any3, reason: Dropped},
		{name: "Z23", members: down, zone: "b", options: any3, want: "2 f-c-ok, 2 f-d-ok", reason: NoZonalMatch},
		{name: "Z24", members: down, zone: "c", options: any3, ratio: "2/2", want: "2 f-c-ok", reason: StayedInZone},
		{name: "Z25", members: mixed, zone: "c", options: []lb.ZonalAffinity{stay}, ratio: "0/2", want: "2 f-c-bad", reason: StayedInZoneUnhealthy},
		{name: "Z26", members: mixed, zone: "c", options: []lb.ZonalAffinity{spill(0), spill(500_000)}, ratio: "0/2", want: "2 f-d-ok", reason: Spilled},
		{name: "Z27", members: bothKinds, zone: "a", failover: &lb.FailoverPolicy{Ratio: 500_000}, options: []lb.ZonalAffinity{stay, spill(0), spill(500_000)}, ratio: "1/2", want: "1 f-a-ok", reason: StayedInZone},
		{name: "Z28", members: bothKinds, zone: "a", failover: &lb.FailoverPolicy{Ratio: 500_000}, options: []lb.ZonalAffinity{spill(750_000)}, ratio: "1/2", want: "1 f-a-ok, 2 f-b-ok", reason: Spilled},
		{name: "Z29", members: "1P@a/ok 9P@b/ok", zone: "a", options: any3, ratio: "1/1", want: "1 p-a-ok", reason: StayedInZone},
		{name: "Z30", members: numeric, zone: "", options: any3, want: "5 p-1-ok, 3 p-2-ok", reason: ClientNotCompatible},
		{name: "disabled", members: numeric, zone: "1", options: []lb.ZonalAffinity{disabled, {}}, want: "5 p-1-ok, 3 p-2-ok", reason: AffinityDisabled},
		{name: "draining does not count in the zone", members: "4P@a/ok 6P@a/leaving 1P@b/ok", zone: "a", options: any3, ratio: "4/4", want: "4 p-a-ok", reason: StayedInZone},
		{name: "unreachable counts in the zone", members: "1P@a/ok 1P@a/lost 1P@b/ok", zone: "a", options: []lb.ZonalAffinity{spill(lb.RatioOne)}, ratio: "1/2", want: "1 p-a-ok, 1 p-b-ok", reason: Spilled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, option := range tt.options {
				e := Explain(members(t, tt.members), Policy{Failover: tt.failover, Zonal: option}, inZone(tt.zone))
				if got := groups(e.ModifiedEligible); got != tt.want || e.Reason != tt.reason || e.Ratio != tt.ratio {
					t.Errorf("%+v: got [%s] %s %q, want [%s] %s %q", option, got, e.Reason, e.Ratio, tt.want, tt.reason, tt.ratio)
				}
			}
		})
	}
}
