package healthcheck

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

const (
	loopback4 = "127.0.0.1"
	loopback6 = "::1"
)

// serve runs a peer on a loopback address until the test ends. Connections are
// closed when handle returns or the test ends.
func serve(t testing.TB, addr string, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu    sync.Mutex
		conns = map[net.Conn]bool{}
		wg    sync.WaitGroup
	)
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			wg.Go(func() {
				handle(c)
				c.Close()
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return netip.MustParseAddrPort(ln.Addr().String())
}

// deadPort is a loopback port that nothing listens on.
func deadPort(t testing.TB) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", loopback4+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return netip.MustParseAddrPort(ln.Addr().String())
}

// hang keeps a connection open and says nothing.
func hang(c net.Conn) {
	buf := make([]byte, 4096)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// reset ends a connection with RST.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// readRequest reads one HTTP request and returns it, or nil.
func readRequest(c net.Conn) *http.Request {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	return req
}

// answer replies to one HTTP request with the given bytes and closes.
func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		if readRequest(c) != nil {
			c.Write([]byte(text))
		}
	}
}

// drip sends text a byte at a time, slower than any probe here waits.
func drip(text string) func(net.Conn) {
	return func(c net.Conn) {
		for i := range len(text) {
			if _, err := c.Write([]byte{text[i]}); err != nil {
				return
			}
			time.Sleep(60 * time.Millisecond)
		}
		hang(c)
	}
}

// check is a health check with the defaults of semantics.md 5.1.
func check(kind lb.HealthCheckType, edit func(*lb.HealthCheck)) lb.HealthCheck {
	c := lb.HealthCheck{
		Name: "hc", Type: kind, Port: 80,
		CheckInterval: 5 * time.Second, Timeout: 5 * time.Second,
		HealthyThreshold: 2, UnhealthyThreshold: 2,
		ProxyHeader: lb.ProxyNone, RequestPath: "/",
	}
	if edit != nil {
		edit(&c)
	}
	return c
}

// at aims a check at a peer.
func at(peer netip.AddrPort, c lb.HealthCheck) Target {
	c.Port = peer.Port()
	return Target{Addr: peer.Addr(), Check: c}
}

// probeOnce makes one probe with its own deadline.
func probeOnce(t testing.TB, p Prober, target Target, timeout time.Duration) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	begun := time.Now()
	r := p.Probe(ctx, target)
	if took := time.Since(begun); took > timeout+2*time.Second {
		t.Errorf("probe took %v with a timeout of %v", took, timeout)
	}
	if r.Text == "" || r.Latency <= 0 {
		t.Errorf("result without text or latency: %+v", r)
	}
	return r
}
