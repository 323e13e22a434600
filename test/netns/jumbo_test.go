package netns

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// jumbo is the MTU of every link in the network of a test of long frames.
const jumbo = 9000

// widen gives every link that MTU.
func (n *network) widen() {
	n.t.Helper()
	set := func(ns *testutil.NetNS, link string) {
		if err := ns.SetMTU(link, jumbo); err != nil {
			n.t.Fatal(err)
		}
	}
	for _, port := range []string{"gateway", "clients"} {
		set(n.router, port)
	}
	set(n.gateway, "eth0")
	set(n.client, "eth0")
	for name, b := range n.backends {
		set(n.router, name)
		set(b.ns, "eth0")
	}
	set(n.router, "servers")
}

// segment is the largest that a TCP connection sends.
func segment(t *testing.T, conn net.Conn) (size int) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var err2 error
	err = raw.Control(func(fd uintptr) { size, err2 = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return size
}

// Over links of 9000 bytes a megabyte goes to a backend in segments, and datagrams
// in one packet, that take three buffers each. A capture shows them whole while it
// runs, in the place of the program.
func TestJumboFrames(t *testing.T) {
	inFamilies(t, func(t *testing.T, n *network, f family) {
		n.widen()
		g := startGateway(n, allUDPPorts())
		n.wantJumboUpload(t, f)
		n.wantJumboDatagrams(t, f)

		c := g.startCapture()
		n.wantJumboUpload(t, f)
		c.end()
		captured, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		whole := 0
		for _, p := range captured {
			if len(p.in.Data()) > 8900 && p.out != nil {
				whole++
			}
		}
		if whole < 100 {
			t.Errorf("%d long packets of a megabyte were captured", whole)
		}
	})
}

func (n *network) wantJumboUpload(t *testing.T, f family) {
	t.Helper()
	c, err := n.talk(f, inNoZone)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1023) + "\n" // which the backend reads and forgets
	if _, err := fmt.Fprint(c, strings.Repeat(line, 1024), "who\n"); err != nil {
		t.Fatalf("send a megabyte: %v", err)
	}
	if name, err := c.in.ReadString('\n'); err != nil || n.backends[strings.TrimSpace(name)] == nil {
		t.Errorf("after a megabyte: %q, %v", name, err)
	}
	if size := segment(t, c.Conn); size < 8900 {
		t.Errorf("segments of %d bytes", size)
	}
}

func (n *network) wantJumboDatagrams(t *testing.T, f family) {
	t.Helper()
	size := jumbo - 20 - 8
	if f.ipv6 {
		size -= 20
	}
	in := n.collectDatagrams(f)
	random := rand.NewChaCha8([32]byte{})
	before := n.fragments()
	for _, size := range []int{size, 3600, 4096, 100} {
		conn, err := n.dial("udp", f, inZoneA, bulkPort)
		if err != nil {
			t.Fatal(err)
		}
		sent, got := make([]byte, size), make([]byte, size+1)
		_, _ = random.Read(sent) // never fails
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		if d := await(t, in); d.from.String() != conn.LocalAddr().String() || d.sum != sha256.Sum256(sent) {
			t.Errorf("%s received something else than %d bytes from %s", d.backend, size, d.from)
		}
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(got); err != nil || !bytes.Equal(got[:n], sent) {
			t.Errorf("answer of %d bytes: %v", n, err)
		}
		conn.Close()
	}
	if made := n.fragments() - before; made != 0 {
		t.Errorf("%d fragments were made", made)
	}
}

// fragments counts those that the client made.
func (n *network) fragments() int {
	return snmp(n.client, "Ip FragCreates") + snmp(n.client, "Ip6FragCreates")
}

// A program for frames of one page keeps the link short; without it the MTU can be
// raised, and the next daemon follows.
func TestMTUIsRaisedUnderAGateway(t *testing.T) {
	n := newNetwork(t)
	f := families[0]
	g := startGateway(n, allUDPPorts())
	if err := n.router.SetMTU("gateway", jumbo); err == nil { // veth: the end that sends
		t.Error("the driver takes a larger MTU under a program for frames of one page")
	}
	g.stop()
	n.widen()
	g.start()
	g.settled()
	n.wantJumboUpload(t, f)
}
