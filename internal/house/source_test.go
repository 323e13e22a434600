package house

import (
	"regexp"
	"strings"
	"testing"
)

// maxLines is where a file is split by concept.
const maxLines = 400

// The patterns are put together so that this file does not match itself.
var (
	leftOpen    = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	machinePath = regexp.MustCompile(`(^|[^\w.$}/-])/(ho` + `me|ro` + `ot|wo` + `rk)(/|$|[^\w/-])`)
	skipCall    = regexp.MustCompile(`\b(t|b|tb)\.Sk` + `ip(f|Now)?\(`)
	bpfPrint    = regexp.MustCompile(`\bbpf_` + `(trace_)?printk\b`)
)

// skipper is the one place that may skip a test: it turns the skip into a
// failure where L4LB_REQUIRE_ROOT_TESTS is set.
const skipper = "internal/testutil/"

func TestSourceFilesStayShort(t *testing.T) {
	for _, f := range withExt(tree(t), ".go", ".c", ".h", ".sh") {
		if n := strings.Count(f.text, "\n"); n > maxLines && !f.generated() {
			t.Errorf("%s: %d lines: split it by concept, %d is the limit", f.path, n, maxLines)
		}
	}
}

func TestNothingIsLeftOpen(t *testing.T) {
	for _, f := range tree(t) {
		if !f.licence() && f.ext() != ".sum" {
			report(t, f, leftOpen, "left open")
		}
	}
}

func TestNoPathOfOneMachine(t *testing.T) {
	for _, f := range tree(t) {
		report(t, f, machinePath, "path of one machine")
	}
}

func TestOnlyTheRootHelperSkips(t *testing.T) {
	for _, f := range withExt(tree(t), ".go") {
		if !strings.HasPrefix(f.path, skipper) {
			report(t, f, skipCall, "skips a test")
		}
	}
}

func TestDataPlaneDoesNotPrint(t *testing.T) {
	for _, f := range withExt(tree(t), ".c", ".h") {
		report(t, f, bpfPrint, "prints in the data plane")
	}
}

// report names each line of the file that matches.
func report(t *testing.T, f file, pattern *regexp.Regexp, what string) {
	t.Helper()
	for i, line := range f.lines() {
		if found := pattern.FindString(line); found != "" {
			t.Errorf("%s:%d: %s: %q", f.path, i+1, what, strings.TrimSpace(found))
		}
	}
}

func TestPatternsMatchWhatTheyShould(t *testing.T) {
	tests := []struct {
		pattern *regexp.Regexp
		line    string
		want    bool
	}{
		{leftOpen, "// TO" + "DO: later", true},
		{leftOpen, "/tmp/l4lb.XX" + "XXXX", false},
		{machinePath, "see `/wo" + "rk/main`", true},
		{machinePath, "--config=/ro" + "ot/l4lb.yaml", true},
		{machinePath, "docs/ho" + "me/x and $DIR/wo" + "rk/x", false},
		{skipCall, "t.Sk" + "ip(\"later\")", true},
		{skipCall, "scanner.Sk" + "ip()", false},
		{bpfPrint, "bpf_" + "printk(\"x\");", true},
	}
	for _, tt := range tests {
		if got := tt.pattern.MatchString(tt.line); got != tt.want {
			t.Errorf("%s on %q: %v, want %v", tt.pattern, tt.line, got, tt.want)
		}
	}
}
