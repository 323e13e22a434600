package neigh

import "time"

// apply takes over what the kernel reported.
func (t *table) apply(e event, now time.Time) {
	switch e := e.(type) {
	case linkChanged:
		t.setLink(e.link, now)
	case linkGone:
		t.dropLink(e.index, now)
	case neighbourChanged:
		t.setNeighbour(e.neighbour, now)
	case neighbourGone:
		t.setNeighbour(neighbour{hop: e.hop}, now)
	case routeChanged:
		t.lookupWithin(e.dst)
	case rulesChanged:
		t.lookupAll()
	}
}

// replace takes over complete dumps: what is missing in them is gone. Routes are
// all looked up again.
func (t *table) replace(links []link, neighs []neighbour, now time.Time) {
	seenLinks := map[int]bool{}
	for _, l := range links {
		seenLinks[l.index] = true
		t.setLink(l, now)
	}
	for index := range t.links {
		if !seenLinks[index] {
			t.dropLink(index, now)
		}
	}
	seen := map[hop]bool{}
	for _, n := range neighs {
		seen[n.hop] = true
		t.setNeighbour(n, now)
	}
	for h := range t.neighs {
		if !seen[h] {
			t.setNeighbour(neighbour{hop: h}, now)
		}
	}
	t.lookupAll()
}

// setLink takes over a link's attributes. A link that came up or went down can
// change the way to every target: routes appear and vanish with it, IPv4 routes
// without a message of their own.
func (t *table) setLink(l link, now time.Time) {
	old, known := t.links[l.index]
	t.links[l.index] = l
	if known && old.name == l.name && old.mtu == l.mtu && old.up == l.up && sameMAC(old.mac, l.mac) {
		return
	}
	if old.up != l.up {
		t.lookupAll()
		for addr := range t.targets {
			t.changed[addr] = struct{}{} // NO_ROUTE or LINK_DOWN
		}
	}
	t.eachHopOn(l.index, func(h hop, hs *hopState) {
		t.usersOf(hs)
		switch {
		case old.up && !l.up:
			hs.grace = time.Time{}
		case !old.up && l.up:
			hs.backoff = t.timing.retryMin
			t.schedule(h, hs, now, true)
		}
	})
}

func (t *table) dropLink(index int, now time.Time) {
	if l, ok := t.links[index]; ok {
		l.up = false
		t.setLink(l, now)
		delete(t.links, index)
	}
}

func (t *table) eachHopOn(index int, f func(hop, *hopState)) {
	for h, hs := range t.hops {
		if h.link == index {
			f(h, hs)
		}
	}
}

// setNeighbour takes over a neighbour's state. An entry that disappears while
// its link address is good (it was flushed, or collected as garbage) says nothing
// about the host: the address stays in use until the kernel, asked again, says
// that nobody answers. The kernel reports a removal as a failure too, but a
// genuine one follows a probe.
func (t *table) setNeighbour(n neighbour, now time.Time) {
	old := t.neighs[n.hop]
	if n.state == absent {
		delete(t.neighs, n.hop)
	} else {
		t.neighs[n.hop] = n
	}
	hs := t.hops[n.hop]
	if hs == nil || old.state == n.state && sameMAC(old.mac, n.mac) {
		return
	}
	t.usersOf(hs)
	removed := old.state.valid() && (n.state == absent || n.state == failed && old.state != probing)
	switch {
	case n.state.valid():
		hs.mac, hs.grace = n.mac, time.Time{}
		if !old.state.valid() {
			hs.backoff = t.timing.retryMin
			t.schedule(n.hop, hs, now, false)
		}
	case removed:
		if t.links[n.link].up {
			hs.grace = now.Add(gracePeriod)
		}
		t.schedule(n.hop, hs, now, true)
	case n.state == failed:
		hs.grace = time.Time{}
		if old.state.valid() {
			// The old address no longer answers. Ask everybody at
			// once: the host may have got another one.
			t.schedule(n.hop, hs, now, true)
		}
	}
}
