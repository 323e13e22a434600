package loader

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

const (
	serviceOther = 2
	ruleTCP81    = 5 // VIP4 and VIP6: TCP port 81, service web
	ruleOther    = 6 // VIP4B and VIP6B in newTwoServices, service other
)

// newKeyFixture has one service behind several rules: every packet to VIP4, VIP6,
// VIP4B and VIP6B has one.
func newKeyFixture(t *testing.T) *Datapath {
	d := newFixture(t)
	must(t, d.SetRule(ruleTCP81, fixtureRule(ruleTCP81)))
	list := fixtureFrontends()
	for i := range 2 {
		list[i].L3 = ruleL3
		list[i].Ports = append(list[i].Ports, FrontendPort{Protocol: 6, Port: 81, Rule: ruleTCP81})
	}
	must(t, d.SetFrontends(list))
	return d
}

// keyCase is a packet that differs in something from a TCP packet of a client's
// port 4000 to port 80 of VIP4 or VIP6.
type keyCase struct {
	name  string
	frame frame
	rule  uint32
	// sharedBy says by which kinds of key it belongs to the same entry.
	sharedBy map[FlowKind]bool
}

func keyCases(t *testing.T, client, otherClient, vip, otherVIP netip.Addr) (first frame, cases []keyCase) {
	kinds := func(list ...FlowKind) map[FlowKind]bool {
		m := map[FlowKind]bool{}
		for _, k := range list {
			m[k] = true
		}
		return m
	}
	first = tcp(t, ap(client, 4000), ap(vip, 80))
	return first, []keyCase{
		{"the same 5-tuple", first, ruleTCP80, kinds(FlowPorts, FlowClientIPProto, FlowClientIP, FlowClientOnly)},
		{
			"the same 5-tuple behind a tag", tcp(t, ap(client, 4000), ap(vip, 80), testutil.VLAN(7)), ruleTCP80,
			kinds(FlowPorts, FlowClientIPProto, FlowClientIP, FlowClientOnly),
		},
		{"another source port", tcp(t, ap(client, 4001), ap(vip, 80)), ruleTCP80, kinds(FlowClientIPProto, FlowClientIP, FlowClientOnly)},
		{"another destination port, of another rule", tcp(t, ap(client, 4000), ap(vip, 81)), ruleTCP81, kinds(FlowClientIPProto, FlowClientIP, FlowClientOnly)},
		{"another protocol", udp(t, ap(client, 4000), ap(vip, 80)), ruleUDPAll, kinds(FlowClientIP, FlowClientOnly)},
		{"a protocol without ports", otherIP(t, client, vip, layers.IPProtocolESP, make([]byte, 20)), ruleL3, kinds(FlowClientIP, FlowClientOnly)},
		{"another destination", tcp(t, ap(client, 4000), ap(otherVIP, 80)), ruleL3, kinds(FlowClientOnly)},
		{"another source", tcp(t, ap(otherClient, 4000), ap(vip, 80)), ruleTCP80, nil},
	}
}

// The table of semantics.md 1.6: what belongs to one entry.
func TestTrackingKeysOfEveryMode(t *testing.T) {
	d := newKeyFixture(t)
	modes := append([]struct {
		name     string
		kind     FlowKind
		affinity Affinity
	}{{"PER_CONNECTION", FlowPorts, AffinityFiveTuple}, {"PER_CONNECTION, CLIENT_IP", FlowPorts, AffinityClientIP}}, sessionKinds...)
	for _, family := range []struct {
		name                              string
		client, otherClient, vip, another netip.Addr
	}{
		{"ipv4", testutil.ZoneAClient4, netip.MustParseAddr("10.1.200.8"), testutil.VIP4, testutil.VIP4B},
		{"ipv6", testutil.ZoneAClient6, netip.MustParseAddr("2001:db8:a:1::8"), testutil.VIP6, testutil.VIP6B},
	} {
		first, cases := keyCases(t, family.client, family.otherClient, family.vip, family.another)
		for _, mode := range modes {
			for id := uint32(1); id <= ruleTCP81; id++ {
				r := fixtureRule(id)
				r.Kind, r.Affinity = mode.kind, mode.affinity
				must(t, d.SetRule(id, r))
			}
			for _, c := range cases {
				t.Run(family.name+", "+mode.name+": "+c.name, func(t *testing.T) {
					afterSwitch(t, d, first, c.frame, c.rule, c.sharedBy[mode.kind], newOther)
				})
			}
		}
	}
}

