package differential

import (
	"slices"

	"l4lb/pkg/lb"
)

// reload is a changed copy of the configuration.
func reload(r random, old *lb.Config) *lb.Config {
	cfg := cloneConfig(old)
	for range r.IntN(4) { // none at times: a reload that changes nothing
		switch r.IntN(11) {
		case 0, 1:
			changeEndpoint(r, cfg)
		case 2:
			changeGroupRef(r, cfg)
		case 3:
			changeService(r, cfg)
		case 4:
			changeServices(r, cfg)
		case 5:
			changeSomeRule(r, cfg)
		case 6, 7, 8:
			changeRules(r, cfg)
		case 9:
			mapClients(r, cfg)
		case 10:
			changeRoutes(r, cfg)
		}
	}
	dropRoutes(cfg)
	return cfg
}

// cloneConfig copies what the changes write to.
func cloneConfig(old *lb.Config) *lb.Config {
	cfg := *old
	cfg.Groups = slices.Clone(old.Groups)
	for i := range cfg.Groups {
		cfg.Groups[i].Endpoints = slices.Clone(old.Groups[i].Endpoints)
	}
	cfg.Services = slices.Clone(old.Services)
	for i := range cfg.Services {
		cfg.Services[i].Backends = slices.Clone(old.Services[i].Backends)
	}
	cfg.Rules = slices.Clone(old.Rules)
	cfg.Routes = slices.Clone(old.Routes)
	return &cfg
}

// changeEndpoint adds an instance to a group or takes it away.
func changeEndpoint(r random, cfg *lb.Config) {
	i, n := r.IntN(len(cfg.Groups)), r.IntN(groupCapacity)
	g := &cfg.Groups[i]
	name := instanceName(i, n)
	if r.oneIn(8) {
		g.Zone = choose(r, zoneNames...)
	}
	before := len(g.Endpoints)
	g.Endpoints = slices.DeleteFunc(g.Endpoints, func(e lb.Endpoint) bool { return e.Instance == name })
	if len(g.Endpoints) == before {
		g.Endpoints = append(g.Endpoints, endpoints(i, n)...)
	}
}

// changeGroupRef attaches a group, detaches it, or changes its role.
func changeGroupRef(r random, cfg *lb.Config) {
	if len(cfg.Services) == 0 {
		return
	}
	s := &cfg.Services[r.IntN(len(cfg.Services))]
	name := choose(r, groupsOf(s.Name)...)
	at := slices.IndexFunc(s.Backends, func(b lb.BackendRef) bool { return b.Group == name })
	switch {
	case at < 0:
		s.Backends = append(s.Backends, lb.BackendRef{Group: name, Failover: r.oneIn(3)})
	case len(s.Backends) < 2 || r.oneIn(2):
		s.Backends[at].Failover = !s.Backends[at].Failover
	default:
		s.Backends = slices.Delete(s.Backends, at, at+1)
	}
	fixService(s)
}

func changeService(r random, cfg *lb.Config) {
	if len(cfg.Services) == 0 {
		return
	}
	s := &cfg.Services[r.IntN(len(cfg.Services))]
	switch r.IntN(8) {
	case 0:
		s.Affinity = affinity(r)
	case 1:
		s.Tracking = tracking(r)
	case 2:
		s.Tracking.IdleTimeout = tracking(r).IdleTimeout
	case 3:
		s.Zonal = zonal(r)
	case 4:
		s.Failover = failover(r)
	case 5:
		s.DrainTimeout = drainTimeout(r)
	case 6:
		s.LocalityLbPolicy = locality(r)
	case 7:
		s.Tracking.Persistence = tracking(r).Persistence
	}
	fixService(s)
}

// changeServices adds a service or takes one away with its rules.
func changeServices(r random, cfg *lb.Config) {
	if len(cfg.Services) < 2 || r.oneIn(2) {
		addService(r, cfg)
		return
	}
	i := r.IntN(len(cfg.Services))
	name := cfg.Services[i].Name
	cfg.Services = slices.Delete(cfg.Services, i, i+1)
	cfg.Rules = slices.DeleteFunc(cfg.Rules, func(f lb.ForwardingRule) bool { return f.Service == name })
}

// changeSomeRule changes a rule, if the result collides with none.
func changeSomeRule(r random, cfg *lb.Config) {
	if len(cfg.Rules) == 0 {
		return
	}
	i := r.IntN(len(cfg.Rules))
	f := cfg.Rules[i]
	switch r.IntN(7) {
	case 0:
		changeRule(r, cfg, &f)
	case 1:
		changePorts(r, &f)
	case 2:
		f.AllowGlobalAccess = !f.AllowGlobalAccess
	case 3:
		f.Service = cfg.Services[r.IntN(len(cfg.Services))].Name
	default:
		changeAdmission(r, &f)
	}
	if !collides(cfg, &f) {
		cfg.Rules[i] = f
	}
}

// changeRules adds rules or takes one away.
func changeRules(r random, cfg *lb.Config) {
	if len(cfg.Rules) < 4 || r.oneIn(2) {
		for range 3 {
			addRule(r, cfg)
		}
		return
	}
	i := r.IntN(len(cfg.Rules))
	cfg.Rules = slices.Delete(cfg.Rules, i, i+1)
}
