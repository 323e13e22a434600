package config

import (
	"errors"
	"math/big"
	"strings"

	"l4lb/pkg/lb"
)

var errRatio = errors.New("is not a ratio: use a decimal number from 0.0 to 1.0")

// ratio reads the decimal text itself, never a binary float, and rounds what
// is longer than six places to the nearest millionth (semantics.md 2.4, F13).
// The range is that of the text: 1.0000001 is refused though it rounds to 1.
func ratio(n *node) (lb.Ratio, error) {
	if !isDecimalText(n.text) {
		return 0, errRatio
	}
	r, ok := new(big.Rat).SetString(n.text)
	if !ok {
		return 0, errRatio
	}
	if r.Sign() < 0 || r.Cmp(big.NewRat(1, 1)) > 0 {
		return 0, errors.New("is out of range: use 0.0 to 1.0")
	}
	// floor(r * 10^6 + 1/2)
	r.Mul(r, big.NewRat(int64(lb.RatioOne), 1))
	r.Add(r, big.NewRat(1, 2))
	return lb.Ratio(new(big.Int).Quo(r.Num(), r.Denom()).Uint64()), nil
}

// isDecimalText keeps out the forms only big.Rat knows (fractions, hex) and
// exponents that would take for ever to write out.
func isDecimalText(s string) bool {
	const maxLength, maxExponentDigits = 64, 3
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(s), "e")
	if len(mantissa) > maxLength {
		return false
	}
	whole, fraction, _ := strings.Cut(strings.TrimLeft(mantissa, "+-"), ".")
	if len(mantissa)-len(strings.TrimLeft(mantissa, "+-")) > 1 || !digits(whole+fraction) {
		return false
	}
	if !scientific {
		return true
	}
	exponent = strings.TrimPrefix(strings.TrimPrefix(exponent, "+"), "-")
	return digits(exponent) && len(exponent) <= maxExponentDigits
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
