package config

import (
	"fmt"
	"net/netip"

	"l4lb/pkg/lb"
)

const maxPorts = 5 // semantics.md 6

func requireRuleFields(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		require(c.report, f.pos, f.name, "forwarding rule", "name", "web-vip")
		require(c.report, f.pos, f.address, "forwarding rule", "IPAddress", "192.0.2.10")
		require(c.report, f.pos, f.service, "forwarding rule", "backendService", "web")
		if _, err := netip.ParseAddr(f.name.v); err == nil {
			c.errorf(f.name.pos, "name %q is an address: a rule's name must be told from its address, rename it", f.name.v)
		}
	}
}

func ruleReferences(c *check) {
	for i := range c.rules {
		resolve(c.report, "backendService", "backend service", c.rules[i].service, c.serviceNamed)
	}
}

// portsOrAllPorts: a TCP or UDP rule has one to five ports or all, an
// L3_DEFAULT rule always has all (semantics.md 6).
func portsOrAllPorts(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		uniquePorts(c.report, f)
		if !f.protocol.known() || !f.allPorts.known() {
			continue
		}
		protocol, all := f.protocol.or(lb.RuleTCP), f.allPorts.or(false)
		switch {
		case protocol == lb.RuleL3Default && len(f.ports) > 0:
			c.errorf(f.portsAt, "ports cannot be used with IPProtocol L3_DEFAULT, which takes all: remove ports")
		case protocol == lb.RuleL3Default && f.allPorts.set && !all:
			c.errorf(f.allPorts.pos, "allPorts false cannot be used with IPProtocol L3_DEFAULT, which takes all: write true")
		case protocol == lb.RuleL3Default:
		case len(f.ports) > 0 && all:
			c.errorf(f.portsAt, "ports and allPorts: true exclude each other: remove one")
		case len(f.ports) == 0 && !all:
			c.errorf(f.pos, "forwarding rule without ports: add ports: [80] with up to %d ports, or allPorts: true", maxPorts)
		case len(f.ports) > maxPorts:
			c.errorf(f.ports[maxPorts].pos, "ports has %d entries: a rule takes at most %d, write allPorts: true or a further rule with the same IPAddress", len(f.ports), maxPorts)
		}
	}
}

func uniquePorts(r *report, f *forwardingRule) {
	seen := map[uint16]bool{}
	for _, p := range f.ports {
		if p.ok() && seen[p.v] {
			r.errorf(p.pos, "ports %d is listed twice: remove one", p.v)
		}
		seen[p.v] = true
	}
}

// ruleMatchesService: an UNSPECIFIED service serves any rule, the others only
// rules of their protocol (semantics.md 6).
func ruleMatchesService(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		s := c.serviceNamed[f.service.or("")]
		if s == nil || !f.protocol.known() || !s.protocol.known() {
			continue
		}
		rule, serves := f.protocol.or(lb.RuleTCP), s.protocol.or(lb.ServiceTCP)
		if serves == lb.ServiceUnspecified || string(rule) == string(serves) {
			continue
		}
		at := f.protocol.pos
		if !f.protocol.set {
			at = f.service.pos
		}
		mend := fmt.Sprintf("make it %s, or the service's protocol UNSPECIFIED", serves)
		if rule == lb.RuleL3Default {
			mend = "make the service's protocol UNSPECIFIED"
		}
		c.errorf(at, "IPProtocol %s does not fit backendService %q, whose protocol is %s: %s", rule, f.service.v, serves, mend)
	}
}

func ipVersionMatchesAddress(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		if f.ipVersion.ok() && f.address.ok() && (f.ipVersion.v == "IPV4") != f.address.v.Addr().Is4() {
			c.errorf(f.ipVersion.pos, "ipVersion %q does not fit IPAddress %s: remove it or correct the address", f.ipVersion.v, f.address.v.Addr())
		}
	}
}

// familyOfBackends: without a tunnel the frame to a backend is addressed by
// resolving its address, so every instance needs one of the rule's family. With
// one they may all have the other; where only some do, the rest would never get
// a packet of the rule.
func familyOfBackends(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		s := c.serviceNamed[f.service.or("")]
		if s == nil || !f.address.ok() || !s.extension.forwarding.known() {
			continue
		}
		m := c.members(s)
		family, lacking := "IPv6", m.without6
		if f.address.v.Addr().Is4() {
			family, lacking = "IPv4", m.without4
		}
		tunnelled := s.extension.forwards().Tunnelled()
		if lacking == "" || tunnelled && !m.any(f.address.v.Addr()) {
			continue
		}
		if tunnelled {
			c.errorf(f.address.pos, "IPAddress %s is %s, which some backends of service %q have an address of and %s does not: add an endpoint with one, or give none of them one",
				f.address.v.Addr(), family, s.name.v, lacking)
			continue
		}
		c.errorf(f.address.pos, "IPAddress %s is %s but backend %s of service %q has no %s address: add an endpoint with one, or use another service",
			f.address.v.Addr(), family, lacking, s.name.v, family)
	}
}

// zonalExcludesMirroring is a row of semantics.md 3.7.
func zonalExcludesMirroring(c *check) {
	for i := range c.rules {
		f := &c.rules[i]
		s := c.serviceNamed[f.service.or("")]
		if s != nil && f.mirroring.or(false) && s.zonal.enabled() {
			c.errorf(f.mirroring.pos, "isMirroringCollector true excludes zonal affinity, which backendService %q has: remove one of the two", s.name.v)
		}
	}
}

// vipIsNoBackend: the gateway answers for its VIPs, so a backend that is found
// by the same address would be found at the gateway.
func vipIsNoBackend(c *check) {
	vips := map[netip.Prefix]*forwardingRule{}
	for i := range c.rules {
		if f := &c.rules[i]; f.address.ok() {
			vips[f.address.v] = f
		}
	}
	for i := range c.groups {
		for j := range c.groups[i].endpoints {
			e := &c.groups[i].endpoints[j]
			c.refuseVIP("ipAddress", e.addr, vips)
			c.refuseVIP("tunnelAddress", e.tunnel, vips)
		}
	}
}

func (c *check) refuseVIP(key string, addr val[netip.Addr], vips map[netip.Prefix]*forwardingRule) {
	if !addr.ok() {
		return
	}
	f := vips[netip.PrefixFrom(addr.v, addr.v.BitLen())]
	if wide, err := addr.v.Prefix(96); err == nil && f == nil {
		f = vips[wide]
	}
	if f != nil {
		c.errorf(addr.pos, "%s %s belongs to forwarding rule %q: write the backend's own address", key, addr.v, f.name.v)
	}
}
