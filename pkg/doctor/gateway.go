package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/admin"
	"l4lb/pkg/lb"
)

// Options say which gateway is examined. Config is required.
type Options struct {
	Config *lb.Config
	// ConfigPath is the file that Config is from, for commands.
	ConfigPath string
	// BPFDir is where a BPF file system belongs (/sys/fs/bpf).
	BPFDir string
}

// gateway is a gateway that is examined, and what checks found out for those
// after them.
type gateway struct {
	Options
	nl *netlink.Handle
	// status and rows are what a running daemon says, nil and none without.
	status *admin.Status
	rows   []admin.Backend
	// down are interfaces that carry nothing, and onHost VIPs that this host
	// has: reported where they are found.
	down   map[string]bool
	onHost map[netip.Addr]bool
	ways   map[netip.Addr]way
}

// GatewayChecks lists what is looked at on a gateway.
func GatewayChecks() []Info { return infos(gatewayChecks()) }

func gatewayChecks() []check[*gateway] {
	return []check[*gateway]{
		{Info{"kernel", "the version of the kernel"}, checkKernel},
		{Info{"bpfPermitted", "whether maps and programs can be made: capabilities, locked memory"}, checkBPF},
		{Info{"bpfFileSystem", "the BPF file system that keeps flows over restarts"}, checkBPFFileSystem},
		{Info{"daemon", "the running daemon: ready, its file in force, its program attached"}, checkDaemon},
		{Info{"listeners", "the addresses that the daemon listens at are free, or its own"}, checkListeners},
		{Info{"interface", "each configured interface: it exists, is Ethernet, up, and has a carrier"}, checkInterfaces},
		{Info{"mtu", "the MTU of each interface: what XDP takes, and room for the header of tunnels"}, checkMTU},
		{Info{"xdp", "who has XDP on each interface, whether the driver can do it, and in which mode it runs"}, checkXDP},
		{Info{"vipOnHost", "no VIP is an address or a local route of this host"}, checkVIPOnHost},
		{Info{"probePath", "the way of probes: source address, rules before it, sysctls it needs"}, checkProbePath},
		{Info{"reversePath", "whether a strict rp_filter would drop the answers to probes"}, checkReversePath},
		{Info{"neighbours", "each backend: a route, an interface that is up, and an answer to ARP or neighbour discovery"}, checkNeighbours},
		{Info{"ipForward", "with routes, whether the kernel forwards what the program leaves to it"}, checkForwarding},
		{Info{"vipAnswers", "nobody but the gateway answers ARP or neighbour discovery for a VIP"}, checkVIPAnswers},
		{Info{"backendService", "each backend: what answers at its own address also answers at the VIP"}, checkServices},
	}
}

// Gateway examines this host as the gateway of a configuration.
func Gateway(ctx context.Context, o Options) (*Report, error) {
	if o.BPFDir == "" {
		o.BPFDir = "/sys/fs/bpf"
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer nl.Close()
	g := &gateway{
		Options: o, nl: nl,
		down: map[string]bool{}, onHost: map[netip.Addr]bool{}, ways: map[netip.Addr]way{},
	}
	g.ask(ctx)
	return examine(ctx, "gateway", gatewayChecks(), g), nil
}

// ask gets what a running daemon says. Without one, nothing is known.
func (g *gateway) ask(ctx context.Context) {
	client := admin.NewClient(g.Config.Gateway.AdminListen)
	status, err := client.Status(ctx)
	if err != nil {
		return
	}
	g.status = &status
	if list, err := client.Backends(ctx, ""); err == nil {
		g.rows = list.Backends
	}
}

// vips are the single addresses of the rules, sorted; of a range its first.
func (g *gateway) vips() []netip.Addr {
	var out []netip.Addr
	for i := range g.Config.Rules {
		out = append(out, g.Config.Rules[i].Address.Addr())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// peer is a backend of any service.
type peer struct {
	instance string
	addr     netip.Addr
}

// String is how findings name it.
func (p peer) String() string { return fmt.Sprintf("%s (%s)", p.instance, p.addr) }

// on is the host of its mend.
func (p peer) on() string { return "backend " + p.String() }

// peers are where the packets of all services go, each once, in configuration
// order: backends, or the ends of the tunnels to them.
func (g *gateway) peers() []peer {
	seen := map[peer]bool{}
	var out []peer
	for i := range g.Config.Services {
		s := &g.Config.Services[i]
		for _, b := range g.Config.Backends(s) {
			p := peer{b.Instance, b.SentTo(s.Forwarding).Unmap()}
			if !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

// link is an interface by name; nil where there is none.
func (g *gateway) link(name string) (*netlink.LinkAttrs, error) {
	l, err := g.nl.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	return l.Attrs(), nil
}

// links are the configured interfaces that exist.
func (g *gateway) links() ([]*netlink.LinkAttrs, error) {
	var out []*netlink.LinkAttrs
	for _, name := range g.Config.Gateway.Interfaces {
		l, err := g.link(name)
		if err != nil {
			return nil, err
		}
		if l != nil {
			out = append(out, l)
		}
	}
	return out, nil
}
