package lb

import (
	"strings"
	"testing"
)

func TestParseWeight(t *testing.T) {
	valid := map[string]uint64{
		"0": 0, "0.0": 0, "1": 1_000_000, "1000": 1_000_000_000, "2.5": 2_500_000, "0.1": 100_000,
		"0.3": 300_000, "0.0000005": 1, "0.0000001": 1, "1.0000004": 1_000_000, "1.0000005": 1_000_001,
		"1000000000": 1_000_000_000_000_000, "007": 7_000_000,
		"1.9999999": 2_000_000, "3.14159265358979323846264338327950288": 3_141_593,
	}
	for text, ppm := range valid {
		if got := ParseWeight(text); got != (Weight{PPM: ppm}) {
			t.Errorf("%q: got %+v, want %d", text, got, ppm)
		}
	}
	for _, text := range []string{
		"", ".", ".5", "5.", "-1", "+1", "1e3", "1,5", " 1", "0x10", "NaN", "1.2.3", "1.00000000a",
		"1000000001", "1000000000.1", "99999999999999999999999",
		"１", "1_000", strings.Repeat("9", 100_000),
	} {
		if got := ParseWeight(text); got.Err != WeightInvalid {
			t.Errorf("%q: got %+v, want INVALID_WEIGHT", text, got)
		}
	}
}
