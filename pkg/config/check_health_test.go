package config

import (
	"strings"
	"testing"

	"l4lb/pkg/lb"
)

func TestRefusedHealthChecks(t *testing.T) {
	runBad(t, []badCase{
		{
			desc: "a timeout longer than the interval",
			yaml: `healthChecks:
- {name: a, type: TCP, checkIntervalSec: 3, timeoutSec: 4}
` + gatewayYAML,
			want: []string{
				"2:57: timeoutSec 4 is longer than checkIntervalSec 3: make it at most 3",
			},
		},
		{
			desc: "an interval shorter than the default timeout",
			yaml: `healthChecks:
- {name: a, type: TCP, checkIntervalSec: 2}
` + gatewayYAML,
			want: []string{
				"2:42: checkIntervalSec 2 is shorter than the default timeoutSec 5: add",
			},
		},
		{
			desc: "the block of another type",
			yaml: `healthChecks:
- name: a
  type: TCP
  httpHealthCheck: {port: 80}
  tcpHealthCheck: {port: 81}
` + gatewayYAML,
			want: []string{
				"4:3: httpHealthCheck does not belong to type TCP: use tcpHealthCheck, or",
			},
		},
		{
			desc: "every type has its own block",
			yaml: `healthChecks:
- {name: a, type: SSL, tcpHealthCheck: {}}
- {name: b, type: HTTPS, httpHealthCheck: {}}
- {name: c, type: HTTP2, httpsHealthCheck: {}}
- {name: d, type: GRPC, grpcTlsHealthCheck: {port: 1}}
` + gatewayYAML,
			want: []string{
				"2:24: tcpHealthCheck does not belong to type SSL: use sslHealthCheck, or",
				"3:26: httpHealthCheck does not belong to type HTTPS: use httpsHealthCheck, or",
				"4:26: httpsHealthCheck does not belong to type HTTP2: use http2HealthCheck,",
				"5:19: type GRPC has no default port: add grpcHealthCheck: {port: 50051}",
				"5:25: grpcTlsHealthCheck does not belong to type GRPC: use grpcHealthCheck,",
			},
		},
		{
			desc: "parameters of another type inside a block",
			yaml: `healthChecks:
- {name: a, type: TCP, tcpHealthCheck: {requestPath: /, grpcServiceName: x}}
- {name: b, type: HTTP, httpHealthCheck: {request: x}}
` + gatewayYAML,
			want: []string{
				"2:41: unknown key \"requestPath\": remove it, or use one of port,",
				"2:57: unknown key \"grpcServiceName\": remove it, or use one of port,",
				"3:43: unknown key \"request\": remove it, or use one of port,",
			},
		},
		{
			desc: "ports and port specifications",
			yaml: `healthChecks:
- {name: a, type: TCP, tcpHealthCheck: {port: 0}}
- {name: b, type: TCP, tcpHealthCheck: {port: 65536, portSpecification: USE_NAMED_PORT}}
- {name: c, type: TCP, tcpHealthCheck: {portName: http}}
` + gatewayYAML,
			want: []string{
				"2:47: port \"0\" is out of range: use 1 to 65535",
				"3:47: port \"65536\" is out of range: use 1 to 65535",
				"3:73: portSpecification \"USE_NAMED_PORT\" cannot be used, a passthrough load",
				"4:41: portName is not accepted: a passthrough load balancer has no named",
			},
		},
		{
			desc: "grpc without a port",
			yaml: `healthChecks:
- {name: a, type: GRPC_WITH_TLS, grpcTlsHealthCheck: {grpcServiceName: x}}
` + gatewayYAML,
			want: []string{
				"2:19: type GRPC_WITH_TLS has no default port: add grpcTlsHealthCheck: {port:",
			},
		},
		{
			desc: "texts that are not ASCII, too long or would break a request",
			yaml: `healthChecks:
- {name: a, type: TCP, tcpHealthCheck: {request: "héllo", response: "` + strings.Repeat("x", 1025) + `"}}
- {name: b, type: HTTP, httpHealthCheck: {requestPath: healthz, host: "a b"}}
- {name: c, type: HTTP, httpHealthCheck: {requestPath: "/a\r\nX: y"}}
` + gatewayYAML,
			want: []string{
				"2:50: request \"héllo\" has a character that is not ASCII: use ASCII only",
				"2:69: ...\" is 1025 bytes long: use at most 1024",
				"3:56: requestPath \"healthz\" does not begin with /: write a path such as",
				"3:71: host \"a b\" has a blank or control character: remove or percent-encode it",
				"4:56: requestPath \"/a\\r\\nX: y\" has a blank or control character: remove or",
			},
		},
		{
			desc: "TLS keys on types without TLS",
			yaml: `healthChecks:
- {name: a, type: HTTP, l4lb: {verifyCertificates: true, serverName: www.example.com}}
- {name: b, type: GRPC, grpcHealthCheck: {port: 50051}, l4lb: {verifyCertificates: false, serverName: 192.0.2.1}}
- {name: c, type: HTTPS, l4lb: {verifyCertificates: "yes", serverName: "a..b"}}
- {name: d, type: HTTPS, l4lb: {serverName: "a_b.example.com"}}
` + gatewayYAML,
			want: []string{
				"2:52: verifyCertificates has no meaning for type HTTP, which does no TLS: remove",
				"2:70: serverName has no meaning for type HTTP, which does no TLS: remove it, or",
				"3:103: serverName \"192.0.2.1\" is an address: TLS asks for names only, remove it",
				"4:53: verifyCertificates \"yes\" is not a boolean: write true or false, without",
				"4:72: serverName \"a..b\" is not a DNS name: write letters, digits and '-', with",
				"5:45: serverName \"a_b.example.com\" is not a DNS name: write letters, digits and",
			},
		},
		{
			desc: "source regions, which come later",
			yaml: `healthChecks:
- {name: e, type: TCP, tcpHealthCheck: {proxyHeader: PROXY_V1}, sourceRegions: [r1, r2, r3]}
` + gatewayYAML,
			want: []string{
				"2:65: sourceRegions is not supported yet: remove it, the gateway is the only",
			},
		},
	})
}

func TestHealthCheckExtension(t *testing.T) {
	doc := mustParse(t, `
healthChecks:
- {name: a, type: HTTPS, httpsHealthCheck: {proxyHeader: PROXY_V1}, l4lb: {verifyCertificates: true, serverName: www.example.com.}}
- {name: b, type: GRPC_WITH_TLS, grpcTlsHealthCheck: {port: 50051}}
backendServices:
- {name: s, healthChecks: [a], l4lb: {probe: direct}}
`)
	a, b := doc.Config.HealthCheck("a"), doc.Config.HealthCheck("b")
	if !a.VerifyCertificates || a.ServerName != "www.example.com" || a.ProxyHeader != lb.ProxyV1 || a.Port != 443 {
		t.Errorf("check a is %+v", a)
	}
	if b.VerifyCertificates || b.ServerName != "" || b.Port != 50051 {
		t.Errorf("check b is %+v", b)
	}
	if got := doc.Config.Service("s").Probe; got != lb.ProbeDirect {
		t.Errorf("probes of service s go to %q", got)
	}
}
