package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A capture that cannot begin says why and makes no file.
func TestCaptureThatCannotBegin(t *testing.T) {
	address := serveGateway(t, &fakeGateway{})
	out := filepath.Join(t.TempDir(), "out.pcapng")
	status, stdout, stderr := l4lbd(t, "capture", "--admin", address, "--out", out)
	if want := "no gateway forwards here: nothing is attached under /sys/fs/bpf/l4lb/gw-1"; status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("status %d, stderr %q, want %q in it", status, stderr, want)
	}
	if _, err := os.Stat(out); err == nil || stdout != "" {
		t.Errorf("there is a file, or stdout has %q", stdout)
	}
}
