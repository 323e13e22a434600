package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/pkg/announce"
)

const (
	// askRounds is how often an address is asked for before nobody is there,
	// and askWait how long answers to one question are waited for.
	askRounds = 3
	askWait   = 500 * time.Millisecond
	// askBatch bounds how many questions are sent in one go.
	askBatch = 64
	askPause = 5 * time.Millisecond
)

// answers are the link addresses that answered for an address.
type answers map[netip.Addr][][6]byte

// ask asks on a link who has each of the addresses, by ARP and by neighbour
// discovery, and gathers all answers. With first it is done once each was
// answered; otherwise it listens to the end, for more who answer.
func ask(ctx context.Context, nl *netlink.Handle, l *netlink.LinkAttrs, addrs []netip.Addr, first bool) (answers, error) {
	found := answers{}
	if len(addrs) == 0 {
		return found, nil
	}
	w, err := openWire(nl, l)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for range askRounds {
		open := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return first && found[a] != nil })
		for batch := range slices.Chunk(open, askBatch) {
			for _, a := range batch {
				if err := w.send(a); err != nil {
					return nil, fmt.Errorf("ask for %s on %s: %w", a, l.Name, err)
				}
			}
			if err := w.receive(ctx, askPause, found); err != nil {
				return nil, err
			}
		}
		until := time.Now().Add(askWait)
		for time.Now().Before(until) && !(first && len(found) >= len(addrs)) {
			if err := w.receive(ctx, min(askPause, time.Until(until)), found); err != nil {
				return nil, err
			}
		}
		if first && len(found) >= len(addrs) {
			break
		}
	}
	wanted := map[netip.Addr]bool{}
	for _, a := range addrs {
		wanted[a] = true
	}
	maps.DeleteFunc(found, func(a netip.Addr, _ [][6]byte) bool { return !wanted[a] })
	return found, nil
}

// wire sends questions on a link and reads the answers. The program of a
// gateway passes answers to the kernel, so they are seen here.
type wire struct {
	link     *netlink.LinkAttrs
	from4    netip.Addr // own addresses on the link; unspecified without
	from6    netip.Addr
	arp, ip6 int // sockets, -1 when not open
}

func openWire(nl *netlink.Handle, l *netlink.LinkAttrs) (_ *wire, err error) {
	w := &wire{link: l, from4: netip.IPv4Unspecified(), arp: -1, ip6: -1}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := w.findOwn(nl); err != nil {
		return nil, err
	}
	if w.arp, err = packetSocket(l.Index, unix.ETH_P_ARP, nil); err != nil {
		return nil, err
	}
	if w.ip6, err = packetSocket(l.Index, unix.ETH_P_IPV6, onlyAdvertisements); err != nil {
		return nil, err
	}
	return w, nil
}

// findOwn finds the addresses that questions come from.
func (w *wire) findOwn(nl *netlink.Handle) error {
	dev, err := nl.LinkByIndex(w.link.Index)
	if err != nil {
		return fmt.Errorf("find %s: %w", w.link.Name, err)
	}
	list, err := dump(func() ([]netlink.Addr, error) { return nl.AddrList(dev, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", w.link.Name, err)
	}
	for i := range list {
		a, ok := netip.AddrFromSlice(list[i].IP)
		if a = a.Unmap(); !ok {
			continue
		}
		switch {
		case a.Is4() && w.from4.IsUnspecified():
			w.from4 = a
		case a.Is6() && (!w.from6.IsValid() || a.IsLinkLocalUnicast()):
			w.from6 = a
		}
	}
	return nil
}

func (w *wire) close() {
	for _, fd := range []int{w.arp, w.ip6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// send asks for one address. An IPv6 question needs an address to come from.
func (w *wire) send(a netip.Addr) error {
	mac := [6]byte(w.link.HardwareAddr)
	to := &unix.SockaddrLinklayer{Ifindex: w.link.Index}
	if a.Is4() {
		return unix.Sendto(w.arp, announce.ARPRequest(mac, w.from4, a), 0, to)
	}
	if !w.from6.IsValid() {
		return nil
	}
	return unix.Sendto(w.ip6, solicitation(mac, w.from6, a), 0, to)
}

// receive gathers what arrives within a time.
func (w *wire) receive(ctx context.Context, wait time.Duration, found answers) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	poll := []unix.PollFd{{Fd: int32(w.arp), Events: unix.POLLIN}, {Fd: int32(w.ip6), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, max(int(wait/time.Millisecond), 1)); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for answers: %w", err)
	}
	buf := make([]byte, 256)
	for fd, read := range map[int]func([]byte) (netip.Addr, [6]byte, bool){w.arp: readARP, w.ip6: readAdvertisement} {
		for {
			n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
			if err != nil {
				break // nothing more, or a link that went down
			}
			if a, mac, ok := read(buf[:n]); ok && mac != [6]byte(w.link.HardwareAddr) && !slices.Contains(found[a], mac) {
				found[a] = append(found[a], mac)
			}
		}
	}
	return nil
}

// packetSocket receives one protocol's frames of one link.
func packetSocket(ifindex int, protocol uint16, filter []unix.SockFilter) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open packet socket: %w", err)
	}
	if len(filter) > 0 {
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: ifindex})
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("set up packet socket: %w", err)
	}
	return fd, nil
}
