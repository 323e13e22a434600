package loader

import (
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// clock relates the program's ticks to time. A tick is a power of two jiffies,
// 80 to 128 ms by the kernel's HZ, so that 32 bits last for a decade; with a
// virtual clock it is a millisecond.
type clock struct {
	shift     uint8
	perSecond float64
	jiffies   *ebpf.Program // returns the ticks; nil when virtual
}

func newClock(virtual bool) (clock, error) {
	if virtual {
		return clock{perSecond: 1000}, nil
	}
	hz, err := kernelHZ()
	if err != nil {
		return clock{}, err
	}
	c := clockOf(hz)
	c.jiffies, err = jiffiesProgram(c.shift)
	return c, err
}

func clockOf(hz int) clock {
	c := clock{}
	for hz>>(c.shift+1) > 6 {
		c.shift++
	}
	c.perSecond = float64(hz) / float64(uint32(1)<<c.shift)
	return c
}

func (c clock) ticks(t time.Duration) uint32 {
	return uint32(min(math.Ceil(t.Seconds()*c.perSecond), math.MaxUint32))
}

func (c clock) close() error {
	if c.jiffies == nil {
		return nil
	}
	return c.jiffies.Close()
}

// jiffiesProgram returns the lower 32 bits of the kernel's jiffies >> shift. It is
// not an XDP program: running one of those can wait some milliseconds for its
// dispatcher.
func jiffiesProgram(shift uint8) (*ebpf.Program, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "l4lb_jiffies",
		Type: ebpf.SchedCLS,
		Instructions: asm.Instructions{
			asm.FnJiffies64.Call(),
			asm.RSh.Imm(asm.R0, int32(shift)),
			asm.Return(),
		},
		License: "Dual BSD/GPL",
	})
	if err != nil {
		return nil, fmt.Errorf("load jiffies reader: %w", err)
	}
	return prog, nil
}

func readJiffies(prog *ebpf.Program) (uint32, error) {
	ret, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		return 0, fmt.Errorf("read jiffies: %w", err)
	}
	return ret, nil
}

// kernelHZ is the number of jiffies a second, which the kernel tells as the
// resolution of its coarse clocks.
func kernelHZ() (int, error) {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return 0, fmt.Errorf("read clock resolution: %w", err)
	}
	return hzOf(tick.Nano())
}

// hzOf turns the length of a jiffy, in nanoseconds, into HZ.
func hzOf(tick int64) (int, error) {
	if tick < int64(time.Second)/10_000 || tick > int64(time.Second)/10 {
		return 0, fmt.Errorf("read clock resolution: a jiffy of %d ns", tick)
	}
	return int(math.Round(float64(time.Second) / float64(tick))), nil
}

// SetClock sets the time of a virtual clock.
func (d *Datapath) SetClock(t time.Duration) error {
	return d.objs.ClockNow.Set(uint32(t / time.Millisecond))
}

// Now is the time in ticks.
func (d *Datapath) Now() (uint32, error) {
	if d.clock.jiffies == nil {
		var now uint32
		err := d.objs.ClockNow.Get(&now)
		return now, err
	}
	return readJiffies(d.clock.jiffies)
}
