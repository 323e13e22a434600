package netlab_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"l4lb/internal/netlab"
	"l4lb/internal/testutil"
)

func TestNamedNamespaceAppearsAndGoes(t *testing.T) {
	testutil.RequireRoot(t)
	name := "l4lb-test-" + strconv.Itoa(os.Getpid())
	ns, err := netlab.NewNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("/run/netns", name)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if lo, err := ns.Link("lo"); err != nil || lo.RawFlags&1 == 0 {
		t.Errorf("loopback is not up: %+v, %v", lo, err)
	}
	if err := ns.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name is left behind: %v", err)
	}
}

func TestDoReportsAFunctionThatEndsItsGoroutine(t *testing.T) {
	ns := testutil.NewNetNS(t, "exit")
	err := ns.Namespace.Do(func() error {
		runtime.Goexit()
		return nil
	})
	if !errors.Is(err, netlab.ErrGoexit) {
		t.Errorf("got %v, want ErrGoexit", err)
	}
}

func TestCurrentIsWhereTheProcessRuns(t *testing.T) {
	testutil.RequireRoot(t)
	host, err := netlab.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	inner := testutil.NewNetNS(t, "inner")
	if inner.Handle().Equal(host.Handle()) {
		t.Error("a new namespace equals the current one")
	}
}

func TestErrorsNameNamespaceAndLink(t *testing.T) {
	ns := testutil.NewNetNS(t, "web-1")
	for _, err := range []error{
		ns.Namespace.LinkUp("eth7"), ns.Namespace.AttachPass("eth7"),
		ns.OffloadsOff("eth7"), ns.Namespace.Bridge("br0", "eth7"),
	} {
		if err == nil {
			t.Error("a missing link was accepted")
			continue
		}
		const want = "web-1:eth7"
		if got := err.Error(); !strings.Contains(got, want) {
			t.Errorf("%q does not name %s", got, want)
		}
	}
}
