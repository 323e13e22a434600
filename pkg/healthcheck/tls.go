package healthcheck

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

const (
	alpnHTTP1 = "http/1.1"
	alpnHTTP2 = "h2"
)

// SSLProber implements health checks of type SSL (semantics.md 5.2): the TLS
// handshake passes, and with a response the reply must be exactly that.
type SSLProber struct{ Dialer *Dialer }

// Probe implements Prober.
func (p *SSLProber) Probe(ctx context.Context, t Target) Result {
	start := time.Now()
	c, err := p.Dialer.dial(ctx, t)
	if err != nil {
		return connectFailure(start, err)
	}
	defer c.Close()
	secure, err := p.Dialer.handshake(c, t)
	if err != nil {
		return handshakeFailure(start, err)
	}
	res := converse(secure, &t.Check, start, t.Check.Request, "TLS handshake done")
	if res.OK() && secure.CloseWrite() == nil {
		c.awaitClose(ctx)
	}
	return res
}

// HTTPSProber implements health checks of type HTTPS: HTTP/1.1 over TLS, by the
// rules of HTTPProber.
type HTTPSProber struct{ Dialer *Dialer }

// Probe implements Prober.
func (p *HTTPSProber) Probe(ctx context.Context, t Target) Result {
	start := time.Now()
	c, err := p.Dialer.dial(ctx, t)
	if err != nil {
		return unanswered(connectFailure(start, err))
	}
	defer c.Close()
	secure, err := p.Dialer.handshake(c, t, alpnHTTP1)
	if err != nil {
		return unanswered(handshakeFailure(start, err))
	}
	res := getHTTP(secure, t, start, requestHead(t, portHTTPS))
	if res.OK() {
		c.awaitClose(ctx)
	}
	return res
}

// handshake sends what comes before the protocol's own bytes and does the TLS
// handshake. Its time is bounded by c's deadline, its memory by crypto/tls.
func (d *Dialer) handshake(c net.Conn, t Target, protocols ...string) (*tls.Conn, error) {
	if line := preamble(&t.Check); line != "" {
		if _, err := io.WriteString(c, line); err != nil {
			return nil, err
		}
	}
	secure := tls.Client(c, d.tlsConfig(t, protocols...))
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	return secure, nil
}

// tlsConfig makes the parameters of a handshake. A certificate is judged only
// where the check asks for it (semantics.md 5.2); otherwise old versions are
// accepted too, since the question is whether the backend serves. The curves
// are those that keep the first message in one segment.
func (d *Dialer) tlsConfig(t Target, protocols ...string) *tls.Config {
	verify := t.Check.VerifyCertificates
	cfg := &tls.Config{
		InsecureSkipVerify: !verify,
		RootCAs:            d.Roots,
		ServerName:         serverName(t),
		NextProtos:         protocols,
		MinVersion:         tls.VersionTLS10,
		CurvePreferences:   []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
	}
	if verify {
		cfg.MinVersion = tls.VersionTLS12
		if cfg.ServerName == "" {
			// Judges the addresses in the certificate; none is sent as SNI.
			cfg.ServerName = t.Addr.WithZone("").String()
		}
	}
	return cfg
}

// serverName is the configured name, or the name in the Host field, or "".
func serverName(t Target) string {
	if t.Check.ServerName != "" {
		return t.Check.ServerName
	}
	host := t.Check.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host[0] == '[' {
		return ""
	}
	return host
}

// handshakeFailure is the Result of a probe that got a connection and no TLS.
// What is neither the network's nor the clock's doing is the peer's TLS.
func handshakeFailure(start time.Time, err error) Result {
	r := failure(start, "TLS handshake", err)
	var alert tls.AlertError
	var remote *net.OpError
	if errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error" || r.Detail == DetailBadResponse {
		r.Detail = DetailTLSError
	}
	return r
}
