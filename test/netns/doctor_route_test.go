package netns

import (
	"fmt"
	"strings"
	"testing"

	"l4lb/pkg/doctor"
)

// The backends behind a next hop do not have its address, and those behind a tunnel
// are not asked at the VIP: nobody says that it is missing. What the gateway's kernel does not forward is named.
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
- {name: far, healthChecks: [hc], backends: [{group: fw}], l4lb: {probe: direct, forwarding: GUE}}
forwardingRules:
- {name: far, IPAddress: 192.0.2.78, ports: [80], backendService: far}
- {name: hop, IPAddress: 192.0.2.77, IPProtocol: L3_DEFAULT, backendService: fw}
routes:
- {name: out, destRange: 203.0.113.0/24, nextHopIlb: hop}
`, g.name, g.socket(), healthPort, a1.v4))
	config := []string{"--config", g.configPath()}
	f := awaitFaults(t, n.gateway, config, "ipForward: net.ipv4.ip_forward")
	mend(t, n.gateway, f)
	awaitFaults(t, n.gateway, config)
	r, err := examine(n.gateway, config...)
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	for _, f := range r.Findings {
		if f.Status == doctor.Note {
			notes[f.Check+": "+f.Subject] = strings.Join(f.Mend, "; ")
		}
	}
	for subject, mend := range map[string]string{
		"backendService: far": "l4lbd doctor --backend --vip 192.0.2.78 --tunnel GUE", "mtu: eth0": "ip link set dev eth0 mtu 1528",
	} {
		if notes[subject] != mend {
			t.Errorf("note on %s: %q, want %q", subject, notes[subject], mend)
		}
	}
	a1.setSick(true)
	f = awaitFaults(t, n.gateway, config, "backendService: a1 (10.1.0.11)")
	if !strings.Contains(f.What, "the check of its own address fails: BAD_STATUS") {
		t.Errorf("found %+v", f)
	}
}
