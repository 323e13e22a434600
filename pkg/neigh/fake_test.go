package neigh

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"l4lb/internal/testutil"
)

// fakeKernel has one link and one route for everything, and counts what it is
// asked.
type fakeKernel struct {
	mu      sync.Mutex
	ch      chan []event
	linkSet []link
	neighs  []neighbour
	via     netip.Addr // router; not valid: everything is on the link
	probes  []probed
	lookups int
	opens   int
}

type probed struct {
	hop
	at time.Duration // since the start
}

var (
	fakeLink = link{index: 7, name: "eth0", mac: testutil.GatewayMAC, mtu: 1500, up: true}
	start    = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every synctest bubble
)

func (k *fakeKernel) open() (kernel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opens++
	k.ch = make(chan []event)
	return k, nil
}

func (k *fakeKernel) events() <-chan []event           { return k.ch }
func (k *fakeKernel) links() ([]link, error)           { return k.linkSet, nil }
func (k *fakeKernel) neighbours() ([]neighbour, error) { return k.neighs, nil }
func (k *fakeKernel) forget(hop) error                 { return nil }
func (k *fakeKernel) close()                           {}

func (k *fakeKernel) route(dst netip.Addr) (route, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lookups++
	if k.via.IsValid() {
		dst = k.via
	}
	return route{hop: hop{fakeLink.index, dst}}, nil
}

func (k *fakeKernel) probe(h hop) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.probes = append(k.probes, probed{h, time.Since(start)})
	return nil
}

// pass lets time go by and everything that happens then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// taken returns and clears what was counted.
func (k *fakeKernel) taken() (lookups int, probes []probed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	lookups, probes = k.lookups, k.probes
	k.lookups, k.probes = 0, nil
	return lookups, probes
}

