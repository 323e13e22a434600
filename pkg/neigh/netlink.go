package neigh

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// dumpAttempts is how often a dump that a concurrent change interrupted is
// repeated before the resolver starts over.
const dumpAttempts = 10

// netlinkKernel is the kernel of one network namespace.
type netlinkKernel struct {
	h    *netlink.Handle
	sub  *nl.NetlinkSocket
	ch   chan []event
	done chan struct{}
}

// openNetlink subscribes first, so that nothing is missed between the dumps and
// the first event.
func openNetlink(ns netns.NsHandle) (kernel, error) {
	sub, err := subscribe(ns)
	if err != nil {
		return nil, err
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		sub.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	k := &netlinkKernel{h: h, sub: sub, ch: make(chan []event), done: make(chan struct{})}
	go k.receive()
	return k, nil
}

func (k *netlinkKernel) close() {
	close(k.done)
	k.sub.Close()
	k.h.Close()
}

func (k *netlinkKernel) events() <-chan []event { return k.ch }

func (k *netlinkKernel) links() ([]link, error) {
	list, err := dump(k.h.LinkList)
	if err != nil {
		return nil, err
	}
	out := make([]link, 0, len(list))
	for _, l := range list {
		out = append(out, linkOf(l.Attrs()))
	}
	return out, nil
}

func (k *netlinkKernel) neighbours() ([]neighbour, error) {
	var out []neighbour
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := dump(func() ([]netlink.Neigh, error) { return k.h.NeighList(0, family) })
		if err != nil {
			return nil, err
		}
		for i := range list {
			if n, ok := neighbourOf(&list[i]); ok {
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// route asks the kernel itself, so that policy rules, metrics and multipath
// count as they do for the host's own packets.
func (k *netlinkKernel) route(dst netip.Addr) (route, error) {
	list, err := k.h.RouteGet(dst.AsSlice())
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH),
		errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL):
		return route{}, errNoRoute // none, unreachable, prohibit, blackhole
	case err != nil:
		return route{}, err
	case len(list) == 0:
		return route{}, errNoRoute
	}
	r := list[0]
	switch r.Type {
	case unix.RTN_LOCAL:
		return route{local: true}, nil
	case unix.RTN_UNICAST:
	default:
		return route{}, errNoRoute
	}
	out := route{hop: hop{link: r.LinkIndex, via: dst}, mtu: r.MTU}
	if via, ok := gateway(&r); ok {
		out.via = via
	}
	if source, ok := netip.AddrFromSlice(r.Src); ok {
		out.source = source.Unmap()
	}
	return out, nil
}

func gateway(r *netlink.Route) (netip.Addr, bool) {
	gw := r.Gw
	if via, ok := r.Via.(*netlink.Via); ok {
		gw = via.Addr // an IPv4 route by way of an IPv6 router
	}
	addr, ok := netip.AddrFromSlice(gw)
	return addr.Unmap(), ok
}

// probe says NTF_USE: as if the host itself were about to send to the
// neighbour, without a packet that reaches anybody's application or counts in
// its firewall. A stale entry is confirmed by unicast, an unknown one is asked
// for. NTF_EXT_LEARNED exempts the entry from gc_thresh3, which is 1024 entries
// by default, and from being collected while only XDP uses it.
func (k *netlinkKernel) probe(h hop) error {
	return k.h.NeighSet(&netlink.Neigh{
		LinkIndex: h.link, IP: h.via.AsSlice(),
		Flags: netlink.NTF_USE | netlink.NTF_EXT_LEARNED,
	})
}

// forget deletes the entry, which nobody would otherwise collect. A host that
// still talks to the neighbour learns it again.
func (k *netlinkKernel) forget(h hop) error {
	err := k.h.NeighDel(&netlink.Neigh{LinkIndex: h.link, IP: h.via.AsSlice()})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// dump repeats a listing that changes to the listed table interrupted.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 1; ; attempt++ {
		out, err := list()
		if err == nil || !errors.Is(err, netlink.ErrDumpInterrupted) || attempt == dumpAttempts {
			return out, err
		}
	}
}

func linkOf(a *netlink.LinkAttrs) link {
	return link{
		index: a.Index, name: a.Name, mac: a.HardwareAddr, mtu: a.MTU,
		up: a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_RUNNING != 0,
	}
}

func neighbourOf(n *netlink.Neigh) (neighbour, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok || n.Flags&netlink.NTF_PROXY != 0 || n.Family != unix.AF_INET && n.Family != unix.AF_INET6 {
		return neighbour{}, false
	}
	out := neighbour{hop: hop{link: n.LinkIndex, via: addr.Unmap()}, state: reachOf(n.State)}
	if out.state.valid() {
		if out.mac = n.HardwareAddr; !isUnicast(out.mac) {
			out.mac, out.state = nil, absent
		}
	}
	return out, true
}

func isUnicast(mac net.HardwareAddr) bool {
	return len(mac) == 6 && mac[0]&1 == 0 && !sameMAC(mac, make(net.HardwareAddr, 6))
}

func reachOf(nud int) reach {
	switch {
	case nud&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0:
		return permanent
	case nud&netlink.NUD_REACHABLE != 0:
		return reachable
	case nud&(netlink.NUD_STALE|netlink.NUD_DELAY) != 0:
		return stale
	case nud&netlink.NUD_PROBE != 0:
		return probing
	case nud&netlink.NUD_FAILED != 0:
		return failed
	}
	return absent
}
