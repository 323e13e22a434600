package loader

import (
	"bytes"
	"sync"
	"testing"

	"l4lb/internal/testutil"
)

const stateConfirmed = 2

// floodFixture has a small table with member A's flows confirmed: the first of a
// crowd. New flows go to B from then on.
func floodFixture(t *testing.T, held uint32) (*Datapath, *crowd) {
	t.Helper()
	d := newFixtureWith(t, Options{FlowEntries: 256})
	prepareManyRuns(t, d)
	newFlowsGoTo(t, d, memberA)
	c := newCrowd(t, udp(t, ap(testutil.ZoneAClient4, 4000), crowdVIP))
	for n := range held {
		for range 2 {
			if verdict, _ := run(t, d, c.flow(n)); verdict != VerdictTX {
				t.Fatalf("flow %d: %s", n, verdict)
			}
		}
	}
	newFlowsGoTo(t, d, memberB)
	return d, c
}

// stillHeld counts the flows of the crowd that are still sent to member A.
func stillHeld(t *testing.T, d *Datapath, c *crowd, held uint32) (n uint32) {
	t.Helper()
	for i := range held {
		if _, mac := run(t, d, c.flow(i)); bytes.Equal(mac[:], testutil.BackendAMAC) {
			n++
		}
	}
	return n
}

// A flood of first packets, ten times the table's size, displaces no confirmed
// flow, and is forwarded all the same (design: admission).
func TestFloodOfFirstPacketsDisplacesNoConfirmedFlow(t *testing.T) {
	const held = 150
	for _, kind := range []string{"syn", "udp"} {
		t.Run(kind, func(t *testing.T) {
			d, c := floodFixture(t, held)
			flood := 10 * d.FlowCapacity()
			before := readCounters(t, d)
			spoofed := newCrowd(t, udp(t, ap(testutil.ZoneBClient4, 4000), crowdVIP))
			event := newOther
			if kind == "syn" {
				spoofed = newCrowd(t, syn(t, ap(testutil.ZoneBClient4, 4000), ap(testutil.VIP4, 80)))
				event = newSYN
			}
			for n := range uint32(flood) {
				if verdict, mac := run(t, d, spoofed.flow(n)); verdict != VerdictTX || !bytes.Equal(mac[:], testutil.BackendBMAC) {
					t.Fatalf("packet %d: %s to %x", n, verdict, mac)
				}
			}
			got := events(t, d, before)
			if got[event]+got[noRoom] != flood || got[displaced] < flood/2 || got[confirmed]+got[contended] != 0 {
				t.Errorf("events of %d packets: %v", flood, got)
			}
			if n := stillHeld(t, d, c, held); n != held {
				t.Errorf("%d of %d confirmed flows kept their backend", n, held)
			}
			noDuplicates(t, d)
		})
	}
}

// Where confirmed flows fill every place that a new flow may take, it is
// forwarded by the table alone, and counted.
func TestFullTableForwardsWithoutEntries(t *testing.T) {
	const held = 150
	d, c := floodFixture(t, held)
	flood := 4 * d.FlowCapacity()
	before := readCounters(t, d)
	crowd := newCrowd(t, udp(t, ap(testutil.ZoneBClient4, 4000), crowdVIP))
	for n := range uint32(flood) {
		for range 2 {
			if verdict, mac := run(t, d, crowd.flow(n)); verdict != VerdictTX || !bytes.Equal(mac[:], testutil.BackendBMAC) {
				t.Fatalf("flow %d: %s to %x", n, verdict, mac)
			}
		}
	}
	got := events(t, d, before)
	if got[noRoom] < flood || got[confirmed]+got[noRoom]/2 != flood || got[newOther]+got[noRoom] != 2*flood-got[confirmed] {
		t.Errorf("events of %d packets: %v", 2*flood, got)
	}
	if used := len(entries(t, d)); used < d.FlowCapacity()*95/100 {
		t.Errorf("%d of %d places in use", used, d.FlowCapacity())
	}
	if n := stillHeld(t, d, c, held); n != held {
		t.Errorf("%d of %d confirmed flows kept their backend", n, held)
	}
	noDuplicates(t, d)
	// Time makes room again.
	at(t, d, 2*fixtureIdle)
	before = readCounters(t, d)
	for n := range uint32(100) {
		run(t, d, crowd.flow(1<<20+n))
	}
	if got := events(t, d, before); got[newOther] != 100 || len(got) != 1 {
		t.Errorf("events after the idle timeout: %v", got)
	}
}

// At 80 % of the entries asked for, fewer than 0.1 % of the flows find no place,
// and every other one is found again.
func TestTableHoldsTheFlowsItWasAskedFor(t *testing.T) {
	const entriesAsked = 65536
	const flows = entriesAsked * 8 / 10
	d := newFixtureWith(t, Options{FlowEntries: entriesAsked})
	prepareManyRuns(t, d)
	newFlowsGoTo(t, d, memberA)
	c := newCrowd(t, udp(t, ap(testutil.ZoneAClient4, 4000), crowdVIP))
	before := readCounters(t, d)
	for n := range uint32(flows) {
		for range 2 {
			run(t, d, c.flow(n))
		}
	}
	got := events(t, d, before)
	if failed := flows - got[confirmed]; failed > flows/1000 || got[displaced] != 0 || got[contended] != 0 {
		t.Errorf("%d of %d flows found no place: %v", failed, flows, got)
	}
	held := 0
	for _, e := range entries(t, d) {
		if e.state != stateConfirmed || e.member != memberA {
			t.Fatalf("%+v", e)
		}
		held++
	}
	if held != got[confirmed] {
		t.Errorf("%d entries, %d were confirmed", held, got[confirmed])
	}
	noDuplicates(t, d)
	newFlowsGoTo(t, d, memberB)
	if n := stillHeld(t, d, c, flows); int(n) != held {
		t.Errorf("%d flows follow their entry, want %d", n, held)
	}
}

// Packets of many flows on all CPUs at once fight for the places of a small
// table: none is ever sent along another one's entry.
func TestConcurrentPacketsDoNotMixFlows(t *testing.T) {
	const flows, workers, rounds, members = 400, 6, 4, 60
	d := newFixtureWith(t, Options{FlowEntries: 64})
	prepareManyRuns(t, d)
	manyMembers(t, d, members)
	build := udp(t, ap(testutil.Client4, 4000), crowdVIP)
	want := make([][6]byte, flows)
	for n, c := uint32(0), newCrowd(t, build); n < flows; n++ {
		forgetFlows(d)
		_, want[n] = run(t, d, c.flow(n))
	}
	forgetFlows(d)
	before := readCounters(t, d)
	var group sync.WaitGroup
	for w := range uint32(workers) {
		group.Go(func() {
			c := newCrowd(t, build)
			for i := range uint32(rounds * flows) {
				n := (i*7 + w*3) % flows
				verdict, mac := run(t, d, c.flow(n))
				if verdict != VerdictTX || mac != want[n] {
					t.Errorf("flow %d: %s to %x, want %x", n, verdict, mac, want[n])
				}
			}
		})
	}
	group.Wait()
	got := events(t, d, before)
	if got[newOther] == 0 || got[confirmed] == 0 || got[noRoom]+got[displaced] == 0 {
		t.Errorf("the flows did not fight: %v", got)
	}
	for _, e := range entries(t, d) {
		if e.state > stateConfirmed || e.member == 0 || e.member > members {
			t.Errorf("entry left in disorder: %+v", e)
		}
	}
}
