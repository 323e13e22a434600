package neigh

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"l4lb/internal/testutil"
)

var (
	backend4 = netip.MustParseAddr("10.1.0.11")
	backend6 = netip.MustParseAddr("2001:db8:a::11")
	far4     = netip.MustParseAddr("10.2.0.11")
)

// network is a gateway and, one veth away, a backend.
type network struct {
	gw, backend *testutil.NetNS
	r           *Resolver
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{gw: testutil.NewNetNS(t, "gateway"), backend: testutil.NewNetNS(t, "backend")}
	testutil.Veth(t, n.gw, "c1", n.backend, "eth0")
	n.gw.AddAddr("c1", "10.1.0.1/16")
	n.gw.AddAddr("c1", "2001:db8:a::1/48")
	n.backend.AddAddr("eth0", "10.1.0.11/16")
	n.backend.AddAddr("eth0", "2001:db8:a::11/48")
	// Let the kernel find out within a test's patience that nobody answers.
	for _, family := range []string{"ipv4", "ipv6"} {
		n.gw.SetSysctl(family+"/neigh/c1/retrans_time_ms", "100")
		n.gw.SetSysctl(family+"/neigh/c1/base_reachable_time_ms", "300")
		n.gw.SetSysctl(family+"/neigh/c1/delay_first_probe_time", "0")
	}
	return n
}

// run follows the targets until the test ends.
func (n *network) run(t *testing.T, targets ...netip.Addr) {
	t.Helper()
	handle := n.gw.Handle()
	n.r = New(Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Namespace: &handle,
		ProbeInterval: 200 * time.Millisecond, RetryMin: 200 * time.Millisecond, RetryMax: 400 * time.Millisecond,
	})
	n.r.timing.linger = 50 * time.Millisecond
	n.r.SetTargets(targets)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// want waits until an entry is as described and fails the test if it never is.
func (n *network) want(t *testing.T, addr netip.Addr, what string, ok func(Entry) bool) Entry {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		e, _ := n.r.Lookup(addr)
		if ok(e) {
			return e
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: want %s, is %+v", addr, what, e)
		}
		select {
		case <-n.r.Changes():
		case <-time.After(10 * time.Millisecond): // RESOLVED to STALE is not announced
		}
	}
}

func usableWith(mac net.HardwareAddr) func(Entry) bool {
	return func(e Entry) bool { return e.Usable() && sameMAC(e.MAC, mac) }
}

func inState(s State) func(Entry) bool { return func(e Entry) bool { return e.State == s } }

func TestOnLinkBackendIsResolved(t *testing.T) {
	n := newNetwork(t)
	n.run(t, backend4, backend6)
	for _, addr := range []netip.Addr{backend4, backend6} {
		e := n.want(t, addr, "the backend's MAC", usableWith(n.backend.MAC("eth0")))
		if e.Via != addr || e.LinkIndex != n.gw.Ifindex("c1") || e.LinkName != "c1" ||
			!sameMAC(e.SrcMAC, n.gw.MAC("c1")) || e.MTU != 1500 || e.Since.IsZero() {
			t.Errorf("%s: %+v", addr, e)
		}
	}
}

func TestBackendBehindRouterGetsTheRoutersMAC(t *testing.T) {
	n := newNetwork(t)
	n.gw.AddRoute("10.2.0.0/16", "10.1.0.11")
	n.run(t, far4)
	e := n.want(t, far4, "the router's MAC", usableWith(n.backend.MAC("eth0")))
	if e.Via != backend4 {
		t.Errorf("via %s, want %s", e.Via, backend4)
	}
}

func TestEntryFollowsANewMAC(t *testing.T) {
	for name, addr := range map[string]netip.Addr{"ipv4": backend4, "ipv6": backend6} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			n.run(t, addr)
			before := n.want(t, addr, "the first MAC", usableWith(n.backend.MAC("eth0")))
			mac := testutil.BackendBMAC
			n.backend.SetMAC("eth0", mac) // silently: no announcement is sent
			after := n.want(t, addr, "the new MAC", usableWith(mac))
			if !after.Since.After(before.Since) {
				t.Error("Since did not move with the MAC")
			}
		})
	}
}

func TestBackendThatStopsAnsweringIsUnresolvedAndComesBack(t *testing.T) {
	for addr, prefix := range map[netip.Addr]string{backend4: "10.1.0.11/16", backend6: "2001:db8:a::11/48"} {
		t.Run(addr.String(), func(t *testing.T) {
			n := newNetwork(t)
			n.run(t, addr)
			mac := n.backend.MAC("eth0")
			n.want(t, addr, "the MAC", usableWith(mac))
			n.backend.DelAddr("eth0", prefix)
			e := n.want(t, addr, "UNRESOLVED", inState(Unresolved))
			if !sameMAC(e.MAC, mac) {
				t.Errorf("the last known MAC is not shown: %+v", e)
			}
			n.backend.AddAddr("eth0", prefix)
			n.want(t, addr, "the MAC again", usableWith(mac))
		})
	}
}

