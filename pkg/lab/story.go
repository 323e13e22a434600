package lab

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// noticeTimeout bounds how long the gateway may take to act on a change:
	// two intervals of the health check, its timeout, and a busy machine.
	noticeTimeout = 15 * time.Second
	// serveTimeout bounds how long it may take until every backend of a set
	// has answered every client.
	serveTimeout = 20 * time.Second
	// leastAnswers is how many answers each client address gets at least
	// before a step is over.
	leastAnswers = 20
)

// heldPerSource is how many connections each client address holds at least;
// more are opened until every primary has one.
const heldPerSource, heldAtMost = 2, 40

// tell runs the story and stops at the first step that does not hold.
func (l *Lab) tell(ctx context.Context) error {
	steps := l.story()
	begin := time.Now()
	for i, s := range steps {
		l.screen.Begin(i+1, len(steps), s.name)
		notice, err := l.play(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.screen.Failed()
			return fmt.Errorf("step %d, %q: %w", i+1, s.name, err)
		}
		l.screen.Done(notice, l.traffic)
	}
	l.screen.Line("The story holds: %d steps, %d connections held throughout, %.0f s.",
		len(steps), len(l.holder.all()), time.Since(begin).Seconds())
	return nil
}

// play does one step. It returns how long the gateway took to act on it.
func (l *Lab) play(ctx context.Context, s step) (notice time.Duration, err error) {
	begin := time.Now()
	if err := s.do(ctx); err != nil {
		return 0, err
	}
	if err := l.waitExplained(ctx, s.want); err != nil {
		return 0, err
	}
	notice = time.Since(begin)
	l.traffic.Reset()
	if err := l.waitServed(ctx, s.want); err != nil {
		return notice, err
	}
	return notice, l.holder.wait(ctx, time.Now())
}

// waitExplained returns when the gateway's own account of every client address
// is what must be.
func (l *Lab) waitExplained(ctx context.Context, want map[string]expect) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	return poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		for _, src := range l.traffic.sources {
			got, err := l.gateway.explanation(ctx, src.addr)
			if err != nil {
				return err
			}
			if err := checkExplanation(got, want[src.group]); err != nil {
				return err
			}
		}
		return nil
	})
}

// waitServed returns when every client address was served by every backend of
// its set, and fails as soon as another one answers.
func (l *Lab) waitServed(ctx context.Context, want map[string]expect) error {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	down := l.down()
	return poll(ctx, 50*time.Millisecond, func(context.Context) error {
		tallies := l.traffic.Tallies()
		for i, src := range l.traffic.sources {
			if err := checkTally(src, tallies[i], want[src.group], down); err != nil {
				return fatalError{err}
			}
		}
		for i, src := range l.traffic.sources {
			if quiet := silent(tallies[i], want[src.group], down); quiet != nil {
				return fmt.Errorf("%s: none of %d answers came from %s", src, tallies[i].total(), list(quiet))
			}
			if n := tallies[i].total(); n < leastAnswers {
				return fmt.Errorf("%s: only %d answers", src, n)
			}
		}
		return nil
	})
}

// holdConnections opens the long-lived connections, streams and conversations
// in turn, until every client address and every primary has some.
func (l *Lab) holdConnections(ctx context.Context) error {
	if err := l.waitExplained(ctx, l.story()[0].want); err != nil {
		return err
	}
	primaries := slices.Concat(l.plan.members("web-a"), l.plan.members("web-b"))
	for round := range heldAtMost {
		have := l.holder.perBackend()
		if round >= heldPerSource && !slices.ContainsFunc(primaries, func(b string) bool { return have[b] == 0 }) {
			return nil
		}
		for _, src := range l.traffic.sources {
			if _, err := l.holder.open(l.life, src, round%2 == 0); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%d connections left a primary without any: %v", len(l.holder.all()), l.holder.perBackend())
}

// killDaemon is kill -9. New and held connections go on; then another daemon is
// started on what the first one left.
func (l *Lab) killDaemon(ctx context.Context) error {
	if err := l.gateway.kill(); err != nil {
		return err
	}
	l.traffic.Reset()
	waiting, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	err := poll(waiting, 50*time.Millisecond, func(context.Context) error {
		for i, t := range l.traffic.Tallies() {
			src := l.traffic.sources[i]
			if t.failed > 0 || t.refused > 0 {
				return fatalError{fmt.Errorf("%s: %d refused, %d failed: %w", src, t.refused, t.failed, t.lastErr)}
			}
			if t.total() < leastAnswers {
				return fmt.Errorf("%s: only %d answers", src, t.total())
			}
		}
		return nil
	})
	if err == nil {
		err = l.holder.wait(ctx, time.Now())
	}
	if err != nil {
		return fmt.Errorf("without a daemon: %w", err)
	}
	return l.gateway.start(ctx)
}
