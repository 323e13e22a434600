package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"l4lb/internal/netlab"
)

// requestPause is how long a client waits after an answer before it asks again.
const requestPause = 25 * time.Millisecond

// requestTimeout bounds one request, on a machine that may be busy.
const requestTimeout = 5 * time.Second

// source is one client address and the VIP of its family that it asks.
type source struct {
	client string // host
	group  string
	addr   netip.Addr
	vip    netip.Addr
}

func (s source) String() string {
	family := "IPv4"
	if s.addr.Is6() {
		family = "IPv6"
	}
	return s.client + " over " + family
}

// sources are all clients with all their addresses.
func sources(p *plan) []source {
	var out []source
	for _, h := range p.withRole(roleClient) {
		for _, vip := range p.vips {
			if addr := h.addr(vip.Is6()); addr.IsValid() {
				out = append(out, source{h.name, h.group, addr, vip})
			}
		}
	}
	return out
}

// tally is what one source's requests came to.
type tally struct {
	answers map[string]int // by backend
	refused int
	failed  int
	lastErr error // of those that failed
}

func (t tally) total() int {
	n := 0
	for _, k := range t.answers {
		n += k
	}
	return n
}

// traffic has every source make one HTTP request after the other, each over a
// connection of its own, and counts who answers.
type traffic struct {
	sources []source
	ns      map[string]*netlab.Namespace

	mu      sync.Mutex
	window  int // requests count only in the window that they began in
	tallies []tally
}

func newTraffic(list []source, ns map[string]*netlab.Namespace) *traffic {
	t := &traffic{sources: list, ns: ns, tallies: make([]tally, len(list))}
	t.Reset()
	return t
}

// Run makes requests until ctx ends.
func (t *traffic) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for i := range t.sources {
		wg.Go(func() { t.ask(ctx, i) })
	}
	wg.Wait()
	return nil
}

func (t *traffic) ask(ctx context.Context, i int) {
	src := t.sources[i]
	client := newHTTPClient(t.ns[src.client])
	url := "http://" + netip.AddrPortFrom(src.vip, httpPort).String() + "/"
	pause := time.NewTicker(requestPause)
	defer pause.Stop()
	for {
		t.mu.Lock()
		window := t.window
		t.mu.Unlock()
		name, err := get(ctx, client, url)
		if ctx.Err() != nil {
			return
		}
		t.count(i, window, name, err)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

func (t *traffic) count(i, window int, name string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if window != t.window {
		return
	}
	c := &t.tallies[i]
	switch {
	case err == nil:
		c.answers[name]++
	case errors.Is(err, syscall.ECONNREFUSED):
		c.refused++
	default:
		c.failed++
		c.lastErr = err
	}
}

// Reset begins a new window with nothing counted.
func (t *traffic) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window++
	for i := range t.tallies {
		t.tallies[i] = tally{answers: map[string]int{}}
	}
}

// Tallies are the counts of the window, in the order of the sources.
func (t *traffic) Tallies() []tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]tally, len(t.tallies))
	for i, c := range t.tallies {
		out[i] = c
		out[i].answers = maps.Clone(c.answers)
	}
	return out
}

// newHTTPClient makes a client that connects anew for each request, from
// inside a namespace.
func newHTTPClient(ns *netlab.Namespace) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:       ns.Dial,
		DisableKeepAlives: true,
	}}
}

// get makes one request. Its answer is the name of the backend.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 256))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	return strings.TrimSpace(string(body)), nil
}

// hostPort is an address in the form that dialers take.
func hostPort(addr netip.Addr, port int) string {
	return net.JoinHostPort(addr.String(), strconv.Itoa(port))
}
