package metrics

import (
	"errors"
	"net/netip"
	"time"

	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/neigh"
	"l4lb/pkg/passive"
	"l4lb/pkg/selector"
)

// fakeCounters is a data plane of three records of traffic.
type fakeCounters struct {
	traffic map[uint32]loader.Traffic
	zones   map[[2]uint32]loader.Traffic
	broken  bool
}

var errBroken = errors.New("broken")

func (f *fakeCounters) err() error {
	if f.broken {
		return errBroken
	}
	return nil
}

func (f *fakeCounters) Traffic(record uint32) (loader.Traffic, error) {
	return f.traffic[record], f.err()
}

func (f *fakeCounters) ZoneTraffic(client, backend uint32) (loader.Traffic, error) {
	return f.zones[[2]uint32{client, backend}], f.err()
}

func (f *fakeCounters) Refused(rule uint32) (loader.Refused, error) {
	return loader.Refused{NotAllowed: 1, Limited: 2, SourceLimited: 3}, f.err()
}

func (f *fakeCounters) Reasons() (out [loader.ReasonMax]uint64, err error) {
	for i := range out {
		out[i] = uint64(100 + i)
	}
	return out, f.err()
}

func (f *fakeCounters) FlowEvents() (out [loader.FlowEventMax]uint64, err error) {
	for i := range out {
		out[i] = uint64(200 + i)
	}
	return out, f.err()
}

func (f *fakeCounters) FlowCapacity() int { return 4096 }

type fakeState struct{ snapshot *controller.Snapshot }

func (f *fakeState) Snapshot() *controller.Snapshot { return f.snapshot }

type fakeChecks struct{ snapshot healthcheck.Snapshot }

func (f *fakeChecks) Snapshot() healthcheck.Snapshot { return f.snapshot }

type fakeNeighbours map[netip.Addr]neigh.Entry

func (f fakeNeighbours) Snapshot() map[netip.Addr]neigh.Entry { return f }

// fakeSuspicions watches web-a-1, and suspects it.
type fakeSuspicions struct{}

func (fakeSuspicions) Of(k passive.Key) []passive.Suspicion {
	if k.Instance != "web-a-1" {
		return nil
	}
	return []passive.Suspicion{{Key: k, Signal: passive.UnconfirmedSyn}}
}

func (fakeSuspicions) Total(k passive.Key, s passive.Signal) (uint64, bool) {
	if s == passive.UnconfirmedSyn {
		return 3, k.Instance == "web-a-1"
	}
	return 0, k.Instance == "web-a-1"
}

// fixture is a gateway with one service, two backends and one rule.
type fixture struct {
	counters *fakeCounters
	state    *fakeState
	checks   *fakeChecks
	options  Options
}

func newFixture() *fixture {
	f := &fixture{
		counters: &fakeCounters{
			traffic: map[uint32]loader.Traffic{9: {Packets: 10, Bytes: 1000, Flows: 1}, 17: {Packets: 20, Bytes: 2000, Flows: 2}},
			zones:   map[[2]uint32]loader.Traffic{{1, 1}: {Packets: 7, Bytes: 700}, {0, 1}: {Packets: 3, Bytes: 300}},
		},
		state:  &fakeState{&controller.Snapshot{}},
		checks: &fakeChecks{},
	}
	*f.state.snapshot = controller.Snapshot{
		Services: []controller.ServiceStatus{{Name: "web", Kind: selector.HealthyPrimaries, Members: []controller.MemberStatus{
			member("web-a-1", "10.1.0.11", "zone-a", 8, lb.Healthy), member("web-x-1", "10.9.0.11", "", 16, lb.Unhealthy),
		}}},
		Rules: []controller.RuleStatus{{Rule: lb.ForwardingRule{
			Name: "web-vip", Service: "web", Admission: lb.Admission{Flows: lb.FlowRate{PerSecond: 1, Burst: 1}},
		}, StatSlot: 1}},
		Zones: []controller.ZoneStatus{{Name: "zone-a", ID: 1}},
	}
	target := healthcheck.Target{Addr: netip.MustParseAddr("10.1.0.11"), Check: lb.HealthCheck{Type: lb.CheckTCP, Port: 80}}
	f.checks.snapshot = healthcheck.Snapshot{
		Targets: []healthcheck.Status{{Target: target, Checks: []string{"hc"}, State: lb.Healthy, Since: time.Unix(100, 5e8), Results: map[healthcheck.Detail]uint64{
			healthcheck.DetailHealthy: 5, healthcheck.DetailTimeout: 1,
		}}},
		InFlight: 2, Waiting: 1,
		Transitions: map[healthcheck.Change]uint64{{Type: lb.CheckTCP, State: lb.Healthy}: 3}, Damped: map[lb.HealthCheckType]uint64{lb.CheckTCP: 2},
		Latency: map[lb.HealthCheckType]healthcheck.Histogram{lb.CheckTCP: {Counts: [16]uint64{4, 0, 2}, Sum: 3 * time.Millisecond}},
	}
	f.options = Options{
		Counters: f.counters, State: f.state, Checks: f.checks,
		Neighbours: fakeNeighbours{
			netip.MustParseAddr("10.1.0.11"): {State: neigh.Resolved},
			netip.MustParseAddr("10.9.0.11"): {State: neigh.NoRoute},
		},
		Suspicions: fakeSuspicions{},
		Gateway: func() Gateway {
			return Gateway{
				Version: "v1", Ready: true, Interfaces: []Interface{{"eth0", "native", true}},
				ConfigSince: time.UnixMilli(1500), ConfigRefused: true, ReloadsDone: 3, ReloadsRefused: 1,
			}
		},
	}
	return f
}

func member(instance, addr, zone string, base uint32, state lb.HealthState) controller.MemberStatus {
	m := controller.MemberStatus{
		Backend: lb.Backend{Instance: instance, Addr: netip.MustParseAddr(addr), Zone: zone},
		State:   state, Health: state, Eligible: state == lb.Healthy, StatBase: base,
		Weight: lb.Weight{Err: lb.WeightNone},
	}
	if state == lb.Healthy {
		m.Weight = lb.Weight{PPM: 2_500_000}
		m.Link.Usable = true
	}
	return m
}
