package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// LoadOptions say how to run a load test. Zero values mean those in
// parentheses.
type LoadOptions struct {
	Options
	Connections int           // open at the same time (10 000)
	Reloads     int           // of the configuration (50)
	Interval    time.Duration // between reloads (200 ms)
}

// LoadReport is what a load test measured.
type LoadReport struct {
	Connections int
	OpenedIn    time.Duration
	Reloads     int
	Flips       int // changes of a backend's health that the gateway acted on
	Requests    int // of other clients meanwhile, each a connection of its own
	Took        time.Duration
	Slowest     time.Duration // longest wait for an answer
	Stayed      Fate          // connections whose backend stayed
	Left        Fate          // connections of the backend that was taken out
}

func (r LoadReport) String() string {
	return fmt.Sprintf(`%d connections, opened in %.1f s; %d reloads, %d changes of health, %d other requests; %.1f s in all
backend stayed:  %d connections, %d lines: %d kept, %d reset, %d moved, %d lost; longest wait for an answer %.0f ms
backend left:    %d connections, %d lines: %d kept, %d reset, %d moved, %d lost`,
		r.Connections, r.OpenedIn.Seconds(), r.Reloads, r.Flips, r.Requests, r.Took.Seconds(),
		r.Stayed.Connections, r.Stayed.Lines, r.Stayed.Kept, r.Stayed.Reset, r.Stayed.Moved, r.Stayed.Lost,
		1000*r.Slowest.Seconds(),
		r.Left.Connections, r.Left.Lines, r.Left.Kept, r.Left.Reset, r.Left.Moved, r.Left.Lost)
}

// check returns what must not be in a report.
func (r LoadReport) check() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	all := r.Stayed.Connections + r.Left.Connections
	wrong(all != r.Connections, "%d of %d connections are accounted for", all, r.Connections)
	wrong(r.Stayed.Kept != r.Stayed.Connections, "of connections whose backend stayed, %d were reset, %d moved, %d lost (%s)",
		r.Stayed.Reset, r.Stayed.Moved, r.Stayed.Lost, r.Stayed.Error)
	wrong(r.Left.Connections == 0, "no connection was on %s, which left", leaver)
	wrong(r.Left.Reset != r.Left.Connections, "of %d connections of %s, which left without draining, only %d were reset",
		r.Left.Connections, leaver, r.Left.Reset)
	wrong(r.Flips == 0, "no change of health reached the gateway")
	return errors.Join(errs...)
}

// Load opens connections through the gateway and keeps them talking while
// backends flap and the configuration changes. It returns an error when a
// connection whose backend stayed broke or moved.
func Load(ctx context.Context, o LoadOptions) (report LoadReport, err error) {
	if o.Connections == 0 {
		o.Connections = 10_000
	}
	if o.Reloads == 0 {
		o.Reloads = 50
	}
	if o.Interval == 0 {
		o.Interval = 200 * time.Millisecond
	}
	if err := checkFiles(o.Connections); err != nil {
		return report, err
	}
	l, err := up(ctx, o.Options)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		stop()
		wg.Wait()
		l.screen.Clear()
	}()
	wg.Go(func() { l.watch(working) })
	report, err = l.load(ctx, o, &wg, working)
	if ctx.Err() != nil {
		return report, ErrInterrupted
	}
	if err != nil {
		return report, l.gateway.withLog(err)
	}
	l.screen.Line("%s", report)
	return report, report.check()
}

// checkFiles returns an error when this process may not open the backends' ends
// of the connections.
func checkFiles(connections int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if need := uint64(connections) + 1000; limit.Cur < need {
		return fmt.Errorf("%d open files are allowed, %d connections need %d: raise ulimit -n", limit.Cur, connections, need)
	}
	return nil
}

// load does the test on a lab that is up. Other clients run until working ends.
func (l *Lab) load(ctx context.Context, o LoadOptions, wg *sync.WaitGroup, working context.Context) (LoadReport, error) {
	begin := time.Now()
	report := LoadReport{Connections: o.Connections, Reloads: o.Reloads}
	if err := l.waitExplained(ctx, l.story()[0].want); err != nil {
		return report, err
	}
	procs, err := l.startClients(o.Connections)
	defer func() {
		for _, p := range procs {
			p.kill()
		}
	}()
	if err != nil {
		return report, err
	}
	report.OpenedIn = time.Since(begin)
	l.screen.Line("%d connections are open after %.1f s.", o.Connections, report.OpenedIn.Seconds())

	wg.Go(func() { l.traffic.Run(working) })
	if err := l.shake(ctx, o, &report); err != nil {
		return report, err
	}
	if err := report.takeRequests(l.traffic); err != nil {
		return report, err
	}
	for _, p := range procs {
		fates, err := p.finish()
		if err != nil {
			return report, err
		}
		report.take(fates)
	}
	report.Took = time.Since(begin)
	return report, nil
}

// take adds what one process of clients reports.
func (r *LoadReport) take(c ClientReport) {
	r.Slowest = max(r.Slowest, time.Duration(c.Slowest*float64(time.Second)))
	for name, f := range c.Backends {
		if name == leaver {
			r.Left.add(f)
		} else {
			r.Stayed.add(f)
		}
	}
}

// takeRequests adds the requests of the window. None may have failed: backends
// that fail their health checks go on serving.
func (r *LoadReport) takeRequests(t *traffic) error {
	for i, c := range t.Tallies() {
		r.Requests += c.total()
		if c.failed > 0 || c.refused > 0 {
			return fmt.Errorf("new connections of %s: %d refused, %d failed: %w", t.sources[i], c.refused, c.failed, c.lastErr)
		}
	}
	t.Reset()
	return nil
}
