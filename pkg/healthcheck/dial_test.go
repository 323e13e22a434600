package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

func TestSourceAddress(t *testing.T) {
	from := make(chan net.Addr, 1)
	peer := serve(t, loopback4, func(c net.Conn) {
		from <- c.RemoteAddr()
		answer(body(""))(c)
	})
	target := at(peer, check(lb.CheckHTTP, nil))
	d := &Dialer{Source4: netip.MustParseAddr("127.0.0.9")}
	if got := probeOnce(t, &HTTPProber{Dialer: d}, target, patient); !got.OK() {
		t.Fatalf("got %s (%s)", got.Detail, got.Text)
	}
	if got := netip.MustParseAddrPort((<-from).String()).Addr(); got != d.Source4 {
		t.Errorf("probe came from %s, want %s", got, d.Source4)
	}
}

func TestGatewayErrorsAreLocal(t *testing.T) {
	target := at(serve(t, loopback4, hang), check(lb.CheckTCP, nil))
	refuse := func(context.Context, Target, string, syscall.RawConn) error { return errors.New("no such device") }
	dialers := map[string]*Dialer{
		"source is not ours":       {Source4: netip.MustParseAddr("192.0.2.1")},
		"source of another family": {Source4: netip.MustParseAddr("2001:db8::1")},
		"socket set-up is refused": {Control: refuse},
	}
	for name, d := range dialers {
		got := probeOnce(t, &TCPProber{Dialer: d}, target, patient)
		if got.Detail != DetailLocalError || !got.Inconclusive() || got.OK() {
			t.Errorf("%s: got %s (%s), want LOCAL_ERROR", name, got.Detail, got.Text)
		}
	}
}

func TestControlSeesSocketAndTarget(t *testing.T) {
	target := at(serve(t, loopback4, hang), check(lb.CheckTCP, nil))
	var seen Target
	d := &Dialer{Control: func(_ context.Context, t Target, _ string, c syscall.RawConn) error {
		seen = t
		var err error
		if ctlErr := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PRIORITY, 3)
		}); ctlErr != nil {
			return ctlErr
		}
		return err
	}}
	if got := probeOnce(t, &TCPProber{Dialer: d}, target, patient); !got.OK() || seen != target {
		t.Errorf("got %s (%s), control saw %v", got.Detail, got.Text, seen)
	}
}

// TestHowProbesClose counts the sockets that wait on the prober's side and
// looks at what the peer sees.
func TestHowProbesClose(t *testing.T) {
	const probes = 20
	tests := []struct {
		name     string
		kind     lb.HealthCheckType
		orderly  bool
		timeWait int
		peerSees error
	}{
		{"TCP", lb.CheckTCP, false, 0, syscall.ECONNRESET},
		{"TCP, orderly", lb.CheckTCP, true, probes, nil},
		{"HTTP, the peer closes first", lb.CheckHTTP, false, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan error, probes)
			peer := serve(t, loopback4, func(c net.Conn) {
				if tt.kind == lb.CheckHTTP {
					answer(body("hello"))(c)
					c.(*net.TCPConn).CloseWrite()
				}
				_, err := c.Read(make([]byte, 1))
				if err != nil && err.Error() == "EOF" {
					err = nil
				}
				ended <- err
			})
			prober := DefaultProbers(&Dialer{OrderlyClose: tt.orderly})[tt.kind]
			for range probes {
				if got := probeOnce(t, prober, at(peer, check(tt.kind, nil)), patient); !got.OK() {
					t.Fatalf("got %s (%s)", got.Detail, got.Text)
				}
				if err := <-ended; !errors.Is(err, tt.peerSees) {
					t.Fatalf("the peer's connection ended with %v, want %v", err, tt.peerSees)
				}
			}
			deadline := time.Now().Add(2 * time.Second)
			for timeWaits(t, peer.Port()) != tt.timeWait && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond)
			}
			if got := timeWaits(t, peer.Port()); got != tt.timeWait {
				t.Errorf("%d sockets in TIME_WAIT on the gateway, want %d", got, tt.timeWait)
			}
		})
	}
}

// timeWaits counts sockets in TIME_WAIT whose remote port is port.
func timeWaits(t *testing.T, port uint16) int {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range strings.Split(string(text), "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != "06" {
			continue
		}
		_, hex, _ := strings.Cut(fields[2], ":")
		if p, err := strconv.ParseUint(hex, 16, 16); err == nil && uint16(p) == port {
			n++
		}
	}
	return n
}

func TestClassify(t *testing.T) {
	tests := map[error]Detail{
		syscall.ETIMEDOUT: DetailTimeout, context.DeadlineExceeded: DetailTimeout, os.ErrDeadlineExceeded: DetailTimeout,
		syscall.ECONNREFUSED: DetailRefused, syscall.ECONNRESET: DetailReset, syscall.EPIPE: DetailReset,
		syscall.EHOSTUNREACH: DetailUnreachable, syscall.ENETUNREACH: DetailUnreachable,
		syscall.EMFILE: DetailLocalError, syscall.EADDRNOTAVAIL: DetailLocalError, syscall.EPERM: DetailLocalError,
		syscall.ENOBUFS: DetailLocalError, syscall.ENODEV: DetailLocalError,
	}
	for err, want := range tests {
		if got := classify(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}); got != want {
			t.Errorf("classify(%v) = %s, want %s", err, got, want)
		}
	}
}

func TestRoutedProbes(t *testing.T) {
	target := at(serve(t, loopback4, hang), check(lb.CheckTCP, nil))
	target.Via = Via{Backend: netip.MustParseAddr("192.0.2.7"), Way: lb.Way{Forwarding: lb.ForwardL2}}
	source := netip.MustParseAddr("127.0.0.5")
	route := func(err error) *Dialer {
		return &Dialer{Source4: netip.MustParseAddr("127.0.0.6"), Route: func(_ context.Context, addr, backend netip.Addr, way lb.Way) (netip.Addr, uint32, error) {
			if addr != target.Addr || backend != target.Via.Backend || way.Forwarding != lb.ForwardL2 {
				t.Errorf("asked for the way of %s to %s by %s", addr, backend, way.Forwarding)
			}
			return source, 0, err
		}}
	}
	tests := []struct {
		name   string
		dialer *Dialer
		want   Detail
	}{
		{"way is known", route(nil), DetailHealthy},
		{"no way to the backend", route(fmt.Errorf("no link address: %w", syscall.EHOSTUNREACH)), DetailUnreachable},
		{"the gateway cannot", route(errors.New("broken")), DetailLocalError},
		{"nothing delivers", &Dialer{}, DetailLocalError},
	}
	for _, tt := range tests {
		var from netip.Addr
		ctx := context.WithValue(t.Context(), sourceKey{}, &from)
		got := (&TCPProber{Dialer: tt.dialer}).Probe(ctx, target)
		if got.Detail != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Detail, got.Text, tt.want)
		}
		if tt.want == DetailHealthy && from != source {
			t.Errorf("%s: came from %s, want %s", tt.name, from, source)
		}
	}
}
