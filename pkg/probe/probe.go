// Package probe delivers health check probes through the data plane: a probe is
// addressed to a VIP, comes from the gateway's own address, and goes to the one
// backend that it tests, in the frame or tunnel that the VIP's traffic gets
// (semantics.md 5.3). The gateway's kernel owns no VIP for that.
//
// A probe's socket carries a mark. A routing rule sends what is marked to a
// veth device of ours, whose exit has a program that finds the backend by the
// mark, writes the link addresses and sends the frame out of the interface
// towards the backend. The answer comes back to the gateway's own address by
// its normal way. Device, rules and routes go with Close; what a killed process
// left is removed when the gateway of the same name starts again.
package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
)

const (
	// sourceTTL is how long a source address is used before the kernel is
	// asked again: addresses of the gateway seldom change.
	sourceTTL = 30 * time.Second
	// verifyEvery is how often the set-up is looked at without a reason.
	verifyEvery = 10 * time.Second
)

// Options tune an Output. Gateway is required.
type Options struct {
	// Gateway names the gateway: what an earlier process of it left is
	// removed, what belongs to others is not.
	Gateway string
	// Logger gets what an operator would want to know. Nil discards it.
	Logger *slog.Logger
}

// Path is the way to one backend.
type Path struct {
	Backend    netip.Addr
	Way        lb.Way
	IfIndex    int     // of the interface towards the backend
	DMAC, SMAC [6]byte // of the next hop and of that interface
	MTU        int     // bytes, of that interface
	// Tunnel is what clients' packets to the backend get around them; the
	// zero Header where there is no tunnel.
	Tunnel encap.Header
	// Usable: a frame can be sent now. Probes wait for a way that is not.
	Usable bool
}

type pathKey struct {
	backend netip.Addr
	way     lb.Way
}

// way is a Path with what belongs to it.
type way struct {
	path    Path
	index   uint32    // what the mark carries; never 0
	sources [2]source // of IPv4 and IPv6 probes
}

// source is where probes come from.
type source struct {
	addr  netip.Addr
	asked time.Time // when addr was found; zero: ask
}

// Output is what probes leave by. Its methods may be called from any goroutine.
type Output struct {
	log     *slog.Logger
	gateway string
	ns      netns.NsHandle
	nl      *netlink.Handle
	objs    probeObjects
	device  device
	reverse reverse

	mu      sync.Mutex
	closed  bool
	ways    map[pathKey]*way
	indexes indexes
	mtu     int           // of the device
	changed chan struct{} // closed and made anew when ways change
}

// Open removes what an earlier process of the gateway left in the network
// namespace of the calling thread, loads the program and makes the device and
// the rules. On error nothing is left behind.
func Open(o Options) (_ *Output, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	out := &Output{
		log: o.Logger, gateway: o.Gateway, ns: netns.None(),
		ways: map[pathKey]*way{}, indexes: newIndexes(), changed: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("set up probes: %w", err), out.Close())
		}
	}()
	if out.ns, err = netns.Get(); err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	if out.nl, err = netlink.NewHandleAt(out.ns, unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := loadProbeObjects(&out.objs, nil); err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	if err := sweep(out.nl, o.Gateway); err != nil {
		return nil, fmt.Errorf("remove what an earlier process left: %w", err)
	}
	if out.device, err = makeDevice(out.nl, o.Gateway, out.objs.L4lbProbe); err != nil {
		return nil, err
	}
	out.mtu = defaultMTU
	out.reverse = newReverse(out.device.slot, out.inside)
	return out, nil
}

// Close removes the device, the rules and the routes.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	close(o.changed)
	var errs []error
	if o.device.name != "" {
		errs = append(errs, o.device.remove(o.nl))
	}
	errs = append(errs, o.objs.Close())
	if o.nl != nil {
		o.nl.Close()
	}
	if o.ns.IsOpen() {
		errs = append(errs, o.ns.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the way of probes: %w", err)
	}
	return nil
}

