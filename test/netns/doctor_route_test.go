package netns

import (
	"fmt"
	"strings"
	"testing"
)

// The backends behind a next hop do not have its address, and nobody says that it
// is missing. What the gateway's kernel does not forward is named.
func TestDoctorWithRoutes(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	g := newGateway(n, fourBackends())
	a1 := n.backends["a1"]
	g.write(fmt.Sprintf(`l4lb:
  gateway: {name: %s, interfaces: [eth0], adminListen: "unix:%s"}
healthChecks:
- {name: hc, type: HTTP, checkIntervalSec: 1, timeoutSec: 1, httpHealthCheck: {port: %d}}
networkEndpointGroups:
- name: fw
  networkEndpoints: [{instance: a1, ipAddress: %s}]
backendServices:
- {name: fw, protocol: UNSPECIFIED, healthChecks: [hc], backends: [{group: fw}], l4lb: {probe: direct}}
forwardingRules:
- {name: hop, IPAddress: 192.0.2.77, IPProtocol: L3_DEFAULT, backendService: fw}
routes:
- {name: out, destRange: 203.0.113.0/24, nextHopIlb: hop}
`, g.name, g.socket(), healthPort, a1.v4))
	config := []string{"--config", g.configPath()}
	f := awaitFaults(t, n.gateway, config, "ipForward: net.ipv4.ip_forward")
	mend(t, n.gateway, f)
	awaitFaults(t, n.gateway, config)
	a1.setSick(true)
	f = awaitFaults(t, n.gateway, config, "backendService: a1 (10.1.0.11)")
	if !strings.Contains(f.What, "the check of its own address fails: BAD_STATUS") {
		t.Errorf("found %+v", f)
	}
}
