// Package capture shows the packets of a running gateway as they arrive and as
// they leave, with what became of them. While it runs, the gateway runs another
// build of its program, on the same maps, that shows its packets; at all other
// times nothing of it is there.
package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// MaxSnapLen is as much of a frame as can be captured.
const MaxSnapLen = 1<<16 - 1

// Options say what to capture. Dir, Object, Lend and Sink are required.
type Options struct {
	// Dir is where the gateway's state is pinned.
	Dir string
	// Object is the gateway's loader.ObjectID.
	Object string
	// Interfaces are those that packets arrive on; none: all of the gateway.
	Interfaces []string
	// Filter chooses packets; nil: all.
	Filter *Filter
	// SnapLen is how many bytes of a frame are kept; 0: all.
	SnapLen int
	// MaxRate bounds the packets of a second that each CPU captures; 0: no bound.
	MaxRate int
	// Count ends the capture after so many packets, Duration after so long; 0:
	// they do not.
	Count    uint64
	Duration time.Duration
	// Sink takes the packets.
	Sink Sink
	// Lend has the gateway run the program with this id instead of its own. It
	// calls started when that is so, and returns when it no longer is: nil when
	// ctx ended it, else why.
	Lend func(ctx context.Context, program uint32, started func()) error
}

// Sink takes captured packets.
type Sink interface {
	// Start is called once, when the capture runs on these interfaces.
	Start(interfaces []string) error
	// Packet is called with each packet, which is the sink's until it returns.
	Packet(p *Packet) error
	// Flush is called when nothing more waits.
	Flush() error
	// Finish is called once at the end, with what was counted.
	Finish(s *Summary) error
}

// Summary is what a capture counted.
type Summary struct {
	Interfaces []InterfaceSummary
	Captured   uint64 // packets given to the sink
	Start, End time.Time
	// Ended says why, where neither Count nor Duration nor ctx ended it.
	Ended string
}

// InterfaceSummary counts the packets that arrived on an interface.
type InterfaceSummary struct {
	Name string
	Seen, Matched,
	Skipped, // that matched, beyond MaxRate
	Lost uint64 // that matched, and found the buffer full
}

// Check says what of the options cannot be.
func (o *Options) Check() error {
	if o.SnapLen < 0 || o.SnapLen > MaxSnapLen {
		return fmt.Errorf("%d bytes of a frame: use 1 to %d, or 0 for all", o.SnapLen, MaxSnapLen)
	}
	if o.MaxRate < 0 || o.MaxRate > int(time.Second) {
		return fmt.Errorf("%d packets a second: use 1 to %d, or 0 for no bound", o.MaxRate, int(time.Second))
	}
	if o.Duration < 0 {
		return fmt.Errorf("a duration of %v: use one such as 30s", o.Duration)
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Filter == nil {
		o.Filter = &Filter{}
	}
	o.SnapLen = cmp.Or(o.SnapLen, MaxSnapLen)
}

// burst is how much of the rate may come at once.
const burst = 100 * time.Millisecond

// rate is the time from one packet to the next and the burst, in ns.
func (o *Options) rate() (gap, ahead uint64) {
	if o.MaxRate == 0 {
		return 0, 0
	}
	return uint64(time.Second) / uint64(o.MaxRate), uint64(burst)
}

// ErrNoGateway is returned where no gateway has a program attached.
var ErrNoGateway = errors.New("no gateway forwards here")

// Run captures until ctx ends, as many packets or as much time as were asked for
// have passed, or the gateway is stopped. What was captured until an error was
// given to the sink.
func Run(ctx context.Context, o Options) (*Summary, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.setDefaults()
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	s := &session{opts: &o}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.summary.Start = time.Now()
	loan, err := s.begin(ctx)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := o.Sink.Start(s.interfaces()); err != nil {
		return nil, errors.Join(err, s.over(loan), s.close())
	}
	err = errors.Join(s.loop(ctx, loan), s.over(loan))
	s.summary.End = time.Now()
	err = errors.Join(err, s.drain(), s.count())
	return &s.summary, errors.Join(err, o.Sink.Finish(&s.summary), s.close())
}

// loop captures and follows what becomes of the gateway.
func (s *session) loop(ctx context.Context, l *loan) error {
	defer context.AfterFunc(ctx, func() { _ = s.reader.Flush() })()
	var next time.Time
	for ctx.Err() == nil && !s.enough() && len(l.ended) == 0 {
		if now := time.Now(); now.After(next) {
			if err := s.follow(); err != nil {
				return err
			}
			next = now.Add(pollInterval)
		}
		s.reader.SetDeadline(next)
		if err := s.read(); err != nil {
			return err
		}
	}
	return nil
}

// drain takes what is still in the buffer, once nothing is added any more.
func (s *session) drain() error {
	s.reader.SetDeadline(time.Now())
	for !s.enough() && s.reader.AvailableBytes() > 0 {
		if err := s.read(); err != nil {
			return err
		}
	}
	return nil
}

// read takes one packet, if there is one before the reader's deadline.
func (s *session) read() error {
	err := s.reader.ReadInto(&s.record)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ringbuf.ErrFlushed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read captured packets: %w", err)
	}
	p, err := s.packet(s.record.RawSample)
	if err != nil {
		return err
	}
	s.summary.Captured++
	p.ID = s.summary.Captured
	err = s.opts.Sink.Packet(p)
	if s.record.Remaining == 0 {
		err = errors.Join(err, s.opts.Sink.Flush())
	}
	return err
}

func (s *session) enough() bool { return s.opts.Count > 0 && s.summary.Captured >= s.opts.Count }

// interfaces are the names of those that are captured.
func (s *session) interfaces() []string {
	var out []string
	for _, p := range s.ports {
		out = append(out, p.Interface)
	}
	slices.Sort(out)
	return out
}
