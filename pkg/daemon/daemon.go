// Package daemon puts the parts of a gateway together: it reads the
// configuration, takes the interfaces, loads or adopts the data plane, runs
// health checks, neighbours, announcements and the controller, serves metrics
// and the local API, and follows reloads until it is told to stop.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"l4lb/pkg/announce"
	"l4lb/pkg/config"
	"l4lb/pkg/controller"
	"l4lb/pkg/healthcheck"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/neigh"
	"l4lb/pkg/passive"
	"l4lb/pkg/probe"
)

const (
	defaultBPFDir  = "/sys/fs/bpf"
	defaultLockDir = "/run/l4lb"
)

// Pins is where gateways pin their state unless told otherwise, each in a
// directory of its name.
const Pins = defaultBPFDir + "/l4lb"

// Options say how to run a gateway. Only ConfigPath is required.
type Options struct {
	ConfigPath string
	// Logger gets what an operator would want to know. nil: nothing is logged.
	Logger *slog.Logger
	// Version is shown in status and metrics.
	Version string
	// DiscardState forgets, before the start, the flows and the programs that
	// an earlier process left.
	DiscardState bool
	// KeepDatapath leaves the program forwarding when Run ends because ctx
	// did; otherwise it is detached.
	KeepDatapath bool
	// Reload asks for the configuration to be read again. nil: never.
	Reload <-chan struct{}
	// BPFDir is where a BPF file system is, or is mounted (/sys/fs/bpf).
	BPFDir string
	// LockDir is where the locks on interfaces are (/run/l4lb).
	LockDir string
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BPFDir == "" {
		o.BPFDir = defaultBPFDir
	}
	if o.LockDir == "" {
		o.LockDir = defaultLockDir
	}
}

// Daemon is one gateway that holds its interfaces and its data plane. Nothing
// runs before Run.
type Daemon struct {
	opts    Options
	log     *slog.Logger
	cfg     *lb.Config // at the start; its gateway block holds until the end
	pinDir  string
	started time.Time
	// adopted: programs of an earlier process were forwarding at the start.
	adopted bool

	locks      *locks
	dp         *loader.Datapath
	checker    *healthcheck.Checker
	probing    *probe.Output
	neighbours *neigh.Resolver
	announcer  *announce.Announcer
	controller *controller.Controller
	ports      *ports
	host       *hostWatch
	suspicions *suspicions
	reloads    reloads
	listeners  []*listener
	closed     atomic.Bool
	ending     chan struct{} // closed when Run is about to end
}

// New reads the configuration, takes the interfaces and loads the data plane.
// Errors in the configuration are a ConfigError; an interface that another
// process has is ErrHeld. On error nothing is left behind.
func New(o Options) (_ *Daemon, err error) {
	o.setDefaults()
	doc, err := loadConfig(o.ConfigPath)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		opts: o, log: o.Logger, cfg: doc.Config, started: time.Now(),
		pinDir: filepath.Join(o.BPFDir, "l4lb", doc.Config.Gateway.Name), ending: make(chan struct{}),
	}
	d.warn(doc)
	d.reloads.succeeded(d.started)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(!d.adopted))
		}
	}()
	if err := mountBPF(o.BPFDir); err != nil {
		return nil, err
	}
	if d.locks, err = takeLocks(o.LockDir, d.claims(), o.ConfigPath); err != nil {
		return nil, err
	}
	if err := d.openDatapath(); err != nil {
		return nil, err
	}
	if err := d.assemble(); err != nil {
		return nil, err
	}
	return d, d.listen()
}

// ConfigError says that the configuration cannot be read, or is refused: then it
// holds config.Errors.
type ConfigError struct{ Err error }

func (e ConfigError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e ConfigError) Unwrap() error { return e.Err }

// loadConfig reads the file and refuses what this host does not allow.
func loadConfig(path string) (*config.Document, error) {
	doc, err := config.Load(path)
	if err != nil {
		return nil, ConfigError{err}
	}
	addresses, err := hostAddresses()
	if err != nil {
		return nil, err
	}
	if err := doc.CheckHost(addresses); err != nil {
		return nil, ConfigError{err}
	}
	return doc, nil
}

func (d *Daemon) warn(doc *config.Document) {
	for _, w := range doc.Warnings {
		d.log.Warn("setting has no effect", "at", fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Col), "what", w.Msg)
	}
	for _, a := range doc.Asymmetries {
		d.log.Warn("the directions of connections may meet different backends", "at", fmt.Sprintf("%s:%d:%d", a.File, a.Line, a.Col), "why", a.Msg)
	}
}

