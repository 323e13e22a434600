package controller

import (
	"math/rand/v2"
	"testing"
	"time"

	"l4lb/pkg/lb"
)

// signalled is a configuration with passive signals in all or no services.
func signalled(cfg *lb.Config, on bool) *lb.Config {
	for i := range cfg.Services {
		if cfg.Services[i].PassiveSignals = nil; on {
			cfg.Services[i].PassiveSignals = &lb.PassiveSignals{Window: time.Second, UnconfirmedShare: 1, Minimum: 1}
		}
	}
	return cfg
}

// A service with passive signals has the same maps as one without, through any
// history: the rule asks for counting, and nothing else differs. What is
// suspected cannot come here: see mayImport.
func TestPassiveSignalsChangeNoChoice(t *testing.T) {
	for seed := range uint64(2) {
		on, off := gamble{rand.New(rand.NewPCG(seed, 2))}, gamble{rand.New(rand.NewPCG(seed, 2))}
		with, without := newWorld(t, signalled(on.config(), true)), newWorld(t, signalled(off.config(), false))
		for range 12 {
			check(t, with.e.SetConfig(signalled(on.config(), true), with.now))
			check(t, without.e.SetConfig(signalled(off.config(), false), without.now))
			for range 4 {
				on.input(with)
				off.input(without)
			}
			with.reconcile()
			without.reconcile()
			if a, b := with.canonical(), without.canonical(); a != b {
				t.Fatalf("seed %d: with signals\n%s\nwithout\n%s", seed, a, b)
			}
			for id, r := range with.dp.rules {
				other := without.dp.rules[id]
				if other.Signals {
					t.Errorf("rule %d counts without being asked to", id)
				}
				if other.Signals = r.Signals; r != other {
					t.Errorf("rule %d: %+v with signals, %+v without", id, r, other)
				}
			}
		}
	}
}

// input is a random change of health, drain or time.
func (g gamble) input(w *world) {
	names := w.instances()
	if len(names) == 0 {
		return
	}
	name := names[g.IntN(len(names))]
	switch g.IntN(4) {
	case 0, 1:
		w.health(g.health(), name)
	case 2:
		_ = w.e.Drain(name, "", w.now)
	case 3:
		w.now = w.now.Add(pick(g, time.Second, time.Minute, time.Hour))
	}
}
