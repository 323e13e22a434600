package loader

import (
	"testing"
	"time"

	"l4lb/internal/testutil"
)

// at sets the clock to a time after the fixture's start.
func at(t *testing.T, d *Datapath, after time.Duration) {
	t.Helper()
	must(t, d.SetClock(fixtureStart+after))
}

// An entry ends when it was idle longer than the timeout (semantics.md 1.7), for
// every kind of key and both address families.
func TestEntriesEndWhenTheyWereIdleTooLong(t *testing.T) {
	kinds := append(sessionKinds[:len(sessionKinds):len(sessionKinds)], struct {
		name     string
		kind     FlowKind
		affinity Affinity
	}{"PER_CONNECTION", FlowPorts, AffinityFiveTuple})
	frames := map[string]frame{
		"ipv4": tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)),
		"ipv6": tcp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.VIP6, 80)),
	}
	d := newFixture(t)
	for _, kind := range kinds {
		for family, f := range frames {
			t.Run(kind.name+", "+family, func(t *testing.T) {
				forgetFlows(d)
				changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = kind.kind, kind.affinity })
				newFlowsGoTo(t, d, memberA)
				at(t, d, 0)
				send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
				newFlowsGoTo(t, d, memberB)

				at(t, d, fixtureIdle-time.Second)
				send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
				// That packet began the time anew.
				at(t, d, 2*fixtureIdle-2*time.Second)
				send(t, d, f, followed(memberA, ruleTCP80, zoneA))
				at(t, d, 3*fixtureIdle-2*time.Second)
				send(t, d, f, followed(memberA, ruleTCP80, zoneA))
				at(t, d, 4*fixtureIdle-time.Second)
				send(t, d, f, started(memberB, ruleTCP80, zoneA, newOther))
			})
		}
	}
}

// A longer timeout is taken at once, for entries that are there too.
func TestIdleTimeoutIsThatOfTheRuleNow(t *testing.T) {
	d := newFixture(t)
	f := udp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 53))
	at(t, d, 0)
	send(t, d, f, started(memberA, ruleUDPAll, zoneA, newOther))
	changeRule(t, d, ruleUDPAll, func(r *Rule) { r.IdleTicks = d.Ticks(57600 * time.Second) })
	at(t, d, 57599*time.Second)
	send(t, d, f, followed(memberA, ruleUDPAll, zoneA, confirmed))
	changeRule(t, d, ruleUDPAll, func(r *Rule) { r.IdleTicks = d.Ticks(600 * time.Second) })
	at(t, d, (57599+601)*time.Second)
	send(t, d, f, started(memberA, ruleUDPAll, zoneA, newOther))
}

// FIN and RST do not remove an entry (semantics.md 1.7).
func TestFINAndRSTDoNotEndAnEntry(t *testing.T) {
	d := newFixture(t)
	client, web := ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)
	send(t, d, syn(t, client, web), started(memberA, ruleTCP80, zoneA, newSYN))
	newFlowsGoTo(t, d, memberB)
	send(t, d, tcp(t, client, web, testutil.Flags("FA")), followed(memberA, ruleTCP80, zoneA, confirmed))
	send(t, d, tcp(t, client, web, testutil.Flags("R")), followed(memberA, ruleTCP80, zoneA))
	send(t, d, tcp(t, client, web, testutil.Flags("RA")), followed(memberA, ruleTCP80, zoneA))
	at(t, d, fixtureIdle-time.Second)
	send(t, d, tcp(t, client, web), followed(memberA, ruleTCP80, zoneA))
}

// The clock of the flow table goes round after some decades, or 49 days of a
// capture: that is not idle time.
func TestIdleTimeIsRightWhenTheClockGoesRound(t *testing.T) {
	d := newFixture(t)
	f := tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80))
	round := time.Duration(1<<32) * time.Millisecond
	must(t, d.SetClock(round-time.Second))
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
	newFlowsGoTo(t, d, memberB)
	must(t, d.SetClock(round+fixtureIdle-2*time.Second))
	send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
	must(t, d.SetClock(round+2*fixtureIdle))
	send(t, d, f, started(memberB, ruleTCP80, zoneA, newOther))
}

// Another CPU may have touched an entry with a time that is a little later than
// the packet's: the entry holds.
func TestEntryTouchedByAnotherCPUALittleLaterHolds(t *testing.T) {
	d := newFixture(t)
	for _, f := range []frame{
		tcp(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)),
		tcp(t, ap(testutil.ZoneAClient6, 4000), ap(testutil.VIP6, 80)),
	} {
		newFlowsGoTo(t, d, memberA)
		at(t, d, 5*time.Millisecond)
		send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
		newFlowsGoTo(t, d, memberB)
		at(t, d, 4*time.Millisecond)
		send(t, d, f, followed(memberA, ruleTCP80, zoneA, confirmed))
		at(t, d, 0)
		send(t, d, f, followed(memberA, ruleTCP80, zoneA))
	}
}
