// Package differential sends the same random packets and events to pkg/model and
// to the real XDP program under the real engine, and compares every verdict.
//
//	go test ./test/differential -packets 10000000 -seed 7
//
// A run is a number of independent sequences; each has its own seed, so that a
// failing one can be run alone with the seed that is printed.
package differential

import (
	"flag"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

var (
	packetsFlag = flag.Int("packets", 0, "number of packets (default $L4LB_DIFF_PACKETS, else 200000)")
	seedFlag    = flag.Uint64("seed", 0, "seed of the first sequence (default $L4LB_DIFF_SEED, else of the clock)")
	shrinkFlag  = flag.Duration("shrink", time.Minute, "how long to look for a shorter sequence that fails too")
)

// sequencePackets is the length of one sequence.
const sequencePackets = 15000

func TestProgramDoesWhatTheModelSays(t *testing.T) {
	testutil.RequireRoot(t)
	packets := int(setting(t, "L4LB_DIFF_PACKETS", uint64(*packetsFlag), 200_000))
	seed := setting(t, "L4LB_DIFF_SEED", *seedFlag, uint64(time.Now().UnixNano()%1e9))
	t.Logf("seed %d, %d packets", seed, packets)

	start := time.Now()
	total, failed := runAll(seed, packets)
	if failed != nil {
		report(t, failed)
	}
	t.Logf("%s in %s", total, time.Since(start).Round(time.Millisecond))
	total.check(t)
}

// failure is a sequence that failed.
type failure struct {
	seed uint64
	*mismatch
}

// report makes the failing sequence short and prints it.
func report(t *testing.T, f *failure) {
	t.Helper()
	steps := generate(f.seed, sequencePackets)
	_, m := run(f.seed, steps)
	if m == nil {
		t.Fatalf("the sequence of seed %d failed, and did not when run again:\n%s\n%s",
			f.seed, describe(steps[max(0, f.step-20):f.step+1]), f.mismatch)
	}
	steps = shrink(f.seed, steps[:m.step+1], *shrinkFlag)
	_, m = run(f.seed, steps)
	t.Fatalf("the sequence of seed %d fails: go test ./test/differential -seed %d -packets %d\n%s\n%s",
		f.seed, f.seed, sequencePackets, describe(steps), m)
}

// workers run sequences side by side: much of a run is waiting for the kernel to
// let go of tables.
const workers = 4

// runAll runs the sequences of as many packets, from seed on, and returns the
// first that failed, if any.
func runAll(seed uint64, packets int) (total tally, failed *failure) {
	type outcome struct {
		seed uint64
		tally
		*mismatch
	}
	count := (packets + sequencePackets - 1) / sequencePackets
	seeds, outcomes := make(chan uint64, count), make(chan outcome, count)
	for i := range count {
		seeds <- seed + uint64(i)
	}
	close(seeds)
	var stop atomic.Bool
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for seed := range seeds {
				if stop.Load() {
					return
				}
				n, m := run(seed, generate(seed, min(sequencePackets, packets)))
				if m != nil {
					stop.Store(true)
				}
				outcomes <- outcome{seed, n, m}
			}
		})
	}
	running.Wait()
	close(outcomes)
	for o := range outcomes {
		total.add(o.tally)
		if o.mismatch != nil && (failed == nil || o.seed < failed.seed) {
			failed = &failure{o.seed, o.mismatch}
		}
	}
	return total, failed
}

func setting(t *testing.T, env string, given, def uint64) uint64 {
	t.Helper()
	if given != 0 {
		return given
	}
	text := os.Getenv(env)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}
