package controller

import (
	"strings"
	"testing"

	"l4lb/pkg/lb"
)

// Every row of the decision table of semantics.md 1.8: which classes of entries
// of a1 end when it turns unhealthy.
func TestPersistenceOnUnhealthyBackends(t *testing.T) {
	const conn, other, both, none = "a1:connection", "a1:other", "a1:connection,other", ""
	fine := []lb.SessionAffinity{lb.AffinityNone, lb.AffinityClientIPPortProto}
	coarse := []lb.SessionAffinity{lb.AffinityClientIP, lb.AffinityClientIPProto, lb.AffinityClientIPNoDestination}
	all := append(append([]lb.SessionAffinity{}, fine...), coarse...)
	tests := []struct {
		name       string
		mode       lb.TrackingMode
		affinities []lb.SessionAffinity
		persist    lb.Persistence
		want       string
	}{
		{"per connection, default", lb.PerConnection, all, lb.PersistDefault, other},
		{"per connection, never", lb.PerConnection, all, lb.PersistNever, both},
		{"per connection, always", lb.PerConnection, all, lb.PersistAlways, none},
		{"per session fine, default", lb.PerSession, fine, lb.PersistDefault, other},
		{"per session fine, never", lb.PerSession, fine, lb.PersistNever, both},
		{"per session coarse, default", lb.PerSession, coarse, lb.PersistDefault, both},
		{"per session coarse, never", lb.PerSession, coarse, lb.PersistNever, both},
	}
	for _, tt := range tests {
		for _, affinity := range tt.affinities {
			t.Run(tt.name+"/"+string(affinity), func(t *testing.T) {
				w := newWorld(t, testConfig(web(func(s *lb.Service) {
					s.Tracking.Mode, s.Tracking.Persistence, s.Affinity = tt.mode, tt.persist, affinity
				})))
				w.want("lost", w.changes(func() { w.set(lb.Unhealthy, "a1") }), tt.want)
				w.wantChosen("web", "", "a2 b1 b2")
				w.want("lost by staying sick", w.changes(func() { w.e.units[unitKey{"web", false}].dirty = true }), "")
				// The entries that held on still hold, and those that ended
				// do not come back.
				w.want("lost by recovery", w.changes(func() { w.set(lb.Healthy, "a1") }), none)
				w.want("lost by falling ill again", w.changes(func() { w.set(lb.Unhealthy, "a1") }), tt.want)
			})
		}
	}
}

// With nothing healthy to move to, entries stay, whatever the policy.
func TestAllUnhealthyKeepsEntries(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) { s.Tracking.Persistence = lb.PersistNever })))
	w.want("lost", w.changes(func() { w.set(lb.Unhealthy, w.instances()...) }), "")
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.want("lost when one recovers", w.changes(func() { w.set(lb.Healthy, "b1") }),
		"a1:connection,other a2:connection,other b2:connection,other")
	w.wantChosen("web", "", "b1")
}

func TestAllUnhealthyAndDropKeepsEntries(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) {
		s.Tracking.Persistence = lb.PersistNever
		s.Failover = &lb.FailoverPolicy{DropTrafficIfUnhealthy: true}
	})))
	w.want("lost", w.changes(func() { w.set(lb.Unhealthy, w.instances()...) }), "")
	w.wantChosen("web", "", "")
}

// A zone that keeps its clients on sick backends gives them entries, which end
// when one of the zone recovers (semantics.md 1.13: still_usable).
func TestEntriesMadeOnSickBackendsEndWithTheChoice(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) {
		s.Zonal = lb.ZonalAffinity{Spillover: lb.ZonalStayWithinZone}
		s.Tracking.Persistence = lb.PersistNever
	})))
	w.want("lost", w.changes(func() { w.set(lb.Unhealthy, "a1", "a2") }), "a1:connection,other a2:connection,other")
	w.wantChosen("web", "zone-a", "a1 a2")
	w.wantChosen("web", "", "b1 b2")
	w.want("lost when one recovers", w.changes(func() { w.set(lb.Healthy, "a2") }), "a1:connection,other")
	w.wantChosen("web", "zone-a", "a2")
	w.want("lost later", w.changes(func() { w.set(lb.Unhealthy, "b1") }), "b1:connection,other")
}

// UNKNOWN is not eligible, except while everybody is; it never ends entries.
func TestUnknownBackends(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) { s.Tracking.Persistence = lb.PersistNever })))
	w.want("lost", w.changes(func() { w.set(lb.Unknown, "a1") }), "")
	w.wantChosen("web", "", "a2 b1 b2")
	w.want("lost", w.changes(func() { w.set(lb.Unknown, w.instances()...) }), "")
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.want("lost by the first answer", w.changes(func() { w.set(lb.Healthy, "b2") }), "")
	w.wantChosen("web", "", "b2")
	w.want("lost by the first failure", w.changes(func() { w.set(lb.Unhealthy, "a1") }), "a1:connection,other")
}

// A backend that is new to the configuration waits for its first check.
func TestNewBackendWaitsForItsFirstCheck(t *testing.T) {
	w := newWorld(t, testConfig())
	w.config(testConfig(group("web-a", "a1 10.1.0.11", "a2 10.1.0.12", "a3 10.1.0.13")))
	w.reconcile()
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.set(lb.Healthy, "a3")
	w.reconcile()
	w.wantChosen("web", "", "a1 a2 a3 b1 b2")
}

// A service without a health check has healthy backends only.
func TestServiceWithoutHealthCheck(t *testing.T) {
	unchecked := web(func(s *lb.Service) { s.HealthCheck = "" })
	w := newWorld(t, testConfig())
	w.set(lb.Unhealthy, "a1")
	w.reconcile()
	w.reload(testConfig(unchecked))
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.want("state", w.member("web", "a1").State, stateCode(lb.Healthy))
}

// A backend whose link address is lost gets no new connections and keeps its
// old ones as an unhealthy one would, by the last known address.
func TestLinkLostAndRegained(t *testing.T) {
	a1 := addr("10.1.0.11")
	w := newWorld(t, testConfig())
	mac := w.member("web", "a1").DMAC
	w.want("lost", w.changes(func() { w.e.SetLink(a1, linkOf(a1, false)) }), "a1:other")
	w.wantChosen("web", "", "a2 b1 b2")
	w.want("address", w.member("web", "a1").DMAC, mac)
	w.e.SetLink(a1, Link{}) // no route any more
	w.reconcile()
	w.want("address without a route", w.member("web", "a1").DMAC, mac)
	w.want("interface without a route", w.member("web", "a1").IfIndex, 7)
	moved := linkOf(a1, true)
	moved.DMAC[5]++
	w.want("lost", w.changes(func() { w.e.SetLink(a1, moved) }), "")
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.want("address", w.member("web", "a1").DMAC, moved.DMAC)
}

// All links lost is not last resort: there is nobody a frame can be sent to.
func TestAllLinksLost(t *testing.T) {
	w := newWorld(t, testConfig())
	lost := w.changes(func() {
		for _, g := range w.e.cfg.Groups {
			for _, ep := range g.Endpoints {
				w.e.SetLink(ep.Addr, linkOf(ep.Addr, false))
			}
		}
	})
	w.want("lost", lost, "")
	w.wantChosen("web", "", "")
	if got := w.e.Snapshot().Services[0].Members[0].Link.Usable; got {
		t.Error("the snapshot shows a usable link")
	}
	out, err := w.e.Explain("web", addr("10.1.200.7"))
	if err != nil || !strings.HasPrefix(string(out.OriginalEligible.Kind), "UNHEALTHY") {
		t.Errorf("explain: %+v, %v", out, err)
	}
}
