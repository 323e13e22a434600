package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

// routed is a network of routers: a host and a server, between them appliances
// that forward, and on either side a gateway as the next hop to the other.
//
//	host ══ left ══ gateway, appliances ══ right ══ gateway, server
//
// The host's route to the server's subnet is by the left gateway, the server's
// back by the right one.
type routed struct {
	t            *testing.T
	wires        *testutil.NetNS // has both bridges
	host, server *testutil.NetNS
	names        []string
	appliances   map[string]*appliance
	left, right  *network // as the gateway of that side sees it
	gateways     []*gateway
}

// appliance is a Linux router with a leg on each side.
type appliance struct {
	ns     *testutil.NetNS
	health net.Listener
}

const (
	leftSubnet, leftSubnet6   = "10.1.0.0/24", "2001:db8:a::/64"
	rightSubnet, rightSubnet6 = "203.0.113.0/24", "2001:db8:e::/64"
	sinkPort                  = 7 // of the server: echo
)

// side is a subnet's addresses by their last number.
type side struct{ v4, v6 string }

var (
	leftSide  = side{"10.1.0.", "2001:db8:a::"}
	rightSide = side{"203.0.113.", "2001:db8:e::"}
)

func (s side) addr(f family, n int) netip.Addr {
	if f.ipv6 {
		return netip.MustParseAddr(s.v6 + fmt.Sprint(n))
	}
	return netip.MustParseAddr(s.v4 + fmt.Sprint(n))
}

// Last numbers of addresses.
const (
	atHost, atGateway, atServer = 10, 2, 10
	atVIP, atAppliance          = 100, 21 // and what follows
)

// newRouted builds everything but the daemons, with as many appliances.
func newRouted(t *testing.T, appliances int) *routed {
	t.Helper()
	testutil.RequireRoot(t)
	n := &routed{t: t, wires: testutil.NewNetNS(t, "wires"), appliances: map[string]*appliance{}}
	n.wires.Bridge("left")
	n.wires.Bridge("right")
	n.host, n.server = testutil.NewNetNS(t, "host"), testutil.NewNetNS(t, "server")
	n.plug(n.host, "eth0", "left", leftSide, atHost)
	n.plug(n.server, "eth0", "right", rightSide, atServer)
	n.left = &network{t: t, gateway: testutil.NewNetNS(t, "gw-left"), backends: map[string]*backend{}}
	n.right = &network{t: t, gateway: testutil.NewNetNS(t, "gw-right"), backends: map[string]*backend{}}
	n.plug(n.left.gateway, "eth0", "left", leftSide, atGateway)
	n.plug(n.right.gateway, "eth0", "right", rightSide, atGateway)
	for i := range appliances {
		n.addAppliance(fmt.Sprintf("fw-%d", i+1), atAppliance+i)
	}
	for _, f := range families {
		n.host.AddRoute(pick(f, rightSubnet, rightSubnet6), leftSide.addr(f, atVIP).String())
		n.server.AddRoute(pick(f, leftSubnet, leftSubnet6), rightSide.addr(f, atVIP).String())
	}
	n.serve()
	return n
}

func pick(f family, v4, v6 string) string {
	if f.ipv6 {
		return v6
	}
	return v4
}

// plug joins an interface to a bridge. What a gateway's program sends arrives only
// where a program runs.
func (n *routed) plug(ns *testutil.NetNS, link, bridge string, s side, number int) {
	n.t.Helper()
	port := fmt.Sprintf("%s%d", bridge[:1], number)
	if number == atHost {
		port = bridge[:1] + "end"
	}
	testutil.Veth(n.t, ns, link, n.wires, port)
	if err := n.wires.SetMaster(port, bridge); err != nil {
		n.t.Fatal(err)
	}
	if number == atGateway {
		n.wires.AttachPass(port)
	}
	ns.AddAddr(link, s.addr(families[0], number).String()+"/24")
	ns.AddAddr(link, s.addr(families[1], number).String()+"/64")
}

func (n *routed) addAppliance(name string, number int) {
	n.t.Helper()
	a := &appliance{ns: testutil.NewNetNS(n.t, name)}
	n.plug(a.ns, "eth0", "left", leftSide, number)
	n.plug(a.ns, "eth1", "right", rightSide, number)
	a.ns.EnableForwarding()
	for _, s := range []struct {
		net  *network
		side side
	}{{n.left, leftSide}, {n.right, rightSide}} {
		s.net.backends[name] = &backend{
			name: name, zone: "a", ns: a.ns,
			v4: s.side.addr(families[0], number).String(), v6: s.side.addr(families[1], number).String(),
		}
	}
	n.names, n.appliances[name] = append(n.names, name), a
	a.setSick(false)
}

