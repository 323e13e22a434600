package passive

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

var policy = lb.PassiveSignals{Window: 10 * time.Second, UnconfirmedShare: lb.RatioOne / 2, Minimum: 10}

func key(n int) Key {
	return Key{"web", fmt.Sprint("web-", n), netip.AddrFrom4([4]byte{10, 1, 0, byte(n)})}
}

// scene is a group whose backends have traffic, second by second.
type scene struct {
	w       *Watch
	now     time.Time
	counts  map[Key]Counts
	changes []Change
}

func newScene(backends int) *scene {
	s := &scene{w: NewWatch(), now: time.Unix(1000, 0), counts: map[Key]Counts{}}
	for n := range backends {
		s.counts[key(n)] = Counts{SYNs: 1000, Confirmed: 900, Unreachable: 50} // long ago
	}
	s.tick()
	return s
}

func (s *scene) tick() {
	group := Group{policy, map[Key]Counts{}}
	for k, c := range s.counts {
		group.Members[k] = c
	}
	s.changes = append(s.changes, s.w.Observe(s.now, []Group{group})...)
	s.now = s.now.Add(time.Second)
}

// run gives backend n traffic for some seconds.
func (s *scene) run(seconds int, traffic ...Counts) {
	for range seconds {
		for n, t := range traffic {
			c := s.counts[key(n)]
			s.counts[key(n)] = Counts{c.SYNs + t.SYNs, c.Confirmed + t.Confirmed, c.Unreachable + t.Unreachable}
		}
		s.tick()
	}
}

// story are the changes since the last call.
func (s *scene) story() string {
	var out []string
	for _, c := range s.changes {
		word := "suspects"
		if c.Ended {
			word = "clears"
		}
		out = append(out, fmt.Sprintf("%s %s of %s", word, c.Key.Instance, c.Signal))
	}
	s.changes = nil
	return strings.Join(out, "; ")
}

var (
	well    = Counts{SYNs: 4, Confirmed: 4}
	dead    = Counts{SYNs: 4}
	idle    = Counts{}
	refuses = Counts{SYNs: 4, Confirmed: 4, Unreachable: 3}
)

func TestWhoIsSuspected(t *testing.T) {
	tests := []struct {
		name string
		run  func(s *scene)
		want string
	}{
		{"nobody, when all is well", func(s *scene) { s.run(60, well, well) }, ""},
		{"who drops SYNs", func(s *scene) { s.run(15, dead, well) }, "suspects web-0 of UNCONFIRMED_SYN"},
		{"who drops most SYNs", func(s *scene) { s.run(15, Counts{SYNs: 8, Confirmed: 2}, well) }, "suspects web-0 of UNCONFIRMED_SYN"},
		{"not who drops a few", func(s *scene) { s.run(60, Counts{SYNs: 8, Confirmed: 6}, well) }, ""},
		{"the only backend", func(s *scene) { s.run(15, dead) }, "suspects web-0 of UNCONFIRMED_SYN"},
		{"nobody, when all fare alike: a flood of SYNs", func(s *scene) { s.run(60, Counts{SYNs: 400, Confirmed: 4}, Counts{SYNs: 400, Confirmed: 4}) }, ""},
		{"not by a handful of connections", func(s *scene) { s.run(4, Counts{SYNs: 2}, well); s.run(60, idle, well) }, ""},
		{"not by SYNs that may still be confirmed", func(s *scene) {
			s.run(1, Counts{SYNs: 100}, well)
			s.run(1, Counts{Confirmed: 100}, well)
			s.run(30, idle, well)
		}, ""},
		{"whose port is unreachable", func(s *scene) { s.run(15, refuses, well) }, "suspects web-0 of PORT_UNREACHABLE"},
		{"not by one error now and then", func(s *scene) {
			for range 20 {
				s.run(1, refuses, well)
				s.run(9, well, well)
			}
		}, ""},
		{
			"until it is well for a while", func(s *scene) { s.run(15, dead, well); s.run(35, well, well) },
			"suspects web-0 of UNCONFIRMED_SYN; clears web-0 of UNCONFIRMED_SYN",
		},
		{
			"until it has no traffic for a while", func(s *scene) { s.run(15, dead, well); s.run(35, idle, well) },
			"suspects web-0 of UNCONFIRMED_SYN; clears web-0 of UNCONFIRMED_SYN",
		},
		{
			"until it leaves", func(s *scene) { s.run(15, dead, well); delete(s.counts, key(0)); s.tick() },
			"suspects web-0 of UNCONFIRMED_SYN; clears web-0 of UNCONFIRMED_SYN",
		},
		{"not by counters that begin anew", func(s *scene) {
			s.run(5, well, well)
			s.counts[key(0)] = Counts{}
			s.run(30, well, well)
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(2)
			if tt.name == "the only backend" {
				s = newScene(1)
			}
			tt.run(s)
			if got := s.story(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestASuspicionSaysWhy(t *testing.T) {
	s := newScene(2)
	s.run(15, dead, well)
	list := s.w.Of(key(0))
	if len(list) != 1 || list[0].Why != "unconfirmedSyn 40/40 in 10s" || list[0].Signal != UnconfirmedSyn || len(s.w.Of(key(1))) > 0 {
		t.Errorf("got %+v", list)
	}
	if n, watched := s.w.Total(key(0), UnconfirmedSyn); n != 1 || !watched {
		t.Errorf("%d suspicions began, watched %v", n, watched)
	}
	s.run(40, refuses, well)
	list = s.w.Of(key(0))
	if len(list) != 1 || list[0].Why != "portUnreachable 30 in 10s" {
		t.Errorf("got %+v", list)
	}
}

// Whatever the traffic, a backend is not suspected before there is enough of it,
// never while every connection is confirmed in time, and not again and again
// where it is on the edge: a window lies between an end and what is before it.
func TestSuspicionsHoldToTheirRules(t *testing.T) {
	for seed := range uint64(300) {
		g := rand.New(rand.NewPCG(seed, 1))
		s := newScene(3)
		honest := g.IntN(3)
		late := uint64(0) // of the honest one, confirmed in the next second
		var began [3]time.Time
		for range 200 {
			var traffic [3]Counts
			for n := range traffic {
				syns := uint64(g.IntN(8))
				traffic[n] = Counts{SYNs: syns, Confirmed: uint64(g.IntN(int(syns) + 1)), Unreachable: uint64(g.IntN(2))}
			}
			traffic[honest] = Counts{SYNs: traffic[honest].SYNs, Confirmed: late}
			late = traffic[honest].SYNs
			s.run(1, traffic[:]...)
			for _, c := range s.changes {
				if c.Key == key(honest) {
					t.Fatalf("seed %d: %s of %s, whose connections are all confirmed: %s", seed, c.Signal, c.Key.Instance, c.Why)
				}
				for n := range began {
					if c.Key != key(n) || c.Signal != UnconfirmedSyn {
						continue
					}
					if c.Ended && c.Since != began[n] {
						t.Fatalf("seed %d: an end without a start", seed)
					}
					if c.Ended && s.now.Sub(c.Since) < policy.Window {
						t.Fatalf("seed %d: a suspicion of %v", seed, s.now.Sub(c.Since))
					}
					began[n] = c.Since
				}
			}
			s.changes = nil
		}
	}
}
