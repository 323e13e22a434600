package doctor

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/decap"
	"l4lb/pkg/lb"
)

var (
	vip4     = netip.MustParseAddr("192.0.2.10")
	vip6     = netip.MustParseAddr("2001:db8::10")
	gateway4 = netip.MustParseAddr("10.0.0.1")
	gateway6 = netip.MustParseAddr("2001:db8:1::1")
)

func tunnelBackend(kind lb.Forwarding, gateway netip.Addr, vips ...netip.Addr) *backend {
	return &backend{
		BackendOptions: BackendOptions{VIPs: vips, Gateway: gateway, Tunnel: kind},
		facing:         []*netlink.LinkAttrs{{Name: "eth0"}},
	}
}

func attrs(name string, up bool) netlink.LinkAttrs {
	a := netlink.LinkAttrs{Name: name}
	if up {
		a.RawFlags = unix.IFF_UP
	}
	return a
}

// Which devices of the kernel unwrap what.
func TestTunnelDevices(t *testing.T) {
	gw4, gw6 := net.IP(gateway4.AsSlice()), net.IP(gateway6.AsSlice())
	ipip := &netlink.Iptun{LinkAttrs: attrs("ipip", true), Remote: gw4}
	sit := &netlink.Sittun{LinkAttrs: attrs("sit", true), Remote: gw4}
	ip6 := &netlink.Ip6tnl{LinkAttrs: attrs("ip6", true), Remote: gw6}
	geneve := &netlink.Geneve{LinkAttrs: attrs("gnv", true), Remote: gw4}
	tests := []struct {
		name    string
		b       *backend
		links   []netlink.Link
		want    string // in the finding; "" for none
		mend    string
		devices int
	}{
		{"IPIP around IPv4", tunnelBackend(lb.ForwardIPIP, gateway4, vip4), []netlink.Link{ipip}, "", "", 1},
		{"IPIP around both", tunnelBackend(lb.ForwardIPIP, gateway4, vip4, vip6), []netlink.Link{ipip, sit}, "", "", 2},
		{"no device for IPv6", tunnelBackend(lb.ForwardIPIP, gateway4, vip4, vip6), []netlink.Link{ipip}, "nothing unwraps IPIP", "systemctl restart l4lbd-decap@eth0", 1},
		{"over IPv6", tunnelBackend(lb.ForwardIPIP, gateway6, vip4, vip6), []netlink.Link{ip6, ipip}, "", "", 1},
		{"GENEVE", tunnelBackend(lb.ForwardGENEVE, gateway4, vip4, vip6), []netlink.Link{geneve, ipip}, "", "", 1},
		{"GENEVE without its device", tunnelBackend(lb.ForwardGENEVE, gateway4, vip4), []netlink.Link{ipip}, "nothing unwraps GENEVE", "OPTIONS=--gateway 10.0.0.1 --vip 192.0.2.10", 0},
		{"no device", tunnelBackend(lb.ForwardIPIP, netip.Addr{}, vip4), nil, "nothing unwraps IPIP", "OPTIONS=--gateway GATEWAY", 0},
		{"a device that is down", tunnelBackend(lb.ForwardIPIP, gateway4, vip4), []netlink.Link{&netlink.Iptun{LinkAttrs: attrs("ipip", false), Remote: gw4}}, "ipip is down", "ip link set dev ipip up", 1},
		{"a device of another gateway", tunnelBackend(lb.ForwardIPIP, netip.MustParseAddr("10.0.0.2"), vip4), []netlink.Link{ipip}, "takes tunnels from 10.0.0.1, and not from the gateway 10.0.0.2", "ip -d link show dev ipip", 1},
		{"a device for anybody", tunnelBackend(lb.ForwardIPIP, gateway4, vip4), []netlink.Link{&netlink.Iptun{LinkAttrs: attrs("tunl0", true), Remote: net.IPv4zero}}, "", "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.b.devices = tunnelDevices(tt.links, tt.b.Tunnel, tt.b.outer6())
			found := tt.b.deviceFindings()
			if len(tt.b.devices) != tt.devices {
				t.Errorf("%d devices, want %d", len(tt.b.devices), tt.devices)
			}
			if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].What, tt.want)) {
				t.Fatalf("got %+v, want %q", found, tt.want)
			}
			if tt.want != "" && !strings.Contains(strings.Join(found[0].Mend, "; "), tt.mend) {
				t.Errorf("mend %q, want %q", found[0].Mend, tt.mend)
			}
		})
	}
}

func TestDecapFindings(t *testing.T) {
	ranges := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	b := tunnelBackend(lb.ForwardGUE, gateway4, vip4, vip6)
	for name, tt := range map[string]struct {
		status decap.Status
		want   string
	}{
		"everything is accepted": {decap.Status{Gateways: ranges("10.0.0.0/30")}, ""},
		"both VIPs are named":    {decap.Status{Gateways: ranges("10.0.0.1/32"), VIPs: ranges("192.0.2.0/24", "2001:db8::/32")}, ""},
		"another gateway":        {decap.Status{Gateways: ranges("10.0.0.2/32")}, "accepts no tunnel from 10.0.0.1"},
		"a VIP is missing":       {decap.Status{Gateways: ranges("10.0.0.1/32"), VIPs: ranges("192.0.2.0/24")}, "takes out no packet for the VIP"},
	} {
		found := b.decapFindings(&tt.status)
		if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].What, tt.want)) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestOverheadIsNoted(t *testing.T) {
	for _, tt := range []struct {
		kind    lb.Forwarding
		gateway netip.Addr
		what    string
		mend    string
	}{
		{lb.ForwardIPIP, gateway4, "take 20 bytes", "advmss 1440"},
		{lb.ForwardGUE, gateway4, "take 28 bytes", "advmss 1432"},
		{lb.ForwardGENEVE, gateway6, "take 56 bytes", "advmss 1404"},
	} {
		f := tunnelBackend(tt.kind, tt.gateway, vip4).sizeNote()
		if f.Status != Note || !strings.Contains(f.What, tt.what) || !strings.HasSuffix(f.Mend[0], tt.mend) {
			t.Errorf("%s: %+v", tt.kind, f)
		}
	}
}