// setSick makes the health checks of both legs fail, or pass again.
func (a *appliance) setSick(sick bool) {
	if sick {
		a.health.Close()
		return
	}
	a.health = a.ns.Listen("tcp", fmt.Sprint(":", healthPort))
	go func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}(a.health)
}

// stateful makes the appliance a firewall that lets the host begin connections,
// and drops every packet of a connection whose beginning it has not seen.
func (a *appliance) stateful(t *testing.T) {
	t.Helper()
	const rules = `table inet firewall {
	chain forward {
		type filter hook forward priority 0; policy drop;
		ct state invalid drop
		ct state established,related accept
		iifname "eth0" tcp flags & (syn | ack) == syn ct state new accept
		iifname "eth0" meta l4proto { udp, icmp, icmpv6 } ct state new accept
	}
}
`
	a.ns.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w\n%s", err, out)
		}
		return nil
	})
	a.ns.SetSysctl("netfilter/nf_conntrack_tcp_loose", "0") // no picking up of what is under way
}

// serve answers TCP and UDP with what comes.
func (n *routed) serve() {
	n.t.Helper()
	tcp := n.server.Listen("tcp", fmt.Sprint(":", sinkPort))
	udp := n.server.ListenPacket("udp", fmt.Sprint(":", sinkPort))
	n.t.Cleanup(func() { tcp.Close(); udp.Close() })
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); conn.Close() }()
		}
	}()
	go func() {
		buf := make([]byte, 2048)
		for {
			size, from, err := udp.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = udp.WriteTo(buf[:size], from)
			}
		}
	}()
}

// start runs the daemons until every appliance was judged by both.
func (n *routed) start() {
	n.t.Helper()
	for _, s := range []struct {
		net            *network
		side           side
		route4, route6 string
	}{{n.left, leftSide, rightSubnet, rightSubnet6}, {n.right, rightSide, leftSubnet, leftSubnet6}} {
		g := newGateway(s.net, settings{})
		g.write(n.yaml(g, s.side, s.route4, s.route6))
		g.start()
		g.settled()
		n.gateways = append(n.gateways, g)
	}
}

func (n *routed) yaml(g *gateway, s side, route4, route6 string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `l4lb:
  gateway: {name: %s, interfaces: [eth0], flowTable: {entries: 16384}, hashSeed: 7, adminListen: "unix:%s"}
healthChecks:
- {name: hc, type: TCP, checkIntervalSec: 1, timeoutSec: 1, healthyThreshold: 1, unhealthyThreshold: 2, tcpHealthCheck: {port: %d}}
networkEndpointGroups:
- name: firewalls
  networkEndpoints:
`, g.name, g.socket(), healthPort)
	for _, name := range n.names {
		b := g.net.backends[name]
		fmt.Fprintf(&out, "  - {instance: %s, ipAddress: %s}\n  - {instance: %s, ipAddress: %q}\n", name, b.v4, name, b.v6)
	}
	out.WriteString(`backendServices:
- {name: web, protocol: UNSPECIFIED, healthChecks: [hc], backends: [{group: firewalls}], l4lb: {probe: direct}}
forwardingRules:
`)
	for _, f := range families {
		fmt.Fprintf(&out, "- {name: fw-%s, IPAddress: %q, ports: [9], backendService: web}\n", f.name, s.addr(f, atVIP))
	}
	fmt.Fprintf(&out, "routes:\n- {name: over4, destRange: %s, nextHopIlb: fw-ipv4}\n- {name: over6, destRange: %q, nextHopIlb: fw-ipv6}\n", route4, route6)
	return out.String()
}

// awaitState waits until both gateways see appliances in a state.
func (n *routed) awaitState(state string, names ...string) {
	n.t.Helper()
	for _, g := range n.gateways {
		g.awaitState(state, names...)
	}
}

// connect opens a connection from the host to the server.
func (n *routed) connect(network string, f family) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	return n.host.DialContext(ctx, network, hostPort(rightSide.addr(f, atServer), sinkPort))
}

// say sends a line and wants it back.
func say(conn net.Conn, text string) error {
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != text {
		return fmt.Errorf("said %q, heard %q: %w", text, buf, err)
	}
	return nil
}

// forwarded is how many packets each appliance has forwarded.
func (n *routed) forwarded(f family) map[string]int {
	counter := "Ip ForwDatagrams"
	if f.ipv6 {
		counter = "Ip6OutForwDatagrams"
	}
	out := map[string]int{}
	for name, a := range n.appliances {
		out[name] = snmp(a.ns, counter)
	}
	return out
}
