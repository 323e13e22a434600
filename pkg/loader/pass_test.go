package loader

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// Whatever is not for a VIP of ours goes to the kernel as it came.
func TestWhatIsNotOursIsPassedUntouched(t *testing.T) {
	d := newFixture(t)
	a4, a6 := ap(testutil.ZoneAClient4, 4000), ap(testutil.ZoneAClient6, 4000)
	web4, web6 := ap(testutil.VIP4, 80), ap(testutil.VIP6, 80)
	to := func(mac string) testutil.Mutate { return testutil.MACs(testutil.ClientMAC, testutil.MAC(mac)) }
	mapped := netip.AddrFrom16(testutil.VIP4.As16())
	hostARP := testutil.MACs(testutil.ClientMAC, testutil.RouterMAC)

	tests := []struct {
		name  string
		frame []byte
	}{
		{"another ipv4 destination", testutil.TCP(t, a4, ap(testutil.Outside4, 80))},
		{"another ipv6 destination", testutil.UDP(t, a6, ap(testutil.Outside6, 80))},
		{"an address next to a vip", testutil.TCP(t, a4, ap(netip.MustParseAddr("192.0.2.12"), 80))},
		{"a reply from a vip", testutil.TCP(t, web4, a4)},
		{"an echo request for the gateway's own address", testutil.Echo(t, a4.Addr(), testutil.Gateway4)},
		{"an echo request for another ipv6 address", testutil.Echo(t, a6.Addr(), testutil.Outside6)},
		{"an icmp error for another address", testutil.ICMPError(t, testutil.Router4, testutil.Outside4, 3, 4, [4]byte{}, testutil.TCP(t, a4, web4))},
		{"a fragment for another address", testutil.UDP(t, a4, ap(testutil.Outside4, 53), testutil.Fragment(9, true))},
		{"an ipv6 fragment for another address", testutil.UDP(t, a6, ap(testutil.Outside6, 53), testutil.Fragment(9, true))},
		{"another host's link address", testutil.TCP(t, a4, web4, to("02:4c:00:00:00:02"))},
		{"another host's link address, ipv6", testutil.UDP(t, a6, web6, to("00:4c:00:00:00:01"))},
		{"a broadcast frame", testutil.TCP(t, a4, web4, to("ff:ff:ff:ff:ff:ff"))},
		{"an ipv4 multicast frame", testutil.UDP(t, a4, web4, to("01:00:5e:00:00:01"))},
		{"an ipv6 multicast frame", testutil.UDP(t, a6, web6, to("33:33:00:00:00:01"))},
		{"an echo request in a multicast frame", testutil.Echo(t, a6.Addr(), testutil.VIP6, to("33:33:00:00:00:01"))},
		{"the mapped form of an ipv4 vip", testutil.TCP(t, a6, ap(mapped, 80))},
		{"an echo request for the mapped form of an ipv4 vip", testutil.Echo(t, a6.Addr(), mapped)},
		{"a solicitation for the mapped form of an ipv4 vip", testutil.NeighborSolicitation(t, testutil.ClientMAC, a6.Addr(), mapped)},
		{"arp for an address that is not ours", testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.Gateway4)},
		{"an arp reply for a vip", testutil.ARPReply(t, testutil.RouterMAC, testutil.Router4, testutil.GatewayMAC, testutil.VIP4)},
		{"an arp request for a vip to another host's link address", testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4, hostARP)},
		{"a solicitation for an address that is not ours", testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.Gateway6)},
		{"a solicitation for a vip to another host's link address", testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.VIP6, hostARP)},
		{"an advertisement for a vip", testutil.NeighborAdvertisement(t, testutil.RouterMAC, testutil.VIP6, testutil.GatewayMAC, testutil.Client6, testutil.NDOverride)},
		{"an unknown ethertype", frameOf(layers.EthernetType(0x88b5), make([]byte, 46))},
		{"lldp", frameOf(layers.EthernetTypeLinkLayerDiscovery, make([]byte, 46))},
		{"an 802.3 length instead of a type", frameOf(layers.EthernetType(46), make([]byte, 46))},
		{"three tags", testutil.TCP(t, a4, web4, testutil.VLAN(7, 8, 9))},
		{"three tags around arp", testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4, testutil.VLAN(7, 8, 9))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			send(t, d, raw(tt.frame), passed(0))
		})
	}
	t.Run("an interface that is not ours", func(t *testing.T) {
		d.ports[TestIfIndex].Ifindex = 0
		send(t, d, raw(testutil.TCP(t, a4, web4)), passed(0))
		send(t, d, raw(testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4)), passed(0))
	})
}

func frameOf(kind layers.EthernetType, payload []byte) []byte {
	b := append(append([]byte{}, testutil.GatewayMAC...), testutil.ClientMAC...)
	return append(append(b, byte(kind>>8), byte(kind)), payload...)
}

// What looks like ours but has too many headers goes to the kernel too, with its
// reason counted.
func TestTooManyExtensionHeadersArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	a6 := ap(testutil.ZoneAClient6, 4000)
	for name, dst := range map[string]netip.Addr{"a vip": testutil.VIP6, "another address": testutil.Outside6} {
		t.Run(name, func(t *testing.T) {
			send(t, d, tcp(t, a6, ap(dst, 80), destOptions(7)...), passed(lbReasonREASON_EXTENSION_HEADER))
		})
	}
	// Long ones are no obstacle.
	long := echo(t, a6.Addr(), testutil.VIP6, testutil.DestOptions(31), testutil.DestOptions(31))
	send(t, d, long, dropped(lbReasonREASON_NO_RULE, 0, 0))
}
