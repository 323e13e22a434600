package config

import (
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

const (
	defaultFlowEntries   = 1 << 20
	defaultAdminListen   = "unix:/run/l4lb/admin.sock"
	defaultFailoverDrain = 300 * time.Second // semantics.md 10.4
)

// build fills in the defaults. It is called only on a file without errors.
func build(c *check) *lb.Config {
	cfg := &lb.Config{Gateway: buildGateway(&c.gateway)}
	for i := range c.zones {
		z := &c.zones[i]
		cfg.Clients.Zones = append(cfg.Clients.Zones, lb.Zone{Name: z.name.v, ClientRanges: values(z.ranges)})
	}
	cfg.Clients.Incompatible = values(c.incompatible)
	cfg.Clients.OtherRegion = values(c.otherRegion)
	for i := range c.healthChecks {
		cfg.HealthChecks = append(cfg.HealthChecks, buildCheck(&c.healthChecks[i]))
	}
	for i := range c.groups {
		cfg.Groups = append(cfg.Groups, buildGroup(&c.groups[i]))
	}
	for i := range c.services {
		cfg.Services = append(cfg.Services, buildService(&c.services[i]))
	}
	for i := range c.rules {
		cfg.Rules = append(cfg.Rules, buildRule(&c.rules[i]))
	}
	for i := range c.routes {
		t := &c.routes[i]
		cfg.Routes = append(cfg.Routes, lb.Route{
			Name:       t.name.v,
			Dest:       t.dest.v,
			Priority:   uint16(t.priority.or(defaultRoutePriority)),
			Rule:       c.nextHopRule(t, false).name.v,
			Sources:    values(t.from.sources),
			Interfaces: values(t.from.interfaces),
		})
	}
	return cfg
}

func values[T any](list []val[T]) []T {
	var out []T
	for i := range list {
		out = append(out, list[i].v)
	}
	return out
}

func buildGateway(g *gateway) lb.Gateway {
	return lb.Gateway{
		Name:          g.name.v,
		Region:        g.region.v,
		Interfaces:    values(g.interfaces),
		XDPMode:       g.xdpMode.or(defaultXDPMode),
		FlowTable:     lb.FlowTable{Entries: uint32(g.flowTable.entries.or(defaultFlowEntries))},
		AdminListen:   g.adminListen.or(defaultAdminListen),
		MetricsListen: g.metricsListen.or(defaultMetricsListen),
		HashSeed:      g.hashSeed.v,
		TunnelSources: values(g.tunnelSources),
	}
}

func buildCheck(h *healthCheck) lb.HealthCheck {
	b := h.blocks[h.kind.v]
	if b == nil {
		b = &checkBlock{}
	}
	out := lb.HealthCheck{
		Name:               h.name.v,
		Type:               h.kind.v,
		CheckInterval:      h.interval.or(defaultCheckInterval),
		Timeout:            h.timeout.or(defaultCheckTimeout),
		HealthyThreshold:   h.healthy.or(defaultThreshold),
		UnhealthyThreshold: h.unhealthy.or(defaultThreshold),
		Port:               b.port.or(defaultCheckPort(h.kind.v)),
		ProxyHeader:        b.proxyHeader.or(lb.ProxyNone),
		Host:               b.host.v,
		Request:            b.request.v,
		Response:           b.response.v,
		GRPCServiceName:    b.grpcServiceName.v,
		LogEnabled:         h.log.enable.v,
		ServerName:         h.extension.serverName.v,
		VerifyCertificates: h.extension.verify.v,
	}
	if isHTTP(h.kind.v) {
		out.RequestPath = b.requestPath.or("/")
	}
	return out
}

func buildGroup(g *group) lb.Group {
	out := lb.Group{Name: g.name.v, Zone: g.zone.v}
	if len(g.endpoints) > 0 {
		out.Endpoints = make([]lb.Endpoint, len(g.endpoints))
	}
	for i := range g.endpoints {
		e := &g.endpoints[i]
		out.Endpoints[i] = lb.Endpoint{Instance: e.instance.v, Addr: e.addr.v, TunnelAddr: e.tunnel.v}
	}
	return out
}

func buildService(s *service) lb.Service {
	out := lb.Service{
		Name:             s.name.v,
		Protocol:         s.protocol.or(lb.ServiceTCP),
		Affinity:         s.affinity.or(lb.AffinityNone),
		LocalityLbPolicy: s.policy.or(lb.DefaultLocalityLbPolicy),
		Tracking: lb.Tracking{
			Mode:        s.tracking.mode.or(lb.PerConnection),
			Persistence: s.tracking.persistence.or(lb.PersistDefault),
			IdleTimeout: s.extension.idle.or(s.tracking.idle.or(defaultIdleTimeout)),
		},
		DrainTimeout: s.drain.timeout.v,
		Zonal: lb.ZonalAffinity{
			Spillover:      s.zonal.spillover.or(lb.ZonalDisabled),
			SpilloverRatio: s.zonal.ratio.v,
		},
		Forwarding: s.extension.forwarding.or(lb.ForwardL2),
		Tunnel:     s.extension.tunnel(),
		Probe:      s.extension.probe.or(lb.ProbeVIP),

		PassiveSignals: buildPassive(&s.extension.passive),
	}
	if len(s.checks) > 0 {
		out.HealthCheck = s.checks[0].v
	}
	if s.hasFailover() {
		out.Failover = &lb.FailoverPolicy{
			Ratio:                  s.failover.ratio.v,
			DropTrafficIfUnhealthy: s.failover.drop.v,
			DisableConnectionDrain: s.failover.disableDrain.v,
			DrainTimeout:           s.extension.failoverDrain.or(defaultFailoverDrain),
		}
	}
	for i := range s.backends {
		out.Backends = append(out.Backends, lb.BackendRef{Group: s.backends[i].group.v, Failover: s.backends[i].failover.v})
	}
	return out
}

func buildRule(f *forwardingRule) lb.ForwardingRule {
	ports := values(f.ports)
	slices.Sort(ports)
	return lb.ForwardingRule{
		Name:              f.name.v,
		Address:           f.address.v,
		Protocol:          f.protocol.or(lb.RuleTCP),
		Ports:             ports,
		AllPorts:          f.takesAllPorts(),
		Service:           f.service.v,
		AllowGlobalAccess: f.global.v,
		Admission:         buildAdmission(f),
	}
}

// buildAdmission lets a second's flows come at once where no burst is given. An
// IPv6 source is a /64: an end host has all of it to make addresses of.
func buildAdmission(f *forwardingRule) lb.Admission {
	x, source := &f.extension, 32
	if f.address.v.Addr().Is6() {
		source = 64
	}
	out := lb.Admission{
		AllowedSources: values(x.ranges),
		Flows:          lb.FlowRate{PerSecond: uint32(x.rate.v), Burst: uint32(x.burst.or(x.rate.v))},
		SourceFlows:    lb.FlowRate{PerSecond: uint32(x.sourceRate.v), Burst: uint32(x.sourceBurst.or(x.sourceRate.v))},
	}
	if x.sourceRate.set {
		out.SourcePrefix = x.sourcePrefix.or(source)
	}
	slices.SortFunc(out.AllowedSources, netip.Prefix.Compare)
	return out
}
