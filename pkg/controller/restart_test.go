package controller

import (
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// startBare makes a new engine over what the last left, as a new process does:
// without health, and with links where asked.
func (w *world) startBare(cfg *lb.Config, links bool) {
	w.t.Helper()
	w.dp.restart()
	w.dp.writes = nil
	var err error
	if w.e, err = NewEngine(w.dp); err != nil {
		w.t.Fatal(err)
	}
	check(w.t, w.e.SetConfig(cfg, w.now))
	for _, g := range cfg.Groups {
		for _, ep := range g.Endpoints {
			if links {
				w.e.SetLink(ep.Addr, linkOf(ep.Addr, true))
			}
		}
	}
}

// A restart takes up ids, records, health and entries, and writes only what no
// pinned map keeps.
func TestRestartAdopts(t *testing.T) {
	w := newWorld(t, testConfig(web(zonalSpill), withOther))
	w.set(lb.Unhealthy, "a1")
	w.reconcile()
	before, canonical := w.records(), w.canonical()
	epoch := epochs(w, "web-vip")

	w.startBare(testConfig(web(zonalSpill), withOther), true)
	w.want("lost", w.changes(func() {}), "a1:other") // it has none since it fell ill
	w.want("maps", w.canonical(), canonical)
	w.want("epochs", epochs(w, "web-vip"), epoch)
	for name, m := range w.records() {
		old := before[name]
		old.Generation = m.Generation
		w.want(name, m, old)
	}
	for _, s := range w.e.Snapshot().Services {
		for _, m := range s.Members {
			want := lb.Healthy
			if m.Backend.Instance == "a1" {
				want = lb.Unhealthy
			}
			w.want("health of "+m.Backend.Instance, m.Health, want)
		}
	}
	for record, n := range w.dp.cleared {
		if n != 1 {
			t.Errorf("counters %d were cleared again", record)
		}
	}
}

// Ids stay with their names whatever the order of the configuration, and a new
// name gets one that was free for long.
func TestIDsAreStableAndReusedLate(t *testing.T) {
	w := newWorld(t, testConfig())
	ids := func() map[string]uint32 {
		out := map[string]uint32{}
		for id, name := range w.dp.names[loader.NameMember] {
			out[name] = id
		}
		return out
	}
	before := ids()
	reversed := testConfig(web(func(s *lb.Service) { s.Backends[0], s.Backends[1] = s.Backends[1], s.Backends[0] }),
		group("web-a", "a2 10.1.0.12", "a1 10.1.0.11"), withOther)
	w.reload(reversed)
	for name, id := range before {
		w.want(name, ids()[name], id)
	}
	noDrain := web(func(s *lb.Service) { s.DrainTimeout = 0 })
	w.reload(testConfig(noDrain))
	freed := ids()["web/a1/10.1.0.11"]
	w.reload(testConfig(noDrain, group("web-a", "a2 10.1.0.12")))
	w.reload(testConfig(noDrain, group("web-a", "a2 10.1.0.12", "a3 10.1.0.13")))
	w.want("reused at once", ids()["web/a3/10.1.0.13"] == freed, false)

	// When it is reused, no entry of its former owner holds.
	w.e.memberIDs.next = freed
	old := w.dp.members[freed]
	w.reload(testConfig(noDrain, group("web-a", "a2 10.1.0.12", "a3 10.1.0.13", "a4 10.1.0.14")))
	w.want("reused", ids()["web/a4/10.1.0.14"], freed)
	now := w.dp.members[freed]
	w.want("generations differ", old.Generation[0] != now.Generation[0] && old.Generation[1] != now.Generation[1], true)
	w.want("counters cleared", w.dp.cleared[freed*8], 2)
}

// What left the configuration while no daemon ran drains from the start on; what
// lost its service, and rules, end at once.
func TestRestartWithLeftovers(t *testing.T) {
	w := newWorld(t, testConfig(withOther))
	a2, x1 := w.id(loader.NameMember, "web/a2/10.1.0.12"), w.id(loader.NameMember, "other/x1/10.1.0.99")
	rule := w.id(loader.NameRule, "other-vip")
	before := w.records()
	w.startBare(testConfig(group("web-a", "a1 10.1.0.11")), true)
	start := w.now
	w.want("deadline", w.reconcile().Sub(start), 300*time.Second)
	w.want("lost of those that drain", w.lost(before), "")
	w.want("record of the draining one", w.dp.members[a2], before["web/a2/10.1.0.12"])
	w.want("the other service's backend", w.dp.members[x1].Generation, [2]uint16{2, 2})
	w.want("its service", w.id(loader.NameService, "other"), 0)
	w.want("its rule", w.dp.rules[rule].Epoch, 2)
	w.want("its rule's name", w.dp.names[loader.NameRule][rule], "")

	w.now = start.Add(300 * time.Second)
	w.reconcile()
	w.want("the drained one", w.dp.members[a2].Generation, [2]uint16{2, 2})
	w.want("members", len(w.dp.names[loader.NameMember]), 3)
}

// A leftover that comes back by a reload is whole.
func TestLeftoverComesBack(t *testing.T) {
	w := newWorld(t, testConfig())
	before := w.records()
	w.startBare(testConfig(group("web-a", "a1 10.1.0.11")), true)
	w.reconcile()
	w.reload(testConfig())
	w.after(time.Hour)
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.want("lost", w.lost(before), "")
	w.want("records", w.records(), before)
}

// Until the neighbours have spoken, entries are left alone.
func TestRestartBeforeLinksAreKnown(t *testing.T) {
	w := newWorld(t, testConfig(web(func(s *lb.Service) { s.Tracking.Persistence = lb.PersistNever })))
	w.startBare(testConfig(web(func(s *lb.Service) { s.Tracking.Persistence = lb.PersistNever })), false)
	w.want("lost", w.changes(func() {}), "")
	w.wantChosen("web", "", "")
	w.want("way kept for entries", w.member("web", "a1").IfIndex, 7)
}

func TestDrainByHandHoldsOverARestart(t *testing.T) {
	w := newWorld(t, testConfig())
	check(t, w.e.Drain("a2", "", w.now))
	w.reconcile()
	w.startBare(testConfig(), true)
	w.reconcile()
	w.wantChosen("web", "", "a1 b1 b2")
	w.want("state", w.e.Snapshot().Services[0].Members[1].State, lb.Draining)
	w.want("health", w.e.Snapshot().Services[0].Members[1].Health, lb.Healthy)
	check(t, w.e.Undrain("a2", "", w.now))
	w.reconcile()
	w.startBare(testConfig(), true)
	w.reconcile()
	w.wantChosen("web", "", "a1 a2 b1 b2")
}

// A rule that got another service while no daemon ran does not follow old
// entries; one with another tracking key neither.
func TestRestartWithChangedRule(t *testing.T) {
	for _, edit := range []func(*lb.Config){
		func(cfg *lb.Config) { cfg.Rules[0].Service = "other" },
		web(func(s *lb.Service) { s.Affinity, s.Tracking.Mode = lb.AffinityClientIP, lb.PerSession }),
	} {
		w := newWorld(t, testConfig(withOther))
		before := w.rule("web-vip").Epoch
		w.startBare(testConfig(withOther, edit), true)
		w.reconcile()
		w.want("epoch", w.rule("web-vip").Epoch, before+1)
	}
}

// Names that mean nothing are given back.
func TestRestartWithBrokenNames(t *testing.T) {
	w := newWorld(t, testConfig())
	check(t, w.dp.SetName(loader.NameMember, 99, "nonsense"))
	check(t, w.dp.SetName(loader.NameService, 99, "nobody"))
	w.startBare(testConfig(), true)
	w.reconcile()
	w.want("member", w.dp.names[loader.NameMember][99], "")
	w.want("service", w.dp.names[loader.NameService][99], "")
	check(t, w.dp.SetName(loader.NameMember, 1<<20, "web/z/10.1.0.1"))
	if _, err := NewEngine(w.dp); err == nil {
		t.Error("an id outside the table is adopted")
	}
}

// A dual-stack service is two units with sets, picks and rules of their own.
func TestDualStackService(t *testing.T) {
	dual := func(cfg *lb.Config) {
		group("web-a", "a1 10.1.0.11", "a1 2001:db8:a::11", "a2 10.1.0.12", "a2 2001:db8:a::12")(cfg)
		cfg.Rules = append(cfg.Rules, testRule("web-vip6", "2001:db8:f::10", "web", 80))
	}
	w := newWorld(t, testConfig(dual))
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.wantChosen("web/ipv6", "", "a1 a2")
	w.want("unit of the IPv6 rule", uint32(w.rule("web-vip6").Service), w.id(loader.NameService, "web/ipv6"))
	w.want("unit of the IPv4 rule", uint32(w.rule("web-vip").Service), w.id(loader.NameService, "web"))
	w.e.SetHealth("web", "a1", addr("2001:db8:a::11"), selector.HealthOf(lb.Unhealthy), w.now)
	w.reconcile()
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.wantChosen("web/ipv6", "", "a2")

	// Without IPv6 backends the IPv6 rule uses the others, at once.
	before := w.records()
	w.reload(testConfig(func(cfg *lb.Config) {
		cfg.Rules = append(cfg.Rules, testRule("web-vip6", "2001:db8:f::10", "web", 80))
	}))
	w.want("unit of the IPv6 rule", uint32(w.rule("web-vip6").Service), w.id(loader.NameService, "web"))
	w.want("lost", w.lost(before), "")
	w.after(300 * time.Second)
	w.want("members", len(w.dp.names[loader.NameMember]), 4)
}
