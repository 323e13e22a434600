package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"l4lb/pkg/lb"
)

// reloads remembers how reading the configuration went.
type reloads struct {
	mu   sync.Mutex
	last reloadStatus
}

// reloadStatus is how reading the configuration went so far.
type reloadStatus struct {
	// InForceSince is when the configuration in force was read, and LastAt
	// when the newest attempt was made.
	InForceSince, LastAt time.Time
	// LastError is why the newest attempt was refused; nil if it was not.
	LastError          error
	Succeeded, Refused uint64
}

func (r *reloads) succeeded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.InForceSince, r.last.LastAt, r.last.LastError = now, now, nil
	r.last.Succeeded++
}

func (r *reloads) refused(now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.LastAt, r.last.LastError = now, err
	r.last.Refused++
}

func (r *reloads) status() reloadStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// followReloads reads the file again whenever it is asked to.
func (d *Daemon) followReloads(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.opts.Reload:
			d.reload(ctx)
		}
	}
}

// reload makes the file's content the configuration in force, or logs
// everything that is wrong with it and changes nothing.
func (d *Daemon) reload(ctx context.Context) {
	err := d.tryReload(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		d.reloads.succeeded(time.Now())
		cfg := d.controller.Config()
		d.log.Info("configuration reloaded", "services", len(cfg.Services), "rules", len(cfg.Rules))
		return
	}
	d.reloads.refused(time.Now(), err)
	if wrong, ok := asErrors(err); ok {
		for _, e := range wrong {
			d.log.Error("mistake in the configuration", "at", fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Col), "err", e.Msg)
		}
		err = fmt.Errorf("%d mistakes", len(wrong))
	}
	d.log.Error("configuration not reloaded, the old one stays in force", "err", err)
}

func (d *Daemon) tryReload(ctx context.Context) error {
	doc, err := loadConfig(d.opts.ConfigPath)
	if err != nil {
		return err
	}
	if keys := needRestart(d.cfg.Gateway, doc.Config.Gateway); len(keys) > 0 {
		return fmt.Errorf("l4lb.gateway: changing %s needs a restart", strings.Join(keys, ", "))
	}
	if err := d.controller.Reload(ctx, doc.Config); err != nil {
		return err
	}
	d.warn(doc)
	return nil
}

// needRestart names the keys of l4lb.gateway that differ and that a running
// gateway cannot change.
func needRestart(old, now lb.Gateway) []string {
	var keys []string
	for _, k := range []struct {
		name    string
		changed bool
	}{
		{"name", old.Name != now.Name},
		{"interfaces", !slices.Equal(old.Interfaces, now.Interfaces)},
		{"xdpMode", old.XDPMode != now.XDPMode},
		{"flowTable.entries", old.FlowTable.Entries != now.FlowTable.Entries},
		{"adminListen", old.AdminListen != now.AdminListen},
		{"metricsListen", old.MetricsListen != now.MetricsListen},
		{"hashSeed", old.HashSeed != now.HashSeed},
	} {
		if k.changed {
			keys = append(keys, k.name)
		}
	}
	return keys
}
