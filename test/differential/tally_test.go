package differential

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"l4lb/pkg/model"
)

// tally counts what a run has seen, so that one which sees too little of
// something is noticed.
type tally struct {
	packets, events int
	seen            map[string]int
}

func (t *tally) count(r *model.Result) {
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	t.packets++
	what := string(r.Verdict)
	switch {
	case r.Reason != "":
		what = r.Reason
	case r.Flow != model.FlowNone:
		what = string(r.Flow)
	}
	t.seen[what]++
	if r.Routed && r.Verdict == model.Forward {
		t.seen["routed"]++
	}
}

func (t *tally) add(o tally) {
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	t.packets += o.packets
	t.events += o.events
	for what, n := range o.seen {
		t.seen[what] += n
	}
}

func (t tally) String() string {
	var parts []string
	for what, n := range t.seen {
		parts = append(parts, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d packets, %d events: %s", t.packets, t.events, strings.Join(parts, ", "))
}

// check fails the test when the generator has lost sight of an outcome.
func (t tally) check(tb testing.TB) {
	tb.Helper()
	if t.packets < 150_000 {
		return
	}
	if t.seen[model.ReasonSentByBackend] == 0 {
		tb.Error("no packet came back from its backend")
	}
	for _, what := range []string{
		"PASS", string(model.Forward), string(model.FlowHit), string(model.FlowNew), model.ReasonFragment, model.ReasonICMPError,
		model.ReasonEchoReply, model.ReasonBadChecksum, model.ReasonNoRule, model.ReasonNoBackend, model.ReasonOtherRegion, model.ReasonTTLExpired, "routed",
		model.ReasonSourceNotAllowed, model.ReasonRateLimited, model.ReasonSourceRateLimited,
	} {
		if t.seen[what]*1000 < t.packets {
			tb.Errorf("only %d of %d packets are %s", t.seen[what], t.packets, what)
		}
	}
}
