package netns

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// onlyZoneA lets in the clients of zone a.
func onlyZoneA(s settings) settings {
	s.admission = func(f family) string {
		return map[bool]string{false: "{allowedSourceRanges: [10.1.0.0/16]}", true: `{allowedSourceRanges: ["2001:db8:a::/48"]}`}[f.ipv6]
	}
	return s
}

// Clients outside of a rule's ranges are not served. Where a reload, or a start
// after a crash, leaves them out, what they have open ends; the others go on.
func TestOnlyAllowedClientsAreServed(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		inside, insideAt := open(t, n, f, inZoneA)
		x := n.startExchange(f, inZoneA)
		answering := x.next(t)
		outside, _ := open(t, n, f, inNoZone)

		g.reload(onlyZoneA(fourBackends()))
		wantRefused(t, n, f, inNoZone, outside)
		if name, err := inside.who(); err != nil || name != insideAt {
			t.Errorf("a client that is still allowed: %q, %v, want %s", name, err, insideAt)
		}
		n.spread(f, inZoneA, 4)
		if got := g.metric(`l4lb_rule_refused_packets_total{reason="SOURCE_NOT_ALLOWED",rule="web-` + f.name + `"}`); got < 2 {
			t.Errorf("%v refused packets are counted", got)
		}

		// Without the filter its connection is a new one, at the backend that
		// has it open or at one that resets it.
		g.reload(fourBackends())
		second, secondAt := open(t, n, f, inNoZone)
		if name, err := second.who(); err != nil || name != secondAt {
			t.Fatalf("%q, %v", name, err)
		}
		g.kill()
		g.configure(onlyZoneA(fourBackends()))
		g.start()
		g.settled()
		wantRefused(t, n, f, inNoZone, second)
		if name, err := inside.who(); err != nil || name != insideAt {
			t.Errorf("a client that is still allowed, after a crash: %q, %v, want %s", name, err, insideAt)
		}
		x.finish(t, answering)
	})
}

func open(t *testing.T, n *network, f family, from place) (*talker, string) {
	t.Helper()
	conn, err := n.talk(f, from)
	if err != nil {
		t.Fatal(err)
	}
	name, err := conn.who()
	if err != nil {
		t.Fatal(err)
	}
	return conn, name
}

// wantRefused checks that a client gets no connection, and nothing over the one
// that it has.
func wantRefused(t *testing.T, n *network, f family, from place, old *talker) {
	t.Helper()
	if c, err := n.talk(f, from); err == nil {
		t.Errorf("a client in %s got a connection", from.name)
		c.Close()
	}
	if name, err := old.who(); err == nil {
		t.Errorf("a client in %s still talks to %s", from.name, name)
	}
}

// A client that opens connections as fast as it can gets its share and no more,
// while another source is served.
func TestAFloodOfOneSourceIsItsOwn(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		const burst, tries = 8, 60
		s := fourBackends()
		s.admission = func(family) string { return "{newFlowsPerSecondPerSource: 1, newFlowsBurstPerSource: 8}" }
		g := startGateway(n, s)
		begin := time.Now()
		var got atomic.Int64
		var wg sync.WaitGroup
		for range tries {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
				defer cancel()
				c, err := n.client.DialFrom(ctx, "tcp", netip.AddrPortFrom(inNoZone.addr(f), 0), hostPort(f.vip, talkPort))
				if err == nil {
					got.Add(1)
					c.Close()
				}
			})
		}
		n.spread(f, inZoneA, 4)
		wg.Wait()
		if most := burst + 1 + int64(time.Since(begin)/time.Second); got.Load() < 1 || got.Load() > most {
			t.Errorf("the flood got %d connections, want 1 to %d", got.Load(), most)
		}
		n.spread(f, inZoneB, 4)
		refused := g.metric(`l4lb_rule_refused_packets_total{reason="SOURCE_RATE_LIMITED",rule="web-` + f.name + `"}`)
		if refused < tries-float64(got.Load()) {
			t.Errorf("%v refused packets are counted, %d connections of %d were had", refused, got.Load(), tries)
		}
	})
}
