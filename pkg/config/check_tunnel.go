package config

import (
	"net/netip"

	"l4lb/pkg/lb"
)

const (
	defaultGUEPort    = 6080 // as Linux tools and other load balancers have it
	defaultGENEVEPort = 6081 // RFC 8926
)

// forwards is the way packets go.
func (x *extension) forwards() lb.Forwarding { return x.forwarding.or(lb.ForwardL2) }

// tunnel fills in the defaults of the kind that is used.
func (x *extension) tunnel() lb.TunnelOptions {
	out := lb.TunnelOptions{ClampMSS: x.mssClamp.v}
	switch x.forwards() {
	case lb.ForwardGUE:
		out.Port = x.guePort.or(defaultGUEPort)
	case lb.ForwardGENEVE:
		out.Port, out.VNI = x.genevePort.or(defaultGENEVEPort), uint32(x.geneveVNI.v)
	}
	return out
}

// tunnelKeysNeedTheirTunnel refuses settings of a kind of tunnel that the
// service does not use.
func tunnelKeysNeedTheirTunnel(c *check) {
	for i := range c.services {
		x := &c.services[i].extension
		if !x.forwarding.known() {
			continue
		}
		for _, key := range []struct {
			name  string
			set   bool
			pos   pos
			needs lb.Forwarding
		}{
			{"guePort", x.guePort.set, x.guePort.pos, lb.ForwardGUE},
			{"genevePort", x.genevePort.set, x.genevePort.pos, lb.ForwardGENEVE},
			{"geneveVni", x.geneveVNI.set, x.geneveVNI.pos, lb.ForwardGENEVE},
		} {
			if key.set && x.forwards() != key.needs {
				c.errorf(key.pos, "%s has no meaning with forwarding %s: remove it, or use forwarding %s", key.name, x.forwards(), key.needs)
			}
		}
		if x.mssClamp.or(false) && !x.forwards().Tunnelled() {
			c.errorf(x.mssClamp.pos, "mssClamp true has no meaning with forwarding L2, which makes no packet longer: remove it, or use IPIP, GUE or GENEVE")
		}
	}
}

// oneTunnelSourceOfAFamily: a packet has one source, so a second prefix of its
// family would never be used.
func oneTunnelSourceOfAFamily(c *check) {
	first := map[bool]val[netip.Prefix]{}
	for _, p := range c.gateway.tunnelSources {
		if !p.ok() {
			continue
		}
		ipv6 := p.v.Addr().Is6()
		if other, twice := first[ipv6]; twice {
			c.errorf(p.pos, "tunnelSources %s has the family of %s: list one prefix of a family", p.v, other.v)
			continue
		}
		first[ipv6] = p
	}
}

// tunnelAddressUnused: an address that no tunnel goes to does nothing.
func tunnelAddressUnused(c *check) {
	tunnelled := map[*group]bool{}
	for i := range c.services {
		s := &c.services[i]
		for j := range s.backends {
			if g := c.groupNamed[s.backends[j].group.v]; g != nil && s.extension.forwards().Tunnelled() {
				tunnelled[g] = true
			}
		}
	}
	for i := range c.groups {
		g := &c.groups[i]
		for j := range g.endpoints {
			if at := g.endpoints[j].tunnel; at.set && !tunnelled[g] {
				c.warnf(at.pos, "tunnelAddress %s has no effect: no service with forwarding IPIP, GUE or GENEVE uses group %q", at.v, g.name.v)
			}
		}
	}
}

// tunnelSourcesUnused: GUE and GENEVE tell flows apart by their UDP source port.
func tunnelSourcesUnused(c *check) {
	if len(c.gateway.tunnelSources) == 0 {
		return
	}
	for i := range c.services {
		if c.services[i].extension.forwards() == lb.ForwardIPIP {
			return
		}
	}
	c.warnf(c.gateway.tunnelSources[0].pos, "tunnelSources has no effect: no service has forwarding IPIP")
}
