package loader

import (
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// sessionKinds are the tracking keys of PER_SESSION services (semantics.md 1.6).
var sessionKinds = []struct {
	name     string
	kind     FlowKind
	affinity Affinity
}{
	{"CLIENT_IP_PROTO", FlowClientIPProto, AffinityClientIPProto},
	{"CLIENT_IP", FlowClientIP, AffinityClientIP},
	{"CLIENT_IP_NO_DESTINATION", FlowClientOnly, AffinityClientOnly},
}

// affinities are those a PER_CONNECTION service may have.
var affinities = []struct {
	name     string
	affinity Affinity
}{
	{"NONE", AffinityFiveTuple},
	{"CLIENT_IP_PROTO", AffinityClientIPProto},
	{"CLIENT_IP", AffinityClientIP},
	{"CLIENT_IP_NO_DESTINATION", AffinityClientOnly},
}

// afterSwitch sends first, which member A gets, gives all new flows to B, and
// sends second. stays says whether second must follow first's entry.
func afterSwitch(t *testing.T, d *Datapath, first, second frame, rule uint32, stays bool, event FlowEvent) {
	t.Helper()
	forgetFlows(d)
	newFlowsGoTo(t, d, memberA)
	if trace, _, err := d.Run(first()); err != nil || trace.Member != memberA || trace.Flow != TraceNew {
		t.Fatalf("first packet: %+v, %v", trace, err)
	}
	newFlowsGoTo(t, d, memberB)
	if stays {
		send(t, d, second, followed(memberA, rule, zoneA, confirmed))
		return
	}
	send(t, d, second, started(memberB, rule, zoneA, event))
	send(t, d, second, lastOf(second, memberB, rule, event))
}

// lastOf is what a packet meets when the one before was the same and new: a SYN
// that starts connections starts another one, everything else follows.
func lastOf(f frame, member, rule uint32, event FlowEvent) outcome {
	if event == newSYN {
		return started(member, rule, zoneA, newSYN)
	}
	return followed(member, rule, zoneA, confirmed)
}

// The table of semantics.md 1.2, row by row: which packets look their flow up.
func TestWhichPacketsStartANewConnection(t *testing.T) {
	d := newFixture(t)
	client, web := ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)
	first := tcp(t, client, web)
	others := map[string]frame{
		"a SYN+ACK":        tcp(t, client, web, testutil.Flags("SA")),
		"an ACK":           tcp(t, client, web),
		"a PSH+ACK":        tcp(t, client, web, testutil.Flags("PA"), testutil.Payload([]byte("data"))),
		"a FIN":            tcp(t, client, web, testutil.Flags("FA")),
		"an RST":           tcp(t, client, web, testutil.Flags("R")),
		"one with no flag": tcp(t, client, web, testutil.Flags("")),
	}
	syns := map[string]frame{
		"a SYN":           syn(t, client, web),
		"a SYN with data": syn(t, client, web, testutil.Payload([]byte("fast open"))),
		"a SYN+PSH":       tcp(t, client, web, testutil.Flags("SP")),
	}
	check := func(name string, kind FlowKind, affinity Affinity, synStays bool) {
		changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = kind, affinity })
		for packet, f := range syns {
			t.Run(name+": "+packet, func(t *testing.T) {
				afterSwitch(t, d, first, f, ruleTCP80, synStays, newSYN)
			})
		}
		for packet, f := range others {
			t.Run(name+": "+packet, func(t *testing.T) {
				afterSwitch(t, d, first, f, ruleTCP80, true, 0)
			})
		}
	}
	// PER_SESSION with NONE tracks like PER_CONNECTION: one kind of key.
	for _, a := range affinities {
		check("PER_CONNECTION, "+a.name, FlowPorts, a.affinity, false)
	}
	for _, s := range sessionKinds {
		check("PER_SESSION, "+s.name, s.kind, s.affinity, true)
	}
}

