package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// gatewayYAML completes a snippet. It comes last, so that the lines of the
// snippet are counted from 1.
const gatewayYAML = "l4lb:\n  gateway: {name: gw-1, interfaces: [eth0]}\n"

// badCase is a snippet and all mistakes it must be refused for, each as
// "line:col: part of the message".
type badCase struct {
	desc string
	yaml string
	want []string
}

func runBad(t *testing.T, cases []badCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.desc, func(t *testing.T) {
			t.Helper()
			_, err := Parse("f", []byte(tt.yaml))
			compareErrors(t, err, tt.want)
		})
	}
}

func compareErrors(t *testing.T, err error, want []string) {
	t.Helper()
	var errs Errors
	if err != nil && !errors.As(err, &errs) {
		t.Fatalf("error is a %T, want Errors: %v", err, err)
	}
	if !slices.IsSortedFunc(errs, func(a, b Error) int {
		return slices.Compare([]int{a.Line, a.Col}, []int{b.Line, b.Col})
	}) {
		t.Errorf("errors are not sorted by position:\n%v", errs)
	}
	if len(errs) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%v", len(errs), len(want), errs)
	}
	for i, w := range want {
		place, part, _ := strings.Cut(w, ": ")
		got := fmt.Sprintf("%d:%d", errs[i].Line, errs[i].Col)
		if got != place || !strings.Contains(errs[i].Msg, part) {
			t.Errorf("error %d is %v\nwant it at %s with %q", i, errs[i], place, part)
		}
	}
}

// mustParse completes a snippet with a gateway and parses it.
func mustParse(t *testing.T, yaml string) *Document {
	t.Helper()
	doc, err := Parse("f", []byte(strings.TrimPrefix(yaml, "\n")+gatewayYAML))
	if err != nil {
		t.Fatalf("parse:\n%v", err)
	}
	return doc
}
