package differential

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// newConfig is a random configuration that pkg/config could have let in.
func newConfig(r random) *lb.Config {
	cfg := &lb.Config{Gateway: lb.Gateway{HashSeed: hashSeed}}
	for i := range groupCount {
		cfg.Groups = append(cfg.Groups, newGroup(r, i))
	}
	mapClients(r, cfg)
	for range 1 + r.IntN(3) {
		addService(r, cfg)
	}
	for range 4 + r.IntN(8) {
		addRule(r, cfg)
	}
	for range r.IntN(4) {
		addRoute(r, cfg)
	}
	return cfg
}

func newGroup(r random, i int) lb.Group {
	g := lb.Group{Name: fmt.Sprintf("group-%d", i), Zone: choose(r, zoneNames...)}
	for n := range groupCapacity {
		if r.oneIn(2) {
			g.Endpoints = append(g.Endpoints, endpoints(i, n)...)
		}
	}
	return g
}

func endpoints(group, number int) []lb.Endpoint {
	var list []lb.Endpoint
	for _, addr := range endpointAddresses(group, number) {
		list = append(list, lb.Endpoint{Instance: instanceName(group, number), Addr: addr})
	}
	return list
}

// mapClients puts each client range somewhere.
func mapClients(r random, cfg *lb.Config) {
	m := lb.ClientMap{}
	for _, name := range zoneNames {
		m.Zones = append(m.Zones, lb.Zone{Name: name})
	}
	for _, p := range clientRanges {
		switch r.IntN(8) {
		case 0: // in no zone
		case 1:
			m.Incompatible = append(m.Incompatible, p)
		case 2:
			m.OtherRegion = append(m.OtherRegion, p)
		default:
			z := &m.Zones[r.IntN(len(m.Zones))]
			z.ClientRanges = append(z.ClientRanges, p)
		}
	}
	cfg.Clients = m
}

func addService(r random, cfg *lb.Config) {
	s := lb.Service{Name: fmt.Sprintf("service-%d", r.IntN(4)), Protocol: lb.ServiceUnspecified, HealthCheck: "check", Forwarding: lb.ForwardL2}
	if cfg.Service(s.Name) != nil {
		return
	}
	if r.oneIn(8) {
		s.HealthCheck = ""
	}
	for _, group := range groupsOf(s.Name) {
		if r.oneIn(2) || len(s.Backends) == 0 && !r.oneIn(4) {
			s.Backends = append(s.Backends, lb.BackendRef{Group: group, Failover: r.oneIn(4)})
		}
	}
	s.Affinity, s.LocalityLbPolicy = affinity(r), locality(r)
	s.Tracking, s.Zonal, s.DrainTimeout = tracking(r), zonal(r), drainTimeout(r)
	s.Failover = failover(r)
	fixService(&s)
	cfg.Services = append(cfg.Services, s)
}

// groupsOf are the groups that a service may have.
func groupsOf(service string) []string {
	var names []string
	for i := range groupCount {
		if (service >= "service-2") == (i >= dualStackFrom) {
			names = append(names, fmt.Sprintf("group-%d", i))
		}
	}
	return names
}

// fixService keeps what pkg/config promises.
func fixService(s *lb.Service) {
	if s.Tracking.Mode == lb.PerSession && s.Tracking.Persistence == lb.PersistAlways {
		s.Tracking.Persistence = lb.PersistDefault
	}
	isFailover := func(b lb.BackendRef) bool { return b.Failover }
	if s.Failover == nil && slices.ContainsFunc(s.Backends, isFailover) {
		s.Failover = &lb.FailoverPolicy{DrainTimeout: 20 * time.Second}
	}
}

func affinity(r random) lb.SessionAffinity {
	return choose(r, lb.AffinityNone, lb.AffinityClientIPPortProto, lb.AffinityClientIPProto, lb.AffinityClientIP, lb.AffinityClientIPNoDestination)
}

// locality is mostly the filling that takes less time.
func locality(r random) lb.LocalityLbPolicy {
	switch {
	case r.oneIn(20):
		return choose(r, lb.PolicyRendezvous, lb.PolicyWeightedRendezvous)
	case r.oneIn(3):
		return lb.PolicyWeightedMaglev
	}
	return lb.PolicyMaglev
}

func tracking(r random) lb.Tracking {
	return lb.Tracking{
		Mode:        choose(r, lb.PerConnection, lb.PerSession),
		Persistence: choose(r, lb.PersistDefault, lb.PersistDefault, lb.PersistNever, lb.PersistAlways),
		IdleTimeout: choose[time.Duration](r, 5, 20, 60, 600) * time.Second,
	}
}

