package netns

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

// The network of a test:
//
//	client ── router ══ bridge "servers" ══ gateway, backends
//
// The client host has an address of every kind of client. VIPs are on the
// servers' link, where nobody but the data plane has them: backends have them on
// lo. The development kernel has no VLAN device, so tagged frames are left to
// the tests that run single packets.
type network struct {
	t                       *testing.T
	router, gateway, client *testutil.NetNS
	backends                map[string]*backend
}

// family is one of the two that every test runs in.
type family struct {
	name string
	vip  netip.Addr
	bits int
	ipv6 bool
}

var families = []family{
	{name: "ipv4", vip: testutil.VIP4, bits: 32},
	{name: "ipv6", vip: testutil.VIP6, bits: 128, ipv6: true},
}

// place is an address of the client host, and what the gateway makes of it.
type place struct {
	name   string
	v4, v6 string
}

var (
	inZoneA     = place{"zone a", "10.1.128.11", "2001:db8:a:1::11"}
	inZoneB     = place{"zone b", "10.2.128.11", "2001:db8:b:1::11"}
	inNoZone    = place{"no zone", "198.51.100.11", "2001:db8:c::11"}
	onVPN       = place{"VPN", "10.200.0.11", "2001:db8:200::11"}
	otherRegion = place{"other region", "10.99.0.11", "2001:db8:99::11"}
)

func (p place) addr(f family) netip.Addr {
	if f.ipv6 {
		return netip.MustParseAddr(p.v6)
	}
	return netip.MustParseAddr(p.v4)
}

// newNetwork builds everything but the daemon: four backends, a1 and a2 in zone
// a, b1 and b2 in zone b, and a3 that no configuration has at first.
func newNetwork(t *testing.T) *network {
	t.Helper()
	testutil.RequireRoot(t)
	n := &network{t: t, backends: map[string]*backend{}}
	n.router, n.gateway, n.client = testutil.NewNetNS(t, "router"), testutil.NewNetNS(t, "gateway"), testutil.NewNetNS(t, "client")
	n.router.EnableForwarding()
	n.router.Bridge("servers")
	n.router.SetMAC("servers", testutil.RouterMAC)
	for _, a := range []string{"10.1.0.1/24", "10.2.0.1/24", "2001:db8:a::1/64", "2001:db8:b::1/64"} {
		n.router.AddAddr("servers", a)
	}
	n.router.AddLinkRoute("192.0.2.0/24", "servers")
	n.router.AddLinkRoute("2001:db8:f::/64", "servers")

	n.plug(n.gateway, "gateway", "10.1.0.2/24", "2001:db8:a::2/64", "10.2.0.2/24", "2001:db8:b::2/64")
	n.gateway.AddRoute("0.0.0.0/0", "10.1.0.1")
	n.gateway.AddRoute("::/0", "2001:db8:a::1")
	// What the gateway's program sends arrives only where a program runs.
	n.router.AttachPass("gateway")
	for i, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
		n.addBackend(name, 11+i)
	}
	n.addClient()
	return n
}

// plug joins a host's eth0 to the servers' bridge.
func (n *network) plug(ns *testutil.NetNS, port string, addrs ...string) {
	n.t.Helper()
	testutil.Veth(n.t, ns, "eth0", n.router, port)
	if err := n.router.SetMaster(port, "servers"); err != nil {
		n.t.Fatal(err)
	}
	for _, a := range addrs {
		ns.AddAddr("eth0", a)
	}
}

// addBackend makes a host of the zone that its name begins with.
func (n *network) addBackend(name string, host int) {
	n.t.Helper()
	b := &backend{name: name, zone: name[:1], ns: testutil.NewNetNS(n.t, name)}
	zone := map[string]int{"a": 1, "b": 2}[b.zone]
	b.v4, b.v6 = fmt.Sprintf("10.%d.0.%d", zone, host), fmt.Sprintf("2001:db8:%s::%d", b.zone, host)
	n.plug(b.ns, name, b.v4+"/24", b.v6+"/64")
	b.ns.AddRoute("0.0.0.0/0", fmt.Sprintf("10.%d.0.1", zone))
	b.ns.AddRoute("::/0", fmt.Sprintf("2001:db8:%s::1", b.zone))
	n.equip(b)
}

// equip gives a backend the VIPs and its servers.
func (n *network) equip(b *backend) {
	n.t.Helper()
	b.ns.SetSysctl("ipv4/conf/all/arp_ignore", "1")
	b.ns.SetSysctl("ipv4/conf/all/arp_announce", "2")
	for _, f := range families {
		b.ns.AddAddr("lo", netip.PrefixFrom(f.vip, f.bits).String())
	}
	b.serve(n.t)
	n.backends[b.name] = b
}

// addClient makes the client host, behind the router.
func (n *network) addClient() {
	n.t.Helper()
	testutil.Veth(n.t, n.client, "eth0", n.router, "clients")
	n.router.AddAddr("clients", "198.51.100.1/24")
	n.router.AddAddr("clients", "2001:db8:c::1/64")
	n.client.AddAddr("eth0", inNoZone.v4+"/24")
	n.client.AddAddr("eth0", inNoZone.v6+"/64")
	n.client.AddRoute("0.0.0.0/0", "198.51.100.1")
	n.client.AddRoute("::/0", "2001:db8:c::1")
	for _, p := range []place{inZoneA, inZoneB, onVPN, otherRegion} {
		n.client.AddAddr("eth0", p.v4+"/32")
		n.client.AddAddr("eth0", p.v6+"/128")
		n.router.AddRoute(p.v4+"/32", inNoZone.v4)
		n.router.AddRoute(p.v6+"/128", inNoZone.v6)
	}
}

// eventually polls until f returns nil, and fails the test with its last error
// when that takes longer than limit.
func eventually(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// inFamilies runs a test for IPv4 and IPv6, each in a network of its own, beside
// other tests.
func inFamilies(t *testing.T, test func(t *testing.T, n *network, f family)) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, newNetwork(t), f)
		})
	}
}

func hostPort(a netip.Addr, port int) string {
	return net.JoinHostPort(a.String(), fmt.Sprint(port))
}
