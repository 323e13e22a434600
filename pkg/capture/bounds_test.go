package capture

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// What is beyond the rate is counted and costs no copy; the first packet of a
// capture is always within it.
func TestRateIsBoundedAndTheRestCounted(t *testing.T) {
	g := newGateway(t)
	frame := testutil.SYN(t, clientA4, web4)
	const sent = 50
	for _, text := range []string{"", "verdict tx"} {
		r := g.capture(Options{MaxRate: 1, Filter: filter(t, text)}, func() { g.send(slices.Repeat([][]byte{frame}, sent)...) })
		sum := r.summary.Interfaces[0]
		captured := uint64(len(r.packets))
		if captured == 0 || captured == sent || sum.Matched != sent || sum.Skipped != sent-captured || sum.Lost != 0 {
			t.Errorf("filter %q: %d packets captured, %+v", text, captured, sum)
		}
	}
}

// A packet that does not match by what becomes of it takes nothing of the rate.
func TestOnlyMatchesTakeOfTheRate(t *testing.T) {
	g := newGateway(t)
	r := g.capture(Options{MaxRate: 1, Filter: filter(t, "verdict drop")}, func() {
		g.send(slices.Repeat([][]byte{testutil.SYN(t, clientA4, web4)}, 20)...)
		g.send(testutil.SYN(t, clientA4, netip.AddrPortFrom(web4.Addr(), 81)))
	})
	if sum := r.summary.Interfaces[0]; len(r.packets) != 1 || sum.Matched != 1 || sum.Skipped != 0 {
		t.Errorf("%d packets captured, %+v", len(r.packets), sum)
	}
}

func TestSnapLenKeepsTheFirstBytes(t *testing.T) {
	g := newGateway(t)
	frame := testutil.SYN(t, clientA4, web4)
	r := g.capture(Options{SnapLen: 20}, func() { g.send(frame) })
	p := r.packets[0]
	if !slices.Equal(p.In.Data, frame[:20]) || p.In.Length != len(frame) || len(p.Out.Data) != 20 || p.Out.Length != len(frame) {
		t.Errorf("%d of %d bytes in, %d of %d out", len(p.In.Data), p.In.Length, len(p.Out.Data), p.Out.Length)
	}
}

// The largest frame that the kernel runs is kept whole, twice.
func TestLongFramesAreKeptWhole(t *testing.T) {
	g := newGateway(t)
	frame := testutil.TCP(t, clientA4, web4, func(p *testutil.Packet) { p.Payload = slices.Repeat([]byte("l4lb"), 800) })
	r := g.capture(Options{}, func() { g.send(frame) })
	p := r.packets[0]
	if diff := testutil.Diff(frame, p.In.Data); diff != "" || len(p.Out.Data) != len(frame) {
		t.Errorf("in (-want +got):\n%s; out has %d bytes of %d", diff, len(p.Out.Data), len(frame))
	}
}

func TestCountEndsTheCapture(t *testing.T) {
	g := newGateway(t)
	r := &recorder{started: make(chan []string, 1)}
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), g.options(Options{Count: 3, Sink: r}))
		done <- err
	}()
	awaitStart(t, r.started, done)
	g.send(slices.Repeat([][]byte{testutil.SYN(t, clientA4, web4)}, 5)...)
	must(t, <-done)
	if len(r.packets) != 3 || r.summary.Captured != 3 {
		t.Errorf("%d packets captured, want 3", len(r.packets))
	}
}

func TestDurationEndsTheCapture(t *testing.T) {
	g := newGateway(t)
	r := &recorder{started: make(chan []string, 1)}
	summary, err := Run(t.Context(), g.options(Options{Duration: time.Millisecond, Sink: r}))
	must(t, err)
	if summary.Captured != 0 || summary.Ended != "" {
		t.Errorf("%+v", summary)
	}
}

// While nobody says that packets are read, none are copied: the program may be left
// behind where its process and the daemon are killed.
func TestNothingIsCopiedForNobody(t *testing.T) {
	g := newGateway(t)
	o := g.options(Options{})
	o.setDefaults()
	s := &session{opts: &o}
	must(t, s.open())
	defer func() { must(t, s.close()) }()
	must(t, s.tracer.objs.Until.Put(uint32(0), uint64(0)))
	must(t, loader.ReplacePinned(g.dir, g.Program(), s.tracer.objs.Program))
	g.send(testutil.SYN(t, clientA4, web4))
	must(t, s.count())
	if sum := s.summary.Interfaces[0]; sum.Seen != 1 || sum.Matched != 0 || s.reader.AvailableBytes() != 0 {
		t.Errorf("%+v, %d bytes in the buffer", sum, s.reader.AvailableBytes())
	}
	must(t, loader.ReplacePinned(g.dir, s.tracer.objs.Program, g.Program()))
}

