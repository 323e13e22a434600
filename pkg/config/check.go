package config

import "strings"

// check is what a rule works on: the file as written, indexes of its names,
// and the report. Of resources with one name the first is in the index.
type check struct {
	*source
	*report

	checkNamed   map[string]*healthCheck
	groupNamed   map[string]*group
	serviceNamed map[string]*service
	ruleNamed    map[string]*forwardingRule
	instances    map[*service]*membership
}

// rules lists every rule of the schema. Each judges one matter and knows
// nothing of the others; all of them always run.
func rules() []func(*check) {
	return []func(*check){
		requireGateway, uniqueInterfaces, distinctListeners,
		requireZoneNames, uniqueClientRanges,
		requireCheckFields, timeoutWithinInterval, blockMatchesType, grpcNeedsPort, tlsKeysNeedTLS,
		requireGroupFields, uniqueEndpoints,
		requireServiceFields, oneHealthCheck, serviceReferences, uniqueBackendGroups,
		oneAddressPerInstance, alwaysPersistNeedsPerConnection, idleTimeoutAllowed,
		spilloverRatioNeedsSpill, zonalExcludesSubsetting, unconfirmedShareAboveZero,
		requireRuleFields, ruleReferences, portsOrAllPorts, ruleMatchesService,
		ipVersionMatchesAddress, familyOfBackends, zonalExcludesMirroring,
		vipIsNoBackend, uniqueFrontends, usableSourceRanges, usableFlowRates,
		requireRouteFields, routeReferences, uniqueRoutes, routeCanMatch, routeSources, routeAlternatives,
		tunnelKeysNeedTheirTunnel, oneTunnelSourceOfAFamily,
	}
}

func newCheck(src *source, r *report) *check {
	c := &check{source: src, report: r, instances: map[*service]*membership{}}
	c.checkNamed = byName(r, "health check", src.healthChecks, func(h *healthCheck) val[string] { return h.name })
	c.groupNamed = byName(r, "group", src.groups, func(g *group) val[string] { return g.name })
	c.serviceNamed = byName(r, "backend service", src.services, func(s *service) val[string] { return s.name })
	c.ruleNamed = byName(r, "forwarding rule", src.rules, func(f *forwardingRule) val[string] { return f.name })
	byName(r, "zone", src.zones, func(z *zone) val[string] { return z.name })
	byName(r, "route", src.routes, func(t *route) val[string] { return t.name })
	return c
}

// byName indexes a list and reports the names that come twice.
func byName[T any](r *report, what string, list []T, name func(*T) val[string]) map[string]*T {
	out := make(map[string]*T, len(list))
	for i := range list {
		n := name(&list[i])
		if !n.ok() {
			continue
		}
		if first := out[n.v]; first != nil {
			r.errorf(n.pos, "duplicate name %q: line %d has a %s of that name, rename one", n.v, name(first).pos.line, what)
			continue
		}
		out[n.v] = &list[i]
	}
	return out
}

// require reports a key that is missing from the mapping at p.
func require[T any](r *report, p pos, v val[T], what, key, example string) {
	if !v.set {
		r.errorf(p, "%s without %s: add %s: %s", what, key, key, example)
	}
}

// resolve finds what a reference names, or reports that nothing has the name.
func resolve[T any](r *report, key, what string, ref val[string], index map[string]*T) *T {
	if !ref.ok() {
		return nil
	}
	if found := index[ref.v]; found != nil {
		return found
	}
	r.errorf(ref.pos, "%s %q does not exist: %s", key, ref.v, existing(ref.v, what, index))
	return nil
}

func existing[T any](name, what string, index map[string]*T) string {
	const listed = 8
	if len(index) == 0 {
		return "the file defines no " + what
	}
	names := sortedKeys(index)
	if near := nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	if len(names) > listed {
		return "define a " + what + " of that name or correct the reference"
	}
	return "the file defines " + strings.Join(names, ", ")
}
