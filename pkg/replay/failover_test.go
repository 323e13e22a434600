package replay

import (
	"strings"
	"testing"

	. "l4lb/internal/testutil"
)

// failingOver has the primary fail before the third packet and recover before
// the last two.
const failingOver = `
{"before": 2, "health": {"web-1": "UNHEALTHY"}}
{"before": 6, "health": {"web-1": "HEALTHY"}}
`

func TestFailoverAndFailbackDrain(t *testing.T) {
	old, fresh := TCP(t, port(Client4, 1), vip80), TCP(t, port(Client4, 2), vip80)
	udp := UDP(t, port(Client4, 3), port(VIP4, 53))
	r := mustReplay(t, Options{
		Config: parseConfig(t, failoverYAML), EventsFile: file(t, "events.jsonl", []byte(failingOver)),
		Capture: ethernetCapture(t, seconds(
			0, old, 0, udp,
			10, old, 10, udp, // failed over: TCP stays while it drains
			11, fresh,
			309, old,
			310, old, // recovered at 310, just when the primary pool's drain ends
			311, fresh, // in the pool that is left now
			609, fresh,
			611, fresh,
		)),
	})
	expectFlows(t, r, "NEW web-1, NEW web-1, HIT web-1, NEW spare-1, NEW spare-1, HIT web-1, "+
		"NEW web-1, HIT spare-1, HIT spare-1, NEW web-1")
}

func TestFailoverWithoutDrainFlushes(t *testing.T) {
	old := TCP(t, port(Client4, 1), vip80)
	r := mustReplay(t, Options{
		Config:     parseConfig(t, strings.Replace(failoverYAML, "Failover: false", "Failover: true", 1)),
		EventsFile: file(t, "events.jsonl", []byte(failingOver)),
		Capture:    ethernetCapture(t, seconds(0, old, 1, old, 2, old, 3, old, 4, old, 5, old, 6, old, 7, old)),
	})
	expectFlows(t, r, "NEW web-1, HIT web-1, NEW spare-1, HIT spare-1, HIT spare-1, HIT spare-1, NEW web-1, HIT web-1")
}

func TestEventsOfOnePacketComeOneAfterTheOther(t *testing.T) {
	udp := UDP(t, port(Client4, 3), port(VIP4, 53))
	r := mustReplay(t, Options{
		Config:  parseConfig(t, pairYAML),
		Capture: ethernetCapture(t, seconds(0, udp, 1, udp)),
		EventsFile: file(t, "events.jsonl", []byte(`
{"before": 1, "health": {"web-1": "UNHEALTHY", "web-2": "HEALTHY"}}
{"before": 1, "health": {"web-1": "HEALTHY", "web-2": "UNHEALTHY"}}
{"before": 1, "health": {"web-2": "HEALTHY"}}
{"before": 2, "health": {"web-2": "UNHEALTHY"}}
`)),
	})
	// Both were sick for a moment, so that the entry is gone either way.
	if r.records[1].Flow != "NEW" {
		t.Errorf("flows are %s", flows(r.records))
	}
	if r.summary.UnusedEvents != 1 || !strings.Contains(strings.Join(r.summary.Warnings(), "\n"), "1 events name packets behind the end") {
		t.Errorf("summary is %+v, warnings %q", r.summary, r.summary.Warnings())
	}
}

func TestReloadAndHealthInOneEvent(t *testing.T) {
	udp := UDP(t, port(Client4, 3), port(VIP4, 53))
	groups := "- name: one\n  networkEndpoints: [{instance: web-1, ipAddress: 10.1.0.11}, {instance: web-3, ipAddress: 10.1.0.13}]\n" +
		"- name: two\n  networkEndpoints: [{instance: web-2, ipAddress: 10.2.0.11}]\n"
	r, _, _ := story(t, pairYAML, map[string]string{"next.yaml": pairWith(groups, "{group: one}, {group: two}")}, `
{"before": 1, "config": "next.yaml", "health": {"CHOSEN": "UNHEALTHY", "OTHER": "UNHEALTHY"}}
`, seconds(0, udp, 1, udp, 2, udp))
	// The backend that the reload brought is healthy.
	expectFlows(t, r, "NEW CHOSEN, NEW web-3, HIT web-3")
}

func TestTwoRunsAreTheSame(t *testing.T) {
	var packets []taken
	for i := range 3000 {
		// Many more flows than the table of 64 holds.
		packets = append(packets, taken{data: UDP(t, port(ZoneAClient4, 1+i%1500), port(VIP4, 53))})
	}
	yaml := strings.Replace(pairYAML, "entries: 4096", "entries: 1024", 1)
	o := Options{Config: parseConfig(t, yaml), Capture: ethernetCapture(t, packets)}
	o.Config.Gateway.FlowTable.Entries = 64
	first, second := mustReplay(t, o), mustReplay(t, o)
	for i := range first.records {
		if first.records[i] != second.records[i] {
			t.Fatalf("packet %d: %+v, then %+v", i, first.records[i], second.records[i])
		}
	}
}
