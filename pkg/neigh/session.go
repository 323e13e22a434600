package neigh

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Work is done in portions, so that ten thousand targets neither hold up the
// reading of events nor flood the network with questions.
const (
	tickInterval   = 100 * time.Millisecond
	lookupsPerTick = 500
	probesPerTick  = 500
)

// session is the time between two losses of the subscription.
type session struct {
	r     *Resolver
	k     kernel
	table *table

	log changeLog

	lookups, probes int // left until the next tick
}

func (s *session) run(ctx context.Context) error {
	s.table.setTargets(s.r.targets(), time.Now())
	if err := s.resync(); err != nil {
		return err
	}
	s.refill()
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for {
		if err := s.work(); err != nil {
			return err
		}
		s.publish()
		select {
		case <-ctx.Done():
			return nil
		case <-s.r.retarget:
			s.table.setTargets(s.r.targets(), time.Now())
		case batch, ok := <-s.k.events():
			if !ok {
				return errLost
			}
			now := time.Now()
			for _, e := range batch {
				s.table.apply(e, now)
			}
		case <-tick.C:
			s.refill()
			s.table.due(time.Now())
			s.log.flush(time.Now())
		}
	}
}

func (s *session) refill() { s.lookups, s.probes = lookupsPerTick, probesPerTick }

// resync reads the kernel's tables. The subscription exists already: what
// changes meanwhile is reported too.
func (s *session) resync() error {
	links, err := s.k.links()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	neighs, err := s.k.neighbours()
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	s.table.replace(links, neighs, time.Now())
	return nil
}

// work looks up, probes and forgets what is queued, within the tick's portion.
func (s *session) work() error {
	for ; s.lookups > 0 && len(s.table.lookups) > 0; s.lookups-- {
		if err := s.lookup(); err != nil {
			return err
		}
	}
	var failed int
	var lastErr error
	for ; s.probes > 0; s.probes-- {
		h, ok := s.table.takeProbe(time.Now())
		if !ok {
			break
		}
		if err := s.k.probe(h); err != nil {
			failed++
			lastErr = fmt.Errorf("ask for %s on link %s: %w", h.via, s.table.links[h.link].name, err)
		}
	}
	if failed > 0 {
		s.r.log.Warn("asking for next hops did not work", "count", failed, "err", lastErr)
	}
	for _, h := range s.table.takeForgets(time.Now()) {
		if err := s.k.forget(h); err != nil {
			s.r.log.Debug("neighbour entry is left behind", "via", h.via, "err", err)
		}
	}
	return nil
}

// lookup asks for the first queued target's route. An answer other than yes or
// no ends the session.
func (s *session) lookup() error {
	addr, tg := s.table.takeLookup()
	if tg == nil {
		return nil
	}
	now := time.Now()
	tg.nextLookup = now.Add(spread(s.r.timing.routes))
	route, err := s.k.route(addr)
	if err != nil && !errors.Is(err, errNoRoute) {
		return fmt.Errorf("look up route to %s: %w", addr, err)
	}
	s.table.setRoute(addr, route, err, now)
	return nil
}

// publish brings the entries that readers see up to date.
func (s *session) publish() {
	if len(s.table.changed) == 0 {
		return
	}
	now := time.Now()
	var changes []change
	s.r.mu.Lock()
	for addr := range s.table.changed {
		old, ok := s.r.entries[addr]
		if !ok || s.table.targets[addr] == nil {
			continue // no target any more
		}
		e := s.table.entry(addr, now)
		if e.MAC == nil && (e.Via == old.Via || !e.Via.IsValid()) {
			e.MAC = old.MAC
		}
		e.Since = old.Since
		if !e.sameWay(old) {
			e.Since = now
			changes = append(changes, change{old, e})
		}
		s.r.entries[addr] = e
	}
	s.r.mu.Unlock()
	clear(s.table.changed)
	if len(changes) > 0 {
		signal(s.r.changes)
		s.log.add(changes)
	}
}
