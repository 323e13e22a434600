package controller

import (
	"net/netip"
	"slices"
	"testing"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// ranges gives the rule web-vip source ranges.
func ranges(list ...string) func(*lb.Config) {
	return webVIP(func(r *lb.ForwardingRule) {
		r.Admission.AllowedSources = nil
		for _, p := range list {
			r.Admission.AllowedSources = append(r.Admission.AllowedSources, netip.MustParsePrefix(p))
		}
	})
}

// connection is the entry of a TCP connection.
func connection(rule uint32, src, dst string, port uint16) conntrack.Record {
	return conntrack.Record{Src: addr(src), Dst: addr(dst), SrcPort: 4000, DstPort: port, Protocol: 6, Rule: rule}
}

// sources lists who has entries.
func (w *world) sources() (list []string) {
	for _, r := range w.dp.entries {
		list = append(list, r.Src.String())
	}
	return list
}

func TestAdmissionsAreWritten(t *testing.T) {
	limits := webVIP(func(r *lb.ForwardingRule) {
		r.Admission.Flows = lb.FlowRate{PerSecond: 10, Burst: 20}
		r.Admission.SourceFlows, r.Admission.SourcePrefix = lb.FlowRate{PerSecond: 1, Burst: 2}, 24
	})
	w := newWorld(t, testConfig(withOther))
	id := w.id(loader.NameRule, "web-vip")
	w.want("asks", w.dp.rules[id].SourceFilter || w.dp.rules[id].RateLimited, false)
	w.want("sweeps", w.dp.sweeps, 0)

	w.reload(testConfig(withOther, limits, ranges("10.0.0.0/8")))
	w.want("filter", w.dp.rules[id].SourceFilter, true)
	w.want("limited", w.dp.rules[id].RateLimited, true)
	first := w.dp.admissions[id]
	w.want("admission", first, loader.Admission{
		Ranges: first.Ranges, Flows: loader.FlowRate{PerSecond: 10, Burst: 20},
		SourceFlows: loader.FlowRate{PerSecond: 1, Burst: 2}, SourceBits: 96 + 24,
	})
	w.want("ranges", w.dp.ranges[first.Ranges][0].String(), "10.0.0.0/8")
	w.want("another rule", w.dp.rules[w.id(loader.NameRule, "other-vip")].SourceFilter, false)
	w.want("sweeps", w.dp.sweeps, 1)

	w.reload(testConfig(withOther, limits, ranges("10.0.0.0/8")))
	w.want("nothing changed", w.dp.admissions[id], first)
	w.want("sweeps", w.dp.sweeps, 1)

	w.reload(testConfig(withOther, limits, ranges("10.0.0.0/8", "198.51.100.0/24")))
	w.want("another set", w.dp.admissions[id].Ranges != first.Ranges, true)
	w.want("sets", len(w.dp.ranges), 1)

	w.reload(testConfig(withOther))
	w.want("asks nothing", w.dp.admissions[id], loader.Admission{})
	w.want("filter", w.dp.rules[id].SourceFilter || w.dp.rules[id].RateLimited, false)
	w.want("sets", len(w.dp.ranges), 0)

	w.reload(testConfig(withOther, ranges("10.0.0.0/8")))
	w.reload(testConfig(withOther, func(cfg *lb.Config) { cfg.Rules = cfg.Rules[1:] }))
	w.want("sets of a rule that is gone", len(w.dp.ranges), 0)
}

// Which entries a reload ends.
func TestSourcesThatAreLeftOutLoseTheirEntries(t *testing.T) {
	second := func(port uint16, list ...string) func(*lb.Config) {
		return func(cfg *lb.Config) {
			r := testRule("second", "192.0.2.10", "web", port)
			for _, p := range list {
				r.Admission.AllowedSources = append(r.Admission.AllowedSources, netip.MustParsePrefix(p))
			}
			cfg.Rules = append(cfg.Rules, r)
		}
	}
	all := webVIP(func(r *lb.ForwardingRule) { r.Ports, r.AllPorts = nil, true })
	tests := []struct {
		name   string
		before []func(*lb.Config)
		after  []func(*lb.Config)
		want   []string
	}{
		{"a filter", nil, []func(*lb.Config){ranges("10.1.0.0/16")}, []string{"10.1.0.1"}},
		{"a filter that holds all", nil, []func(*lb.Config){ranges("0.0.0.0/0")}, []string{"10.1.0.1", "10.2.0.1", "198.51.100.1"}},
		{"less", []func(*lb.Config){ranges("10.0.0.0/8")}, []func(*lb.Config){ranges("10.2.0.0/16")}, []string{"10.2.0.1"}},
		{"no filter any more", []func(*lb.Config){ranges("10.0.0.0/8")}, nil, []string{"10.1.0.1", "10.2.0.1", "198.51.100.1"}},
		{
			"a rule that takes the port",
			[]func(*lb.Config){all},
			[]func(*lb.Config){all, second(80, "10.0.0.0/8")},
			[]string{"10.1.0.1", "10.2.0.1"},
		},
		{
			"a rule for another port",
			[]func(*lb.Config){all},
			[]func(*lb.Config){all, second(22, "10.0.0.0/8")},
			[]string{"10.1.0.1", "10.2.0.1", "198.51.100.1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, testConfig(tt.before...))
			id := w.id(loader.NameRule, "web-vip")
			w.dp.entries = []conntrack.Record{
				connection(id, "10.1.0.1", "192.0.2.10", 80), connection(id, "10.2.0.1", "192.0.2.10", 80),
				connection(id, "198.51.100.1", "192.0.2.10", 80),
			}
			w.reload(testConfig(tt.after...))
			if got := w.sources(); !slices.Equal(got, tt.want) {
				t.Errorf("entries of %v, want %v", got, tt.want)
			}
		})
	}
}

// A session is given to a rule of its service that lets its source in, and ends
// where there is none.
func TestSessionsOfSourcesThatAreLeftOut(t *testing.T) {
	sticky := web(func(s *lb.Service) { s.Affinity, s.Tracking.Mode = lb.AffinityClientIP, lb.PerSession })
	second := func(cfg *lb.Config) {
		r := testRule("second", "192.0.2.12", "web", 80)
		r.Admission.AllowedSources = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}
		cfg.Rules = append(cfg.Rules, r)
	}
	w := newWorld(t, testConfig(sticky, second))
	first, other := w.id(loader.NameRule, "web-vip"), w.id(loader.NameRule, "second")
	for _, src := range []string{"10.1.0.1", "10.2.0.1", "10.3.0.1"} {
		w.dp.entries = append(w.dp.entries, conntrack.Record{
			Src: addr(src), Dst: addr("192.0.2.10"), Kind: conntrack.ClientIP, Service: w.rule("web-vip").Service, Rule: first,
		})
	}
	w.reload(testConfig(sticky, second, ranges("10.1.0.0/16")))
	if got := w.sources(); !slices.Equal(got, []string{"10.1.0.1", "10.2.0.1"}) {
		t.Fatalf("sessions of %v", got)
	}
	w.want("the session that is still let in", w.dp.entries[0].Rule, first)
	w.want("the session of the other rule", w.dp.entries[1].Rule, other)
}

// What an earlier run let in is not known, nor what the older program did until
// it was replaced.
func TestEntriesAreLookedAtAfterAStart(t *testing.T) {
	w := newWorld(t, testConfig())
	id := w.id(loader.NameRule, "web-vip")
	outside := connection(id, "198.51.100.1", "192.0.2.10", 80)
	w.dp.entries = []conntrack.Record{outside}
	w.dp.restart()
	w.start(testConfig(ranges("10.0.0.0/8")))
	w.want("entries", len(w.dp.entries), 0)
	w.dp.entries = []conntrack.Record{outside}
	w.e.Sweep()
	w.reconcile()
	w.want("entries after the program was replaced", len(w.dp.entries), 0)
	sweeps := w.dp.sweeps
	w.reconcile()
	w.want("sweeps", w.dp.sweeps, sweeps)
}
