package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const pairConfig = `l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
instanceGroups:
- {name: inside, networkEndpoints: [{instance: fw-1, ipAddress: 10.1.0.21}]}
- {name: outside, networkEndpoints: [{instance: fw-1, ipAddress: 10.2.0.21}]}
backendServices:
- {name: in, protocol: UNSPECIFIED, backends: [{group: inside}]}
- {name: out, protocol: UNSPECIFIED, backends: [{group: outside}], sessionAffinity: CLIENT_IP}
- {name: other, protocol: UNSPECIFIED, backends: [{group: outside}]}
forwardingRules:
- {name: to-out, IPAddress: 10.1.0.100, ports: [80], backendService: in}
- {name: to-in, IPAddress: 10.2.0.100, ports: [80], backendService: out}
`

const pairRoutes = `routes:
- {name: forth, destRange: 203.0.113.0/24, nextHopIlb: to-out}
- {name: back, destRange: 198.51.100.0/24, nextHopIlb: to-in}
`

// Next hops that do not choose alike are a warning, no mistake.
func TestValidateWarnsOfBrokenSymmetry(t *testing.T) {
	path := write(t, "pair.yaml", pairConfig+pairRoutes)
	status, stdout, stderr := l4lbd(t, "validate", "--config", path)
	if want := path + `:8:85: warning: rules "to-out" and "to-in"`; status != 0 || stdout != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("status %d, stdout %q, stderr %q, want %q…", status, stdout, stderr, want)
	}
	status, stdout, stderr = l4lbd(t, "validate", "--config", write(t, "bare.yaml", pairConfig))
	if status != 0 || stdout != "" || stderr != "" {
		t.Errorf("without routes: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// explain says it of the services that it concerns.
func TestExplainWarnsOfBrokenSymmetry(t *testing.T) {
	path, health := write(t, "pair.yaml", pairConfig+pairRoutes), write(t, "h.json", "{}")
	for service, warned := range map[string]bool{"in": true, "out": true, "other": false} {
		status, stdout, stderr := l4lbd(t, "explain", "--config", path, "--client", "10.1.2.3", "--service", service, "--health", health, "-o", "json")
		var got struct {
			Service  string
			Warnings []string
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
			t.Fatalf("%s: status %d, %v, stderr %q", service, status, err, stderr)
		}
		if got.Service != service || (len(got.Warnings) == 1) != warned || strings.HasPrefix(stderr, "warning: "+path+":8:85: ") != warned {
			t.Errorf("%s: %+v, stderr %q", service, got, stderr)
		}
	}
}
