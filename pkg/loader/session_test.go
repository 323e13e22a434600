package loader

import (
	"testing"

	"l4lb/internal/testutil"
)

// addSessionRule adds a rule for TCP port 80 of VIP4B, more specific than ruleL3,
// whose service sends clients to member B and keeps them there.
func addSessionRule(t *testing.T, d *Datapath) {
	t.Helper()
	other := fixtureRule(ruleOther)
	other.Service, other.Kind, other.Affinity = serviceOther, FlowClientIP, AffinityClientIP
	must(t, d.SetRule(ruleOther, other))
	for _, zone := range []uint32{0, zoneA, zoneB} {
		must(t, d.SetPick(serviceOther, zone, 3)) // member B
	}
	list := fixtureFrontends()
	list[2].Ports = []FrontendPort{{Protocol: 6, Port: 80, Rule: ruleOther}}
	must(t, d.SetFrontends(list))
}

// A rule that is added for a port leaves established connections where they are,
// but the packets after a SYN go where the SYN went.
func TestSYNEndsTheConnectionOfALessSpecificRule(t *testing.T) {
	d := newFixture(t)
	client, vip := ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4B, 80)
	ack := tcp(t, client, vip)
	send(t, d, ack, started(memberA, ruleL3, zoneA, newOther))
	addSessionRule(t, d)
	send(t, d, ack, followed(memberA, ruleL3, zoneA, confirmed))
	send(t, d, syn(t, client, vip), started(memberB, ruleOther, zoneA, newSYN))
	send(t, d, ack, followed(memberB, ruleOther, zoneA, confirmed))
}

// A PER_SESSION entry is the service's: other rules lead to it when the one that
// made it is gone or serves something else. It keeps its place until then.
func TestSessionKeepsItsPlaceWhenItsRuleIsGone(t *testing.T) {
	d := newFixtureWith(t, Options{FlowEntries: 4})
	changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = FlowClientIP, AffinityClientIP })
	for _, id := range []uint32{memberA, memberB} {
		m := d.Member(id)
		m.IdleTicks = d.Ticks(fixtureIdle)
		must(t, d.SetMember(id, m))
	}
	client := ap(testutil.ZoneAClient4, 4000)
	web, dns := tcp(t, client, ap(testutil.VIP4, 80)), udp(t, client, ap(testutil.VIP4, 53))
	send(t, d, web, started(memberA, ruleTCP80, zoneA, newOther))
	send(t, d, web, followed(memberA, ruleTCP80, zoneA, confirmed))

	changeRule(t, d, ruleTCP80, func(r *Rule) { r.Service, r.Epoch, r.ServiceEpoch, r.IdleTicks = serviceOther, 7, 7, 1 })
	newFlowsGoTo(t, d, memberB)
	others := newCrowd(t, udp(t, ap(testutil.ZoneBClient4, 4000), ap(testutil.VIP4, 53)))
	for n := range uint32(200) {
		run(t, d, others.flow(n<<12))
	}
	send(t, d, dns, followed(memberA, ruleUDPAll, zoneA))
}
