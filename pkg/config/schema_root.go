package config

import (
	"net/netip"

	"l4lb/pkg/lb"
)

// outputOnly are the fields the API adds to every resource. An export has
// them; they say nothing about what the resource does.
func outputOnly() []string {
	return []string{
		"id", "kind", "selfLink", "selfLinkWithId", "creationTimestamp",
		"description", "fingerprint", "region",
	}
}

func rootSchema() *schema[source] {
	groups := groupSchema()
	addGroup := func(s *source, n *node) *group {
		s.groups = append(s.groups, group{pos: n.pos})
		return &s.groups[len(s.groups)-1]
	}
	return object(
		nested("l4lb", func(s *source, _ *entry) *source { return s }, l4lbSchema()),
		objects("healthChecks", func(s *source, n *node) *healthCheck {
			s.healthChecks = append(s.healthChecks, healthCheck{pos: n.pos})
			return &s.healthChecks[len(s.healthChecks)-1]
		}, healthCheckSchema()),
		objects("networkEndpointGroups", addGroup, groups),
		objects("instanceGroups", addGroup, groups),
		objects("backendServices", func(s *source, n *node) *service {
			s.services = append(s.services, service{pos: n.pos})
			return &s.services[len(s.services)-1]
		}, serviceSchema()),
		objects("forwardingRules", func(s *source, n *node) *forwardingRule {
			s.rules = append(s.rules, forwardingRule{pos: n.pos})
			return &s.rules[len(s.rules)-1]
		}, forwardingRuleSchema()),
		objects("routes", func(s *source, n *node) *route {
			s.routes = append(s.routes, route{pos: n.pos})
			return &s.routes[len(s.routes)-1]
		}, routeSchema()),
	)
}

func l4lbSchema() *schema[source] {
	return object(
		nested("gateway", func(s *source, e *entry) *gateway {
			s.gateway.pos, s.gateway.set = e.keyPos, true
			return &s.gateway
		}, gatewaySchema()),
		objects("zones", func(s *source, n *node) *zone {
			s.zones = append(s.zones, zone{pos: n.pos})
			return &s.zones[len(s.zones)-1]
		}, zoneSchema()),
		scalars("incompatibleClientRanges", func(s *source) *[]val[netip.Prefix] { return &s.incompatible }, prefix),
		scalars("otherRegionClientRanges", func(s *source) *[]val[netip.Prefix] { return &s.otherRegion }, prefix),
	)
}

func gatewaySchema() *schema[gateway] {
	const minEntries, maxEntries = 1 << 10, 1 << 27
	table := object(
		scalar("entries", func(f *flowTable) *val[int] { return &f.entries }, integer(minEntries, maxEntries)),
	)
	return object(
		scalar("name", func(g *gateway) *val[string] { return &g.name }, resourceName),
		scalar("region", func(g *gateway) *val[string] { return &g.region }, reference),
		scalars("interfaces", func(g *gateway) *[]val[string] { return &g.interfaces }, interfaceName),
		scalar("xdpMode", func(g *gateway) *val[lb.XDPMode] { return &g.xdpMode }, oneOf(lb.XDPNative, lb.XDPGeneric)),
		nested("flowTable", func(g *gateway, _ *entry) *flowTable { return &g.flowTable }, table),
		scalar("adminListen", func(g *gateway) *val[string] { return &g.adminListen }, adminListen),
		scalar("metricsListen", func(g *gateway) *val[string] { return &g.metricsListen }, metricsListen),
		scalar("hashSeed", func(g *gateway) *val[uint64] { return &g.hashSeed }, seed),
		scalars("tunnelSources", func(g *gateway) *[]val[netip.Prefix] { return &g.tunnelSources }, tunnelSource),
	)
}

func zoneSchema() *schema[zone] {
	return object(
		scalar("name", func(z *zone) *val[string] { return &z.name }, reference),
		scalars("clientRanges", func(z *zone) *[]val[netip.Prefix] { return &z.ranges }, prefix),
	).ignore(outputOnly()...)
}

func groupSchema() *schema[group] {
	endpoints := object(
		scalar("instance", func(e *endpoint) *val[string] { return &e.instance }, instanceReference),
		scalar("ipAddress", func(e *endpoint) *val[netip.Addr] { return &e.addr }, unicast),
		nested("l4lb", func(e *endpoint, _ *entry) *endpoint { return e }, object(
			scalar("tunnelAddress", func(e *endpoint) *val[netip.Addr] { return &e.tunnel }, unicast),
		)),
	).ignore("annotations").refuse(map[string]string{
		"port":        "packets keep their destination port on the way to a backend, remove it",
		"fqdn":        "a backend is given by its instance and ipAddress",
		"ipv6Address": "write a second endpoint of the same instance with the IPv6 address as its ipAddress",
	})
	const kindReason = "a passthrough load balancer sends packets to instances"
	return object(
		scalar("name", func(g *group) *val[string] { return &g.name }, resourceName),
		scalar("zone", func(g *group) *val[string] { return &g.zone }, reference),
		objects("networkEndpoints", func(g *group, n *node) *endpoint {
			g.endpoints = append(g.endpoints, endpoint{pos: n.pos})
			return &g.endpoints[len(g.endpoints)-1]
		}, endpoints),
		only[group]("networkEndpointType", kindReason, "GCE_VM_IP"),
	).ignore(outputOnly()...).ignore("network", "subnetwork", "size", "annotations", "namedPorts")
}
