package daemon

import (
	"fmt"
	"net/http"

	"l4lb/pkg/metrics"
)

// metricsHandler serves the gateway's metrics.
func (d *Daemon) metricsHandler() (http.Handler, error) {
	h, err := metrics.Handler(metrics.Options{
		Counters: d.dp, State: d.controller, Checks: d.checker, Neighbours: d.neighbours, Gateway: d.describe,
		Suspicions: d.suspicions.watch,
	})
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	return h, nil
}

// describe is the gateway as metrics show it.
func (d *Daemon) describe() metrics.Gateway {
	reload := d.reloads.status()
	g := metrics.Gateway{
		Version: d.opts.Version, Ready: d.Ready(),
		ConfigSince: reload.InForceSince, ConfigRefused: reload.LastError != nil,
		ReloadsDone: reload.Succeeded, ReloadsRefused: reload.Refused,
	}
	attached := d.ports.attached()
	for _, name := range d.cfg.Gateway.Interfaces {
		g.Interfaces = append(g.Interfaces, metrics.Interface{
			Name: name, Mode: string(d.cfg.Gateway.XDPMode), Attached: attached[name],
		})
	}
	return g
}
