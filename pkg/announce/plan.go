package announce

import (
	"math/rand/v2"
	"time"
)

// burst is when a gained address is announced, from the moment on at which it was
// gained: three times, because one frame can be lost, and some switches drop the
// first ones on a port that just came up.
var burst = [...]time.Duration{0, 200 * time.Millisecond, time.Second}

// A portion of frames and the pause after it: 4000 frames a second at most, so
// that a gateway that gains ten thousand addresses does not flood the segment.
const (
	portion = 200
	pause   = 50 * time.Millisecond
)

// link is an Ethernet interface.
type link struct {
	index int
	name  string
	mac   [6]byte
	up    bool // administratively, with carrier, and with an Ethernet address
}

// plan says what is to be announced when. It does no I/O.
type plan struct {
	interval time.Duration
	links    map[string]link
	items    map[Announcement]*item
}

// item is one announcement's schedule.
type item struct {
	gained time.Time // start of the current burst
	sent   int       // frames since then
	next   time.Time
}

// due is an announcement whose time has come.
type due struct {
	Announcement
	link link
}

func newPlan(interval time.Duration) *plan {
	return &plan{interval: interval, links: map[string]link{}, items: map[Announcement]*item{}}
}

// set replaces the announcements and returns the differences.
func (p *plan) set(want []Announcement, now time.Time) (gained, lost []Announcement) {
	keep := make(map[Announcement]bool, len(want))
	for _, a := range want {
		a.Addr = a.Addr.Unmap()
		if keep[a] {
			continue
		}
		keep[a] = true
		if p.items[a] == nil {
			p.items[a] = &item{gained: now, next: now}
			gained = append(gained, a)
		}
	}
	for a := range p.items {
		if !keep[a] {
			delete(p.items, a)
			lost = append(lost, a)
		}
	}
	return gained, lost
}

// ready reports whether the announcement's link can send.
func (p *plan) ready(a Announcement) bool { return p.links[a.Iface].up }

// setLinks replaces all links.
func (p *plan) setLinks(links []link, now time.Time) {
	seen := map[string]bool{}
	for _, l := range links {
		seen[l.name] = true
		p.setLink(l, now)
	}
	for name := range p.links {
		if !seen[name] {
			delete(p.links, name)
		}
	}
}

// setLink takes over a link's state. When it came up, or is another link or has
// another address than before, everything on it is announced as if just gained:
// whoever is at the other end may be somebody new.
func (p *plan) setLink(l link, now time.Time) {
	for name, old := range p.links {
		if old.index == l.index && name != l.name {
			delete(p.links, name) // renamed
		}
	}
	old := p.links[l.name]
	p.links[l.name] = l
	if old == l || !l.up {
		return
	}
	for a, it := range p.items {
		if a.Iface == l.name {
			*it = item{gained: now, next: now}
		}
	}
}

// take returns what is due now, at most a portion, and how long to wait before
// the next call.
func (p *plan) take(now time.Time) ([]due, time.Duration) {
	var out []due
	wait := p.interval
	for a, it := range p.items {
		l := p.links[a.Iface]
		if !l.up {
			continue // setLink starts it again
		}
		if !now.Before(it.next) {
			if len(out) == portion {
				return out, pause
			}
			out = append(out, due{a, l})
			it.advance(now, p.interval)
		}
		wait = min(wait, it.next.Sub(now))
	}
	if len(out) > 0 {
		wait = max(wait, pause)
	}
	return out, wait
}

// advance plans the announcement after one that is sent now. Periodic ones are
// spread by up to a tenth, so that what began together does not stay together.
func (it *item) advance(now time.Time, interval time.Duration) {
	it.sent++
	if it.sent < len(burst) {
		it.next = it.gained.Add(burst[it.sent])
		if it.next.Before(now) { // held up by its portion
			it.next = now.Add(burst[it.sent] - burst[it.sent-1])
		}
		return
	}
	it.next = now.Add(interval - rand.N(interval/10+1))
}
