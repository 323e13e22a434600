package netns

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// Who has a VIP is answered by the data plane alone, with the gateway's link
// address: neither by a kernel nor by the backends, which have it too.
func TestVIPIsAnsweredFromTheGatewayOnly(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		wire := n.openWire()
		wire.send(question(t, f, f.vip))
		answers := wire.collect(func(p gopacket.Packet) bool { return owner(p) == f.vip })
		gateway := n.gateway.MAC("eth0")
		if len(answers) != 1 {
			t.Fatalf("%d answers to one question", len(answers))
		}
		eth := answers[0].Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
		if !bytes.Equal(eth.SrcMAC, gateway) || !bytes.Equal(eth.DstMAC, testutil.RouterMAC) || !bytes.Contains(answers[0].Data()[14:], gateway) {
			t.Errorf("the answer is not the gateway's, %s:\n%s", gateway, testutil.Dump(answers[0].Data()))
		}
		wantNoFlows(t, n, f) // by what the router's kernel learnt
		if mac := n.neighbour(f.vip); !bytes.Equal(mac, gateway) {
			t.Errorf("the router sends to %s, not to %s", mac, gateway)
		}

		// An address nobody has is nobody's.
		wire.send(question(t, f, f.vip.Next()))
		if other := wire.collect(func(p gopacket.Packet) bool { return owner(p) == f.vip.Next() }); len(other) > 0 {
			t.Errorf("somebody has %s:\n%s", f.vip.Next(), testutil.Dump(other[0].Data()))
		}
		series := map[bool]string{false: "ARP_REPLY", true: "ND_REPLY"}[f.ipv6]
		if got := g.metric(`l4lb_datapath_packets_total{reason="` + series + `",verdict="answer"}`); got < 1 {
			t.Errorf("%v answers counted", got)
		}
	})
}

// An echo request for the VIP is answered by the data plane.
func TestEchoForTheVIPIsAnswered(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		startGateway(n, fourBackends())
		wire := n.openWire()
		client := inNoZone.addr(f)
		wire.send(testutil.Echo(t, client, f.vip, testutil.MACs(testutil.RouterMAC, n.gateway.MAC("eth0"))))
		replies := wire.collect(func(p gopacket.Packet) bool { return isEchoReply(p, f.vip, client) })
		if len(replies) != 1 {
			t.Fatalf("%d replies to one request", len(replies))
		}
		eth := replies[0].Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
		if !bytes.Equal(eth.SrcMAC, n.gateway.MAC("eth0")) || !bytes.Equal(eth.DstMAC, testutil.RouterMAC) {
			t.Errorf("reply from %s to %s", eth.SrcMAC, eth.DstMAC)
		}
	})
}

// question asks who has an address.
func question(t *testing.T, f family, target netip.Addr) []byte {
	if f.ipv6 {
		return testutil.NeighborSolicitation(t, testutil.RouterMAC, netip.MustParseAddr("2001:db8:a::1"), target)
	}
	return testutil.ARPRequest(t, testutil.RouterMAC, netip.MustParseAddr("10.1.0.1"), target)
}

// owner is the address that an answer is about. What the gateway announces
// unasked, soon after the start, is no answer.
func owner(p gopacket.Packet) netip.Addr {
	if arp, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok && arp.Operation == layers.ARPReply {
		a, _ := netip.AddrFromSlice(arp.SourceProtAddress)
		return a
	}
	if na, ok := p.Layer(layers.LayerTypeICMPv6NeighborAdvertisement).(*layers.ICMPv6NeighborAdvertisement); ok && na.Solicited() {
		a, _ := netip.AddrFromSlice(na.TargetAddress)
		return a
	}
	return netip.Addr{}
}

func isEchoReply(p gopacket.Packet, from, to netip.Addr) bool {
	if p.NetworkLayer() == nil {
		return false
	}
	src, dst := p.NetworkLayer().NetworkFlow().Endpoints()
	if !bytes.Equal(src.Raw(), from.AsSlice()) || !bytes.Equal(dst.Raw(), to.AsSlice()) ||
		!bytes.Contains(p.Data(), []byte("l4lb echo request payload")) {
		return false
	}
	if icmp, ok := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4); ok {
		return icmp.TypeCode.Type() == layers.ICMPv4TypeEchoReply
	}
	icmp, ok := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
	return ok && icmp.TypeCode.Type() == layers.ICMPv6TypeEchoReply
}

// wire sends and receives frames as the router on the servers' link.
type wire struct {
	t  *testing.T
	fd int
}

func (n *network) openWire() *wire { return n.openWireAt(n.router, "servers") }

func (n *network) openWireAt(ns *testutil.NetNS, link string) *wire {
	n.t.Helper()
	w := &wire{t: n.t}
	const allProtocols = 0x0300 // ETH_P_ALL in network order
	ns.Do(func() (err error) {
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	n.t.Cleanup(func() { unix.Close(w.fd) })
	at := &unix.SockaddrLinklayer{Ifindex: ns.Ifindex(link), Protocol: allProtocols}
	if err := unix.Bind(w.fd, at); err != nil {
		n.t.Fatal(err)
	}
	return w
}

func (w *wire) send(frame []byte) {
	w.t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.t.Fatal(err)
	}
}

// collect receives what matches until nothing more comes for a while.
func (w *wire) collect(match func(gopacket.Packet) bool) (out []gopacket.Packet) {
	w.t.Helper()
	quiet := unix.NsecToTimeval(int64(100 * time.Millisecond))
	if err := unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &quiet); err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, 2048)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		n, err := unix.Read(w.fd, buf)
		switch {
		case errors.Is(err, unix.EAGAIN) && len(out) > 0:
			return out
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			w.t.Fatal(err)
		default:
			if p := testutil.Decode(bytes.Clone(buf[:n])); match(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// neighbour is the link address that the router's kernel has for an address.
func (n *network) neighbour(a netip.Addr) net.HardwareAddr {
	n.t.Helper()
	list, err := n.router.Netlink().NeighList(n.router.Ifindex("servers"), unix.AF_UNSPEC)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, entry := range list {
		if entry.IP.Equal(net.IP(a.AsSlice())) {
			return entry.HardwareAddr
		}
	}
	return nil
}
