// Package replay runs a capture through the real data plane: the XDP program is
// loaded without any interface, the controller's engine writes its maps, and the
// clock of both is the capture's. Nothing is sent, pinned state is not touched
// and no daemon is needed. docs/setup/replay.md is the user's side of it.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"

	"l4lb/pkg/lb"
)

// Options is one replay.
type Options struct {
	// Config is in force at the first packet.
	Config *lb.Config
	// LoadConfig reads a configuration that the events file names. It is
	// called before the first packet, and only where there is such an event.
	LoadConfig func(path string) (*lb.Config, error)
	// Capture is the path of a pcap or pcapng file.
	Capture string
	// HealthFile is the path of a health file; "" for none: all backends are
	// HEALTHY.
	HealthFile string
	// EventsFile is the path of an events file; "" for none.
	EventsFile string
	// Out receives the packets as they would leave, as a pcap file; nil for
	// nowhere. It is complete when Run returns.
	Out io.Writer
	// Emit is called for every packet, in order; nil for nobody. Its error
	// ends the replay.
	Emit func(Record) error
}

// Record is what became of one packet.
type Record struct {
	Index   int    `json:"index"`   // from 0
	Verdict string `json:"verdict"` // TX, REDIRECT, PASS, DROP or ABORTED
	Reason  string `json:"reason"`  // as counted; "" where none is
	// Service and ForwardingRule are those of the entry that was followed,
	// else of the rule that matched, also where the packet was dropped then.
	Service        string `json:"service"`
	ForwardingRule string `json:"forwardingRule"`
	Backend        string `json:"backend"` // instance
	Flow           string `json:"flow"`    // HIT, NEW or NONE
	// ClientZone is where the configuration in force has the packet's source
	// address, whatever became of the packet and also where the zone does not
	// count (VPN, another region); "" for none and for what is no IP packet.
	ClientZone string `json:"clientZone"`
}

// Summary is what a replay has to say about the capture as a whole.
type Summary struct {
	Packets   int // records emitted
	Forwarded int // of these, packets written to Out
	// Cut packets were captured short of their length.
	Cut int
	// Backwards packets are older than one before them.
	Backwards int
	// UnusedEvents name packets that the capture does not have.
	UnusedEvents int
}

// Warnings puts into sentences what a reader of the records should know.
func (s Summary) Warnings() []string {
	var list []string
	add := func(n int, format string) {
		if n > 0 {
			list = append(list, fmt.Sprintf(format, n))
		}
	}
	add(s.Cut, "%d packets were captured short of their length; the missing bytes count as zeros where the headers are whole")
	add(s.Backwards, "%d packets are older than one before them; the clock stood still for them")
	add(s.UnusedEvents, "%d events name packets behind the end of the capture and were not applied")
	return list
}

// InputError is a mistake in the health file, the events file, or a
// configuration that the events file names.
type InputError struct {
	File string
	Line int // from 1; 0 where the mistake is no line's
	Err  error
}

// Error names the place as compilers do.
func (e *InputError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the mistake itself.
func (e *InputError) Unwrap() error { return e.Err }

// Run replays a capture. What is wrong with the health file, the events file or
// a configuration of theirs is an InputError, before the first packet. A capture
// that is damaged is an error that names the file and the packet; packets before
// it are emitted and written. It needs the capabilities to load BPF programs.
func Run(ctx context.Context, o Options) (_ Summary, err error) {
	scene, err := readScenario(o)
	if err != nil {
		return Summary{}, err
	}
	capture, err := openCapture(o.Capture)
	if err != nil {
		return Summary{}, err
	}
	defer capture.close()
	gateway, err := newGateway(scene, capture.size)
	if err != nil {
		return Summary{}, err
	}
	defer func() { err = errors.Join(err, gateway.close()) }()

	r := &run{opts: o, scene: scene, capture: capture, gateway: gateway, out: newOutput(o.Out, capture.nanoseconds())}
	err = errors.Join(r.packets(ctx), r.out.finish())
	return r.summary, err
}

// run is a replay under way.
type run struct {
	opts    Options
	scene   *scenario
	capture *capture
	gateway *gateway
	out     *output
	framer  framer
	summary Summary
}

// checkEvery is how many packets go by between looks at the context.
const checkEvery = 256

func (r *run) packets(ctx context.Context) error {
	for index := 0; ; index++ {
		if index%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p, err := r.capture.next()
		if errors.Is(err, io.EOF) {
			r.summary.UnusedEvents = len(r.scene.events)
			return nil
		}
		if err == nil {
			err = r.packet(index, p)
		}
		var input *InputError
		if errors.As(err, &input) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: packet %d: %w", r.opts.Capture, index, err)
		}
	}
}

// packet applies what is due before a packet, and runs it.
func (r *run) packet(index int, p packet) error {
	backwards, err := r.gateway.advance(p.time)
	if err != nil {
		return err
	}
	for len(r.scene.events) > 0 && r.scene.events[0].before <= index {
		ev := r.scene.events[0]
		if err := r.gateway.apply(ev.config, ev.health); err != nil {
			return &InputError{File: r.opts.EventsFile, Line: ev.line, Err: err}
		}
		r.scene.events = r.scene.events[1:]
	}
	f := r.framer.frame(p)
	record, sent, err := r.gateway.run(f)
	if err != nil {
		return err
	}
	record.Index = index
	if r.opts.Emit != nil {
		if err := r.opts.Emit(record); err != nil {
			return fmt.Errorf("emit record: %w", err)
		}
	}
	r.summary.Packets++
	r.summary.Backwards += count(backwards)
	r.summary.Cut += count(p.length > len(p.data))
	if sent == nil {
		return nil
	}
	r.summary.Forwarded++
	out, missing := f.restore(sent, record.Backend != "")
	return r.out.write(p.time, out, missing)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
