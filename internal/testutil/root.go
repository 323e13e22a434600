// Package testutil is what the tests of several packages share: network
// namespaces that clean up after themselves, named addresses, packet builders
// and a readable dump of packets.
package testutil

import (
	"os"
	"testing"
)

// RequireRoot skips a test that needs root when there is none. With
// L4LB_REQUIRE_ROOT_TESTS=1 in the environment it fails instead, so that no
// automated run skips tests unnoticed.
func RequireRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("L4LB_REQUIRE_ROOT_TESTS") == "1" {
		tb.Fatal("root is required and L4LB_REQUIRE_ROOT_TESTS=1 forbids to skip")
	}
	tb.Skip("root is required")
}
