package controller

import (
	"errors"
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// The life of a backend that leaves (semantics.md 1.10).
func TestRemovedEndpointDrains(t *testing.T) {
	w := newWorld(t, testConfig())
	start, before := w.now, w.records()
	next := w.reload(testConfig(group("web-a", "a1 10.1.0.11")))
	w.want("next deadline", next.Sub(start), 300*time.Second)
	w.wantChosen("web", "", "a1 b1 b2")
	w.want("lost", w.lost(before), "")
	w.want("record stays", w.member("web", "a2").IfIndex, 7)

	w.want("next deadline, a little before", w.after(300*time.Second-1).Sub(start), 300*time.Second)
	w.want("lost just before the timeout", w.lost(before), "")
	id := w.id(loader.NameMember, "web/a2/10.1.0.12")
	if next := w.after(1); !next.IsZero() {
		t.Errorf("next deadline %v after the last", next)
	}
	w.want("generations", w.dp.members[id].Generation, [2]uint16{2, 2})
	w.want("name", w.dp.names[loader.NameMember][id], "")
}

func TestRemovedEndpointWithoutDraining(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) { s.DrainTimeout = 0 })))
	id := w.id(loader.NameMember, "web/a2/10.1.0.12")
	next := w.reload(testConfig(web(func(s *lb.Service) { s.DrainTimeout = 0 }), group("web-a", "a1 10.1.0.11")))
	w.want("next deadline", next.IsZero(), true)
	w.want("generations", w.dp.members[id].Generation, [2]uint16{2, 2})
	w.want("name", w.dp.names[loader.NameMember][id], "")
}

func TestWhatDetachesDoesNotDrain(t *testing.T) {
	tests := []struct {
		name string
		edit func(*lb.Config)
		gone []string
	}{
		{"a group", web(func(s *lb.Service) { s.Backends = s.Backends[:1] }), []string{"web/b1/10.2.0.11", "web/b2/10.2.0.12"}},
		{
			"a service", func(cfg *lb.Config) { cfg.Services[0].Name, cfg.Rules[0].Service = "new", "new" },
			[]string{"web/a1/10.1.0.11", "web/a2/10.1.0.12", "web/b1/10.2.0.11", "web/b2/10.2.0.12"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, testConfig())
			ids := map[string]uint32{}
			for _, name := range tt.gone {
				ids[name] = w.id(loader.NameMember, name)
			}
			if next := w.reload(testConfig(tt.edit)); !next.IsZero() {
				t.Errorf("next deadline %v", next)
			}
			for name, id := range ids {
				w.want(name+" generations", w.dp.members[id].Generation, [2]uint16{2, 2})
				w.want(name+" forgotten", w.dp.names[loader.NameMember][id], "")
			}
		})
	}
}

