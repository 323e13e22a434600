package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

var errVerdict = errors.New("unexpected verdict")

// driver runs programs over varying flows.
type driver struct {
	objs benchObjects
	best map[uint32]float64 // ns of the driver alone, by benchRun.ipv6
}

func newDriver() (*driver, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory lock limit: %w", err)
	}
	d := &driver{best: map[uint32]float64{}}
	if err := loadBenchObjects(&d.objs, nil); err != nil {
		return nil, fmt.Errorf("load driver: %w", err)
	}
	return d, nil
}

func (d *driver) close() error { return d.objs.Close() }

// run gives so many packets to a program and returns the time of one in ns, the
// driver's included. The kernel counts it, and leaves out when the CPU was given
// to somebody else.
func (d *driver) run(prog *ebpf.Program, run benchBenchRun, frame []byte, packets, verdict uint32) (float64, error) {
	if err := d.objs.BenchProgram.Put(uint32(0), prog); err != nil {
		return 0, fmt.Errorf("install program: %w", err)
	}
	if err := d.objs.Run.Set(&run); err != nil {
		return 0, fmt.Errorf("set up driver: %w", err)
	}
	got, duration, err := d.objs.BenchDriver.Benchmark(frame, int(packets), nil)
	if err != nil {
		return 0, fmt.Errorf("run driver: %w", err)
	}
	if got != verdict {
		return 0, fmt.Errorf("%w %d, want %d", errVerdict, got, verdict)
	}
	return float64(duration.Nanoseconds()), nil
}

// alone measures the driver without a program, and tells whether it ran at full
// speed: as fast, within the clock's resolution and 6 %, as it ever did.
func (d *driver) alone(run benchBenchRun, frame []byte, packets uint32) (ns float64, fast bool, err error) {
	ns, err = d.run(d.objs.BenchTrivial, run, frame, packets, xdpTX)
	if err != nil {
		return 0, false, err
	}
	best, ok := d.best[run.Ipv6]
	if !ok || ns < best {
		d.best[run.Ipv6], best = ns, ns
	}
	return ns, ns <= best*1.06+1, nil
}

// midmean is the mean of the middle half of the values: as robust as the median,
// but finer than the whole nanoseconds in which the kernel reports.
func midmean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	cut := len(sorted) / 4
	sorted = sorted[cut : len(sorted)-cut]
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(len(sorted))
}