func zonal(r random) lb.ZonalAffinity {
	switch r.IntN(4) {
	case 0:
		return lb.ZonalAffinity{Spillover: lb.ZonalStayWithinZone}
	case 1:
		return lb.ZonalAffinity{Spillover: lb.ZonalSpillCrossZone}
	case 2:
		return lb.ZonalAffinity{Spillover: lb.ZonalSpillCrossZone, SpilloverRatio: ratio(r)}
	}
	return lb.ZonalAffinity{Spillover: lb.ZonalDisabled}
}

func ratio(r random) lb.Ratio {
	return choose(r, lb.Ratio(250_000), 333_333, 500_000, 600_000, 800_000, lb.RatioOne)
}

func drainTimeout(r random) time.Duration {
	return choose[time.Duration](r, 0, 3, 10, 45) * time.Second
}

func failover(r random) *lb.FailoverPolicy {
	if r.oneIn(2) {
		return nil
	}
	p := &lb.FailoverPolicy{
		DropTrafficIfUnhealthy: r.oneIn(3), DisableConnectionDrain: r.oneIn(3),
		DrainTimeout: choose[time.Duration](r, 0, 4, 15, 40) * time.Second,
	}
	if r.oneIn(2) {
		p.Ratio = ratio(r)
	}
	return p
}

// addRule adds a rule, if one can be had that no other collides with.
func addRule(r random, cfg *lb.Config) {
	f := lb.ForwardingRule{Name: fmt.Sprintf("rule-%d", r.IntN(9))}
	if cfg.Rule(f.Name) != nil || len(cfg.Services) == 0 {
		return
	}
	changeRule(r, cfg, &f)
	if !collides(cfg, &f) {
		cfg.Rules = append(cfg.Rules, f)
	}
}

func changeRule(r random, cfg *lb.Config, f *lb.ForwardingRule) {
	f.Address = choose(r, vips...)
	f.Protocol = choose(r, lb.RuleTCP, lb.RuleTCP, lb.RuleUDP, lb.RuleL3Default)
	f.Service = cfg.Services[r.IntN(len(cfg.Services))].Name
	f.AllowGlobalAccess = r.oneIn(2)
	changePorts(r, f)
	changeAdmission(r, f)
}

// changeAdmission has rates whose flows take whole sixteenths of a nanosecond
// each: the program rounds others down.
func changeAdmission(r random, f *lb.ForwardingRule) {
	f.Admission = lb.Admission{}
	rate := func() lb.FlowRate {
		return lb.FlowRate{PerSecond: choose[uint32](r, 1, 2, 5, 20), Burst: choose[uint32](r, 1, 2, 7)}
	}
	if r.oneIn(4) {
		f.Admission.AllowedSources = sources(r, f.Address.Addr().Is4())
	}
	if r.oneIn(6) {
		f.Admission.Flows = rate()
	}
	if r.oneIn(6) {
		f.Admission.SourceFlows, f.Admission.SourcePrefix = rate(), choose(r, 16, 24, 32)
	}
}

// sources are client ranges of a family, some of them longer or shorter.
func sources(r random, ipv4 bool) []netip.Prefix {
	var list []netip.Prefix
	for _, p := range clientRanges {
		if p.Addr().Is4() != ipv4 || r.oneIn(3) {
			continue
		}
		if r.oneIn(3) {
			p, _ = p.Addr().Prefix(min(p.Bits()+r.IntN(17)-8, p.Addr().BitLen()))
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		list = append(list, netip.PrefixFrom(choose(r, clients[0], clients[9]), 16).Masked())
		if list[0].Addr().Is4() != ipv4 {
			return sources(r, ipv4)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

func changePorts(r random, f *lb.ForwardingRule) {
	f.Ports, f.AllPorts = nil, f.Protocol == lb.RuleL3Default || r.oneIn(3)
	for _, port := range ports {
		if !f.AllPorts && (r.oneIn(2) || port == 80) {
			f.Ports = append(f.Ports, port)
		}
	}
}

// collides reports whether a packet could match the rule and another one of the
// same kind. All ports beside single ports are let in: the more specific wins.
func collides(cfg *lb.Config, f *lb.ForwardingRule) bool {
	for _, o := range cfg.Rules {
		if o.Name == f.Name || o.Address != f.Address || o.Protocol != f.Protocol || o.AllPorts != f.AllPorts {
			continue
		}
		if f.AllPorts || slices.ContainsFunc(f.Ports, func(p uint16) bool { return slices.Contains(o.Ports, p) }) {
			return true
		}
	}
	return false
}
