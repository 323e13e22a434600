package controller

import (
	"maps"
	"slices"

	"l4lb/pkg/encap"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/probe"
)

// setPaths tells what delivers probes where the backends are.
func (c *Controller) setPaths() {
	if c.opts.Probes == nil {
		return
	}
	var paths []probe.Path
	for addr, entry := range c.opts.Neighbours.Snapshot() {
		p := probe.Path{Backend: addr, Way: lb.Way{Forwarding: lb.ForwardL2}, IfIndex: entry.LinkIndex, MTU: entry.MTU}
		if len(entry.MAC) == 6 && len(entry.SrcMAC) == 6 {
			p.DMAC, p.SMAC = [6]byte(entry.MAC), [6]byte(entry.SrcMAC)
			p.Usable = entry.Usable()
		}
		paths = append(paths, p)
	}
	paths = append(paths, c.opts.Engine.tunnelPaths()...)
	if err := c.opts.Probes.SetPaths(paths); err != nil {
		c.log.Error("deliver health checks", "err", err)
	}
}

// tunnelPaths are the ways that health checks of backends behind tunnels take:
// those of their traffic.
func (e *Engine) tunnelPaths() []probe.Path {
	paths := map[healthcheck.Via]probe.Path{}
	for _, s := range e.units {
		if s.gone || !s.cfg.Forwarding.Tunnelled() {
			continue
		}
		for _, m := range s.members {
			header, link := e.tunnelTo(s, m).header, &m.path.link
			// A probe's segments fit anyway, so services that differ in
			// this alone share its way.
			header.Flags &^= encap.FlagClampMSS
			p := probe.Path{
				Backend: m.backend.Addr, Way: s.cfg.Way(m.backend), IfIndex: int(link.IfIndex), DMAC: link.DMAC, SMAC: link.SMAC,
				MTU: link.MTU, Tunnel: header, Usable: link.Usable && header.Size > 0,
			}
			paths[healthcheck.Via{Backend: p.Backend, Way: p.Way}] = p
		}
	}
	return slices.Collect(maps.Values(paths))
}
