package daemon

import (
	"context"
	"log/slog"
	"time"

	"l4lb/pkg/admin"
	"l4lb/pkg/controller"
	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
	"l4lb/pkg/passive"
)

// observeEvery is how often passive signals are looked at.
const observeEvery = time.Second

// suspicions watches the backends of services with passiveSignals. It reads and
// reports: nothing leads from here to the maps.
type suspicions struct {
	watch *passive.Watch
	log   *slog.Logger
	// state gives the configuration in force and the snapshot that belongs
	// to it, nil before there is one.
	state    func() (*lb.Config, *controller.Snapshot)
	counters interface {
		Signals(record uint32) (loader.Signals, error)
	}
}

// run observes until ctx ends.
func (s *suspicions) run(ctx context.Context) error {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s.observe(now)
		}
	}
}

func (s *suspicions) observe(now time.Time) {
	cfg, snapshot := s.state()
	if snapshot == nil {
		return
	}
	for _, c := range s.watch.Observe(now, s.groups(cfg, snapshot)) {
		s.report(c, now)
	}
}

// groups reads what was counted of services that want it.
func (s *suspicions) groups(cfg *lb.Config, snapshot *controller.Snapshot) []passive.Group {
	slots := map[string][]uint32{}
	for _, r := range snapshot.Rules {
		slots[r.Rule.Service] = append(slots[r.Rule.Service], r.StatSlot)
	}
	var out []passive.Group
	for i := range snapshot.Services {
		service := &snapshot.Services[i]
		configured := cfg.Service(service.Name)
		if configured == nil || configured.PassiveSignals == nil {
			continue
		}
		g := passive.Group{Policy: *configured.PassiveSignals, Members: map[passive.Key]passive.Counts{}}
		for _, m := range service.Members {
			counts, err := s.read(m.StatBase, slots[service.Name])
			if err != nil {
				s.log.Error("read passive signals", "service", service.Name, "err", err)
				return nil
			}
			g.Members[passive.Key{Service: service.Name, Instance: m.Backend.Instance, Addr: m.Backend.Addr}] = counts
		}
		out = append(out, g)
	}
	return out
}

// read sums a backend's counts over the rules of its service.
func (s *suspicions) read(base uint32, slots []uint32) (sum passive.Counts, err error) {
	for _, slot := range slots {
		c, err := s.counters.Signals(base + slot)
		if err != nil {
			return sum, err
		}
		sum.SYNs += c.SYNs
		sum.Confirmed += c.Confirmed
		sum.Unreachable += c.Unreachable
	}
	return sum, nil
}

func (s *suspicions) report(c passive.Change, now time.Time) {
	k := c.Key
	log := s.log.With("service", k.Service, "backend", k.Instance, "ip_address", k.Addr.String(),
		"signal", string(c.Signal), "why", c.Why)
	if c.Ended {
		log.Info("backend is no longer suspected", "lasted", now.Sub(c.Since).Round(time.Second).String())
		return
	}
	log.Warn("backend is suspected; it stays as eligible as it is")
}

// shown are a backend's suspicions for the local API.
func shown(list []passive.Suspicion) []admin.Suspicion {
	out := []admin.Suspicion{}
	for _, s := range list {
		out = append(out, admin.Suspicion{Signal: string(s.Signal), Why: s.Why, Since: s.Since})
	}
	return out
}
