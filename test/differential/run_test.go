package differential

import (
	"bytes"
	"fmt"

	"l4lb/pkg/loader"
	"l4lb/pkg/model"
)

// run sends steps to a new world and returns the first mismatch, if any. An
// error of the program or the engine is one too. flowSeed decides which entries
// meet in a bucket.
func run(flowSeed uint64, steps []step) (t tally, m *mismatch) {
	w, err := newWorld(flowSeed)
	if err != nil {
		return t, &mismatch{what: fmt.Sprintf("%+v", err)}
	}
	defer func() {
		if err := w.d.Close(); err != nil && m == nil {
			m = &mismatch{what: err.Error(), step: len(steps) - 1}
		}
	}()
	for i := range steps {
		m, err := w.take(&steps[i], &t)
		if err != nil {
			m = &mismatch{what: err.Error()}
		}
		if m != nil {
			m.step = i
			return t, m
		}
	}
	if m := w.checkTable(); m != nil {
		m.step = len(steps) - 1
		return t, m
	}
	return t, nil
}

func (w *world) take(s *step, t *tally) (*mismatch, error) {
	if err := w.pass(s.wait); err != nil {
		return nil, err
	}
	if s.packet == nil {
		t.events += len(s.events)
		return nil, w.apply(s.events)
	}
	want := w.model.Handle(s.packet, w.now)
	t.count(&want)
	in := frame(w.buf, s.packet, s.shape)
	w.buf = in
	trace, out, err := w.d.Run(in)
	if err != nil {
		return nil, err
	}
	got := w.result(trace)
	if got != want {
		return &mismatch{what: "decided otherwise", want: want, got: got}, nil
	}
	if what := w.checkFrame(s, &want, in, out, trace.Verdict); what != "" {
		return &mismatch{what: what, want: want, got: got}, nil
	}
	return nil, nil
}

// result is what the program decided, in the model's words.
func (w *world) result(t loader.Trace) model.Result {
	b, known := w.names.members[t.Member]
	if !known {
		b.instance = fmt.Sprintf("member %d", t.Member)
	}
	r := model.Result{
		Verdict: model.Verdict(t.Verdict.String()), Reason: t.Reason.String(), Rule: w.names.rules[t.Rule], Routed: w.names.routed[t.Rule],
		Service: b.service, Backend: b.instance, Addr: b.addr,
		Flow: model.Flow(t.Flow.String()), ClientZone: w.names.zones[uint32(t.Zone)],
	}
	switch t.Verdict {
	case loader.VerdictTX, loader.VerdictRedirect:
		r.Verdict = model.Forward
		if t.Reason != 0 {
			r.Verdict = model.Answer
		}
	}
	return r
}

// checkFrame says what is wrong with the frame that left.
func (w *world) checkFrame(s *step, r *model.Result, in, out []byte, verdict loader.Verdict) string {
	switch r.Verdict {
	case model.Answer:
		if want := echoReply(s.packet, s.shape); !bytes.Equal(out, want) {
			return fmt.Sprintf("wrong echo reply\n  want %x\n  got  %x", want, out)
		}
	case model.Forward:
		link := w.links[r.Addr]
		head := append(link.DMAC[:], link.SMAC[:]...)
		if len(out) < 12 || !bytes.Equal(out[:12], head) {
			return fmt.Sprintf("wrong link addresses %x, want %x", out[:12], head)
		}
		want := in
		if r.Routed {
			next := *s.packet
			next.TTL--
			want = frame(nil, &next, s.shape)
		}
		if !bytes.Equal(out[12:], want[12:]) {
			return fmt.Sprintf("wrong above the link\n  in   %x\n  want %x\n  out  %x", in, want, out)
		}
		if (verdict == loader.VerdictTX) != (link.IfIndex == loader.TestIfIndex) {
			return fmt.Sprintf("%s to interface %d", verdict, link.IfIndex)
		}
	default:
		if !bytes.Equal(out, in) {
			return fmt.Sprintf("changed though not forwarded\n  in  %x\n  out %x", in, out)
		}
	}
	return ""
}

// checkTable makes sure that no entry was lost for want of room: the model has
// no limits, so the sequences must stay below those of the program.
func (w *world) checkTable() *mismatch {
	counts, err := w.d.FlowEvents()
	if err != nil {
		return &mismatch{what: err.Error()}
	}
	for event, n := range counts {
		switch name := loader.FlowEvent(event).String(); name {
		case "no_room", "contended", "probation_displaced":
			if n != 0 {
				return &mismatch{what: fmt.Sprintf("%d flows %s: the sequence is too large for the table", n, name)}
			}
		}
	}
	return nil
}
