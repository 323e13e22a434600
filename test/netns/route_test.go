package netns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// A host's packets to a subnet beyond go by the gateway through Linux routers,
// and the answers back by another gateway: every protocol, spread over all of
// them.
func TestRouteThroughAppliances(t *testing.T) {
	for _, count := range []int{2, 5} {
		t.Run(fmt.Sprint(count, " appliances"), func(t *testing.T) {
			t.Parallel()
			n := newRouted(t, count)
			n.start()
			for _, f := range families {
				t.Run(f.name, func(t *testing.T) {
					n.exchangeConnections(t, f)
					n.exchangeRaw(t, f, 47) // GRE
					n.ping(t, f)
				})
			}
			n.failOpen(t)
		})
	}
}

// exchangeConnections has TCP and UDP conversations, which all appliances carry.
func (n *routed) exchangeConnections(t *testing.T, f family) {
	t.Helper()
	before := n.forwarded(f)
	for _, network := range []string{"tcp", "udp"} {
		for i := range 40 {
			conn, err := n.connect(network, f)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := say(conn, fmt.Sprintf("%s %d over a route", network, i)); err != nil {
					t.Fatalf("%s connection %d: %v", network, i, err)
				}
			}
			conn.Close()
		}
	}
	for name, count := range n.forwarded(f) {
		if count-before[name] < 6 {
			t.Errorf("%s forwarded %d packets", name, count-before[name])
		}
	}
}

// exchangeRaw sends packets of a protocol without ports in both directions.
func (n *routed) exchangeRaw(t *testing.T, f family, protocol int) {
	t.Helper()
	network := fmt.Sprintf("ip%s:%d", pick(f, "4", "6"), protocol)
	host, server := leftSide.addr(f, atHost), rightSide.addr(f, atServer)
	at := map[netip.Addr]net.PacketConn{}
	for addr, ns := range map[netip.Addr]*testutil.NetNS{host: n.host, server: n.server} {
		conn := ns.ListenPacket(network, addr.String())
		defer conn.Close()
		at[addr] = conn
	}
	for _, way := range [][2]netip.Addr{{host, server}, {server, host}} {
		message := []byte("\x00\x00\x88\xbesome encapsulated frame")
		if _, err := at[way[0]].WriteTo(message, &net.IPAddr{IP: way[1].AsSlice()}); err != nil {
			t.Fatal(err)
		}
		got, from := receive(t, at[way[1]])
		if !bytes.Equal(got, message) || from != way[0] {
			t.Errorf("protocol %d: got %q from %s, want %q from %s", protocol, got, from, message, way[0])
		}
	}
}

func receive(t *testing.T, conn net.PacketConn) ([]byte, netip.Addr) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	size, from, err := conn.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := netip.AddrFromSlice(from.(*net.IPAddr).IP)
	return buf[:size], addr.Unmap()
}

// ping echoes by way of the route.
func (n *routed) ping(t *testing.T, f family) {
	t.Helper()
	n.echo(t, f, rightSide.addr(f, atServer), 0, byte(0), byte(129))
}

// echo sends an echo request with a TTL, 0 for the usual one, and waits for a
// message of the type wanted.
func (n *routed) echo(t *testing.T, f family, to netip.Addr, ttl int, want4, want6 byte) netip.Addr {
	t.Helper()
	conn := n.host.ListenPacket(pick(f, "ip4:icmp", "ip6:ipv6-icmp"), leftSide.addr(f, atHost).String()).(*net.IPConn)
	defer conn.Close()
	if ttl > 0 {
		setHops(t, conn, f, ttl)
	}
	message := []byte{8, 0, 0, 0, 0x4c, 0x4c, 0, 1, 'r', 'o', 'u', 't', 'e', 'd'}
	want := want4
	if f.ipv6 {
		message[0], want = 128, want6 // the kernel fills in the checksum
	} else {
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := conn.WriteTo(message, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			t.Fatal(err)
		}
		if from, ok := awaitMessage(t, conn, want); ok {
			return from
		}
	}
	t.Fatalf("no message of type %d", want)
	return netip.Addr{}
}

func awaitMessage(t *testing.T, conn *net.IPConn, want byte) (netip.Addr, bool) {
	t.Helper()
	buf := make([]byte, 2048)
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		size, from, err := conn.ReadFrom(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return netip.Addr{}, false
		case err != nil:
			t.Fatal(err)
		case size > 0 && buf[0] == want:
			addr, _ := netip.AddrFromSlice(from.(*net.IPAddr).IP)
			return addr.Unmap(), true
		}
	}
}

func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	return ^uint16(sum>>16 + sum&0xffff)
}

// failOpen: without a healthy appliance the route stays (semantics.md 4.7).
func (n *routed) failOpen(t *testing.T) {
	t.Helper()
	for _, a := range n.appliances {
		a.setSick(true)
	}
	n.awaitState("UNHEALTHY", n.names...)
	for _, f := range families {
		conn, err := n.connect("tcp", f)
		if err != nil {
			t.Fatalf("%s, all appliances unhealthy: %v", f.name, err)
		}
		if err := say(conn, "still here"); err != nil {
			t.Errorf("%s, all appliances unhealthy: %v", f.name, err)
		}
		conn.Close()
	}
}

// A packet whose TTL is used up at the gateway is answered by the gateway's
// kernel, and the gateway itself by its own address is reached as before.
func TestGatewayIsAHopOfTheRoute(t *testing.T) {
	t.Parallel()
	n := newRouted(t, 2)
	n.left.gateway.EnableForwarding()
	for _, f := range families {
		n.left.gateway.AddRoute(pick(f, rightSubnet, rightSubnet6), leftSide.addr(f, atAppliance).String())
	}
	n.start()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			server, gateway := rightSide.addr(f, atServer), leftSide.addr(f, atGateway)
			if from := n.echo(t, f, server, 1, 11, 3); from != gateway {
				t.Errorf("time exceeded comes from %s, want the gateway's %s", from, gateway)
			}
			at := func(number int) netip.Addr { return leftSide.addr(f, number) }
			if from := n.echo(t, f, server, 2, 11, 3); from != at(atAppliance) && from != at(atAppliance+1) {
				t.Errorf("time exceeded of the second hop comes from %s", from)
			}
			if from := n.echo(t, f, server, 3, 0, 129); from != server {
				t.Errorf("the third hop answers as %s", from)
			}
			if from := n.echo(t, f, gateway, 0, 0, 129); from != gateway {
				t.Errorf("the gateway answers as %s", from)
			}
			if from := n.echo(t, f, at(atVIP), 0, 0, 129); from != at(atVIP) {
				t.Errorf("the next hop's address answers as %s", from)
			}
		})
	}
	if got := n.gateways[0].metric(`l4lb_datapath_packets_total{reason="TTL_EXPIRED",verdict="pass"}`); got < 2 {
		t.Errorf("%v packets were counted as TTL_EXPIRED", got)
	}
}

// setHops sets the TTL or hop limit of what a socket sends.
func setHops(t *testing.T, conn *net.IPConn, f family, hops int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err == nil {
		level, option := unix.IPPROTO_IP, unix.IP_TTL
		if f.ipv6 {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
		}
		err = errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, hops) }), err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
