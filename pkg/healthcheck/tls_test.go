package healthcheck

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

// tlsKinds are the types that begin with a TLS handshake.
func tlsKinds() []lb.HealthCheckType {
	return []lb.HealthCheckType{lb.CheckSSL, lb.CheckHTTPS, lb.CheckHTTP2, lb.CheckGRPCWithTLS}
}

func TestSSLProbe(t *testing.T) {
	cfg := serverTLS(t)
	tests := []struct {
		name              string
		peer              func(net.Conn)
		request, response string
		proxy             lb.ProxyHeader
		timeout           time.Duration
		want              Detail
	}{
		{name: "handshake is enough", peer: overTLS(cfg, hang), want: DetailHealthy},
		{name: "request is echoed", peer: overTLS(cfg, echo), request: "PING", response: "PING", want: DetailHealthy},
		{name: "other reply", peer: overTLS(cfg, echo), request: "PING", response: "PONG", want: DetailBadResponse},
		{name: "no reply", peer: overTLS(cfg, hang), response: "PONG", timeout: impatient, want: DetailTimeout},
		{name: "reply drips", peer: overTLS(cfg, drip("PONG PONG")), response: "PONG PONG", timeout: impatient, want: DetailTimeout},
		{name: "closes before the reply", peer: overTLS(cfg, func(net.Conn) {}), response: "PONG", want: DetailClosed},
		{name: "proxy line comes first", peer: afterProxyLine(overTLS(cfg, hang)), proxy: lb.ProxyV1, want: DetailHealthy},
		{name: "proxy line is missing", peer: afterProxyLine(overTLS(cfg, hang)), want: DetailReset},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timeout := patient
			if tt.timeout != 0 {
				timeout = tt.timeout
			}
			target := at(serve(t, loopback4, tt.peer), check(lb.CheckSSL, func(c *lb.HealthCheck) {
				c.Request, c.Response, c.ProxyHeader = tt.request, tt.response, tt.proxy
			}))
			got := probeOnce(t, &SSLProber{Dialer: &Dialer{}}, target, timeout)
			if got.Detail != tt.want || got.Weight.Err != lb.WeightNone {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

// afterProxyLine is a peer that wants the line first.
func afterProxyLine(handle func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		line := make([]byte, len(proxyLine))
		if _, err := io.ReadFull(c, line); err == nil && string(line) == proxyLine {
			handle(c)
		}
	}
}

// TestHostileHandshakes aims every protocol over TLS at peers that do not do
// it: none costs more than its timeout, and none of them passes.
func TestHostileHandshakes(t *testing.T) {
	broken := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, io.ErrNoProgress }}
	tests := []struct {
		name    string
		peer    func(net.Conn)
		timeout time.Duration
		want    Detail
	}{
		{"accepts and says nothing", hang, impatient, DetailTimeout},
		{"handshake drips", drip("\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + fill(100)), impatient, DetailTimeout},
		{"garbage", speak("\x00\xff\x80 what?\r\n" + fill(100)), patient, DetailTLSError},
		{"speaks plain HTTP", speak("HTTP/1.1 400 Bad Request\r\n\r\n"), patient, DetailTLSError},
		{"garbage in a record", speak("\x16\x03\x03\x00\x20" + fill(32)), patient, DetailTLSError},
		{"refuses the handshake", overTLS(broken, hang), patient, DetailTLSError},
		{"closes at once", func(c net.Conn) { io.ReadFull(c, make([]byte, 1)) }, patient, DetailReset},
		{"resets", reset, patient, DetailReset},
	}
	for _, kind := range tlsKinds() {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s/%s", kind, tt.name), func(t *testing.T) {
				t.Parallel()
				got := probeOnce(t, DefaultProbers(&Dialer{})[kind], at(serve(t, loopback4, tt.peer), check(kind, nil)), tt.timeout)
				closed := tt.want == DetailReset && got.Detail == DetailClosed
				if got.Detail != tt.want && !closed {
					t.Errorf("got %s (%s), want %s", got.Detail, got.Text, tt.want)
				}
				if isHTTP := kind == lb.CheckHTTPS || kind == lb.CheckHTTP2; isHTTP != (got.Weight.Err == lb.WeightUnavailable) {
					t.Errorf("weight %+v", got.Weight)
				}
			})
		}
	}
}

