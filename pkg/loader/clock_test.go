package loader

import (
	"math"
	"testing"
	"time"

	"l4lb/internal/testutil"
)

func TestHZIsReadFromTheLengthOfAJiffy(t *testing.T) {
	for tick, want := range map[int64]int{
		10_000_000: 100, 4_000_000: 250, 3_333_333: 300, 1_000_000: 1000, 976_563: 1024,
		1: 0, 0: 0, -4_000_000: 0, 1_000_000_000: 0,
	} {
		if got, err := hzOf(tick); got != want || (err == nil) != (want != 0) {
			t.Errorf("hzOf(%d) = %d, %v, want %d", tick, got, err, want)
		}
	}
}

// A tick is short against an idle timeout of 600 s and lasts long enough for
// 32 bits of it to go round after more than ten years.
func TestTicksFitEveryHZ(t *testing.T) {
	for hz, want := range map[int]struct {
		shift uint8
		tick  time.Duration
	}{
		100:  {3, 80 * time.Millisecond},
		250:  {5, 128 * time.Millisecond},
		300:  {5, 106666666 * time.Nanosecond},
		1000: {7, 128 * time.Millisecond},
	} {
		c := clockOf(hz)
		d := Datapath{clock: c}
		if got := d.TickDuration(); c.shift != want.shift || got != want.tick {
			t.Errorf("HZ %d: shift %d, tick %s", hz, c.shift, got)
		}
		if years := d.TickDuration().Hours() * (1 << 32) / (24 * 365); years < 10 {
			t.Errorf("HZ %d: 32 bits last %.1f years", hz, years)
		}
	}
}

// A timeout never ends early: durations are rounded up to ticks.
func TestDurationsAreRoundedUpToTicks(t *testing.T) {
	d := Datapath{clock: clockOf(250)} // 7.8125 ticks a second
	for duration, want := range map[time.Duration]uint32{
		0: 0, time.Nanosecond: 1, 128 * time.Millisecond: 1, 128*time.Millisecond + 1: 2,
		600 * time.Second: 4688, 57600 * time.Second: 450000, math.MaxInt64: math.MaxUint32,
	} {
		if got := d.Ticks(duration); got != want {
			t.Errorf("Ticks(%s) = %d, want %d", duration, got, want)
		}
	}
}

// The program's time is the kernel's jiffies: Now goes on by as many ticks as
// Ticks says.
func TestRealClockKeepsTime(t *testing.T) {
	testutil.RequireRoot(t)
	c, err := newClock(false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	d := Datapath{clock: c}
	start, err := d.Now()
	must(t, err)
	began := time.Now()
	for now := start; now-start < 3; {
		if now, err = d.Now(); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d ticks in 5 s", now-start)
		}
	}
	// Two whole ticks at least went by, three at most but for the reading.
	if went := time.Since(began); went < 2*d.TickDuration()*9/10 {
		t.Errorf("three ticks of %s in %s", d.TickDuration(), went)
	}
}

func TestVirtualClockIsInMilliseconds(t *testing.T) {
	d := load(t, Options{})
	must(t, d.SetClock(90*time.Minute))
	now, err := d.Now()
	if err != nil || now != 90*60*1000 || d.Ticks(time.Second) != 1000 || d.TickDuration() != time.Millisecond {
		t.Errorf("now %d, %v; %d ticks a second of %s", now, err, d.Ticks(time.Second), d.TickDuration())
	}
}
