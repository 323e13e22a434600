package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"l4lb/pkg/loader"
)

// tally counts outcomes.
type tally struct {
	frames  int
	reasons [loader.ReasonMax]int // 0 counts what was passed
	flows   [3]int                // of forwarded packets
}

func (t *tally) count(tr loader.Trace) {
	t.frames++
	if tr.Reason != 0 || tr.Verdict == loader.VerdictPass {
		t.reasons[tr.Reason]++
		return
	}
	t.flows[tr.Flow]++
}

func (t *tally) add(o *tally) {
	t.frames += o.frames
	for i, n := range o.reasons {
		t.reasons[i] += n
	}
	for i, n := range o.flows {
		t.flows[i] += n
	}
}

func (t *tally) String() string {
	var parts []string
	for r, n := range t.reasons {
		name := loader.Reason(r).String()
		if name == "" {
			name = "PASS"
		}
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	for f, n := range t.flows {
		parts = append(parts, fmt.Sprintf("%s %d", loader.TraceFlow(f), n))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d frames: %s", t.frames, strings.Join(parts, ", "))
}

// check fails the test when the mutations have lost sight of an outcome.
func (t *tally) check(tb testing.TB) {
	tb.Helper()
	if t.frames < 1_000_000 {
		return
	}
	for r, n := range t.reasons {
		if name := loader.Reason(r).String(); n == 0 && name != "INTERNAL" && !strings.HasPrefix(name, "TOO_BIG_") {
			tb.Errorf("no frame of %d has met the reason %s", t.frames, name)
		}
	}
	for f, n := range t.flows {
		if n == 0 && loader.TraceFlow(f) != loader.TraceNone {
			tb.Errorf("no packet of %d was forwarded with flow %s", t.frames, loader.TraceFlow(f))
		}
	}
}

// checkCounters: the program counted each reason as often as it said it.
func (w *world) checkCounters() string {
	counted, err := w.d.Reasons()
	if err != nil {
		return err.Error()
	}
	for r, n := range counted {
		if int(n) != w.seen.reasons[r] {
			return fmt.Sprintf("reason %q was counted %d times, and given %d times", loader.Reason(r), n, w.seen.reasons[r])
		}
	}
	return ""
}
