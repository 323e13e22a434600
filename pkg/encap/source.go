package encap

import (
	"net/netip"

	"l4lb/pkg/lb"
)

// Source is the outer source of a gateway's tunnels by a way: its own address
// towards the tunnel's end or, where no UDP port tells flows apart, the configured
// prefix. It is not valid where the gateway has neither.
func Source(prefixes []netip.Prefix, way lb.Way, own netip.Addr) netip.Prefix {
	if way.Forwarding == lb.ForwardIPIP {
		for _, p := range prefixes {
			if p.Addr().Is6() == way.End.Is6() {
				return p
			}
		}
	}
	if own.IsValid() {
		return netip.PrefixFrom(own, own.BitLen())
	}
	return netip.Prefix{}
}
