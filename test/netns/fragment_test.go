package netns

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

const (
	bulkPort = 7000 // UDP, of the backends of fragment tests
	bulkSize = 4000
)

// delivery is a datagram that a backend's socket received.
type delivery struct {
	backend string
	from    netip.AddrPort
	sum     [32]byte
}

// collectDatagrams has every backend receive datagrams at bulkPort and send them
// back.
func (n *network) collectDatagrams(f family) <-chan delivery {
	out := make(chan delivery, 1024)
	for _, b := range n.backends {
		conn := b.ns.ListenPacket("udp", hostPort(f.vip, bulkPort)).(*net.UDPConn)
		go func() {
			buf := make([]byte, 1<<16)
			for {
				size, from, err := conn.ReadFromUDPAddrPort(buf)
				if err != nil {
					return
				}
				out <- delivery{b.name, from, sha256.Sum256(buf[:size])}
				_, _ = conn.WriteToUDPAddrPort(buf[:size], from) // or the client asks again
			}
		}()
	}
	return out
}

// await receives the next datagram from an address.
func await(t *testing.T, in <-chan delivery) delivery {
	t.Helper()
	select {
	case d := <-in:
		return d
	case <-time.After(20 * time.Second):
		t.Fatal("the datagram does not arrive")
		return delivery{}
	}
}

// allUDPPorts is what later fragments need.
func allUDPPorts() settings {
	s := fourBackends()
	s.udpPorts = "allPorts: true"
	return s
}

// Datagrams that the client's kernel cuts into three fragments are put together
// again by one backend's, and so are the answers.
func TestLargeDatagramsReachABackend(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		startGateway(n, allUDPPorts())
		in := n.collectDatagrams(f)
		random := rand.NewChaCha8([32]byte{})
		used := map[string]int{}
		for _, from := range []place{inZoneA, inZoneB, inNoZone, onVPN} {
			for range 3 {
				conn, err := n.dial("udp", f, from, bulkPort)
				if err != nil {
					t.Fatal(err)
				}
				sent, got := make([]byte, bulkSize), make([]byte, bulkSize+1)
				_, _ = random.Read(sent) // never fails
				if _, err := conn.Write(sent); err != nil {
					t.Fatal(err)
				}
				d := await(t, in)
				used[from.name+" "+d.backend]++
				if d.from.String() != conn.LocalAddr().String() || d.sum != sha256.Sum256(sent) {
					t.Errorf("%s received something else from %s", d.backend, d.from)
				}
				if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
					t.Fatal(err)
				}
				size, err := conn.Read(got)
				if err != nil || !bytes.Equal(got[:size], sent) {
					t.Errorf("answer of %d bytes: %v", size, err)
				}
				conn.Close()
			}
		}
		if len(used) != 4 {
			t.Errorf("a client's datagrams went to several backends: %v", used)
		}
	})
}

// Fragments in any order, twice, or not all of them: each is at the backend that
// has the others.
func TestFragmentsInAnyOrderMeet(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		g := startGateway(n, allUDPPorts())
		in, wire, gateway := n.collectDatagrams(f), n.openWire(), n.gateway.MAC("eth0")
		requested := map[bool]string{false: "Ip ReasmReqds", true: "Ip6ReasmReqds"}[f.ipv6]
		var reached []string
		for i, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 0, 1, 1, 2, 2}, {1, 2}, {2, 0, 1}} {
			client := netip.AddrPortFrom(inZoneA.addr(f), 4000+uint16(i))
			payload := bytes.Repeat(fmt.Append(nil, i, "l4lb"), bulkSize/5)
			pieces := testutil.Fragments(t, testutil.UDP(t, client, netip.AddrPortFrom(f.vip, bulkPort), testutil.Payload(payload)), 1448,
				testutil.FragmentID(uint16(100+i)), testutil.MACs(testutil.RouterMAC, gateway))
			if len(pieces) != 3 {
				t.Fatalf("%d fragments", len(pieces))
			}
			for _, k := range order {
				wire.send(pieces[k])
			}
			if i == 4 {
				continue // its first fragment is lost: nobody ever has the datagram
			}
			d := await(t, in)
			if d.from != client || d.sum != sha256.Sum256(payload) {
				t.Errorf("order %v: %s received something else, from %s", order, d.backend, d.from)
			}
			reached = append(reached, d.backend)
		}
		if len(in) != 0 {
			t.Errorf("%d datagrams too many: %+v", len(in), <-in)
		}
		slices.Sort(reached)
		if len(slices.Compact(slices.Clone(reached))) != 1 {
			t.Errorf("one client's fragments reached %v", reached)
		}
		// 3 for each of four, 6 for that in duplicate, 2 for the incomplete one.
		if got, want := n.counted(requested), map[string]int{reached[0]: 20}; !maps.Equal(got, want) {
			t.Errorf("fragments received: %v, want %v", got, want)
		}
		if got := g.metric(`l4lb_datapath_packets_total{reason="FRAGMENT",verdict="drop"}`); got != 0 {
			t.Errorf("%v fragments were dropped", got)
		}
	})
}
