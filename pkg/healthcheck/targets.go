package healthcheck

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

// asker is a health check at an address: what stays when parameters change.
type asker struct {
	addr  netip.Addr
	via   Via
	check string
}

// SetTargets makes targets the set that is probed. Targets with equal Keys are
// one. A target that was there before keeps its state, its counts and its
// rhythm. One whose parameters changed, known by address, backend and check name, keeps
// its state and is probed by the new parameters at once. A removed one is
// probed no more, and the result of its probe in flight is not used.
//
// A target the Checker never knew starts in the state initial returns for it,
// or UNKNOWN where initial is nil; initial must not call the Checker.
//
// SetTargets sends no Events: State has the states that hold when it returned.
// A target that cannot be probed is an error, and then nothing changes.
func (c *Checker) SetTargets(targets []Target, initial func(Target) lb.HealthState) error {
	wanted, err := c.merge(targets)
	if err != nil {
		return fmt.Errorf("set health check targets: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	known := c.askers()
	var added []*record
	for _, w := range wanted {
		if r := c.records[w.target]; r != nil {
			r.checks, r.logged = w.checks, w.logged
			continue
		}
		w.since = now
		if old := w.predecessor(known); old != nil {
			w.inherit(old)
		} else if initial != nil {
			w.machine = seeded(initial(w.target))
		}
		added = append(added, w)
	}
	c.drop(wanted)
	for _, r := range added {
		c.records[r.target] = r
	}
	if c.ctx != nil {
		c.scheduleFirst(added, now)
		c.poke()
	}
	return nil
}

// State is the present state of a target, and UNKNOWN of one that is not
// probed.
func (c *Checker) State(t Target) lb.HealthState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.records[t.Key()]; r != nil {
		return r.machine.state
	}
	return lb.Unknown
}

// merge checks targets and makes one fresh record of those that are the same.
func (c *Checker) merge(targets []Target) (map[Target]*record, error) {
	var errs []error
	wanted := make(map[Target]*record, len(targets))
	for _, t := range targets {
		key := t.Key()
		if c.probers[key.Check.Type] == nil {
			errs = append(errs, fmt.Errorf("target %s: no prober for health check type %q", t, t.Check.Type))
			continue
		}
		r := wanted[key]
		if r == nil {
			if err := key.validate(); err != nil {
				errs = append(errs, err)
				continue
			}
			r = newRecord(key, lb.Unknown, time.Time{})
			wanted[key] = r
		}
		r.logged = r.logged || t.Check.LogEnabled
		if at, found := slices.BinarySearch(r.checks, t.Check.Name); !found {
			r.checks = slices.Insert(r.checks, at, t.Check.Name)
		}
	}
	return wanted, errors.Join(errs...)
}

// askers finds the present records by address and check. The caller holds mu.
func (c *Checker) askers() map[asker]*record {
	known := make(map[asker]*record, len(c.records))
	for _, r := range c.records {
		for _, name := range r.checks {
			known[asker{r.target.Addr, r.target.Via, name}] = r
		}
	}
	return known
}

// predecessor is the record of the same check at the same address before its
// parameters changed, or nil.
func (r *record) predecessor(known map[asker]*record) *record {
	for _, name := range r.checks {
		if old := known[asker{r.target.Addr, r.target.Via, name}]; old != nil {
			return old
		}
	}
	return nil
}

// drop stops the records that are not wanted. The caller holds mu.
func (c *Checker) drop(wanted map[Target]*record) {
	for key, r := range c.records {
		if wanted[key] != nil {
			continue
		}
		delete(c.records, key)
		r.removed = true
		c.idle.remove(r)
		if r.cancel != nil {
			r.cancel()
		}
	}
}
