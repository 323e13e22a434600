package netns

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// A backend that turns unhealthy gets no new connection later than interval x
// threshold + 100 ms after the first probe that failed, by the backend's own
// clock. Each datagram of the flood is a new flow.
func TestNoNewFlowAfterDetection(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		ctx, cancel := context.WithCancel(t.Context())
		flood := make(chan int)
		go func() { flood <- n.flood(ctx, f) }()
		sick := n.backends["a1"]
		eventually(t, dialTimeout, func() error {
			if len(sick.seen()) < 20 {
				return fmt.Errorf("%d new flows so far", len(sick.seen()))
			}
			return nil
		})
		sick.setSick(true)
		g.awaitState("UNHEALTHY", "a1")
		others := n.backends["b1"]
		after := len(others.seen())
		eventually(t, dialTimeout, func() error { // new flows go on, at others
			if k := len(others.seen()) - after; k < 50 {
				return fmt.Errorf("%d flows at another backend", k)
			}
			return nil
		})
		cancel()
		sent := <-flood

		probes, arrivals := sick.refused(f), sick.seen()
		last := arrivals[len(arrivals)-1].at
		if len(probes) < unhealthyThreshold {
			t.Fatalf("%d failed probes", len(probes))
		}
		t.Logf("%d new flows; the last at %s came %v after the first failed probe and %v after the deciding one; bound %v",
			sent, sick.name, last.Sub(probes[0]), last.Sub(probes[unhealthyThreshold-1]), noticeTime)
		if late := last.Sub(probes[0]); late > noticeTime {
			t.Errorf("a new flow came %v after the first failed probe, later than %v", late, noticeTime)
		}
		if flows := distinct(arrivals); flows != len(arrivals) {
			t.Errorf("%d flows in %d datagrams: the flood is not all new", flows, len(arrivals))
		}
	})
}

// flood sends a datagram every few milliseconds, each from a port of its own,
// until ctx ends.
func (n *network) flood(ctx context.Context, f family) (sent int) {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for port := uint16(10000); ctx.Err() == nil; port++ {
		<-tick.C
		local := netip.AddrPortFrom(inNoZone.addr(f), port)
		conn, err := n.client.DialFrom(ctx, "udp", local, hostPort(f.vip, echoPort))
		if err != nil {
			continue // in use
		}
		if _, err := fmt.Fprint(conn, sent); err == nil {
			sent++
		}
		conn.Close()
	}
	return sent
}

func distinct(list []arrival) int {
	ports := map[string]bool{}
	for _, a := range list {
		ports[a.from] = true
	}
	return len(ports)
}

// busyMachine is what a test machine with other work may add where a bound has
// no room of its own.
const busyMachine = 500 * time.Millisecond

// A stream of datagrams from one socket, whose backend dies, is answered by
// another one as soon as checks can know (semantics.md 1.8).
func TestDatagramsMoveWhenTheirBackendDies(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		startGateway(n, fourBackends())
		x := n.startExchange(f, inNoZone)
		died := x.next(t)
		at := time.Now()
		n.backends[died].die()
		var moved answer
		eventually(t, 10*time.Second, func() error {
			all := x.got()
			moved = all[len(all)-1]
			if moved.name == died {
				return fmt.Errorf("nobody took over from %s", died)
			}
			return nil
		})
		for _, a := range x.got() { // the first of the other one
			if a.name == moved.name {
				moved = a
				break
			}
		}
		// The death is seen by the first probe after it, at most an interval later.
		t.Logf("%s took over from %s after %v; detection takes %v at most", moved.name, died, moved.at.Sub(at), noticeTime)
		if took := moved.at.Sub(at); took > noticeTime+busyMachine {
			t.Errorf("it took %v, more than %v", took, noticeTime)
		}
		stays(t, x, moved.name)
	})
}

// stays checks that the next answers come from one backend.
func stays(t *testing.T, x *exchange, name string) {
	t.Helper()
	for range 20 {
		if now := x.next(t); now != name {
			t.Errorf("the exchange went on to %s, not %s", now, name)
			return
		}
	}
}
