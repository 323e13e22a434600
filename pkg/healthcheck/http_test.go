package healthcheck

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

const ok200 = "HTTP/1.1 200 OK\r\nConnection: close\r\n"

// body makes a complete answer of status 200.
func body(s string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ok200, len(s), s) }

func chunked(parts ...string) string {
	s := ok200 + "Transfer-Encoding: chunked\r\n\r\n"
	for _, p := range parts {
		s += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	return s + "0\r\n\r\n"
}

func keepOpen(text string) func(net.Conn) {
	return func(c net.Conn) {
		answer(text)(c)
		hang(c)
	}
}

type httpCase struct {
	name     string
	peer     func(net.Conn)
	response string
	timeout  time.Duration // patient where 0
	want     Detail
}

func fill(n int) string { return strings.Repeat("x", n) }

// pour answers with head and then with line for ever.
func pour(head, line string) func(net.Conn) {
	return func(c net.Conn) {
		answer(head)(c)
		for {
			if _, err := c.Write([]byte(line)); err != nil {
				return
			}
		}
	}
}

func statusCases() []httpCase {
	redirect := "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n"
	return []httpCase{
		{"200", answer(body("")), "", 0, DetailHealthy},
		{"200 HTTP/1.0 without length", answer("HTTP/1.0 200 OK\r\n\r\nhello"), "hello", 0, DetailHealthy},
		{"200 after interim answers", answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + body("")), "", 0, DetailHealthy},
		{"200 kept open", keepOpen(body("hello")), "", 0, DetailHealthy},
		{"200 kept open, response found", keepOpen(body("hello")), "hello", 0, DetailHealthy},
		{"200 and a body without end", pour(ok200+"\r\n", fill(4096)), "", 0, DetailHealthy},
		{"200 and a body that does not come", keepOpen(ok200 + "Content-Length: 10\r\n\r\n"), "", 0, DetailHealthy},
		{"body without end, response missing", pour(ok200+"\r\n", fill(4096)), "hello", 0, DetailBadResponse},
		{"201", answer("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"), "", 0, DetailBadStatus},
		{"204", answer("HTTP/1.1 204 No Content\r\n\r\n"), "", 0, DetailBadStatus},
		{"101", answer("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "", 0, DetailBadStatus},
		{"redirect is not followed", answer(redirect), "", 0, DetailBadStatus},
		{"404 with the response", answer("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello"), "hello", 0, DetailBadStatus},
		{"503", answer("HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n"), "", 0, DetailBadStatus},
	}
}

func bodyCases() []httpCase {
	return []httpCase{
		{"response in the middle", answer(body("say hello world")), "hello", 0, DetailHealthy},
		{"response in other case", answer(body("HELLO")), "hello", 0, DetailBadResponse},
		{"response ends at byte 1024", answer(body(fill(1019) + "hello")), "hello", 0, DetailHealthy},
		{"response ends at byte 1025", answer(body(fill(1020) + "hello")), "hello", 0, DetailBadResponse},
		{"response far beyond", answer(body(fill(2000) + "hello")), "hello", 0, DetailBadResponse},
		{"response over two chunks", answer(chunked("say hel", "lo world")), "hello", 0, DetailHealthy},
		{"response in chunk number 300", answer(chunked(append(strings.Split(fill(299), ""), "hello")...)), "hello", 0, DetailHealthy},
		{"empty body, response wanted", answer(body("")), "hello", 0, DetailBadResponse},
		{"body cut short", answer(ok200 + "Content-Length: 10\r\n\r\nhel"), "hello", 0, DetailClosed},
		{"body stalls", keepOpen(ok200 + "Content-Length: 10\r\n\r\nhel"), "hello", impatient, DetailTimeout},
	}
}

func brokenCases() []httpCase {
	return []httpCase{
		{"garbage", answer("\x16\x03\x01\x02garbage\r\n\r\n"), "", 0, DetailBadResponse},
		{"garbage header", answer("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"), "", 0, DetailBadResponse},
		{"SSH banner", answer("SSH-2.0-OpenSSH_9.2\r\n"), "", 0, DetailBadResponse},
		{"headers without end", pour(ok200, "X-Fill: "+fill(1000)+"\r\n"), "", 0, DetailBadResponse},
		{"status line without end", answer("HTTP/1.1 200 " + fill(maxHead+10)), "", 0, DetailBadResponse},
		{"large headers", answer(ok200 + "X-Fill: " + fill(60000) + "\r\nContent-Length: 5\r\n\r\nhello"), "hello", 0, DetailHealthy},
		{"slow drip", drip(body("hello")), "", impatient, DetailTimeout},
		{"accepts and says nothing", hang, "", impatient, DetailTimeout},
		{"closes without an answer", answer(""), "", 0, DetailClosed},
		{"resets", func(c net.Conn) { readRequest(c); reset(c) }, "", 0, DetailReset},
	}
}

func TestHTTPProbe(t *testing.T) {
	for _, tt := range slices.Concat(statusCases(), bodyCases(), brokenCases()) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timeout := patient
			if tt.timeout != 0 {
				timeout = tt.timeout
			}
			target := at(serve(t, loopback4, tt.peer), check(lb.CheckHTTP, func(c *lb.HealthCheck) { c.Response = tt.response }))
			got := probeOnce(t, &HTTPProber{Dialer: &Dialer{}}, target, timeout)
			if got.Detail != tt.want {
				t.Errorf("got %s (%s), want %s", got.Detail, got.Text, tt.want)
			}
			if len(got.Text) > 400 || !plain(strings.ReplaceAll(got.Text, " ", "")) {
				t.Errorf("text is long or not printable: %q", got.Text)
			}
		})
	}
}

