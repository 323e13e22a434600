package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"l4lb/internal/netlab"
)

// heldTimeout is how long the next line of a held connection may take. Lines come
// every streamInterval; the rest is for a machine that is busy.
const heldTimeout = 10 * time.Second

// held is one long-lived connection: an HTTP stream that the backend feeds, or
// a conversation that the client drives. Every line must come from the same
// backend and be the next one.
type held struct {
	source  source
	kind    string
	backend string

	mu    sync.Mutex
	lines int
	last  time.Time
	err   error
}

// line checks one line: the backend's name and the line's number.
func (h *held) line(text string, now time.Time) error {
	name, number, _ := strings.Cut(strings.TrimSpace(text), " ")
	seq, err := strconv.Atoi(number)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("line %q is not one of a backend", text)
	case h.backend == "":
		h.backend = name
	case h.backend != name:
		return fmt.Errorf("moved from %s to %s", h.backend, name)
	}
	if seq != h.lines+1 {
		return fmt.Errorf("line %d follows line %d", seq, h.lines)
	}
	h.lines, h.last = seq, now
	return nil
}

func (h *held) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
}

// check returns nil when the connection is well and had a line since a moment. A
// connection that broke is a fatalError.
func (h *held) check(since time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := fmt.Sprintf("%s of %s on %s", h.kind, h.source, h.backend)
	if h.err != nil {
		return fatalError{fmt.Errorf("%s: %w", name, h.err)}
	}
	if h.last.Before(since) {
		return fmt.Errorf("%s: no line for %.1f s", name, time.Since(h.last).Seconds())
	}
	return nil
}

// holder opens long-lived connections and watches them.
type holder struct {
	ns map[string]*netlab.Namespace

	mu   sync.Mutex
	list []*held
	wg   sync.WaitGroup
}

// open opens one connection and returns when its first line is there. It lives
// until ctx ends.
func (h *holder) open(ctx context.Context, src source, stream bool) (*held, error) {
	c := &held{source: src, kind: "conversation", last: time.Now()}
	run := h.converse
	if stream {
		c.kind, run = "HTTP stream", h.stream
	}
	first := make(chan error, 1)
	h.wg.Go(func() {
		err := run(ctx, c, first)
		if ctx.Err() == nil {
			c.end(err)
		}
		select {
		case first <- err:
		default:
		}
	})
	if err := <-first; err != nil {
		return nil, fmt.Errorf("open %s of %s: %w", c.kind, src, err)
	}
	h.mu.Lock()
	h.list = append(h.list, c)
	h.mu.Unlock()
	return c, nil
}

// stream reads an endless HTTP answer line by line.
func (h *holder) stream(ctx context.Context, c *held, first chan<- error) error {
	url := "http://" + hostPort(c.source.vip, httpPort) + "/stream"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := newHTTPClient(h.ns[c.source.client]).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for {
		if err := readLine(in, c, first); err != nil {
			return err
		}
	}
}

// converse sends numbered lines and reads each one's echo.
func (h *holder) converse(ctx context.Context, c *held, first chan<- error) error {
	dialCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := h.ns[c.source.client].Dial(dialCtx, "tcp", hostPort(c.source.vip, echoPort))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReader(conn)
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	for seq := 1; ; seq++ {
		if err := sayLine(conn, seq); err != nil {
			return err
		}
		if err := readLine(in, c, first); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func sayLine(conn net.Conn, seq int) error {
	_, err := io.WriteString(conn, strconv.Itoa(seq)+"\n")
	return err
}

func readLine(in *bufio.Reader, c *held, first chan<- error) error {
	text, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	err = c.line(text, time.Now())
	select {
	case first <- err:
	default:
	}
	return err
}

// all returns the connections, oldest first.
func (h *holder) all() []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*held(nil), h.list...)
}

// perBackend counts the connections that are well, by backend.
func (h *holder) perBackend() map[string]int {
	out := map[string]int{}
	for _, c := range h.all() {
		c.mu.Lock()
		if c.err == nil {
			out[c.backend]++
		}
		c.mu.Unlock()
	}
	return out
}

// wait returns when every held connection has had a line since a moment, and
// fails as soon as one breaks.
func (h *holder) wait(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	return poll(ctx, streamInterval, func(context.Context) error {
		for _, c := range h.all() {
			if err := c.check(since); err != nil {
				return err
			}
		}
		return nil
	})
}
