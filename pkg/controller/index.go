package controller

import (
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// configIndex finds the resources of one configuration by name.
type configIndex struct {
	services map[string]*lb.Service
	groups   map[string]*lb.Group
	checks   map[string]*lb.HealthCheck
	// drains is the largest drain timeout of the services that share a group
	// (semantics.md 1.10).
	drains map[string]time.Duration
}

func indexConfig(cfg *lb.Config) *configIndex {
	x := &configIndex{
		services: make(map[string]*lb.Service, len(cfg.Services)),
		groups:   make(map[string]*lb.Group, len(cfg.Groups)),
		checks:   make(map[string]*lb.HealthCheck, len(cfg.HealthChecks)),
		drains:   make(map[string]time.Duration, len(cfg.Groups)),
	}
	for i := range cfg.Groups {
		x.groups[cfg.Groups[i].Name] = &cfg.Groups[i]
	}
	for i := range cfg.HealthChecks {
		x.checks[cfg.HealthChecks[i].Name] = &cfg.HealthChecks[i]
	}
	for i := range cfg.Services {
		s := &cfg.Services[i]
		x.services[s.Name] = s
		for _, ref := range s.Backends {
			x.drains[ref.Group] = max(x.drains[ref.Group], s.DrainTimeout)
		}
	}
	return x
}

// backends lists the members of a service in configuration order, as
// lb.Config.Backends does.
func (x *configIndex) backends(s *lb.Service) []lb.Backend {
	n := 0
	for _, ref := range s.Backends {
		if g := x.groups[ref.Group]; g != nil {
			n += len(g.Endpoints)
		}
	}
	out := make([]lb.Backend, 0, n)
	for _, ref := range s.Backends {
		g := x.groups[ref.Group]
		if g == nil {
			continue
		}
		for _, e := range g.Endpoints {
			out = append(out, lb.Backend{
				Instance: e.Instance, Addr: e.Addr,
				Zone: g.Zone, Group: g.Name, Failover: ref.Failover, TunnelAddr: e.TunnelAddr,
			})
		}
	}
	return out
}

// Link is how to reach a backend on the wire.
type Link struct {
	DMAC, SMAC [6]byte
	IfIndex    uint32
	// MTU is the longest packet that leaves by it, in bytes, and Source the
	// gateway's address towards the backend. Tunnels need them.
	MTU    int
	Source netip.Addr
	// Usable is false when the link address is not (or no longer) confirmed.
	// The address is then used for established connections only.
	Usable bool
}

// path is the link of an address, with the members that have the address.
type path struct {
	addr    netip.Addr
	link    Link
	known   bool // SetLink was called for the address
	members map[*member]*service
}

func (e *Engine) path(addr netip.Addr) *path {
	p := e.paths[addr]
	if p == nil {
		p = &path{addr: addr, members: map[*member]*service{}}
		e.paths[addr] = p
	}
	return p
}

// SetLink gives the way to a backend address.
func (e *Engine) SetLink(addr netip.Addr, l Link) {
	p := e.path(addr)
	if p.known && p.link == l {
		return
	}
	p.link, p.known = l, true
	for _, s := range p.members {
		s.dirty = true
	}
}

// addresses lists those of all members, also of those that are leaving, sorted.
func (e *Engine) addresses() []netip.Addr {
	var out []netip.Addr
	for addr, p := range e.paths {
		if len(p.members) > 0 {
			out = append(out, addr)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
