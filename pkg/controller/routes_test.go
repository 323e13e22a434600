package controller

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

func testRoute(name, dest, rule string, priority uint16, edit ...func(*lb.Route)) lb.Route {
	t := lb.Route{Name: name, Dest: netip.MustParsePrefix(dest), Priority: priority, Rule: rule}
	for _, f := range edit {
		f(&t)
	}
	return t
}

func from(sources ...string) func(*lb.Route) {
	return func(t *lb.Route) {
		for _, s := range sources {
			t.Sources = append(t.Sources, netip.MustParsePrefix(s))
		}
	}
}

func in(interfaces ...string) func(*lb.Route) {
	return func(t *lb.Route) { t.Interfaces = interfaces }
}

// routed adds the rules fw-a and fw-b, next hops of the routes.
func routed(routes ...lb.Route) func(*lb.Config) {
	return func(cfg *lb.Config) {
		cfg.Rules = append(cfg.Rules, testRule("fw-a", "192.0.2.20", "web", 80), testRule("fw-b", "192.0.2.21", "web", 80))
		cfg.Routes = routes
	}
}

// routes shows what was written: a destination a line, with its hops.
func (w *world) routes() string {
	var b strings.Builder
	for _, r := range w.dp.routes {
		fmt.Fprintf(&b, "%s:", r.Dest)
		for _, h := range r.Hops {
			fmt.Fprintf(&b, " %s", strings.TrimSuffix(w.dp.names[loader.NameRule][h.Rule], "/routed"))
			if h.Source.IsValid() {
				fmt.Fprintf(&b, " from %s", h.Source)
			}
			if h.IfIndex != 0 {
				fmt.Fprintf(&b, " in %d", h.IfIndex)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func host(addresses ...string) Host {
	h := Host{Interfaces: map[string]uint32{"eth0": 2, "eth1": 3}}
	for _, s := range addresses {
		h.Addresses = append(h.Addresses, netip.MustParsePrefix(s))
	}
	return h
}

// The order of semantics.md 4.2 and 4.3: the longest prefix, the lowest
// priority, the first rule by name; one that is kept out falls through to the
// next, in shorter prefixes too.
func TestRoutesAreLaidOutInTheirOrder(t *testing.T) {
	tests := []struct {
		name   string
		host   Host
		routes []lb.Route
		want   string
	}{
		{name: "none"},
		{
			name:   "a lower priority wins",
			routes: []lb.Route{testRoute("r1", "203.0.113.0/24", "fw-b", 0), testRoute("r2", "203.0.113.0/24", "fw-a", 1000)},
			want:   "203.0.113.0/24: fw-b\n",
		},
		{
			name:   "equal priorities: the first rule by name",
			routes: []lb.Route{testRoute("r1", "203.0.113.0/24", "fw-b", 9), testRoute("r2", "203.0.113.0/24", "fw-a", 9)},
			want:   "203.0.113.0/24: fw-a\n",
		},
		{
			name:   "a longer prefix wins whatever the priorities",
			routes: []lb.Route{testRoute("r1", "203.0.0.0/16", "fw-a", 0), testRoute("r2", "203.0.113.0/24", "fw-b", 65535)},
			want:   "203.0.0.0/16: fw-a\n203.0.113.0/24: fw-b\n",
		},
		{
			name: "restricted routes fall through",
			host: host(),
			routes: []lb.Route{
				testRoute("r1", "203.0.0.0/16", "fw-b", 1000),
				testRoute("r2", "203.0.113.0/24", "fw-a", 1000, from("10.1.0.0/16", "10.2.0.0/16")),
				testRoute("r3", "203.0.113.0/24", "fw-b", 2000, in("eth1")),
				testRoute("r4", "203.0.113.9/32", "fw-a", 0, from("10.3.0.0/16"), in("eth0", "eth1")),
			},
			want: "203.0.0.0/16: fw-b\n" +
				"203.0.113.0/24: fw-a from 10.1.0.0/16 fw-a from 10.2.0.0/16 fw-b in 3 fw-b\n" +
				"203.0.113.9/32: fw-a from 10.3.0.0/16 in 2 fw-a from 10.3.0.0/16 in 3 fw-a from 10.1.0.0/16 fw-a from 10.2.0.0/16 fw-b in 3 fw-b\n",
		},
		{
			name:   "an interface that is not there sends nothing",
			host:   host(),
			routes: []lb.Route{testRoute("r1", "203.0.113.0/24", "fw-a", 0, in("eth9")), testRoute("r2", "203.0.112.0/23", "fw-b", 0, in("eth9", "eth0"))},
			want:   "203.0.112.0/23: fw-b in 2\n203.0.113.0/24: fw-b in 2\n",
		},
		{
			name:   "what no router forwards and what is the gateway's own stays out of everything",
			host:   host("198.51.100.7/24", "198.51.100.8/24", "10.9.9.9/32", "2001:db8::1/64"),
			routes: []lb.Route{testRoute("r1", "0.0.0.0/0", "fw-a", 0)},
			want: "0.0.0.0/0: fw-a\n0.0.0.0/8:\n10.9.9.9/32:\n127.0.0.0/8:\n169.254.0.0/16:\n" +
				"198.51.100.0/24:\n224.0.0.0/4:\n255.255.255.255/32:\n",
		},
		{
			name: "a route equal to or inside a subnet of the gateway is not in force",
			host: host("203.0.113.1/24"),
			routes: []lb.Route{
				testRoute("r1", "203.0.113.0/24", "fw-a", 0), testRoute("r2", "203.0.113.128/25", "fw-a", 0),
				testRoute("r3", "203.0.112.0/23", "fw-b", 0),
			},
			want: "203.0.112.0/23: fw-b\n203.0.113.0/24:\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{t: t, dp: newFakeDP(t)}
			w.start(testConfig())
			w.e.SetHost(tt.host)
			w.reload(testConfig(routed(tt.routes...)))
			if got := w.routes(); got != tt.want {
				t.Errorf("routes:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

// The rule's use as a next hop is a record of its own that shares service and
// counters; it comes and goes with the routes.
func TestNextHopIsASecondRecordOfItsRule(t *testing.T) {
	w := newWorld(t, testConfig(routed()))
	w.want("a rule without routes", w.id(loader.NameRule, "fw-b/routed"), 0)
	w.reload(testConfig(routed(testRoute("r1", "203.0.113.0/24", "fw-b", 0))))
	vip, hop := w.rule("fw-b"), w.rule("fw-b/routed")
	w.want("flags", fmt.Sprint(vip.Routed, hop.Routed), "false true")
	vip.Routed, vip.Epoch = true, hop.Epoch
	w.want("the record", hop, vip)
	var status RuleStatus
	for _, r := range w.e.Snapshot().Rules {
		if r.Rule.Name == "fw-b" {
			status = r
		}
	}
	w.want("rules in the snapshot", len(w.e.Snapshot().Rules), 3)
	w.want("id in the snapshot", status.RoutedID, w.id(loader.NameRule, "fw-b/routed"))
	w.want("frontends", len(w.dp.fronts), 3)
	w.reload(testConfig(routed()))
	w.want("without routes", w.id(loader.NameRule, "fw-b/routed"), 0)
	w.want("routes", w.routes(), "")
}

// Which changes end the connections of a next hop, by its epoch.
func TestConnectionsEndWhereARouteTakesLess(t *testing.T) {
	a, b := testRoute("a", "203.0.113.0/24", "fw-a", 1000), testRoute("b", "198.51.100.0/24", "fw-a", 1000)
	tests := []struct {
		name     string
		old, now []lb.Route
		edit     func(*lb.Config)
		ends     bool
	}{
		{name: "nothing changes", old: []lb.Route{a, b}, now: []lb.Route{b, a}},
		{name: "a route more", old: []lb.Route{a}, now: []lb.Route{a, b}},
		{name: "another priority or name", old: []lb.Route{a}, now: []lb.Route{testRoute("c", "203.0.113.0/24", "fw-a", 5)}},
		{name: "a route less", old: []lb.Route{a, b}, now: []lb.Route{a}, ends: true},
		{name: "another destination", old: []lb.Route{a}, now: []lb.Route{b}, ends: true},
		{name: "a restriction", old: []lb.Route{a}, now: []lb.Route{testRoute("a", "203.0.113.0/24", "fw-a", 1000, from("10.0.0.0/8"))}, ends: true},
		{name: "other ports of the rule", old: []lb.Route{a}, now: []lb.Route{a}, edit: func(cfg *lb.Config) { cfg.Rule("fw-a").Ports = []uint16{443} }},
		{name: "another address of the rule", old: []lb.Route{a}, now: []lb.Route{a}, ends: true, edit: func(cfg *lb.Config) {
			cfg.Rule("fw-a").Address = netip.MustParsePrefix("192.0.2.99/32")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, testConfig(routed(tt.old...)))
			before := w.rule("fw-a/routed").Epoch
			edits := []func(*lb.Config){routed(tt.now...)}
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			w.reload(testConfig(edits...))
			w.want("ends", w.rule("fw-a/routed").Epoch != before, tt.ends)
		})
	}
}

// The gateway gets and loses addresses while it runs.
func TestAddressesOfTheGatewayAreFollowed(t *testing.T) {
	w := newWorld(t, testConfig(routed(testRoute("r1", "203.0.113.0/24", "fw-a", 0))))
	epoch := w.rule("fw-a/routed").Epoch
	step := func(h Host, routes string, ends bool) {
		t.Helper()
		w.e.SetHost(h)
		w.reconcile()
		w.want("routes", w.routes(), routes)
		now := w.rule("fw-a/routed").Epoch
		w.want("connections end", now != epoch, ends)
		epoch = now
	}
	step(host("198.51.100.7/24"), "203.0.113.0/24: fw-a\n", false)
	step(host("198.51.100.7/24", "203.0.113.77/32"), "203.0.113.0/24: fw-a\n203.0.113.77/32:\n", true)
	writes := len(w.dp.writes)
	step(host("203.0.113.77/32", "198.51.100.7/24"), "203.0.113.0/24: fw-a\n203.0.113.77/32:\n", false)
	w.want("writes of what is there", len(w.dp.writes), writes)
	step(host("203.0.113.77/24"), "", true)
	w.want("subnet that holds it", w.e.Snapshot().Routes[0].Within, "203.0.113.0/24")
	step(host("198.51.100.7/24"), "203.0.113.0/24: fw-a\n", false)
	w.want("subnet that holds it", w.e.Snapshot().Routes[0].Within.IsValid(), false)
}

// A restarted daemon gives a next hop its id again and keeps its connections.
func TestRestartKeepsNextHops(t *testing.T) {
	cfg := testConfig(routed(testRoute("r1", "203.0.113.0/24", "fw-a", 0)))
	w := newWorld(t, cfg)
	id, record := w.id(loader.NameRule, "fw-a/routed"), w.rule("fw-a/routed")
	w.dp.restart()
	w.start(cfg)
	w.want("id", w.id(loader.NameRule, "fw-a/routed"), id)
	w.want("record", w.rule("fw-a/routed"), record)
	w.want("routes", w.routes(), "203.0.113.0/24: fw-a\n")
	w.dp.restart()
	w.start(testConfig(routed()))
	w.want("without the route", w.id(loader.NameRule, "fw-a/routed"), 0)
}
