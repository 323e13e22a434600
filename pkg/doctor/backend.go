package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

// BackendOptions say what a backend is to do. It serves VIPs, or is a Router.
type BackendOptions struct {
	VIPs []netip.Addr
	// Router: it is behind the next hop of a route, and passes packets on.
	Router bool
	// Gateway is the gateway's address towards the backend; not valid: the
	// interface of the default route counts.
	Gateway netip.Addr
	// Ports are what the service listens on; none: nothing is looked for.
	Ports []uint16
	// Tunnel is how packets come; "" or L2 for none.
	Tunnel lb.Forwarding
}

// backend is a backend that is examined.
type backend struct {
	BackendOptions
	nl *netlink.Handle
	// facing are the Ethernet interfaces that packets may come by.
	facing []*netlink.LinkAttrs
	// missing are VIPs that this host does not have: reported once.
	missing map[netip.Addr]bool
	// devices are those of the kernel that unwrap tunnels.
	devices []tunnelDevice
}

func (b *backend) tunnelled() bool { return b.Tunnel != "" && b.Tunnel != lb.ForwardL2 }

// BackendChecks lists what is looked at on a backend.
func BackendChecks() []Info { return infos(backendChecks()) }

func backendChecks() []check[*backend] {
	return []check[*backend]{
		{Info{"vipAddress", "each VIP is an address of this host, on lo and by itself"}, checkVIPAddress},
		{Info{"arpIgnore", "arp_ignore: no answer to ARP for VIPs on lo"}, checkARPIgnore},
		{Info{"arpAnnounce", "arp_announce: no VIP as sender of ARP requests"}, checkARPAnnounce},
		{Info{"tunnel", "with --tunnel, what unwraps it: l4lbd decap or devices of the kernel"}, checkTunnel},
		{Info{"backendReversePath", "rp_filter takes packets of clients by the interface that faces the gateway"}, checkBackendReversePath},
		{Info{"answerRoute", "there is a way back from each VIP"}, checkAnswerRoute},
		{Info{"listener", "something listens on each port, at the VIP or at every address"}, checkListening},
		{Info{"forwarding", "with --router, whether the kernel passes packets on"}, checkRouter},
		{Info{"firewall", "a reminder: rules of a firewall are not read"}, checkFirewall},
	}
}

// Backend examines this host as a backend.
func Backend(ctx context.Context, o BackendOptions) (*Report, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer nl.Close()
	b := &backend{BackendOptions: o, nl: nl, missing: map[netip.Addr]bool{}}
	if err := b.findFacing(); err != nil {
		return nil, err
	}
	return examine(ctx, "backend", backendChecks(), b), nil
}

// findFacing finds the interface towards the gateway: that of the route to it,
// or all Ethernet interfaces that are up where none is named.
func (b *backend) findFacing() error {
	links, err := dump(b.nl.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	towards := 0
	if b.Gateway.IsValid() {
		r, err := routeTo(b.nl, b.Gateway)
		if err != nil {
			return fmt.Errorf("find the interface that faces the gateway %s: %w", b.Gateway, err)
		}
		towards = r.LinkIndex
	}
	for _, l := range links {
		a := l.Attrs()
		up := a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_LOOPBACK == 0 && a.EncapType == "ether"
		if towards == a.Index || towards == 0 && up {
			b.facing = append(b.facing, a)
		}
	}
	return nil
}

// has4 reports whether there is an IPv4 VIP.
func (b *backend) has4() bool { return slices.ContainsFunc(b.VIPs, netip.Addr.Is4) }

// checkFirewall says what cannot be known.
func checkFirewall(_ context.Context, b *backend) ([]Finding, error) {
	f := Finding{
		Status: Note, What: "whether a firewall of this host lets clients in is not looked at",
		Why:  "clients come with their own addresses, and health checks from the gateway's",
		Mend: []string{"nft list ruleset", "iptables-save"},
	}
	if b.Gateway.IsValid() {
		f.Subject = b.Gateway.String()
	}
	return []Finding{f}, nil
}
