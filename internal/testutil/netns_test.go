package testutil

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netns"

	"l4lb/internal/netlab"
)

func TestNamespacesTalkOverVethBridgeAndRouter(t *testing.T) {
	client, router, server := NewNetNS(t, "client"), NewNetNS(t, "router"), NewNetNS(t, "server")
	Veth(t, client, "eth0", router, "c1")
	Veth(t, server, "eth0", router, "s1")
	router.Bridge("br0", "s1")
	router.EnableForwarding()

	router.AddAddr("c1", "10.1.0.1/16")
	router.AddAddr("c1", "2001:db8:a::1/48")
	router.AddAddr("br0", "10.2.0.1/16")
	router.AddAddr("br0", "2001:db8:b::1/48")
	client.AddAddr("eth0", "10.1.0.7/16")
	client.AddAddr("eth0", "2001:db8:a::7/48")
	client.AddRoute("0.0.0.0/0", "10.1.0.1")
	client.AddRoute("::/0", "2001:db8:a::1")
	server.AddAddr("eth0", "10.2.0.7/16")
	server.AddAddr("eth0", "2001:db8:b::7/48")
	server.AddRoute("0.0.0.0/0", "10.2.0.1")
	server.AddRoute("::/0", "2001:db8:b::1")

	for _, addr := range []string{"10.2.0.7:80", "[2001:db8:b::7]:80"} {
		lis := server.Listen("tcp", addr)
		go func() {
			for {
				conn, err := lis.Accept()
				if err != nil {
					return
				}
				io.WriteString(conn, conn.RemoteAddr().String())
				conn.Close()
			}
		}()
		conn := client.Dial("tcp", addr)
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != conn.LocalAddr().String() {
			t.Errorf("%s: server saw %q (%v), want %q", addr, got, err, conn.LocalAddr())
		}
	}
}

func TestDialFromUsesTheLocalAddress(t *testing.T) {
	ns := NewNetNS(t, "host")
	ns.AddAddr("lo", "192.0.2.10/32")
	peer := ns.ListenPacket("udp", "127.0.0.1:0")
	local := netip.AddrPortFrom(VIP4, 0)
	conn, err := ns.DialFrom(t.Context(), "udp", local, peer.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr(); got != VIP4 {
		t.Errorf("local address is %s, want %s", got, VIP4)
	}
	if _, err := ns.DialFrom(t.Context(), "tcp", local, "example.com:80"); err == nil {
		t.Error("a host name was accepted, though it would be resolved outside the namespace")
	}
}

func TestDoLeavesOtherThreadsAlone(t *testing.T) {
	ns := NewNetNS(t, "inner")
	outside, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	for range 20 {
		ns.Do(func() error {
			inside, err := netns.Get()
			if err != nil {
				return err
			}
			defer inside.Close()
			if !inside.Equal(ns.Handle()) {
				t.Error("Do ran outside its namespace")
			}
			return nil
		})
		now, err := netns.Get()
		if err != nil {
			t.Fatal(err)
		}
		if !now.Equal(outside) {
			t.Error("the caller's thread changed its namespace")
		}
		now.Close()
	}
	if err := ns.Namespace.Do(func() error { return os.ErrClosed }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Do returned %v", err)
	}
}

func TestSysctlStaysInItsNamespace(t *testing.T) {
	a, b := NewNetNS(t, "a"), NewNetNS(t, "b")
	a.SetSysctl("ipv4/ip_forward", "1")
	b.SetSysctl("ipv4/ip_forward", "0")
	for ns, want := range map[*NetNS]string{a: "1", b: "0"} {
		if got, err := ns.Sysctl("ipv4/ip_forward"); err != nil || got != want {
			t.Errorf("%s: ip_forward = %q (%v), want %s", ns.Name(), got, err, want)
		}
	}
}

func TestVethEndsAreAsAsked(t *testing.T) {
	a, b := NewNetNS(t, "a"), NewNetNS(t, "b")
	VethEnds(t,
		netlab.End{NS: a.Namespace, Name: "eth0", MAC: GatewayMAC, MTU: 1400},
		netlab.End{NS: b.Namespace, Name: "eth0", MAC: RouterMAC, MTU: 9000})
	for _, want := range []struct {
		ns  *NetNS
		mac net.HardwareAddr
		mtu int
	}{{a, GatewayMAC, 1400}, {b, RouterMAC, 9000}} {
		got, err := want.ns.Link("eth0")
		if err != nil {
			t.Fatal(err)
		}
		if got.HardwareAddr.String() != want.mac.String() || got.MTU != want.mtu || got.Flags&net.FlagUp == 0 {
			t.Errorf("%s: %v mtu %d flags %v", want.ns.Name(), got.HardwareAddr, got.MTU, got.Flags)
		}
		if on, err := want.ns.TxChecksum("eth0"); err != nil || on {
			t.Errorf("%s: transmit checksum offload is on: %v, %v", want.ns.Name(), on, err)
		}
	}
}