// inBubble runs a resolver over a fake kernel under synthetic time.
func inBubble(t *testing.T, k *fakeKernel, targets []netip.Addr, f func(t *testing.T, r *Resolver)) {
	t.Helper()
	if k.linkSet == nil {
		k.linkSet = []link{fakeLink}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(Options{}, k.open)
		r.SetTargets(targets)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		f(t, r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func resolved(addr netip.Addr, state reach) neighbour {
	return neighbour{hop{fakeLink.index, addr}, testutil.BackendAMAC, state}
}

func many(n int) []netip.Addr {
	out, a := make([]netip.Addr, 0, n), netip.MustParseAddr("10.1.0.1")
	for range n {
		out = append(out, a)
		a = a.Next()
	}
	return out
}

func TestUnansweredQuestionsBackOff(t *testing.T) {
	k := &fakeKernel{}
	inBubble(t, k, many(1), func(t *testing.T, r *Resolver) {
		pass(100 * time.Second)
		_, probes := k.taken()
		want := []time.Duration{0, 1, 3, 7, 15, 31, 61, 91} // doubling to 30 s
		if len(probes) != len(want) {
			t.Fatalf("probed %d times, want %d: %v", len(probes), len(want), probes)
		}
		for i, p := range probes {
			if late := p.at - want[i]*time.Second; late < 0 || late > time.Second {
				t.Errorf("probe %d after %s, want %s", i, p.at, want[i]*time.Second)
			}
		}
	})
}

func TestStaleAddressesAreConfirmedAndReachableOnesLeftAlone(t *testing.T) {
	addrs := many(2)
	k := &fakeKernel{neighs: []neighbour{resolved(addrs[0], stale), resolved(addrs[1], reachable)}}
	inBubble(t, k, addrs, func(t *testing.T, r *Resolver) {
		pass(time.Minute)
		_, probes := k.taken()
		for _, p := range probes {
			if p.via != addrs[0] {
				t.Errorf("%s was asked though it is confirmed", p.via)
			}
		}
		if n := len(probes); n < 4 || n > 6 {
			t.Errorf("a stale address was confirmed %d times in a minute, want about every 15 s", n)
		}
	})
}

func TestTenThousandBackendsCostLittle(t *testing.T) {
	addrs := many(10_000)
	k := &fakeKernel{via: netip.MustParseAddr("10.0.0.254")}
	k.neighs = []neighbour{resolved(k.via, stale)}
	inBubble(t, k, addrs, func(t *testing.T, r *Resolver) {
		pass(3 * time.Second)
		for addr, e := range r.Snapshot() {
			if !e.Usable() || e.Via != k.via {
				t.Fatalf("%s is not resolved after 3 s: %+v", addr, e)
			}
		}
		k.taken()
		pass(10 * time.Minute)
		lookups, probes := k.taken()
		if perSecond := lookups / 600; perSecond > 250 {
			t.Errorf("%d route lookups per second at rest", perSecond)
		}
		if len(probes) > 60 {
			t.Errorf("the one router was asked %d times in 10 minutes", len(probes))
		}
		// A route concerns only the targets in it.
		k.ch <- []event{routeChanged{netip.MustParsePrefix("10.1.1.0/24")}}
		synctest.Wait()
		// Some of the periodic lookups can fall into the same moment.
		if lookups, _ := k.taken(); lookups < 256 || lookups > 300 {
			t.Errorf("a changed /24 made %d lookups, want 256", lookups)
		}
	})
}

func TestLostMessagesLeadToAResync(t *testing.T) {
	addr := many(1)[0]
	k := &fakeKernel{neighs: []neighbour{resolved(addr, reachable)}}
	inBubble(t, k, many(1), func(t *testing.T, r *Resolver) {
		before, _ := r.Lookup(addr)
		if !before.Usable() {
			t.Fatalf("not resolved: %+v", before)
		}
		<-r.Changes()
		moved := resolved(addr, reachable)
		moved.mac = testutil.BackendBMAC
		k.neighs = []neighbour{moved}
		close(k.ch)
		if e, _ := r.Lookup(addr); !e.Usable() {
			t.Error("the entry was withdrawn while the tables are read anew")
		}
		<-r.Changes()
		synctest.Wait()
		e, _ := r.Lookup(addr)
		if k.opens != 2 || !sameMAC(e.MAC, testutil.BackendBMAC) || time.Since(start) > time.Second {
			t.Errorf("after %s and %d opens: %+v", time.Since(start), k.opens, e)
		}
	})
}

func TestRemovedNeighbourIsTrustedForAWhileOnly(t *testing.T) {
	addr := many(1)[0]
	k := &fakeKernel{neighs: []neighbour{resolved(addr, stale)}}
	inBubble(t, k, many(1), func(t *testing.T, r *Resolver) {
		k.ch <- []event{neighbourGone{hop{fakeLink.index, addr}}}
		synctest.Wait()
		if e, _ := r.Lookup(addr); e.State != Stale {
			t.Errorf("right after: %s, want STALE", e.State)
		}
		pass(gracePeriod + time.Second)
		if e, _ := r.Lookup(addr); e.State != Unresolved || !sameMAC(e.MAC, testutil.BackendAMAC) {
			t.Errorf("after the grace period: %+v, want UNRESOLVED with the last MAC", e)
		}
	})
}

func TestLinkWithoutEthernetIsNamed(t *testing.T) {
	tun := fakeLink
	tun.mac = nil
	inBubble(t, &fakeKernel{linkSet: []link{tun}}, many(1), func(t *testing.T, r *Resolver) {
		if e, _ := r.Lookup(many(1)[0]); e.State != NotEthernet {
			t.Errorf("state is %s, want NOT_ETHERNET", e.State)
		}
	})
}

func TestRunReportsAKernelThatCannotBeOpened(t *testing.T) {
	errDenied := errors.New("denied")
	r := newResolver(Options{}, func() (kernel, error) { return nil, errDenied })
	if err := r.Run(t.Context()); !errors.Is(err, errDenied) {
		t.Errorf("got %v, want %v", err, errDenied)
	}
}
