package loader

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

const ruleTCPAll = 4

// The most specific rule takes a packet (semantics.md 6).
func TestRuleForPortGoesBeforeRuleForProtocolBeforeL3Default(t *testing.T) {
	d := newFixture(t)
	must(t, d.SetRule(ruleTCPAll, fixtureRule(ruleTCPAll)))
	single := netip.PrefixFrom(testutil.VIP4, 32)
	port80 := []FrontendPort{{Protocol: 6, Port: 80, Rule: ruleTCP80}}
	client := ap(testutil.ZoneAClient4, 4000)
	esp := otherIP(t, client.Addr(), testutil.VIP4, layers.IPProtocolESP, []byte("12345678"))

	all := Frontend{Address: single, TCP: ruleTCPAll, UDP: ruleUDPAll, L3: ruleL3, Ports: port80}
	noAllPorts := Frontend{Address: single, L3: ruleL3, Ports: port80}
	noL3 := Frontend{Address: single, TCP: ruleTCPAll, Ports: port80}
	portOnly := Frontend{Address: single, Ports: port80}
	tests := []struct {
		name     string
		frontend Frontend
		frame    frame
		rule     uint32
	}{
		{"a listed port takes its own rule", all, tcp(t, client, ap(testutil.VIP4, 80)), ruleTCP80},
		{"another port takes the rule for all tcp ports", all, tcp(t, client, ap(testutil.VIP4, 81)), ruleTCPAll},
		{"a port listed for tcp is not listed for udp", all, udp(t, client, ap(testutil.VIP4, 80)), ruleUDPAll},
		{"a protocol without ports takes L3_DEFAULT", all, esp, ruleL3},
		{"tcp without a rule of its own takes L3_DEFAULT", noAllPorts, tcp(t, client, ap(testutil.VIP4, 81)), ruleL3},
		{"udp without a rule of its own takes L3_DEFAULT", noAllPorts, udp(t, client, ap(testutil.VIP4, 80)), ruleL3},
		{"a listed port goes before L3_DEFAULT", noAllPorts, tcp(t, client, ap(testutil.VIP4, 80)), ruleTCP80},
		{"udp is dropped where there are tcp rules only", noL3, udp(t, client, ap(testutil.VIP4, 80)), 0},
		{"esp is dropped where there are tcp rules only", noL3, esp, 0},
		{"an unlisted port is dropped", portOnly, tcp(t, client, ap(testutil.VIP4, 81)), 0},
		{"the port with its bytes swapped is dropped", portOnly, tcp(t, client, ap(testutil.VIP4, 80<<8)), 0},
		{"an icmp timestamp request is dropped", portOnly, raw4(t, client.Addr(), testutil.VIP4, 13), 0},
		{"a syn to an unlisted port is dropped", portOnly, syn(t, client, ap(testutil.VIP4, 81)), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			must(t, d.SetFrontends([]Frontend{tt.frontend}))
			if tt.rule == 0 {
				send(t, d, tt.frame, dropped(lbReasonREASON_NO_RULE, 0, 0))
				return
			}
			send(t, d, tt.frame, started(memberA, tt.rule, zoneA, newOther))
		})
	}
}

// An IPv6 rule may have a /96 (semantics.md 6).
func TestIPv6PrefixIsAnAddressOfOurs(t *testing.T) {
	d := newFixture(t)
	client := ap(testutil.ZoneAClient6, 4000)
	at := func(s string) netip.AddrPort { return ap(netip.MustParseAddr(s), 80) }
	must(t, d.SetFrontends([]Frontend{
		{
			Address: netip.MustParsePrefix("2001:db8:f:0:0:1::/96"), L3: ruleL3,
			Ports: []FrontendPort{{Protocol: 6, Port: 80, Rule: ruleTCP80}},
		},
		{Address: netip.MustParsePrefix("2001:db8:f:0:0:1:0:5/128"), UDP: ruleUDPAll},
	}))
	send(t, d, tcp(t, client, at("2001:db8:f:0:0:1::")), started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, tcp(t, client, at("2001:db8:f:0:0:1:ffff:ffff")), started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, udp(t, client, at("2001:db8:f:0:0:1:0:9")), started(memberA, ruleL3, zoneA, newOther))
	send(t, d, udp(t, client, at("2001:db8:f:0:0:2::")), passed(0))
	send(t, d, udp(t, client, at("2001:db8:f:0:0:0:ffff:ffff")), passed(0))
	// The single address goes before the prefix that has it.
	send(t, d, udp(t, client, at("2001:db8:f:0:0:1:0:5")), started(memberA, ruleUDPAll, zoneA, newOther))
	send(t, d, tcp(t, client, at("2001:db8:f:0:0:1:0:5")), dropped(lbReasonREASON_NO_RULE, 0, 0))
	// And the prefix answers for its addresses.
	target := netip.MustParseAddr("2001:db8:f:0:0:1:0:77")
	send(t, d, raw(testutil.NeighborSolicitation(t, testutil.ClientMAC, client.Addr(), target)),
		answered(lbReasonREASON_ND_REPLY, testutil.NeighborAdvertisement(t, testutil.GatewayMAC, target,
			testutil.ClientMAC, client.Addr(), testutil.NDSolicited|testutil.NDOverride)))
}

// Replacing the frontends takes effect at once, however often.
func TestFrontendsAreReplacedAtOnce(t *testing.T) {
	d := newFixture(t)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 53))
	for range 3 {
		forgetFlows(d)
		must(t, d.SetFrontends(nil))
		send(t, d, f, passed(0))
		must(t, d.SetFrontends(fixtureFrontends()))
		send(t, d, f, started(memberA, ruleUDPAll, zoneA, newOther))
	}
}
