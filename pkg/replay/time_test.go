package replay

import (
	"strings"
	"testing"
	"time"

	. "l4lb/internal/testutil"
)

func TestEntriesIdleInCaptureTime(t *testing.T) {
	udp, tcp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53)), TCP(t, port(ZoneAClient4, 1), vip80)
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, seconds(
		0, udp, 0, tcp,
		599, udp, 599, tcp,
		1200, udp, 1200, tcp,
	))})
	expectFlows(t, got, "NEW web-a-1, NEW web-a-1, HIT web-a-1, HIT web-a-1, NEW web-a-1, NEW web-a-1")
}

func TestIdleTimeoutIsExactToTheMillisecond(t *testing.T) {
	udp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))
	packets := []taken{{data: udp}, {at: 600 * time.Second, data: udp}, {at: 1200*time.Second + time.Millisecond, data: udp}}
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	expectFlows(t, got, "NEW web-a-1, HIT web-a-1, NEW web-a-1")
}

func TestSYNIsANewConnection(t *testing.T) {
	syn, ack := SYN(t, port(ZoneAClient4, 1), vip80), TCP(t, port(ZoneAClient4, 1), vip80)
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, seconds(
		0, syn, 1, ack, 2, syn, 3, ack, 4, TCP(t, port(ZoneAClient4, 1), vip80, Flags("SA")),
	))})
	expectFlows(t, got, "NEW web-a-1, HIT web-a-1, NEW web-a-1, HIT web-a-1, HIT web-a-1")
}

func TestClockDoesNotGoBack(t *testing.T) {
	udp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))
	got := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, seconds(
		0, udp,
		500, udp,
		100, udp, // counts as 500
		1099, udp, // 599 later
		-5000, udp, // before the first packet
	))})
	expectFlows(t, got, "NEW web-a-1, HIT web-a-1, HIT web-a-1, HIT web-a-1, HIT web-a-1")
	if got.summary.Backwards != 2 {
		t.Errorf("Backwards = %d, want 2", got.summary.Backwards)
	}
	if w := strings.Join(got.summary.Warnings(), "\n"); !strings.Contains(w, "2 packets are older") {
		t.Errorf("warnings do not say so: %s", w)
	}
	if want := begin.Add(-5000 * time.Second); !got.sent[4].time.Equal(want) {
		t.Errorf("output has time %s, want the capture's %s", got.sent[4].time, want)
	}
}

func TestCaptureMayStartAtTheEpochAndLast49Days(t *testing.T) {
	udp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))
	const day = 24 * 3600
	packets := seconds(0, udp, 49*day, udp, 49*day+1, udp, 50*day, udp)
	for i := range packets {
		packets[i].at -= begin.Sub(time.Unix(0, 0)) // the first at 0
	}
	got := replayed(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	expectFlows(t, got, "NEW web-a-1, NEW web-a-1, HIT web-a-1")
	if got.err == nil || !strings.Contains(got.err.Error(), "in.pcap: packet 3: it is 1200h0m0s after the first packet") {
		t.Errorf("error is %v", got.err)
	}
}
