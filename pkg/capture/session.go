package capture

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"l4lb/pkg/loader"
)

// pollInterval is how often the gateway is looked at: interfaces may come, and
// names change with its configuration.
const pollInterval = time.Second

// session is a capture that runs.
type session struct {
	opts    *Options
	running *loader.Running
	tracer  *tracer
	reader  *ringbuf.Reader
	record  ringbuf.Record
	ports   map[uint32]loader.PinnedLink // all that were captured, by ifindex
	listed  map[tracerCaptureId]bool
	names   names
	clock   clock
	summary Summary
}

// open prepares everything; the gateway's program is still the one that it was.
func (s *session) open() error {
	all, err := loader.PinnedLinks(s.opts.Dir)
	if err != nil {
		return err
	}
	links := s.opts.chosen(slices.Clone(all))
	if len(links) == 0 {
		return s.notThere(all)
	}
	if s.running, err = loader.OpenRunning(s.opts.Dir, links[0].Program, s.opts.Object); err != nil {
		return err
	}
	var unknown error
	if s.listed, unknown, err = s.opts.Filter.listed(s.running); errors.Join(err, unknown) != nil {
		return errors.Join(err, unknown)
	}
	if s.tracer, err = newTracer(s.running, s.opts); err != nil {
		return err
	}
	s.names.forget(s.running)
	s.ports = map[uint32]loader.PinnedLink{}
	if err := errors.Join(s.tracer.setIDs(s.listed, nil), s.addPorts(links), s.clock.read(), s.tracer.keepReading()); err != nil {
		return err
	}
	if s.reader, err = ringbuf.NewReader(s.tracer.objs.Ring); err != nil {
		return fmt.Errorf("open buffer: %w", err)
	}
	return nil
}

// notThere says why there is nothing to capture.
func (s *session) notThere(all []loader.PinnedLink) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: nothing is attached under %s: start l4lbd run", ErrNoGateway, s.opts.Dir)
	}
	var have []string
	for _, l := range all {
		have = append(have, l.Interface)
	}
	return fmt.Errorf("the gateway %s is not on %s: it is on %s", filepath.Base(s.opts.Dir),
		strings.Join(s.opts.Interfaces, ", "), strings.Join(have, ", "))
}

func (s *session) addPorts(links []loader.PinnedLink) error {
	for _, l := range links {
		s.ports[l.IfIndex] = l
	}
	return s.tracer.setPorts(links)
}

// loan is the time in which the gateway runs the capture's program.
type loan struct {
	end   context.CancelFunc // asks for it to be over
	ended <-chan error       // that it is over, and why if nobody asked
}

// begin has the gateway run the capture's program.
func (s *session) begin(ctx context.Context) (*loan, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.opts.Lend(ctx, uint32(s.tracer.id), func() { close(started) })
		_ = s.reader.Flush() // wakes the loop, if it waits still
	}()
	select {
	case <-started:
		return &loan{end: cancel, ended: ended}, nil
	case err := <-ended:
		cancel()
		if err == nil {
			err = errors.New("the gateway refused")
		}
		return nil, fmt.Errorf("start capture: %w", err)
	}
}

// over waits until the gateway has its own program again. Where the daemon cannot
// see to that any more, it is done from here.
func (s *session) over(l *loan) error {
	l.end()
	err := <-l.ended
	if err == nil {
		return nil
	}
	s.summary.Ended = err.Error()
	return loader.ReplacePinned(s.opts.Dir, s.tracer.objs.Program, s.running.Program)
}

// follow keeps up with the gateway: new interfaces, new names.
func (s *session) follow() error {
	links, err := loader.PinnedLinks(s.opts.Dir)
	if err != nil {
		return err
	}
	if err := errors.Join(s.addPorts(s.opts.chosen(links)), s.clock.read(), s.tracer.keepReading()); err != nil {
		return err
	}
	s.names.forget(s.running)
	if !s.opts.Filter.hasNames() {
		return nil
	}
	listed, _, err := s.opts.Filter.listed(s.running)
	if err != nil {
		return err
	}
	err = s.tracer.setIDs(listed, s.listed)
	s.listed = listed
	return err
}

// count reads the counters into the summary.
func (s *session) count() error {
	byName := map[string]*InterfaceSummary{}
	for ifindex, p := range s.ports {
		c, err := s.tracer.counts(ifindex)
		if err != nil {
			return err
		}
		sum := byName[p.Interface]
		if sum == nil {
			sum = &InterfaceSummary{Name: p.Interface}
			byName[p.Interface] = sum
		}
		sum.Seen += c.Seen
		sum.Matched += c.Matched
		sum.Skipped += c.Skipped
		sum.Lost += c.Lost
	}
	for _, sum := range byName {
		s.summary.Interfaces = append(s.summary.Interfaces, *sum)
	}
	slices.SortFunc(s.summary.Interfaces, func(a, b InterfaceSummary) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (s *session) close() error {
	var errs []error
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	if s.tracer != nil {
		errs = append(errs, s.tracer.close())
	}
	if s.running != nil {
		errs = append(errs, s.running.Close())
	}
	return errors.Join(errs...)
}