// A buffer that nobody empties loses packets, and counts them; forwarding goes on.
func TestFullBufferIsCounted(t *testing.T) {
	g := newGateway(t)
	r := &recorder{}
	o := g.options(Options{Sink: r})
	o.setDefaults()
	s := &session{opts: &o}
	must(t, s.open())
	defer func() { must(t, s.close()) }()
	must(t, loader.ReplacePinned(g.dir, g.Program(), s.tracer.objs.Program))
	frame := testutil.TCP(t, clientA4, web4, func(p *testutil.Packet) { p.Payload = make([]byte, 3000) })
	const sent = 4000 // each takes 6 KiB of 16 MiB
	for range sent / 100 {
		must(t, s.tracer.keepReading())
		g.send(slices.Repeat([][]byte{frame}, 100)...)
	}
	must(t, s.count())
	sum := s.summary.Interfaces[0]
	if sum.Lost == 0 || sum.Lost > sent/2 || sum.Matched != sent {
		t.Errorf("%+v", sum)
	}
	must(t, loader.ReplacePinned(g.dir, s.tracer.objs.Program, g.Program()))
	must(t, s.drain())
	if uint64(len(r.packets)) != sent-sum.Lost {
		t.Errorf("%d packets in the buffer, %d lost", len(r.packets), sum.Lost)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for want, o := range map[string]Options{
		"70000 bytes of a frame: use 1 to 65535": {SnapLen: 70000},
		"-1 packets a second: use 1 to":          {MaxRate: -1},
		"a duration of -1s: use one such as 30s": {Duration: -time.Second},
		"nothing is attached under /nowhere":     {Dir: "/nowhere"},
	} {
		o.Object = loader.ObjectID()
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// What is asked for must be there: the interface, and the same build of the program.
func TestGatewayMustBeAsExpected(t *testing.T) {
	g := newGateway(t)
	_, err := Run(t.Context(), g.options(Options{Interfaces: []string{"eth9"}}))
	if want := "the gateway gw is not on eth9: it is on lo"; err == nil || err.Error() != want {
		t.Errorf("another interface: %v, want %s", err, want)
	}
	o := g.options(Options{})
	o.Object = "another"
	if _, err = Run(t.Context(), o); !errors.Is(err, loader.ErrVersion) {
		t.Errorf("another build: %v", err)
	}
	refused := errors.New("no")
	o = g.options(Options{Sink: &recorder{}})
	o.Lend = func(context.Context, uint32, func()) error { return refused }
	if _, err = Run(t.Context(), o); !errors.Is(err, refused) {
		t.Errorf("a gateway that refuses: %v", err)
	}
}

// When the daemon goes away, the gateway's own program is put back from here.
func TestProgramIsPutBackWhenTheDaemonIsGone(t *testing.T) {
	g := newGateway(t)
	r := &recorder{started: make(chan []string, 1)}
	o := g.options(Options{Sink: r})
	gone := make(chan struct{})
	o.Lend = func(_ context.Context, program uint32, started func()) error {
		capturing := g.open(program)
		defer capturing.Close()
		must(t, loader.ReplacePinned(g.dir, g.Program(), capturing))
		started()
		<-gone
		return errors.New("connection reset")
	}
	done := make(chan error, 1)
	var summary *Summary
	go func() {
		var err error
		summary, err = Run(t.Context(), o)
		done <- err
	}()
	awaitStart(t, r.started, done)
	if g.runs(g.Program()) {
		t.Error("the gateway runs its own program during the capture")
	}
	g.send(testutil.SYN(t, clientA4, web4))
	close(gone)
	must(t, <-done)
	if !g.runs(g.Program()) || len(r.packets) != 1 || !strings.Contains(summary.Ended, "connection reset") {
		t.Errorf("own program: %v, %d packets, ended %q", g.runs(g.Program()), len(r.packets), summary.Ended)
	}
}
