package config

import (
	"testing"

	"l4lb/pkg/lb"
)

func TestRatioReadsTheDecimalText(t *testing.T) {
	tests := []struct {
		text string
		want lb.Ratio
		bad  bool
	}{
		{text: "0", want: 0},
		{text: "0.0", want: 0},
		{text: "-0", want: 0},
		{text: "1", want: 1_000_000},
		{text: "1.000", want: 1_000_000},
		{text: "0.3", want: 300_000},
		{text: ".5", want: 500_000},
		{text: "5e-1", want: 500_000},
		{text: "0.05E+1", want: 500_000},
		{text: "0.8", want: 800_000},
		{text: "0.333333333333", want: 333_333},
		{text: "0.666666666666", want: 666_667},
		{text: "0.0000005", want: 1},
		{text: "0.00000049999999999999999999", want: 0},
		{text: "0.9999999", want: 1_000_000},
		{text: "1e-999", want: 0},
		{text: "1.0000001", bad: true},
		{text: "1e1", bad: true},
		{text: "-0.0000001", bad: true},
		{text: "1/2", bad: true},
		{text: "0x1p-1", bad: true},
		{text: "0_5", bad: true},
		{text: "1e-1000000000", bad: true},
		{text: "--1", bad: true},
		{text: "", bad: true},
		{text: ".", bad: true},
		{text: "e5", bad: true},
		{text: "NaN", bad: true},
		{text: "50%", bad: true},
	}
	for _, tt := range tests {
		got, err := ratio(&node{kind: kindScalar, text: tt.text})
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("ratio(%q) = %d, %v; want %d, error %v", tt.text, got, err, tt.want, tt.bad)
		}
	}
}
