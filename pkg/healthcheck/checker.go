// Package healthcheck probes backends and decides which of them are healthy
// (semantics.md 5). A Checker runs all probes of a gateway from one schedule;
// a Prober knows one protocol; a small state machine turns results into
// states.
package healthcheck

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"l4lb/pkg/lb"
)

// ErrRunning is returned by Run of a Checker that runs or ran already.
var ErrRunning = errors.New("health checker was started before")

// defaultMaxInFlight is also what a gateway whose every backend hangs needs
// for that many backends; descriptors must suffice for it.
const defaultMaxInFlight = 16384

// Options configures a Checker. The zero value is usable.
type Options struct {
	// Logger gets one entry per change of state. Nil discards them.
	Logger *slog.Logger
	// Dialer is used by the default probers.
	Dialer *Dialer
	// Probers adds to or replaces the default probers.
	Probers map[lb.HealthCheckType]Prober
	// MaxInFlight bounds probes in flight, and with them goroutines and
	// sockets. 0 means 16384. Probes over the bound wait and count as late.
	MaxInFlight int
}

// Checker probes a set of targets. All methods may be called from any
// goroutine.
type Checker struct {
	log         *slog.Logger
	probers     map[lb.HealthCheckType]Prober
	maxInFlight int
	random      func(int64) int64
	events      chan Event
	wake        chan struct{}
	probes      sync.WaitGroup

	mu          sync.Mutex
	ctx         context.Context // of Run; nil before
	records     map[Target]*record
	idle        schedule
	waiting     []*record // due, but MaxInFlight probes are in flight
	queue       queue
	alarm       time.Time // when Run looks at the schedule next
	inFlight    int
	lateness    Histogram
	latency     map[lb.HealthCheckType]*Histogram
	damped      map[lb.HealthCheckType]uint64
	transitions map[Change]uint64
	localWarn   time.Time // last warning about the gateway itself
}

// New returns a Checker without targets.
func New(o Options) *Checker {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dialer == nil {
		o.Dialer = &Dialer{}
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = defaultMaxInFlight
	}
	probers := DefaultProbers(o.Dialer)
	maps.Copy(probers, o.Probers)
	return &Checker{
		log: o.Logger, probers: probers, maxInFlight: o.MaxInFlight, random: rand.Int64N,
		events: make(chan Event), wake: make(chan struct{}, 1),
		records: map[Target]*record{}, latency: map[lb.HealthCheckType]*Histogram{},
		damped: map[lb.HealthCheckType]uint64{}, transitions: map[Change]uint64{},
	}
}

// Events delivers changes of state and weight, in order, while Run runs. It is
// never closed. A reader that falls behind delays no probe; it finds what
// happened to a target in the meantime merged into one Event. Right after
// SetTargets one Event of a target that was removed may still come.
func (c *Checker) Events() <-chan Event { return c.events }

// Run probes until ctx ends, then cancels what is in flight, waits for it and
// returns nil. A Checker runs once.
func (c *Checker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !c.begin(ctx) {
		return ErrRunning
	}
	defer c.probes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var held *pending
	for {
		var wait time.Duration
		held, wait = c.step(time.Now(), held)
		timer.Reset(wait)
		var out chan<- Event
		var event Event
		if held != nil {
			out, event = c.events, held.event
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-c.wake:
		case out <- event:
			held = nil
		}
	}
}

// begin puts the targets that were set before Run on the schedule.
func (c *Checker) begin(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return false
	}
	c.ctx = ctx
	all := make([]*record, 0, len(c.records))
	for _, r := range c.records {
		all = append(all, r)
	}
	c.scheduleFirst(all, time.Now())
	return true
}

// step starts what is due and returns the event to offer and the time to sleep.
func (c *Checker) step(now time.Time, held *pending) (*pending, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := c.idle.takeDue(now); r != nil; r = c.idle.takeDue(now) {
		c.waiting = append(c.waiting, r)
	}
	c.startWaiting()
	if held != nil && held.rec.removed {
		held = nil
	}
	if held == nil {
		held = c.queue.pop()
	}
	wait := time.Hour
	if len(c.idle) > 0 {
		wait = c.idle[0].due.Sub(now)
	}
	c.alarm = now.Add(wait)
	return held, wait
}

// scheduleFirst gives records their first start. The caller holds mu.
func (c *Checker) scheduleFirst(list []*record, now time.Time) {
	for _, r := range list {
		r.due = now.Add(firstDelay(len(list), r.target.Check.CheckInterval, c.random))
		c.idle.add(r)
	}
}

// poke makes Run look at the schedule and the events again.
func (c *Checker) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
