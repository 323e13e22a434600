package config

import (
	"net/netip"

	"l4lb/pkg/lb"
)

func forwardingRuleSchema() *schema[forwardingRule] {
	return object(
		scalar("name", func(f *forwardingRule) *val[string] { return &f.name }, resourceName),
		scalar("loadBalancingScheme", func(f *forwardingRule) *val[string] { return &f.scheme }, scheme()),
		scalar("IPAddress", func(f *forwardingRule) *val[netip.Prefix] { return &f.address }, frontend),
		scalar("ipVersion", func(f *forwardingRule) *val[string] { return &f.ipVersion }, oneOf("IPV4", "IPV6")),
		scalar("IPProtocol", func(f *forwardingRule) *val[lb.RuleProtocol] { return &f.protocol },
			oneOfExcept(otherProtocols(), lb.RuleTCP, lb.RuleUDP, lb.RuleL3Default)),
		noting(scalars("ports", func(f *forwardingRule) *[]val[uint16] { return &f.ports }, portNumber),
			func(f *forwardingRule, e *entry) { f.portsAt = e.keyPos }),
		scalar("allPorts", func(f *forwardingRule) *val[bool] { return &f.allPorts }, boolean),
		scalar("backendService", func(f *forwardingRule) *val[string] { return &f.service }, reference),
		scalar("allowGlobalAccess", func(f *forwardingRule) *val[bool] { return &f.global }, boolean),
		scalar("isMirroringCollector", func(f *forwardingRule) *val[bool] { return &f.mirroring }, boolean),
		nested("l4lb", func(f *forwardingRule, _ *entry) *ruleExtension { return &f.extension }, ruleExtensionSchema()),
		only[forwardingRule]("serviceLabel", "no names are registered", ""),
	).ignore(outputOnly()...).ignore(
		"network", "subnetwork", "networkTier", "labels", "labelFingerprint", "serviceName",
	).refuse(map[string]string{
		"portRange":      "an internal passthrough rule takes ports or allPorts",
		"target":         "a passthrough rule names its backendService",
		"sourceIpRanges": "it is of external load balancers only",
	})
}

func ruleExtensionSchema() *schema[ruleExtension] {
	number := integer(1, maxFlowRate)
	return object(
		noting(scalars("allowedSourceRanges", func(x *ruleExtension) *[]val[netip.Prefix] { return &x.ranges }, prefix),
			func(x *ruleExtension, e *entry) { x.rangesAt = e.keyPos }),
		scalar("newFlowsPerSecond", func(x *ruleExtension) *val[int] { return &x.rate }, number),
		scalar("newFlowsBurst", func(x *ruleExtension) *val[int] { return &x.burst }, number),
		scalar("newFlowsPerSecondPerSource", func(x *ruleExtension) *val[int] { return &x.sourceRate }, number),
		scalar("newFlowsBurstPerSource", func(x *ruleExtension) *val[int] { return &x.sourceBurst }, number),
		scalar("sourcePrefixLength", func(x *ruleExtension) *val[int] { return &x.sourcePrefix }, integer(1, 128)),
	)
}

func otherProtocols() map[string]string {
	const reason = "a rule for one protocol besides TCP and UDP does not exist, L3_DEFAULT takes all"
	out := map[string]string{}
	for _, p := range []string{"ICMP", "ICMPV6", "SCTP", "ESP", "AH", "GRE"} {
		out[p] = reason
	}
	return out
}

func routeSchema() *schema[route] {
	const reason = "the next hop of a route is nextHopIlb"
	refused := map[string]string{"tags": "there are no network tags, the route applies to every packet that reaches the gateway"}
	for _, key := range []string{
		"nextHopGateway", "nextHopInstance", "nextHopIp", "nextHopVpnTunnel",
		"nextHopNetwork", "nextHopPeering", "nextHopHub",
	} {
		refused[key] = reason
	}
	from := object(
		scalars("sourceRanges", func(x *routeExtension) *[]val[netip.Prefix] { return &x.sources }, prefix),
		scalars("interfaces", func(x *routeExtension) *[]val[string] { return &x.interfaces }, interfaceName),
	)
	return object(
		scalar("name", func(r *route) *val[string] { return &r.name }, resourceName),
		scalar("destRange", func(r *route) *val[netip.Prefix] { return &r.dest }, prefix),
		scalar("priority", func(r *route) *val[int] { return &r.priority }, integer(0, 65535)),
		scalar("nextHopIlb", func(r *route) *val[string] { return &r.nextHop }, nextHop),
		nested("l4lb", func(r *route, _ *entry) *routeExtension { return &r.from }, from),
	).ignore(outputOnly()...).ignore("network", "routeStatus", "routeType", "warnings", "asPaths").refuse(refused)
}

// nextHop is the name, URL or address of a forwarding rule.
func nextHop(n *node) (string, error) {
	if a, err := netip.ParseAddr(n.text); err == nil {
		return a.String(), checkUnicast(a)
	}
	return reference(n)
}