func TestInterfaceDownAndUp(t *testing.T) {
	n := newNetwork(t)
	n.run(t, backend4)
	mac := n.backend.MAC("eth0")
	n.want(t, backend4, "the MAC", usableWith(mac))
	n.gw.LinkDown("c1")
	if e := n.want(t, backend4, "LINK_DOWN", inState(LinkDown)); e.LinkName != "c1" {
		t.Errorf("the link is not named: %+v", e)
	}
	n.gw.LinkUp("c1")
	n.want(t, backend4, "the MAC again", usableWith(mac))
	n.backend.LinkDown("eth0") // the gateway's end loses its carrier
	n.want(t, backend4, "LINK_DOWN without carrier", inState(LinkDown))
	n.backend.LinkUp("eth0")
	n.want(t, backend4, "the MAC after the carrier", usableWith(mac))
}

func TestRouteAppearsMovesAndVanishes(t *testing.T) {
	n := newNetwork(t)
	n.run(t, far4, netip.MustParseAddr("10.1.0.1"))
	n.want(t, far4, "NO_ROUTE", inState(NoRoute))
	n.want(t, netip.MustParseAddr("10.1.0.1"), "LOCAL", inState(Local))
	n.gw.AddRoute("10.2.0.0/16", "10.1.0.11")
	n.want(t, far4, "a router", usableWith(n.backend.MAC("eth0")))

	other := testutil.NewNetNS(t, "other")
	testutil.Veth(t, n.gw, "c2", other, "eth0")
	n.gw.AddAddr("c2", "10.3.0.1/16")
	other.AddAddr("eth0", "10.3.0.11/16")
	n.gw.AddRoute("10.2.0.0/24", "10.3.0.11") // more specific
	e := n.want(t, far4, "the other router", usableWith(other.MAC("eth0")))
	if e.LinkName != "c2" {
		t.Errorf("link is %s, want c2", e.LinkName)
	}
	n.gw.DelRoute("10.2.0.0/24")
	n.want(t, far4, "the first router", usableWith(n.backend.MAC("eth0")))
	n.gw.DelRoute("10.2.0.0/16")
	n.want(t, far4, "NO_ROUTE", inState(NoRoute))
}

// The kernel sends no message for an IPv4 route that goes with its link.
func TestLinkDownMovesToTheNextBestRoute(t *testing.T) {
	n := newNetwork(t)
	other := testutil.NewNetNS(t, "other")
	testutil.Veth(t, n.gw, "c2", other, "eth0")
	n.gw.AddAddr("c2", "10.3.0.1/16")
	other.AddAddr("eth0", "10.3.0.11/16")
	n.gw.AddRoute("10.2.0.0/16", "10.1.0.11")
	n.gw.AddRoute("10.0.0.0/8", "10.3.0.11")
	n.run(t, far4)
	n.want(t, far4, "the better router", usableWith(n.backend.MAC("eth0")))
	n.gw.LinkDown("c1")
	n.want(t, far4, "the other router", usableWith(other.MAC("eth0")))
}

// Somebody's `ip neigh flush` says nothing about the backends.
func TestFlushedNeighbourStaysUsable(t *testing.T) {
	n := newNetwork(t)
	n.run(t, backend4)
	before := n.want(t, backend4, "the MAC", usableWith(n.backend.MAC("eth0")))
	for range 5 {
		waitFor(t, "a neighbour entry", func() bool {
			list := neighbours(t, n.gw)
			return len(list) == 1 && reachOf(list[0].State).valid()
		})
		err := n.gw.Netlink().NeighDel(&netlink.Neigh{LinkIndex: before.LinkIndex, IP: backend4.AsSlice()})
		if err != nil {
			t.Fatal(err)
		}
	}
	n.want(t, backend4, "confirmed again", inState(Resolved))
	if e, _ := n.r.Lookup(backend4); e.Since != before.Since {
		t.Errorf("the backend was withdrawn: since %s, before %s", e.Since, before.Since)
	}
}

func TestRemovedTargetLeavesNothingBehind(t *testing.T) {
	n := newNetwork(t)
	n.run(t, backend4)
	n.want(t, backend4, "the MAC", usableWith(n.backend.MAC("eth0")))
	n.r.SetTargets(nil)
	waitFor(t, "an empty table", func() bool { return len(neighbours(t, n.gw)) == 0 })
	if left := n.r.Snapshot(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The kernel allows 1024 neighbours by default (gc_thresh3). Backends are exempt.
func TestMoreBackendsThanTheNeighbourTableHolds(t *testing.T) {
	n := newNetwork(t)
	n.backend.AddAddr("lo", "10.1.128.1/17") // on lo the whole prefix is local
	addrs, addr := make([]netip.Addr, 0, 2000), netip.MustParseAddr("10.1.128.1")
	for range cap(addrs) {
		addrs = append(addrs, addr)
		addr = addr.Next()
	}
	n.run(t, addrs...)
	mac := n.backend.MAC("eth0")
	waitFor(t, "2000 next hops", func() bool {
		for _, e := range n.r.Snapshot() {
			if !usableWith(mac)(e) {
				return false
			}
		}
		return true
	})
}

// neighbours lists a namespace's IPv4 neighbour table.
func neighbours(t *testing.T, ns *testutil.NetNS) []netlink.Neigh {
	t.Helper()
	list, err := dump(func() ([]netlink.Neigh, error) { return ns.Netlink().NeighList(0, netlink.FAMILY_V4) })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
