package controller

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

const manyBackends = 10_000

// manyConfig has many backends in groups of ten, in so many services.
func manyConfig(services int) *lb.Config {
	cfg := testConfig()
	cfg.Groups, cfg.Services, cfg.Rules = nil, nil, nil
	for i := range services {
		s := testService(fmt.Sprintf("s%d", i))
		for k := range manyBackends / services {
			id := manyBackends/services*i + k
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

func manyWorld(t testing.TB, services int) *world {
	w := newWorld(t, manyConfig(services))
	w.dp.quick = true
	return w
}

// flip changes the health of one backend of the first service and returns how
// long the reconcile took, less the filling of its table.
func (w *world) flip() time.Duration {
	s := w.e.units[unitKey{w.e.cfg.Services[0].Name, false}]
	m := s.members[memberKey{"i00000", addr("10.1.0.0")}]
	next := selector.HealthOf(lb.Healthy)
	if m.health == next {
		next = selector.HealthOf(lb.Unhealthy)
	}
	w.e.SetHealth(s.name, m.key.instance, m.key.addr, next, w.now)
	var filling time.Duration
	w.e.fills.compute = func(p lb.LocalityLbPolicy, m []selector.TableMember, seed uint64) ([]uint32, error) {
		start := time.Now()
		defer func() { filling += time.Since(start) }()
		return selector.Fill(p, m, seed)
	}
	start := time.Now()
	w.reconcile()
	return time.Since(start) - filling
}

// One of many backends changes its health. The bound is ten times what it takes.
func TestFlipAmongManyBackendsIsQuick(t *testing.T) {
	for _, services := range []int{1, 20} {
		w := manyWorld(t, services)
		best := time.Hour
		for range 6 {
			best = min(best, w.flip())
		}
		if limit := 50 * time.Millisecond; best > limit {
			t.Errorf("%d services: a flip takes %v beside its table, more than %v", services, best, limit)
		}
	}
}

func BenchmarkFlip(b *testing.B) {
	for _, services := range []int{1, 20} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			w := manyWorld(b, services)
			var took time.Duration
			for b.Loop() {
				took += w.flip()
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/flip")
		})
	}
}

func BenchmarkReload(b *testing.B) {
	for _, services := range []int{1, 20} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			w, cfg := manyWorld(b, services), manyConfig(services)
			for b.Loop() {
				check(b, w.e.SetConfig(cfg, w.now))
				w.reconcile()
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	w := manyWorld(b, 1)
	for b.Loop() {
		w.e.Snapshot()
	}
}