// SetPaths makes paths the backends that can be probed. A probe in flight to a
// backend that is no longer there fails.
func (o *Output) SetPaths(paths []Path) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errClosed
	}
	var errs []error
	wanted := make(map[pathKey]bool, len(paths))
	changed := false
	for _, p := range paths {
		p.Backend = p.Backend.Unmap()
		key := pathKey{p.Backend, p.Way}
		wanted[key] = true
		w := o.ways[key]
		if w != nil && w.path == p {
			continue
		}
		changed = true
		if w == nil {
			w = &way{index: o.indexes.take()}
			o.ways[key] = w
		}
		w.path, w.sources = p, [2]source{}
		errs = append(errs, o.write(w))
	}
	for key, w := range o.ways {
		if !wanted[key] {
			changed = true
			delete(o.ways, key)
			o.indexes.free(w.index)
			errs = append(errs, o.forget(w))
		}
	}
	if changed {
		errs = append(errs, o.fitMTU())
		close(o.changed)
		o.changed = make(chan struct{})
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("set ways of probes: %w", err)
	}
	return nil
}

// ErrNoWay says that no frame can be sent to the backend: its link address is
// not known. It wraps EHOSTUNREACH.
var ErrNoWay = fmt.Errorf("no way to the backend is known: %w", unix.EHOSTUNREACH)

var errClosed = errors.New("probes are no longer delivered")

// Route returns the address that a probe of addr comes from and the mark that
// has it delivered to backend. It waits until the way is known, or ctx ends:
// then the error is ErrNoWay.
func (o *Output) Route(ctx context.Context, addr, backend netip.Addr, by lb.Way) (netip.Addr, uint32, error) {
	key := pathKey{backend.Unmap(), by}
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return netip.Addr{}, 0, errClosed
		}
		w := o.ways[key]
		if w != nil && w.path.Usable {
			source, err := o.sourceOf(w, addr)
			mark := o.device.mark(w.index)
			o.mu.Unlock()
			return source, mark, err
		}
		changed := o.changed
		o.mu.Unlock()
		select {
		case <-ctx.Done():
			return netip.Addr{}, 0, ErrNoWay
		case <-changed:
		}
	}
}

// sourceOf finds the gateway's own address for a probe of addr. The caller holds
// mu.
func (o *Output) sourceOf(w *way, addr netip.Addr) (netip.Addr, error) {
	if addr.Is4() != w.path.Backend.Is4() && w.path.Tunnel.Size == 0 {
		return netip.Addr{}, fmt.Errorf("probe %s at backend %s: addresses of two families", addr, w.path.Backend)
	}
	s := &w.sources[0]
	if addr.Is6() {
		if o.device.ipv6 != nil {
			return netip.Addr{}, fmt.Errorf("probe %s: %w", addr, o.device.ipv6)
		}
		s = &w.sources[1]
	}
	if now := time.Now(); !s.addr.IsValid() || now.Sub(s.asked) > sourceTTL {
		own, err := ownAddress(o.nl, w.path, addr)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("find source address: %w", err)
		}
		s.addr, s.asked = own, now
	}
	if err := o.reverse.allow(o.nl, triple{addr, s.addr, w.path.IfIndex}); err != nil {
		return netip.Addr{}, err
	}
	return s.addr, nil
}

// ownAddress is the source that the kernel uses towards the backend, which is
// where the answer to a probe of addr comes from. It comes by the backend's
// routes, not by a tunnel's; a backend behind one may have no address of the
// probe's family, so the kernel is asked for the way to addr itself then.
func ownAddress(nl *netlink.Handle, p Path, addr netip.Addr) (netip.Addr, error) {
	to, o := p.Backend, &netlink.RouteGetOptions{OifIndex: p.IfIndex}
	if p.Tunnel.Size > 0 {
		o = nil
	}
	if addr.Is4() != to.Is4() {
		to = addr
	}
	routes, err := nl.RouteGetWithOptions(to.AsSlice(), o)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("route to %s: %w", to, err)
	}
	for _, r := range routes {
		if source, ok := netip.AddrFromSlice(r.Src); ok {
			return source.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the gateway has no address towards %s", to)
}
