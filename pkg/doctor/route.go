package doctor

import (
	"context"
	"fmt"
	"slices"

	"l4lb/pkg/lb"
)

// checkForwarding matters to routes alone: of packets for a VIP the kernel gets
// none.
func checkForwarding(_ context.Context, g *gateway) ([]Finding, error) {
	var out []Finding
	for _, family := range []struct {
		key  string
		ipv6 bool
	}{{"ipv4/ip_forward", false}, {"ipv6/conf/all/forwarding", true}} {
		if !slices.ContainsFunc(g.Config.Routes, func(r lb.Route) bool { return r.Dest.Addr().Is6() == family.ipv6 }) {
			continue
		}
		value, err := sysctl(family.key)
		if err != nil {
			return out, err
		}
		if value == "0" {
			out = append(out, forwardFinding(family.ipv6))
		}
	}
	return unlessFound(out, well("", "for %d routes", len(g.Config.Routes))), nil
}

func forwardFinding(ipv6 bool) Finding {
	name := "net.ipv4.ip_forward"
	if ipv6 {
		name = "net.ipv6.conf.all.forwarding"
	}
	return Finding{
		Subject: name, Status: Warning, What: "the kernel does not forward, and there are routes",
		Why:  "what the program leaves to the kernel ends here: no time exceeded for traceroute, no way on for packets that a route's own backend sent",
		Mend: []string{"sysctl -w " + name + "=1"},
	}
}

// ownOnly reports whether a service's VIPs are no addresses of its backends that
// could be asked from here: they are next hops of routes, or a tunnel leads to the
// backends, and probes do not go that way.
func (g *gateway) ownOnly(s *lb.Service) bool {
	if s.Probe != lb.ProbeDirect {
		return false
	}
	if s.Forwarding != lb.ForwardL2 && s.Forwarding != "" {
		return true
	}
	var rules, hops int
	for i := range g.Config.Rules {
		r := &g.Config.Rules[i]
		if r.Service != s.Name {
			continue
		}
		rules++
		if slices.ContainsFunc(g.Config.Routes, func(t lb.Route) bool { return t.Rule == r.Name }) {
			hops++
		}
	}
	return rules > 0 && rules == hops
}

// directTrials asks each backend at its own address, by the service's check.
func (g *gateway) directTrials(s *lb.Service) (out []*trial, notes []Finding) {
	if s.Forwarding != lb.ForwardL2 && s.Forwarding != "" {
		f := Finding{
			Subject: s.Name, Status: Note, What: fmt.Sprintf("whether the %s tunnels end at its backends is not seen from here", s.Forwarding),
			Why: "its health checks go to the backends' own addresses", On: "each backend",
		}
		for _, vip := range g.vipsOf(s.Name) {
			f.Mend = append(f.Mend, fmt.Sprintf("l4lbd doctor --backend --vip %s --tunnel %s", vip, s.Forwarding))
		}
		notes = append(notes, f)
	}
	check := g.Config.HealthCheck(s.HealthCheck)
	if check == nil {
		return nil, append(notes, Finding{Subject: s.Name, Status: Note, What: "the service has no health check: nothing can be asked"})
	}
	for _, b := range g.Config.Backends(s) {
		t := &trial{peer: peer{b.Instance, b.Addr.Unmap()}, direct: true, way: s.Way(b), sentTo: b.SentTo(s.Forwarding).Unmap(), check: *check}
		if _, reached := g.ways[t.sentTo]; reached {
			g.fromDaemon(t, s.Name)
			out = append(out, t)
		}
	}
	return out, notes
}

// checkRouter looks at an appliance: a router that does not forward drops what a
// route brings it.
func checkRouter(_ context.Context, b *backend) ([]Finding, error) {
	if !b.Router {
		return []Finding{well("", "not asked for")}, nil
	}
	var out []Finding
	for _, family := range []struct{ name, key string }{
		{"net.ipv4.ip_forward", "ipv4/ip_forward"}, {"net.ipv6.conf.all.forwarding", "ipv6/conf/all/forwarding"},
	} {
		value, err := sysctl(family.key)
		if err != nil {
			return out, err
		}
		if value != "0" {
			continue
		}
		out = append(out, Finding{
			Subject: family.name, Status: Problem, What: "the kernel does not forward",
			Why:  "packets of the route are for others: they arrive, and are dropped without a trace",
			Mend: []string{"sysctl -w " + family.name + "=1"},
		})
	}
	return unlessFound(out, well("", "it does")), nil
}
