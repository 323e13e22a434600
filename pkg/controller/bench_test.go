package controller

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

const manyBackends = 10_000

// manyConfig has so many backends in groups of ten, in so many services.
func manyConfig(services, backends int) *lb.Config {
	cfg := testConfig()
	cfg.Groups, cfg.Services, cfg.Rules = nil, nil, nil
	for i := range services {
		s := testService(fmt.Sprintf("s%d", i))
		for k := range backends / services {
			id := backends/services*i + k
			if k%10 == 0 {
				name := fmt.Sprintf("g%d", id/10)
				cfg.Groups = append(cfg.Groups, lb.Group{Name: name, Zone: []string{"zone-a", "zone-b"}[id/10%2]})
				s.Backends = append(s.Backends, lb.BackendRef{Group: name})
			}
			grp := &cfg.Groups[id/10]
			grp.Endpoints = append(grp.Endpoints, lb.Endpoint{
				Instance: fmt.Sprintf("i%05d", id), Addr: netip.AddrFrom4([4]byte{10, 1, byte(id >> 8), byte(id)}),
			})
		}
		cfg.Services = append(cfg.Services, s)
		cfg.Rules = append(cfg.Rules, testRule(fmt.Sprintf("r%d", i), "192.0.2.10", s.Name, uint16(i+1)))
	}
	return cfg
}

func manyWorld(t testing.TB, services, backends int) *world {
	w := newWorld(t, manyConfig(services, backends))
	w.dp.quick = true
	return w
}

// flip changes the health of one backend of the first service and returns how
// long the reconcile took by this clock, less the filling of its table.
func (w *world) flip(clock func() time.Duration) time.Duration {
	s := w.e.units[unitKey{w.e.cfg.Services[0].Name, false}]
	m := s.members[memberKey{"i00000", addr("10.1.0.0")}]
	next := selector.HealthOf(lb.Healthy)
	if m.health == next {
		next = selector.HealthOf(lb.Unhealthy)
	}
	w.e.SetHealth(s.name, m.key.instance, m.key.addr, next, w.now)
	var filling time.Duration
	w.e.fills.compute = func(p lb.LocalityLbPolicy, m []selector.TableMember, seed uint64) ([]uint32, error) {
		start := clock()
		defer func() { filling += clock() - start }()
		return selector.Fill(p, m, seed)
	}
	start := clock()
	w.reconcile()
	return clock() - start - filling
}

// threadTime is what this thread has had of a processor: another one's work does
// not count. The caller stays on its thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// What one backend's change costs grows at most with the number of backends: ten
// times as many cost some ten times as much, not a hundred times.
func TestCostOfAFlipIsLinear(t *testing.T) {
	for _, services := range []int{1, 20} {
		few, many := leastFlip(t, services, manyBackends/10), leastFlip(t, services, manyBackends)
		if many > 40*few {
			t.Errorf("%d services: a flip among %d takes %v, among %d %v", services, manyBackends/10, few, manyBackends, many)
		}
	}
}

func leastFlip(t *testing.T, services, backends int) time.Duration {
	w := manyWorld(t, services, backends)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Hour
	for range 6 {
		best = min(best, w.flip(threadTime))
	}
	return best
}

func BenchmarkFlip(b *testing.B) {
	for _, services := range []int{1, 20} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			w := manyWorld(b, services, manyBackends)
			began := time.Now()
			var took time.Duration
			for b.Loop() {
				took += w.flip(func() time.Duration { return time.Since(began) })
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/flip")
		})
	}
}

func BenchmarkReload(b *testing.B) {
	for _, services := range []int{1, 20} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			w, cfg := manyWorld(b, services, manyBackends), manyConfig(services, manyBackends)
			for b.Loop() {
				check(b, w.e.SetConfig(cfg, w.now))
				w.reconcile()
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	w := manyWorld(b, 1, manyBackends)
	for b.Loop() {
		w.e.Snapshot()
	}
}
