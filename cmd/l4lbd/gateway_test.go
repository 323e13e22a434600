package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/admin"
	"l4lb/pkg/conntrack"
	"l4lb/pkg/selector"
)

// fakeGateway is a gateway of one service with two backends.
type fakeGateway struct{ told []string }

func (*fakeGateway) Status() (admin.Status, error) {
	return admin.Status{Gateway: "gw-1", Problems: []string{}}, nil
}

func (*fakeGateway) Services() ([]admin.Service, error) {
	return []admin.Service{{Name: "web", Family: "ipv4", Kind: "HEALTHY_PRIMARIES", Pool: "primary", Backends: 2, Healthy: 1, Unhealthy: 1, Eligible: 1}}, nil
}

func (*fakeGateway) Backends(service string) ([]admin.Backend, error) {
	if service == "api" {
		return nil, fmt.Errorf("backend service %q: %w", service, admin.ErrUnknown)
	}
	return testBackends(), nil
}

func (*fakeGateway) Zones() ([]admin.Zone, error) {
	return []admin.Zone{
		{Name: "zone-a", ClientRanges: []string{"10.1.0.0/16"}, Backends: 2, Healthy: 1, To: []admin.ZoneTraffic{{Zone: "zone-a", Packets: 5, Bytes: 500}, {Zone: "none"}}},
		{Name: "none", To: []admin.ZoneTraffic{{Zone: "zone-a", Packets: 1, Bytes: 60}, {Zone: "none"}}},
	}, nil
}

func (*fakeGateway) Explain(_ context.Context, service string, client netip.Addr) (selector.Explanation, error) {
	if service != "web" {
		return selector.Explanation{}, fmt.Errorf("backend service %q: %w", service, admin.ErrUnknown)
	}
	return selector.Explanation{Service: service, Client: client.String(), Reason: selector.AffinityDisabled}, nil
}

func (*fakeGateway) Flows(conntrack.Filter) (conntrack.Report, error) {
	return conntrack.Report{Backends: map[string]int{}, Flows: []conntrack.Flow{}}, nil
}

func (f *fakeGateway) Drain(_ context.Context, instance, service string) error {
	f.told = append(f.told, "drain "+instance+" of "+service)
	return nil
}

func (f *fakeGateway) Undrain(_ context.Context, instance, service string) error {
	f.told = append(f.told, "undrain "+instance+" of "+service)
	return errors.New("no room")
}

func (*fakeGateway) Capture(context.Context, uint32, func()) error { return admin.ErrBusy }

func testBackends() []admin.Backend {
	return []admin.Backend{
		{
			Service: "web", Instance: "web-a-1", Address: "10.1.0.11", Zone: "zone-a", State: "HEALTHY", Health: "HEALTHY", Eligible: true, Weight: "20",
			Suspicions: []admin.Suspicion{{Signal: "UNCONFIRMED_SYN", Why: "unconfirmedSyn 37/40 in 10s"}},
			LastCheck:  &admin.Check{Detail: "HEALTHY"}, Link: admin.Link{State: "RESOLVED", Usable: true, Interface: "eth0", MAC: "02:00:00:00:00:01"},
			Traffic: admin.Traffic{Flows: 7},
		},
		{
			Service: "web", Instance: "web-x-1", Address: "10.9.0.11", Failover: true, State: "UNHEALTHY", Health: "UNHEALTHY", WeightError: "WEIGHT_NONE",
			LastCheck: &admin.Check{Detail: "REFUSED", Text: "connect: connection refused"}, Link: admin.Link{State: "NO_ROUTE"},
		},
	}
}

// serveGateway serves f and returns its address.
func serveGateway(t *testing.T, f *fakeGateway) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server, done := &http.Server{Handler: admin.NewHandler(f)}, make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(lis)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return "unix:" + path
}

func TestTablesForPeople(t *testing.T) {
	address := serveGateway(t, &fakeGateway{})
	tests := []struct{ command, want string }{
		{"services", `
SERVICE  FAMILY  SET                POOL     BACKENDS  HEALTHY  UNHEALTHY  UNKNOWN  DRAINING  ELIGIBLE
web      ipv4    HEALTHY_PRIMARIES  primary  2         1        1          0        0         1
`},
		{"backends", `
SERVICE  BACKEND             ADDRESS    ZONE    STATE      FOR  ELIGIBLE  WEIGHT       LINK                    TUNNEL  DRAIN  FLOWS  LAST CHECK                            SUSPECT
web      web-a-1             10.1.0.11  zone-a  HEALTHY    -    yes       20           02:00:00:00:00:01 eth0  -       -      7      HEALTHY                               unconfirmedSyn 37/40 in 10s
web      web-x-1 (failover)  10.9.0.11  -       UNHEALTHY  -    no        WEIGHT_NONE  NO_ROUTE                -       -      0      REFUSED: connect: connection refused  -
`},
		{"zones", `
ZONE    CLIENT RANGES  BACKENDS  HEALTHY  TO ZONE-A  TO NONE
zone-a  10.1.0.0/16    2         1        5 (500 B)  0 (0 B)
none    -              0         0        1 (60 B)   0 (0 B)
`},
	}
	for _, tt := range tests {
		status, stdout, stderr := l4lbd(t, tt.command, "--admin", address)
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), stdout); diff != "" || status != 0 {
			t.Errorf("%s: status %d, %s (-want +got):\n%s", tt.command, status, stderr, diff)
		}
	}
}

