package replay

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "l4lb/internal/testutil"
)

// firewallYAML adds routes through the backends of web.
const firewallYAML = zonalYAML + `
- {name: fw-rule, IPAddress: 192.0.2.20, allPorts: true, backendService: web}
- {name: fw6, IPAddress: "2001:db8:f::20", ports: [80], backendService: web}
routes:
- {name: all, destRange: 0.0.0.0/0, nextHopIlb: 192.0.2.20, l4lb: {interfaces: [eth0]}}
- {name: six, destRange: "2001:db8:e::/48", nextHopIlb: fw6}
- {name: vpn, destRange: 203.0.113.0/25, nextHopIlb: fw-rule, l4lb: {sourceRanges: [10.1.77.0/24]}}
`

// Routes work in a capture as they do in a gateway.
func TestRoutes(t *testing.T) {
	a, b6 := port(ZoneAClient4, 4000), port(ZoneBClient6, 4000)
	web := func(verdict, reason, rule, backend, flow, zone string) Record {
		return Record{Verdict: verdict, Reason: reason, Service: "web", ForwardingRule: rule, Backend: backend, Flow: flow, ClientZone: zone}
	}
	fromA := MACs(BackendAMAC, GatewayMAC)
	tests := []struct {
		frame []byte
		sent  []byte
		want  Record
	}{
		{SYN(t, a, port(Outside4, 22)), SYN(t, a, port(Outside4, 22), TTL(63), MACs(GatewayMAC, BackendAMAC)), web("TX", "", "fw-rule", "web-a-1", "NEW", "zone-a")},
		{TCP(t, a, port(Outside4, 22)), TCP(t, a, port(Outside4, 22), TTL(63), MACs(GatewayMAC, BackendAMAC)), web("TX", "", "fw-rule", "web-a-1", "HIT", "zone-a")},
		{TCP(t, a, port(Outside4, 22), TTL(1)), nil, web("PASS", "TTL_EXPIRED", "fw-rule", "web-a-1", "HIT", "zone-a")},
		{TCP(t, a, port(Outside4, 22), fromA), nil, web("PASS", "SENT_BY_BACKEND", "fw-rule", "web-a-1", "HIT", "zone-a")},
		{Echo(t, ZoneBClient6, Outside6), Echo(t, ZoneBClient6, Outside6, TTL(63), MACs(GatewayMAC, MAC("02:4c:00:00:00:11"))), web("TX", "", "fw6", "web-b-1", "NEW", "zone-b")},
		{SYN(t, b6, port(Gateway6, 22)), nil, Record{Verdict: "PASS", Flow: "NONE", ClientZone: "zone-b"}},
		{SYN(t, a, vip80), SYN(t, a, vip80, MACs(GatewayMAC, BackendAMAC)), web("TX", "", "web-tcp", "web-a-1", "NEW", "zone-a")},
		{SYN(t, a, port(netip.MustParseAddr("192.0.2.20"), 9)), SYN(t, a, port(netip.MustParseAddr("192.0.2.20"), 9), MACs(GatewayMAC, BackendAMAC)), web("TX", "", "fw-rule", "web-a-1", "NEW", "zone-a")},
		{UDP(t, a, port(netip.MustParseAddr("224.0.0.9"), 520)), nil, Record{Verdict: "PASS", Flow: "NONE", ClientZone: "zone-a"}},
	}
	var packets []taken
	var want []Record
	var sent [][]byte
	for i, tt := range tests {
		packets = append(packets, taken{data: tt.frame})
		tt.want.Index = i
		want = append(want, tt.want)
		if tt.sent != nil {
			sent = append(sent, tt.sent)
		}
	}
	r := mustReplay(t, Options{Config: parseConfig(t, firewallYAML), Capture: ethernetCapture(t, packets)})
	if diff := cmp.Diff(want, r.records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if len(r.sent) != len(sent) {
		t.Fatalf("%d packets left, want %d", len(r.sent), len(sent))
	}
	for i := range sent {
		if diff := Diff(sent[i], r.sent[i].frame); diff != "" {
			t.Errorf("packet %d (-want +got):\n%s", i, diff)
		}
	}
}
