package selector

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"l4lb/pkg/lb"
)

type vector struct {
	Title    string
	Backends []struct {
		Name, Zone string
		Failover   bool
		State      lb.HealthState
	}
	FailoverPolicy *struct {
		FailoverRatio          float64
		DropTrafficIfUnhealthy bool
	}
	Spillover        lb.Spillover
	SpilloverRatio   float64
	ClientZone       string
	ClientCompatible bool
	Want             map[string]any
}

// ppm is exact: the vectors' ratios have at most six decimals.
func ppm(ratio float64) lb.Ratio { return lb.Ratio(ratio*float64(lb.RatioOne) + 0.5) }

func (v *vector) input() ([]Member, Policy, lb.Client) {
	var in []Member
	for _, b := range v.Backends {
		in = append(in, Member{Instance: b.Name, Zone: b.Zone, Failover: b.Failover, State: b.State})
	}
	p := Policy{Zonal: lb.ZonalAffinity{Spillover: v.Spillover, SpilloverRatio: ppm(v.SpilloverRatio)}}
	if f := v.FailoverPolicy; f != nil {
		p.Failover = &lb.FailoverPolicy{Ratio: ppm(f.FailoverRatio), DropTrafficIfUnhealthy: f.DropTrafficIfUnhealthy}
	}
	client := lb.Client{Class: lb.ClientIncompatible, Zone: v.ClientZone}
	if v.ClientCompatible {
		client.Class = lb.ClientZonal
	}
	return in, p, client
}

// TestVectors compares whole explanations, as JSON, with the shared vectors.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/eligible.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 40 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Title, func(t *testing.T) {
			in, p, client := v.input()
			v.Want["service"], v.Want["client"] = "web", "10.1.0.7"
			v.Want["clientZone"], v.Want["clientCompatible"] = v.ClientZone, v.ClientCompatible

			e := Explain(in, p, client)
			e.Service, e.Client = "web", "10.1.0.7"
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Want, got); diff != "" {
				t.Errorf("explanation mismatch (-want +got):\n%s", diff)
			}
			comparePlan(t, in, p, client, e)
		})
	}
}

// comparePlan checks that Plan agrees with an explanation.
func comparePlan(t *testing.T, in []Member, p Policy, client lb.Client, e Explanation) {
	t.Helper()
	plan := Plan(in, p, []string{client.Zone, "elsewhere"})
	id := plan.Zones[0]
	if !client.Compatible() {
		id = plan.NoZone
	}
	unreachable := map[string]bool{}
	for _, m := range in {
		unreachable[m.Instance] = m.Unreachable
	}
	var want, got []string
	for _, name := range e.ModifiedEligible {
		if !unreachable[name] {
			want = append(want, name)
		}
	}
	if id != NoSet {
		set := plan.Sets[id]
		for k, m := range set.Members {
			if in[m].Instance != set.Table[k].Name {
				t.Errorf("member %d is %s but the table has %s", k, in[m].Instance, set.Table[k].Name)
			}
			got = append(got, set.Table[k].Name)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("plan mismatch (-explained +planned):\n%s", diff)
	}
	if plan.Kind != e.OriginalEligible.Kind {
		t.Errorf("plan has kind %s, explanation %s", plan.Kind, e.OriginalEligible.Kind)
	}
}
