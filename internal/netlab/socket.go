package netlab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"github.com/vishvananda/netns"
)

// Listen announces on an address inside the namespace, as net.Listen does. The
// listener and its connections may be used from anywhere.
func (n *Namespace) Listen(network, address string) (net.Listener, error) {
	var lis net.Listener
	err := n.Do(func() (err error) {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		lis, err = lc.Listen(context.Background(), network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in namespace %s: %w", n.name, err)
	}
	return lis, nil
}

// ListenPacket announces on an address inside the namespace, as
// net.ListenPacket does.
func (n *Namespace) ListenPacket(network, address string) (net.PacketConn, error) {
	var conn net.PacketConn
	err := n.Do(func() (err error) {
		conn, err = net.ListenPacket(network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in namespace %s: %w", n.name, err)
	}
	return conn, nil
}

// Dial connects to an address from inside the namespace. It has the signature of
// http.Transport's DialContext. The address holds a literal IP address and port:
// names would be resolved outside.
func (n *Namespace) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.DialFrom(ctx, network, netip.AddrPort{}, address)
}

// DialFrom is Dial from a given local address. A zero local address leaves the
// choice to the kernel, a zero port only that of the port.
func (n *Namespace) DialFrom(ctx context.Context, network string, local netip.AddrPort, address string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial from namespace %s: %w", n.name, err)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := n.dial(ctx, network, local, address)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, fmt.Errorf("dial from namespace %s: %w", n.name, r.err)
	}
	return r.conn, nil
}

// dial holds a thread inside the namespace only until the socket exists, which
// is when the dialer calls Control. Thousands of connections may be pending
// without a thread each. It must run on a goroutine of its own.
func (n *Namespace) dial(ctx context.Context, network string, local netip.AddrPort, address string) (net.Conn, error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer home.Close()
	inside := true
	leave := func() error {
		if !inside {
			return nil
		}
		if err := netns.Set(home); err != nil {
			return err // the thread stays locked and dies with the goroutine
		}
		inside = false
		runtime.UnlockOSThread()
		return nil
	}
	defer leave()
	if err := netns.Set(n.handle); err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		LocalAddr: localAddr(network, local),
		Control:   func(string, string, syscall.RawConn) error { return leave() },
	}
	dialer.SetMultipathTCP(false)
	return dialer.DialContext(ctx, network, address)
}

func localAddr(network string, local netip.AddrPort) net.Addr {
	if !local.Addr().IsValid() {
		return nil
	}
	if len(network) >= 3 && network[:3] == "udp" {
		return net.UDPAddrFromAddrPort(local)
	}
	return net.TCPAddrFromAddrPort(local)
}
