package doctor

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestRulesThatCatchProbes(t *testing.T) {
	mask := uint32(0xff)
	all := uint32(0xffffffff)
	rule := func(change func(*netlink.Rule)) *netlink.Rule {
		r := netlink.NewRule()
		r.Priority, r.Table = 100, 200
		change(r)
		return r
	}
	tests := []struct {
		name string
		rule *netlink.Rule
		want bool
	}{
		{"everything, to a table", rule(func(*netlink.Rule) {}), true},
		{"behind that of probes", rule(func(r *netlink.Rule) { r.Priority = 32766 }), false},
		{"the local table", rule(func(r *netlink.Rule) { r.Table = unix.RT_TABLE_LOCAL }), false},
		{"one source only", rule(func(r *netlink.Rule) { r.Src = &net.IPNet{IP: net.IP{10, 0, 0, 0}, Mask: net.CIDRMask(8, 32)} }), false},
		{"marks of another program", rule(func(r *netlink.Rule) { r.Mark, r.Mask = 0x100, &all }), false},
		{"a mark within the number of a probe", rule(func(r *netlink.Rule) { r.Mark, r.Mask = 0x1, &mask }), true},
		{"all but the marks of another program", rule(func(r *netlink.Rule) { r.Mark, r.Mask, r.Invert = 0xca6c, &all, true }), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f, got := ruleFinding(tt.rule, netlink.FAMILY_V4); got != tt.want || got && (f.Why == "" || len(f.Mend) == 0) {
				t.Errorf("got %v: %+v", got, f)
			}
		})
	}
}

func TestSocketsAreRead(t *testing.T) {
	tests := []struct {
		name, line, state string
		want              string
	}{
		{"TCP at an address", "   0: 0A0200C0:0050 00000000:0000 0A 00000000:00000000", stateListen, "192.0.2.10:80"},
		{"TCP everywhere, IPv6", "   1: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0:0", stateListen, "[::]:443"},
		{"TCP at an IPv6 address", "   1: B80D01200F0000000000000010000000:01BB 00000000000000000000000000000000:0000 0A 0:0", stateListen, "[2001:db8:0:f::10]:443"},
		{"a connection", "   0: 0A0200C0:0050 0B0200C0:1234 01 00000000:00000000", stateListen, ""},
		{"UDP", "  12: 00000000:0035 00000000:0000 07 00000000:00000000", stateClosed, "0.0.0.0:53"},
		{"the head", "  sl  local_address rem_address   st tx_queue", stateListen, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, ok := parseSocket(tt.line, tt.state)
			if ok != (tt.want != "") || ok && at.String() != tt.want {
				t.Errorf("got %v, %v", at, ok)
			}
		})
	}
}

func TestListenFinding(t *testing.T) {
	sockets := []socket{
		{"tcp", netip.MustParseAddrPort("0.0.0.0:80")},
		{"tcp", netip.MustParseAddrPort("[::]:443")},
		{"tcp", netip.MustParseAddrPort("10.1.0.11:81")},
		{"udp", netip.MustParseAddrPort("192.0.2.10:53")},
	}
	vip4, vip6 := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")
	for _, tt := range []struct {
		vip  netip.Addr
		port uint16
		want string
	}{
		{vip4, 80, "taken"},
		{vip6, 80, "what listens on the port does not take the VIP: tcp 0.0.0.0:80"},
		{vip4, 443, "taken"},
		{vip6, 443, "taken"},
		{vip4, 53, "taken"},
		{vip4, 81, "what listens on the port does not take the VIP: tcp 10.1.0.11:81"},
		{vip4, 82, "nothing listens on the port"},
	} {
		if f := listenFinding(sockets, tt.vip, tt.port); f.What != tt.want || (f.Status == OK) != (tt.want == "taken") {
			t.Errorf("%s port %d: %+v", tt.vip, tt.port, f)
		}
	}
}
