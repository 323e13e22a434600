package netns

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"l4lb/internal/testutil"
)

// The way from the gateway to its appliances takes less than the link that the
// packets come by: the gateway says what fits, as any router does, and a megabyte
// goes through.
func TestPathMTUDiscoveryAlongARoute(t *testing.T) {
	t.Parallel()
	n := newRouted(t, 2)
	for i := range 2 {
		for _, f := range families {
			narrowWay(t, n.left.gateway, leftSide.addr(f, atAppliance+i), narrow)
		}
	}
	n.start()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			conn, err := n.connect("tcp", f)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := sayLong(conn, strings.Repeat("x", 1<<20)); err != nil {
				t.Errorf("a megabyte over a route: %v", err)
			}
			if told := toldWhatFits(n.host, f); told == 0 || told > 200 {
				t.Errorf("the host was told %d times what fits", told)
			}
		})
	}
	if got := n.gateways[0].metric(`l4lb_datapath_packets_total{reason="TOO_BIG",verdict="answer"}`); got == 0 {
		t.Error("no packets were counted as TOO_BIG")
	}
}

// narrowWay has packets to an address of the link be no longer than so many bytes.
func narrowWay(t *testing.T, ns *testutil.NetNS, to netip.Addr, mtu int) {
	t.Helper()
	dev, err := ns.Netlink().LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	dst := &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())}
	route := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK, MTU: mtu}
	if err := ns.Netlink().RouteReplace(route); err != nil {
		t.Fatal(err)
	}
}

// sayLong sends more than the connection's buffers hold, and wants it back.
func sayLong(conn net.Conn, text string) error {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, text)
		sent <- err
	}()
	buf := make([]byte, len(text))
	if n, err := io.ReadFull(conn, buf); err != nil || string(buf) != text {
		return fmt.Errorf("%d of %d bytes came back: %w", n, len(text), err)
	}
	return <-sent
}
