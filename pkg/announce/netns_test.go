package announce

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/internal/netlab"
	"l4lb/internal/testutil"
)

var (
	allNodes    = netip.MustParseAddr("ff02::1")
	allNodesMAC = testutil.MAC("33:33:00:00:00:01")
)

// segment is a gateway and a neighbour that listens.
type segment struct {
	gw, peer *testutil.NetNS
	fd       int // captures what reaches the neighbour
}

func newSegment(t *testing.T) *segment {
	t.Helper()
	s := &segment{gw: testutil.NewNetNS(t, "gateway"), peer: testutil.NewNetNS(t, "peer")}
	testutil.VethEnds(t,
		netlab.End{NS: s.gw.Namespace, Name: "eth0", MAC: testutil.GatewayMAC},
		netlab.End{NS: s.peer.Namespace, Name: "eth0", MAC: testutil.RouterMAC})
	s.peer.Do(func() (err error) {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // network order
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
		return err
	})
	t.Cleanup(func() { unix.Close(s.fd) })
	timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatal(err)
	}
	return s
}

// run announces from the gateway until the test ends.
func (s *segment) run(t *testing.T, list ...Announcement) *Announcer {
	t.Helper()
	handle := s.gw.Handle()
	a := New(Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Namespace: &handle})
	a.Set(list)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a
}

// capture returns the next n frames that want accepts. Frames of the kernel's
// own, such as router solicitations, are passed over.
func (s *segment) capture(t *testing.T, n int, want func(frame []byte) bool) [][]byte {
	t.Helper()
	var out [][]byte
	buf := make([]byte, 2048)
	for deadline := time.Now().Add(5 * time.Second); len(out) < n; {
		size, err := unix.Read(s.fd, buf)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if size > 0 && want(buf[:size]) {
			out = append(out, bytes.Clone(buf[:size]))
		}
		if time.Now().After(deadline) {
			t.Fatalf("captured %d frames, want %d", len(out), n)
		}
	}
	return out
}

func isARP(f []byte) bool { return f[12] == 0x08 && f[13] == 0x06 }

func isNA(f []byte) bool { return f[12] == 0x86 && f[20] == 58 && f[54] == 136 }

func TestFramesOnTheWire(t *testing.T) {
	wantARP := testutil.ARPRequest(t, testutil.GatewayMAC, testutil.VIP4, testutil.VIP4)
	wantNA := testutil.NeighborAdvertisement(t, testutil.GatewayMAC, testutil.VIP6, allNodesMAC, allNodes, testutil.NDOverride)
	for _, tt := range []struct {
		name string
		addr netip.Addr
		kind func([]byte) bool
		want []byte
	}{
		{"gratuitous arp", testutil.VIP4, isARP, wantARP},
		{"unsolicited neighbour advertisement", testutil.VIP6, isNA, wantNA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSegment(t)
			s.run(t, Announcement{"eth0", tt.addr})
			for i, got := range s.capture(t, 3, tt.kind) {
				if diff := testutil.Diff(tt.want, got); diff != "" {
					t.Errorf("frame %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// What counts is that neighbours that know another owner learn the new one.
func TestNeighboursFollowTheAnnouncement(t *testing.T) {
	s := newSegment(t)
	s.peer.AddAddr("eth0", "192.0.2.254/24")
	s.peer.AddAddr("eth0", "2001:db8:f::fe/64")
	vips := []netip.Addr{testutil.VIP4, testutil.VIP6}
	for _, vip := range vips {
		err := s.peer.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: s.peer.Ifindex("eth0"), IP: vip.AsSlice(),
			HardwareAddr: testutil.BackendAMAC, State: netlink.NUD_STALE,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, Announcement{"eth0", vips[0]}, Announcement{"eth0", vips[1]})
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		owners := s.owners(t)
		if owners[vips[0]] == testutil.GatewayMAC.String() && owners[vips[1]] == testutil.GatewayMAC.String() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the neighbour still knows %v, want %s", owners, testutil.GatewayMAC)
		}
	}
}

// owners lists the peer's neighbour table.
func (s *segment) owners(t *testing.T) map[netip.Addr]string {
	t.Helper()
	out := map[netip.Addr]string{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := s.peer.Netlink().NeighList(s.peer.Ifindex("eth0"), family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			t.Fatal(err)
		}
		for _, n := range list {
			addr, _ := netip.AddrFromSlice(n.IP)
			out[addr.Unmap()] = n.HardwareAddr.String()
		}
	}
	return out
}

func TestAnnouncedAgainWhenTheLinkIsBack(t *testing.T) {
	s := newSegment(t)
	s.run(t, Announcement{"eth0", testutil.VIP4})
	s.capture(t, 2, isARP) // one is left of the first burst
	s.gw.LinkDown("eth0")
	s.gw.LinkUp("eth0")
	s.capture(t, 2, isARP)

	// Another link address is announced too, in the new frames.
	s.gw.SetMAC("eth0", testutil.BackendBMAC)
	want := testutil.ARPRequest(t, testutil.BackendBMAC, testutil.VIP4, testutil.VIP4)
	fromNew := func(f []byte) bool { return isARP(f) && bytes.Equal(f[6:12], testutil.BackendBMAC) }
	for _, got := range s.capture(t, 2, fromNew) {
		if diff := testutil.Diff(want, got); diff != "" {
			t.Errorf("after the change (-want +got):\n%s", diff)
		}
	}
}

func TestWaitsForALinkThatDoesNotExistYet(t *testing.T) {
	s := newSegment(t)
	a := s.run(t, Announcement{"eth1", testutil.VIP4})
	testutil.Veth(t, s.gw, "eth1", s.peer, "eth1") // the capture sees all of the peer's links
	s.capture(t, 2, isARP)
	a.Set([]Announcement{{"eth0", testutil.VIP4}}) // moves to the other link
	want := testutil.ARPRequest(t, testutil.GatewayMAC, testutil.VIP4, testutil.VIP4)
	fromOther := func(f []byte) bool { return isARP(f) && bytes.Equal(f[6:12], testutil.GatewayMAC) }
	for _, got := range s.capture(t, 2, fromOther) {
		if diff := testutil.Diff(want, got); diff != "" {
			t.Errorf("on the other link (-want +got):\n%s", diff)
		}
	}
}
