package healthcheck

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

const (
	// closeWait is how long a passed probe waits for the peer's FIN.
	closeWait = 50 * time.Millisecond
	// closeDrain is how many bytes of the rest of an answer it reads for that.
	closeDrain = 64 << 10
)

// Dialer opens the connections of probes. The zero value is ready to use.
//
// Whoever closes a TCP connection first keeps it in TIME_WAIT for a minute.
// Many backends probed at one address would use up the gateway's ports that
// way, so a probe closes with FIN where the peer closed first, as HTTP servers
// do when asked, and otherwise with RST, which frees both ends at once.
type Dialer struct {
	// Source4 and Source6 are the local addresses probes come from. The zero
	// Addr lets the kernel choose.
	Source4, Source6 netip.Addr
	// Route finds the way of probes that are delivered to one backend: the
	// local address they come from and the mark that makes the data plane
	// deliver them. It may wait for the way to become known, until ctx ends.
	// An error that wraps EHOSTUNREACH speaks against the backend, any other
	// against the gateway. Without Route such probes are LOCAL_ERRORs.
	Route func(ctx context.Context, addr, backend netip.Addr, way lb.Way) (source netip.Addr, mark uint32, err error)
	// Control, if set, is called with each new socket before it connects, to
	// set a mark or a device. Its error makes the probe a LOCAL_ERROR.
	Control func(ctx context.Context, t Target, network string, c syscall.RawConn) error
	// OrderlyClose makes probes end with FIN always, for backends that
	// cannot be kept from logging each RST. It costs one TIME_WAIT entry a
	// probe on the gateway.
	OrderlyClose bool
	// Roots are the authorities that certificates are judged by where a check
	// asks for it. Nil means those the host trusts.
	Roots *x509.CertPool
}

// controlError is an error of the gateway's own socket set-up.
type controlError struct{ err error }

func (e controlError) Error() string { return e.err.Error() }

// As makes a controlError classify like the kernel refusing an operation.
func (e controlError) As(target any) bool {
	errno, ok := target.(*syscall.Errno)
	if ok {
		*errno = syscall.EPERM
	}
	return ok
}

// errNoRoute is the gateway's own: it was not set up to deliver probes.
var errNoRoute = errors.New("the gateway does not deliver probes to single backends")

// leave is how a probe's packets leave the gateway.
type leave struct {
	source netip.Addr // not valid: the kernel chooses
	mark   uint32     // 0: none
}

func (d *Dialer) leave(ctx context.Context, t Target) (l leave, err error) {
	if t.Via.Direct() {
		l.source = d.Source4
		if t.Addr.Is6() {
			l.source = d.Source6
		}
		return l, nil
	}
	if d.Route == nil {
		return l, controlError{errNoRoute}
	}
	l.source, l.mark, err = d.Route(ctx, t.Addr, t.Via.Backend, t.Via.Way)
	if err != nil && !errors.Is(err, unix.EHOSTUNREACH) {
		err = controlError{err}
	}
	return l, err
}

// dial connects to t. The connection's reads and writes end when ctx does.
func (d *Dialer) dial(ctx context.Context, t Target) (*conn, error) {
	out, err := d.leave(ctx, t)
	if err != nil {
		return nil, err
	}
	noteSource(ctx, out.source)
	nd := net.Dialer{KeepAlive: -1, FallbackDelay: -1}
	if out.source.IsValid() {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(out.source, 0))
	}
	if d.Control != nil || out.source.IsValid() {
		nd.ControlContext = func(ctx context.Context, network, _ string, c syscall.RawConn) error {
			return d.control(ctx, t, network, c, out)
		}
	}
	raw, err := nd.DialContext(ctx, "tcp", t.AddrPort().String())
	if err != nil {
		return nil, err
	}
	tcp := raw.(*net.TCPConn)
	noteSource(ctx, tcp.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
	if err := tcp.SetLinger(0); err != nil {
		return nil, errorsJoinClose(tcp, fmt.Errorf("set linger: %w", err))
	}
	stop := context.AfterFunc(ctx, func() { tcp.SetDeadline(time.Unix(1, 0)) })
	return &conn{TCPConn: tcp, stop: stop, orderly: d.OrderlyClose}, nil
}

// control prepares a socket. With a source address the port is chosen at
// connect time: chosen at bind, all destinations would share one port range.
func (d *Dialer) control(ctx context.Context, t Target, network string, c syscall.RawConn, out leave) error {
	var optErr error
	err := c.Control(func(fd uintptr) {
		if out.source.IsValid() {
			optErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		}
		if out.mark != 0 && optErr == nil {
			optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(out.mark))
		}
	})
	if err = cmp.Or(err, optErr); err != nil {
		return controlError{fmt.Errorf("set source address and mark: %w", err)}
	}
	if d.Control == nil {
		return nil
	}
	if err := d.Control(ctx, t, network, c); err != nil {
		return controlError{fmt.Errorf("prepare socket: %w", err)}
	}
	return nil
}

// sourceKey is where a probe's context keeps the address it comes from.
type sourceKey struct{}

// noteSource tells the Checker, if it asked, where the probe comes from.
func noteSource(ctx context.Context, source netip.Addr) {
	if at, ok := ctx.Value(sourceKey{}).(*netip.Addr); ok && source.IsValid() {
		*at = source
	}
}

// errorsJoinClose closes c on the way out of a failed dial.
func errorsJoinClose(c io.Closer, err error) error {
	c.Close()
	return err
}

// conn is the connection of one probe. Close resets it unless told otherwise.
type conn struct {
	*net.TCPConn
	stop    func() bool
	orderly bool
}

// Close ends the connection at once.
func (c *conn) Close() error {
	c.stop()
	if c.orderly {
		c.SetLinger(-1)
	}
	return c.TCPConn.Close()
}

// awaitClose gives a peer that was asked to close closeWait to do so, so that
// the connection ends without RST and without TIME_WAIT on this side.
func (c *conn) awaitClose(ctx context.Context) {
	until := time.Now().Add(closeWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	if c.SetReadDeadline(until) != nil {
		return
	}
	if n, err := io.CopyN(io.Discard, c.TCPConn, closeDrain); n < closeDrain && errors.Is(err, io.EOF) {
		c.SetLinger(-1)
	}
}