// Protocols without ports are tracked by addresses and protocol; SCTP has ports
// (semantics.md 1.6).
func TestProtocolsWithoutPortsAreTrackedByAddressesAndProtocol(t *testing.T) {
	d := newFixture(t)
	src, dst := testutil.ZoneAClient4, testutil.VIP4B
	ip := func(proto layers.IPProtocol, first byte) frame {
		return otherIP(t, src, dst, proto, append([]byte{first, first, first, first}, make([]byte, 20)...))
	}
	for name, tt := range map[string]struct {
		first, second frame
		stays         bool
	}{
		"esp of another security association": {ip(layers.IPProtocolESP, 1), ip(layers.IPProtocolESP, 2), true},
		"sctp of other ports":                 {ip(layers.IPProtocolSCTP, 1), ip(layers.IPProtocolSCTP, 2), false},
		"an echo request of another id":       {ip(layers.IPProtocolICMPv4, 8), echo(t, src, dst), true},
		"gre after esp":                       {ip(layers.IPProtocolESP, 1), ip(layers.IPProtocolGRE, 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			afterSwitch(t, d, tt.first, tt.second, ruleL3, tt.stays, newOther)
		})
	}
}

// newTwoServices has VIP4 and VIP6 served by the web service, VIP4B and VIP6B by
// another one, both PER_SESSION with a client-only key.
func newTwoServices(t *testing.T) *Datapath {
	d := newFixture(t)
	other := fixtureRule(ruleOther)
	other.Service, other.Kind, other.Affinity = serviceOther, FlowClientOnly, AffinityClientOnly
	must(t, d.SetRule(ruleOther, other))
	changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = FlowClientOnly, AffinityClientOnly })
	list := fixtureFrontends()
	list[2].L3, list[3].L3 = ruleOther, ruleOther
	must(t, d.SetFrontends(list))
	for _, zone := range []uint32{0, zoneA, zoneB} {
		must(t, d.SetPick(serviceOther, zone, 3)) // member B
	}
	return d
}

// Services do not share sessions; the rules of one service do.
func TestSessionsBelongToOneService(t *testing.T) {
	d := newTwoServices(t)
	client := ap(testutil.ZoneAClient4, 4000)
	web := tcp(t, client, ap(testutil.VIP4, 80))
	dns := udp(t, client, ap(testutil.VIP4, 53))
	other := tcp(t, client, ap(testutil.VIP4B, 80))
	send(t, d, web, started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, other, started(memberB, ruleOther, zoneA, newOther))
	send(t, d, dns, followed(memberA, ruleUDPAll, zoneA, confirmed))
	send(t, d, other, followed(memberB, ruleOther, zoneA, confirmed))
	send(t, d, web, followed(memberA, ruleTCP80, zoneA))
	if n := usedFlows(d); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}

// A service that changed to sessions does not follow the entries from before:
// the keys have changed their meaning (semantics.md 1.7).
func TestChangingTheModeStartsAnew(t *testing.T) {
	d := newFixture(t)
	f := tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	newFlowsGoTo(t, d, memberB)
	changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity, r.Epoch = FlowClientIP, AffinityClientIP, 2 })
	send(t, d, f, started(memberB, ruleTCP80, zoneA, newOther))
	send(t, d, f, followed(memberB, ruleTCP80, zoneA, confirmed))
}
