package selector

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

func TestEqualSetsShareOneId(t *testing.T) {
	in := members(t, "2P@a/ok 2P@b/ok 2P@c/bad")
	plan := Plan(in, Policy{Zonal: spill(500_000)}, []string{"a", "b", "c", "d"})
	if plan.NoZone != 0 || !cmp.Equal(plan.Zones, []int{1, 2, 0, 0}) || len(plan.Sets) != 3 {
		t.Errorf("no zone %d, zones %v, %d sets", plan.NoZone, plan.Zones, len(plan.Sets))
	}
	if diff := cmp.Diff([]int{2, 3}, plan.Sets[2].Members); diff != "" {
		t.Errorf("zone b (-want +got):\n%s", diff)
	}
	if plan.Kind != HealthyPrimaries || !plan.AnyHealthy {
		t.Errorf("kind %s, any healthy %v", plan.Kind, plan.AnyHealthy)
	}
	if diff := cmp.Diff([]bool{true, true, true, true, false, false}, plan.Healthy); diff != "" {
		t.Errorf("healthy (-want +got):\n%s", diff)
	}
}

func TestDropHasNoSet(t *testing.T) {
	p := Policy{Failover: &lb.FailoverPolicy{DropTrafficIfUnhealthy: true}, Zonal: stay}
	plan := Plan(members(t, "2P@a/bad"), p, []string{"a"})
	if plan.NoZone != NoSet || plan.Zones[0] != NoSet || len(plan.Sets) != 0 || plan.Kind != Drop {
		t.Errorf("%+v", plan)
	}
}

func TestNothingIsSentToUnreachableMembers(t *testing.T) {
	in := members(t, "1P@a/bad 1P@a/lost 2P@b/lost")
	plan := Plan(in, Policy{Zonal: stay}, []string{"a", "b"})
	if plan.Kind != UnhealthyPrimaries || plan.AnyHealthy {
		t.Errorf("kind %s, any healthy %v", plan.Kind, plan.AnyHealthy)
	}
	if plan.NoZone != 0 || plan.Zones[0] != 0 || plan.Zones[1] != NoSet {
		t.Errorf("no zone %d, zones %v", plan.NoZone, plan.Zones)
	}
	if diff := cmp.Diff([]int{0}, plan.Sets[0].Members); diff != "" {
		t.Errorf("last resort (-want +got):\n%s", diff)
	}
}

// A slot's index must mean the same in Set.Members as in the filled table, also
// when an instance is there twice.
func TestSetOrderIsTableOrder(t *testing.T) {
	in := members(t, "4P@a/ok")
	for k, weight := range []uint64{7, 3, 5, 1} {
		in[k].Weight.PPM = weight
		in[k].Instance = []string{"twice", "b", "twice", "a"}[k]
	}
	set := Plan(in, Policy{Weighted: true}, nil).Sets[0]
	sorted := append([]TableMember(nil), set.Table...)
	SortMembers(sorted)
	if diff := cmp.Diff(sorted, set.Table); diff != "" {
		t.Errorf("table order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{3, 1, 2, 0}, set.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}
