package loader

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/conntrack"
)

// held counts the entries in each part of the IPv4 flow table.
func (p bucketParts) held(d *Datapath) (near, middle, far int) {
	for i := range d.flows4 {
		for _, f := range d.flows4[i].Flow {
			switch n := uint32(i); {
			case f.Value == 0:
			case n < p.near:
				near++
			case n < p.near+p.middle:
				middle++
			default:
				far++
			}
		}
	}
	return near, middle, far
}

func eachFlow(d *Datapath) (n int) {
	d.EachFlow(func(conntrack.Record) bool { n++; return true })
	return n
}

// While there are few flows they are near each other; the more there are, the
// more parts of the table they take. All parts are read.
func TestFlowsArePutNearFirst(t *testing.T) {
	const entriesAsked = 8192
	// With a seed by which all of them find a place.
	d := newFixtureWith(t, Options{FlowEntries: entriesAsked, FlowSeed: 1})
	prepareManyRuns(t, d)
	parts := flowBuckets(entriesAsked)
	if parts.all() != uint32(len(d.flows4)) {
		t.Fatalf("%+v of %d buckets", parts, len(d.flows4))
	}
	c := newCrowd(t, udp(t, ap(testutil.ZoneAClient4, 4000), crowdVIP))
	made := uint32(0)
	fill := func(n uint32) (near, middle, far int) {
		for ; made < n; made++ {
			run(t, d, c.flow(made))
		}
		if got := eachFlow(d); got != int(n) {
			t.Errorf("%d of %d flows are read", got, n)
		}
		return parts.held(d)
	}
	if near, middle, far := fill(entriesAsked / 64); near < entriesAsked/64-2 || far != 0 {
		t.Errorf("few flows: %d, %d, %d", near, middle, far)
	}
	if near, middle, far := fill(entriesAsked / 4); near < entriesAsked/8*9/10 || middle < entriesAsked/8 || far > entriesAsked/64 {
		t.Errorf("more flows: %d, %d, %d", near, middle, far)
	}
	if near, middle, far := fill(entriesAsked * 8 / 10); near+middle < entriesAsked*5/8*9/10 || far < entriesAsked/16 {
		t.Errorf("many flows: %d, %d, %d", near, middle, far)
	}
	noDuplicates(t, d)
}

// spilledFixture has a table of one near bucket, which four flows filled, so that
// the one that is returned, of member A, is past it. New flows go to B.
func spilledFixture(t *testing.T) (d *Datapath, past []byte) {
	t.Helper()
	d = newFixtureWith(t, Options{FlowEntries: 1})
	prepareManyRuns(t, d)
	newFlowsGoTo(t, d, memberA)
	c := newCrowd(t, udp(t, ap(testutil.ZoneAClient4, 4000), crowdVIP))
	for n := range uint32(bucketFlows + 1) {
		for range 2 {
			run(t, d, c.flow(n))
		}
	}
	if near, middle, _ := flowBuckets(1).held(d); near != bucketFlows || middle != 1 {
		t.Fatalf("%d near, %d in the middle", near, middle)
	}
	newFlowsGoTo(t, d, memberB)
	return d, bytes.Clone(c.flow(bucketFlows))
}

func toA(t *testing.T, d *Datapath, frame []byte) bool {
	t.Helper()
	verdict, mac := run(t, d, frame)
	if verdict != VerdictTX {
		t.Fatal(verdict)
	}
	return bytes.Equal(mac[:], testutil.BackendAMAC)
}

// A flow that is past a full bucket is found for as long as it lives, though
// those that filled the bucket are long gone.
func TestAFlowPastItsBucketIsFoundForDays(t *testing.T) {
	d, past := spilledFixture(t)
	first := d.flows4[0].Flow[0].Meta.Spill
	marks := map[uint8]bool{}
	for after := time.Duration(0); after < 80*time.Hour; after += fixtureIdle - time.Second {
		at(t, d, after)
		if !toA(t, d, past) {
			t.Fatalf("lost after %v", after)
		}
		marks[d.flows4[0].Flow[0].Meta.Spill] = true
	}
	// 80 hours are more than a round of the marks' clock.
	if !marks[first] || len(marks) != spillUnits {
		t.Errorf("%d different marks, want %d", len(marks), spillUnits)
	}
	if got := eachFlow(d); got != bucketFlows+1 {
		t.Errorf("%d entries", got)
	}
}

