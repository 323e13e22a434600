package controller

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// When Reload returns, the configuration is in force.
func TestReload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		next := testConfig(group("web-b", "b1 10.2.0.11", "b3 10.2.0.13"), func(cfg *lb.Config) {
			cfg.Rules = append(cfg.Rules, testRule("second", "192.0.2.12", "web", 80))
			cfg.Gateway.Interfaces = []string{"eth0"}
		})
		check(t, p.c.Reload(t.Context(), next))
		p.wantChosen("a1 a2 b1")
		if p.c.Config() != next || len(p.announce.list) != 2 || len(p.dp.fronts) != 2 {
			t.Errorf("announces %v, frontends %v", p.announce.list, p.dp.fronts)
		}
		if got := len(p.health.status); got != 4 {
			t.Errorf("%d backends are probed, want 4", got)
		}
		// The one that left is still looked up, for its established connections.
		if got := fmt.Sprint(p.neigh.targets); got != "[10.1.0.11 10.1.0.12 10.2.0.11 10.2.0.12 10.2.0.13]" {
			t.Errorf("neighbours of %s", got)
		}
		p.events(lb.Healthy, "10.2.0.13")
		p.wantChosen("a1 a2 b1")
		p.resolve()
		p.wantChosen("a1 a2 b1 b3")
	})
}

// A configuration that is refused leaves everything as it was.
func TestRefusedReloadChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		before, targets := p.c.Config(), fmt.Sprint(p.health.status, p.neigh.targets, p.announce.list)
		p.dp.memberCap = 5
		err := p.c.Reload(t.Context(), testConfig(group("web-b", "b1 10.2.0.11", "b2 10.2.0.12", "b3 10.2.0.13")))
		if !errors.Is(err, loader.ErrFull) {
			t.Errorf("Reload: %v", err)
		}
		p.wantChosen("a1 a2 b1 b2")
		if p.c.Config() != before || len(p.dp.writes) > 0 || len(p.logged()) > 0 {
			t.Errorf("writes %v, log %q", p.dp.writes, p.logged())
		}
		if got := fmt.Sprint(p.health.status, p.neigh.targets, p.announce.list); got != targets {
			t.Errorf("targets %s, want %s", got, targets)
		}
	})
}

// A reload keeps what the checker knows, and gives every service its share of it.
func TestServicesShareAProbe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		both := func(cfg *lb.Config) { cfg.Services = append(cfg.Services, testService("more", "web-a")) }
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		p.events(lb.Unhealthy, "10.1.0.11")
		check(t, p.c.Reload(t.Context(), testConfig(both)))
		w := &world{t: t, dp: p.dp}
		w.wantChosen("more", "", "a2")
		p.events(lb.Healthy, "10.1.0.11")
		p.wantChosen("a1 a2 b1 b2")
		w.wantChosen("more", "", "a1 a2")
		w.want("probes", len(p.health.status), 4)
	})
}

// Drain is in force when it returns, and ends by itself.
func TestDrainRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		w := &world{t: t, dp: p.dp}
		before, start := w.records(), time.Now()
		check(t, p.c.Drain(t.Context(), "a1", "web"))
		p.wantChosen("a2 b1 b2")
		want := []string{`"backend changed" service=web backend=a1 zone=zone-a from=HEALTHY to=DRAINING`}
		w.want("log", p.logged(), want)

		time.Sleep(time.Until(start.Add(300*time.Second - 1)))
		synctest.Wait()
		w.want("lost before its time", w.lost(before), "")
		p.resolve() // what was read here is read before the next write
		time.Sleep(1 * time.Nanosecond)
		synctest.Wait()
		w.want("lost at its time", w.lost(before), "a1:connection,other")

		check(t, p.c.Undrain(t.Context(), "a1", ""))
		p.wantChosen("a1 a2 b1 b2")
		if err := p.c.Drain(t.Context(), "nobody", ""); !errors.Is(err, ErrUnknown) {
			t.Errorf("drain of nobody: %v", err)
		}
		if err := p.c.Undrain(t.Context(), "a1", "nothing"); !errors.Is(err, ErrUnknown) {
			t.Errorf("undrain of nothing: %v", err)
		}
	})
}

func TestExplainRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(web(zonalSpill)), time.Second).ready()
		p.events(lb.Unhealthy, "10.1.0.11")
		check(t, p.c.Drain(t.Context(), "b1", ""))
		out, err := p.c.Explain(t.Context(), "web", addr("10.2.0.7"))
		check(t, err)
		w := &world{t: t, dp: p.dp}
		w.want("service and client", out.Service+" "+out.Client+" "+out.ClientZone, "web 10.2.0.7 zone-b")
		w.want("eligible", out.OriginalEligible.Backends, []string{"a2", "b2"})
		w.want("modified", out.ModifiedEligible, []string{"b2"})
		w.want("ratio", out.Ratio, "1/1")
		if _, err := p.c.Explain(t.Context(), "nothing", addr("10.2.0.7")); !errors.Is(err, ErrUnknown) {
			t.Errorf("explain nothing: %v", err)
		}
		w.want("writes", len(p.logged()), 2)
	})
}

// Offline everybody can be reached, and who is not named is healthy.
func TestExplainOffline(t *testing.T) {
	dual := testConfig(web(zonalSpill), group("web-a", "a1 10.1.0.11", "a1 2001:db8:a::11", "a2 10.1.0.12"))
	health := map[string]selector.Health{"a1": selector.HealthOf(lb.Unhealthy), "b1": selector.HealthOf(lb.Draining)}
	w := &world{t: t}
	out, err := ExplainOffline(dual, "web", addr("::ffff:10.1.0.7"), health)
	check(t, err)
	w.want("client", out.Client, "10.1.0.7")
	w.want("eligible", out.OriginalEligible.Backends, []string{"a2", "b2"})
	w.want("modified", out.ModifiedEligible, []string{"a2"})
	out, err = ExplainOffline(dual, "web", addr("2001:db8::7"), health)
	check(t, err)
	w.want("eligible for IPv6", out.OriginalEligible.Backends, []string{"a1"})
	w.want("kind for IPv6", out.OriginalEligible.Kind, selector.UnhealthyPrimaries)
	if _, err := ExplainOffline(dual, "nothing", addr("10.1.0.7"), nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("explain nothing: %v", err)
	}
}

// A restart of a weighted service waits for the weights, which are not kept.
func TestRestartWaitsForWeights(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newParts(t, newFakeDP(t), testConfig(), time.Second).ready()
		p.stop()
		check(t, p.ended())
		p.dp.restart()
		again := newParts(t, p.dp, testConfig(web(weighted)), 10*time.Second)
		again.run()
		again.resolve()
		if again.c.Ready() {
			t.Error("did not wait for weights")
		}
		for _, a := range sortedKeys(again.neigh.entries) {
			ev := again.event(lb.Healthy, a.String())
			ev.Result.Weight = lb.Weight{PPM: lb.WeightOne}
			again.health.events <- ev
		}
		again.wantChosen("a1 a2 b1 b2")
		if !again.c.Ready() {
			t.Error("not ready when all have spoken")
		}
	})
}
