package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplainOfflineGivesTheContractsJSON(t *testing.T) {
	config := write(t, "f.yaml", testConfig)
	health := write(t, "h.json", `{"web-a-1": "UNHEALTHY", "web-b-1": {"state": "HEALTHY", "weight": 20}}`)
	status, stdout, stderr := l4lbd(t, "explain", "--config", config, "--client", "10.1.2.3", "--service", "web", "--health", health, "-o", "json")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	var got any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"service": "web", "client": "10.1.2.3", "clientZone": "zone-a", "clientCompatible": true,
		"originalEligible": map[string]any{"kind": "HEALTHY_PRIMARIES", "backends": []any{"web-a-2", "web-b-1"}},
		"zonalTest":        []any{"web-a-1", "web-a-2", "web-b-1"}, "zonalMatched": []any{"web-a-1", "web-a-2"},
		"intersection": []any{"web-a-2"}, "ratio": "1/2", "zonalMatch": true,
		"modifiedEligible": []any{"web-a-2"}, "reason": "STAYED_IN_ZONE",
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
}

func TestExplainForPeople(t *testing.T) {
	config, health := write(t, "f.yaml", testConfig), write(t, "h.json", `{"web-a-1": "UNHEALTHY", "web-a-2": "DRAINING"}`)
	_, stdout, _ := l4lbd(t, "explain", "--config", config, "--client", "10.1.2.3", "--service", "web", "--health", health)
	want := `client                 10.1.2.3, zone zone-a, zonal affinity can apply
service                web
eligible               HEALTHY_PRIMARIES: (1) web-b-1
zonal test             (2) web-a-1, web-b-1
in the zone            (1) web-a-1
of them eligible       none
ratio                  0/1
new connections go to  (1) web-b-1
because                SPILLED: too few backends of the client's zone are eligible
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestExplainRefuses(t *testing.T) {
	config := write(t, "f.yaml", testConfig)
	tests := []struct {
		name, client, service, health string
		status                        int
		stderr                        []string
	}{
		{"an unknown service", "10.1.2.3", "api", `{}`, 1, []string{`"api"`, "not configured"}},
		{"a client that is no address", "zone-a", "web", `{}`, 2, []string{`"zone-a" is not an IP address`}},
		{"a state that is none", "10.1.2.3", "web", `{"web-a-1": "SICK"}`, 2, []string{"h.json", "web-a-1", `"SICK"`}},
		{"a health file that is no object", "10.1.2.3", "web", `["web-a-1"]`, 2, []string{"h.json"}},
		{"a weight that is none", "10.1.2.3", "web", `{"web-a-1": {"weight": -1}}`, 2, []string{"h.json", "web-a-1", "-1"}},
		{"nobody it knows, and goes on", "10.1.2.3", "web", `{"wbe-a-1": "UNHEALTHY"}`, 0, []string{"h.json", `"wbe-a-1" is no instance`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			health := write(t, "h.json", tt.health)
			status, _, stderr := l4lbd(t, "explain", "--config", config, "--client", tt.client, "--service", tt.service, "--health", health)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			for _, want := range tt.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr %q lacks %q", stderr, want)
				}
			}
		})
	}
	if status, _, stderr := l4lbd(t, "explain", "--config", config, "--client", "10.1.2.3", "--service", "web", "--health", "none.json"); status != 2 {
		t.Errorf("a health file that is not there: status %d, %s", status, stderr)
	}
	if status, _, _ := l4lbd(t, "explain", "--client", "10.1.2.3", "--service", "web", "--health", "h.json"); status != 2 {
		t.Errorf("offline without a configuration: status %d", status)
	}
}
