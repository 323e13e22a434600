package config

import (
	"math"
	"time"

	"l4lb/pkg/lb"
)

// httpOnly are the API's session affinities that need a proxy.
func httpOnly() map[string]string {
	const reason = "it works on HTTP and a passthrough load balancer does not look into connections"
	return map[string]string{
		"GENERATED_COOKIE": reason, "HEADER_FIELD": reason,
		"HTTP_COOKIE": reason, "STRONG_COOKIE_AFFINITY": reason,
	}
}

func scheme() func(*node) (string, error) {
	const reason = "only internal passthrough load balancing exists here"
	return oneOfExcept(map[string]string{
		"EXTERNAL": reason, "EXTERNAL_MANAGED": reason, "INTERNAL_MANAGED": reason,
		"INTERNAL_SELF_MANAGED": reason,
	}, "INTERNAL")
}

func serviceSchema() *schema[service] {
	return object(
		scalar("name", func(s *service) *val[string] { return &s.name }, resourceName),
		scalar("loadBalancingScheme", func(s *service) *val[string] { return &s.scheme }, scheme()),
		scalar("protocol", func(s *service) *val[lb.Protocol] { return &s.protocol },
			oneOf(lb.ServiceTCP, lb.ServiceUDP, lb.ServiceUnspecified)),
		scalars("healthChecks", func(s *service) *[]val[string] { return &s.checks }, reference),
		scalar("sessionAffinity", func(s *service) *val[lb.SessionAffinity] { return &s.affinity },
			oneOfExcept(httpOnly(), lb.AffinityNone, lb.AffinityClientIP, lb.AffinityClientIPProto,
				lb.AffinityClientIPPortProto, lb.AffinityClientIPNoDestination)),
		scalar("localityLbPolicy", func(s *service) *val[lb.LocalityLbPolicy] { return &s.policy },
			oneOf(lb.PolicyMaglev, lb.PolicyWeightedMaglev, lb.PolicyRendezvous, lb.PolicyWeightedRendezvous)),
		nested("connectionTrackingPolicy", func(s *service, _ *entry) *tracking { return &s.tracking }, trackingSchema()),
		nested("connectionDraining", func(s *service, _ *entry) *draining { return &s.drain }, object(
			scalar("drainingTimeoutSec", func(d *draining) *val[time.Duration] { return &d.timeout }, seconds(0, 3600)),
		)),
		nested("failoverPolicy", func(s *service, _ *entry) *failoverPolicy {
			s.failover.set = true
			return &s.failover
		}, failoverSchema()),
		nested("networkPassThroughLbTrafficPolicy", func(s *service, _ *entry) *zonalAffinity { return &s.zonal }, object(
			nested("zonalAffinity", func(z *zonalAffinity, _ *entry) *zonalAffinity { return z }, zonalSchema()),
		)),
		objects("backends", func(s *service, n *node) *backend {
			s.backends = append(s.backends, backend{pos: n.pos})
			return &s.backends[len(s.backends)-1]
		}, backendSchema()),
		nested("subsetting", func(s *service, _ *entry) *subsetting { return &s.subset }, object(
			scalar("policy", func(s *subsetting) *val[string] { return &s.policy }, oneOf("NONE", "CONSISTENT_HASH_SUBSETTING")),
		)),
		nested("logConfig", func(s *service, _ *entry) *logConfig { return &s.log }, serviceLogSchema()),
		present("haPolicy", func(s *service) *val[bool] { return &s.haPolicy }),
		nested("l4lb", func(s *service, _ *entry) *extension { return &s.extension }, extensionSchema()),
		only[service]("affinityCookieTtlSec", "cookies need a proxy", "0"),
		only[service]("enableCDN", "caching needs a proxy", "false"),
	).ignore(outputOnly()...).ignore("network", "usedBy", "timeoutSec", "port", "portName")
}

func trackingSchema() *schema[tracking] {
	return object(
		scalar("trackingMode", func(t *tracking) *val[lb.TrackingMode] { return &t.mode }, oneOf(lb.PerConnection, lb.PerSession)),
		scalar("connectionPersistenceOnUnhealthyBackends", func(t *tracking) *val[lb.Persistence] { return &t.persistence },
			oneOf(lb.PersistDefault, lb.PersistNever, lb.PersistAlways)),
		scalar("idleTimeoutSec", func(t *tracking) *val[time.Duration] { return &t.idle }, idleTimeout),
		only[tracking]("enableStrongAffinity", "it is of external load balancers only", "false"),
	)
}

