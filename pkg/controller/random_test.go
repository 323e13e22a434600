package controller

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// gamble makes random inputs from a seed.
type gamble struct{ *rand.Rand }

func (g gamble) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g gamble, list ...T) T { return list[g.IntN(len(list))] }

// config is a random configuration over a small world of names, so that things
// leave and come back.
func (g gamble) config() *lb.Config {
	cfg := testConfig()
	cfg.Gateway.HashSeed = uint64(g.IntN(2))
	cfg.Clients.Zones = cfg.Clients.Zones[:1+g.IntN(2)]
	if g.one(3) {
		cfg.Clients.OtherRegion = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}
	}
	cfg.Groups, cfg.Services, cfg.Rules = nil, nil, nil
	for i := range 4 {
		grp := lb.Group{Name: fmt.Sprintf("g%d", i), Zone: pick(g, "", "zone-a", "zone-b", "zone-c")}
		for k := range 1 + g.IntN(3) {
			ep := lb.Endpoint{Instance: fmt.Sprintf("i%d-%d", i, k), Addr: netip.AddrFrom4([4]byte{10, 1, byte(i), byte(k + 1)})}
			if i == 3 {
				ep.Addr = netip.MustParseAddr(fmt.Sprintf("2001:db8:a::%d", k+1))
			}
			grp.Endpoints = append(grp.Endpoints, ep)
		}
		cfg.Groups = append(cfg.Groups, grp)
	}
	for i := range 1 + g.IntN(2) {
		s := g.service(fmt.Sprintf("s%d", i))
		cfg.Services = append(cfg.Services, s)
		for k := range g.IntN(3) {
			r := testRule(fmt.Sprintf("r%d-%d", i, k), fmt.Sprintf("192.0.2.%d", 10*i+k+g.IntN(2)*100), s.Name, 80)
			if g.one(4) {
				r.Service = cfg.Services[0].Name
			}
			cfg.Rules = append(cfg.Rules, r)
			if g.one(2) {
				cfg.Routes = append(cfg.Routes, g.route(r.Name, len(cfg.Routes)))
			}
		}
	}
	return cfg
}

func (g gamble) route(rule string, n int) lb.Route {
	t := testRoute(fmt.Sprintf("t%d", n), pick(g, "203.0.113.0/24", "203.0.0.0/16", "0.0.0.0/0"), rule, uint16(g.IntN(2)))
	if g.one(2) {
		from("10.1.0.0/16", "10.2.0.0/16")(&t)
	}
	return t
}

func (g gamble) service(name string) lb.Service {
	s := testService(name)
	s.HealthCheck = pick(g, "", "hc", "hc")
	s.LocalityLbPolicy = pick(g, lb.PolicyMaglev, lb.PolicyWeightedMaglev)
	s.Affinity = pick(g, lb.AffinityNone, lb.AffinityClientIP, lb.AffinityClientIPProto, lb.AffinityClientIPNoDestination)
	s.Tracking.Mode = pick(g, lb.PerConnection, lb.PerSession)
	s.Tracking.Persistence = pick(g, lb.PersistDefault, lb.PersistNever)
	s.DrainTimeout = pick(g, 0, time.Minute, time.Hour)
	s.Zonal = lb.ZonalAffinity{
		Spillover:      pick(g, lb.ZonalDisabled, lb.ZonalStayWithinZone, lb.ZonalSpillCrossZone),
		SpilloverRatio: lb.Ratio(g.IntN(3)) * lb.RatioOne / 2,
	}
	for i := range 4 {
		if !g.one(3) {
			s.Backends = append(s.Backends, lb.BackendRef{Group: fmt.Sprintf("g%d", i)})
		}
	}
	if g.one(2) && len(s.Backends) > 1 {
		s.Backends[len(s.Backends)-1].Failover = true
		s.Failover = &lb.FailoverPolicy{
			Ratio: lb.Ratio(g.IntN(3)) * lb.RatioOne / 2, DropTrafficIfUnhealthy: g.one(2),
			DisableConnectionDrain: g.one(2), DrainTimeout: time.Minute,
		}
	}
	return s
}

func (g gamble) health() selector.Health {
	h := selector.HealthOf(pick(g, lb.Healthy, lb.Healthy, lb.Unhealthy, lb.Unknown, lb.Draining))
	if !g.one(4) {
		h.Weight = lb.Weight{PPM: uint64(g.IntN(4)) * lb.WeightOne}
	}
	return h
}

// step gives the engine one random input.
func (g gamble) step(w *world) {
	names := w.instances()
	name := names[g.IntN(len(names))]
	switch g.IntN(9) {
	case 0, 1:
		check(w.t, w.e.SetConfig(g.config(), w.now))
	case 2, 3:
		w.health(g.health(), name)
	case 4:
		grp := pick(g, w.e.cfg.Groups...)
		ep := pick(g, grp.Endpoints...)
		l := linkOf(ep.Addr, g.one(2))
		l.DMAC[0] = pick(g, byte(2), 6)
		w.e.SetLink(ep.Addr, l)
	case 5:
		_ = w.e.Drain(name, pick(g, "", "s0", "s1"), w.now)
	case 6:
		_ = w.e.Undrain(name, pick(g, "", "s0", "s1"), w.now)
	case 7:
		w.now = w.now.Add(pick(g, time.Second, time.Minute, time.Hour))
	case 8:
		if g.one(3) {
			w.reconcile()
			w.startBare(w.e.cfg, false)
		}
	}
	if g.one(2) {
		w.reconcile()
	}
}

// finish gives both engines the same last inputs: cfg, and all that can be known
// of its backends.
func finish(w *world, cfg *lb.Config, health map[string]selector.Health, drained map[drainKey]bool) string {
	check(w.t, w.e.SetConfig(cfg, w.now))
	w.e.drained = map[drainKey]bool{}
	for k := range drained {
		if err := w.e.Drain(k.instance, k.service, w.now); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, grp := range cfg.Groups {
		for _, ep := range grp.Endpoints {
			w.e.SetLink(ep.Addr, linkOf(ep.Addr, health[ep.Instance].Weight.PPM != 3*lb.WeightOne))
		}
	}
	for name, h := range health {
		w.health(h, name)
	}
	w.reconcile()
	w.after(2 * time.Hour) // what leaves is gone
	return w.canonical()
}

// Whatever happened before, the maps are those of a fresh engine that was given
// the last inputs. The fake data plane checks every write on the way.
func TestAnyHistoryEndsAsAFreshStart(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			g := gamble{rand.New(rand.NewPCG(seed, 1))}
			w := newWorld(t, g.config())
			for range 60 {
				g.step(w)
			}
			cfg, health := g.config(), map[string]selector.Health{}
			for _, grp := range cfg.Groups {
				for _, ep := range grp.Endpoints {
					h := g.health()
					if h.Weight.Err == lb.WeightUnavailable {
						h.Weight = lb.Weight{} // the one before would count
					}
					health[ep.Instance] = h
				}
			}
			check(t, w.e.SetConfig(cfg, w.now)) // forgets drains of what is gone
			drained := map[drainKey]bool{}
			for k := range w.e.drained {
				drained[k] = true
			}
			fresh := newWorld(t, cfg)
			want := finish(fresh, cfg, health, drained)
			if got := finish(w, cfg, health, drained); got != want {
				t.Errorf("seed %d: after a history\n%s\nfresh\n%s", seed, got, want)
			}
			w.want("tables", len(w.dp.tables), len(fresh.dp.tables))
		})
	}
}
