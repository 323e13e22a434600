package neigh

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"time"
)

// gracePeriod bounds how long a link address is used although its neighbour
// entry disappeared. The kernel needs 3 s to find out that nobody answers.
const gracePeriod = 10 * time.Second

// table is what is known of the kernel and of the targets. It does no I/O: it
// queues what must be looked up and probed, and which entries changed.
type table struct {
	timing  timing
	links   map[int]link
	neighs  map[hop]neighbour
	targets map[netip.Addr]*target
	sorted  []netip.Addr // keys of targets, for prefixes
	hops    map[hop]*hopState

	lookups []netip.Addr // queue of route lookups; target.queued is set
	probes  []hop        // queue of probes; hopState.queued is set
	// forgets are probed hops that no target uses any more, with the time to
	// give them back: a route that moves away often comes back.
	forgets map[hop]time.Time
	changed map[netip.Addr]struct{}
}

// target is one address that is followed.
type target struct {
	state      State // Pending, NoRoute, Local, or "" when hop is known
	hop        hop
	mtu        int
	source     netip.Addr
	lastLink   int
	nextLookup time.Time
	queued     bool
}

// hopState is a neighbour that at least one target uses.
type hopState struct {
	targets   map[netip.Addr]struct{}
	mac       net.HardwareAddr // the last one known
	grace     time.Time        // until then mac counts though the entry is absent
	nextProbe time.Time
	backoff   time.Duration
	probed    bool
	queued    bool
}

func newTable(t timing) *table {
	return &table{
		timing: t, links: map[int]link{}, neighs: map[hop]neighbour{},
		targets: map[netip.Addr]*target{}, hops: map[hop]*hopState{},
		forgets: map[hop]time.Time{}, changed: map[netip.Addr]struct{}{},
	}
}

// setTargets replaces the addresses that are followed.
func (t *table) setTargets(want map[netip.Addr]struct{}, now time.Time) {
	for addr, tg := range t.targets {
		if _, ok := want[addr]; !ok {
			t.leave(addr, tg, now)
			delete(t.targets, addr)
		}
	}
	t.sorted = t.sorted[:0]
	for addr := range want {
		t.sorted = append(t.sorted, addr)
		if t.targets[addr] == nil {
			t.targets[addr] = &target{state: Pending}
			t.lookup(addr)
		}
	}
	slices.SortFunc(t.sorted, netip.Addr.Compare)
}

// setRoute records the answer of a route lookup.
func (t *table) setRoute(addr netip.Addr, r route, err error, now time.Time) {
	tg := t.targets[addr]
	if tg == nil {
		return
	}
	state := State("")
	switch {
	case err == nil && r.local:
		state, r = Local, route{}
	case err != nil || r.link == 0:
		state, r = NoRoute, route{}
	}
	if tg.state == state && tg.hop == r.hop && tg.mtu == r.mtu && tg.source == r.source {
		return
	}
	t.changed[addr] = struct{}{}
	if tg.hop != r.hop {
		t.leave(addr, tg, now)
		t.join(addr, r.hop, now)
	}
	tg.state, tg.hop, tg.mtu, tg.source = state, r.hop, r.mtu, r.source
	if r.link != 0 {
		tg.lastLink = r.link
	}
}

// join makes a target use a hop.
func (t *table) join(addr netip.Addr, h hop, now time.Time) {
	if h == (hop{}) {
		return
	}
	hs := t.hops[h]
	if hs == nil {
		n := t.neighs[h]
		_, probed := t.forgets[h]
		delete(t.forgets, h)
		hs = &hopState{targets: map[netip.Addr]struct{}{}, backoff: t.timing.retryMin, mac: n.mac, probed: probed}
		t.hops[h] = hs
		t.schedule(h, hs, now, true)
	}
	hs.targets[addr] = struct{}{}
}

// leave makes a target use no hop, and drops the hop with its last target.
func (t *table) leave(addr netip.Addr, tg *target, now time.Time) {
	hs := t.hops[tg.hop]
	if hs == nil {
		return
	}
	delete(hs.targets, addr)
	if len(hs.targets) > 0 {
		return
	}
	if hs.probed {
		t.forgets[tg.hop] = now.Add(t.timing.linger)
	}
	delete(t.hops, tg.hop)
}

// lookup queues a route lookup.
func (t *table) lookup(addr netip.Addr) {
	if tg := t.targets[addr]; tg != nil && !tg.queued {
		tg.queued = true
		t.lookups = append(t.lookups, addr)
	}
}

// takeLookup returns the first queued target, or nil where it is none any more.
func (t *table) takeLookup() (netip.Addr, *target) {
	addr := t.lookups[0]
	t.lookups = t.lookups[1:]
	tg := t.targets[addr]
	if tg != nil {
		tg.queued = false
	}
	return addr, tg
}

// lookupAll queues lookups of every target.
func (t *table) lookupAll() {
	for _, addr := range t.sorted {
		t.lookup(addr)
	}
}

// lookupWithin queues lookups of the targets in a prefix.
func (t *table) lookupWithin(p netip.Prefix) {
	from, _ := slices.BinarySearchFunc(t.sorted, p.Masked().Addr(), netip.Addr.Compare)
	for _, addr := range t.sorted[from:] {
		if !p.Contains(addr) {
			return
		}
		t.lookup(addr)
	}
}

// entry describes the way to a target. The caller fills in Since and a MAC that
// only an earlier entry had.
func (t *table) entry(addr netip.Addr, now time.Time) Entry {
	tg := t.targets[addr]
	e := Entry{Addr: addr, State: tg.state}
	if tg.state == NoRoute {
		// Taking a link down takes its routes along; the link is the cause.
		if l, ok := t.links[tg.lastLink]; ok && !l.up {
			e.State, e.LinkIndex, e.LinkName = LinkDown, l.index, l.name
		}
	}
	if tg.state != "" {
		return e
	}
	l, hs := t.links[tg.hop.link], t.hops[tg.hop]
	e.Via, e.MAC = tg.hop.via, hs.mac
	e.LinkIndex, e.LinkName, e.SrcMAC, e.MTU = tg.hop.link, l.name, l.mac, l.mtu
	e.Source = tg.source
	if tg.mtu > 0 {
		e.MTU = min(e.MTU, tg.mtu)
	}
	e.State = t.hopReach(tg.hop, l, hs, now)
	return e
}

func (t *table) hopReach(h hop, l link, hs *hopState, now time.Time) State {
	n := t.neighs[h]
	switch {
	case !l.up:
		return LinkDown
	case !l.ethernet():
		return NotEthernet
	case n.state >= reachable:
		return Resolved
	case n.state.valid(), now.Before(hs.grace):
		return Stale
	}
	return Unresolved
}

// usersOf marks the entries of all targets of a hop as changed.
func (t *table) usersOf(hs *hopState) {
	for addr := range hs.targets {
		t.changed[addr] = struct{}{}
	}
}

// sameMAC compares link addresses.
func sameMAC(a, b net.HardwareAddr) bool { return bytes.Equal(a, b) }
