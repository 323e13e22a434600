package netlab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddAddr gives an interface an address with its prefix length. It is usable at
// once: IPv6 addresses are added without duplicate address detection.
func (n *Namespace) AddAddr(link string, addr netip.Prefix) error {
	return n.onLink(link, "add address "+addr.String()+" to", func(l netlink.Link) error {
		return n.nl.AddrAdd(l, nlAddr(addr))
	})
}

// DelAddr takes an address away.
func (n *Namespace) DelAddr(link string, addr netip.Prefix) error {
	return n.onLink(link, "delete address "+addr.String()+" of", func(l netlink.Link) error {
		return n.nl.AddrDel(l, nlAddr(addr))
	})
}

func nlAddr(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// AddRoute adds a route to dst, replacing one that is there. With a valid via it
// goes to that router, else the destination is on the link. link may be "" when
// via is valid.
func (n *Namespace) AddRoute(dst netip.Prefix, via netip.Addr, link string) error {
	route, err := n.route(dst, via, link)
	if err == nil {
		err = n.nl.RouteReplace(route)
	}
	if err != nil {
		return fmt.Errorf("add route %s via %s link %q in %s: %w", dst, via, link, n.name, err)
	}
	return nil
}

// DelRoute deletes the route to dst.
func (n *Namespace) DelRoute(dst netip.Prefix) error {
	if err := n.nl.RouteDel(&netlink.Route{Dst: ipNet(dst)}); err != nil {
		return fmt.Errorf("delete route %s in %s: %w", dst, n.name, err)
	}
	return nil
}

func (n *Namespace) route(dst netip.Prefix, via netip.Addr, link string) (*netlink.Route, error) {
	route := &netlink.Route{Dst: ipNet(dst)}
	if via.IsValid() {
		route.Gw = via.AsSlice()
	} else if dst.Addr().Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	if link == "" {
		return route, nil
	}
	l, err := n.nl.LinkByName(link)
	if err != nil {
		return nil, err
	}
	route.LinkIndex = l.Attrs().Index
	return route, nil
}

// SetNeigh pins addr to a link address on an interface, so that no ARP or
// neighbour discovery is needed.
func (n *Namespace) SetNeigh(link string, addr netip.Addr, mac net.HardwareAddr) error {
	return n.onLink(link, "set neighbour "+addr.String()+" on", func(l netlink.Link) error {
		return n.nl.NeighSet(&netlink.Neigh{
			LinkIndex: l.Attrs().Index, IP: addr.AsSlice(), HardwareAddr: mac,
			State: netlink.NUD_PERMANENT,
		})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	addr := p.Addr()
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(p.Bits(), addr.BitLen())}
}
