package differential

import (
	"fmt"
	"net/netip"
	"slices"

	"l4lb/pkg/lb"
)

// The interfaces that routes may be restricted to: where all packets come in,
// and one where none do.
const (
	here      = "eth0"
	elsewhere = "eth1"
)

// addRoute makes a rule the next hop of a destination of its family.
func addRoute(r random, cfg *lb.Config) {
	t := lb.Route{Name: fmt.Sprintf("route-%d", r.IntN(6)), Dest: choose(r, destinations...), Priority: choose[uint16](r, 0, 1000, 1000)}
	used := func(o lb.Route) bool { return o.Name == t.Name }
	if len(cfg.Rules) == 0 || slices.ContainsFunc(cfg.Routes, used) {
		return
	}
	rule := cfg.Rules[r.IntN(len(cfg.Rules))]
	if t.Rule = rule.Name; rule.Address.Addr().Is4() != t.Dest.Addr().Is4() {
		return
	}
	if r.oneIn(3) {
		for _, p := range clientRanges {
			if r.oneIn(3) && p.Addr().Is4() == t.Dest.Addr().Is4() {
				t.Sources = append(t.Sources, p)
			}
		}
	}
	if r.oneIn(4) {
		t.Interfaces = choose(r, []string{here}, []string{elsewhere}, []string{elsewhere, here})
	}
	cfg.Routes = append(cfg.Routes, t)
}

// changeRoutes adds routes, takes one away, or gives one another place or next
// hop.
func changeRoutes(r random, cfg *lb.Config) {
	if len(cfg.Routes) < 2 || r.oneIn(2) {
		for range 3 {
			addRoute(r, cfg)
		}
		return
	}
	i := r.IntN(len(cfg.Routes))
	t := &cfg.Routes[i]
	switch r.IntN(3) {
	case 0:
		cfg.Routes = slices.Delete(cfg.Routes, i, i+1)
	case 1:
		t.Priority = choose[uint16](r, 0, 1000, 65535)
	case 2:
		t.Sources, t.Interfaces = nil, nil
	}
}

// dropRoutes takes away the routes whose rule is gone or has an address of the
// other family.
func dropRoutes(cfg *lb.Config) {
	cfg.Routes = slices.DeleteFunc(cfg.Routes, func(t lb.Route) bool {
		rule := cfg.Rule(t.Rule)
		return rule == nil || family(rule.Address) != family(t.Dest)
	})
}

func family(p netip.Prefix) bool { return p.Addr().Is4() }
