package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"

	"l4lb/internal/netlab"
)

// network is the plan's namespaces, up and connected.
type network struct {
	plan   *plan
	router *netlab.Namespace
	hosts  map[string]*netlab.Namespace
	all    []*netlab.Namespace
}

// build makes the namespaces and links of a plan. On an error nothing is left.
func build(p *plan) (_ *network, err error) {
	n := &network{plan: p, hosts: map[string]*netlab.Namespace{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.router, err = n.namespace(routerName); err != nil {
		return nil, err
	}
	// Before the links exist, for their own reverse path filters.
	if err := n.router.EnableForwarding(); err != nil {
		return nil, err
	}
	for i, s := range p.segments {
		if err := n.addSegment(s, i); err != nil {
			return nil, err
		}
	}
	for i := range p.hosts {
		if err := n.addHost(&p.hosts[i]); err != nil {
			return nil, err
		}
	}
	return n, n.routeVIPs()
}

func (n *network) namespace(name string) (*netlab.Namespace, error) {
	ns, err := netlab.NewNamed(namespacePrefix + name)
	if err != nil {
		return nil, err
	}
	n.all = append(n.all, ns)
	return ns, nil
}

// addSegment makes the bridge with a link address of its own: it would take
// the lowest of its ports' and change it as ports come.
func (n *network) addSegment(s segment, index int) error {
	if err := n.router.Bridge(s.name); err != nil {
		return err
	}
	if err := n.router.SetMAC(s.name, net.HardwareAddr{0x02, 0x4c, 0, 0, 0xfe, byte(index + 1)}); err != nil {
		return err
	}
	for _, addr := range s.router {
		if err := n.router.AddAddr(s.name, addr); err != nil {
			return err
		}
	}
	return nil
}

// addHost makes a host's namespace and plugs it into its segments.
func (n *network) addHost(h *host) error {
	ns, err := n.namespace(h.name)
	if err != nil {
		return err
	}
	n.hosts[h.name] = ns
	if h.role == roleBackend {
		if err := n.takeVIPs(ns); err != nil {
			return err
		}
	}
	for i, c := range h.nics {
		if err := n.plug(ns, h, i, c); err != nil {
			return err
		}
	}
	for _, gw := range n.plan.segment(h.nics[0].segment).router {
		any := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if gw.Addr().Is6() {
			any = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if err := ns.AddRoute(any, gw.Addr(), ""); err != nil {
			return err
		}
	}
	return nil
}

// plug joins a host's interface and a port of a segment's bridge.
func (n *network) plug(ns *netlab.Namespace, h *host, index int, c nic) error {
	eth, port := "eth"+strconv.Itoa(index), h.name
	if len(h.nics) > 1 {
		port += "-" + strconv.Itoa(index)
	}
	if err := netlab.Veth(netlab.End{NS: ns, Name: eth}, netlab.End{NS: n.router, Name: port}); err != nil {
		return err
	}
	if err := n.router.SetMaster(port, c.segment); err != nil {
		return err
	}
	if h.role == roleGateway {
		// What the gateway's program sends arrives only where a program runs.
		if err := n.router.AttachPass(port); err != nil {
			return err
		}
	}
	for _, addr := range c.addrs {
		if err := ns.AddAddr(eth, addr); err != nil {
			return err
		}
	}
	return nil
}

// takeVIPs gives a backend the VIPs, as docs/setup/backends.md says.
func (n *network) takeVIPs(ns *netlab.Namespace) error {
	for _, kv := range [][2]string{{"ipv4/conf/all/arp_ignore", "1"}, {"ipv4/conf/all/arp_announce", "2"}} {
		if err := ns.SetSysctl(kv[0], kv[1]); err != nil {
			return err
		}
	}
	for _, vip := range n.plan.vips {
		if vip.Is4() {
			if err := ns.AddAddr("lo", netip.PrefixFrom(vip, 32)); err != nil {
				return err
			}
			continue
		}
		if err := addDeprecated(ns, vip); err != nil {
			return err
		}
	}
	return nil
}

// addDeprecated adds an IPv6 address to lo with preferred_lft 0, so that it is
// never chosen as the source of the host's own connections.
func addDeprecated(ns *netlab.Namespace, vip netip.Addr) error {
	lo, err := ns.Netlink().LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo in %s: %w", ns.Name(), err)
	}
	const forever = 1<<32 - 1
	err = ns.Netlink().AddrAdd(lo, &netlink.Addr{
		IPNet:    &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(128, 128)},
		ValidLft: forever, PreferedLft: 0,
	})
	if err != nil {
		return fmt.Errorf("add address %s to lo in %s: %w", vip, ns.Name(), err)
	}
	return nil
}

// routeVIPs has the router find the VIPs' networks on the gateway's segment:
// it asks for their link addresses there, and the data plane answers.
func (n *network) routeVIPs() error {
	gateway := n.plan.host(gatewayName)
	for _, vip := range n.plan.vips {
		bits := 24
		if vip.Is6() {
			bits = 64
		}
		subnet := netip.PrefixFrom(vip, bits).Masked()
		if err := n.router.AddRoute(subnet, netip.Addr{}, gateway.nics[0].segment); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the namespaces, and with them everything in them.
func (n *network) Close() error {
	var errs []error
	for i := len(n.all) - 1; i >= 0; i-- {
		errs = append(errs, n.all[i].Close())
	}
	n.all = nil
	return errors.Join(errs...)
}