func TestHTTPNoConnection(t *testing.T) {
	got := probeOnce(t, &HTTPProber{Dialer: &Dialer{}}, at(deadPort(t), check(lb.CheckHTTP, nil)), patient)
	if got.Detail != DetailRefused || got.Weight.Err != lb.WeightUnavailable {
		t.Errorf("got %+v, want REFUSED without a weight", got)
	}
}

func TestHTTPRequest(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	tests := []struct {
		name       string
		addr       string
		host, path string
		wantHost   func(port string) string
		wantPath   string
	}{
		{"defaults", loopback4, "", "", func(p string) string { return "127.0.0.1:" + p }, "/"},
		{"IPv6", loopback6, "", "/healthz?full=1", func(p string) string { return "[::1]:" + p }, "/healthz?full=1"},
		{"configured host", loopback4, "www.example.com", "/h", func(string) string { return "www.example.com" }, "/h"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := make(chan *http.Request, 1)
			peer := serve(t, tt.addr, func(c net.Conn) {
				seen <- readRequest(c)
				c.Write([]byte(body("")))
			})
			target := at(peer, check(lb.CheckHTTP, func(c *lb.HealthCheck) { c.Host, c.RequestPath = tt.host, tt.path }))
			if got := probeOnce(t, &HTTPProber{Dialer: &Dialer{}}, target, patient); !got.OK() {
				t.Fatalf("got %s (%s)", got.Detail, got.Text)
			}
			req := <-seen
			_, port, _ := net.SplitHostPort(peer.String())
			if req.Method != "GET" || req.Host != tt.wantHost(port) || req.RequestURI != tt.wantPath || !req.Close {
				t.Errorf("got %s %s Host %q close %v, want Host %q path %s",
					req.Method, req.RequestURI, req.Host, req.Close, tt.wantHost(port), tt.wantPath)
			}
		})
	}
}

func TestHTTPWrongHost(t *testing.T) {
	peer := serve(t, loopback4, func(c net.Conn) {
		status := "421 Misdirected Request"
		if req := readRequest(c); req != nil && req.Host == "www.example.com" {
			status = "200 OK"
		}
		fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
	})
	for host, want := range map[string]Detail{"": DetailBadStatus, "www.example.com": DetailHealthy} {
		target := at(peer, check(lb.CheckHTTP, func(c *lb.HealthCheck) { c.Host = host }))
		if got := probeOnce(t, &HTTPProber{Dialer: &Dialer{}}, target, patient); got.Detail != want {
			t.Errorf("host %q: got %s (%s), want %s", host, got.Detail, got.Text, want)
		}
	}
}

func TestHTTPProxyLine(t *testing.T) {
	peer := serve(t, loopback4, func(c net.Conn) {
		line := make([]byte, len(proxyLine))
		if _, err := c.Read(line); err != nil || string(line) != proxyLine {
			return
		}
		answer(body(""))(c)
	})
	target := at(peer, check(lb.CheckHTTP, func(c *lb.HealthCheck) { c.ProxyHeader = lb.ProxyV1 }))
	if got := probeOnce(t, &HTTPProber{Dialer: &Dialer{}}, target, patient); !got.OK() {
		t.Errorf("got %s (%s)", got.Detail, got.Text)
	}
}
