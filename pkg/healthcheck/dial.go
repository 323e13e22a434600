package healthcheck

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	// Control, if set, is called with each new socket before it connects, to
	// set a mark or a device. Its error makes the probe a LOCAL_ERROR.
	Control func(ctx context.Context, t Target, network string, c syscall.RawConn) error
	// OrderlyClose makes probes end with FIN always, for backends that
	// cannot be kept from logging each RST. It costs one TIME_WAIT entry a
	// probe on the gateway.
	OrderlyClose bool
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

// dial connects to t. The connection's reads and writes end when ctx does.
func (d *Dialer) dial(ctx context.Context, t Target) (*conn, error) {
	source := d.Source4
	if t.Addr.Is6() {
		source = d.Source6
	}
	nd := net.Dialer{KeepAlive: -1, FallbackDelay: -1}
	if source.IsValid() {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	if d.Control != nil || source.IsValid() {
		nd.ControlContext = func(ctx context.Context, network, _ string, c syscall.RawConn) error {
			return d.control(ctx, t, network, c, source)
		}
	}
	raw, err := nd.DialContext(ctx, "tcp", t.AddrPort().String())
	if err != nil {
		return nil, err
	}
	tcp := raw.(*net.TCPConn)
	if err := tcp.SetLinger(0); err != nil {
		return nil, errorsJoinClose(tcp, fmt.Errorf("set linger: %w", err))
	}
	stop := context.AfterFunc(ctx, func() { tcp.SetDeadline(time.Unix(1, 0)) })
	return &conn{TCPConn: tcp, stop: stop, orderly: d.OrderlyClose}, nil
}

// control prepares a socket. With a source address the port is chosen at
// connect time: chosen at bind, all destinations would share one port range.
func (d *Dialer) control(ctx context.Context, t Target, network string, c syscall.RawConn, source netip.Addr) error {
	if source.IsValid() {
		var optErr error
		err := c.Control(func(fd uintptr) {
			optErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		})
		if err == nil {
			err = optErr
		}
		if err != nil {
			return controlError{fmt.Errorf("prepare source address: %w", err)}
		}
	}
	if d.Control == nil {
		return nil
	}
	if err := d.Control(ctx, t, network, c); err != nil {
		return controlError{fmt.Errorf("prepare socket: %w", err)}
	}
	return nil
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
	if n, err := io.CopyN(io.Discard, c.TCPConn, closeDrain); n < closeDrain && err == io.EOF {
		c.SetLinger(-1)
	}
}
