// Package netlab builds small networks out of network namespaces, veth pairs and
// bridges, by netlink alone: no `ip` command and no daemon is needed. The lab
// command and the namespace tests stand on it. Every function needs
// CAP_SYS_ADMIN and CAP_NET_ADMIN.
package netlab

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrGoexit is returned by Do when the function ended its goroutine (as
// testing's FailNow does) instead of returning.
var ErrGoexit = errors.New("function ended its goroutine")

// Namespace is one network namespace. Its methods may be called from any
// goroutine. The zero value is not usable; see New and NewNamed.
type Namespace struct {
	name   string
	named  bool
	handle netns.NsHandle
	nl     *netlink.Handle

	mu      sync.Mutex
	closers []io.Closer // closed with the namespace, last first
}

// New creates a namespace that is known by its handle only and disappears with
// Close, at the latest with the process. The name is for messages. The loopback
// interface is up.
func New(name string) (*Namespace, error) {
	return create(name, false)
}

// NewNamed creates a namespace that `ip netns` also sees, as /run/netns/NAME. It
// outlives the process unless it is closed. The loopback interface is up.
func NewNamed(name string) (*Namespace, error) {
	return create(name, true)
}

func create(name string, named bool) (*Namespace, error) {
	var handle netns.NsHandle
	// The calls below move the thread that makes them into the new
	// namespace; isolate puts it back or lets it die.
	err := isolate(func() (err error) {
		if named {
			handle, err = netns.NewNamed(name)
		} else {
			handle, err = netns.New()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	return open(name, named, handle)
}

// Current returns the namespace that the process was started in. Close leaves
// that namespace as it is.
func Current() (*Namespace, error) {
	handle, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open current namespace: %w", err)
	}
	nl, err := netlink.NewHandleAt(handle, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink: %w", err), handle.Close())
	}
	return &Namespace{name: "host", handle: handle, nl: nl}, nil
}

func open(name string, named bool, handle netns.NsHandle) (*Namespace, error) {
	n := &Namespace{name: name, named: named, handle: handle}
	var err error
	if n.nl, err = netlink.NewHandleAt(handle, unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink in namespace %s: %w", name, err), n.Close())
	}
	if err := n.LinkUp("lo"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Name returns the name given at creation.
func (n *Namespace) Name() string { return n.name }

// Handle returns the namespace's file descriptor, valid until Close.
func (n *Namespace) Handle() netns.NsHandle { return n.handle }

// Netlink returns a route netlink handle that acts inside the namespace, valid
// until Close.
func (n *Namespace) Netlink() *netlink.Handle { return n.nl }

// Do runs f on an operating system thread that is inside the namespace and
// returns its error. Goroutines that f starts are not inside. Sockets and
// netlink handles that f opens stay in the namespace wherever they are used.
func (n *Namespace) Do(f func() error) error {
	return <-n.Go(f)
}

// Go is Do without waiting. The channel delivers f's error, once.
func (n *Namespace) Go(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() { done <- err }()
		err = onThread(func() error {
			if err := netns.Set(n.handle); err != nil {
				return fmt.Errorf("enter namespace %s: %w", n.name, err)
			}
			return f()
		})
	}()
	return done
}

// Close detaches what AttachPass attached, removes a named namespace's name and
// lets go of the namespace. The kernel destroys it, with its interfaces, when
// the last socket and process in it are gone.
func (n *Namespace) Close() error {
	n.mu.Lock()
	closers := n.closers
	n.closers = nil
	n.mu.Unlock()

	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i].Close())
	}
	if n.nl != nil {
		n.nl.Close()
	}
	if n.named {
		errs = append(errs, netns.DeleteNamed(n.name))
	}
	if n.handle.IsOpen() {
		errs = append(errs, n.handle.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close namespace %s: %w", n.name, err)
	}
	return nil
}

// closeWith has c closed together with the namespace.
func (n *Namespace) closeWith(c io.Closer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closers = append(n.closers, c)
}

// isolate runs f on its own goroutine through onThread.
func isolate(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- onThread(f) }()
	return <-done
}

// onThread runs f, which may change the thread's namespace, and brings the
// thread back. A thread that cannot be brought back stays locked to the
// goroutine, which must end soon: the runtime then destroys the thread.
func onThread(f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open current namespace: %w", err)
	}
	defer home.Close()
	defer func() {
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}
