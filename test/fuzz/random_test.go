package fuzz

import "math/rand/v2"

// random is a generator with the helpers that the test wants.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

// oneIn is true once in n times.
func (r random) oneIn(n int) bool { return r.IntN(n) == 0 }

func choose[T any](r random, list ...T) T { return list[r.IntN(len(list))] }
