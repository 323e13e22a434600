package neigh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netns"
)

// reopenDelay lets a storm of changes pass before the kernel's tables are read
// again.
const reopenDelay = 500 * time.Millisecond

// errLost says that the kernel's messages were lost or the subscription ended.
var errLost = errors.New("lost netlink messages")

// Options tune a Resolver. The zero value is usable.
type Options struct {
	// Logger gets what an operator would want to know. nil: nothing is logged.
	Logger *slog.Logger
	// Namespace is the network namespace to look at, open until Run returns.
	// nil: that of the process.
	Namespace *netns.NsHandle
	// ProbeInterval is how often a link address is confirmed. 0: 15 s.
	ProbeInterval time.Duration
	// RetryMin and RetryMax bound the time between two questions for a next
	// hop that does not answer; it doubles in between. 0: 1 s and 30 s.
	RetryMin, RetryMax time.Duration
	// RouteInterval is how often routes are looked up without a reason. 0: 60 s.
	RouteInterval time.Duration
}

// Resolver follows a set of addresses. Its methods may be called from any
// goroutine.
type Resolver struct {
	log      *slog.Logger
	timing   timing
	open     func() (kernel, error)
	retarget chan struct{}
	changes  chan struct{}

	mu      sync.Mutex
	entries map[netip.Addr]Entry // one for each target
}

// New returns a resolver without targets. Nothing happens until Run.
func New(opts Options) *Resolver {
	ns := netns.None()
	if opts.Namespace != nil {
		ns = *opts.Namespace
	}
	return newResolver(opts, func() (kernel, error) { return openNetlink(ns) })
}

func newResolver(opts Options, open func() (kernel, error)) *Resolver {
	return &Resolver{
		log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		timing: timing{
			refresh:  cmp.Or(opts.ProbeInterval, 15*time.Second),
			retryMin: cmp.Or(opts.RetryMin, time.Second),
			retryMax: cmp.Or(opts.RetryMax, 30*time.Second),
			routes:   cmp.Or(opts.RouteInterval, time.Minute),
			linger:   time.Minute,
		},
		open:     open,
		retarget: make(chan struct{}, 1),
		changes:  make(chan struct{}, 1),
		entries:  map[netip.Addr]Entry{},
	}
}

// SetTargets replaces the set of addresses that are followed. IPv4-mapped
// addresses count as IPv4. New ones are PENDING until their route is known.
func (r *Resolver) SetTargets(addrs []netip.Addr) {
	now := time.Now()
	r.mu.Lock()
	entries := make(map[netip.Addr]Entry, len(addrs))
	for _, addr := range addrs {
		addr = addr.Unmap()
		e, ok := r.entries[addr]
		if !ok {
			e = Entry{Addr: addr, State: Pending, Since: now}
		}
		entries[addr] = e
	}
	r.entries = entries
	r.mu.Unlock()
	signal(r.retarget)
}

// Snapshot returns the entries of all targets. The map is the caller's.
func (r *Resolver) Snapshot() map[netip.Addr]Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.entries)
}

// Lookup returns the entry of one target.
func (r *Resolver) Lookup(addr netip.Addr) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[addr.Unmap()]
	return e, ok
}

// Changes delivers a value after entries changed in a way that matters to
// forwarding. Any number of changes may share one value. There is one channel:
// it has one reader.
func (r *Resolver) Changes() <-chan struct{} { return r.changes }

// Run follows the targets until the context ends and then returns nil. It
// returns an error only when the kernel cannot be asked from the start; later
// troubles are logged and mended. Neighbour entries that it made the kernel learn
// stay, so that a successor knows them at once.
func (r *Resolver) Run(ctx context.Context) error {
	table := newTable(r.timing)
	for first := true; ; first = false {
		k, err := r.open()
		if err != nil && first {
			return fmt.Errorf("follow neighbours: %w", err)
		}
		if err == nil {
			s := &session{r: r, k: k, table: table, log: changeLog{log: r.log}}
			err = s.run(ctx)
			k.close()
		}
		if ctx.Err() != nil {
			return nil
		}
		r.log.Warn("reading routes and neighbours anew", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reopenDelay):
		}
	}
}

// targets returns the set of addresses to follow.
func (r *Resolver) targets() map[netip.Addr]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[netip.Addr]struct{}, len(r.entries))
	for addr := range r.entries {
		out[addr] = struct{}{}
	}
	return out
}

// signal wakes the reader of a channel that holds one value.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
