package selector

import "encoding/binary"

// golden is 2^64 divided by the golden ratio, the increment of splitmix64.
const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of splitmix64: a bijection in which every input bit
// changes every output bit with probability near one half.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashName hashes a name under a seed, eight bytes at a time in little-endian
// order on every machine. The length keeps zero padding from colliding.
func hashName(name string, seed uint64) uint64 {
	h := mix(seed + golden*uint64(len(name)+1))
	for len(name) > 0 {
		var word [8]byte
		name = name[copy(word[:], name):]
		h = mix(h ^ binary.LittleEndian.Uint64(word[:]) + golden)
	}
	return h
}

// walk is an owner's way through the table: an arithmetic progression modulo
// the prime TableSize, which visits every slot once.
type walk struct {
	start, step uint32
}

func newWalk(key uint64) walk {
	return walk{
		start: uint32(mix(key^1) % TableSize),
		step:  uint32(1 + mix(key^2)%(TableSize-1)),
	}
}

// next returns the slot after this one.
func (w walk) next(slot uint32) uint32 {
	slot += w.step
	if slot >= TableSize {
		slot -= TableSize
	}
	return slot
}

// rank returns how many slots are visited before this one. inverse is what
// w.inverse returned.
func (w walk) rank(slot, inverse uint32) uint32 {
	distance := uint64(slot) + TableSize - uint64(w.start)
	return uint32(distance % TableSize * uint64(inverse) % TableSize)
}

// inverse is the step's inverse modulo TableSize, by Fermat.
func (w walk) inverse() uint32 {
	result, base := uint64(1), uint64(w.step)
	for e := TableSize - 2; e > 0; e >>= 1 {
		if e&1 == 1 {
			result = result * base % TableSize
		}
		base = base * base % TableSize
	}
	return uint32(result)
}
