package selector

import "math/bits"

// Prices and costs are base-2 logarithms in fixed point with this many
// fractional bits. Integers are the same on every machine; floating point
// logarithms are not.
const logBits = 24

// logs computes logarithms: a table of the mantissa's leading bits, between
// whose entries a straight line is right to the last bit or two.
type logs [1<<logIndex + 1]int32

const logIndex = 11

// newLogs computes the table one bit after the other, by squaring.
func newLogs() *logs {
	var l logs
	for k := range l {
		// The mantissa, from 1 to 2, in 31 fractional bits.
		m := uint64(k)<<(31-logIndex) + 1<<31
		result := int32(m >> 32)
		m >>= result
		for range logBits {
			m = m * m >> 31
			bit := m >> 32
			m >>= bit
			result = result<<1 | int32(bit)
		}
		l[k] = result
	}
	return &l
}

// log2 returns the base-2 logarithm of x > 0 with logBits fractional bits.
func (l *logs) log2(x uint64) int64 {
	exponent := bits.Len64(x) - 1
	mantissa := x << (63 - exponent) << 1 >> 32 // without its leading 1
	k := mantissa >> (32 - logIndex)
	between := int64(mantissa << logIndex & (1<<32 - 1))
	step := int64(l[k+1] - l[k])
	return int64(exponent)<<logBits + int64(l[k]) + step*between>>32
}

// timeBits are the fractional bits of an arrival time.
const timeBits = 40

// arrivals returns the logarithms of the times at which a walk reaches its
// slots, and one more to interpolate to. Step j takes 1/(TableSize-j): these are
// the mean order statistics of TableSize exponential variables, and rendezvous
// hashing is a race of such variables.
func (l *logs) arrivals() []int32 {
	const offset = timeBits << logBits
	out := make([]int32, TableSize+1)
	out[0] = int32(l.log2(1<<timeBits/TableSize/4) - offset)
	t := uint64(0)
	for j := range uint64(TableSize) {
		t += 1 << timeBits / (TableSize - j)
		out[j+1] = int32(l.log2(t) - offset)
	}
	return out
}
