package lab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/selector"
)

func TestExplanationsAreCompared(t *testing.T) {
	want := zonal([]string{"web-a-1", "web-a-2"}, "2/2")
	want.kind = selector.HealthyPrimaries
	good := func() selector.Explanation {
		return selector.Explanation{
			Client: "10.1.128.11", Reason: selector.StayedInZone, Ratio: "2/2",
			OriginalEligible: selector.Eligible{Kind: selector.HealthyPrimaries},
			ModifiedEligible: []string{"web-a-2", "web-a-1"},
		}
	}
	if err := checkExplanation(good(), want); err != nil {
		t.Errorf("what is right is refused: %v", err)
	}
	for name, spoil := range map[string]func(*selector.Explanation){
		"originalEligible.kind": func(e *selector.Explanation) { e.OriginalEligible.Kind = selector.Drop },
		"reason":                func(e *selector.Explanation) { e.Reason = selector.Spilled },
		"ratio":                 func(e *selector.Explanation) { e.Ratio = "1/2" },
		"modifiedEligible":      func(e *selector.Explanation) { e.ModifiedEligible = []string{"web-a-1"} },
	} {
		e := good()
		spoil(&e)
		if err := checkExplanation(e, want); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a wrong %s: got %v", name, err)
		}
	}
}

func TestTalliesAreChecked(t *testing.T) {
	src := source{client: "client-a-1", group: groupA}
	want := expect{backends: []string{"web-a-1", "web-a-2"}}
	answers := func(names ...string) map[string]int {
		m := map[string]int{}
		for _, n := range names {
			m[n]++
		}
		return m
	}
	tests := []struct {
		name  string
		tally tally
		down  map[string]bool
		wrong string // part of the error
		quiet string
	}{
		{name: "everybody of the set answers", tally: tally{answers: answers("web-a-1", "web-a-2")}, quiet: "[]"},
		{name: "one is quiet", tally: tally{answers: answers("web-a-1")}, quiet: "[web-a-2]"},
		{
			name: "one is down and refuses", tally: tally{answers: answers("web-a-1"), refused: 1},
			down: map[string]bool{"web-a-2": true}, quiet: "[]",
		},
		{
			name: "another one answers", tally: tally{answers: answers("web-a-1", "web-b-1")},
			wrong: "1 of 2 answers came from web-b-1", quiet: "[web-a-2]",
		},
		{
			name: "a request is refused though nobody is down", tally: tally{answers: answers("web-a-1"), refused: 1},
			wrong: "refused", quiet: "[web-a-2]",
		},
		{
			name: "a request fails", tally: tally{answers: answers("web-a-1"), failed: 1, lastErr: errors.New("timeout")},
			wrong: "timeout", quiet: "[web-a-2]",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkTally(src, tt.tally, want, tt.down)
			if (err != nil) != (tt.wrong != "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("got %v, want an error with %q", err, tt.wrong)
			}
			if got := list(silent(tt.tally, want, tt.down)); got != tt.quiet {
				t.Errorf("silent are %s, want %s", got, tt.quiet)
			}
		})
	}
}

func TestHeldConnectionsAreWatched(t *testing.T) {
	begin := time.Now()
	one := func(lines ...string) (*held, error) {
		h := &held{kind: "conversation"}
		for _, l := range lines {
			if err := h.line(l, begin); err != nil {
				return h, err
			}
		}
		return h, nil
	}
	h, err := one("web-a-1 1\n", "web-a-1 2\n")
	if err != nil || h.check(begin) != nil {
		t.Errorf("a good conversation is refused: %v, %v", err, h.check(begin))
	}
	if h.check(begin.Add(time.Second)) == nil {
		t.Error("a silent connection is taken for a good one")
	}
	h.end(errors.New("connection reset"))
	var fatal fatalError
	if err := h.check(begin); !errors.As(err, &fatal) || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("a broken connection: got %v", err)
	}
	for _, lines := range [][]string{
		{"web-a-1 1", "web-a-2 2"}, // moved
		{"web-a-1 1", "web-a-1 3"}, // a line is missing
		{"web-a-1 1", "web-a-1 1"}, // a line came twice
		{"HTTP/1.1 400"},
	} {
		if _, err := one(lines...); err == nil {
			t.Errorf("%q was accepted", lines)
		}
	}
}

func TestLoadReportsAreChecked(t *testing.T) {
	good := LoadReport{
		Connections: 10, Flips: 1,
		Stayed: Fate{Connections: 8, Kept: 8}, Left: Fate{Connections: 2, Reset: 2},
	}
	if err := good.check(); err != nil {
		t.Errorf("a good report is refused: %v", err)
	}
	for name, spoil := range map[string]func(*LoadReport){
		"a reset":                func(r *LoadReport) { r.Stayed.Kept, r.Stayed.Reset = 7, 1 },
		"a move":                 func(r *LoadReport) { r.Stayed.Kept, r.Stayed.Moved = 7, 1 },
		"a loss":                 func(r *LoadReport) { r.Stayed.Kept, r.Stayed.Lost = 7, 1 },
		"a missing connection":   func(r *LoadReport) { r.Stayed.Connections, r.Stayed.Kept = 7, 7 },
		"a leaver that stayed":   func(r *LoadReport) { r.Left.Reset, r.Left.Kept = 1, 1 },
		"a leaver without any":   func(r *LoadReport) { r.Left, r.Connections = Fate{}, 8 },
		"backends that are calm": func(r *LoadReport) { r.Flips = 0 },
	} {
		r := good
		spoil(&r)
		if r.check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
