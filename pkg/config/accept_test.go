package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

func TestDefaults(t *testing.T) {
	doc := mustParse(t, `
healthChecks:
- {name: tcp, type: TCP}
- {name: http, type: HTTP}
instanceGroups:
- {name: g}
- {name: spare}
backendServices:
- {name: plain, backends: [{group: g}]}
- {name: spared, backends: [{group: g}, {group: spare, failover: true}]}
- {name: policy-alone, failoverPolicy: {dropTrafficIfUnhealthy: true}, backends: [{group: g}], l4lb: {failoverDrainTimeoutSec: 0}}
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [443, "80"], backendService: plain}
`)
	want := &lb.Config{
		Gateway: lb.Gateway{
			Name: "gw-1", Interfaces: []string{"eth0"}, XDPMode: lb.XDPNative,
			FlowTable: lb.FlowTable{Entries: 1048576}, AdminListen: "unix:/run/l4lb/admin.sock",
			MetricsListen: "127.0.0.1:9464",
		},
		HealthChecks: []lb.HealthCheck{
			{
				Name: "tcp", Type: lb.CheckTCP, CheckInterval: 5 * time.Second, Timeout: 5 * time.Second,
				HealthyThreshold: 2, UnhealthyThreshold: 2, Port: 80, ProxyHeader: lb.ProxyNone,
			},
			{
				Name: "http", Type: lb.CheckHTTP, CheckInterval: 5 * time.Second, Timeout: 5 * time.Second,
				HealthyThreshold: 2, UnhealthyThreshold: 2, Port: 80, ProxyHeader: lb.ProxyNone, RequestPath: "/",
			},
		},
		Groups:   []lb.Group{{Name: "g"}, {Name: "spare"}},
		Services: []lb.Service{defaultService("plain"), defaultService("spared"), defaultService("policy-alone")},
		Rules: []lb.ForwardingRule{{
			Name: "r", Address: doc.Config.Rules[0].Address, Protocol: lb.RuleTCP, Ports: []uint16{80, 443}, Service: "plain",
		}},
	}
	want.Services[1].Backends = append(want.Services[1].Backends, lb.BackendRef{Group: "spare", Failover: true})
	want.Services[1].Failover = &lb.FailoverPolicy{DrainTimeout: 300 * time.Second}
	want.Services[2].Failover = &lb.FailoverPolicy{DropTrafficIfUnhealthy: true}
	if diff := diffConfig(want, doc.Config); diff != "" {
		t.Errorf("configuration mismatch (-want +got):\n%s", diff)
	}
}

func defaultService(name string) lb.Service {
	return lb.Service{
		Name: name, Protocol: lb.ServiceTCP, Affinity: lb.AffinityNone, LocalityLbPolicy: lb.DefaultLocalityLbPolicy,
		Tracking:   lb.Tracking{Mode: lb.PerConnection, Persistence: lb.PersistDefault, IdleTimeout: 600 * time.Second},
		Zonal:      lb.ZonalAffinity{Spillover: lb.ZonalDisabled},
		Backends:   []lb.BackendRef{{Group: "g"}},
		Forwarding: lb.ForwardL2,
		Probe:      lb.ProbeVIP,
	}
}

