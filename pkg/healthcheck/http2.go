package healthcheck

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// HTTP2Prober implements health checks of type HTTP2: HTTP/2 over TLS, agreed
// on by ALPN, by the rules of HTTPProber. Each probe has its own connection.
type HTTP2Prober struct{ Dialer *Dialer }

// Probe implements Prober.
func (p *HTTP2Prober) Probe(ctx context.Context, t Target) Result {
	start := time.Now()
	c, err := p.Dialer.dial(ctx, t)
	if err != nil {
		return unanswered(connectFailure(start, err))
	}
	defer c.Close()
	secure, err := p.Dialer.handshake(c, t, alpnHTTP2)
	if err != nil {
		return unanswered(handshakeFailure(start, err))
	}
	if got := secure.ConnectionState().NegotiatedProtocol; got != alpnHTTP2 {
		return unanswered(verdict(start, DetailBadResponse, fmt.Sprintf("the peer agreed on protocol %q, not on HTTP/2", clip(got))))
	}
	transport := newHTTP2Transport(secure)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(newHTTP2Request(ctx, t))
	if err != nil && strings.Contains(err.Error(), notEstablished) {
		return unanswered(verdict(start, DetailClosed, "request: "+notEstablished))
	}
	if err != nil {
		return unanswered(failure(start, "request", err))
	}
	defer resp.Body.Close()
	res := judge(resp, t.Check.Response, start)
	res.Weight = responseWeight(resp.Header)
	return res
}

// notEstablished is all that net/http says when the connection ends before it
// has looked at it: whether it does is a race with the peer.
const notEstablished = "client conn could not be established"

// errOneConnection keeps a probe from trying again behind the prober's back.
var errOneConnection = errors.New("a probe has one connection")

// newHTTP2Transport speaks HTTP/2 over one connection, which it does not own.
func newHTTP2Transport(secure *tls.Conn) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	var used atomic.Bool
	return &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errOneConnection
			}
			return secure, nil
		},
		Protocols: &protocols, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
	}
}

// newHTTP2Request makes the request of semantics.md 5.1. Path and host were
// checked by validate; the path is sent as it is configured.
func newHTTP2Request(ctx context.Context, t Target) *http.Request {
	path := t.Check.RequestPath
	if path == "" {
		path = "/"
	}
	host := hostField(t, portHTTPS)
	req := &http.Request{
		Method: http.MethodGet, Host: host,
		URL:    &url.URL{Scheme: "https", Host: t.AddrPort().String(), Opaque: "//" + host + path},
		Header: http.Header{"User-Agent": {userAgent}, "Accept": {"*/*"}},
	}
	return req.WithContext(ctx)
}
