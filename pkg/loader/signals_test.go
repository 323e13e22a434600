package loader

import (
	"net/netip"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

// wantSignals compares the signals of a member for the web rule.
func wantSignals(t *testing.T, d *Datapath, member uint32, want Signals) {
	t.Helper()
	got, err := d.Signals(d.Member(member).StatBase + uint32(d.Rule(ruleTCP80).StatSlot))
	must(t, err)
	if got != want {
		t.Errorf("member %d: %+v, want %+v", member, got, want)
	}
}

// What counts as a SYN that made a flow, and as its confirmation.
func TestSignalsOfConnections(t *testing.T) {
	for _, family := range []struct {
		name         string
		vip, clientA netip.Addr
	}{{"IPv4", testutil.VIP4, testutil.ZoneAClient4}, {"IPv6", testutil.VIP6, testutil.ZoneAClient6}} {
		t.Run(family.name, func(t *testing.T) {
			d := newFixture(t)
			changeRules(t, d, func(r *Rule) { r.Signals = true })
			web := ap(family.vip, 80)
			port := func(p uint16) (first, next frame) {
				client := ap(family.clientA, p)
				return syn(t, client, web), tcp(t, client, web)
			}
			sendOnly := func(frames ...frame) {
				t.Helper()
				for _, f := range frames {
					if trace, _, err := d.Run(f()); err != nil || trace.Verdict != VerdictTX {
						t.Fatalf("%+v, %v", trace, err)
					}
				}
			}
			first, next := port(4000)
			sendOnly(first)
			wantSignals(t, d, memberA, Signals{SYNs: 1})
			sendOnly(first, first) // sent again: the same connection
			wantSignals(t, d, memberA, Signals{SYNs: 1})
			sendOnly(next)
			wantSignals(t, d, memberA, Signals{SYNs: 1, Confirmed: 1})
			sendOnly(next, next) // an established flow
			wantSignals(t, d, memberA, Signals{SYNs: 1, Confirmed: 1})
			sendOnly(first, next) // its ports used again: nothing confirms that
			wantSignals(t, d, memberA, Signals{SYNs: 1, Confirmed: 1})

			_, middle := port(4001)
			sendOnly(middle, middle) // no SYN: a flow from before a restart
			wantSignals(t, d, memberA, Signals{SYNs: 1, Confirmed: 1})

			first, next = port(4002)
			sendOnly(first)
			newFlowsGoTo(t, d, memberB)
			sendOnly(first) // sent again, and given to another backend
			wantSignals(t, d, memberA, Signals{SYNs: 2, Confirmed: 1})
			wantSignals(t, d, memberB, Signals{SYNs: 1})
			sendOnly(next)
			wantSignals(t, d, memberB, Signals{SYNs: 1, Confirmed: 1})

			must(t, d.SetClock(fixtureStart+2*fixtureIdle))
			sendOnly(first) // the confirmed flow is long over
			wantSignals(t, d, memberB, Signals{SYNs: 2, Confirmed: 1})

			must(t, d.ClearTraffic(d.Member(memberB).StatBase+uint32(d.Rule(ruleTCP80).StatSlot)))
			wantSignals(t, d, memberB, Signals{})
		})
	}
}

// A service that does not ask for it, datagrams and PER_SESSION flows count
// nothing.
func TestSignalsAreOffUnlessAskedFor(t *testing.T) {
	d := newFixture(t)
	client := ap(testutil.ZoneAClient4, 4000)
	first, next := syn(t, client, ap(testutil.VIP4, 80)), tcp(t, client, ap(testutil.VIP4, 80))
	send(t, d, first, started(memberA, ruleTCP80, zoneA, newSYN)) // checks all counters
	send(t, d, next, followed(memberA, ruleTCP80, zoneA, confirmed))
	changeRules(t, d, func(r *Rule) { r.Signals = true })
	dns := udp(t, client, ap(testutil.VIP4, 53))
	send(t, d, dns, started(memberA, ruleUDPAll, zoneA, newOther))
	send(t, d, dns, followed(memberA, ruleUDPAll, zoneA, confirmed))
	forgetFlows(d)
	changeRules(t, d, func(r *Rule) { r.Kind, r.Affinity = FlowClientIP, AffinityClientIP })
	send(t, d, first, started(memberA, ruleTCP80, zoneA, newSYN))
	send(t, d, next, followed(memberA, ruleTCP80, zoneA, confirmed))
}

// A flow that finds no room has no entry that could be confirmed.
func TestSYNsWithoutRoomAreNoSignal(t *testing.T) {
	d := newFixtureWith(t, Options{FlowEntries: 4})
	changeRules(t, d, func(r *Rule) { r.Signals = true })
	web := ap(testutil.VIP4, 80)
	full := Signals{}
	for port := range uint16(64) {
		client := ap(testutil.ZoneAClient4, 4000+port)
		run(t, d, syn(t, client, web)())
		run(t, d, tcp(t, client, web)())
		full, _ = d.Signals(d.Member(memberA).StatBase + ruleTCP80)
	}
	events, err := d.FlowEvents()
	must(t, err)
	if events[noRoom] == 0 {
		t.Fatal("the table did not fill")
	}
	if full.SYNs != full.Confirmed || full.SYNs == 0 {
		t.Errorf("%+v: every flow that had room was confirmed", full)
	}
}

// Go reads the state of an entry that a counted SYN made.
func TestAFlowMadeBySYNIsShownOnProbation(t *testing.T) {
	d := newFixture(t)
	changeRules(t, d, func(r *Rule) { r.Signals = true })
	client, web := ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)
	for _, step := range []struct {
		f    frame
		want string
	}{{syn(t, client, web), "PROBATION"}, {tcp(t, client, web), "CONFIRMED"}} {
		run(t, d, step.f())
		must(t, d.SetClock(fixtureStart+time.Second))
		var states []string
		for r := range d.EachFlow {
			states = append(states, r.State.String())
		}
		if len(states) != 1 || states[0] != step.want {
			t.Errorf("states %v, want %s", states, step.want)
		}
	}
}
