package healthcheck

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

// secureSite answers by path, over HTTP/1.1 and HTTP/2 alike.
func secureSite(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ok":
		w.Header().Set(weightHeader, "7")
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.UserAgent())
	case "/moved":
		http.Redirect(w, r, "/ok", http.StatusFound)
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
	case "/late":
		w.Write([]byte(fill(1020) + "hello"))
	case "/hang":
		<-r.Context().Done()
	case "/drip":
		for r.Context().Err() == nil {
			w.Write([]byte("x"))
			http.NewResponseController(w).Flush()
			time.Sleep(60 * time.Millisecond)
		}
	case "/pour":
		for r.Context().Err() == nil {
			w.Write([]byte(fill(4096)))
		}
	case "/abort":
		panic(http.ErrAbortHandler)
	case "/headers":
		w.Header().Set("X-Fill", fill(2*maxHead))
	default:
		http.Error(w, "hello", http.StatusServiceUnavailable)
	}
}

func TestSecureWebProbes(t *testing.T) {
	peer := webServer(t, loopback4, serverTLS(t, alpnHTTP2, alpnHTTP1), secureSite)
	tests := []struct {
		path, response string
		timeout        time.Duration
		want           Detail
	}{
		{"/ok", "", patient, DetailHealthy},
		{"/ok", userAgent, patient, DetailHealthy},
		{"/ok", "hello", patient, DetailBadResponse},
		{"/moved", "", patient, DetailBadStatus},
		{"/empty", "", patient, DetailBadStatus},
		{"/none", "hello", patient, DetailBadStatus},
		{"/late", "hello", patient, DetailBadResponse},
		{"/hang", "", impatient, DetailTimeout},
		{"/drip", "hello", impatient, DetailTimeout},
		{"/pour", "", patient, DetailHealthy},
		{"/pour", "hello", patient, DetailBadResponse},
		{"/headers", "", patient, DetailBadResponse},
	}
	protos := map[lb.HealthCheckType]string{lb.CheckHTTPS: "HTTP/1.1", lb.CheckHTTP2: "HTTP/2.0"}
	for kind, proto := range protos {
		for _, tt := range tests {
			target := at(peer, check(kind, func(c *lb.HealthCheck) { c.RequestPath, c.Response = tt.path, tt.response }))
			got := probeOnce(t, DefaultProbers(&Dialer{})[kind], target, tt.timeout)
			if got.Detail != tt.want {
				t.Errorf("%s %s %q: got %s (%s), want %s", kind, tt.path, tt.response, got.Detail, got.Text, tt.want)
			}
			if answered := tt.path != "/hang" && tt.path != "/headers"; answered == (got.Weight.Err == lb.WeightUnavailable) {
				t.Errorf("%s %s: weight %+v", kind, tt.path, got.Weight)
			}
		}
		target := at(peer, check(kind, func(c *lb.HealthCheck) {
			c.RequestPath, c.Response, c.Host = "/ok", proto+" www.example.com "+userAgent, "www.example.com"
		}))
		if got := probeOnce(t, DefaultProbers(&Dialer{})[kind], target, patient); !got.OK() || got.Weight.PPM != 7_000_000 {
			t.Errorf("%s with a host: got %+v", kind, got)
		}
		target = at(peer, check(kind, func(c *lb.HealthCheck) {
			c.RequestPath, c.Response = "/ok", proto+" "+peer.String()
		}))
		if got := probeOnce(t, DefaultProbers(&Dialer{})[kind], target, patient); !got.OK() {
			t.Errorf("%s without a host: got %s (%s)", kind, got.Detail, got.Text)
		}
	}
}

