package controller

import (
	"fmt"
	"net/netip"
	"time"

	"l4lb/pkg/announce"
	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// apply gives a configuration to the engine and to what feeds it.
func (c *Controller) apply(cfg *lb.Config, now time.Time) error {
	if err := c.opts.Engine.SetConfig(cfg, now); err != nil {
		return fmt.Errorf("apply configuration: %w", err)
	}
	c.config.Store(cfg)
	c.setTargets(cfg)
	c.opts.Neighbours.SetTargets(c.opts.Engine.addresses())
	c.readLinks()
	return nil
}

// readLinks gives the engine the ways to all backends.
func (c *Controller) readLinks() {
	for addr, entry := range c.opts.Neighbours.Snapshot() {
		l := Link{Usable: entry.Usable(), IfIndex: uint32(entry.LinkIndex), MTU: entry.MTU, Source: entry.Source}
		if len(entry.MAC) != 6 || len(entry.SrcMAC) != 6 {
			l = Link{}
		} else {
			l.DMAC, l.SMAC = [6]byte(entry.MAC), [6]byte(entry.SrcMAC)
		}
		c.opts.Engine.SetLink(addr, l)
	}
	c.setPaths()
}

// announceAll tells the links which addresses are ours.
func (c *Controller) announceAll() {
	cfg := c.config.Load()
	var list []announce.Announcement
	seen := map[netip.Addr]bool{}
	for _, r := range cfg.Rules {
		if addr := r.Address.Addr(); r.Address.IsSingleIP() && !seen[addr] {
			seen[addr] = true
			for _, iface := range cfg.Gateway.Interfaces {
				list = append(list, announce.Announcement{Iface: iface, Addr: addr})
			}
		}
	}
	c.opts.Announcer.Set(list)
}

// logChanges logs what an operator would want to know: backends that change
// state, services that change pool, and routes that are not in force.
func (c *Controller) logChanges(s *Snapshot) {
	c.logRoutes(s)
	states := map[memberName]lb.HealthState{}
	kinds := map[unitKey]selector.Kind{}
	for _, svc := range s.Services {
		unit := unitKey{svc.Name, svc.IPv6}
		kinds[unit] = svc.Kind
		if old, ok := c.kinds[unit]; ok && old != svc.Kind {
			c.log.Info("eligible set changed", "service", svc.Name, "from", old, "to", svc.Kind)
		}
		for i := range svc.Members {
			m := &svc.Members[i]
			name := memberName{svc.Name, memberKey{m.Backend.Instance, m.Backend.Addr}}
			states[name] = m.State
			if old, ok := c.states[name]; ok && old != m.State {
				c.log.Info("backend changed", "service", svc.Name, "backend", m.Backend.Instance,
					"zone", m.Backend.Zone, "from", old, "to", m.State)
			}
		}
	}
	c.states, c.kinds = states, kinds
}

func (c *Controller) logRoutes(s *Snapshot) {
	within := map[string]netip.Prefix{}
	for _, t := range s.Routes {
		if t.Within.IsValid() && c.within[t.Route.Name] != t.Within {
			c.log.Warn("route is not in force: its destination is in a subnet of the gateway",
				"route", t.Route.Name, "destination", t.Route.Dest, "subnet", t.Within)
		}
		within[t.Route.Name] = t.Within
	}
	c.within = within
}
