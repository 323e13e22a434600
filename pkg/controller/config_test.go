package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

func TestUnchangedConfigurationWritesNothing(t *testing.T) {
	w := newWorld(t, testConfig())
	w.reload(testConfig())
	version := w.e.version
	w.reconcile()
	w.after(time.Hour)
	if len(w.dp.writes) != 0 || w.e.version != version {
		t.Errorf("writes %v, version %d after %d", w.dp.writes, w.e.version, version)
	}
}

// withOther adds a second service, whose records no change of web may touch.
func withOther(cfg *lb.Config) {
	cfg.Groups = append(cfg.Groups, lb.Group{Name: "x", Endpoints: endpoints("x1 10.1.0.99")})
	cfg.Services = append(cfg.Services, testService("other", "x"))
	cfg.Rules = append(cfg.Rules, testRule("other-vip", "192.0.2.11", "other", 53))
}

func zonalSpill(s *lb.Service) { s.Zonal = lb.ZonalAffinity{Spillover: lb.ZonalSpillCrossZone} }

// What a change writes, and nothing else.
func TestWritesAreMinimal(t *testing.T) {
	config := func(edit ...func(*lb.Config)) func(w *world) {
		return func(w *world) {
			w.config(testConfig(append([]func(*lb.Config){web(zonalSpill), withOther}, edit...)...))
		}
	}
	tests := []struct {
		name string
		do   func(w *world)
		want string
	}{
		// Its state and its generation; two tables, and the picks of all zones but b.
		{
			"one backend sick", func(w *world) { w.set(lb.Unhealthy, "a1") },
			"delete table ×2, member web/a1/10.1.0.11 ×2, pick web ×63, table ×2",
		},
		{"a weight that nobody uses", func(w *world) {
			w.health(selector.Health{State: lb.Healthy, Weight: lb.Weight{PPM: 5}}, "a1")
		}, ""},
		{"the same health again", func(w *world) { w.set(lb.Healthy, "a1") }, ""},
		{"a link moves", func(w *world) {
			l := linkOf(addr("10.1.0.11"), true)
			l.DMAC[5] = 0xee
			w.e.SetLink(addr("10.1.0.11"), l)
		}, "member web/a1/10.1.0.11"},
		{"a rule more", config(func(cfg *lb.Config) {
			cfg.Rules = append(cfg.Rules, testRule("more", "192.0.2.12", "web", 80))
		}), "frontends, name more, rule more"},
		{"another idle timeout", config(web(func(s *lb.Service) { s.Tracking.IdleTimeout = time.Minute })), "rule web-vip"},
		{"client ranges", config(func(cfg *lb.Config) {
			cfg.Clients.Zones[0].ClientRanges, cfg.Clients.Zones[1].ClientRanges = cfg.Clients.Zones[1].ClientRanges, nil
		}), "zones"},
		{"a drain timeout", config(web(func(s *lb.Service) { s.DrainTimeout = 0 })), ""},
		{
			"a backend more", config(group("web-b", "b1 10.2.0.11", "b2 10.2.0.12", "b3 10.2.0.13")),
			"delete table ×2, member web/b3/10.2.0.13, name web/b3/10.2.0.13, pick web ×63, table ×2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, testConfig(web(zonalSpill), withOther))
			tt.do(w)
			w.set(lb.Healthy, "b3")
			w.reconcile()
			if got := summary(w.dp.writes); got != tt.want {
				t.Errorf("wrote %q, want %q", got, tt.want)
			}
		})
	}
}