// TestHTTP2Request compares what is sent with what is configured.
func TestHTTP2Request(t *testing.T) {
	seen := make(chan string, 1)
	for addr, host := range map[string]string{loopback4: loopback4, loopback6: "[" + loopback6 + "]"} {
		peer := webServer(t, addr, serverTLS(t, alpnHTTP2), func(_ http.ResponseWriter, r *http.Request) {
			seen <- fmt.Sprint(r.Method, " ", r.Host, " ", r.RequestURI)
		})
		for _, path := range []string{"/", "/a%2Fb?x=1&y", "//double", "/sp%20ace#f"} {
			target := at(peer, check(lb.CheckHTTP2, func(c *lb.HealthCheck) { c.RequestPath = path }))
			if got := probeOnce(t, &HTTP2Prober{Dialer: &Dialer{}}, target, patient); !got.OK() {
				t.Fatalf("got %s (%s)", got.Detail, got.Text)
			}
			if got, want := <-seen, fmt.Sprintf("GET %s:%d %s", host, peer.Port(), path); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
}

func TestHTTP2WithoutAgreement(t *testing.T) {
	tests := map[string]Detail{"": DetailBadResponse, alpnHTTP1: DetailTLSError}
	for protocol, want := range tests {
		cfg := serverTLS(t)
		if protocol != "" {
			cfg.NextProtos = []string{protocol}
		}
		peer := serve(t, loopback4, overTLS(cfg, answer(body(""))))
		got := probeOnce(t, &HTTP2Prober{Dialer: &Dialer{}}, at(peer, check(lb.CheckHTTP2, nil)), patient)
		if got.Detail != want {
			t.Errorf("peer with %q: got %s (%s), want %s", protocol, got.Detail, got.Text, want)
		}
	}
}

// TestHostileHTTP2Peers has peers that agree on HTTP/2 and do not speak it.
func TestHostileHTTP2Peers(t *testing.T) {
	cfg := serverTLS(t, alpnHTTP2)
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	tests := []struct {
		name    string
		peer    func(net.Conn)
		timeout time.Duration
		want    Detail
	}{
		{"says nothing", hang, impatient, DetailTimeout},
		{"settings and nothing more", speak(settings), impatient, DetailTimeout},
		{"drips", drip(settings + settings), impatient, DetailTimeout},
		{"garbage", speak(fill(200)), patient, DetailBadResponse},
		{"HTTP/1.1", speak("HTTP/1.1 200 OK\r\n\r\n"), patient, DetailBadResponse},
		{"closes", func(c net.Conn) { c.Read(make([]byte, 100)) }, patient, DetailClosed},
		{"goes away", speak(settings + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b"), patient, DetailBadResponse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			peer := serve(t, loopback4, overTLS(cfg, tt.peer))
			got := probeOnce(t, &HTTP2Prober{Dialer: &Dialer{}}, at(peer, check(lb.CheckHTTP2, nil)), tt.timeout)
			// A peer that is quick to end is seen to have closed, whatever it said.
			quick := got.Detail == DetailClosed && strings.HasSuffix(got.Text, notEstablished)
			if got.Detail != tt.want && !quick || got.Weight.Err != lb.WeightUnavailable {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestSecureProxyLine(t *testing.T) {
	cfg := serverTLS(t, alpnHTTP2, alpnHTTP1)
	inner := webServer(t, loopback4, cfg, secureSite)
	peer := serve(t, loopback4, afterProxyLine(relay(inner)))
	for _, kind := range []lb.HealthCheckType{lb.CheckHTTPS, lb.CheckHTTP2} {
		target := at(peer, check(kind, func(c *lb.HealthCheck) { c.RequestPath, c.ProxyHeader = "/ok", lb.ProxyV1 }))
		if got := probeOnce(t, DefaultProbers(&Dialer{})[kind], target, patient); !got.OK() {
			t.Errorf("%s: got %s (%s)", kind, got.Detail, got.Text)
		}
	}
}

// relay hands a connection on to another peer.
func relay(to netip.AddrPort) func(net.Conn) {
	return func(c net.Conn) {
		out, err := net.Dial("tcp", to.String())
		if err != nil {
			return
		}
		go func() {
			defer out.Close()
			echoTo(out, c)
		}()
		echoTo(c, out)
	}
}

func echoTo(dst, src net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := src.Read(buf)
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}