func TestAnswersAsJSON(t *testing.T) {
	address := serveGateway(t, &fakeGateway{})
	for command, key := range map[string]string{"status": "gateway", "services": "services", "backends": "backends", "zones": "zones"} {
		status, stdout, stderr := l4lbd(t, command, "--admin", address, "-o", "json")
		got := map[string]any{}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 || got[key] == nil {
			t.Errorf("%s: status %d, %v, %s, %s", command, status, err, stderr, stdout)
		}
	}
}

func TestTheGatewaysAddressComesFromTheConfiguration(t *testing.T) {
	address := serveGateway(t, &fakeGateway{})
	text := strings.Replace(testConfig, "interfaces: [eth0]", `interfaces: [eth0], adminListen: "`+address+`"`, 1)
	status, stdout, stderr := l4lbd(t, "explain", "--config", write(t, "f.yaml", text), "--client", "10.1.2.3", "--service", "web", "-o", "json")
	if status != 0 || !strings.Contains(stdout, "ZONAL_AFFINITY_DISABLED") {
		t.Errorf("status %d, %s, %s", status, stdout, stderr)
	}
}

func TestUnknownNamesFail(t *testing.T) {
	address := serveGateway(t, &fakeGateway{})
	for _, args := range [][]string{
		{"backends", "--service", "api"}, {"explain", "--client", "10.1.2.3", "--service", "api"},
	} {
		status, _, stderr := l4lbd(t, append(args, "--admin", address)...)
		if want := "l4lbd: backend service \"api\": not configured\n"; status != 1 || stderr != want {
			t.Errorf("%s: status %d, stderr %q, want %q", args[0], status, stderr, want)
		}
	}
}

func TestDrainAndUndrainTellTheGateway(t *testing.T) {
	f := &fakeGateway{}
	address := serveGateway(t, f)
	if status, stdout, stderr := l4lbd(t, "drain", "web-a-1", "--admin", address); status != 0 || stdout+stderr != "" {
		t.Errorf("drain: status %d, %q, %q", status, stdout, stderr)
	}
	if status, _, stderr := l4lbd(t, "undrain", "web-a-1", "--service", "web", "--admin", address); status != 1 || !strings.Contains(stderr, "no room") {
		t.Errorf("undrain that fails: status %d, %q", status, stderr)
	}
	if diff := cmp.Diff([]string{"drain web-a-1 of ", "undrain web-a-1 of web"}, f.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestStatusForPeople(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := admin.Status{
		Gateway: "gw-1", Version: "v1", PID: 7, StartedAt: now.Add(-time.Hour), Ready: true,
		Config:     admin.ConfigStatus{File: "/etc/l4lb/l4lbd.yaml", InForceSince: now.Add(-time.Minute)},
		Interfaces: []admin.Interface{{Name: "eth0", XDPMode: "native", Attached: true}},
		ForwardingRules: []admin.ForwardingRule{{
			Name: "web-vip", Address: "192.0.2.10", Protocol: "TCP", Ports: []uint16{80, 443}, Service: "web", Traffic: admin.Traffic{Packets: 3, Bytes: 180, Flows: 1},
			Admission: &admin.Admission{
				AllowedSourceRanges: []string{"10.1.0.0/16", "10.2.0.0/16"}, SourceFlows: admin.FlowRate{PerSecond: 5, Burst: 9}, SourcePrefixLength: 24,
				Refused: admin.Refused{SourceNotAllowed: 4, SourceRateLimited: 6},
			},
		}},
		Routes: []admin.Route{
			{Name: "all", DestRange: "0.0.0.0/0", Priority: 1000, NextHop: "fw-rule", Service: "fw", InForce: true},
			{Name: "some", DestRange: "203.0.113.0/24", NextHop: "fw-rule", Service: "fw", SourceRanges: []string{"10.1.0.0/16"}, Interfaces: []string{"eth0"}},
		},
	}
	for i := range 22 {
		s.Problems = append(s.Problems, fmt.Sprintf("problem %d", i))
	}
	var out strings.Builder
	if err := (&output{}).print(&out, s, func(t *table) { showStatus(t, s, now) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gateway        gw-1, l4lbd v1, pid 7, up 1h0m0s\n", "state          forwarding\n", "in force for 1m0s\n", "interface      eth0, native, attached\n",
		"web-vip  192.0.2.10  TCP       80,443  web      3        180    1\n", "web-vip  10.1.0.0/16,10.2.0.0/16  any      5, burst 9, of each /24  4            0        6\n",
		"all    0.0.0.0/0       1000      anywhere          fw-rule   fw       yes\n",
		"some   203.0.113.0/24  0         10.1.0.0/16,eth0  fw-rule   fw       no\n", "- problem 19\n- and 2 more: see l4lbd backends\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("status lacks %q:\n%s", want, out.String())
		}
	}
	s.Problems, out = nil, strings.Builder{}
	if err := (&output{}).print(&out, s, func(t *table) { showStatus(t, s, now) }); err != nil || !strings.Contains(out.String(), "All is well.") {
		t.Errorf("without problems: %v\n%s", err, out.String())
	}
}
