package controller

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// testConfig has the service web with two backends in each of two zones, and
// the rule web-vip.
func testConfig(edit ...func(*lb.Config)) *lb.Config {
	cfg := &lb.Config{
		Clients: lb.ClientMap{Zones: []lb.Zone{
			{Name: "zone-a", ClientRanges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
			{Name: "zone-b", ClientRanges: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}},
		}},
		HealthChecks: []lb.HealthCheck{{Name: "hc", Type: lb.CheckTCP, Port: 80, CheckInterval: time.Second, Timeout: time.Second}},
		Groups: []lb.Group{
			{Name: "web-a", Zone: "zone-a", Endpoints: endpoints("a1 10.1.0.11", "a2 10.1.0.12")},
			{Name: "web-b", Zone: "zone-b", Endpoints: endpoints("b1 10.2.0.11", "b2 10.2.0.12")},
		},
		Services: []lb.Service{testService("web", "web-a", "web-b")},
		Rules:    []lb.ForwardingRule{testRule("web-vip", "192.0.2.10", "web", 80, 443)},
	}
	for _, f := range edit {
		f(cfg)
	}
	return cfg
}

func testService(name string, groups ...string) lb.Service {
	s := lb.Service{
		Name: name, Protocol: lb.ServiceTCP, HealthCheck: "hc", Affinity: lb.AffinityNone, LocalityLbPolicy: lb.PolicyMaglev,
		Tracking:     lb.Tracking{Mode: lb.PerConnection, Persistence: lb.PersistDefault, IdleTimeout: 600 * time.Second},
		DrainTimeout: 300 * time.Second,
	}
	for _, g := range groups {
		s.Backends = append(s.Backends, lb.BackendRef{Group: g})
	}
	return s
}

func testRule(name, address, service string, ports ...uint16) lb.ForwardingRule {
	a := addr(address)
	return lb.ForwardingRule{Name: name, Address: netip.PrefixFrom(a, a.BitLen()), Protocol: lb.RuleTCP, Ports: ports, Service: service}
}

// endpoints reads "instance address" pairs.
func endpoints(list ...string) (out []lb.Endpoint) {
	for _, s := range list {
		instance, address, _ := strings.Cut(s, " ")
		out = append(out, lb.Endpoint{Instance: instance, Addr: addr(address)})
	}
	return out
}

// web edits the service web.
func web(f func(*lb.Service)) func(*lb.Config) {
	return func(cfg *lb.Config) { f(cfg.Service("web")) }
}

// group replaces the endpoints of a group.
func group(name string, list ...string) func(*lb.Config) {
	return func(cfg *lb.Config) { cfg.Group(name).Endpoints = endpoints(list...) }
}

// world is an engine on a fake data plane at a time of its own.
type world struct {
	t   testing.TB
	dp  *fakeDP
	e   *Engine
	now time.Time
}

// newWorld configures an engine, makes every backend healthy and reachable, and
// reconciles.
func newWorld(t testing.TB, cfg *lb.Config) *world {
	t.Helper()
	w := &world{t: t, dp: newFakeDP(t), now: time.Unix(1_700_000_000, 0)}
	w.start(cfg)
	return w
}

// start makes a new engine over what the data plane remembers.
func (w *world) start(cfg *lb.Config) {
	w.t.Helper()
	var err error
	if w.e, err = NewEngine(w.dp); err != nil {
		w.t.Fatal(err)
	}
	w.config(cfg)
	w.health(selector.HealthOf(lb.Healthy), w.instances()...)
	w.reconcile()
	w.dp.writes = nil
}

