package netns

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A drain by hand: no new connections at once; established ones stay until the
// drain timeout and are then somebody else's (semantics.md 1.10): the balancer
// resets nothing, the backend that does not know the connection does.
func TestDrainByHand(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		s := fourBackends()
		s.drain = 3 * time.Second
		g := startGateway(n, s)
		conn, err := n.talk(f, inNoZone)
		if err != nil {
			t.Fatal(err)
		}
		name, err := conn.who()
		if err != nil {
			t.Fatal(err)
		}
		x := n.exchangeWith(f, name)

		start := time.Now()
		if out, err := g.command("drain", name); err != nil || out != "" {
			t.Fatalf("drain: %v\n%s", err, out)
		}
		wantNoFlows(t, n, f, name)
		g.awaitState("DRAINING", name)
		for time.Since(start) < s.drain-200*time.Millisecond {
			if now, err := conn.who(); err != nil || now != name {
				t.Fatalf("after %v the connection is at %q: %v", time.Since(start), now, err)
			}
			if now := x.next(t); now != name {
				t.Fatalf("after %v the datagrams are at %s", time.Since(start), now)
			}
		}
		eventually(t, 2*time.Second, func() error {
			if now := x.next(t); now == name {
				return fmt.Errorf("datagrams still come to %s", name)
			}
			return nil
		})
		t.Logf("datagrams moved %v after the drain began", time.Since(start))
		if _, err := conn.who(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Errorf("the connection did not end by another backend's reset: %v", err)
		}

		if out, err := g.command("undrain", name); err != nil || out != "" {
			t.Fatalf("undrain: %v\n%s", err, out)
		}
		wantAnswers(t, n, f, inNoZone, "a1 a2 b1 b2")
	})
}

// exchangeWith opens sockets until one is answered by the backend.
func (n *network) exchangeWith(f family, name string) *exchange {
	n.t.Helper()
	for range 200 {
		x := n.startExchange(f, inNoZone)
		if x.next(n.t) == name {
			return x
		}
		x.stop()
		x.conn.Close()
	}
	n.t.Fatalf("no exchange with %s in 200", name)
	return nil
}

// What cannot be drained is named.
func TestDrainOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	g := startGateway(n, fourBackends())
	for _, args := range [][]string{{"drain", "nobody"}, {"undrain", "nobody"}, {"drain", "a1", "--service", "nothing"}} {
		out, err := g.command(args...)
		if err == nil || !strings.Contains(out, "not configured") {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
}
