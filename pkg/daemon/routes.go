package daemon

import (
	"fmt"

	"l4lb/pkg/admin"
)

// routes lists the routes as they are configured.
func (v *view) routes() []admin.Route {
	out := []admin.Route{}
	for i := range v.snapshot.Routes {
		s := &v.snapshot.Routes[i]
		row := admin.Route{
			Name: s.Route.Name, DestRange: s.Route.Dest.String(), Priority: s.Route.Priority, NextHop: s.Route.Rule,
			SourceRanges: []string{}, Interfaces: append([]string{}, s.Route.Interfaces...), InForce: !s.Within.IsValid(),
		}
		if rule := v.cfg.Rule(s.Route.Rule); rule != nil {
			row.Service = rule.Service
		}
		for _, p := range s.Route.Sources {
			row.SourceRanges = append(row.SourceRanges, p.String())
		}
		out = append(out, row)
	}
	return out
}

// routeProblems names the routes that are not in force.
func (v *view) routeProblems() []string {
	var out []string
	for i := range v.snapshot.Routes {
		if s := &v.snapshot.Routes[i]; s.Within.IsValid() {
			out = append(out, fmt.Sprintf("route %s is not in force: its destination %s is in %s, a subnet of the gateway",
				s.Route.Name, s.Route.Dest, s.Within))
		}
	}
	return out
}