func (w *world) instances() []string {
	out := map[string]bool{}
	for _, g := range w.e.cfg.Groups {
		for _, ep := range g.Endpoints {
			out[ep.Instance] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// config sets a configuration and the links of its backends.
func (w *world) config(cfg *lb.Config) {
	w.t.Helper()
	if err := w.e.SetConfig(cfg, w.now); err != nil {
		w.t.Fatal(err)
	}
	for _, g := range cfg.Groups {
		for _, ep := range g.Endpoints {
			w.e.SetLink(ep.Addr, linkOf(ep.Addr, true))
		}
	}
}

// reload sets a configuration, makes new backends healthy, and reconciles.
func (w *world) reload(cfg *lb.Config) time.Time {
	w.t.Helper()
	w.config(cfg)
	for _, s := range w.e.units {
		for _, m := range s.members {
			if m.health.State == lb.Unknown {
				w.e.setMemberHealth(s, m, selector.HealthOf(lb.Healthy), w.now)
			}
		}
	}
	return w.reconcile()
}

func linkOf(a netip.Addr, usable bool) Link {
	b := a.As16()
	return Link{DMAC: [6]byte{2, 0x4c, b[12], b[13], b[14], b[15]}, SMAC: [6]byte{2, 0x4c, 0, 0, 0, 1}, IfIndex: 7, Usable: usable}
}

func (w *world) health(h selector.Health, instances ...string) {
	for _, name := range instances {
		w.e.SetInstanceHealth(name, h, w.now)
	}
}

func (w *world) set(state lb.HealthState, instances ...string) {
	w.health(selector.HealthOf(state), instances...)
}

// reconcile returns the next deadline as the engine gives it.
func (w *world) reconcile() time.Time {
	w.t.Helper()
	next, err := w.e.Reconcile(w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return next
}

// after moves the clock and reconciles.
func (w *world) after(d time.Duration) time.Time {
	w.t.Helper()
	w.now = w.now.Add(d)
	return w.reconcile()
}

// id finds what has a name; 0 is nothing.
func (w *world) id(kind loader.NameKind, name string) uint32 {
	for id, n := range w.dp.names[kind] {
		if n == name {
			return id
		}
	}
	return 0
}

// member is the record of an instance in a service.
func (w *world) member(service, instance string) loader.Member {
	w.t.Helper()
	for id, name := range w.dp.names[loader.NameMember] {
		if strings.HasPrefix(name, service+"/"+instance+"/") {
			return w.dp.members[id]
		}
	}
	w.t.Fatalf("no member %s of %s", instance, service)
	return loader.Member{}
}

func (w *world) rule(name string) loader.Rule { return w.dp.rules[w.id(loader.NameRule, name)] }

// chosen lists the instances that new connections of a client zone can go to,
// "" for no zone.
func (w *world) chosen(unit, zone string) string {
	service := w.id(loader.NameService, unit)
	table := w.dp.picksOf(service)[w.id(loader.NameZone, zone)]
	found := map[string]bool{}
	for _, id := range w.dp.tables[table] {
		found[strings.Split(w.dp.names[loader.NameMember][id], "/")[1]] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

func (w *world) wantChosen(unit, zone, want string) {
	w.t.Helper()
	if got := w.chosen(unit, zone); got != want {
		w.t.Errorf("new connections to %s from zone %q go to %q, want %q", unit, zone, got, want)
	}
}

// lost says which classes of entries of instances ended since before was taken:
// "a1:connection,other".
func (w *world) lost(before map[string]loader.Member) string {
	var out []string
	for name, old := range before {
		if w.id(loader.NameMember, name) == 0 {
			continue
		}
		now := w.dp.members[w.id(loader.NameMember, name)]
		var classes []string
		for c, label := range []string{"connection", "other"} {
			if now.Generation[c] != old.Generation[c] {
				classes = append(classes, label)
			}
		}
		if classes != nil {
			out = append(out, strings.Split(name, "/")[1]+":"+strings.Join(classes, ","))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// records copies all member records by name.
func (w *world) records() map[string]loader.Member {
	out := map[string]loader.Member{}
	for id, name := range w.dp.names[loader.NameMember] {
		out[name] = w.dp.members[id]
	}
	return out
}

// changes runs f, reconciles, and says whose entries ended.
func (w *world) changes(f func()) string {
	w.t.Helper()
	before := w.records()
	f()
	w.reconcile()
	return w.lost(before)
}

func (w *world) want(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
