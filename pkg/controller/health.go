package controller

import (
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// healthOwner is a member whose health a target tells.
type healthOwner struct {
	service, instance string
	addr              netip.Addr
}

// healthBook says what is probed for whom. It is never changed once it is in
// use; what the probes found is in the controller.
type healthBook struct {
	list   []healthcheck.Target
	owners map[healthcheck.Target][]healthOwner // by Target.Key
	probed map[healthOwner][]healthcheck.Target // keys, by address
	rules  map[string][]lb.ForwardingRule       // by service
}

// newHealthBook finds the targets of a configuration: each address of a member
// once for each check, however many services use it. Without probes through the
// data plane everything is probed directly.
func newHealthBook(cfg *lb.Config, index *configIndex, throughVIP bool) *healthBook {
	b := &healthBook{
		owners: map[healthcheck.Target][]healthOwner{}, probed: map[healthOwner][]healthcheck.Target{},
		rules: map[string][]lb.ForwardingRule{},
	}
	for _, r := range cfg.Rules {
		b.rules[r.Service] = append(b.rules[r.Service], r)
	}
	for i := range cfg.Services {
		s := &cfg.Services[i]
		check := index.checks[s.HealthCheck]
		if check == nil {
			continue
		}
		vips := b.addresses(s.Name)
		if !throughVIP || s.Probe == lb.ProbeDirect {
			vips = nil
		}
		backends := index.backends(s)
		for _, m := range backends {
			o := healthOwner{s.Name, m.Instance, m.Addr}
			for _, t := range targetsOf(m.Addr, s.Way(m), served(s, backends, m.Addr, vips)) {
				t.Check = *check
				b.add(o, t)
			}
		}
	}
	return b
}

// served are the VIPs whose packets come to a backend: those of its family and,
// where a tunnel takes them, those that no backend has the family of.
func served(s *lb.Service, backends []lb.Backend, backend netip.Addr, vips []netip.Addr) []netip.Addr {
	other := func(b lb.Backend) bool { return b.Addr.Is4() != backend.Is4() }
	all := s.Forwarding.Tunnelled() && !slices.ContainsFunc(backends, other)
	return slices.DeleteFunc(slices.Clone(vips), func(vip netip.Addr) bool { return !all && vip.Is4() != backend.Is4() })
}

// addresses are those of a service's rules, sorted. A range is probed at its
// first address.
func (b *healthBook) addresses(service string) []netip.Addr {
	var out []netip.Addr
	for _, r := range b.rules[service] {
		out = append(out, r.Address.Addr())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// targetsOf are where a backend is probed: at each VIP that it serves, or at its
// own address where there is none.
func targetsOf(backend netip.Addr, way lb.Way, vips []netip.Addr) []healthcheck.Target {
	if len(vips) == 0 {
		return []healthcheck.Target{{Addr: backend}}
	}
	out := make([]healthcheck.Target, len(vips))
	for i, vip := range vips {
		out[i] = healthcheck.Target{Addr: vip, Via: healthcheck.Via{Backend: backend, Way: way}}
	}
	return out
}

func (b *healthBook) add(o healthOwner, t healthcheck.Target) {
	key := t.Key()
	if !slices.Contains(b.probed[o], key) {
		b.probed[o] = append(b.probed[o], key)
	}
	b.list = append(b.list, t)
	if !slices.Contains(b.owners[key], o) {
		b.owners[key] = append(b.owners[key], o)
	}
}

// setTargets tells the checker what to probe.
func (c *Controller) setTargets(cfg *lb.Config) {
	book := newHealthBook(cfg, c.opts.Engine.index, c.opts.Probes != nil)
	remembered := c.remembered()
	initial := func(t healthcheck.Target) lb.HealthState {
		for _, o := range book.owners[t.Key()] {
			if state := remembered[o]; state != lb.Unknown && state != "" {
				return state
			}
		}
		return lb.Unknown
	}
	if err := c.opts.Health.SetTargets(book.list, initial); err != nil {
		// The configuration was validated; only a check type without a
		// prober can get here.
		c.log.Error("set health checks", "err", err)
	}
	c.book.Store(book)
	c.found = make(map[healthcheck.Target]selector.Health, len(book.owners))
	for key := range book.owners {
		if status, ok := c.opts.Health.Status(key); ok {
			c.found[key] = selector.Health{State: status.State, Weight: status.Weight}
		}
	}
	now := time.Now()
	for o := range book.probed {
		c.setHealth(o, now)
	}
}

// remembered is the health of members as the engine knows it, from this run or
// an earlier one.
func (c *Controller) remembered() map[healthOwner]lb.HealthState {
	out := map[healthOwner]lb.HealthState{}
	for _, s := range c.opts.Engine.units {
		for key, m := range s.members {
			out[healthOwner{s.name, key.instance, key.addr}] = m.health.State
		}
	}
	return out
}

func (c *Controller) healthEvent(ev healthcheck.Event) {
	key := ev.Target.Key()
	owners := c.book.Load().owners[key]
	if owners == nil {
		return
	}
	c.found[key] = selector.Health{State: ev.State, Weight: ev.Result.Weight}
	now := time.Now()
	for _, o := range owners {
		c.setHealth(o, now)
	}
}

// Backends that fail together are reported one by one. A reconcile waits for the
// next report this long, and for all of them at most gatherMax.
const (
	gatherPause = 2 * time.Millisecond
	gatherMax   = 20 * time.Millisecond
)

// gatherHealthEvents takes what else comes right away, so that many backends
// that fail together cost one reconcile.
func (c *Controller) gatherHealthEvents() {
	end := time.Now().Add(gatherMax)
	pause := time.NewTimer(gatherPause)
	defer pause.Stop()
	for time.Now().Before(end) {
		select {
		case ev := <-c.opts.Health.Events():
			c.healthEvent(ev)
			pause.Reset(gatherPause)
		case <-pause.C:
			return
		}
	}
}

// setHealth gives the engine a member's health by all that is known of it.
func (c *Controller) setHealth(o healthOwner, now time.Time) {
	known := make([]selector.Health, 0, 1)
	for _, key := range c.book.Load().probed[o] {
		if h, ok := c.found[key]; ok {
			known = append(known, h)
		}
	}
	if len(known) > 0 {
		c.opts.Engine.SetHealth(o.service, o.instance, o.addr, combine(known), now)
	}
}

// combine is the health of a member that is probed at several addresses, in
// their order: new connections to any of them may come to it, so it is HEALTHY
// where it passes at all, UNHEALTHY where it fails at one, and UNKNOWN while
// that is open (semantics.md 5.3 has health for each rule; the sets are those
// of the service). Its weight is that told at the first address where one was.
func combine(known []selector.Health) selector.Health {
	out := known[0]
	for _, h := range known[1:] {
		switch {
		case h.State == lb.Unhealthy || out.State == lb.Healthy && h.State == lb.Unknown:
			out.State = h.State
		}
		if !out.Weight.Valid() && h.Weight.Valid() {
			out.Weight = h.Weight
		}
	}
	return out
}

// RuleHealth is what is known of a member at the address of its rules.
type RuleHealth struct {
	// Rules are the names of the rules with the address, sorted; none where
	// the member's own address is probed.
	Rules []string
	healthcheck.Status
}

// RuleHealth returns what is known of a member of a service at each address it
// is probed at, by address. It may be called from any goroutine.
func (c *Controller) RuleHealth(service, instance string, addr netip.Addr) []RuleHealth {
	book := c.book.Load()
	var out []RuleHealth
	for _, key := range book.probed[healthOwner{service, instance, addr}] {
		status, ok := c.opts.Health.Status(key)
		if !ok {
			continue
		}
		h := RuleHealth{Status: status}
		for _, r := range book.rules[service] {
			if !key.Via.Direct() && r.Address.Addr() == key.Addr {
				h.Rules = append(h.Rules, r.Name)
			}
		}
		slices.Sort(h.Rules)
		out = append(out, h)
	}
	return out
}
