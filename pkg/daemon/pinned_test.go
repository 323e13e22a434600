package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"l4lb/internal/testutil"
	"l4lb/pkg/loader"
)

// A restart must ask for the sizes that the pinned maps have, or it could not
// adopt them.
func TestPinnedStateKeepsItsSizes(t *testing.T) {
	testutil.RequireRoot(t)
	if err := mountBPF(defaultBPFDir); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(defaultBPFDir, fmt.Sprintf("l4lb-test-%d", os.Getpid()))
	t.Cleanup(func() { loader.Discard(dir) })
	made := loader.Options{PinDir: dir, FlowEntries: 1024, Members: 1 << 15, Rules: 1 << 13, Services: 1 << 11, StatSlots: 16}
	dp, err := loader.Load(made)
	if err != nil {
		t.Fatal(err)
	}
	dp.Close()
	got := sizes(grown(3, 1), dir)
	if got.Members != made.Members || got.Rules != made.Rules || got.Services != made.Services || got.StatSlots != made.StatSlots {
		t.Errorf("sizes %+v, want those of %+v", got, made)
	}
	if outgrown := sizes(grown(1, 17), dir); outgrown.StatSlots != 32 {
		t.Errorf("%d counters a backend for 17 rules, want 32", outgrown.StatSlots)
	}
}
