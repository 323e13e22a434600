package config

import (
	"time"

	"l4lb/pkg/lb"
)

// checkBlocks pairs the types with the keys of their parameters.
func checkBlocks() []struct {
	kind lb.HealthCheckType
	key  string
} {
	return []struct {
		kind lb.HealthCheckType
		key  string
	}{
		{lb.CheckTCP, "tcpHealthCheck"},
		{lb.CheckSSL, "sslHealthCheck"},
		{lb.CheckHTTP, "httpHealthCheck"},
		{lb.CheckHTTPS, "httpsHealthCheck"},
		{lb.CheckHTTP2, "http2HealthCheck"},
		{lb.CheckGRPC, "grpcHealthCheck"},
		{lb.CheckGRPCWithTLS, "grpcTlsHealthCheck"},
	}
}

func blockKey(kind lb.HealthCheckType) string {
	for _, b := range checkBlocks() {
		if b.kind == kind {
			return b.key
		}
	}
	return ""
}

// isHTTP reports whether probes are HTTP requests.
func isHTTP(kind lb.HealthCheckType) bool {
	return kind == lb.CheckHTTP || kind == lb.CheckHTTPS || kind == lb.CheckHTTP2
}

func isGRPC(kind lb.HealthCheckType) bool {
	return kind == lb.CheckGRPC || kind == lb.CheckGRPCWithTLS
}

// isTLS reports whether probes begin with a TLS handshake.
func isTLS(kind lb.HealthCheckType) bool {
	return kind == lb.CheckSSL || kind == lb.CheckHTTPS || kind == lb.CheckHTTP2 || kind == lb.CheckGRPCWithTLS
}

// healthCheckSchema has the ranges of semantics.md 5.1.
func healthCheckSchema() *schema[healthCheck] {
	kinds := make([]lb.HealthCheckType, 0, 7)
	for _, b := range checkBlocks() {
		kinds = append(kinds, b.kind)
	}
	fields := []field[healthCheck]{
		scalar("name", func(h *healthCheck) *val[string] { return &h.name }, resourceName),
		scalar("type", func(h *healthCheck) *val[lb.HealthCheckType] { return &h.kind }, oneOf(kinds...)),
		scalar("checkIntervalSec", func(h *healthCheck) *val[time.Duration] { return &h.interval }, seconds(1, 300)),
		scalar("timeoutSec", func(h *healthCheck) *val[time.Duration] { return &h.timeout }, seconds(1, 300)),
		scalar("healthyThreshold", func(h *healthCheck) *val[int] { return &h.healthy }, integer(1, 10)),
		scalar("unhealthyThreshold", func(h *healthCheck) *val[int] { return &h.unhealthy }, integer(1, 10)),
	}
	for _, b := range checkBlocks() {
		fields = append(fields, nested(b.key, func(h *healthCheck, e *entry) *checkBlock {
			if h.blocks == nil {
				h.blocks = map[lb.HealthCheckType]*checkBlock{}
			}
			h.blocks[b.kind] = &checkBlock{keyPos: e.keyPos}
			return h.blocks[b.kind]
		}, checkBlockSchema(b.kind)))
	}
	fields = append(fields,
		nested("logConfig", func(h *healthCheck, _ *entry) *logConfig { return &h.log }, object(
			scalar("enable", func(l *logConfig) *val[bool] { return &l.enable }, boolean),
		)),
		present("sourceRegions", func(h *healthCheck) *val[bool] { return &h.regions }),
		nested("l4lb", func(h *healthCheck, _ *entry) *checkExtension { return &h.extension }, object(
			scalar("verifyCertificates", func(x *checkExtension) *val[bool] { return &x.verify }, boolean),
			scalar("serverName", func(x *checkExtension) *val[string] { return &x.serverName }, serverName),
		)),
	)
	return object(fields...).ignore(outputOnly()...)
}

// checkBlockSchema has the parameters that a type of check knows.
func checkBlockSchema(kind lb.HealthCheckType) *schema[checkBlock] {
	const maxText = 1024 // bytes; semantics.md 5.1
	text := ascii(maxText)
	response := scalar("response", func(b *checkBlock) *val[string] { return &b.response }, text)
	proxy := scalar("proxyHeader", func(b *checkBlock) *val[lb.ProxyHeader] { return &b.proxyHeader }, oneOf(lb.ProxyNone, lb.ProxyV1))
	fields := []field[checkBlock]{
		scalar("port", func(b *checkBlock) *val[uint16] { return &b.port }, portNumber),
		scalar("portSpecification", func(b *checkBlock) *val[string] { return &b.portSpec }, oneOfExcept(
			map[string]string{"USE_NAMED_PORT": "a passthrough load balancer has no named ports"},
			"USE_FIXED_PORT", "USE_SERVING_PORT")),
	}
	switch {
	case isHTTP(kind):
		fields = append(fields,
			scalar("host", func(b *checkBlock) *val[string] { return &b.host }, printable),
			scalar("requestPath", func(b *checkBlock) *val[string] { return &b.requestPath }, requestPath),
			response, proxy)
	case isGRPC(kind):
		fields = append(fields,
			scalar("grpcServiceName", func(b *checkBlock) *val[string] { return &b.grpcServiceName }, text))
	default:
		fields = append(fields,
			scalar("request", func(b *checkBlock) *val[string] { return &b.request }, text),
			response, proxy)
	}
	return object(fields...).refuse(map[string]string{
		"portName": "a passthrough load balancer has no named ports, set port",
	})
}