func TestAcceptedValues(t *testing.T) {
	tests := []struct{ desc, yaml string }{
		{"all affinities and policies", `
backendServices:
- {name: a, sessionAffinity: CLIENT_IP, localityLbPolicy: GCP_RENDEZVOUS}
- {name: b, sessionAffinity: CLIENT_IP_PROTO, localityLbPolicy: WEIGHTED_MAGLEV}
- {name: c, sessionAffinity: CLIENT_IP_PORT_PROTO, localityLbPolicy: WEIGHTED_GCP_RENDEZVOUS}
- {name: d, sessionAffinity: CLIENT_IP_NO_DESTINATION, protocol: UDP}
`},
		{"the limits of the API's idle timeout", `
backendServices:
- {name: a, sessionAffinity: CLIENT_IP, connectionTrackingPolicy: {trackingMode: PER_SESSION, idleTimeoutSec: 600}}
- {name: b, sessionAffinity: CLIENT_IP_NO_DESTINATION, connectionTrackingPolicy: {trackingMode: PER_SESSION, idleTimeoutSec: 57600}}
- {name: c, connectionTrackingPolicy: {idleTimeoutSec: 600}}
`},
		{"ALWAYS_PERSIST per connection and NEVER_PERSIST per session", `
backendServices:
- {name: a, connectionTrackingPolicy: {connectionPersistenceOnUnhealthyBackends: ALWAYS_PERSIST}}
- {name: b, connectionTrackingPolicy: {trackingMode: PER_SESSION, connectionPersistenceOnUnhealthyBackends: NEVER_PERSIST}}
`},
		{"TCP, UDP and L3_DEFAULT rules of one UNSPECIFIED service on one address", `
backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- {name: b, IPAddress: 192.0.2.1, IPProtocol: UDP, allPorts: true, backendService: s}
- {name: c, IPAddress: 192.0.2.1, IPProtocol: L3_DEFAULT, backendService: s}
- {name: d, IPAddress: 192.0.2.1, ports: [443], allPorts: false, backendService: s}
`},
		{"a service with endpoints of both families behind rules of both", `
networkEndpointGroups:
- {name: g, networkEndpoints: [{instance: a, ipAddress: 10.0.0.1}, {instance: a, ipAddress: "2001:db8::1"}]}
backendServices: [{name: s, backends: [{group: g}]}]
forwardingRules:
- {name: four, IPAddress: 192.0.2.1, ipVersion: IPV4, ports: [80], backendService: s}
- {name: six, IPAddress: "2001:db8:1::/96", ipVersion: IPV6, ports: [80], backendService: s, allowGlobalAccess: true}
`},
		{"all types of health checks and where probes go", `
healthChecks:
- {name: a, type: SSL, sslHealthCheck: {proxyHeader: PROXY_V1, request: a, response: b}, l4lb: {serverName: www.example.com.}}
- {name: b, type: HTTPS, l4lb: {verifyCertificates: true}}
- {name: c, type: HTTP2, http2HealthCheck: {host: www.example.com}, l4lb: {verifyCertificates: true, serverName: x-1.example.com}}
- {name: d, type: GRPC, grpcHealthCheck: {port: 50051, grpcServiceName: a.b.C}, l4lb: {verifyCertificates: false}}
- {name: e, type: GRPC_WITH_TLS, grpcTlsHealthCheck: {port: 50051}, l4lb: {verifyCertificates: true}}
backendServices:
- {name: s, healthChecks: [a], l4lb: {probe: direct}}
- {name: t, healthChecks: [b], l4lb: {probe: vip}}
`},
		{"passive signals", `
backendServices:
- {name: s, l4lb: {passiveSignals: {enable: true}}}
- {name: t, l4lb: {passiveSignals: {enable: true, windowSec: 300, unconfirmedShare: 1, minEvents: 1}}}
- {name: u, l4lb: {passiveSignals: {enable: false}}}
`},
		{"values that switch off what is not supported yet", `
healthChecks:
- {name: h, type: TCP, tcpHealthCheck: {proxyHeader: NONE}, sourceRegions: []}
backendServices:
- {name: s, l4lb: {forwarding: L2}, subsetting: {policy: NONE}, logConfig: {enable: false}, haPolicy: {}}
forwardingRules:
- {name: r, IPAddress: 192.0.2.1, ports: [80], backendService: s, isMirroringCollector: false}
routes: []
`},
		{"keys without a value are keys that are absent", `
healthChecks:
routes:
backendServices:
- {name: s, sessionAffinity: , failoverPolicy: , backends: }
`},
		{"an alias for a whole value", `
backendServices:
- {name: a, connectionTrackingPolicy: &track {trackingMode: PER_SESSION}}
- {name: b, connectionTrackingPolicy: *track}
`},
	}
	for _, tt := range tests {
		t.Run(tt.desc, func(t *testing.T) { mustParse(t, tt.yaml) })
	}
}

func TestOwnIdleTimeoutWins(t *testing.T) {
	doc := mustParse(t, `
backendServices:
- {name: a, l4lb: {idleTimeoutSec: 1}, connectionTrackingPolicy: {idleTimeoutSec: 600}}
- {name: b, l4lb: {idleTimeoutSec: 57600}}
`)
	for i, want := range []time.Duration{time.Second, 57600 * time.Second} {
		if got := doc.Config.Services[i].Tracking.IdleTimeout; got != want {
			t.Errorf("service %d: idle timeout %v, want %v", i, got, want)
		}
	}
}

func TestGatewayValues(t *testing.T) {
	for text, want := range map[string]uint64{
		"0x1F": 31, `"0xFFFFFFFFFFFFFFFF"`: 1<<64 - 1, "18446744073709551615": 1<<64 - 1, `"7"`: 7,
	} {
		doc, err := Parse("f", []byte("l4lb:\n  gateway: {name: g, interfaces: [eth0, eth1], hashSeed: "+text+", metricsListen: \"\", adminListen: \"[::1]:9000\"}\n"))
		if err != nil {
			t.Errorf("hashSeed %s: %v", text, err)
			continue
		}
		g := doc.Config.Gateway
		if g.HashSeed != want || g.MetricsListen != "" || g.AdminListen != "[::1]:9000" || len(g.Interfaces) != 2 {
			t.Errorf("hashSeed %s: gateway = %+v, want seed %d", text, g, want)
		}
	}
}

