package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"l4lb/pkg/admin"
	"l4lb/pkg/config"
	"l4lb/pkg/conntrack"
	"l4lb/pkg/controller"
	"l4lb/pkg/loader"
	"l4lb/pkg/selector"
)

// view is the present state; admin.ErrNotReady before there is one.
func (d *Daemon) view() (*view, error) {
	snapshot := d.controller.Snapshot()
	if snapshot == nil {
		return nil, admin.ErrNotReady
	}
	v := newView(d.controller.Config(), snapshot)
	v.counters, v.health, v.neighbours = d.dp, d.controller.RuleHealth, d.neighbours.Snapshot()
	v.suspected = d.suspicions.watch.Of
	return v, nil
}

// Status implements admin.Source. It answers from the start on.
func (d *Daemon) Status() (admin.Status, error) {
	reload := d.reloads.status()
	file, err := filepath.Abs(d.opts.ConfigPath)
	if err != nil {
		file = d.opts.ConfigPath
	}
	s := admin.Status{
		Gateway: d.cfg.Gateway.Name, Version: d.opts.Version, Object: loader.ObjectID(), PID: os.Getpid(), StartedAt: d.started, Ready: d.Ready(),
		Config:     admin.ConfigStatus{File: file, InForceSince: reload.InForceSince, LastError: reloadError(reload.LastError)},
		Interfaces: []admin.Interface{}, Services: []admin.Service{}, ForwardingRules: []admin.ForwardingRule{},
		Routes: []admin.Route{},
	}
	attached := d.ports.attached()
	for _, name := range d.cfg.Gateway.Interfaces {
		s.Interfaces = append(s.Interfaces, admin.Interface{
			Name: name, XDPMode: string(d.cfg.Gateway.XDPMode), Attached: attached[name],
		})
	}
	s.Problems = append([]string{}, gatewayProblems(&s)...)
	v, err := d.view()
	if errors.Is(err, admin.ErrNotReady) {
		return s, nil
	}
	s.Services = v.services()
	if s.ForwardingRules, err = v.rules(); err != nil {
		return s, err
	}
	s.Routes = v.routes()
	backends, err := v.backends("")
	s.Problems = append(s.Problems, v.problems(backends)...)
	return s, err
}

// Services implements admin.Source.
func (d *Daemon) Services() ([]admin.Service, error) {
	v, err := d.view()
	if err != nil {
		return nil, err
	}
	return v.services(), nil
}

// Backends implements admin.Source.
func (d *Daemon) Backends(service string) ([]admin.Backend, error) {
	v, err := d.view()
	if err != nil {
		return nil, err
	}
	if service != "" && !v.configured(service) {
		return nil, fmt.Errorf("backend service %q: %w", service, admin.ErrUnknown)
	}
	return v.backends(service)
}

// Zones implements admin.Source.
func (d *Daemon) Zones() ([]admin.Zone, error) {
	v, err := d.view()
	if err != nil {
		return nil, err
	}
	return v.zones()
}

// Flows implements admin.Source.
func (d *Daemon) Flows(f conntrack.Filter) (conntrack.Report, error) {
	snapshot := d.controller.Snapshot()
	if snapshot == nil {
		return conntrack.Report{}, admin.ErrNotReady
	}
	return conntrack.Dump(d.dp, flowNames(snapshot), f)
}

// flowNames turns the ids of entries into names.
func flowNames(s *controller.Snapshot) conntrack.Names {
	names := conntrack.Names{
		Member: map[uint32]conntrack.MemberName{}, Rule: map[uint32]conntrack.RuleName{}, Zone: map[uint32]string{},
	}
	for i := range s.Services {
		for _, m := range s.Services[i].Members {
			names.Member[m.ID] = conntrack.MemberName{
				Service: s.Services[i].Name, Instance: m.Backend.Instance, Zone: m.Backend.Zone,
			}
		}
	}
	for _, r := range s.Rules {
		names.Rule[r.ID] = conntrack.RuleName{Rule: r.Rule.Name, Service: r.Rule.Service}
		if r.RoutedID != 0 {
			names.Rule[r.RoutedID] = names.Rule[r.ID]
		}
	}
	for _, z := range s.Zones {
		names.Zone[z.ID] = z.Name
	}
	return names
}

// Explain implements admin.Source.
func (d *Daemon) Explain(ctx context.Context, service string, client netip.Addr) (selector.Explanation, error) {
	out, err := d.controller.Explain(ctx, service, client)
	return out, asUnknown(err)
}

// Drain implements admin.Source.
func (d *Daemon) Drain(ctx context.Context, instance, service string) error {
	err := d.controller.Drain(ctx, instance, service)
	if err == nil {
		d.log.Info("drained by hand", "backend", instance, "service", service)
	}
	return asUnknown(err)
}

// Undrain implements admin.Source.
func (d *Daemon) Undrain(ctx context.Context, instance, service string) error {
	err := d.controller.Undrain(ctx, instance, service)
	if err == nil {
		d.log.Info("no longer drained by hand", "backend", instance, "service", service)
	}
	return asUnknown(err)
}

// asUnknown makes the controller's error the API's.
func asUnknown(err error) error {
	if errors.Is(err, controller.ErrUnknown) {
		return unknownError{err}
	}
	return err
}

type unknownError struct{ error }

// Is makes an unknownError an admin.ErrUnknown.
func (unknownError) Is(target error) bool { return target == admin.ErrUnknown }

func asErrors(err error) (config.Errors, bool) {
	var wrong config.Errors
	ok := errors.As(err, &wrong)
	return wrong, ok
}

// Capture implements admin.Source.
func (d *Daemon) Capture(ctx context.Context, program uint32, started func()) error {
	if !d.controller.Ready() {
		return admin.ErrNotReady
	}
	restore, err := d.dp.Lend(program)
	if errors.Is(err, loader.ErrLent) {
		return fmt.Errorf("%w: %w", admin.ErrBusy, err)
	}
	if err != nil {
		return err
	}
	d.log.Info("capture begins", "program", program)
	started()
	select {
	case <-ctx.Done():
	case <-d.ending:
		err = errors.New("the daemon stops")
	}
	err = errors.Join(err, restore())
	d.log.Info("capture ends", "program", program)
	return err
}
