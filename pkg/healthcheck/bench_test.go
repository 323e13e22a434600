package healthcheck

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

// BenchmarkProbe is the cost of one probe, the peer's part included.
func BenchmarkProbe(b *testing.B) {
	web := webServer(b, loopback4, serverTLS(b, alpnHTTP2, alpnHTTP1), secureSite)
	page := func(c *lb.HealthCheck) { c.RequestPath = "/ok" }
	peers := map[lb.HealthCheckType]Target{
		lb.CheckTCP:         at(acceptor(b), check(lb.CheckTCP, nil)),
		lb.CheckSSL:         at(web, check(lb.CheckSSL, nil)),
		lb.CheckHTTP:        at(webPeer(b), check(lb.CheckHTTP, func(c *lb.HealthCheck) { c.Response = "hello" })),
		lb.CheckHTTPS:       at(web, check(lb.CheckHTTPS, page)),
		lb.CheckHTTP2:       at(web, check(lb.CheckHTTP2, page)),
		lb.CheckGRPC:        at(grpcServer(b, loopback4, nil, nil), check(lb.CheckGRPC, nil)),
		lb.CheckGRPCWithTLS: at(grpcServer(b, loopback4, serverTLS(b, alpnHTTP2), nil), check(lb.CheckGRPCWithTLS, nil)),
	}
	probers := DefaultProbers(&Dialer{})
	for _, kind := range slices.Sorted(maps.Keys(probers)) {
		prober := probers[kind]
		b.Run(string(kind), func(b *testing.B) {
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), time.Second)
				if r := prober.Probe(ctx, peers[kind]); !r.OK() {
					b.Fatalf("%s (%s)", r.Detail, r.Text)
				}
				cancel()
			}
		})
	}
}

// BenchmarkChecker runs 5000 targets at 1 s against a peer in this process. An
// operation is one run; what matters is in the extra columns: probes a second,
// how late 99 of 100 start at most, processor time, the peer's too, and failures.
func BenchmarkChecker(b *testing.B) {
	for _, kind := range []lb.HealthCheckType{lb.CheckTCP, lb.CheckHTTP} {
		b.Run(string(kind), func(b *testing.B) {
			peer := acceptor(b)
			if kind == lb.CheckHTTP {
				peer = webPeer(b)
			}
			c := New(Options{})
			if err := c.SetTargets(distinct(5000, peer, kind, time.Second), nil); err != nil {
				b.Fatal(err)
			}
			want := uint64(15_000 * b.N)
			cpu, begun := cpuTime(b), time.Now()
			stop := runChecker(b, c)
			var s Snapshot
			for s.Lateness.Count() < want {
				time.Sleep(100 * time.Millisecond)
				s = c.Snapshot()
			}
			took := time.Since(begun)
			stop()
			bound, _ := s.Lateness.QuantileBound(0.99)
			b.ReportMetric(float64(s.Lateness.Count())/took.Seconds(), "probes/s")
			b.ReportMetric(float64(bound.Milliseconds()), "p99-late-ms")
			used := cpuTime(b) - cpu
			b.ReportMetric(used.Seconds()/took.Seconds(), "cores")
			b.ReportMetric(float64(used.Microseconds())/float64(s.Lateness.Count()), "cpu-us/probe")
			b.ReportMetric(float64(failed(s)), "failed")
		})
	}
}

// BenchmarkManyProbes makes as many probes in a run as L4LB_PROBES says, 50 000
// by default, as fast as they go, and fails where something of them is left:
// sockets, goroutines, memory.
func BenchmarkManyProbes(b *testing.B) {
	const workers = 64
	probes := uint64(50_000)
	if text := os.Getenv("L4LB_PROBES"); text != "" {
		var err error
		if probes, err = strconv.ParseUint(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	peer := webPeer(b)
	for b.Loop() {
		sockets, goroutines, before := countSockets(b), runtime.NumGoroutine(), heapInUse()
		c := New(Options{})
		if err := c.SetTargets(distinct(workers, peer, lb.CheckHTTP, time.Millisecond), nil); err != nil {
			b.Fatal(err)
		}
		limitless(c)
		stop := runChecker(b, c)
		for c.Snapshot().Lateness.Count() < probes {
			time.Sleep(50 * time.Millisecond)
		}
		s := c.Snapshot()
		stop()
		settle(func() bool { return countSockets(b) <= sockets && runtime.NumGoroutine() <= goroutines })
		b.ReportMetric(float64(s.Lateness.Count()), "probes")
		b.ReportMetric(float64(failed(s)), "failed")
		b.ReportMetric(float64(heapInUse()-before)/1024, "heap-growth-KiB")
		if now := countSockets(b); now > sockets {
			b.Errorf("%d sockets, %d before", now, sockets)
		}
		if now := runtime.NumGoroutine(); now > goroutines {
			b.Errorf("%d goroutines, %d before", now, goroutines)
		}
		if grown := heapInUse() - before; grown > 4<<20 {
			b.Errorf("the heap grew by %d bytes", grown)
		}
	}
}

// limitless gives probes time enough on a machine that is busy: what is
// measured is what they leave, not when they end.
func limitless(c *Checker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		r.target.Check.Timeout = 10 * time.Second
	}
}

// heapInUse is what is in use after a collection, in bytes.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settle waits a while for a condition.
func settle(holds func() bool) {
	for deadline := time.Now().Add(5 * time.Second); !holds() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}

// webPeer is an HTTP peer that costs little: a fixed number of goroutines
// answer one connection after the other, whatever it asks.
func webPeer(b *testing.B) netip.AddrPort {
	ln, err := net.Listen("tcp", loopback4+":0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var buf [1024]byte
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				if _, err := c.Read(buf[:]); err == nil {
					c.Write([]byte(ok200 + "Content-Length: 5\r\n\r\nhello"))
				}
				c.Close()
			}
		})
	}
	b.Cleanup(func() { ln.Close(); wg.Wait() })
	return netip.MustParseAddrPort(ln.Addr().String())
}

func failed(s Snapshot) uint64 {
	var n uint64
	for _, st := range s.Targets {
		for detail, count := range st.Results {
			if detail != DetailHealthy {
				n += count
			}
		}
	}
	return n
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
