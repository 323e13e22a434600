package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// registry has a collector of the fixture.
func (f *fixture) registry(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(New(f.options)); err != nil {
		t.Fatal(err)
	}
	return r
}

func gather(t *testing.T, r *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// flatten maps "name{label=value,…}" to values; a histogram is its count.
func flatten(families []*dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out[fmt.Sprintf("%s{%s}", strings.TrimPrefix(f.GetName(), "l4lb_"), strings.Join(labels, ","))] = value
		}
	}
	return out
}

// matching keeps what starts with one of the names.
func matching(all map[string]float64, names ...string) map[string]float64 {
	out := map[string]float64{}
	for key, v := range all {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(key, n+"{") }) {
			out[key] = v
		}
	}
	return out
}

func TestEverythingThatIsCountedIsShown(t *testing.T) {
	f := newFixture()
	got := flatten(gather(t, f.registry(t)))
	delete(got, onlyKey(got, "build_info"))
	want := map[string]float64{
		"gateway_ready{}": 1, "gateway_interface_attached{interface=eth0,mode=native}": 1,
		"config_loads_total{result=done}": 3, "config_loads_total{result=refused}": 1,
		"config_last_load_refused{}": 1, "config_in_force_timestamp_seconds{}": 1.5, "collection_errors_total{}": 0,

		"traffic_packets_total{backend=web-a-1,rule=web-vip,service=web,zone=zone-a}": 10,
		"traffic_bytes_total{backend=web-a-1,rule=web-vip,service=web,zone=zone-a}":   1000,
		"traffic_flows_total{backend=web-a-1,rule=web-vip,service=web,zone=zone-a}":   1,
		"traffic_packets_total{backend=web-x-1,rule=web-vip,service=web,zone=none}":   20,
		"traffic_bytes_total{backend=web-x-1,rule=web-vip,service=web,zone=none}":     2000,
		"traffic_flows_total{backend=web-x-1,rule=web-vip,service=web,zone=none}":     2,

		"zone_packets_total{backend_zone=zone-a,client_zone=zone-a}": 7, "zone_bytes_total{backend_zone=zone-a,client_zone=zone-a}": 700,
		"zone_packets_total{backend_zone=zone-a,client_zone=none}": 3, "zone_bytes_total{backend_zone=zone-a,client_zone=none}": 300,
		"zone_packets_total{backend_zone=none,client_zone=zone-a}": 0, "zone_bytes_total{backend_zone=none,client_zone=zone-a}": 0,
		"zone_packets_total{backend_zone=none,client_zone=none}": 0, "zone_bytes_total{backend_zone=none,client_zone=none}": 0,

		"rule_refused_packets_total{reason=SOURCE_NOT_ALLOWED,rule=web-vip}":  1,
		"rule_refused_packets_total{reason=RATE_LIMITED,rule=web-vip}":        2,
		"rule_refused_packets_total{reason=SOURCE_RATE_LIMITED,rule=web-vip}": 3,

		"flow_table_capacity_entries{}":                        4096,
		"service_eligible_backends{family=ipv4,service=web}":   1,
		"health_probes_in_flight{}":                            2,
		"health_probes_waiting{}":                              1,
		"health_probe_lateness_seconds{}":                      0,
		"health_probe_duration_seconds{protocol=TCP}":          6,
		"health_probes_total{detail=HEALTHY,protocol=TCP}":     5,
		"health_probes_total{detail=TIMEOUT,protocol=TCP}":     1,
		"health_transitions_total{protocol=TCP,state=HEALTHY}": 3,
		"health_flaps_damped_total{protocol=TCP}":              2,
		"health_target_since_timestamp_seconds{backend_address=10.1.0.11,check=hc,protocol=TCP,state=HEALTHY,target=10.1.0.11:80}": 100.5,
		"backend_reachable{address=10.1.0.11," + webA1 + "}":                                                                       1,
		"backend_reachable{address=10.9.0.11," + webX1 + "}":                                                                       0,
		"backend_weight{address=10.1.0.11," + webA1 + "}":                                                                          2.5,
	}
	for signal, n := range map[string]float64{"UNCONFIRMED_SYN": 1, "PORT_UNREACHABLE": 0} {
		labels := "{address=10.1.0.11,signal=" + signal + "," + webA1 + "}"
		want["backend_suspected"+labels], want["backend_suspicions_total"+labels] = n, 3*n
	}
	for _, s := range []string{"HEALTHY", "UNHEALTHY", "DRAINING", "UNKNOWN"} {
		want["service_backends{family=ipv4,service=web,state="+s+"}"] = oneIf(s == "HEALTHY" || s == "UNHEALTHY")
		want["backend_state{address=10.1.0.11,backend=web-a-1,service=web,state="+s+",zone=zone-a}"] = oneIf(s == "HEALTHY")
		want["backend_state{address=10.9.0.11,backend=web-x-1,service=web,state="+s+",zone=none}"] = oneIf(s == "UNHEALTHY")
	}
	for _, k := range kinds() {
		want["service_eligible_set{family=ipv4,kind="+string(k)+",service=web}"] = oneIf(k == "HEALTHY_PRIMARIES")
	}
	for _, s := range neighbourStates() {
		want["neighbour_backends{state="+string(s)+"}"] = oneIf(s == "RESOLVED" || s == "NO_ROUTE")
	}
	for r := range loader.ReasonMax {
		name := r.String()
		if name == "" {
			name = "NONE"
		}
		want["datapath_packets_total{reason="+name+",verdict="+verdictOf(r)+"}"] = float64(100 + r)
	}
	for e := range loader.FlowEventMax {
		want["flow_events_total{event="+e.String()+"}"] = float64(200 + e)
	}
	fixLabelOrder(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

const (
	webA1 = "backend=web-a-1,service=web,zone=zone-a"
	webX1 = "backend=web-x-1,service=web,zone=none"
)

// fixLabelOrder writes labels in order, as gathering does.
func fixLabelOrder(all map[string]float64) {
	for _, key := range slices.Collect(maps.Keys(all)) {
		name, labels, _ := strings.Cut(strings.TrimSuffix(key, "}"), "{")
		list := strings.Split(labels, ",")
		slices.Sort(list)
		v := all[key]
		delete(all, key)
		all[name+"{"+strings.Join(list, ",")+"}"] = v
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func onlyKey(all map[string]float64, name string) string {
	for key := range matching(all, name) {
		return key
	}
	return ""
}

func TestNamesFollowThePrometheusRules(t *testing.T) {
	problems, err := promlint.NewWithMetricFamilies(gather(t, newFixture().registry(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestEveryReasonHasAVerdict(t *testing.T) {
	for r := range loader.ReasonMax {
		if verdictOf(r) == "" {
			t.Errorf("reason %s has no verdict label", r)
		}
	}
}

func TestFailedReadingsAreCountedAndTheRestIsShown(t *testing.T) {
	f := newFixture()
	f.counters.broken = true
	got := flatten(gather(t, f.registry(t)))
	// Two backends, four pairs of zones, refusals, reasons and events.
	if n := got["collection_errors_total{}"]; n != 9 {
		t.Errorf("collection_errors_total = %v, want 9", n)
	}
	if got["gateway_ready{}"] != 1 || got["health_probes_in_flight{}"] != 2 {
		t.Error("what could be read is not shown")
	}
}

func TestNothingOfServicesBeforeTheFirstReconcile(t *testing.T) {
	f := newFixture()
	f.state.snapshot = nil
	got := flatten(gather(t, f.registry(t)))
	if len(matching(got, "service_backends", "traffic_packets_total")) != 0 || len(got) == 0 {
		t.Errorf("metrics without a snapshot: %v", got)
	}
}

func TestCountersDoNotFallOnReload(t *testing.T) {
	const series = "traffic_packets_total{backend=web-a-1,rule=web-vip,service=web,zone=zone-a}"
	f := newFixture()
	r := f.registry(t)
	value := func() float64 { return flatten(gather(t, r))[series] }
	if got := value(); got != 10 {
		t.Fatalf("at first %v, want 10", got)
	}
	f.counters.traffic[9] = loader.Traffic{Packets: 4}
	if got := value(); got != 14 {
		t.Errorf("after its record was cleared %v, want 14", got)
	}
	// The rule moves to a slot that another rule counted in.
	f.counters.traffic[10] = loader.Traffic{Packets: 1000}
	f.state.snapshot.Rules = append(f.state.snapshot.Rules, controller.RuleStatus{
		Rule: lb.ForwardingRule{Name: "other", Service: "web"}, StatSlot: 2,
	})
	value()
	f.state.snapshot.Rules = f.state.snapshot.Rules[:1]
	f.state.snapshot.Rules[0].StatSlot = 2
	f.counters.traffic[10] = loader.Traffic{Packets: 1005}
	if got := value(); got != 19 {
		t.Errorf("in a slot that another rule left %v, want 19", got)
	}
}

func TestProbesCountOnceWhenParametersChange(t *testing.T) {
	const series = "health_probes_total{detail=HEALTHY,protocol=TCP}"
	f := newFixture()
	r := f.registry(t)
	value := func() float64 { return flatten(gather(t, r))[series] }
	if got := value(); got != 5 {
		t.Fatalf("at first %v, want 5", got)
	}
	changed := &f.checks.snapshot.Targets[0]
	changed.Target.Check.Port = 81
	changed.Results = map[healthcheck.Detail]uint64{healthcheck.DetailHealthy: 6}
	if got := value(); got != 6 {
		t.Errorf("after the port changed %v, want 6", got)
	}
	f.checks.snapshot.Targets = nil
	if got := value(); got != 6 {
		t.Errorf("without the target %v, want 6", got)
	}
	back := healthcheck.Status{Target: changed.Target, Checks: []string{"hc"}, Results: map[healthcheck.Detail]uint64{healthcheck.DetailHealthy: 2}}
	f.checks.snapshot.Targets = []healthcheck.Status{back}
	if got := value(); got != 8 {
		t.Errorf("when it came back %v, want 9", got)
	}
}

func TestAddressesOfOneInstanceAreSummed(t *testing.T) {
	f := newFixture()
	service := &f.state.snapshot.Services[0]
	second := member("web-a-1", "10.1.0.12", "zone-a", 24, lb.Healthy)
	service.Members = append(service.Members, second)
	f.counters.traffic[25] = loader.Traffic{Packets: 5}
	got := flatten(gather(t, f.registry(t)))
	if n := got["traffic_packets_total{backend=web-a-1,rule=web-vip,service=web,zone=zone-a}"]; n != 15 {
		t.Errorf("packets of both addresses = %v, want 15", n)
	}
}
