package healthcheck

import (
	"context"

	"l4lb/pkg/lb"
)

// Prober makes one probe of one protocol. It is called from many goroutines at
// once.
type Prober interface {
	// Probe returns within the deadline of ctx, which is the check's timeout
	// counted from the start of the probe, and soon after ctx is cancelled;
	// the result of a cancelled probe is not used. It leaves no socket and no
	// goroutine behind.
	Probe(ctx context.Context, t Target) Result
}

// DefaultProbers returns the probers of this package, all connecting through d.
func DefaultProbers(d *Dialer) map[lb.HealthCheckType]Prober {
	return map[lb.HealthCheckType]Prober{
		lb.CheckTCP:         &TCPProber{Dialer: d},
		lb.CheckSSL:         &SSLProber{Dialer: d},
		lb.CheckHTTP:        &HTTPProber{Dialer: d},
		lb.CheckHTTPS:       &HTTPSProber{Dialer: d},
		lb.CheckHTTP2:       &HTTP2Prober{Dialer: d},
		lb.CheckGRPC:        &GRPCProber{Dialer: d},
		lb.CheckGRPCWithTLS: &GRPCProber{Dialer: d, TLS: true},
	}
}

// proxyLine is what proxyHeader PROXY_V1 sends before anything else
// (semantics.md 5.1).
const proxyLine = "PROXY UNKNOWN\r\n"

// preamble returns the bytes that come before the protocol's own.
func preamble(c *lb.HealthCheck) string {
	if c.ProxyHeader == lb.ProxyV1 {
		return proxyLine
	}
	return ""
}
