package config

import (
	"net/netip"

	"l4lb/pkg/lb"
)

// claims remembers who serves what on the addresses of a file.
type claims struct {
	ports map[portClaim]*forwardingRule
	any   map[addressClaim]*forwardingRule // the first rule with any port
	all   map[addressClaim]*forwardingRule // the first rule with all ports
}

// addressClaim is a set of addresses under one protocol. With inner it stands
// for single addresses inside the /96, so that a later rule for the whole /96
// meets them.
type addressClaim struct {
	prefix   netip.Prefix
	inner    bool
	protocol lb.RuleProtocol
}

type portClaim struct {
	addressClaim
	port uint16
}

// uniqueFrontends: no packet may match two rules (semantics.md 6). A rule with
// all ports excludes others of its protocol on the address; L3_DEFAULT is what
// TCP and UDP rules leave over, so it stands beside them.
func uniqueFrontends(c *check) {
	seen := claims{map[portClaim]*forwardingRule{}, map[addressClaim]*forwardingRule{}, map[addressClaim]*forwardingRule{}}
	for i := range c.rules {
		f := &c.rules[i]
		if !f.address.ok() || !f.protocol.known() || !f.allPorts.known() {
			continue
		}
		key := addressClaim{prefix: f.address.v, protocol: f.protocol.or(lb.RuleTCP)}
		meets, leaves := []addressClaim{key}, []addressClaim{key}
		switch wide, err := f.address.v.Addr().Prefix(96); {
		case err != nil: // IPv4
		case f.address.v.IsSingleIP():
			meets = append(meets, addressClaim{wide, false, key.protocol})
			leaves = append(leaves, addressClaim{wide, true, key.protocol})
		default:
			meets = append(meets, addressClaim{wide, true, key.protocol})
		}
		if !seen.conflict(c.report, f, meets) {
			seen.add(f, leaves)
		}
	}
}

func (f *forwardingRule) takesAllPorts() bool {
	return f.allPorts.or(false) || f.protocol.or(lb.RuleTCP) == lb.RuleL3Default
}

// conflict reports what f collides with: a rule with all ports, or single ports.
func (s *claims) conflict(r *report, f *forwardingRule, keys []addressClaim) bool {
	found := false
	for _, key := range keys {
		if other := s.all[key]; other != nil {
			r.errorf(f.address.pos, "IPAddress %s with %s already belongs on all ports to rule %q at line %d: remove one or use another address",
				f.address.v.Addr(), key.protocol, other.name.v, other.pos.line)
			return true
		}
		if other := s.any[key]; f.takesAllPorts() && other != nil {
			r.errorf(f.address.pos, "IPAddress %s with %s has ports in rule %q at line %d: a rule with all ports excludes others of its protocol, list ports here too",
				f.address.v.Addr(), key.protocol, other.name.v, other.pos.line)
			return true
		}
		for _, p := range f.ports {
			if other := s.ports[portClaim{key, p.v}]; p.ok() && other != nil {
				r.errorf(p.pos, "port %d of %s with %s already belongs to rule %q at line %d: remove it from one",
					p.v, f.address.v.Addr(), key.protocol, other.name.v, other.pos.line)
				found = true
			}
		}
	}
	return found
}

func (s *claims) add(f *forwardingRule, keys []addressClaim) {
	for _, key := range keys {
		if s.any[key] == nil {
			s.any[key] = f
		}
		if f.takesAllPorts() {
			s.all[key] = f
		}
		for _, p := range f.ports {
			if p.ok() {
				s.ports[portClaim{key, p.v}] = f
			}
		}
	}
}
