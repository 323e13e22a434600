package testutil

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"l4lb/internal/netlab"
)

// NetNS is a network namespace that lives as long as its test. Its methods fail
// the test instead of returning errors; the embedded Namespace has the ones that
// return errors.
type NetNS struct {
	*netlab.Namespace
	tb testing.TB
}

// NewNetNS creates a namespace with its loopback interface up, and requires
// root. The name is for messages; any number of namespaces may share one.
func NewNetNS(tb testing.TB, name string) *NetNS {
	tb.Helper()
	RequireRoot(tb)
	ns, err := netlab.New(name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := ns.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &NetNS{Namespace: ns, tb: tb}
}

// Do runs f inside the namespace and fails the test on its error. f may call the
// test's FailNow.
func (n *NetNS) Do(f func() error) {
	n.tb.Helper()
	n.check(n.Namespace.Do(f))
}

// check fails the test on an error.
func (n *NetNS) check(err error) {
	n.tb.Helper()
	if errors.Is(err, netlab.ErrGoexit) && n.tb.Failed() {
		n.tb.FailNow()
	}
	if err != nil {
		n.tb.Fatal(err)
	}
}

// Listen announces on an address inside the namespace until the test ends.
func (n *NetNS) Listen(network, address string) net.Listener {
	n.tb.Helper()
	lis, err := n.Namespace.Listen(network, address)
	n.check(err)
	n.tb.Cleanup(func() { lis.Close() })
	return lis
}

// ListenPacket announces on an address inside the namespace until the test ends.
func (n *NetNS) ListenPacket(network, address string) net.PacketConn {
	n.tb.Helper()
	conn, err := n.Namespace.ListenPacket(network, address)
	n.check(err)
	n.tb.Cleanup(func() { conn.Close() })
	return conn
}

// Dial connects from inside the namespace within the test's lifetime. The
// embedded Namespace.Dial returns the error and takes a context.
func (n *NetNS) Dial(network, address string) net.Conn {
	n.tb.Helper()
	conn, err := n.Namespace.Dial(n.tb.Context(), network, address)
	n.check(err)
	n.tb.Cleanup(func() { conn.Close() })
	return conn
}

// DialContext has the signature of http.Transport's DialContext.
func (n *NetNS) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.Namespace.Dial(ctx, network, address)
}

// Veth joins two namespaces by a veth pair; see netlab.Veth. Both ends are up.
func Veth(tb testing.TB, a *NetNS, aName string, b *NetNS, bName string) {
	tb.Helper()
	VethEnds(tb, netlab.End{NS: a.Namespace, Name: aName}, netlab.End{NS: b.Namespace, Name: bName})
}

// VethEnds is Veth with link addresses and MTUs.
func VethEnds(tb testing.TB, a, b netlab.End) {
	tb.Helper()
	if err := netlab.Veth(a, b); err != nil {
		tb.Fatal(err)
	}
}

// Bridge creates a bridge over ports and brings it up.
func (n *NetNS) Bridge(name string, ports ...string) {
	n.tb.Helper()
	n.check(n.Namespace.Bridge(name, ports...))
}

// AddAddr gives an interface an address such as "192.0.2.1/24".
func (n *NetNS) AddAddr(link, addr string) {
	n.tb.Helper()
	n.check(n.Namespace.AddAddr(link, netip.MustParsePrefix(addr)))
}

// DelAddr takes an address away.
func (n *NetNS) DelAddr(link, addr string) {
	n.tb.Helper()
	n.check(n.Namespace.DelAddr(link, netip.MustParsePrefix(addr)))
}

// AddRoute adds a route such as "0.0.0.0/0" via a router.
func (n *NetNS) AddRoute(dst, via string) {
	n.tb.Helper()
	n.check(n.Namespace.AddRoute(netip.MustParsePrefix(dst), netip.MustParseAddr(via), ""))
}

// AddLinkRoute adds a route whose destination is on the link.
func (n *NetNS) AddLinkRoute(dst, link string) {
	n.tb.Helper()
	n.check(n.Namespace.AddRoute(netip.MustParsePrefix(dst), netip.Addr{}, link))
}

// DelRoute deletes the route to dst.
func (n *NetNS) DelRoute(dst string) {
	n.tb.Helper()
	n.check(n.Namespace.DelRoute(netip.MustParsePrefix(dst)))
}

// SetNeigh pins addr to a link address.
func (n *NetNS) SetNeigh(link, addr string, mac net.HardwareAddr) {
	n.tb.Helper()
	n.check(n.Namespace.SetNeigh(link, netip.MustParseAddr(addr), mac))
}

// SetSysctl sets a network sysctl, such as "ipv4/ip_forward".
func (n *NetNS) SetSysctl(key, value string) {
	n.tb.Helper()
	n.check(n.Namespace.SetSysctl(key, value))
}

// EnableForwarding makes the namespace a router.
func (n *NetNS) EnableForwarding() {
	n.tb.Helper()
	n.check(n.Namespace.EnableForwarding())
}

// LinkUp brings an interface up.
func (n *NetNS) LinkUp(link string) {
	n.tb.Helper()
	n.check(n.Namespace.LinkUp(link))
}

// LinkDown takes an interface down.
func (n *NetNS) LinkDown(link string) {
	n.tb.Helper()
	n.check(n.Namespace.LinkDown(link))
}

// SetMAC changes an interface's link address.
func (n *NetNS) SetMAC(link string, mac net.HardwareAddr) {
	n.tb.Helper()
	n.check(n.Namespace.SetMAC(link, mac))
}

// MAC returns an interface's link address.
func (n *NetNS) MAC(link string) net.HardwareAddr {
	n.tb.Helper()
	attrs, err := n.Link(link)
	n.check(err)
	return attrs.HardwareAddr
}

// Ifindex returns an interface's index.
func (n *NetNS) Ifindex(link string) int {
	n.tb.Helper()
	attrs, err := n.Link(link)
	n.check(err)
	return attrs.Index
}

// AttachPass attaches an XDP program that passes every frame; see
// netlab.Namespace.AttachPass.
func (n *NetNS) AttachPass(link string) {
	n.tb.Helper()
	n.check(n.Namespace.AttachPass(link))
}
