// Package announce tells the segment who owns an address: by gratuitous ARP for
// IPv4 and unsolicited neighbour advertisements for IPv6. Owners announce at once,
// so that a failover takes no longer than a frame, and then again and again, so
// that switches do not forget the port and flood, and hosts that missed the first
// frames learn all the same.
package announce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netns"
)

// DefaultInterval is the time between two periodic announcements. It is well
// below the 300 s after which switches commonly forget a link address.
const DefaultInterval = 60 * time.Second

// reopenDelay lets a storm of link changes pass before the links are read again.
const reopenDelay = 500 * time.Millisecond

// errLost says that the kernel's messages were lost or the subscription ended.
var errLost = errors.New("lost netlink messages")

// Announcement is one address on one interface.
type Announcement struct {
	Iface string
	Addr  netip.Addr
}

// Options tune an Announcer. The zero value is usable.
type Options struct {
	// Logger gets what an operator would want to know. nil: nothing is logged.
	Logger *slog.Logger
	// Interval is the time between two periodic announcements of an address.
	// 0: DefaultInterval.
	Interval time.Duration
	// Namespace is the network namespace to announce in, open until Run
	// returns. nil: that of the process.
	Namespace *netns.NsHandle
}

// Announcer announces a set of addresses. Its methods may be called from any
// goroutine.
type Announcer struct {
	log      *slog.Logger
	interval time.Duration
	open     func() (wire, error)
	changed  chan struct{}

	mu   sync.Mutex
	want []Announcement
}

// New returns an announcer of nothing. Nothing happens until Run.
func New(opts Options) *Announcer {
	ns := netns.None()
	if opts.Namespace != nil {
		ns = *opts.Namespace
	}
	return newAnnouncer(opts, func() (wire, error) { return openWire(ns) })
}

func newAnnouncer(opts Options, open func() (wire, error)) *Announcer {
	return &Announcer{
		log:      cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		interval: cmp.Or(opts.Interval, DefaultInterval),
		open:     open,
		changed:  make(chan struct{}, 1),
	}
}

// Set replaces the set of addresses. One that is new to the set is announced at
// once, three times; one that left it is not announced any more; the others go on
// as before. An interface that does not exist yet or is down is waited for.
func (a *Announcer) Set(list []Announcement) {
	a.mu.Lock()
	a.want = append([]Announcement(nil), list...)
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Run announces until the context ends and then returns nil. It returns an error
// only when the sockets cannot be opened at the start, which needs CAP_NET_RAW;
// later troubles are logged and mended.
func (a *Announcer) Run(ctx context.Context) error {
	plan := newPlan(a.interval)
	for first := true; ; first = false {
		w, err := a.open()
		if err != nil && first {
			return fmt.Errorf("announce addresses: %w", err)
		}
		if err == nil {
			err = a.session(ctx, plan, w)
			w.close()
		}
		if ctx.Err() != nil {
			return nil
		}
		a.log.Warn("reading links anew", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reopenDelay):
		}
	}
}

// session announces until the context ends or the subscription is lost.
func (a *Announcer) session(ctx context.Context, p *plan, w wire) error {
	links, err := w.links()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	p.setLinks(links, time.Now())
	a.adopt(p)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
			a.adopt(p)
		case l, ok := <-w.events():
			if !ok {
				return errLost
			}
			p.setLink(l, time.Now())
		case <-timer.C:
		}
		timer.Reset(a.send(p, w))
	}
}

// adopt takes over the set.
func (a *Announcer) adopt(p *plan) {
	a.mu.Lock()
	want := a.want
	a.mu.Unlock()
	gained, lost := p.set(want, time.Now())
	for _, an := range gained {
		if p.ready(an) {
			a.log.Info("announcing address", "vip", an.Addr, "link", an.Iface)
		} else {
			a.log.Warn("address waits for its link to come up", "vip", an.Addr, "link", an.Iface)
		}
	}
	for _, an := range lost {
		a.log.Info("no longer announcing address", "vip", an.Addr, "link", an.Iface)
	}
}

// send sends what is due and returns how long nothing more will be.
func (a *Announcer) send(p *plan, w wire) time.Duration {
	due, wait := p.take(time.Now())
	var failed int
	var lastErr error
	for _, d := range due {
		if err := w.send(d.link.index, frame(d.Addr, d.link.mac)); err != nil {
			failed++
			lastErr = fmt.Errorf("announce %s on %s: %w", d.Addr, d.Iface, err)
		}
	}
	if failed > 0 {
		a.log.Warn("announcements were not sent", "count", failed, "err", lastErr)
	}
	return wait
}
