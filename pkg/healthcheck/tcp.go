package healthcheck

import (
	"context"
	"fmt"
	"net"
	"time"

	"l4lb/pkg/lb"
)

// quoteLimit is how much of a wrong answer a Result quotes, in bytes.
const quoteLimit = 64

// TCPProber implements health checks of type TCP (semantics.md 5.2): the
// handshake passes, and with a response the reply must be exactly that.
type TCPProber struct{ Dialer *Dialer }

// Probe implements Prober.
func (p *TCPProber) Probe(ctx context.Context, t Target) Result {
	start := time.Now()
	c, err := p.Dialer.dial(ctx, t)
	if err != nil {
		return connectFailure(start, err)
	}
	defer c.Close()
	return converse(c, &t.Check, start, preamble(&t.Check)+t.Check.Request, "connected")
}

// converse sends what a check of type TCP or SSL says and judges the reply.
// done is the text of a pass that needs no reply.
func converse(c net.Conn, check *lb.HealthCheck, start time.Time, send, done string) Result {
	if send != "" {
		if _, err := c.Write([]byte(send)); err != nil {
			return failure(start, "send request", err)
		}
	}
	if check.Response == "" {
		return verdict(start, DetailHealthy, done)
	}
	return matchReply(c, check.Response, start)
}

// matchReply reads until the reply is as long as want or differs from it. A
// reply that goes on in the segment that completed it is not an exact match;
// what comes later is not waited for.
func matchReply(c net.Conn, want string, start time.Time) Result {
	buf := make([]byte, len(want)+1)
	got := 0
	for got < len(want) {
		n, err := c.Read(buf[got:])
		got += n
		if got > len(want) || string(buf[:got]) != want[:got] {
			return verdict(start, DetailBadResponse, fmt.Sprintf("reply %s differs from the expected one", quote(buf[:got])))
		}
		if err != nil && got < len(want) {
			return failure(start, fmt.Sprintf("read reply, %d of %d bytes", got, len(want)), err)
		}
	}
	return verdict(start, DetailHealthy, "reply matched")
}

// quote shows the beginning of what a peer sent.
func quote(b []byte) string {
	if len(b) > quoteLimit {
		return fmt.Sprintf("%q…", b[:quoteLimit])
	}
	return fmt.Sprintf("%q", b)
}
