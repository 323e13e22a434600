package lb

import (
	"net/netip"
	"slices"
)

// Route makes a forwarding rule the next hop of a static route.
type Route struct {
	Name     string
	Dest     netip.Prefix
	Priority uint16
	Rule     string // the forwarding rule that nextHopIlb names
	// Sources and Interfaces restrict the route to packets from there
	// (`l4lb:`); empty: from anywhere.
	Sources    []netip.Prefix
	Interfaces []string
}

// MaxAlternatives is how many ways a destination may have, restricted routes
// counted once for each source range and interface.
const MaxAlternatives = 32

// NeverRouted lists the destinations that no router forwards: this network,
// loopback, the link, multicast and broadcast.
func NeverRouted() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"::/127", "fe80::/10", "ff00::/8",
	} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// NextHops lists the names of the rules that are next hops of routes.
func (c *Config) NextHops() []string {
	var out []string
	for i := range c.Routes {
		if name := c.Routes[i].Rule; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
