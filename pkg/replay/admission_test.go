package replay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "l4lb/internal/testutil"
)

// Limits of new flows run by the capture's time.
func TestLimitsRunByTheCapturesTime(t *testing.T) {
	limited := strings.Replace(zonalYAML, "{name: web-tcp,",
		"{name: web-tcp, l4lb: {allowedSourceRanges: [10.1.0.0/16], newFlowsPerSecond: 1, newFlowsBurst: 2},", 1)
	packets := seconds(
		0, SYN(t, port(ZoneAClient4, 1), vip80),
		0, SYN(t, port(ZoneAClient4, 2), vip80),
		0, SYN(t, port(ZoneAClient4, 3), vip80),
		0, SYN(t, port(ZoneBClient4, 1), vip80),
		0, TCP(t, port(ZoneAClient4, 1), vip80),
		1, SYN(t, port(ZoneAClient4, 3), vip80),
		1, SYN(t, port(ZoneAClient4, 4), vip80),
	)
	got := mustReplay(t, Options{Config: parseConfig(t, limited), Capture: ethernetCapture(t, packets)})
	var reasons []string
	for _, r := range got.records {
		reasons = append(reasons, r.Verdict+" "+r.Reason)
	}
	want := []string{"TX ", "TX ", "DROP RATE_LIMITED", "DROP SOURCE_NOT_ALLOWED", "TX ", "TX ", "DROP RATE_LIMITED"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
