package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"l4lb/internal/netlab"
	"l4lb/pkg/admin"
	"l4lb/pkg/selector"
)

// readyTimeout is how long a daemon may take until it forwards.
const readyTimeout = 20 * time.Second

// gateway is the daemon in the gateway's namespace.
type gateway struct {
	executable string
	ns         *netlab.Namespace
	space      *workspace
	client     *admin.Client

	proc *process
	log  *os.File
}

// newGateway prepares the daemon that listens at adminListen.
func newGateway(executable string, ns *netlab.Namespace, space *workspace, adminListen string) (*gateway, error) {
	log, err := os.OpenFile(space.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	return &gateway{
		executable: executable, ns: ns, space: space, log: log, client: admin.NewClient(adminListen),
	}, nil
}

// start runs the daemon and returns when it forwards.
func (g *gateway) start(ctx context.Context) error {
	proc, err := startProcess(g.ns, nil, g.log, g.executable, "run", "--config", g.space.configPath())
	if err != nil {
		return err
	}
	g.proc = proc
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := poll(ctx, 20*time.Millisecond, g.ready); err != nil {
		return g.withLog(fmt.Errorf("wait for the daemon: %w", err))
	}
	return nil
}

// ready returns nil when the daemon forwards by its configuration.
func (g *gateway) ready(ctx context.Context) error {
	if !g.proc.running() {
		return fatalError{fmt.Errorf("it ended: %w", g.proc.err)}
	}
	status, err := g.client.Status(ctx)
	if err != nil {
		return err
	}
	if !status.Ready {
		return errors.New("it is not ready")
	}
	return nil
}

// explanation is the running daemon's account of a client.
func (g *gateway) explanation(ctx context.Context, client netip.Addr) (selector.Explanation, error) {
	return g.client.Explain(ctx, serviceName, client)
}

// kill is kill -9: the data plane stays.
func (g *gateway) kill() error {
	err := g.proc.kill()
	g.proc = nil
	return err
}

// reload has the daemon read its configuration again and returns when that is
// in force.
func (g *gateway) reload(ctx context.Context) error {
	before, err := g.client.Status(ctx)
	if err != nil {
		return err
	}
	if err := g.proc.signal(syscall.SIGHUP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	return poll(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		now, err := g.client.Status(ctx)
		switch {
		case err != nil:
			return err
		case now.Config.LastError != "":
			return fatalError{fmt.Errorf("reload: %s", now.Config.LastError)}
		case !now.Config.InForceSince.After(before.Config.InForceSince):
			return errors.New("the new configuration is not in force")
		}
		return nil
	})
}

// withLog adds the end of the daemon's log to an error.
func (g *gateway) withLog(err error) error {
	return fmt.Errorf("%w; the daemon's log ends with:\n%s", err, tail(g.space.logPath(), 12))
}

// Close stops the daemon.
func (g *gateway) Close() error {
	var err error
	if g.proc != nil {
		if err = g.proc.stop(); err != nil {
			err = g.withLog(fmt.Errorf("stop the daemon: %w", err))
		}
	}
	return errors.Join(err, g.log.Close())
}

// fatalError is one that waiting longer does not mend.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// poll calls f until it returns nil or a fatalError. When ctx ends first, it
// returns f's last error.
func poll(ctx context.Context, every time.Duration, f func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		err := f(ctx)
		var fatal fatalError
		if err == nil || errors.As(err, &fatal) {
			return err
		}
		// An attempt that the end of ctx cut short says less than the one before.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}
