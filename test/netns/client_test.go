package netns

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

const dialTimeout = 3 * time.Second

// dial opens a connection to the VIP from an address of the client host.
func (n *network) dial(network string, f family, from place, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), dialTimeout)
	defer cancel()
	return n.client.DialFrom(ctx, network, netip.AddrPortFrom(from.addr(f), 0), hostPort(f.vip, port))
}

// talker is a TCP connection to a backend.
type talker struct {
	net.Conn
	in *bufio.Reader
}

func (n *network) talk(f family, from place) (*talker, error) {
	conn, err := n.dial("tcp", f, from, talkPort)
	if err != nil {
		return nil, err
	}
	n.t.Cleanup(func() { conn.Close() })
	return &talker{conn, bufio.NewReader(conn)}, nil
}

// who asks for the name of the backend at the other end.
func (c *talker) who() (string, error) {
	if err := c.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "who\n"); err != nil {
		return "", err
	}
	name, err := c.in.ReadString('\n')
	return strings.TrimSpace(name), err
}

// spread opens connections one after the other and counts who answers.
func (n *network) spread(f family, from place, count int) map[string]int {
	n.t.Helper()
	out := map[string]int{}
	for range count {
		c, err := n.talk(f, from)
		if err != nil {
			n.t.Fatal(err)
		}
		name, err := c.who()
		if err != nil {
			n.t.Fatal(err)
		}
		c.Close()
		out[name]++
	}
	return out
}

// download is a stream that a backend sends, from start to end.
type download struct {
	conn *talker
	done chan error
	size int
	name string // of the backend, by its own word at the end
}

func (n *network) startDownload(f family, from place) (*download, string) {
	n.t.Helper()
	conn, err := n.talk(f, from)
	if err != nil {
		n.t.Fatal(err)
	}
	name, err := conn.who()
	if err != nil {
		n.t.Fatal(err)
	}
	d := &download{conn: conn, done: make(chan error, 1)}
	if _, err := io.WriteString(conn, "stream\n"); err != nil {
		n.t.Fatal(err)
	}
	go func() { d.done <- d.read() }()
	return d, name
}

func (d *download) read() error {
	sum, head, block := sha256.New(), make([]byte, 4), make([]byte, 1<<16)
	for {
		if err := d.conn.SetReadDeadline(time.Now().Add(2 * dialTimeout)); err != nil {
			return err
		}
		if _, err := io.ReadFull(d.conn.in, head); err != nil {
			return fmt.Errorf("after %d bytes: %w", d.size, err)
		}
		size := binary.BigEndian.Uint32(head)
		if size == 0 {
			break
		}
		if _, err := io.ReadFull(d.conn.in, block[:size]); err != nil {
			return fmt.Errorf("after %d bytes: %w", d.size, err)
		}
		sum.Write(block[:size])
		d.size += int(size)
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(d.conn.in, want); err != nil {
		return err
	}
	if !bytes.Equal(want, sum.Sum(nil)) {
		return fmt.Errorf("the checksum of %d bytes is wrong", d.size)
	}
	name, err := d.conn.in.ReadString('\n')
	d.name = strings.TrimSpace(name)
	return err
}

// finish ends the download and checks that all of it came, from this backend.
func (d *download) finish(t *testing.T, backend string) {
	t.Helper()
	err := d.conn.SetWriteDeadline(time.Now().Add(dialTimeout))
	if err == nil {
		_, err = io.WriteString(d.conn, "stop\n")
	}
	if err == nil {
		err = <-d.done
	}
	if err != nil || d.name != backend || d.size < 100_000 {
		t.Errorf("download from %s: %d bytes, ended at %q: %v", backend, d.size, d.name, err)
	}
}

// exchange sends datagrams from one socket, steadily, and remembers who answered.
type exchange struct {
	conn net.Conn
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	sent    int
	answers []answer
}

type answer struct {
	name string
	at   time.Time
}

func (n *network) startExchange(f family, from place) *exchange {
	n.t.Helper()
	conn, err := n.dial("udp", f, from, echoPort)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	x := &exchange{conn: conn, stop: cancel, done: make(chan struct{})}
	go x.receive()
	go x.send(ctx)
	n.t.Cleanup(func() {
		cancel()
		conn.Close()
	})
	return x
}

func (x *exchange) send(ctx context.Context) {
	defer close(x.done)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			x.mu.Lock()
			x.sent++
			// An error is that of an earlier datagram: its backend died.
			_, _ = fmt.Fprint(x.conn, x.sent)
			x.mu.Unlock()
		}
	}
}

func (x *exchange) receive() {
	buf := make([]byte, 512)
	for {
		k, err := x.conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // port unreachable, from a backend that died
		}
		name, _, _ := strings.Cut(string(buf[:k]), " ")
		x.mu.Lock()
		x.answers = append(x.answers, answer{name, time.Now()})
		x.mu.Unlock()
	}
}

// got copies the answers so far.
func (x *exchange) got() []answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]answer(nil), x.answers...)
}

// next waits for an answer after now and returns who sent it.
func (x *exchange) next(t *testing.T) string {
	t.Helper()
	before, name := len(x.got()), ""
	eventually(t, dialTimeout, func() error {
		all := x.got()
		if len(all) <= before {
			return fmt.Errorf("no answer after the first %d", before)
		}
		name = all[len(all)-1].name
		return nil
	})
	return name
}

// finish ends the exchange and checks that every datagram was answered by the
// backend.
func (x *exchange) finish(t *testing.T, backend string) {
	t.Helper()
	x.stop()
	<-x.done
	eventually(t, dialTimeout, func() error {
		if got := len(x.got()); got < x.sent || got == 0 {
			return fmt.Errorf("%d of %d datagrams were answered", got, x.sent)
		}
		return nil
	})
	for _, a := range x.got() {
		if a.name != backend {
			t.Errorf("a datagram was answered by %s, not %s", a.name, backend)
			break
		}
	}
}
