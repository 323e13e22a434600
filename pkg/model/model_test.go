package model

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

var (
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	vip    = netip.MustParseAddr("192.0.2.10")
	client = netip.MustParseAddr("10.1.0.7")
)

// newTestModel has two backends of which the first serves everything, since the
// second is unhealthy.
func newTestModel(mode lb.TrackingMode, a lb.SessionAffinity, p lb.Persistence) *Model {
	cfg := &lb.Config{
		Groups: []lb.Group{{Name: "g", Endpoints: []lb.Endpoint{
			{Instance: "one", Addr: netip.MustParseAddr("10.1.0.11")}, {Instance: "two", Addr: netip.MustParseAddr("10.1.0.12")},
		}}},
		Services: []lb.Service{{
			Name: "s", HealthCheck: "check", Affinity: a, LocalityLbPolicy: lb.PolicyMaglev,
			Tracking: lb.Tracking{Mode: mode, Persistence: p, IdleTimeout: 600 * time.Second},
			Backends: []lb.BackendRef{{Group: "g"}},
		}},
		Rules: []lb.ForwardingRule{{Name: "r", Address: netip.PrefixFrom(vip, 32), Protocol: lb.RuleL3Default, AllPorts: true, Service: "s"}},
	}
	m := New()
	m.SetConfig(cfg, start)
	for _, e := range cfg.Groups[0].Endpoints {
		m.SetReachable(e.Addr, true, start)
	}
	m.only("one")
	return m
}

// only makes one backend healthy and the other unhealthy; with "" both are not.
func (m *Model) only(healthy string) {
	for _, e := range m.cfg.Groups[0].Endpoints {
		state := lb.Unhealthy
		if e.Instance == healthy {
			state = lb.Healthy
		}
		m.SetHealth("s", e.Instance, e.Addr, state, lb.Weight{Err: lb.WeightMissing}, start)
	}
	m.Settle(start)
}

func packet(protocol uint8, syn, ack bool) *Packet {
	p := &Packet{Src: client, Dst: vip, Protocol: protocol, SYN: syn, ACK: ack}
	if p.hasPorts() {
		p.SrcPort, p.DstPort = 40000, 80
	}
	return p
}

// The table of semantics.md 1.2: whether a packet follows the entry that is there.
// ALWAYS_PERSIST keeps it while new connections go to the other backend.
func TestWhichPacketsAreNewConnections(t *testing.T) {
	tests := []struct {
		mode    lb.TrackingMode
		a       lb.SessionAffinity
		follows bool // a SYN does
	}{
		{lb.PerConnection, lb.AffinityNone, false},
		{lb.PerConnection, lb.AffinityClientIP, false},
		{lb.PerSession, lb.AffinityNone, false},
		{lb.PerSession, lb.AffinityClientIPPortProto, false},
		{lb.PerSession, lb.AffinityClientIP, true},
		{lb.PerSession, lb.AffinityClientIPProto, true},
		{lb.PerSession, lb.AffinityClientIPNoDestination, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.mode, " ", tt.a), func(t *testing.T) {
			for name, p := range map[string]*Packet{"SYN": packet(protoTCP, true, false), "SYN+ACK": packet(protoTCP, true, true), "ACK": packet(protoTCP, false, true)} {
				m := newTestModel(tt.mode, tt.a, lb.PersistAlways)
				m.Handle(packet(protoTCP, true, false), start)
				m.only("two")
				want := FlowHit
				if name == "SYN" && !tt.follows {
					want = FlowNew
				}
				if r := m.Handle(p, start); r.Flow != want || (r.Backend == "one") != (want == FlowHit) {
					t.Errorf("%s: %+v, want %s", name, r, want)
				}
			}
		})
	}
}

// The table of semantics.md 1.8: whether an entry survives its backend.
func TestWhichEntriesSurviveTheirBackend(t *testing.T) {
	const esp = 50
	tests := []struct {
		protocol       uint8
		mode           lb.TrackingMode
		a              lb.SessionAffinity
		byDefault      bool
		never, allSick bool
	}{
		{protoTCP, lb.PerConnection, lb.AffinityClientIP, true, false, true},
		{protoTCP, lb.PerSession, lb.AffinityNone, true, false, true},
		{protoTCP, lb.PerSession, lb.AffinityClientIP, false, false, true},
		{protoSCTP, lb.PerConnection, lb.AffinityNone, true, false, true},
		{protoSCTP, lb.PerSession, lb.AffinityClientIPProto, false, false, true},
		{protoUDP, lb.PerConnection, lb.AffinityNone, false, false, true},
		{esp, lb.PerConnection, lb.AffinityNone, false, false, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint("protocol ", tt.protocol, " ", tt.mode, " ", tt.a), func(t *testing.T) {
			survives := func(p lb.Persistence, healthy string) bool {
				m := newTestModel(tt.mode, tt.a, p)
				m.Handle(packet(tt.protocol, true, false), start)
				m.only(healthy)
				return m.Handle(packet(tt.protocol, false, true), start).Backend == "one"
			}
			for name, got := range map[string][2]bool{
				"DEFAULT":                      {survives(lb.PersistDefault, "two"), tt.byDefault},
				"NEVER":                        {survives(lb.PersistNever, "two"), tt.never},
				"NEVER with nothing healthy":   {survives(lb.PersistNever, ""), tt.allSick},
				"ALWAYS":                       {survives(lb.PersistAlways, "two"), true},
				"DEFAULT with nothing healthy": {survives(lb.PersistDefault, ""), tt.allSick},
			} {
				if got[0] != got[1] {
					t.Errorf("%s: survives %v, want %v", name, got[0], got[1])
				}
			}
		})
	}
}

// An entry lives for the idle timeout after its last packet (semantics.md 1.7).
func TestEntriesEndWhenIdle(t *testing.T) {
	m := newTestModel(lb.PerConnection, lb.AffinityNone, lb.PersistAlways)
	p := packet(protoUDP, false, false)
	for _, step := range []struct {
		after time.Duration
		want  Flow
	}{{0, FlowNew}, {600 * time.Second, FlowHit}, {1200 * time.Second, FlowHit}, {1800*time.Second + 1, FlowNew}} {
		if r := m.Handle(p, start.Add(step.after)); r.Flow != step.want {
			t.Errorf("after %v: %s, want %s", step.after, r.Flow, step.want)
		}
	}
}

// The hash is the same for both directions, but for the source alone (4.4).
func TestHashIsSymmetric(t *testing.T) {
	p := &Packet{Src: client, Dst: vip, Protocol: protoTCP, SrcPort: 40000, DstPort: 80}
	back := &Packet{Src: vip, Dst: client, Protocol: protoTCP, SrcPort: 80, DstPort: 40000}
	for a, same := range map[lb.SessionAffinity]bool{
		lb.AffinityNone: true, lb.AffinityClientIPPortProto: true, lb.AffinityClientIPProto: true,
		lb.AffinityClientIP: true, lb.AffinityClientIPNoDestination: false,
	} {
		if (selectionHash(p, a, 1) == selectionHash(back, a, 1)) != same {
			t.Errorf("%s: equal is %v, want %v", a, !same, same)
		}
	}
}
