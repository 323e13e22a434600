package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"l4lb/pkg/announce"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/neigh"
	"l4lb/pkg/probe"
	"l4lb/pkg/selector"
)

// Health is what the controller needs of *healthcheck.Checker.
type Health interface {
	SetTargets(targets []healthcheck.Target, initial func(healthcheck.Target) lb.HealthState) error
	Status(t healthcheck.Target) (healthcheck.Status, bool)
	Events() <-chan healthcheck.Event
}

// Neighbours is what the controller needs of *neigh.Table.
type Neighbours interface {
	SetTargets(addrs []netip.Addr)
	Snapshot() map[netip.Addr]neigh.Entry
	Changes() <-chan struct{}
}

// Announcer is what the controller needs of *announce.Announcer.
type Announcer interface {
	Set(list []announce.Announcement)
}

// Probes is what the controller needs of *probe.Output.
type Probes interface {
	SetPaths(paths []probe.Path) error
}

// Options are the controller's parts. All are required but Probes and Attach.
type Options struct {
	Logger     *slog.Logger
	Engine     *Engine
	Health     Health
	Neighbours Neighbours
	Announcer  Announcer
	// Probes delivers health checks of VIPs to single backends. Nil probes
	// every backend at its own address.
	Probes Probes
	// Attach puts the program on the interfaces. It is called once, after the
	// maps were written for the first time, so that no packet meets a data
	// plane without rules.
	Attach func() error
	// FirstChecks bounds how long the first reconcile waits for the answers
	// of health checks and neighbours: 0 waits for none.
	FirstChecks time.Duration
}

// Controller runs the engine: its Run is the one goroutine that writes maps.
type Controller struct {
	opts      Options
	log       *slog.Logger
	calls     chan call
	snapshot  atomic.Pointer[Snapshot]
	config    atomic.Pointer[lb.Config]
	ready     atomic.Bool
	published uint64 // version of the engine that snapshot shows

	book   atomic.Pointer[healthBook]
	found  map[healthcheck.Target]selector.Health // by Target.Key
	states map[memberName]lb.HealthState          // last logged
	kinds  map[unitKey]selector.Kind              // last logged
	within map[string]netip.Prefix                // of routes, last logged
}

type memberName struct {
	service string
	key     memberKey
}

// call is a request of another goroutine that runs in the controller's.
type call struct {
	run  func(now time.Time) error
	done chan error
}

// New prepares a controller for the first configuration. Run starts it.
func New(o Options, cfg *lb.Config) (*Controller, error) {
	c := &Controller{
		opts: o, log: o.Logger, calls: make(chan call),
		states: map[memberName]lb.HealthState{}, kinds: map[unitKey]selector.Kind{},
	}
	if err := c.apply(cfg, time.Now()); err != nil {
		return nil, err
	}
	return c, nil
}

// Run writes the maps, attaches, and follows health, neighbours and requests
// until ctx ends. An error in writing maps is fatal: what is in force keeps
// forwarding.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.first(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var reply chan<- error // of the request that waits for its reconcile
	for {
		next, err := c.reconcile()
		if reply != nil {
			reply <- err
			reply = nil
		}
		if err != nil {
			return err
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case ev := <-c.opts.Health.Events():
			c.healthEvent(ev)
			c.gatherHealthEvents()
		case <-c.opts.Neighbours.Changes():
			c.readLinks()
		case req := <-c.calls:
			if err := req.run(time.Now()); err != nil {
				req.done <- err
			} else {
				reply = req.done
			}
		case <-timer.C:
		}
	}
}