// A session's packets renew the marks that lead to it as those of a connection
// do, and so do repeated SYNs.
func TestSessionsAndSYNsRenewMarks(t *testing.T) {
	for name, kind := range map[string]FlowKind{"session": FlowClientIP, "syn": FlowPorts} {
		t.Run(name, func(t *testing.T) {
			d := newFixtureWith(t, Options{FlowEntries: 1})
			prepareManyRuns(t, d)
			changeRules(t, d, func(r *Rule) { r.Kind = kind })
			for _, id := range []uint32{memberA, memberB} {
				changeMember(t, d, id, func(m *Member) { m.IdleTicks = uint32(fixtureIdle / time.Millisecond) })
			}
			newFlowsGoTo(t, d, memberA)
			c := newCrowd(t, syn(t, ap(testutil.ZoneAClient4, 4000), ap(testutil.VIP4, 80)))
			for n := range uint32(bucketFlows + 1) {
				run(t, d, c.flow(n<<12))
			}
			before := readCounters(t, d)
			for after := time.Duration(0); after < 6*time.Hour; after += fixtureIdle - time.Second {
				at(t, d, after)
				run(t, d, c.flow(bucketFlows<<12))
				if want := d.flows4[0].Flow[0].Meta.Spill; after > 0 && want != spillMark(d, after) {
					t.Fatalf("mark %#x after %v, want %#x", want, after, spillMark(d, after))
				}
			}
			if got := eachFlow(d); got != bucketFlows+1 {
				t.Errorf("%d entries: %v", got, events(t, d, before))
			}
		})
	}
}

func spillMark(d *Datapath, after time.Duration) uint8 {
	return spillUnits | uint8((fixtureStart+after)/time.Millisecond>>spillShift(d.clock))&(spillUnits-1)
}

// When no flow past a bucket can be alive, packets stop looking there, and the
// next new flow takes the mark away.
func TestMarksAreForgottenWithTheirFlows(t *testing.T) {
	d, past := spilledFixture(t)
	after := 2*fixtureIdle + 3<<spillShift(d.clock)*time.Millisecond
	at(t, d, after)
	// The entry is made one that would be followed, were it looked for.
	parts := flowBuckets(1)
	found := false
	for i := range d.flows4 {
		for j := range d.flows4[i].Flow {
			if f := &d.flows4[i].Flow[j]; uint32(i) >= parts.near && f.Value != 0 {
				f.Meta.Last, found = uint32((fixtureStart+after)/time.Millisecond), true
			}
		}
	}
	if !found || d.flows4[0].Flow[0].Meta.Spill == 0 {
		t.Fatal("nothing was past the bucket")
	}
	if toA(t, d, past) {
		t.Error("the mark counts after its time")
	}
	if mark := d.flows4[0].Flow[0].Meta.Spill; mark != 0 {
		t.Errorf("mark %#x is still there", mark)
	}
}

// A longer idle timeout has marks count longer, from before the first record
// that has it.
func TestMarksCountForTheLongestIdleTimeout(t *testing.T) {
	d, past := spilledFixture(t)
	changeRules(t, d, func(r *Rule) { r.IdleTicks = d.Ticks(maxIdle) })
	at(t, d, maxIdle-time.Second)
	if !toA(t, d, past) {
		t.Error("lost within its idle timeout")
	}
	changeRules(t, d, func(r *Rule) { r.IdleTicks = d.Ticks(fixtureIdle) })
	var life uint32
	must(t, d.objs.SpillLife.Get(&life))
	if life <= d.Ticks(maxIdle)>>spillShift(d.clock) || life >= spillUnits/2 {
		t.Errorf("marks count for %d units", life)
	}
}

// New flows come and go on all CPUs, and time passes: flows that are alive are
// found each time, wherever they are.
func TestLiveFlowsAreFoundWhileOthersComeAndGo(t *testing.T) {
	const live, others, steps = 100, 200, 60
	d, c := floodFixture(t, live)
	for step := range steps {
		at(t, d, time.Duration(step)*(fixtureIdle-time.Second))
		var group sync.WaitGroup
		for w := range uint32(3) {
			group.Go(func() {
				c := newCrowd(t, udp(t, ap(testutil.ZoneBClient4, 4000), crowdVIP))
				for n := range uint32(others) {
					run(t, d, c.flow(uint32(step)<<14|w<<12|n))
				}
			})
		}
		kept := stillHeld(t, d, c, live)
		group.Wait()
		if kept != live {
			t.Fatalf("step %d: %d of %d flows kept their backend", step, kept, live)
		}
	}
	if near, middle, far := flowBuckets(256).held(d); near == 0 || middle == 0 || far == 0 {
		t.Errorf("%d near, %d in the middle, %d far", near, middle, far)
	}
}
