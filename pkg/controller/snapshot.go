package controller

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// Snapshot is the state of the engine at one moment, for status, metrics and
// traces. It shares nothing with the engine.
type Snapshot struct {
	Services []ServiceStatus
	Rules    []RuleStatus
	Routes   []RouteStatus
	Zones    []ZoneStatus
}

// ServiceStatus is one backend service with its members of one address family.
type ServiceStatus struct {
	Name    string
	IPv6    bool // the family
	ID      uint32
	Kind    selector.Kind
	Pool    string // "primary", "failover" or "" before the first selection
	Members []MemberStatus
}

// MemberStatus is one backend of one service.
type MemberStatus struct {
	ID       uint32
	Backend  lb.Backend
	State    lb.HealthState // DRAINING while it drains
	Health   lb.HealthState // as checked
	Weight   lb.Weight
	Eligible bool // member of the original eligible set
	Link     Link
	// SentTo is where packets to it are sent: the end of its tunnel, or its
	// own address.
	SentTo netip.Addr
	Tunnel TunnelStatus // Kind is L2 where there is none
	// Leaving: no longer configured, here until its drain ends.
	Leaving  bool
	DrainEnd time.Time // zero when it does not drain
	// StatBase is the first of the counters, one per rule of the service.
	StatBase uint32
}

// RuleStatus is one forwarding rule.
type RuleStatus struct {
	Rule     lb.ForwardingRule
	ID       uint32
	StatSlot uint32
	// RoutedID is the id of its use as the next hop of routes, 0 for none.
	RoutedID uint32
}

// RouteStatus is one route.
type RouteStatus struct {
	Route lb.Route
	// Within is the gateway's own subnet that holds the destination; the route
	// is not in force then.
	Within netip.Prefix
}

// ZoneStatus is one zone.
type ZoneStatus struct {
	Name string
	ID   uint32
}

// Snapshot copies the state, everything sorted by name.
func (e *Engine) Snapshot() *Snapshot {
	out := &Snapshot{}
	for _, s := range e.units {
		out.Services = append(out.Services, e.serviceStatus(s))
	}
	slices.SortFunc(out.Services, func(a, b ServiceStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range e.rules {
		if r.routed {
			continue
		}
		status := RuleStatus{Rule: r.cfg, ID: r.id, StatSlot: uint32(r.record.StatSlot)}
		if routed := e.rules[routedName(r.cfg.Name)]; routed != nil {
			status.RoutedID = routed.id
		}
		out.Rules = append(out.Rules, status)
	}
	if e.cfg != nil {
		for _, t := range e.cfg.Routes {
			out.Routes = append(out.Routes, RouteStatus{Route: t, Within: e.within(t.Dest)})
		}
	}
	slices.SortFunc(out.Rules, func(a, b RuleStatus) int { return cmp.Compare(a.Rule.Name, b.Rule.Name) })
	for name, id := range e.zoneIDs.byName {
		out.Zones = append(out.Zones, ZoneStatus{Name: name, ID: id})
	}
	slices.SortFunc(out.Zones, func(a, b ZoneStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (e *Engine) serviceStatus(s *service) ServiceStatus {
	out := ServiceStatus{Name: s.name, IPv6: s.key.ipv6, ID: s.id, Kind: s.plan.Kind}
	switch s.pool {
	case poolPrimary:
		out.Pool = "primary"
	case poolFailover:
		out.Pool = "failover"
	}
	eligible := make(map[*member]bool, len(s.order))
	if s.plan.NoZone != selector.NoSet && s.plan.NoZone < len(s.plan.Sets) {
		for _, i := range s.plan.Sets[s.plan.NoZone].Members {
			eligible[s.order[i]] = true
		}
	}
	members := s.sorted()
	out.Members = make([]MemberStatus, len(members))
	for i, m := range members {
		out.Members[i] = m.status()
		out.Members[i].Tunnel = e.tunnelStatus(s, m)
		out.Members[i].Eligible = eligible[m]
	}
	return out
}

func (m *member) status() MemberStatus {
	status := MemberStatus{
		ID: m.id, Backend: m.backend, State: m.state(), Health: m.health.State, Weight: m.health.Weight,
		Link: m.path.link, SentTo: m.path.addr, Leaving: m.gone, StatBase: m.record.StatBase,
	}
	if m.draining {
		status.DrainEnd = m.drainEnd
	}
	return status
}

// sorted lists all members, also those that are leaving. Most often that is who
// is configured.
func (s *service) sorted() []*member {
	if !s.stale && len(s.order) == len(s.members) {
		return s.order
	}
	all := slices.Collect(maps.Values(s.members))
	slices.SortFunc(all, func(a, b *member) int { return compareKeys(a.key, b.key) })
	return all
}
