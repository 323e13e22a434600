package netns

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

const (
	talkPort   = 80 // TCP: see talk
	echoPort   = 53 // UDP: answers with the backend's name
	healthPort = 8080
)

// backend is a server host.
type backend struct {
	name, zone, v4, v6 string
	ns                 *testutil.NetNS

	mu       sync.Mutex
	sick     bool
	misses   map[bool][]time.Time // refused probes, by whether they came over IPv6
	arrivals []arrival            // datagrams
	closers  []io.Closer
	tcp      net.Listener // of talkPort
	udp      []io.Closer  // of echoPort
}

// arrival is a datagram by the backend's clock, when its kernel received it.
type arrival struct {
	from string
	at   time.Time
}

func (b *backend) addr(f family) string {
	if f.ipv6 {
		return b.v6
	}
	return b.v4
}

// serve starts all servers.
func (b *backend) serve(t *testing.T) {
	t.Helper()
	b.misses = map[bool][]time.Time{}
	b.tcp = b.ns.Listen("tcp", fmt.Sprint(":", talkPort))
	go func(tcp net.Listener) {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			b.own(conn)
			go b.talk(conn)
		}
	}(b.tcp)
	health := b.ns.Listen("tcp", fmt.Sprint(":", healthPort))
	go func() { _ = http.Serve(health, http.HandlerFunc(b.health)) }() // until the listener closes
	b.own(b.tcp, health)
	for _, f := range families {
		conn := b.ns.ListenPacket("udp", hostPort(f.vip, echoPort)).(*net.UDPConn)
		b.own(conn)
		b.udp = append(b.udp, conn)
		stampArrivals(t, conn)
		go b.echo(conn)
	}
}

func (b *backend) own(list ...io.Closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closers = append(b.closers, list...)
}

// die closes everything at once, as a process does that is killed.
func (b *backend) die() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.closers {
		c.Close()
	}
}

// setSick makes health checks fail, or pass again.
func (b *backend) setSick(sick bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sick = sick
	clear(b.misses)
}

func (b *backend) health(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	w.Header().Set("Connection", "close")
	if b.sick {
		b.misses[local.IP.To4() == nil] = append(b.misses[local.IP.To4() == nil], time.Now())
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// refused lists the probes that failed since setSick.
func (b *backend) refused(f family) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Time(nil), b.misses[f.ipv6]...)
}

// talk answers "who" with the backend's name, and "stream" with numbered blocks
// until "stop", which is answered by a last, empty block, the SHA-256 of all of
// them, and the name.
func (b *backend) talk(conn net.Conn) {
	defer conn.Close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(conn)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	for line := range lines {
		switch line {
		case "who":
			fmt.Fprintln(conn, b.name)
		case "stream":
			b.stream(conn, lines)
		}
	}
}

// stream sends a block every few milliseconds.
func (b *backend) stream(conn net.Conn, lines <-chan string) {
	const size = 4096
	random, sum := rand.NewChaCha8([32]byte([]byte(strings.Repeat("l4lb", 8)))), sha256.New()
	block := make([]byte, 4+size)
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			binary.BigEndian.PutUint32(block, size)
			_, _ = random.Read(block[4:]) // never fails
			sum.Write(block[4:])
			if _, err := conn.Write(block); err != nil {
				return
			}
		case line, ok := <-lines:
			if !ok || line != "stop" {
				return
			}
			fmt.Fprintf(conn, "%s%s%s\n", []byte{0, 0, 0, 0}, sum.Sum(nil), b.name)
			return
		}
	}
}

// echo answers datagrams "N" with "name N".
func (b *backend) echo(conn *net.UDPConn) {
	buf, oob := make([]byte, 512), make([]byte, 512)
	for {
		n, control, _, from, err := conn.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error for an earlier answer
		}
		at := arrivedAt(oob[:control])
		b.mu.Lock()
		b.arrivals = append(b.arrivals, arrival{from.String(), at})
		b.mu.Unlock()
		_, _ = conn.WriteToUDPAddrPort(fmt.Appendf(nil, "%s %s", b.name, buf[:n]), from)
	}
}

// seen lists the datagrams so far.
func (b *backend) seen() []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]arrival(nil), b.arrivals...)
}

// stampArrivals asks the kernel for the time at which datagrams come.
func stampArrivals(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		}), err)
	}
	if err != nil {
		t.Fatalf("ask for arrival times: %v", err)
	}
}

// arrivedAt reads that time from a control message.
func arrivedAt(oob []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			sec, nsec := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(sec), int64(nsec))
		}
	}
	return time.Now()
}