func TestWarningsNameWhatHasNoEffect(t *testing.T) {
	doc := mustParse(t, `
healthChecks: [{name: hc, type: TCP}]
networkEndpointGroups:
- {name: g, zone: zone-b}
backendServices:
- name: s
  healthChecks: [hc]
  localityLbPolicy: WEIGHTED_MAGLEV
  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}
  backends: [{group: g}]
  logConfig: {sampleRate: 0.5}
  l4lb: {failoverDrainTimeoutSec: 10}
`)
	if len(doc.Warnings) != 3 {
		t.Fatalf("got %d warnings, want 3: %v", len(doc.Warnings), doc.Warnings)
	}
	if got := doc.Warnings[0].Error(); !strings.HasPrefix(got, `f:7:21: localityLbPolicy "WEIGHTED_MAGLEV" has no source of weights`) {
		t.Errorf("first warning: %s", got)
	}
	doc, err := Parse("f", []byte(`
networkEndpointGroups: [{name: g, zone: zone-x}]
backendServices:
- name: s
  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}
  backends: [{group: g}]
l4lb:
  gateway: {name: gw-1, interfaces: [eth0]}
  zones: [{name: zone-a, clientRanges: [10.0.0.0/8]}]
`))
	if err != nil || len(doc.Warnings) != 1 || doc.Warnings[0].Line != 2 {
		t.Errorf("a group in a zone without clients: err %v, warnings %v", err, doc)
	}
}

func TestRoutesAreBuilt(t *testing.T) {
	doc, err := Parse("f", []byte(`
backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules:
- {name: fw, IPAddress: 192.0.2.1, allPorts: true, backendService: s}
- {name: l3, IPAddress: 192.0.2.2, IPProtocol: L3_DEFAULT, backendService: s}
- {name: shared, IPAddress: 192.0.2.1, IPProtocol: UDP, allPorts: true, backendService: s}
routes:
- {name: a, destRange: 203.0.113.0/24, nextHopIlb: fw}
- {name: b, destRange: 0.0.0.0/0, priority: 0, nextHopIlb: 192.0.2.2, network: n}
- {name: c, destRange: 198.51.100.0/24, priority: 65535, nextHopIlb: regions/r/forwardingRules/shared}
- {name: d, destRange: 203.0.113.0/24, nextHopIlb: fw, l4lb: {sourceRanges: [10.0.0.0/8, 10.1.0.0/16], interfaces: [eth0]}}
`+gatewayYAML))
	if err != nil {
		t.Fatal(err)
	}
	pfx := netip.MustParsePrefix
	want := []lb.Route{
		{Name: "a", Dest: pfx("203.0.113.0/24"), Priority: 1000, Rule: "fw"},
		{Name: "b", Dest: pfx("0.0.0.0/0"), Rule: "l3"},
		{Name: "c", Dest: pfx("198.51.100.0/24"), Priority: 65535, Rule: "shared"},
		{
			Name: "d", Dest: pfx("203.0.113.0/24"), Priority: 1000, Rule: "fw",
			Sources: []netip.Prefix{pfx("10.0.0.0/8"), pfx("10.1.0.0/16")}, Interfaces: []string{"eth0"},
		},
	}
	if !reflect.DeepEqual(doc.Config.Routes, want) {
		t.Errorf("routes = %+v\nwant %+v", doc.Config.Routes, want)
	}
	if len(doc.Warnings) > 0 {
		t.Errorf("warnings: %v", doc.Warnings)
	}
}

// A list of alternatives that a packet is compared with has an end.
func TestAlternativesOfADestinationAreBounded(t *testing.T) {
	yaml := `
backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules: [{name: fw, IPAddress: 192.0.2.1, allPorts: true, backendService: s}]
routes:
- {name: wide, destRange: 203.0.0.0/16, nextHopIlb: fw}
- name: narrow
  destRange: 203.0.113.0/24
  nextHopIlb: fw
  l4lb: {sourceRanges: [%s]}
` + gatewayYAML
	for n, fits := range map[int]bool{lb.MaxAlternatives - 1: true, lb.MaxAlternatives: false} {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("10.%d.0.0/16", i))
		}
		_, err := Parse("f", fmt.Appendf(nil, yaml, strings.Join(list, ", ")))
		if fits != (err == nil) || !fits && !strings.Contains(err.Error(), "f:7:14: destRange 203.0.113.0/24 has 33 alternatives") {
			t.Errorf("%d source ranges: %v", n, err)
		}
	}
}
