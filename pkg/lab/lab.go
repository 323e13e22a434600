// Package lab is the whole system on one machine: zones of clients and
// backends, a router and a gateway as network namespaces, with the real daemon
// on the gateway and real connections through it. Its story makes things happen
// and checks what must come of them.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

var (
	// ErrRunning is returned when another lab is up on this machine.
	ErrRunning = errors.New("another lab is running on this machine")
	// ErrInterrupted is returned when a lab was ended early.
	ErrInterrupted = errors.New("the lab was interrupted")
)

// Options say how to run a lab. Executable and Out are required.
type Options struct {
	// Executable is the path of the l4lbd that the gateway runs.
	Executable string
	// Out gets the story and, if it is a terminal, a table that is drawn in
	// place.
	Out io.Writer
	// Keep leaves the lab up after the story, until ctx ends.
	Keep bool
}

// Lab is one lab that is up. One can be up on a machine at a time.
type Lab struct {
	opts     Options
	plan     *plan
	space    *workspace
	net      *network
	backends map[string]*backend
	gateway  *gateway
	traffic  *traffic
	holder   *holder
	screen   *screen

	life    context.Context // ends with Close: of held connections and the daemon
	endLife context.CancelFunc
}

// Run builds a lab, tells its story and removes the lab again. It returns an
// error when a step does not hold, ErrRunning when another lab is up, and
// ErrInterrupted when ctx ends before the story does. The lab is down then too.
func Run(ctx context.Context, o Options) (err error) {
	l, err := up(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.traffic.Run(working) })
	wg.Go(func() { l.watch(working) })
	defer func() {
		stop()
		wg.Wait()
		l.screen.Clear()
	}()
	err = l.tell(ctx)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	if err != nil {
		return l.gateway.withLog(err)
	}
	if o.Keep {
		l.screen.Line("%s", l.hints())
		<-ctx.Done()
	}
	return nil
}

// up builds the lab and starts the backends and the daemon.
func up(ctx context.Context, o Options) (_ *Lab, err error) {
	l := &Lab{opts: o, backends: map[string]*backend{}, screen: newScreen(o.Out)}
	l.life, l.endLife = context.WithCancel(context.WithoutCancel(ctx))
	if l.plan, err = newPlan(configText); err != nil {
		return nil, err
	}
	if l.space, err = openWorkspace(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.net, err = build(l.plan); err != nil {
		return nil, fmt.Errorf("build the lab: %w", err)
	}
	for _, h := range l.plan.withRole(roleBackend) {
		if l.backends[h.name], err = startBackend(h.name, l.net.hosts[h.name]); err != nil {
			return nil, fmt.Errorf("start backend %s: %w", h.name, err)
		}
	}
	if err := l.space.writeConfig(configText); err != nil {
		return nil, err
	}
	l.gateway, err = newGateway(o.Executable, l.net.hosts[gatewayName], l.space, l.plan.cfg.Gateway.AdminListen)
	if err != nil {
		return nil, err
	}
	l.traffic = newTraffic(sources(l.plan), l.net.hosts)
	l.holder = &holder{ns: l.net.hosts}
	l.screen.Line("%d namespaces, %d backends, %d clients; starting the daemon.",
		len(l.net.all), len(l.backends), len(l.plan.withRole(roleClient)))
	return l, l.gateway.start(ctx)
}

// Close takes everything down.
func (l *Lab) Close() error {
	l.endLife()
	var errs []error
	if l.gateway != nil {
		errs = append(errs, l.gateway.Close())
	}
	if l.holder != nil {
		l.holder.wg.Wait()
	}
	for _, b := range l.backends {
		errs = append(errs, b.Close())
	}
	if l.net != nil {
		errs = append(errs, l.net.Close())
	}
	return errors.Join(append(errs, l.space.Close())...)
}
