package capture

import (
	"testing"

	"l4lb/internal/testutil"
)

// As of the program that it stands in for (pkg/loader).
func TestStackFitsOlderKernels(t *testing.T) {
	spec, err := loadTracer()
	if err != nil {
		t.Fatal(err)
	}
	depth, path := testutil.DeepestStack(spec.Programs["l4lb_capture"])
	if depth > testutil.StackLimit {
		t.Errorf("a stack of %d bytes, at most %d are allowed: %s", depth, testutil.StackLimit, path)
	}
}
