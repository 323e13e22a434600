package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deafen makes the backend's listener drop every SYN without an answer, as a
// firewall or a full queue does; its health check goes on answering.
func (b *backend) deafen(t *testing.T, on bool) {
	t.Helper()
	raw, err := b.tcp.(*net.TCPListener).SyscallConn()
	if err == nil {
		nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
		err = errors.Join(raw.Control(func(fd uintptr) {
			if on {
				err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
			} else {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
			}
		}), err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// knock opens connections to the VIP, one after the other, until ctx ends. None is
// waited for longer than a healthy backend needs.
func (n *network) knock(ctx context.Context, f family) {
	var open sync.WaitGroup
	defer open.Wait()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		open.Go(func() {
			limited, cancel := context.WithTimeout(ctx, 900*time.Millisecond)
			defer cancel()
			if conn, err := n.client.DialContext(limited, "tcp", hostPort(f.vip, talkPort)); err == nil {
				conn.Close()
			}
		})
	}
}

// awaitSuspected waits until exactly those backends of a service are, and returns
// why the first is.
func (g *gateway) awaitSuspected(f family, service string, names ...string) (why string) {
	g.t.Helper()
	eventually(g.t, 60*time.Second, func() error {
		list, err := g.client.Backends(g.t.Context(), service)
		var got []string
		for _, b := range list.Backends {
			if len(b.Suspicions) > 0 && strings.Contains(b.Address, ":") == f.ipv6 {
				got, why = append(got, b.Instance), b.Suspicions[0].Why
			}
		}
		if err == nil && strings.Join(got, " ") != strings.Join(names, " ") {
			err = fmt.Errorf("suspected %q, want %q", got, names)
		}
		return err
	})
	return why
}

// A backend that drops its clients' SYNs passes its health check all the same. It
// is suspected, and stays eligible; when it answers again it is cleared.
func TestABackendThatDropsSYNsIsSuspected(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		s := fourBackends()
		s.service = "  l4lb: {passiveSignals: {enable: true, windowSec: 3, minEvents: 8}}\n"
		g := startGateway(n, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		knocking := make(chan struct{})
		go func() {
			defer close(knocking)
			n.knock(ctx, f)
		}()
		deaf := n.backends["b1"]
		deaf.deafen(t, true)
		why := g.awaitSuspected(f, "web", "b1")
		if !strings.HasPrefix(why, "unconfirmedSyn ") || !strings.HasSuffix(why, " in 3s") {
			t.Errorf("suspected because of %q", why)
		}
		all, err := g.backends()
		if b := all["b1 "+deaf.addr(f)]; err != nil || b.State != "HEALTHY" || !b.Eligible {
			t.Errorf("b1 is %s, eligible %v: %v", b.State, b.Eligible, err)
		}
		status, err := g.status()
		if err != nil || !strings.Contains(strings.Join(status.Problems, "\n"), "is SUSPECT: unconfirmedSyn ") {
			t.Errorf("the status does not say it: %q, %v", status.Problems, err)
		}
		if !strings.Contains(g.metrics(), `l4lb_backend_suspected{address="`+deaf.addr(f)+`",backend="b1",service="web",signal="UNCONFIRMED_SYN",zone="zone-b"} 1`) {
			t.Error("the metrics do not say it")
		}
		deaf.deafen(t, false)
		g.awaitSuspected(f, "web")
		cancel()
		<-knocking
		for _, line := range []string{"backend is suspected", "backend is no longer suspected"} {
			if !strings.Contains(g.log.String(), line) {
				t.Errorf("the log lacks %q", line)
			}
		}
	})
}

// A backend whose service is gone answers datagrams with ICMP errors. Where the
// gateway is its router they pass by and tell, and the clients get them all the
// same.
func TestABackendWhosePortIsUnreachableIsSuspected(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		n.gateway.EnableForwarding()
		for _, b := range n.backends {
			zone := map[string]int{"a": 1, "b": 2}[b.zone]
			b.ns.AddRoute("0.0.0.0/0", fmt.Sprintf("10.%d.0.2", zone))
			b.ns.AddRoute("::/0", fmt.Sprintf("2001:db8:%s::2", b.zone))
			b.ns.SetSysctl("ipv4/icmp_ratelimit", "0") // one a second to each client
			b.ns.SetSysctl("ipv6/icmp/ratelimit", "0")
		}
		s := fourBackends()
		s.service = "  l4lb: {passiveSignals: {enable: true, windowSec: 3}}\n"
		g := startGateway(n, s)
		for _, conn := range n.backends["b1"].udp {
			conn.Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		flood := make(chan int)
		go func() { flood <- n.flood(ctx, f) }()
		why := g.awaitSuspected(f, "dns", "b1")
		cancel()
		<-flood
		if !strings.HasPrefix(why, "portUnreachable ") {
			t.Errorf("suspected because of %q", why)
		}
		all, err := g.backends()
		if b := all["b1 "+n.backends["b1"].addr(f)]; err != nil || b.State != "HEALTHY" || !b.Eligible {
			t.Errorf("b1 is %s, eligible %v: %v", b.State, b.Eligible, err)
		}
	})
}

// metrics is what the gateway shows to Prometheus.
func (g *gateway) metrics() string {
	g.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: g.net.gateway.DialContext}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://127.0.0.1:9464/metrics")
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}
