package capture

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// packets are the frames that filters choose from, by name. The second of a flow
// follows the entry of the first.
func packets(t *testing.T) (names []string, frames [][]byte) {
	add := func(name string, frame []byte) { names, frames = append(names, name), append(frames, frame) }
	vlan := func(p *testutil.Packet) { p.VLANs = []layers.Dot1Q{{VLANIdentifier: 7}} }
	add("syn4", testutil.SYN(t, clientA4, web4))
	add("tcp4", testutil.TCP(t, clientA4, web4))
	add("udp4", testutil.UDP(t, other4, netip.AddrPortFrom(testutil.VIP4, 53)))
	add("syn6", testutil.SYN(t, clientA6, web6))
	add("tcp6", testutil.TCP(t, clientA6, web6))
	add("closed4", testutil.SYN(t, clientA4, netip.AddrPortFrom(testutil.VIP4, 81)))
	add("alien4", testutil.SYN(t, other4, netip.MustParseAddrPort("192.0.2.99:80")))
	add("tagged4", testutil.SYN(t, netip.MustParseAddrPort("203.0.113.5:1024"), web4, vlan))
	add("gre4", testutil.IP(t, other4.Addr(), testutil.VIP4, layers.IPProtocolGRE, []byte("tunnelled")))
	add("fragment4", testutil.UDP(t, other4, netip.AddrPortFrom(testutil.VIP4, 53), func(p *testutil.Packet) { p.IP4.Flags = layers.IPv4MoreFragments }))
	add("arp", testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4))
	return names, frames
}

// The program chooses by each kind of condition, of what arrives and of what
// becomes of it.
func TestFilterChoosesInTheKernel(t *testing.T) {
	g := newGateway(t)
	names, frames := packets(t)
	tests := []struct{ filter, want string }{
		{"", strings.Join(names, " ")},
		{"host 192.0.2.99", "alien4"},
		{"src 10.1.2.3", "syn4 tcp4 closed4"},
		{"dst 10.1.2.3", ""},
		{"src net 10.1.0.0/16 or src 2001:db8:a::/48", "syn4 tcp4 syn6 tcp6 closed4"},
		{"net 0.0.0.0/0", "syn4 tcp4 udp4 closed4 alien4 tagged4 gre4 fragment4"},
		{"net ::/0", "syn6 tcp6"},
		{"src net ::ffff:10.1.0.0/112", "syn4 tcp4 closed4"},
		{"port 53", "udp4"},
		{"dst port 80 and ip6", "syn6 tcp6"},
		{"src port 80", ""},
		{"fragment", "fragment4"},
		{"udp and not fragment", "udp4"},
		{"src port 1024", "tagged4"},
		{"udp", "udp4 fragment4"},
		{"gre", "gre4"},
		{"proto 47", "gre4"},
		{"arp", "arp"},
		{"not (tcp or udp)", "gre4 arp"},
		{"ip and not tcp", "udp4 gre4 fragment4"},
		{"verdict drop", "closed4 gre4"},
		{"verdict pass", "alien4"},
		{"verdict sent and not reason arp_reply", "syn4 tcp4 udp4 syn6 tcp6 tagged4 fragment4"},
		{"reason NO_RULE", "closed4 gre4"},
		{"reason arp_reply or reason no_rule", "closed4 gre4 arp"},
		{"flow hit", "tcp4 tcp6"},
		{"flow new and ip6", "syn6"},
		{"rule web-tcp", "syn4 tcp4 syn6 tcp6 tagged4"},
		{"rule web-udp or verdict pass", "udp4 alien4 fragment4"},
		{"backend a1", "syn4 tcp4 syn6 tcp6"},
		{"service web and not backend a1", "udp4 tagged4 fragment4"},
		{"zone zone-a", "syn4 tcp4 syn6 tcp6"},
		{"verdict drop and port 81 or udp and flow new", "udp4 closed4 fragment4"},
		{"tcp and not verdict tx", "closed4 alien4"},
	}
	for _, tt := range tests {
		t.Run(tt.filter, func(t *testing.T) {
			g.forgetFlows()
			r := g.capture(Options{Filter: filter(t, tt.filter)}, func() { g.send(frames...) })
			var got []string
			for i := range r.packets {
				at := slices.IndexFunc(frames, func(f []byte) bool { return slices.Equal(f, r.packets[i].In.Data) })
				got = append(got, names[at])
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("captured %q, want %q", got, tt.want)
			}
			sum := r.summary.Interfaces[0]
			if want := (InterfaceSummary{Name: ifaceDev, Seen: uint64(len(frames)), Matched: uint64(len(got))}); sum != want {
				t.Errorf("summary %+v, want %+v", sum, want)
			}
		})
	}
}

// A rule that is the next hop of routes has two ids and one name.
func TestRuleIsFoundByBothIds(t *testing.T) {
	g := newGateway(t)
	must(t, g.SetName(loader.NameRule, ruleDNS, "web-tcp"+loader.RoutedSuffix))
	r := g.capture(Options{Filter: filter(t, "rule web-tcp")}, func() {
		g.send(testutil.SYN(t, clientA4, web4), testutil.UDP(t, clientA4, netip.AddrPortFrom(testutil.VIP4, 53)))
	})
	if len(r.packets) != 2 || r.packets[0].Rule != "web-tcp" || r.packets[1].Rule != "web-tcp" {
		t.Errorf("captured %+v", r.packets)
	}
}

// A name that nothing of the gateway has is refused, with those there are.
func TestNamesMustBeTheGateways(t *testing.T) {
	g := newGateway(t)
	for filterText, want := range map[string]string{
		"tcp and rule wbe":     `filter:1:14: the gateway has no rule "wbe": it has web-tcp, web-udp`,
		"backend web":          `filter:1:9: the gateway has no backend "web": it has a1, b1`,
		"service a1":           `filter:1:9: the gateway has no service "a1": it has web`,
		"zone a or verdict tx": `filter:1:6: the gateway has no zone "a": it has zone-a`,
	} {
		_, err := Run(t.Context(), g.options(Options{Filter: filter(t, filterText), Sink: &recorder{}}))
		var wrong *FilterError
		if !errors.As(err, &wrong) || err.Error() != want {
			t.Errorf("%q: %v, want %s", filterText, err, want)
		}
	}
}
