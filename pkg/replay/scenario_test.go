package replay

import (
	"fmt"
	"strings"
	"testing"

	. "l4lb/internal/testutil"
)

// story replays packets of one client with events. CHOSEN in the events stands
// for the backend that the client gets, OTHER for the other one of two.
func story(t *testing.T, yaml string, files map[string]string, events string, packets []taken) (r result, chosen, other string) {
	t.Helper()
	capture := ethernetCapture(t, packets)
	first := mustReplay(t, Options{Config: parseConfig(t, yaml), Capture: capture})
	chosen, other = first.records[0].Backend, "web-1"
	if chosen == "web-1" {
		other = "web-2"
	}
	dir := t.TempDir()
	for name, text := range files {
		writeFile(t, dir, name, rename(text, chosen, other))
	}
	r = mustReplay(t, Options{
		Config: parseConfig(t, yaml), Capture: capture,
		EventsFile: writeFile(t, dir, "events.jsonl", rename(events, chosen, other)),
	})
	for i := range r.records {
		r.records[i].Backend = strings.NewReplacer(chosen, "CHOSEN", other, "OTHER").Replace(r.records[i].Backend)
	}
	return r, chosen, other
}

func rename(text, chosen, other string) string {
	return strings.NewReplacer("CHOSEN", chosen, "OTHER", other).Replace(text)
}

func udpAndTCP(t *testing.T) (udp, ack []byte) {
	// Two flows of one client that get the same backend: found by trying.
	t.Helper()
	for p := 1000; p < 1064; p++ {
		udp, ack = UDP(t, port(Client4, 1000), port(VIP4, 53)), TCP(t, port(Client4, p), vip80)
		r := mustReplay(t, Options{Config: parseConfig(t, pairYAML), Capture: ethernetCapture(t, seconds(0, udp, 0, ack))})
		if r.records[0].Backend == r.records[1].Backend {
			return udp, ack
		}
	}
	t.Fatal("64 connections all get the other backend")
	return nil, nil
}

func TestUnhealthyBackendLosesUDPAndKeepsTCP(t *testing.T) {
	udp, ack := udpAndTCP(t)
	r, _, _ := story(t, pairYAML, nil, `
{"before": 2, "health": {"CHOSEN": "UNHEALTHY"}}
{"before": 4, "health": {"CHOSEN": "HEALTHY"}}
`, seconds(0, udp, 0, ack, 1, udp, 1, ack, 2, udp, 2, ack))
	expectFlows(t, r, "NEW CHOSEN, NEW CHOSEN, NEW OTHER, HIT CHOSEN, HIT OTHER, HIT CHOSEN")
}

func TestHealthFileHoldsFromTheFirstPacket(t *testing.T) {
	udp := UDP(t, port(Client4, 1000), port(VIP4, 53))
	for _, sick := range []string{"web-1", "web-2"} {
		other := map[string]string{"web-1": "web-2", "web-2": "web-1"}[sick]
		r := mustReplay(t, Options{
			Config: parseConfig(t, pairYAML), Capture: ethernetCapture(t, seconds(0, udp, 1, udp)),
			HealthFile: file(t, "health.json", fmt.Appendf(nil, `{%q: {"state": "UNHEALTHY"}}`, sick)),
			EventsFile: file(t, "events.jsonl", fmt.Appendf(nil, `{"before": 1, "health": {%q: "UNHEALTHY", %q: "HEALTHY"}}`, other, sick)),
		})
		expectFlows(t, r, "NEW "+other+", NEW "+sick)
	}
}

func TestDrainEndsAtItsOwnMoment(t *testing.T) {
	udp, ack := udpAndTCP(t)
	r, _, _ := story(t, pairYAML, nil, `{"before": 2, "health": {"CHOSEN": "DRAINING"}}`, seconds(
		0, udp, 0, ack,
		100, udp, 100, ack,
		399, udp, 399, ack,
		401, udp, 401, ack,
	))
	expectFlows(t, r, "NEW CHOSEN, NEW CHOSEN, HIT CHOSEN, HIT CHOSEN, HIT CHOSEN, HIT CHOSEN, NEW OTHER, NEW OTHER")
}

func TestBackendThatComesBackWhileDrainingIsWhole(t *testing.T) {
	udp := UDP(t, port(Client4, 1000), port(VIP4, 53))
	r, _, _ := story(t, pairYAML, nil, `
{"before": 1, "health": {"CHOSEN": "DRAINING"}}
{"before": 2, "health": {"CHOSEN": "HEALTHY"}}
`, seconds(0, udp, 10, udp, 20, udp, 500, udp))
	expectFlows(t, r, "NEW CHOSEN, HIT CHOSEN, HIT CHOSEN, HIT CHOSEN")
}

func TestReloadThatRemovesAnEndpointDrains(t *testing.T) {
	udp := UDP(t, port(Client4, 1000), port(VIP4, 53))
	packets := seconds(0, udp, 100, udp, 399, udp, 401, udp)
	endpoints := "- name: one\n  networkEndpoints: [{instance: OTHER, ipAddress: 10.3.0.1}]\n" +
		"- name: two\n  networkEndpoints: [{instance: new, ipAddress: 10.3.0.2}]\n"
	r, _, _ := story(t, pairYAML, map[string]string{"next.yaml": pairWith(endpoints, "{group: one}, {group: two}")},
		`{"before": 1, "config": "next.yaml"}`, packets)
	if got := flows(r.records[:3]); got != "NEW CHOSEN, HIT CHOSEN, HIT CHOSEN" {
		t.Errorf("flows are %s", got)
	}
	if last := r.records[3]; last.Flow != "NEW" || last.Backend == "CHOSEN" {
		t.Errorf("after the drain: %+v", last)
	}
}

func TestReloadThatDetachesAGroupDrainsNothing(t *testing.T) {
	udp := UDP(t, port(Client4, 1000), port(VIP4, 53))
	packets := seconds(0, udp, 100, udp, 101, udp)
	for _, group := range []string{"one", "two"} {
		instance := map[string]string{"one": "web-1", "two": "web-2"}[group]
		endpoints := "- name: one\n  networkEndpoints: [{instance: web-1, ipAddress: 10.1.0.11}]\n" +
			"- name: two\n  networkEndpoints: [{instance: web-2, ipAddress: 10.2.0.11}]\n"
		r, chosen, _ := story(t, pairYAML, map[string]string{"next.yaml": pairWith(endpoints, "{group: "+group+"}")},
			`{"before": 1, "config": "next.yaml"}`, packets)
		want := "NEW CHOSEN, NEW OTHER, HIT OTHER"
		if chosen == instance {
			want = "NEW CHOSEN, HIT CHOSEN, HIT CHOSEN"
		}
		expectFlows(t, r, want)
	}
}

// pairWith is pairYAML with other groups and other group references.
func pairWith(groups, references string) string {
	head, rest, _ := strings.Cut(pairYAML, "networkEndpointGroups:\n")
	_, services, _ := strings.Cut(rest, "backendServices:\n")
	services = strings.Replace(services, "{group: one}, {group: two}", references, 1)
	return head + "networkEndpointGroups:\n" + groups + "backendServices:\n" + services
}
