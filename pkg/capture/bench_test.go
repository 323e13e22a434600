package capture

import (
	"net/netip"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// What a packet costs while a capture runs: one that is dropped, so that it is the
// same packet each time.
func BenchmarkPacket(b *testing.B) {
	frame := testutil.SYN(b, clientA4, netip.AddrPortFrom(testutil.VIP4, 81))
	for _, bb := range []struct {
		name    string
		capture bool
		options Options
	}{
		{"no capture", false, Options{}},
		{"not matching on arrival", true, Options{Filter: filter(b, "port 82")}},
		{"not matching by its fate", true, Options{Filter: filter(b, "verdict tx"), MaxRate: 10000}},
		{"beyond the rate", true, Options{MaxRate: 1}},
		{"captured", true, Options{}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			g := newGateway(b)
			program := g.Program()
			if bb.capture {
				o := g.options(bb.options)
				o.setDefaults()
				s := &session{opts: &o}
				must(b, s.open())
				defer func() { must(b, s.close()) }()
				program = s.tracer.objs.Program
				go func() {
					for s.reader.ReadInto(&s.record) == nil {
					}
				}()
				until, err := monotonic()
				must(b, err)
				must(b, s.tracer.objs.Until.Put(uint32(0), uint64(until+time.Hour)))
			}
			verdict, each, err := program.Benchmark(frame, max(b.N, 1000), nil)
			must(b, err)
			if loader.Verdict(verdict) != loader.VerdictDrop {
				b.Fatalf("verdict %s", loader.Verdict(verdict))
			}
			b.ReportMetric(float64(each.Nanoseconds()), "ns/packet")
		})
	}
}