// summary sorts and counts writes.
func summary(writes []string) string {
	count := map[string]int{}
	for _, s := range writes {
		count[s]++
	}
	var out []string
	for _, s := range slices.Sorted(maps.Keys(count)) {
		if count[s] > 1 {
			s = fmt.Sprintf("%s ×%d", s, count[s])
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// Equal sets share a table, and a change of policy or seed makes a new one.
func TestZonesWithEqualSetsShareATable(t *testing.T) {
	w := newWorld(t, testConfig())
	w.want("tables without zonal affinity", len(w.dp.tables), 1)
	w.reload(testConfig(web(zonalSpill)))
	w.want("tables with it", len(w.dp.tables), 3)
	w.wantChosen("web", "", "a1 a2 b1 b2")
	w.wantChosen("web", "zone-a", "a1 a2")
	w.wantChosen("web", "zone-b", "b1 b2")
	w.want("clients of zones, whose entries stay", w.lost(w.records()), "")
	for _, edit := range []func(*lb.Config){
		web(func(s *lb.Service) { s.LocalityLbPolicy = lb.PolicyRendezvous }),
		func(cfg *lb.Config) { cfg.Gateway.HashSeed = 7 },
	} {
		w.dp.writes = nil
		lost := w.changes(func() { w.config(testConfig(web(zonalSpill), edit)) })
		w.want("lost", lost, "")
		w.want("tables made", strings.Count(strings.Join(w.dp.writes, ","), "table"), 6)
	}
}

// Services with the same backends, and a backend that comes back, cost one
// filling; the cache does not grow without end.
func TestEqualSetsAreFilledOnce(t *testing.T) {
	w := newWorld(t, testConfig())
	fills := 0
	w.e.fills.compute = func(p lb.LocalityLbPolicy, m []selector.TableMember, seed uint64) ([]uint32, error) {
		fills++
		return selector.Fill(p, m, seed)
	}
	w.reload(testConfig(func(cfg *lb.Config) {
		cfg.Services = append(cfg.Services, testService("again", "web-a", "web-b"), testService("part", "web-a"))
	}))
	w.want("fillings for services", fills, 1)
	w.want("tables", len(w.dp.tables), 3)
	w.wantChosen("again", "", "a1 a2 b1 b2")
	for range 3 {
		w.set(lb.Unhealthy, "b1")
		w.reconcile()
		w.wantChosen("web", "", "a1 a2 b2")
		w.set(lb.Healthy, "b1")
		w.reconcile()
		w.wantChosen("web", "", "a1 a2 b1 b2")
	}
	w.want("fillings for a flapping backend", fills, 2)
	for i := range fillsKept + 5 {
		w.reload(testConfig(func(cfg *lb.Config) { cfg.Gateway.HashSeed = uint64(i + 100) }))
	}
	w.want("fillings kept", len(w.e.fills.slots), fillsKept)
}

// A configuration that does not fit changes nothing.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	tests := []struct {
		name  string
		limit func(d *fakeDP)
		edit  func(*lb.Config)
		want  string
	}{
		{
			"backends", func(d *fakeDP) { d.memberCap = 6 },
			group("web-a", "a1 10.1.0.11", "a2 10.1.0.12", "a3 10.1.0.13", "a4 10.1.0.14"), "6 backends",
		},
		{
			"backends beside draining ones", func(d *fakeDP) { d.memberCap = 6 },
			group("web-a", "a7 10.1.0.17", "a8 10.1.0.18"), "6 backends",
		},
		{"rules", func(d *fakeDP) { d.ruleCap = 3 }, func(cfg *lb.Config) {
			cfg.Rules = append(cfg.Rules, testRule("r2", "192.0.2.12", "web", 1), testRule("r3", "192.0.2.13", "web", 1))
		}, "3 forwarding rules"},
		{"rules of a service", func(d *fakeDP) {}, func(cfg *lb.Config) {
			for i := range uint16(9) {
				cfg.Rules = append(cfg.Rules, testRule(fmt.Sprintf("r%d", i), "192.0.2.12", "web", 1000+i))
			}
		}, `"web" has 10 forwarding rules`},
		{"services", func(d *fakeDP) { d.serviceCap = 2 }, withOther, "2 backend services"},
		{"tables", func(d *fakeDP) { d.tableCap = 6 }, web(zonalSpill), "6 selection tables"},
		{"source ranges", func(d *fakeDP) { d.rangeCap = 3 }, ranges("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"), "3 allowed source ranges"},
		{"zones", func(d *fakeDP) {}, func(cfg *lb.Config) {
			for i := range 62 {
				cfg.Clients.Zones = append(cfg.Clients.Zones, lb.Zone{Name: fmt.Sprintf("zone-%d", i)})
			}
		}, "64 zones"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, testConfig())
			tt.limit(w.dp)
			before := w.canonical()
			err := w.e.SetConfig(testConfig(tt.edit), w.now)
			wantFull(t, err, tt.want)
			w.reconcile()
			w.want("writes", w.dp.writes, []string(nil))
			w.want("maps", w.canonical(), before)
			w.dp.memberCap, w.dp.ruleCap, w.dp.serviceCap, w.dp.tableCap = 100, 100, 100, 100
			w.reload(testConfig(group("web-a", "a1 10.1.0.11")))
			w.wantChosen("web", "", "a1 b1 b2")
		})
	}
}
