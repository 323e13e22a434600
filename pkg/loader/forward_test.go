package loader

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// serviceTag makes the outer of two tags an 802.1ad one.
func serviceTag(p *testutil.Packet) { p.VLANType = layers.EthernetTypeQinQ }

// ipOptions is testutil.IPv4Options, usable for several frames.
func ipOptions(b []byte) testutil.Mutate {
	return func(p *testutil.Packet) { testutil.IPv4Options(b)(p) }
}

// Two no-operations, a router alert of 4 bytes, two more: 8 bytes.
var options8 = []byte{1, 1, 148, 4, 0, 0, 1, 1}

// Every kind of frame that carries TCP or UDP to a VIP leaves as it came, but
// for the link addresses: at first, and along its entry.
func TestForwardedFramesChangeLinkAddressesOnly(t *testing.T) {
	web4, web6 := ap(testutil.VIP4, 80), ap(testutil.VIP6, 80)
	dns4, dns6 := ap(testutil.VIP4, 53), ap(testutil.VIP6, 53)
	a4, a6 := ap(testutil.ZoneAClient4, 4000), ap(testutil.ZoneAClient6, 4000)
	b4, b6 := ap(testutil.ZoneBClient4, 4000), ap(testutil.ZoneBClient6, 4000)
	big := testutil.Payload(make([]byte, 1460))

	tests := []struct {
		name  string
		frame frame
		rule  uint32
		zone  uint8 // A or B: the fixture gives it the member of the same number
	}{
		{"tcp over ipv4", tcp(t, a4, web4), ruleTCP80, zoneA},
		{"tcp over ipv6", tcp(t, b6, web6), ruleTCP80, zoneB},
		{"udp over ipv4", udp(t, b4, dns4), ruleUDPAll, zoneB},
		{"udp over ipv6", udp(t, a6, dns6), ruleUDPAll, zoneA},
		{"a tcp segment of full size", tcp(t, a4, web4, big), ruleTCP80, zoneA},
		{"an empty udp datagram in a padded frame", udp(t, a4, dns4, testutil.Payload(nil)), ruleUDPAll, zoneA},
		{"one 802.1Q tag", tcp(t, a4, web4, testutil.VLAN(7)), ruleTCP80, zoneA},
		{"one 802.1Q tag, ipv6", udp(t, b6, dns6, testutil.VLAN(7)), ruleUDPAll, zoneB},
		{"802.1Q in 802.1ad", tcp(t, b4, web4, testutil.VLAN(7, 8), serviceTag), ruleTCP80, zoneB},
		{"802.1Q in 802.1ad, ipv6", tcp(t, a6, web6, testutil.VLAN(7, 8), serviceTag), ruleTCP80, zoneA},
		{"802.1Q in 802.1Q", udp(t, a4, dns4, testutil.VLAN(7, 8)), ruleUDPAll, zoneA},
		{"a priority tag of vlan 0", tcp(t, a4, web4, testutil.VLAN(0)), ruleTCP80, zoneA},
		{"ipv4 options", tcp(t, a4, web4, ipOptions(options8)), ruleTCP80, zoneA},
		{"ipv4 options up to the largest header", udp(t, b4, dns4, ipOptions(
			[]byte{7, 39, 4, 36: 0, 38: 0, 39: 1})), ruleUDPAll, zoneB},
		{"ipv4 options behind a tag", udp(t, b4, dns4, ipOptions(options8), testutil.VLAN(7)), ruleUDPAll, zoneB},
		{"an ipv6 hop-by-hop header", tcp(t, a6, web6, testutil.HopByHop(0)), ruleTCP80, zoneA},
		{"an ipv6 destination options header", udp(t, b6, dns6, testutil.DestOptions(2)), ruleUDPAll, zoneB},
		{"hop-by-hop and destination options", udp(t, a6, dns6, testutil.HopByHop(1), testutil.DestOptions(0)), ruleUDPAll, zoneA},
		{"six ipv6 extension headers", tcp(t, a6, web6, destOptions(6)...), ruleTCP80, zoneA},
		{"six large ipv6 extension headers", tcp(t, a6, web6, testutil.HopByHop(20), testutil.DestOptions(31), testutil.DestOptions(31)), ruleTCP80, zoneA},
		{"an authentication header", tcp(t, a6, web6, testutil.AH(3)), ruleTCP80, zoneA},
		{"an authentication header without a check value", udp(t, b6, dns6, testutil.AH(0)), ruleUDPAll, zoneB},
		{"an authentication header among others", tcp(t, b6, web6, testutil.HopByHop(0), testutil.AH(8), testutil.DestOptions(1)), ruleTCP80, zoneB},
		{"a time to live of one", tcp(t, a4, web4, testutil.TTL(1)), ruleTCP80, zoneA},
		{"a wrong transport checksum", tcp(t, a4, web4, func(p *testutil.Packet) {
			p.KeepChecksums, p.TCP.Checksum, p.IP4.Checksum = true, 0xdead, 0xbeef
		}), ruleTCP80, zoneA},
	}
	d := newFixture(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			member := uint32(tt.zone)
			send(t, d, tt.frame, started(member, tt.rule, tt.zone, newOther))
			send(t, d, tt.frame, followed(member, tt.rule, tt.zone, confirmed))
			send(t, d, tt.frame, followed(member, tt.rule, tt.zone))
		})
	}
}

