package netns

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/conntrack"
)

// narrow is the MTU of the link behind the router, on the way to the clients.
const narrow = 1400

// tooBig are the counters of errors that a router sends about packets that do not
// fit, and of those that a host receives.
func tooBig(f family) (out, in string) {
	if f.ipv6 {
		return "Icmp6OutPktTooBigs", "Icmp6InPktTooBigs"
	}
	return "Icmp OutDestUnreachs", "Icmp InDestUnreachs"
}

// wantErrorsAt waits until one backend has all errors that the router sent.
func (n *network) wantErrorsAt(f family, name string) {
	n.t.Helper()
	out, in := tooBig(f)
	eventually(n.t, 20*time.Second, func() error {
		sent, got := snmp(n.router, out), n.counted(in)
		if sent == 0 || !maps.Equal(got, map[string]int{name: sent}) {
			return fmt.Errorf("%d errors sent, received: %v, want all at %s", sent, got, name)
		}
		return nil
	})
}

// A router on the way to the client has a smaller MTU than the servers: it tells
// the VIP, and the backend of the connection learns it and nobody else does. A
// megabyte gets through.
func TestPathMTUIsLearntThroughTheGateway(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		startGateway(n, fourBackends())
		if err := n.router.SetMTU("clients", narrow); err != nil {
			t.Fatal(err)
		}
		conn, err := n.talk(f, inZoneB)
		if err != nil {
			t.Fatal(err)
		}
		name, err := conn.who()
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "stream\n"); err != nil {
			t.Fatal(err)
		}
		if size, err := io.CopyN(io.Discard, conn.in, 1<<20); err != nil {
			t.Fatalf("after %d bytes: %v", size, err)
		}
		conn.Close()
		n.wantErrorsAt(f, name)
	})
}

// The same on a gateway that never saw the flow: the error goes where the flow's
// packets would, and leaves nothing behind.
func TestErrorsReachTheirBackendThroughAGatewayThatNeverSawTheFlow(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, fourBackends())
		x := n.startExchange(f, inNoZone)
		name := x.next(t)
		client := netip.MustParseAddrPort(x.conn.LocalAddr().String())
		x.finish(t, name)
		g.stop()
		g.start("--discard-state")
		g.settled()

		if err := n.router.SetMTU("clients", narrow); err != nil {
			t.Fatal(err)
		}
		b := n.backends[name]
		wire := n.openWireAt(b.ns, "eth0")
		wire.send(testutil.UDP(t, netip.AddrPortFrom(f.vip, echoPort), client, testutil.Payload(make([]byte, narrow)),
			testutil.MACs(b.ns.MAC("eth0"), testutil.RouterMAC)))
		n.wantErrorsAt(f, name)
		if out, err := g.command("flows", "-o", "json", "--client", client.Addr().String()); err != nil || !noFlows(t, out) {
			t.Errorf("flows after the error: %v\n%s", err, out)
		}
	})
}

func noFlows(t *testing.T, report string) bool {
	t.Helper()
	var r conntrack.Report
	if err := json.Unmarshal([]byte(report), &r); err != nil {
		t.Fatal(err)
	}
	return r.Total == 0
}
