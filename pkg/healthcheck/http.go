package healthcheck

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"l4lb/pkg/lb"
)

const (
	// maxHead bounds status line and headers of an answer, interim answers
	// included, and maxBody what is read of its body on the wire.
	maxHead = 64 << 10
	maxBody = 64 << 10
	// searched is how much of the body a response is looked for in
	// (semantics.md 5.2).
	searched = 1024
	// portHTTP and portHTTPS are left out of the Host field of their protocol.
	portHTTP, portHTTPS = 80, 443
	// userAgent is what the prober calls itself.
	userAgent = "l4lb-healthcheck"
)

// HTTPProber implements health checks of type HTTP (semantics.md 5.2). It
// speaks HTTP/1.1 over a connection of its own, follows no redirect, knows no
// proxy, and reads no more of an answer than the verdict needs.
type HTTPProber struct{ Dialer *Dialer }

// Probe implements Prober.
func (p *HTTPProber) Probe(ctx context.Context, t Target) Result {
	start := time.Now()
	c, err := p.Dialer.dial(ctx, t)
	if err != nil {
		return unanswered(connectFailure(start, err))
	}
	defer c.Close()
	res := getHTTP(c, t, start, preamble(&t.Check)+requestHead(t, portHTTP))
	if res.OK() {
		c.awaitClose(ctx)
	}
	return res
}

// unanswered marks a probe that got no answer to read a weight from.
func unanswered(r Result) Result {
	r.Weight = lb.Weight{Err: lb.WeightUnavailable}
	return r
}

// getHTTP sends the request and judges the answer.
func getHTTP(c net.Conn, t Target, start time.Time, request string) Result {
	if _, err := io.WriteString(c, request); err != nil {
		return unanswered(failure(start, "send request", err))
	}
	in := &bounded{r: c, left: maxHead}
	resp, err := readHead(bufio.NewReader(in))
	if err != nil {
		return unanswered(failure(start, "read answer", cmp.Or(in.err, err)))
	}
	in.left = maxBody
	res := judge(resp, t.Check.Response, start)
	res.Weight = responseWeight(resp.Header)
	return res
}

// errTooLong is the end of an answer that is longer than a probe reads.
var errTooLong = fmt.Errorf("more than %d bytes", maxHead)

// bounded reads at most left bytes. It keeps the error that ended it, which
// the HTTP parser hides when it comes in the middle of a line.
type bounded struct {
	r    io.Reader
	left int
	err  error
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.err = errTooLong
		return 0, b.err
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// requestHead writes the request. Everything in it was checked by validate.
func requestHead(t Target, defaultPort uint16) string {
	path := t.Check.RequestPath
	if path == "" {
		path = "/"
	}
	return "GET " + path + " HTTP/1.1\r\n" +
		"Host: " + hostField(t, defaultPort) + "\r\n" +
		"User-Agent: " + userAgent + "\r\n" +
		"Accept: */*\r\n" +
		"Connection: close\r\n\r\n"
}

// hostField is the configured host as it stands, or the destination address
// as a URL would have it: IPv6 in brackets, no zone, no default port.
func hostField(t Target, defaultPort uint16) string {
	if t.Check.Host != "" {
		return t.Check.Host
	}
	host := t.Addr.WithZone("").String()
	if t.Addr.Is6() {
		host = "[" + host + "]"
	}
	if t.Check.Port != defaultPort {
		host += ":" + strconv.Itoa(int(t.Check.Port))
	}
	return host
}

// readHead reads up to the end of the final answer's headers.
func readHead(r *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return nil, err
		}
		interim := resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols
		if !interim {
			return resp, nil
		}
	}
}

// judge applies the success rule: status exactly 200, and the response, if one
// is configured, anywhere in the first 1024 bytes of the body.
func judge(resp *http.Response, want string, start time.Time) Result {
	if resp.StatusCode != http.StatusOK {
		return verdict(start, DetailBadStatus, statusText(resp.StatusCode))
	}
	if want == "" {
		return verdict(start, DetailHealthy, statusText(resp.StatusCode))
	}
	body, err := readBody(resp.Body, []byte(want))
	if bytes.Contains(body, []byte(want)) {
		return verdict(start, DetailHealthy, statusText(resp.StatusCode)+", response found")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return failure(start, fmt.Sprintf("read body after %d bytes", len(body)), err)
	}
	return verdict(start, DetailBadResponse, fmt.Sprintf("response not in the first %d bytes of the body %s", len(body), quote(body)))
}

// readBody reads until want was seen, the searched part is full or the body
// ends, so that a slow body costs no more time than it must.
func readBody(r io.Reader, want []byte) ([]byte, error) {
	buf := make([]byte, searched)
	got := 0
	for got < searched {
		n, err := r.Read(buf[got:])
		got += n
		if err != nil {
			return buf[:got], err
		}
		if bytes.Contains(buf[:got], want) {
			break
		}
	}
	return buf[:got], nil
}

func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("status %d %s", code, text)
	}
	return fmt.Sprintf("status %d", code)
}
