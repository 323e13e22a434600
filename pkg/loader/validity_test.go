package loader

import (
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// Raising an epoch ends all entries of a rule, or all sessions of a service, at
// once: a pool that is flushed (semantics.md 1.7, 2.2).
func TestRaisingTheEpochFlushes(t *testing.T) {
	d := newFixture(t)
	client := ap(testutil.ZoneAClient4, 4000)
	web, dns := tcp(t, client, ap(testutil.VIP4, 80)), udp(t, client, ap(testutil.VIP4, 53))
	send(t, d, web, started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, dns, started(memberA, ruleUDPAll, zoneA, newOther))
	newFlowsGoTo(t, d, memberB)

	changeRules(t, d, func(r *Rule) { r.ServiceEpoch++ })
	send(t, d, web, followed(memberA, ruleTCP80, zoneA, confirmed))
	changeRule(t, d, ruleTCP80, func(r *Rule) { r.Epoch++ })
	send(t, d, dns, followed(memberA, ruleUDPAll, zoneA, confirmed))
	send(t, d, web, started(memberB, ruleTCP80, zoneA, newOther))
	send(t, d, web, followed(memberB, ruleTCP80, zoneA, confirmed))
}

func TestRaisingTheServiceEpochFlushesSessions(t *testing.T) {
	d := newFixture(t)
	changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = FlowClientIP, AffinityClientIP })
	f := tcp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.VIP6, 80))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	newFlowsGoTo(t, d, memberB)
	changeRules(t, d, func(r *Rule) { r.Epoch++ })
	send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
	changeRules(t, d, func(r *Rule) { r.ServiceEpoch++ })
	send(t, d, f, started(memberB, ruleTCP80, zoneA, newOther))
}

// Which of a backend's entries end when it loses those of a class: the ground
// of semantics.md 1.8. DEFAULT_FOR_PROTOCOL ends the class "other" only.
func TestRaisingAGenerationEndsTheEntriesOfItsClass(t *testing.T) {
	d := newFixture(t)
	a4, a6 := testutil.ZoneAClient4, testutil.ZoneAClient6
	esp := otherIP(t, a4, testutil.VIP4B, layers.IPProtocolESP, make([]byte, 20))
	sctp := otherIP(t, a4, testutil.VIP4B, layers.IPProtocolSCTP, make([]byte, 20))
	tests := []struct {
		name  string
		frame frame
		rule  uint32
		kind  FlowKind
		class Class
	}{
		{"tcp", tcp(t, ap(a4, 4000), ap(testutil.VIP4, 80)), ruleTCP80, FlowPorts, ClassConnection},
		{"tcp over ipv6", tcp(t, ap(a6, 4000), ap(testutil.VIP6, 80)), ruleTCP80, FlowPorts, ClassConnection},
		{"tcp under L3_DEFAULT", tcp(t, ap(a4, 4000), ap(testutil.VIP4B, 80)), ruleL3, FlowPorts, ClassConnection},
		{"sctp", sctp, ruleL3, FlowPorts, ClassConnection},
		{"udp", udp(t, ap(a4, 4000), ap(testutil.VIP4, 53)), ruleUDPAll, FlowPorts, ClassOther},
		{"udp over ipv6", udp(t, ap(a6, 4000), ap(testutil.VIP6, 53)), ruleUDPAll, FlowPorts, ClassOther},
		{"esp", esp, ruleL3, FlowPorts, ClassOther},
		{"icmpv6 echo", echo(t, a6, testutil.VIP6B), ruleL3, FlowPorts, ClassOther},
		{"tcp, CLIENT_IP_PROTO sessions", tcp(t, ap(a4, 4000), ap(testutil.VIP4, 80)), ruleTCP80, FlowClientIPProto, ClassOther},
		{"tcp, CLIENT_IP sessions", tcp(t, ap(a6, 4000), ap(testutil.VIP6, 80)), ruleTCP80, FlowClientIP, ClassOther},
		{"tcp, CLIENT_IP_NO_DESTINATION sessions", tcp(t, ap(a4, 4000), ap(testutil.VIP4, 80)), ruleTCP80, FlowClientOnly, ClassOther},
		{"udp, CLIENT_IP sessions", udp(t, ap(a4, 4000), ap(testutil.VIP4, 53)), ruleUDPAll, FlowClientIP, ClassOther},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			changeRules(t, d, func(r *Rule) { r.Kind = tt.kind })
			newFlowsGoTo(t, d, memberA)
			send(t, d, tt.frame, started(memberA, tt.rule, zoneA, newOther))
			newFlowsGoTo(t, d, memberB)

			changeMember(t, d, memberB, func(m *Member) { m.Generation[tt.class]++ })
			changeMember(t, d, memberA, func(m *Member) { m.Generation[1-tt.class]++ })
			send(t, d, tt.frame, followed(memberA, tt.rule, zoneA, confirmed))
			changeMember(t, d, memberA, func(m *Member) { m.Generation[tt.class]++ })
			send(t, d, tt.frame, started(memberB, tt.rule, zoneA, newOther))
			send(t, d, tt.frame, followed(memberB, tt.rule, zoneA, confirmed))
		})
	}
}

// Lost flows are given to a backend that is in the table, which may be the same
// one: NEVER_PERSIST moves nothing where every backend is unhealthy.
func TestEntriesThatEndedAreMadeAnew(t *testing.T) {
	d := newFixture(t)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 53))
	send(t, d, f, started(memberA, ruleUDPAll, zoneA, newOther))
	send(t, d, f, followed(memberA, ruleUDPAll, zoneA, confirmed))
	changeMember(t, d, memberA, func(m *Member) { m.Generation = [ClassMax]uint16{0xffff, 0xffff} })
	send(t, d, f, started(memberA, ruleUDPAll, zoneA, newOther))
	changeMember(t, d, memberA, func(m *Member) { m.Generation = [ClassMax]uint16{0, 0} })
	send(t, d, f, started(memberA, ruleUDPAll, zoneA, newOther))
	// What is in a used-up place does not count as confirmed.
	send(t, d, f, followed(memberA, ruleUDPAll, zoneA, confirmed))
	if n := usedFlows(d); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}
