package replay

import (
	"encoding/json"
	"io"
	"testing"

	. "l4lb/internal/testutil"
)

// BenchmarkRun replays established flows and prints them, per packet.
func BenchmarkRun(b *testing.B) {
	RequireRoot(b)
	var packets []taken
	for i := range 1 << 16 {
		packets = append(packets, taken{data: TCP(b, port(ZoneAClient4, 1024+i%8192), vip80)})
	}
	cfg := parseConfig(b, zonalYAML)
	path := ethernetCapture(b, packets)
	enc := json.NewEncoder(io.Discard)
	b.ResetTimer()
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(packets) {
		_, err := Run(b.Context(), Options{
			Config: cfg, Capture: path, Out: io.Discard,
			Emit: func(r Record) error { return enc.Encode(r) },
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