// idleTimeout leaves the range to the rule, which knows where the API's
// timeout can be set at all.
func idleTimeout(n *node) (time.Duration, error) {
	if v, ok := decimal(n.text); ok && v >= 0 && v <= math.MaxInt32 {
		return time.Duration(v) * time.Second, nil
	}
	return seconds(minIdleSec, maxIdleSec)(n)
}

func failoverSchema() *schema[failoverPolicy] {
	return object(
		scalar("failoverRatio", func(f *failoverPolicy) *val[lb.Ratio] { return &f.ratio }, ratio),
		scalar("dropTrafficIfUnhealthy", func(f *failoverPolicy) *val[bool] { return &f.drop }, boolean),
		scalar("disableConnectionDrainOnFailover", func(f *failoverPolicy) *val[bool] { return &f.disableDrain }, boolean),
	)
}

func zonalSchema() *schema[zonalAffinity] {
	return object(
		scalar("spillover", func(z *zonalAffinity) *val[lb.Spillover] { return &z.spillover },
			oneOf(lb.ZonalDisabled, lb.ZonalStayWithinZone, lb.ZonalSpillCrossZone)),
		scalar("spilloverRatio", func(z *zonalAffinity) *val[lb.Ratio] { return &z.ratio }, ratio),
	)
}

func backendSchema() *schema[backend] {
	const capacity = "internal passthrough load balancing has no capacity limits"
	limits := map[string]string{}
	for _, key := range []string{
		"maxConnections", "maxConnectionsPerInstance", "maxConnectionsPerEndpoint",
		"maxRate", "maxRatePerInstance", "maxRatePerEndpoint", "maxUtilization",
	} {
		limits[key] = capacity + ", remove it"
	}
	return object(
		scalar("group", func(b *backend) *val[string] { return &b.group }, reference),
		scalar("failover", func(b *backend) *val[bool] { return &b.failover }, boolean),
		only[backend]("balancingMode", capacity, "CONNECTION"),
		only[backend]("capacityScaler", capacity, "1", "1.0"),
	).ignore("description").refuse(limits)
}

func serviceLogSchema() *schema[logConfig] {
	return object(
		scalar("enable", func(l *logConfig) *val[bool] { return &l.enable }, boolean),
		scalar("sampleRate", func(l *logConfig) *val[lb.Ratio] { return &l.rate }, ratio),
		scalar("optionalMode", func(l *logConfig) *val[string] { return &l.mode },
			oneOf("EXCLUDE_ALL_OPTIONAL", "INCLUDE_ALL_OPTIONAL", "CUSTOM")),
		present("optionalFields", func(*logConfig) *val[bool] { return new(val[bool]) }),
	)
}

func extensionSchema() *schema[extension] {
	return object(
		scalar("forwarding", func(x *extension) *val[lb.Forwarding] { return &x.forwarding },
			oneOf(lb.ForwardL2, lb.ForwardIPIP, lb.ForwardGUE, lb.ForwardGENEVE)),
		scalar("idleTimeoutSec", func(x *extension) *val[time.Duration] { return &x.idle }, seconds(1, maxIdleSec)),
		scalar("failoverDrainTimeoutSec", func(x *extension) *val[time.Duration] { return &x.failoverDrain }, seconds(0, 3600)),
		scalar("guePort", func(x *extension) *val[uint16] { return &x.guePort }, portNumber),
		scalar("genevePort", func(x *extension) *val[uint16] { return &x.genevePort }, portNumber),
		scalar("geneveVni", func(x *extension) *val[int] { return &x.geneveVNI }, integer(0, 1<<24-1)),
		scalar("mssClamp", func(x *extension) *val[bool] { return &x.mssClamp }, boolean),
		scalar("probe", func(x *extension) *val[lb.ProbeTo] { return &x.probe }, oneOf(lb.ProbeVIP, lb.ProbeDirect)),
		nested("passiveSignals", func(x *extension, e *entry) *passiveSignals {
			x.passive.pos = e.keyPos
			return &x.passive
		}, passiveSchema()),
	)
}