func destOptions(n int) []testutil.Mutate {
	var out []testutil.Mutate
	for range n {
		out = append(out, testutil.DestOptions(0))
	}
	return out
}

// L3_DEFAULT takes every protocol.
func TestL3DefaultForwardsEveryProtocol(t *testing.T) {
	a4, b6 := testutil.ZoneAClient4, testutil.ZoneBClient6
	vip4, vip6 := testutil.VIP4B, testutil.VIP6B
	payload := []byte("\x12\x34\x00\x50payload of some protocol")
	tests := []struct {
		name  string
		frame frame
		zone  uint8
	}{
		{"tcp", tcp(t, ap(a4, 4000), ap(vip4, 80)), zoneA},
		{"udp over ipv6", udp(t, ap(b6, 4000), ap(vip6, 53)), zoneB},
		{"sctp", otherIP(t, a4, vip4, layers.IPProtocolSCTP, payload), zoneA},
		{"sctp over ipv6", otherIP(t, b6, vip6, layers.IPProtocolSCTP, payload), zoneB},
		{"esp", otherIP(t, a4, vip4, layers.IPProtocolESP, payload), zoneA},
		{"esp over ipv6", otherIP(t, b6, vip6, layers.IPProtocolESP, payload), zoneB},
		{"ah", otherIP(t, a4, vip4, layers.IPProtocolAH, payload), zoneA},
		{"ah over ipv6, by the ports behind it", tcp(t, ap(b6, 4000), ap(vip6, 80), testutil.AH(3)), zoneB},
		{"ah over ipv6, around esp", otherIP(t, b6, vip6, layers.IPProtocolESP, payload, testutil.AH(3)), zoneB},
		{"gre over ipv6", otherIP(t, b6, vip6, layers.IPProtocolGRE, payload), zoneB},
		{"gre", otherIP(t, a4, vip4, layers.IPProtocolGRE, payload), zoneA},
		{"an unassigned protocol without payload", otherIP(t, a4, vip4, 200, nil), zoneA},
		{"icmp echo", echo(t, a4, vip4), zoneA},
		{"icmpv6 echo", echo(t, b6, vip6), zoneB},
		{"icmpv6 echo behind an extension header", echo(t, b6, vip6, testutil.DestOptions(0)), zoneB},
		{"icmp timestamp", raw4(t, a4, vip4, 13), zoneA},
	}
	d := newFixture(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			member := uint32(tt.zone)
			send(t, d, tt.frame, started(member, ruleL3, tt.zone, newOther))
			send(t, d, tt.frame, followed(member, ruleL3, tt.zone, confirmed))
		})
	}
}

// raw4 is an ICMP message of any type.
func raw4(tb testing.TB, src, dst netip.Addr, kind byte) frame {
	return otherIP(tb, src, dst, layers.IPProtocolICMPv4, append([]byte{kind, 0, 0, 0}, make([]byte, 28)...))
}

// A backend behind another interface is reached by a redirect.
func TestBackendsBehindAnotherInterfaceAreRedirectedTo(t *testing.T) {
	d := newFixture(t)
	const other = 7
	changeMember(t, d, memberA, func(m *Member) {
		m.IfIndex, m.SMAC = other, [6]byte(testutil.RouterMAC) // the other interface's own address
	})
	for _, f := range []frame{
		tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)),
		udp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.VIP6, 53), testutil.VLAN(7)),
	} {
		rule := uint32(ruleTCP80)
		if f()[12] == 0x81 {
			rule = ruleUDPAll
		}
		first := started(memberA, rule, zoneA, newOther)
		first.Verdict = VerdictRedirect
		send(t, d, f, first)
		next := followed(memberA, rule, zoneA, confirmed)
		next.Verdict = VerdictRedirect
		send(t, d, f, next)
	}
}
