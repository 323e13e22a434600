package replay

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	. "l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// manyZones has a zone of one backend for each of n networks, one service with
// zonal affinity and so a table for each, and as many rules of five ports.
func manyZones(n, generation int) string {
	var zones, groups, refs, rules strings.Builder
	for i := range n {
		fmt.Fprintf(&zones, "  - {name: zone-%d, clientRanges: [10.%d.%d.0/24, \"2001:db8:%x::/64\"]}\n", i, i, generation, i)
		fmt.Fprintf(&groups, "- {name: g-%d, zone: zone-%d, networkEndpoints: [{instance: i-%d-%d, ipAddress: 10.%d.255.%d}]}\n",
			i, i, i, generation, i, generation)
		fmt.Fprintf(&refs, "{group: g-%d}, ", i)
		fmt.Fprintf(&rules, "- {name: r-%d-%d, IPAddress: 192.0.2.%d, ports: [1, 2, 3, 4, 5], backendService: web}\n", i, generation, i)
	}
	return "l4lb:\n  gateway: {name: gw-1, interfaces: [eth0]}\n  zones:\n" + zones.String() +
		"healthChecks:\n- {name: hc, type: TCP}\nnetworkEndpointGroups:\n" + groups.String() +
		"backendServices:\n- name: web\n  healthChecks: [hc]\n  connectionDraining: {drainingTimeoutSec: 300}\n" +
		"  networkPassThroughLbTrafficPolicy: {zonalAffinity: {spillover: ZONAL_AFFINITY_STAY_WITHIN_ZONE}}\n" +
		"  backends: [" + refs.String() + "]\nforwardingRules:\n" + rules.String()
}

// Every configuration of a scenario fits, each after the others with what is
// left of those draining.
func TestTheDataPlaneIsSizedForAllConfigurations(t *testing.T) {
	const zones = 30
	var packets []taken
	for i := range zones {
		client := netip.MustParseAddr(fmt.Sprintf("10.%d.0.7", i))
		packets = append(packets, taken{data: SYN(t, port(client, 1), port(netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i)), 5))})
	}
	o := Options{Config: parseConfig(t, manyZones(zones, 0)), Capture: ethernetCapture(t, packets)}
	events := ""
	dir := t.TempDir()
	for generation := 1; generation <= 3; generation++ {
		events += fmt.Sprintf("{\"before\": %d, \"config\": \"next-%d.yaml\"}\n", zones/2, generation)
		writeFile(t, dir, fmt.Sprintf("next-%d.yaml", generation), manyZones(zones, generation))
	}
	o.EventsFile = writeFile(t, dir, "events.jsonl", events)
	got := mustReplay(t, o)
	for i, r := range got.records[:zones/2] {
		if want := fmt.Sprintf("i-%d-0", i); r.Backend != want || r.ClientZone != fmt.Sprintf("zone-%d", i) {
			t.Errorf("packet %d: %+v, want %s", i, r, want)
		}
	}
	for i, r := range got.records[zones/2:] {
		if r.Verdict != "TX" || !strings.HasSuffix(r.Backend, "-3") || r.ForwardingRule != fmt.Sprintf("r-%d-3", i+zones/2) {
			t.Errorf("packet %d: %+v", i+zones/2, r)
		}
	}
}

func TestTablesOfBothFamiliesFitTwice(t *testing.T) {
	cfg := &lb.Config{Services: make([]lb.Service, 20)}
	for i := range 10 {
		cfg.Groups = append(cfg.Groups, lb.Group{Zone: fmt.Sprint("zone-", i)})
	}
	o := datapathOptions([]*lb.Config{cfg}, 0)
	if need := uint32(2 * 2 * 20 * (10 + 1)); 4*o.Services <= need {
		t.Errorf("room for %d tables, %d are needed", 4*o.Services, need)
	}
}

func TestFlowTableIsNoLargerThanTheCaptureNeeds(t *testing.T) {
	for _, tt := range []struct {
		configured uint32
		size       int64
		want       uint32
	}{
		{1 << 20, 100, minFlows},
		{1 << 20, 3_000_000, 200_000},
		{1 << 20, 3_000_000_000, 1 << 20},
		{64, 3_000_000, 64},
	} {
		if got := flowEntries(tt.configured, tt.size); got != tt.want {
			t.Errorf("%d configured, capture of %d bytes: %d entries, want %d", tt.configured, tt.size, got, tt.want)
		}
	}
}
