package netns

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// Firewalls that drop what they have not seen begin carry every connection,
// although each direction is steered by a gateway of its own that knows nothing
// of the other: both hash alike, over the instances' names (semantics.md 4.4).
// It holds while a firewall fails and comes back.
func TestBothDirectionsMeetTheSameFirewall(t *testing.T) {
	t.Parallel()
	n := newRouted(t, 5)
	for _, a := range n.appliances {
		a.stateful(t)
	}
	n.start()
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	phase := func(what string, count int) {
		t.Helper()
		for _, f := range families {
			open = append(open, n.connectMany(t, what, f, count/2)...)
		}
		n.sayAll(t, what, open)
	}
	phase("all firewalls healthy", 400)
	n.appliances["fw-2"].setSick(true)
	n.sayAll(t, "while fw-2 fails", open)
	n.awaitState("UNHEALTHY", "fw-2")
	phase("fw-2 is unhealthy", 300)
	n.appliances["fw-2"].setSick(false)
	n.sayAll(t, "while fw-2 comes back", open)
	n.awaitState("HEALTHY", "fw-2")
	phase("fw-2 is back", 300)
	for _, f := range families {
		for name, packets := range n.forwarded(f) {
			if packets == 0 {
				t.Errorf("%s carried nothing over %s", name, f.name)
			}
		}
	}
}

// connectMany opens connections, some at a time. A firewall that misses one
// direction of one lets it time out.
func (n *routed) connectMany(t *testing.T, what string, f family, count int) []net.Conn {
	t.Helper()
	conns, errs := make([]net.Conn, count), make([]error, count)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range count {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			conns[i], errs[i] = n.connect("tcp", f)
		}()
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: connection %d over %s: %v", what, i, f.name, err)
		}
	}
	return conns
}

// sayAll uses every connection.
func (n *routed) sayAll(t *testing.T, what string, conns []net.Conn) {
	t.Helper()
	for i, conn := range conns {
		if err := say(conn, fmt.Sprintf("connection %d, %s", i, what)); err != nil {
			t.Fatalf("%s: connection %d of %d: %v", what, i, len(conns), err)
		}
	}
}
