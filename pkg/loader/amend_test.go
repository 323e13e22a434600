package loader

import (
	"sync"
	"sync/atomic"
	"testing"

	"l4lb/internal/testutil"
	"l4lb/pkg/conntrack"
)

// Rules of a service share sessions. One that a rule let in leads to another rule
// only where that one would let it in too.
func TestSessionsDoNotLeadPastAFilter(t *testing.T) {
	for _, kind := range []FlowKind{FlowClientIPProto, FlowClientIP, FlowClientOnly} {
		d := newFixture(t)
		newFlowsGoTo(t, d, memberA)
		changeRules(t, d, func(r *Rule) { r.Kind = kind })
		changeMember(t, d, memberA, func(m *Member) { m.IdleTicks = fixtureRule(1).IdleTicks })
		allow(t, d, ruleUDPAll, "10.0.0.0/8")
		limit(t, d, ruleTCP80, Admission{Flows: FlowRate{PerSecond: 1, Burst: 2}})
		web := func(flags string) frame {
			return tcp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 80), testutil.Flags(flags))
		}
		dns := udp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 53))
		send(t, d, web("S"), started(memberA, ruleTCP80, 0, newSYN))
		sendAll(t, d, dropped(lbReasonREASON_SOURCE_NOT_ALLOWED, ruleUDPAll, 0), dns, dns)
		send(t, d, web("A"), followed(memberA, ruleTCP80, 0, confirmed))
		// Each SYN is a new connection, in a session too.
		send(t, d, web("S"), followed(memberA, ruleTCP80, 0))
		send(t, d, web("S"), dropped(lbReasonREASON_RATE_LIMITED, ruleTCP80, 0))
		send(t, d, web("A"), followed(memberA, ruleTCP80, 0))
		if kind == FlowClientIPProto {
			continue // protocols have sessions of their own
		}
		allow(t, d, ruleUDPAll, "198.51.100.0/24")
		send(t, d, dns, followed(memberA, ruleUDPAll, 0))
		allow(t, d, ruleUDPAll, "10.0.0.0/8")
		d.AmendFlows(func(conntrack.Record) uint32 { return ruleUDPAll }) // by which it is let in, then
		send(t, d, dns, followed(memberA, ruleUDPAll, 0))
		send(t, d, web("A"), followed(memberA, ruleTCP80, 0))
	}
}

func TestEntriesAreTakenOutAndGivenAway(t *testing.T) {
	d := newFixture(t)
	newFlowsGoTo(t, d, memberA)
	goes, stays := tcp(t, ap(testutil.Client4, 4000), ap(testutil.VIP4, 80)), tcp(t, ap(testutil.Client4, 4001), ap(testutil.VIP4, 80))
	goes6, given6 := udp(t, ap(testutil.Client6, 4000), ap(testutil.VIP6, 53)), udp(t, ap(testutil.Client6, 4001), ap(testutil.VIP6, 53))
	sendAll(t, d, started(memberA, ruleTCP80, 0, newOther), goes, stays)
	sendAll(t, d, started(memberA, ruleUDPAll, 0, newOther), goes6, given6)
	sendAll(t, d, followed(memberA, ruleTCP80, 0, confirmed), goes, stays)
	sendAll(t, d, followed(memberA, ruleUDPAll, 0, confirmed), goes6, given6)
	newFlowsGoTo(t, d, memberB)
	seen := 0
	d.AmendFlows(func(r conntrack.Record) uint32 {
		seen++
		switch {
		case r.SrcPort == 4000:
			return 0
		case r.Src.Is6():
			return ruleL3
		}
		return r.Rule
	})
	if seen != 4 {
		t.Errorf("%d entries, want 4", seen)
	}
	send(t, d, stays, followed(memberA, ruleTCP80, 0))
	send(t, d, given6, followed(memberA, ruleL3, 0))
	send(t, d, goes, started(memberB, ruleTCP80, 0, newOther))
	send(t, d, goes6, started(memberB, ruleUDPAll, 0, newOther))
}

// Taking entries out while packets make and displace others loses none of those
// that are to stay.
func TestAmendingUnderLoad(t *testing.T) {
	d := newFixtureWith(t, Options{FlowEntries: 64})
	prepareManyRuns(t, d)
	newFlowsGoTo(t, d, memberA)
	keep := udp(t, ap(testutil.Client4, 1), ap(testutil.VIP4, 53))()
	for range 2 {
		run(t, d, keep)
	}
	newFlowsGoTo(t, d, memberB)
	var done atomic.Bool
	var wg sync.WaitGroup
	crowd := newCrowd(t, udp(t, ap(testutil.Client4, 1), ap(testutil.VIP4, 53)))
	wg.Go(func() {
		for n := range uint32(4000) {
			run(t, d, crowd.flow(n))
		}
		done.Store(true)
	})
	wg.Go(func() {
		for !done.Load() {
			d.AmendFlows(func(r conntrack.Record) uint32 {
				if r.SrcPort == 1 {
					return r.Rule
				}
				return 0
			})
		}
	})
	wg.Wait()
	if _, mac := run(t, d, keep); mac != [6]byte(testutil.BackendAMAC) {
		t.Errorf("the flow that was to stay goes to %x", mac)
	}
	d.EachFlow(func(r conntrack.Record) bool {
		if r.State != conntrack.Probation && r.State != conntrack.Confirmed {
			t.Errorf("an entry was left in state %d", r.State)
		}
		return true
	})
	for b := range d.flows4 {
		for i := range d.flows4[b].Flow {
			if state := uint8(d.flows4[b].Flow[i].Value >> 24); state == flowBusy {
				t.Errorf("entry %d of bucket %d was left claimed", i, b)
			}
		}
	}
}
