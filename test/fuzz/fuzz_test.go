// Package fuzz throws mutated frames at the real program, under the real engine,
// and holds every outcome against what must be true of any frame: what is passed
// is byte for byte what came, what is dropped has a reason that is counted, what
// leaves is well formed by rules that are written down here once more, and is
// decoded by a library. Nothing is ever aborted.
//
//	go test ./test/fuzz -run TestMillions -timeout 0 -args -n 100000000 -seed 7
//
// A run is a number of rounds, each with a seed and a program of its own, so that
// a round that fails can be run alone with the seed that is printed.
package fuzz

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

var (
	framesFlag = flag.Int("n", 0, "number of frames (default $L4LB_FUZZ_FRAMES, else 300000)")
	seedFlag   = flag.Uint64("seed", 0, "seed of the first round (default: of the clock)")
)

// roundFrames is the length of a round.
const roundFrames = 1_000_000

func TestMillionsOfFrames(t *testing.T) {
	testutil.RequireRoot(t)
	frames, seed := 300_000, *seedFlag
	if text := os.Getenv("L4LB_FUZZ_FRAMES"); text != "" {
		var err error
		if frames, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if *framesFlag > 0 {
		frames = *framesFlag
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1e9)
	}
	t.Logf("seed %d, %d frames", seed, frames)
	start, list := time.Now(), seeds(t)
	rounds := (frames + roundFrames - 1) / roundFrames
	var next atomic.Int64
	var mu sync.Mutex
	var total tally
	var wg sync.WaitGroup
	for range min(rounds, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < rounds && !t.Failed(); i = int(next.Add(1)) - 1 {
				seen, what := round(t, seed+uint64(i), list, min(roundFrames, frames-i*roundFrames))
				mu.Lock()
				total.add(&seen)
				mu.Unlock()
				if what != "" {
					t.Errorf("%s\n\nrepeat with: go test ./test/fuzz -run TestMillions -args -n %d -seed %d", what, roundFrames, seed+uint64(i))
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	t.Logf("%s, in %v, %.0f a second", &total, took.Round(time.Second), float64(total.frames)/took.Seconds())
	if !t.Failed() {
		total.check(t)
	}
}

// round sends frames to a new world and says what was wrong first.
func round(tb testing.TB, seed uint64, list [][]byte, frames int) (tally, string) {
	runtime.LockOSThread() // counters and budgets are each CPU's
	defer runtime.UnlockOSThread()
	r := newRandom(seed)
	w, err := newWorld(r)
	if err != nil {
		return tally{}, fmt.Sprintf("%+v", err)
	}
	defer w.close(tb)
	hold(tb, w)
	m := newMutator(r, list)
	in := m.next()
	for i := range frames {
		if i%32 == 0 {
			err = w.pass()
		}
		if i%20_000 == 0 && err == nil {
			err = w.disturb()
		}
		if err != nil {
			return w.seen, err.Error()
		}
		if i%64 > 4 { // the others come five times
			in = m.next()
		}
		t, what := w.send(in)
		if what != "" {
			return w.seen, fmt.Sprintf("frame %d: %s", i, what)
		}
		if t.Flow == loader.TraceNew {
			m.keep(in)
		}
	}
	return w.seen, w.checkCounters()
}

func (w *world) close(tb testing.TB) {
	if err := w.d.Close(); err != nil {
		tb.Error(err)
	}
}

// hold keeps the program attached where no traffic is. Without that the kernel
// takes it into its dispatcher and out again for each frame.
func hold(tb testing.TB, w *world) {
	tb.Helper()
	testutil.NewNetNS(tb, "idle").Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: w.d.Program(), Interface: loader.TestIfIndex, Flags: link.XDPGenericMode})
		if err == nil {
			tb.Cleanup(func() { _ = l.Close() })
		}
		return err
	})
}

// FuzzFrames is the same for Go's fuzzer, which chooses the frame by what it
// reaches in the checks; how chooses the mutations.
func FuzzFrames(f *testing.F) {
	testutil.RequireRoot(f)
	w, err := newWorld(newRandom(1))
	if err != nil {
		f.Fatalf("%+v", err)
	}
	f.Cleanup(func() { w.close(f) })
	hold(f, w)
	list := seeds(f)
	for i, frame := range list {
		f.Add(frame, uint64(0))
		f.Add(frame, uint64(i+1))
	}
	m := newMutator(newRandom(1), list)
	f.Fuzz(func(t *testing.T, frame []byte, how uint64) {
		m.random = newRandom(how)
		in := append(append([]byte{}, frame...), make([]byte, max(0, 14-len(frame)))...)
		in = in[:min(len(in), largest)]
		if how != 0 {
			in = m.mutate(in)
		}
		if err := w.pass(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a flow's second packet goes another way
			if _, what := w.send(in); what != "" {
				t.Fatal(what)
			}
		}
	})
}