// openDatapath loads the program and its maps, or adopts those that are pinned.
func (d *Daemon) openDatapath() error {
	if d.opts.DiscardState {
		if err := loader.Discard(d.pinDir); err != nil {
			return err
		}
	}
	links, err := filepath.Glob(filepath.Join(d.pinDir, "link-*"))
	if err != nil {
		return fmt.Errorf("look for pinned programs: %w", err)
	}
	d.adopted = len(links) > 0
	o := sizes(d.cfg, d.pinDir)
	o.Frags = needsFrags(d.cfg.Gateway)
	dp, err := loader.Load(o)
	if err != nil {
		return err
	}
	d.dp = dp
	if d.adopted {
		d.log.Info("adopting the data plane of an earlier process", "pins", d.pinDir)
	}
	return nil
}

// assemble makes the parts; none of them runs yet.
func (d *Daemon) assemble() error {
	engine, err := controller.NewEngine(d.dp)
	if err != nil {
		return err
	}
	if d.probing, err = probe.Open(probe.Options{Gateway: d.cfg.Gateway.Name, Logger: d.log}); err != nil {
		return err
	}
	d.checker = healthcheck.New(healthcheck.Options{Logger: d.log, Dialer: &healthcheck.Dialer{Route: d.probing.Route}})
	d.neighbours = neigh.New(neigh.Options{Logger: d.log})
	d.announcer = announce.New(announce.Options{Logger: d.log})
	d.ports = newPorts(d.dp, d.cfg.Gateway, d.log)
	d.suspicions = &suspicions{
		watch: passive.NewWatch(), log: d.log, counters: d.dp,
		state: func() (*lb.Config, *controller.Snapshot) { return d.controller.Config(), d.controller.Snapshot() },
	}
	host, err := readHost(d.cfg.Gateway.Interfaces)
	if err != nil {
		return err
	}
	engine.SetHost(host)
	d.controller, err = controller.New(controller.Options{
		Logger: d.log, Engine: engine, Health: d.checker, Neighbours: d.neighbours, Announcer: d.announcer,
		Probes: d.probing,
		Attach: d.attach, FirstChecks: firstChecks(d.cfg),
	}, d.cfg)
	if err != nil {
		return err
	}
	d.host = &hostWatch{interfaces: d.cfg.Gateway.Interfaces, set: d.controller.SetHost, log: d.log}
	return nil
}

// attach puts the program on the interfaces and takes it off those that the
// configuration no longer names.
func (d *Daemon) attach() error {
	if err := d.ports.attachAll(); err != nil {
		return err
	}
	if err := d.dp.DetachOthers(); err != nil {
		return fmt.Errorf("detach from interfaces that are no longer configured: %w", err)
	}
	return nil
}

// Ready reports whether packets are forwarded by the configuration: the maps
// are written and the program is on every interface. The health of backends
// has no part in it.
func (d *Daemon) Ready() bool { return d.controller.Ready() && d.ports.allAttached() }

// Run serves until ctx ends or a part fails, then releases everything. When ctx
// ended, the program is detached unless it is to be kept; after a failure it
// goes on forwarding, for the next process to adopt, if it did so before.
func (d *Daemon) Run(ctx context.Context) error {
	g, running := errgroup.WithContext(ctx)
	defer context.AfterFunc(running, func() { close(d.ending) })()
	for _, part := range []func(context.Context) error{
		d.controller.Run, d.checker.Run, d.probing.Run, d.neighbours.Run, d.announcer.Run, d.ports.run, d.host.run, d.followReloads,
		d.suspicions.run,
	} {
		g.Go(func() error { return part(running) })
	}
	for _, l := range d.listeners {
		g.Go(func() error { return l.run(running) })
	}
	err := g.Wait()
	detach := !d.opts.KeepDatapath
	if err != nil {
		detach = !d.adopted && !d.controller.Ready()
	}
	if detach {
		d.log.Info("detaching the data plane")
	} else {
		d.log.Info("leaving the data plane in place", "pins", d.pinDir)
	}
	return errors.Join(err, d.close(detach))
}

// close releases what New took. With detach the program is taken off the
// interfaces and pinned state is removed.
func (d *Daemon) close(detach bool) error {
	if d.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, l := range d.listeners {
		errs = append(errs, l.close())
	}
	if d.probing != nil {
		errs = append(errs, d.probing.Close())
	}
	if d.dp != nil {
		if detach {
			errs = append(errs, d.dp.Detach())
		}
		errs = append(errs, d.dp.Close())
	}
	if d.locks != nil {
		errs = append(errs, d.locks.release())
	}
	return errors.Join(errs...)
}
