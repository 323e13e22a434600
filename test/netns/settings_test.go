package netns

import (
	"fmt"
	"strings"
	"time"
)

// settings are what tests vary in the gateway's configuration.
type settings struct {
	backends []string // by zone, as their names say
	drain    time.Duration
	mode     string // xdpMode; "" for native
	service  string // more lines of both services, indented by two
	rule     string // more fields of every rule: ", allowGlobalAccess: true"
	udpPorts string // of the UDP rules; "" for the port that the backends echo at

	admission func(family) string                // the l4lb block of every rule of a family; nil for none
	endpoint  func(b *backend, ipv6 bool) string // more fields of an endpoint; nil: none
}

// checkInterval and unhealthyThreshold bound how long a sick backend gets new
// connections.
const (
	checkInterval      = time.Second
	unhealthyThreshold = 2
	noticeTime         = checkInterval*unhealthyThreshold + 100*time.Millisecond
)

// fourBackends is what most tests start with.
func fourBackends() settings { return settings{backends: []string{"a1", "a2", "b1", "b2"}} }

func (s settings) without(name string) settings {
	var left []string
	for _, b := range s.backends {
		if b != name {
			left = append(left, b)
		}
	}
	s.backends = left
	return s
}

func (s settings) with(name string) settings {
	s.backends = append(append([]string{}, s.backends...), name)
	return s
}

func (s settings) more(b *backend, ipv6 bool) string {
	if s.endpoint == nil {
		return ""
	}
	return s.endpoint(b, ipv6)
}

// yaml writes the configuration: TCP and UDP services over the same groups, each
// with a rule in both families.
func (s settings) yaml(g *gateway) string {
	if s.mode == "" {
		s.mode = "native"
	}
	if s.udpPorts == "" {
		s.udpPorts = fmt.Sprintf("ports: [%d]", echoPort)
	}
	var out strings.Builder
	fmt.Fprintf(&out, `l4lb:
  gateway: {name: %s, region: r-1, interfaces: [eth0], xdpMode: %s, flowTable: {entries: 16384}, adminListen: "unix:%s"}
  zones:
  - {name: zone-a, clientRanges: [10.1.0.0/16, "2001:db8:a::/48"]}
  - {name: zone-b, clientRanges: [10.2.0.0/16, "2001:db8:b::/48"]}
  incompatibleClientRanges: [10.200.0.0/16, "2001:db8:200::/48"]
  otherRegionClientRanges: [10.99.0.0/16, "2001:db8:99::/48"]
healthChecks:
- {name: hc, type: HTTP, checkIntervalSec: 1, timeoutSec: 1, healthyThreshold: 1, unhealthyThreshold: %d, httpHealthCheck: {port: %d}}
networkEndpointGroups:
`, g.name, s.mode, g.socket(), unhealthyThreshold, healthPort)
	for _, zone := range []string{"a", "b"} {
		fmt.Fprintf(&out, "- name: %s\n  zone: zone-%s\n  networkEndpoints:\n", zone, zone)
		for _, name := range s.backends {
			if b := g.net.backends[name]; b.zone == zone {
				fmt.Fprintf(&out, "  - {instance: %s, ipAddress: %s%s}\n  - {instance: %s, ipAddress: %q%s}\n",
					name, b.v4, s.more(b, false), name, b.v6, s.more(b, true))
			}
		}
	}
	out.WriteString("backendServices:\n")
	for _, service := range []string{"web TCP", "dns UDP"} {
		name, protocol, _ := strings.Cut(service, " ")
		fmt.Fprintf(&out, `- name: %s
  protocol: %s
  healthChecks: [hc]
  connectionDraining: {drainingTimeoutSec: %d}
%s  backends: [{group: a}, {group: b}]
`, name, protocol, int(s.drain.Seconds()), s.service)
	}
	out.WriteString("forwardingRules:\n")
	for _, f := range families {
		rule := s.rule
		if s.admission != nil {
			rule += ", l4lb: " + s.admission(f)
		}
		fmt.Fprintf(&out, "- {name: web-%s, IPAddress: %q, IPProtocol: TCP, ports: [%d], backendService: web%s}\n",
			f.name, f.vip, talkPort, rule)
		fmt.Fprintf(&out, "- {name: dns-%s, IPAddress: %q, IPProtocol: UDP, %s, backendService: dns%s}\n",
			f.name, f.vip, s.udpPorts, rule)
	}
	return out.String()
}

// zonalSpill is zonal affinity that spills when no backend of the zone is left.
const zonalSpill = `  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_SPILL_CROSS_ZONE}}
`