// speak reads what the prober begins with, says text and waits.
func speak(text string) func(net.Conn) {
	return func(c net.Conn) {
		c.Read(make([]byte, 4096))
		c.Write([]byte(text))
		hang(c)
	}
}

func TestServerName(t *testing.T) {
	names := make(chan string, 1)
	cfg := serverTLS(t, alpnHTTP2, alpnHTTP1)
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil
	}
	web := webServer(t, loopback4, cfg, func(http.ResponseWriter, *http.Request) {})
	tests := []struct{ host, server, want string }{
		{"", "", ""},
		{"www.example.com", "", "www.example.com"},
		{"www.example.com:8443", "", "www.example.com"},
		{"192.0.2.1", "", ""},
		{"[2001:db8::1]:443", "", ""},
		{"www.example.com", "inner.example.com", "inner.example.com"},
	}
	for _, kind := range []lb.HealthCheckType{lb.CheckHTTPS, lb.CheckHTTP2, lb.CheckSSL} {
		for _, tt := range tests {
			target := at(web, check(kind, func(c *lb.HealthCheck) { c.Host, c.ServerName = tt.host, tt.server }))
			if got := probeOnce(t, DefaultProbers(&Dialer{})[kind], target, patient); !got.OK() {
				t.Errorf("%s: got %s (%s)", kind, got.Detail, got.Text)
			}
			if name := <-names; name != tt.want {
				t.Errorf("%s, host %q, server name %q: asked for %q, want %q", kind, tt.host, tt.server, name, tt.want)
			}
		}
	}
}

// TestCertificates checks that a certificate is judged only on demand.
func TestCertificates(t *testing.T) {
	good, pem := certificate(t, time.Now().Add(time.Hour))
	stale, stalePEM := certificate(t, time.Now().Add(-time.Minute))
	foreign, _ := certificate(t, time.Now().Add(time.Hour))
	dialer := &Dialer{Roots: trust(t, pem, stalePEM)}
	tests := []struct {
		name   string
		cert   tls.Certificate
		server string
		verify bool
		want   Detail
	}{
		{"trusted, by address", good, "", true, DetailHealthy},
		{"trusted, by name", good, "www.example.com", true, DetailHealthy},
		{"trusted, other name", good, "www.example.org", true, DetailTLSError},
		{"expired", stale, "", true, DetailTLSError},
		{"not trusted", foreign, "", true, DetailTLSError},
		{"other name, not judged", good, "www.example.org", false, DetailHealthy},
		{"expired, not judged", stale, "", false, DetailHealthy},
		{"not trusted, not judged", foreign, "", false, DetailHealthy},
	}
	for _, tt := range tests {
		cfg := &tls.Config{Certificates: []tls.Certificate{tt.cert}, NextProtos: []string{alpnHTTP2, alpnHTTP1}}
		web := webServer(t, loopback4, cfg, func(http.ResponseWriter, *http.Request) {})
		rpc := grpcServer(t, loopback4, cfg, nil)
		for _, kind := range tlsKinds() {
			peer := web
			if kind == lb.CheckGRPCWithTLS {
				peer = rpc
			}
			target := at(peer, check(kind, func(c *lb.HealthCheck) { c.ServerName, c.VerifyCertificates = tt.server, tt.verify }))
			if got := probeOnce(t, DefaultProbers(dialer)[kind], target, patient); got.Detail != tt.want {
				t.Errorf("%s, %s: got %s (%s), want %s", kind, tt.name, got.Detail, got.Text, tt.want)
			}
		}
	}
}