// first waits until every backend has an answer, or for the bound, so that a
// start does not spread connections over backends nobody asked yet; then it
// writes the maps and attaches.
func (c *Controller) first(ctx context.Context) error {
	deadline := time.NewTimer(c.opts.FirstChecks)
	defer deadline.Stop()
	for waiting := c.opts.FirstChecks > 0; waiting && c.unanswered(); {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-c.opts.Health.Events():
			c.healthEvent(ev)
			c.gatherHealthEvents()
		case <-c.opts.Neighbours.Changes():
			c.readLinks()
		case <-deadline.C:
			waiting = false
		}
	}
	c.readLinks()
	if _, err := c.reconcile(); err != nil {
		return err
	}
	if c.opts.Attach != nil {
		if err := c.opts.Attach(); err != nil {
			return err
		}
		c.opts.Engine.Sweep()
	}
	c.announceAll()
	c.ready.Store(true)
	c.log.Info("data plane in force", "services", len(c.config.Load().Services), "rules", len(c.config.Load().Rules))
	return nil
}

// unanswered reports whether a backend's health, weight or link address is
// still open.
func (c *Controller) unanswered() bool {
	for _, s := range c.opts.Engine.units {
		weighted := s.cfg.LocalityLbPolicy.Weighted() && s.cfg.HealthCheck != ""
		for _, m := range s.members {
			state := m.health.State
			switch {
			case m.gone:
			case state == lb.Unknown, state == lb.Healthy && !m.usable():
				return true
			case weighted && state == lb.Healthy && m.health.Weight.Err == lb.WeightNone:
				return true
			}
		}
	}
	return false
}

// reconcile runs the engine and publishes what came of it.
func (c *Controller) reconcile() (time.Time, error) {
	next, err := c.opts.Engine.Reconcile(time.Now())
	if err != nil {
		return next, fmt.Errorf("reconcile: %w", err)
	}
	if v := c.opts.Engine.version; v != c.published || c.snapshot.Load() == nil {
		s := c.opts.Engine.Snapshot()
		c.logChanges(s)
		c.snapshot.Store(s)
		c.published = v
	}
	return next, nil
}

// do runs f in the controller's goroutine and returns its error, or that of the
// reconcile after it: when it returns, the change is in force.
func (c *Controller) do(ctx context.Context, f func(now time.Time) error) error {
	req := call{run: f, done: make(chan error, 1)}
	select {
	case c.calls <- req:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-req.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reload makes cfg the configuration in force. On error nothing has changed.
func (c *Controller) Reload(ctx context.Context, cfg *lb.Config) error {
	return c.do(ctx, func(now time.Time) error {
		if err := c.apply(cfg, now); err != nil {
			return err
		}
		c.announceAll()
		return nil
	})
}

// Drain takes an instance out by hand; service "" means all services.
func (c *Controller) Drain(ctx context.Context, instance, service string) error {
	return c.do(ctx, func(now time.Time) error { return c.opts.Engine.Drain(instance, service, now) })
}

// Undrain takes Drain back.
func (c *Controller) Undrain(ctx context.Context, instance, service string) error {
	return c.do(ctx, func(now time.Time) error { return c.opts.Engine.Undrain(instance, service, now) })
}

// SetHost gives the gateway's own network, which routes leave alone.
func (c *Controller) SetHost(ctx context.Context, h Host) error {
	return c.do(ctx, func(time.Time) error {
		c.opts.Engine.SetHost(h)
		return nil
	})
}

// Explain says which sets a client's new connections go through, and why.
func (c *Controller) Explain(ctx context.Context, service string, client netip.Addr) (selector.Explanation, error) {
	answer := make(chan selector.Explanation, 1)
	err := c.do(ctx, func(time.Time) error {
		out, err := c.opts.Engine.Explain(service, client)
		answer <- out
		return err
	})
	if err != nil {
		return selector.Explanation{}, err
	}
	return <-answer, nil
}

// Snapshot is the state after the last reconcile; nil before the first.
func (c *Controller) Snapshot() *Snapshot { return c.snapshot.Load() }

// Config is the configuration in force.
func (c *Controller) Config() *lb.Config { return c.config.Load() }

// Ready reports whether the data plane forwards by the configuration.
func (c *Controller) Ready() bool { return c.ready.Load() }
