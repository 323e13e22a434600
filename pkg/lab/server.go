package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"l4lb/internal/netlab"
)

// streamInterval is the pause between two lines of a stream.
const streamInterval = 100 * time.Millisecond

// backend is one server: HTTP and echo inside its host's namespace, on every
// address. It can be sick, which its health checks see and nobody else, and it
// can be down, which is its listeners being closed. Connections that are open
// live on in both states.
type backend struct {
	name string
	ns   *netlab.Namespace

	mu        sync.Mutex
	sick      bool
	down      bool
	listeners []net.Listener

	conns   map[net.Conn]struct{} // echo connections
	stopped chan struct{}
	wg      sync.WaitGroup
}

func startBackend(name string, ns *netlab.Namespace) (*backend, error) {
	b := &backend{
		name: name, ns: ns, down: true,
		conns: map[net.Conn]struct{}{}, stopped: make(chan struct{}),
	}
	return b, b.SetDown(false)
}

// SetSick makes the health check's answer a 503, or takes that back.
func (b *backend) SetSick(sick bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sick = sick
}

// SetDown closes the listeners, or opens them again.
func (b *backend) SetDown(down bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == down {
		return nil
	}
	if down {
		var errs []error
		for _, l := range b.listeners {
			errs = append(errs, l.Close())
		}
		b.listeners, b.down = nil, true
		return errors.Join(errs...)
	}
	web, err := b.ns.Listen("tcp", ":"+strconv.Itoa(httpPort))
	if err != nil {
		return err
	}
	echo, err := b.ns.Listen("tcp", ":"+strconv.Itoa(echoPort))
	if err != nil {
		return errors.Join(err, web.Close())
	}
	b.listeners, b.down = []net.Listener{web, echo}, false
	server := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second}
	b.wg.Go(func() { server.Serve(web) }) // ends with the listener
	b.wg.Go(func() { b.serveEcho(echo) })
	return nil
}

// state tells what was done to the backend.
func (b *backend) state() (sick, down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sick, b.down
}

func (b *backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, b.name) })
	mux.HandleFunc("/stream", b.stream)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if sick, _ := b.state(); sick {
			http.Error(w, "sick", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) {
		b.SetSick(true)
		fmt.Fprintf(w, "%s fails its health checks now\n", b.name)
	})
	mux.HandleFunc("/heal", func(w http.ResponseWriter, _ *http.Request) {
		b.SetSick(false)
		fmt.Fprintf(w, "%s passes its health checks now\n", b.name)
	})
	return mux
}

// stream sends numbered lines until the client goes or the lab ends.
func (b *backend) stream(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	for seq := 1; ; seq++ {
		if _, err := fmt.Fprintf(w, "%s %d\n", b.name, seq); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-b.stopped:
			return
		}
	}
}

// serveEcho answers every line with the backend's name and the line.
func (b *backend) serveEcho(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !b.track(conn) {
			return
		}
		b.wg.Go(func() {
			defer b.untrack(conn)
			b.converse(conn)
		})
	}
}

func (b *backend) converse(conn net.Conn) {
	// Small: there may be thousands of these.
	in := bufio.NewReaderSize(conn, 64)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, b.name+" "+string(line)); err != nil {
			return
		}
	}
}

// track remembers a connection for Close, or closes it when that was called.
func (b *backend) track(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.stopped:
		conn.Close()
		return false
	default:
	}
	b.conns[conn] = struct{}{}
	return true
}

func (b *backend) untrack(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, conn)
	conn.Close()
}

// Close ends the listeners and the connections.
func (b *backend) Close() error {
	err := b.SetDown(true)
	close(b.stopped)
	b.mu.Lock()
	for conn := range b.conns {
		conn.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
	return err
}
