package healthcheck

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

const (
	patient   = 10 * time.Second       // for probes that must not run into it
	impatient = 150 * time.Millisecond // for probes that must
)

func TestTCPProbe(t *testing.T) {
	say := func(parts ...string) func(net.Conn) {
		return func(c net.Conn) {
			for _, p := range parts {
				c.Write([]byte(p))
			}
			hang(c)
		}
	}
	tests := []struct {
		name     string
		peer     func(net.Conn)
		request  string
		response string
		proxy    lb.ProxyHeader
		timeout  time.Duration
		want     Detail
	}{
		{name: "handshake is enough", peer: hang, want: DetailHealthy},
		{name: "peer never speaks, response wanted", peer: hang, response: "PONG", timeout: impatient, want: DetailTimeout},
		{name: "request is echoed", peer: echo, request: "PING", response: "PING", want: DetailHealthy},
		{name: "request without response", peer: echo, request: "PING", want: DetailHealthy},
		{name: "banner", peer: say("220 ready"), response: "220 ready", want: DetailHealthy},
		{name: "banner in two writes", peer: say("220 ", "ready"), response: "220 ready", want: DetailHealthy},
		{name: "banner only starts alike", peer: say("220 ready and more"), response: "220 ready", want: DetailBadResponse},
		{name: "other banner", peer: say("500"), response: "220", want: DetailBadResponse},
		{name: "other beginning is judged at once", peer: say("5"), response: "220 ready", want: DetailBadResponse},
		{name: "case differs", peer: say("pong"), response: "PONG", want: DetailBadResponse},
		{name: "garbage", peer: say("\x00\xff\x01\r\n"), response: "PONG", want: DetailBadResponse},
		{name: "slow drip", peer: drip("PONG PONG PONG"), response: "PONG PONG PONG", timeout: impatient, want: DetailTimeout},
		{name: "closes at once", peer: func(net.Conn) {}, response: "PONG", want: DetailClosed},
		{name: "closes halfway", peer: func(c net.Conn) { c.Write([]byte("PO")) }, response: "PONG", want: DetailClosed},
		{name: "resets", peer: reset, response: "PONG", want: DetailReset},
		{name: "proxy line comes first", peer: echo, request: "PING", response: "PROXY UNKNOWN\r\nPING", proxy: lb.ProxyV1, want: DetailHealthy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timeout := patient
			if tt.timeout != 0 {
				timeout = tt.timeout
			}
			peer := serve(t, loopback4, tt.peer)
			target := at(peer, check(lb.CheckTCP, func(c *lb.HealthCheck) {
				c.Request, c.Response, c.ProxyHeader = tt.request, tt.response, tt.proxy
			}))
			got := probeOnce(t, &TCPProber{Dialer: &Dialer{}}, target, timeout)
			if got.Detail != tt.want {
				t.Errorf("got %s (%s), want %s", got.Detail, got.Text, tt.want)
			}
			if got.Weight.Err != lb.WeightNone {
				t.Errorf("weight %+v, want none", got.Weight)
			}
		})
	}
}

func echo(c net.Conn) { io.Copy(c, c) }

func TestTCPNoConnection(t *testing.T) {
	tests := []struct {
		name string
		peer netip.AddrPort
		want Detail
	}{
		{"nothing listens", deadPort(t), DetailRefused},
		{"accept queue is full", fullQueue(t), DetailTimeout},
		// The kernel refuses TCP to a multicast address without sending.
		{"no way there", netip.MustParseAddrPort("224.0.0.1:80"), DetailUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := probeOnce(t, &TCPProber{Dialer: &Dialer{}}, at(tt.peer, check(lb.CheckTCP, nil)), impatient)
			if got.Detail != tt.want {
				t.Errorf("got %s (%s), want %s", got.Detail, got.Text, tt.want)
			}
		})
	}
}

func TestTCPProbeIPv6(t *testing.T) {
	peer := serve(t, loopback6, echo)
	target := at(peer, check(lb.CheckTCP, func(c *lb.HealthCheck) { c.Request, c.Response = "PING", "PING" }))
	if got := probeOnce(t, &TCPProber{Dialer: &Dialer{}}, target, patient); !got.OK() {
		t.Errorf("got %s (%s)", got.Detail, got.Text)
	}
}

// fullQueue is a listener that accepts nothing and has no room for a further
// handshake, as a hung process leaves it.
func fullQueue(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	peer := netip.AddrPortFrom(netip.MustParseAddr(loopback4), uint16(name.(*unix.SockaddrInet4).Port))
	for range 8 {
		c, err := net.DialTimeout("tcp", peer.String(), impatient)
		if err != nil {
			return peer
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the accept queue does not fill")
	return peer
}
