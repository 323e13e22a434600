package daemon

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/admin"
	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/neigh"
	"l4lb/pkg/selector"
)

// fakeCounters makes a record's number its count of packets.
type fakeCounters struct{}

func (fakeCounters) Traffic(record uint32) (loader.Traffic, error) {
	return loader.Traffic{Packets: uint64(record), Bytes: 100 * uint64(record), Flows: 1}, nil
}

func (fakeCounters) ZoneTraffic(client, backend uint32) (loader.Traffic, error) {
	n := uint64(10*client + backend)
	return loader.Traffic{Packets: n, Bytes: 100 * n}, nil
}

func (fakeCounters) Refused(rule uint32) (loader.Refused, error) {
	return loader.Refused{NotAllowed: 1, Limited: 2, SourceLimited: uint64(rule)}, nil
}

var (
	addr1 = netip.MustParseAddr("10.1.0.11")
	addr2 = netip.MustParseAddr("10.9.0.11")
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// testView has a service of two backends, one well and one that nobody finds.
func testView() *view {
	cfg := &lb.Config{
		HealthChecks: []lb.HealthCheck{{Name: "hc", Type: lb.CheckTCP, Port: 80}},
		Services:     []lb.Service{{Name: "web", HealthCheck: "hc"}},
		Clients:      lb.ClientMap{Zones: []lb.Zone{{Name: "zone-a", ClientRanges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}}},
	}
	snapshot := &controller.Snapshot{
		Services: []controller.ServiceStatus{{Name: "web", Kind: selector.HealthyPrimaries, Pool: "primary", Members: []controller.MemberStatus{
			{
				Backend: lb.Backend{Instance: "web-a-1", Addr: addr1, Zone: "zone-a", Group: "web-a"},
				State:   lb.Healthy, Health: lb.Healthy, Eligible: true, StatBase: 8, Weight: lb.Weight{PPM: 1_500_000},
			},
			{
				Backend: lb.Backend{Instance: "web-x-1", Addr: addr2, Failover: true},
				State:   lb.Draining, Health: lb.Unhealthy, StatBase: 16, DrainEnd: noon, Weight: lb.Weight{Err: lb.WeightNone},
			},
		}}},
		Rules: []controller.RuleStatus{{StatSlot: 1, Rule: lb.ForwardingRule{
			Name: "web-vip", Service: "web", Address: netip.MustParsePrefix("192.0.2.10/32"), Protocol: lb.RuleTCP, Ports: []uint16{80},
		}}, {ID: 7, StatSlot: 2, Rule: lb.ForwardingRule{
			Name: "ssh-vip", Service: "ssh", Address: netip.MustParsePrefix("192.0.2.10/32"), Protocol: lb.RuleTCP, Ports: []uint16{22},
			Admission: lb.Admission{
				AllowedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
				SourceFlows:    lb.FlowRate{PerSecond: 10, Burst: 20}, SourcePrefix: 24,
			},
		}}},
		Zones: []controller.ZoneStatus{{Name: "zone-a", ID: 1}},
	}
	cfg.Rules = []lb.ForwardingRule{snapshot.Rules[0].Rule}
	v := newView(cfg, snapshot)
	v.counters = fakeCounters{}
	v.health = func(service, instance string, addr netip.Addr) []controller.RuleHealth {
		if addr != addr1 || service != "web" || instance != "web-a-1" {
			return nil
		}
		return []controller.RuleHealth{
			ruleHealth(lb.Healthy, noon.Add(-time.Hour)), ruleHealth(lb.Unhealthy, noon, "web-vip"), ruleHealth(lb.Unknown, noon),
		}
	}
	v.neighbours = map[netip.Addr]neigh.Entry{
		addr1: {State: neigh.Resolved, Via: addr1, LinkName: "eth0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}},
		addr2: {State: neigh.NoRoute},
	}
	return v
}

// ruleHealth is what was found at the VIP, the same for every state.
func ruleHealth(state lb.HealthState, since time.Time, rules ...string) controller.RuleHealth {
	result := healthcheck.Result{Detail: healthcheck.DetailHealthy, Text: "connected", Latency: 3 * time.Millisecond}
	return controller.RuleHealth{Rules: rules, Status: healthcheck.Status{
		Target: healthcheck.Target{Addr: netip.MustParseAddr("192.0.2.10"), Check: lb.HealthCheck{Type: lb.CheckTCP, Port: 80}},
		State:  state, Since: since, LastAt: noon, Last: result, Passes: 3, Transitions: 1, Damped: 2, Source: netip.MustParseAddr("10.1.0.1"),
		History: []healthcheck.Transition{{Previous: lb.Unknown, State: state, Result: result, At: noon}},
	}}
}

func wantCheck(state string, since time.Time, rules []string) admin.RuleCheck {
	probe := admin.Check{Detail: "HEALTHY", Text: "connected", At: noon, LatencySec: 0.003}
	return admin.RuleCheck{
		ForwardingRules: rules, Target: "192.0.2.10:80", Protocol: "TCP", Source: "10.1.0.1", State: state, Since: &since,
		Last: &probe, Passes: 3, Transitions: 1, Damped: 2, History: []admin.Transition{{From: "UNKNOWN", To: state, Check: probe}},
	}
}

func TestBackendsAreShownWithTheirReasons(t *testing.T) {
	got, err := testView().backends("")
	if err != nil {
		t.Fatal(err)
	}
	moment := noon
	want := []admin.Backend{
		{
			Service: "web", Instance: "web-a-1", Address: "10.1.0.11", Zone: "zone-a", Group: "web-a",
			State: "HEALTHY", Health: "HEALTHY", Since: &moment, Eligible: true, Weight: "1.5",
			LastCheck: &admin.Check{Detail: "HEALTHY", Text: "connected", At: noon, LatencySec: 0.003},
			Checks: []admin.RuleCheck{
				wantCheck("HEALTHY", noon.Add(-time.Hour), []string{}), wantCheck("UNHEALTHY", noon, []string{"web-vip"}), wantCheck("UNKNOWN", noon, []string{}),
			},
			Link:       admin.Link{State: "RESOLVED", Usable: true, Interface: "eth0", Via: "10.1.0.11", MAC: "02:00:00:00:00:01"},
			Suspicions: []admin.Suspicion{},
			Traffic:    admin.Traffic{Packets: 9, Bytes: 900, Flows: 1},
		},
		{
			Service: "web", Instance: "web-x-1", Address: "10.9.0.11", Failover: true, State: "DRAINING", Health: "UNHEALTHY",
			WeightError: "WEIGHT_NONE", Link: admin.Link{State: "NO_ROUTE"}, DrainEnd: &moment,
			Checks: []admin.RuleCheck{}, Suspicions: []admin.Suspicion{}, Traffic: admin.Traffic{Packets: 17, Bytes: 1700, Flows: 1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
	if other, err := testView().backends("api"); err != nil || len(other) != 0 || other == nil {
		t.Errorf("backends of another service: %v, %v", other, err)
	}
}

func TestServicesAndRulesAreCounted(t *testing.T) {
	v := testView()
	wantServices := []admin.Service{{
		Name: "web", Family: "ipv4", Kind: "HEALTHY_PRIMARIES", Pool: "primary", Backends: 2, Healthy: 1, Draining: 1, Eligible: 1,
	}}
	if diff := cmp.Diff(wantServices, v.services()); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	rules, err := v.rules()
	wantRules := []admin.ForwardingRule{{
		Name: "web-vip", Address: "192.0.2.10", Protocol: "TCP", Ports: []uint16{80}, Service: "web",
		Traffic: admin.Traffic{Packets: 26, Bytes: 2600, Flows: 2},
	}, {
		Name: "ssh-vip", Address: "192.0.2.10", Protocol: "TCP", Ports: []uint16{22}, Service: "ssh",
		Admission: &admin.Admission{
			AllowedSourceRanges: []string{"10.0.0.0/8"}, SourceFlows: admin.FlowRate{PerSecond: 10, Burst: 20}, SourcePrefixLength: 24,
			Refused: admin.Refused{SourceNotAllowed: 1, RateLimited: 2, SourceRateLimited: 7},
		},
	}}
	if diff := cmp.Diff(wantRules, rules); diff != "" || err != nil {
		t.Errorf("rules, %v (-want +got):\n%s", err, diff)
	}
}

func TestZonesShowWhereTheirClientsWent(t *testing.T) {
	got, err := testView().zones()
	want := []admin.Zone{
		{Name: "zone-a", ClientRanges: []string{"10.1.0.0/16"}, Backends: 1, Healthy: 1, To: []admin.ZoneTraffic{{Zone: "zone-a", Packets: 11, Bytes: 1100}, {Zone: "none", Packets: 10, Bytes: 1000}}},
		{Name: "none", ClientRanges: []string{}, Backends: 1, To: []admin.ZoneTraffic{{Zone: "zone-a", Packets: 1, Bytes: 100}, {Zone: "none", Packets: 0, Bytes: 0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("zones, %v (-want +got):\n%s", err, diff)
	}
}

func TestWeightsAreTheDecimalsThatWereReported(t *testing.T) {
	for ppm, want := range map[uint64]string{0: "0", 1_000_000: "1", 20_000_000: "20", 1_500_000: "1.5", 1: "0.000001", 10_000: "0.01"} {
		if got, problem := weight(lb.Weight{PPM: ppm}); got != want || problem != "" {
			t.Errorf("%d ppm is %q %q, want %q", ppm, got, problem, want)
		}
	}
}

func TestViewOfRoutes(t *testing.T) {
	v := testView()
	v.snapshot.Routes = []controller.RouteStatus{
		{Route: lb.Route{Name: "all", Dest: netip.MustParsePrefix("0.0.0.0/0"), Priority: 7, Rule: "web-vip"}},
		{
			Route: lb.Route{
				Name: "some", Dest: netip.MustParsePrefix("203.0.113.0/25"), Rule: "web-vip",
				Sources: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, Interfaces: []string{"eth0"},
			},
			Within: netip.MustParsePrefix("203.0.113.0/24"),
		},
	}
	want := []admin.Route{
		{Name: "all", DestRange: "0.0.0.0/0", Priority: 7, NextHop: "web-vip", Service: "web", SourceRanges: []string{}, Interfaces: []string{}, InForce: true},
		{
			Name: "some", DestRange: "203.0.113.0/25", NextHop: "web-vip", Service: "web",
			SourceRanges: []string{"10.1.0.0/16"}, Interfaces: []string{"eth0"},
		},
	}
	if diff := cmp.Diff(want, v.routes()); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	problem := "route some is not in force: its destination 203.0.113.0/25 is in 203.0.113.0/24, a subnet of the gateway"
	if got := v.problems(nil); len(got) == 0 || got[0] != problem {
		t.Errorf("problems %q, want the first %q", got, problem)
	}
}
