package lb

import "strings"

// WeightError says why a backend reported no usable weight. The empty value
// stands for a valid weight. A single WeightInvalid or WeightMissing makes a
// service ignore all weights; WeightUnavailable does not (semantics.md 1.9).
type WeightError string

const (
	// WeightInvalid is a header that is no decimal number in the allowed range.
	WeightInvalid WeightError = "INVALID_WEIGHT"
	// WeightMissing is an answer that carries no weight header.
	WeightMissing WeightError = "MISSING_WEIGHT"
	// WeightUnavailable is a probe without an answer: timeout or unknown.
	WeightUnavailable WeightError = "UNAVAILABLE_WEIGHT"
	// WeightNone is the state before an answer was parsed, and of protocols
	// whose answers carry no weight.
	WeightNone WeightError = "WEIGHT_NONE"
)

// WeightOne is the weight 1 in the unit of Weight.PPM.
const WeightOne = 1_000_000

// Weight is what a backend said in the header of its last health check answer
// (semantics.md 1.9), as an integer so that comparisons are exact.
// The zero value is the valid weight 0.
type Weight struct {
	// PPM is the weight in parts per million. It is 0 unless Err is empty.
	PPM uint64
	Err WeightError
}

// Valid reports whether PPM holds the weight the backend asked for.
func (w Weight) Valid() bool { return w.Err == "" }

const (
	// MaxWeight keeps sums of weights within 64 bits. The documented range
	// ends at 1000.
	MaxWeight    = 1_000_000_000
	weightDigits = 6 // decimals that Weight holds
)

// ParseWeight reads a non-negative decimal exactly (ruling 10.13), rounded to
// parts per million, but a weight above 0 never to 0, since 0 means "no new
// connections". Anything else is INVALID_WEIGHT.
func ParseWeight(s string) Weight {
	invalid := Weight{Err: WeightInvalid}
	whole, fraction, dotted := strings.Cut(s, ".")
	if whole == "" || dotted && fraction == "" {
		return invalid
	}
	var ppm uint64
	padded := fraction + strings.Repeat("0", weightDigits+1)
	for k, r := range whole + padded[:weightDigits] {
		if r < '0' || r > '9' {
			return invalid
		}
		if ppm = ppm*10 + uint64(r-'0'); k < len(whole) && ppm > MaxWeight {
			return invalid
		}
	}
	rest := padded[weightDigits:]
	if strings.Trim(rest, "0123456789") != "" || ppm > MaxWeight*WeightOne {
		return invalid
	}
	if rest[0] >= '5' || ppm == 0 && strings.Trim(rest, "0") != "" {
		ppm++
	}
	return Weight{PPM: ppm}
}