// A drain by hand that is running when the group goes ends with it.
func TestDetachEndsADrainByHand(t *testing.T) {
	w := newWorld(t, testConfig())
	check(t, w.e.Drain("b1", "", w.now))
	w.reconcile()
	next := w.reload(testConfig(web(func(s *lb.Service) { s.Backends = s.Backends[:1] })))
	w.want("next deadline", next.IsZero(), true)
	w.want("members left", len(w.dp.names[loader.NameMember]), 2)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shared adds two services on web-a, with drain timeouts of their own.
func shared(cfg *lb.Config) {
	for name, timeout := range map[string]time.Duration{"long": 500 * time.Second, "short": 10 * time.Second} {
		s := testService(name, "web-a")
		s.DrainTimeout = timeout
		cfg.Services = append(cfg.Services, s)
	}
}

func TestServicesThatShareAGroupUseTheLargestTimeout(t *testing.T) {
	w := newWorld(t, testConfig(shared))
	start := w.now
	next := w.reload(testConfig(shared, group("web-a", "a1 10.1.0.11")))
	w.want("next deadline", next.Sub(start), 500*time.Second)
	for _, s := range w.e.Snapshot().Services {
		for _, m := range s.Members {
			if m.Backend.Instance == "a2" {
				w.want(s.Name, m.DrainEnd.Sub(start), 500*time.Second)
				w.want(s.Name+" leaving", m.Leaving, true)
			}
		}
	}
}

func TestBackendThatComesBackWhileDrainingIsWhole(t *testing.T) {
	w := newWorld(t, testConfig())
	before := w.records()
	w.reload(testConfig(group("web-a", "a1 10.1.0.11")))
	w.after(299 * time.Second)
	if next := w.reload(testConfig()); !next.IsZero() {
		t.Errorf("next deadline %v", next)
	}
	w.after(time.Hour)
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.want("lost", w.lost(before), "")
	w.want("records", w.records(), before)
}

func TestDrainByHand(t *testing.T) {
	w := newWorld(t, testConfig(shared))
	start, before := w.now, w.records()
	check(t, w.e.Drain("a2", "web", w.now))
	w.want("next deadline", w.reconcile().Sub(start), 500*time.Second)
	w.wantChosen("web", "", "a1 b1 b2")
	w.wantChosen("long", "", "a1 a2")
	w.want("lost", w.lost(before), "")

	check(t, w.e.Drain("a2", "", w.now))
	w.reconcile()
	w.wantChosen("long", "", "a1")
	check(t, w.e.Undrain("a2", "web", w.now))
	w.reconcile()
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.wantChosen("long", "", "a1")
	w.wantChosen("short", "", "a1")
	w.want("lost", w.lost(before), "")

	w.now = start.Add(500 * time.Second)
	w.want("lost at the end", w.changes(func() {}), "a2:connection,other a2:connection,other")
	check(t, w.e.Undrain("a2", "", w.now))
	w.reconcile()
	w.wantChosen("long", "", "a1 a2")
	w.want("drains left", len(w.e.drained), 0)
}

func TestDrainOfWhatIsNotConfigured(t *testing.T) {
	w := newWorld(t, testConfig(shared))
	for _, c := range [][2]string{{"nobody", ""}, {"b1", "long"}, {"a1", "nothing"}} {
		if err := w.e.Drain(c[0], c[1], w.now); !errors.Is(err, ErrUnknown) {
			t.Errorf("drain %v: %v", c, err)
		}
		if err := w.e.Undrain(c[0], c[1], w.now); !errors.Is(err, ErrUnknown) {
			t.Errorf("undrain %v: %v", c, err)
		}
	}
	w.reconcile()
	w.want("writes", len(w.dp.writes), 0)
}

// An instance that leaves the configuration takes its drain by hand along.
func TestDrainByHandEndsWithTheInstance(t *testing.T) {
	w := newWorld(t, testConfig())
	check(t, w.e.Drain("a2", "", w.now))
	w.reload(testConfig(group("web-a", "a1 10.1.0.11")))
	w.reload(testConfig())
	w.wantChosen("web", "", "a1 a2 b1 b2")
}

// A backend that reports DRAINING drains, and comes back by its next report.
func TestReportedDraining(t *testing.T) {
	w := newWorld(t, testConfig())
	start := w.now
	w.want("lost", w.changes(func() { w.set(lb.Draining, "a1") }), "")
	w.wantChosen("web", "", "a2 b1 b2")
	w.want("next deadline", w.reconcile().Sub(start), 300*time.Second)
	w.set(lb.Healthy, "a1")
	w.want("next deadline", w.reconcile().IsZero(), true)
	w.wantChosen("web", "", "a1 a2 b1 b2")
}

// Several drains end each at its own time.
func TestDeadlinesAreExact(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) {
		s.Failover = &lb.FailoverPolicy{DrainTimeout: 90 * time.Second}
		s.Backends[1].Failover = true
	})))
	start := w.now
	check(t, w.e.Drain("a1", "", w.now))
	w.want("first", w.reconcile().Sub(start), 300*time.Second)
	w.after(100 * time.Second)
	check(t, w.e.Drain("b1", "", w.now))
	w.want("second drain", w.reconcile().Sub(start), 300*time.Second)
	w.health(selector.HealthOf(lb.Unhealthy), "a2")
	w.want("failover", w.reconcile().Sub(start), 190*time.Second)
	w.now = start.Add(190 * time.Second)
	w.want("lost at failover's end", w.changes(func() {}), "a1:connection,other a2:connection,other")
	w.want("back to the drain", w.reconcile().Sub(start), 300*time.Second)
	w.now = start.Add(300 * time.Second)
	w.want("last", w.reconcile().Sub(start), 400*time.Second)
	w.now = start.Add(400 * time.Second)
	w.want("none", w.reconcile().IsZero(), true)
}