// UDP and other protocols always look their flow up.
func TestPacketsOfOtherProtocolsFollowTheirFlow(t *testing.T) {
	d := newFixture(t)
	a4, a6 := testutil.ZoneAClient4, testutil.ZoneAClient6
	for name, tt := range map[string]struct {
		frame frame
		rule  uint32
	}{
		"udp":           {udp(t, ap(a4, 4000), ap(testutil.VIP4, 53)), ruleUDPAll},
		"udp over ipv6": {udp(t, ap(a6, 4000), ap(testutil.VIP6, 53)), ruleUDPAll},
		"sctp init":     {otherIP(t, a4, testutil.VIP4B, layers.IPProtocolSCTP, append(make([]byte, 12), 1, 0, 0, 20)), ruleL3},
		"esp":           {otherIP(t, a4, testutil.VIP4B, layers.IPProtocolESP, make([]byte, 40)), ruleL3},
		"echo":          {echo(t, a6, testutil.VIP6B), ruleL3},
	} {
		t.Run(name, func(t *testing.T) {
			afterSwitch(t, d, tt.frame, tt.frame, tt.rule, true, 0)
		})
	}
}

// A packet in the middle of a connection that has no entry is not dropped: a
// backend is chosen and remembered (semantics.md 1.2).
func TestMidStreamPacketsWithoutEntryAreForwardedAndRemembered(t *testing.T) {
	d := newFixture(t)
	client, web := ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)
	for _, flags := range []string{"A", "FA", "R", "SA"} {
		forgetFlows(d)
		f := tcp(t, client, web, testutil.Flags(flags))
		send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
		setFixturePick(t, d, zoneA, memberB)
		send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
		setFixturePick(t, d, zoneA, memberA)
	}
}

// A SYN on a tuple that has an entry starts anew at once, also where the new
// choice is another backend; the packets behind it follow it (semantics.md 1.2,
// 1.7).
func TestSYNOnAKnownTupleStartsAnewAtOnce(t *testing.T) {
	d := newFixture(t)
	client, web := ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)
	ack := tcp(t, client, web)
	send(t, d, syn(t, client, web), started(memberA, ruleTCP80, zoneA, newSYN))
	send(t, d, ack, followed(memberA, ruleTCP80, zoneA, confirmed))
	setFixturePick(t, d, zoneA, memberB)
	send(t, d, ack, followed(memberA, ruleTCP80, zoneA))
	send(t, d, syn(t, client, web), started(memberB, ruleTCP80, zoneA, newSYN))
	// The tuple was confirmed before and keeps its place.
	send(t, d, ack, followed(memberB, ruleTCP80, zoneA))
	if n := usedFlows(d); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// Changing the table of a service moves new flows only.
func TestANewTableMovesNewFlowsOnly(t *testing.T) {
	d := newFixture(t)
	web := ap(testutil.VIP6, 80)
	at := func(port uint16) frame { return tcp(t, ap(testutil.ZoneAClient6, port), web) }
	for port := uint16(4000); port < 4050; port++ {
		send(t, d, at(port), started(memberA, ruleTCP80, zoneA, newOther))
	}
	setFixturePick(t, d, zoneA, memberB)
	for port := uint16(4000); port < 4050; port++ {
		send(t, d, at(port), followed(memberA, ruleTCP80, zoneA, confirmed))
		send(t, d, at(port+1000), started(memberB, ruleTCP80, zoneA, newOther))
	}
}

// usedFlows counts the entries in use of both tables.
func usedFlows(d *Datapath) int {
	n := 0
	for i := range d.flows4 {
		for j := range d.flows4[i].Flow {
			n += min(int(d.flows4[i].Flow[j].Value>>24&0xff), 1)
		}
	}
	for i := range d.flows6 {
		for j := range d.flows6[i].Flow {
			n += min(int(d.flows6[i].Flow[j].Value>>24&0xff), 1)
		}
	}
	return n
}
