package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testConfig has a service web of three backends in two zones.
const testConfig = `l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
  zones:
  - {name: zone-a, clientRanges: [10.1.0.0/16]}
  - {name: zone-b, clientRanges: [10.2.0.0/16]}
healthChecks:
- {name: hc, type: TCP, tcpHealthCheck: {port: 80}}
networkEndpointGroups:
- name: web-a
  zone: zone-a
  networkEndpoints: [{instance: web-a-1, ipAddress: 10.1.0.11}, {instance: web-a-2, ipAddress: 10.1.0.12}]
- name: web-b
  zone: zone-b
  networkEndpoints: [{instance: web-b-1, ipAddress: 10.2.0.11}]
backendServices:
- name: web
  healthChecks: [hc]
  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_SPILL_CROSS_ZONE, spilloverRatio: 0.5}}
  backends: [{group: web-a}, {group: web-b}]
forwardingRules:
- {name: web-vip, IPAddress: 192.0.2.10, IPProtocol: TCP, ports: [80], backendService: web}
`

// write puts a file into a directory of the test and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// l4lbd runs a command line.
func l4lbd(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}, args...)
	return status, out.String(), errs.String()
}
