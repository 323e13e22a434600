package controller

import (
	"fmt"
	"net/netip"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// Explain says which sets a client's new connections to a service go through,
// as things are now. Backends without a known link address count as unhealthy.
func (e *Engine) Explain(serviceName string, client netip.Addr) (selector.Explanation, error) {
	if e.cfg == nil || e.index.services[serviceName] == nil {
		return selector.Explanation{}, fmt.Errorf("backend service %q: %w", serviceName, ErrUnknown)
	}
	client = client.Unmap()
	s := e.unitOf(serviceName, client.Is6())
	out := selector.Explain(selectorMembers(s.configured()), s.policy(), e.cfg.Clients.Classify(client))
	out.Service, out.Client = serviceName, client.String()
	return out, nil
}

// ExplainOffline is the same for a configuration alone: every backend can be
// reached, and those that health does not name are healthy.
func ExplainOffline(cfg *lb.Config, serviceName string, client netip.Addr, health map[string]selector.Health) (selector.Explanation, error) {
	s := cfg.Service(serviceName)
	if s == nil {
		return selector.Explanation{}, fmt.Errorf("backend service %q: %w", serviceName, ErrUnknown)
	}
	client = client.Unmap()
	byFamily := map[bool][]selector.Member{}
	for _, b := range cfg.Backends(s) {
		h, ok := health[b.Instance]
		if !ok {
			h = selector.HealthOf(lb.Healthy)
		}
		byFamily[b.Addr.Is6()] = append(byFamily[b.Addr.Is6()], selector.Member{
			Instance: b.Instance, Addr: b.Addr, Zone: b.Zone, Failover: b.Failover, State: h.State, Weight: h.Weight,
		})
	}
	members := byFamily[client.Is6()]
	if len(members) == 0 {
		members = byFamily[!client.Is6()]
	}
	policy := selector.Policy{Failover: s.Failover, Zonal: s.Zonal, Weighted: s.LocalityLbPolicy.Weighted()}
	out := selector.Explain(members, policy, cfg.Clients.Classify(client))
	out.Service, out.Client = serviceName, client.String()
	return out, nil
}
