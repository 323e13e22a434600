package selector

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

func TestHealthFile(t *testing.T) {
	var got map[string]Health
	err := json.Unmarshal([]byte(`{
		"a": "UNHEALTHY", "b": {"state": "HEALTHY", "weight": 20}, "c": {"state": "DRAINING"},
		"d": {"weight": 0.5}, "e": "HEALTHY"
	}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Health{
		"a": {lb.Unhealthy, lb.Weight{Err: lb.WeightUnavailable}},
		"b": {lb.Healthy, lb.Weight{PPM: 20_000_000}},
		"c": {lb.Draining, lb.Weight{Err: lb.WeightUnavailable}},
		"d": {lb.Healthy, lb.Weight{PPM: 500_000}},
		"e": {lb.Healthy, lb.Weight{Err: lb.WeightMissing}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

func TestHealthFileErrors(t *testing.T) {
	for _, text := range []string{
		`"SICK"`, `""`, `{"state": "SICK"}`, `{"state": "HEALTHY", "wieght": 1}`, `17`, `[]`,
		`{"weight": -1}`, `{"weight": 1e9}`, `{"weight": 1000000001}`, `{"weight": "NaN"}`,
	} {
		var h Health
		if err := json.Unmarshal([]byte(text), &h); !errors.Is(err, ErrHealth) {
			t.Errorf("%s: error %v, want ErrHealth", text, err)
		}
	}
}
