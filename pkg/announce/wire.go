package announce

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// dumpAttempts is how often a listing that a concurrent change interrupted is
// repeated before the announcer starts over.
const dumpAttempts = 10

// wire is what the announcer needs of the operating system.
type wire interface {
	links() ([]link, error)
	// events delivers links that changed since the wire was opened, deleted
	// ones as down. It is closed when changes may have been lost; the wire
	// must then be opened anew.
	events() <-chan link
	// send sends an Ethernet frame on the link of that index.
	send(index int, frame []byte) error
	close()
}

// packetWire sends by an AF_PACKET socket and follows links by netlink.
type packetWire struct {
	fd      int
	h       *netlink.Handle
	updates chan netlink.LinkUpdate
	ch      chan link
	done    chan struct{}
}

// openWire subscribes first, so that nothing is missed between the first listing
// and the first event.
func openWire(ns netns.NsHandle) (_ wire, err error) {
	w := &packetWire{
		fd: -1, updates: make(chan netlink.LinkUpdate), ch: make(chan link), done: make(chan struct{}),
	}
	opts := netlink.LinkSubscribeOptions{Namespace: &ns}
	if err := netlink.LinkSubscribeWithOptions(w.updates, w.done, opts); err != nil {
		return nil, fmt.Errorf("subscribe to links: %w", err)
	}
	go w.forward()
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.h, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if w.fd, err = packetSocket(ns); err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	return w, nil
}

func (w *packetWire) close() {
	close(w.done)
	if w.h != nil {
		w.h.Close()
	}
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
}

func (w *packetWire) events() <-chan link { return w.ch }

// forward reads updates until the subscription ends. It goes on reading after
// close, because the subscription's goroutine ends only once it is rid of its
// last update.
func (w *packetWire) forward() {
	defer close(w.ch)
	for u := range w.updates {
		if u.IfInfomsg.Family != unix.AF_UNSPEC {
			continue // a bridge port or IPv6 settings, not the link itself
		}
		l := linkOf(u.Link.Attrs())
		if u.Header.Type == unix.RTM_DELLINK {
			l.up = false
		}
		select {
		case w.ch <- l:
		case <-w.done:
		}
	}
}

func (w *packetWire) links() ([]link, error) {
	for attempt := 1; ; attempt++ {
		list, err := w.h.LinkList()
		if errors.Is(err, netlink.ErrDumpInterrupted) && attempt < dumpAttempts {
			continue
		}
		if err != nil {
			return nil, err
		}
		out := make([]link, 0, len(list))
		for _, l := range list {
			out = append(out, linkOf(l.Attrs()))
		}
		return out, nil
	}
}

func (w *packetWire) send(index int, frame []byte) error {
	return unix.Sendto(w.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index})
}

func linkOf(a *netlink.LinkAttrs) link {
	l := link{index: a.Index, name: a.Name}
	const usable = unix.IFF_UP | unix.IFF_RUNNING
	l.up = a.RawFlags&usable == usable && copy(l.mac[:], a.HardwareAddr) == len(l.mac)
	return l
}

// packetSocket opens a socket that sends whole frames and receives nothing: its
// protocol is 0. It does not block: a full queue costs an announcement, not the
// announcer.
func packetSocket(ns netns.NsHandle) (int, error) {
	open := func() (int, error) {
		return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	if !ns.IsOpen() {
		return open()
	}
	type result struct {
		fd  int
		err error
	}
	done := make(chan result)
	go func() {
		// The thread is not unlocked and dies with the goroutine, rather
		// than carry the namespace elsewhere.
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			done <- result{-1, err}
			return
		}
		fd, err := open()
		done <- result{fd, err}
	}()
	r := <-done
	return r.fd, r.err
}
