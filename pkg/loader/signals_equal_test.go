package loader

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"l4lb/internal/testutil"
)

// Counting signals changes no packet's way: two data planes that differ in it
// alone do the same to random packets, and end with the same flows.
func TestSignalsChangeNoPacket(t *testing.T) {
	with, without := newFixtureWith(t, Options{FlowSeed: 1, FlowEntries: 256}), newFixtureWith(t, Options{FlowSeed: 1, FlowEntries: 256})
	changeRules(t, with, func(r *Rule) { r.Signals = true })
	g := rand.New(rand.NewPCG(1, 1))
	clock := fixtureStart
	for n := range 5000 {
		if n%100 == 0 {
			clock += fixtureIdle / 4
			must(t, with.SetClock(clock))
			must(t, without.SetClock(clock))
		}
		client := testutil.ZoneAClient4
		if g.IntN(2) == 0 {
			client = testutil.Client4
		}
		from, to := ap(client, uint16(1024+g.IntN(512))), ap(testutil.VIP4, 80)
		f := tcp(t, from, to)()
		if g.IntN(2) == 0 {
			f = syn(t, from, to)()
		}
		a, outA, errA := with.Run(bytes.Clone(f))
		b, outB, errB := without.Run(bytes.Clone(f))
		if a != b || errA != nil || errB != nil || !bytes.Equal(outA, outB) {
			t.Fatalf("packet %d: %+v %v with signals, %+v %v without", n, a, errA, b, errB)
		}
	}
	for i := range with.flows4 {
		for k := range with.flows4[i].Flow {
			a, b := with.flows4[i].Flow[k], without.flows4[i].Flow[k]
			if a.Value &^= flowBySYN; a != b {
				t.Fatalf("bucket %d: %+v with signals, %+v without", i, a, b)
			}
		}
	}
	if n := readCounters(t, with)["signal 1 SYNs"]; n == 0 {
		t.Error("nothing was counted")
	}
}
