package config

import (
	"maps"
	"slices"
	"time"

	"l4lb/pkg/lb"
)

const (
	defaultCheckInterval = 5 * time.Second // semantics.md 5.1
	defaultCheckTimeout  = 5 * time.Second
	defaultThreshold     = 2
)

func requireCheckFields(c *check) {
	for i := range c.healthChecks {
		h := &c.healthChecks[i]
		require(c.report, h.pos, h.name, "health check", "name", "hc-http")
		require(c.report, h.pos, h.kind, "health check", "type", "TCP")
	}
}

// timeoutWithinInterval: a probe ends before the next one begins
// (semantics.md 5.1).
func timeoutWithinInterval(c *check) {
	for i := range c.healthChecks {
		h := &c.healthChecks[i]
		if !h.interval.known() || !h.timeout.known() {
			continue
		}
		interval, timeout := h.interval.or(defaultCheckInterval), h.timeout.or(defaultCheckTimeout)
		switch {
		case timeout <= interval:
		case h.timeout.set:
			c.errorf(h.timeout.pos, "timeoutSec %d is longer than checkIntervalSec %d: make it at most %d",
				timeout/time.Second, interval/time.Second, interval/time.Second)
		default:
			c.errorf(h.interval.pos, "checkIntervalSec %d is shorter than the default timeoutSec %d: add timeoutSec: %d or less",
				interval/time.Second, timeout/time.Second, interval/time.Second)
		}
	}
}

// blockMatchesType: the parameters are those of the check's own type.
func blockMatchesType(c *check) {
	for i := range c.healthChecks {
		h := &c.healthChecks[i]
		if !h.kind.ok() {
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(h.blocks)) {
			if kind != h.kind.v {
				c.errorf(h.blocks[kind].keyPos, "%s does not belong to type %s: use %s, or change the type to %s",
					blockKey(kind), h.kind.v, blockKey(h.kind.v), kind)
			}
		}
	}
}

func grpcNeedsPort(c *check) {
	for i := range c.healthChecks {
		h := &c.healthChecks[i]
		if !h.kind.ok() || !isGRPC(h.kind.v) {
			continue
		}
		if b := h.blocks[h.kind.v]; b == nil || !b.port.set {
			c.errorf(h.kind.pos, "type %s has no default port: add %s: {port: 50051}", h.kind.v, blockKey(h.kind.v))
		}
	}
}

// tlsKeysNeedTLS: certificates and server names belong to a handshake.
func tlsKeysNeedTLS(c *check) {
	const mend = "remove it, or change the type to SSL, HTTPS, HTTP2 or GRPC_WITH_TLS"
	for i := range c.healthChecks {
		h := &c.healthChecks[i]
		if !h.kind.ok() || isTLS(h.kind.v) {
			continue
		}
		if v := h.extension.verify; v.or(false) {
			c.errorf(v.pos, "verifyCertificates has no meaning for type %s, which does no TLS: %s", h.kind.v, mend)
		}
		if n := h.extension.serverName; n.ok() {
			c.errorf(n.pos, "serverName has no meaning for type %s, which does no TLS: %s", h.kind.v, mend)
		}
	}
}

// defaultCheckPort is 0 for the types that must be given a port.
func defaultCheckPort(kind lb.HealthCheckType) uint16 {
	switch kind {
	case lb.CheckTCP, lb.CheckHTTP:
		return 80
	case lb.CheckSSL, lb.CheckHTTPS, lb.CheckHTTP2:
		return 443
	}
	return 0
}
