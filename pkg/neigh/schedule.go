package neigh

import (
	"math/rand/v2"
	"time"
)

// timing holds the intervals of Options, defaults filled in.
type timing struct {
	refresh  time.Duration
	retryMin time.Duration
	retryMax time.Duration
	routes   time.Duration
	linger   time.Duration // how long an unused hop is kept
}

// spread shortens an interval by up to a fifth, so that what began together does
// not stay together.
func spread(d time.Duration) time.Duration {
	return d - rand.N(d/5+1)
}

// schedule plans a hop's next probe: at once, or when its state asks for it.
func (t *table) schedule(h hop, hs *hopState, now time.Time, atOnce bool) {
	n := t.neighs[h]
	switch {
	case atOnce && n.state < reachable:
		hs.nextProbe = now
		t.probe(h, hs)
	case n.state.valid():
		hs.nextProbe = now.Add(spread(t.timing.refresh))
	default:
		hs.nextProbe = now.Add(hs.backoff)
	}
}

// probe queues a probe.
func (t *table) probe(h hop, hs *hopState) {
	if !hs.queued {
		hs.queued = true
		t.probes = append(t.probes, h)
	}
}

// due queues the probes and lookups whose time has come, and ends grace.
func (t *table) due(now time.Time) {
	for addr, tg := range t.targets {
		if !now.Before(tg.nextLookup) {
			t.lookup(addr)
		}
	}
	for h, hs := range t.hops {
		if !now.Before(hs.nextProbe) {
			t.probe(h, hs)
		}
		if !hs.grace.IsZero() && !now.Before(hs.grace) {
			hs.grace = time.Time{}
			t.usersOf(hs)
		}
	}
}

// takeProbe returns the next hop to probe. Hops whose state makes a probe
// useless are put off.
func (t *table) takeProbe(now time.Time) (hop, bool) {
	for len(t.probes) > 0 {
		h := t.probes[0]
		t.probes = t.probes[1:]
		hs := t.hops[h]
		if hs == nil {
			continue
		}
		hs.queued = false
		n, l := t.neighs[h], t.links[h.link]
		hs.nextProbe = now.Add(spread(t.timing.refresh))
		if !l.up || !l.ethernet() || n.state >= reachable {
			continue
		}
		if !n.state.valid() {
			hs.nextProbe = now.Add(hs.backoff)
			hs.backoff = min(2*hs.backoff, t.timing.retryMax)
		}
		hs.probed = true
		return h, true
	}
	return hop{}, false
}

// takeForgets returns the hops to give back to the kernel.
func (t *table) takeForgets(now time.Time) []hop {
	var out []hop
	for h, at := range t.forgets {
		if !now.Before(at) {
			out = append(out, h)
			delete(t.forgets, h)
		}
	}
	return out
}
