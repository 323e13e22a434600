package decap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// lab is a client, a gateway and a backend in a row. The gateway has no data
// plane: what the client sends to a VIP is taken from the link, wrapped and sent
// on by this process. The backend's answers are routed.
type lab struct {
	t                        *testing.T
	client, gateway, backend *testutil.NetNS
	in, out                  int // packet sockets of the gateway
	ifindex                  int // towards the backend
}

func newLab(t *testing.T) *lab {
	l := &lab{
		t:      t,
		client: testutil.NewNetNS(t, "client"), gateway: testutil.NewNetNS(t, "gateway"), backend: testutil.NewNetNS(t, "backend"),
	}
	testutil.Veth(t, l.client, "eth0", l.gateway, "clients")
	testutil.Veth(t, l.gateway, "backends", l.backend, "eth0")
	l.gateway.EnableForwarding()
	for _, a := range []struct {
		ns         *testutil.NetNS
		link, addr string
	}{
		{l.client, "eth0", "198.51.100.7/24"},
		{l.client, "eth0", "2001:db8:c::7/64"},
		{l.gateway, "clients", "198.51.100.1/24"},
		{l.gateway, "clients", "2001:db8:c::1/64"},
		{l.gateway, "backends", "10.0.0.1/16"},
		{l.gateway, "backends", "2001:db8::1/32"},
		{l.backend, "eth0", "10.0.9.11/16"},
		{l.backend, "eth0", "2001:db8:9::11/32"},
		{l.backend, "lo", "192.0.2.10/32"},
		{l.backend, "lo", "2001:db8:f::10/128"},
	} {
		a.ns.AddAddr(a.link, a.addr)
	}
	l.client.AddRoute("0.0.0.0/0", "198.51.100.1")
	l.client.AddRoute("::/0", "2001:db8:c::1")
	l.backend.AddRoute("198.51.100.0/24", "10.0.0.1")
	l.backend.AddRoute("2001:db8:c::/64", "2001:db8::1")
	// The gateway's kernel forwards nothing to the VIPs, and says nothing.
	for _, vip := range []netip.Addr{testutil.VIP4, testutil.VIP6} {
		dst := &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(vip.BitLen(), vip.BitLen())}
		if err := l.gateway.Netlink().RouteAdd(&netlink.Route{Dst: dst, Type: unix.RTN_BLACKHOLE}); err != nil {
			t.Fatal(err)
		}
	}
	l.in, l.out = l.packetSocket("clients"), l.packetSocket("backends")
	l.ifindex = l.gateway.Ifindex("backends")
	l.serve()
	return l
}

func (l *lab) packetSocket(link string) (fd int) {
	l.t.Helper()
	const everything = 0x0300 // ETH_P_ALL in network order
	index := l.gateway.Ifindex(link)
	l.gateway.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, everything); err != nil {
			return err
		}
		return errors.Join(
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: index}),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000}),
		)
	})
	l.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// serve answers TCP and UDP on every address of the backend with what it got.
func (l *lab) serve() {
	lis := l.backend.Listen("tcp", ":80")
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					if _, err := conn.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	for _, vip := range []string{"192.0.2.10:53", "[2001:db8:f::10]:53"} {
		conn := l.backend.ListenPacket("udp", vip)
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo(buf[:n], from)
			}
		}()
	}
}

// tunnel wraps what comes for the VIPs until the returned function is called.
func (l *lab) tunnel(t *testing.T, w wrap, outer6 bool) (stop func()) {
	src, dst := outerOf(outer6)
	smac, dmac := l.gateway.MAC("backends"), l.backend.MAC("eth0")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for ctx.Err() == nil {
			n, from, err := unix.Recvfrom(l.in, buf, 0)
			if err != nil {
				continue // the timeout
			}
			if sll, ok := from.(*unix.SockaddrLinklayer); ok && sll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			inner := forVIP(buf[:n])
			if inner == nil {
				continue
			}
			frame := w.make(t, src, dst, inner, testutil.MACs(smac, dmac))
			to := &unix.SockaddrLinklayer{Ifindex: l.ifindex, Halen: 6}
			if err := unix.Sendto(l.out, frame, 0, to); err != nil {
				t.Errorf("send: %v", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// forVIP returns the packet of a frame that is for a VIP, without padding.
func forVIP(frame []byte) []byte {
	if len(frame) < 14+20 {
		return nil
	}
	p := frame[14:]
	switch {
	case p[0]>>4 == 4 && netip.AddrFrom4([4]byte(p[16:20])) == testutil.VIP4:
		return p[:int(p[2])<<8|int(p[3])]
	case p[0]>>4 == 6 && len(p) >= 40 && netip.AddrFrom16([16]byte(p[24:40])) == testutil.VIP6:
		return p[:40+int(p[4])<<8+int(p[5])]
	}
	return nil
}

// start runs a decap on the backend until the test ends.
func (l *lab) start(t *testing.T, o Options) *Decap {
	t.Helper()
	o.Interface = "eth0"
	if o.Gateways == nil {
		o.Gateways = []netip.Prefix{whole(gateway4), whole(gateway6)}
	}
	o.GUEPort, o.GENEVEPort = DefaultGUEPort, DefaultGENEVEPort
	var d *Decap
	l.backend.Do(func() (err error) {
		d, err = Open(o)
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// dial connects from the client to the VIP.
func (l *lab) dial(ctx context.Context, ipv6 bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return l.client.Namespace.Dial(ctx, "tcp", netip.AddrPortFrom(vipOf(ipv6), 80).String())
}

func vipOf(ipv6 bool) netip.Addr {
	if ipv6 {
		return testutil.VIP6
	}
	return testutil.VIP4
}

// attached is the mode of the XDP program on the backend, "" for none.
func (l *lab) attached() lb.XDPMode {
	l.t.Helper()
	attrs, err := l.backend.Link("eth0")
	if err != nil {
		l.t.Fatal(err)
	}
	switch {
	case attrs.Xdp == nil || !attrs.Xdp.Attached:
		return ""
	case attrs.Xdp.AttachMode == xdpAttachedSKB:
		return lb.XDPGeneric
	}
	return lb.XDPNative
}
