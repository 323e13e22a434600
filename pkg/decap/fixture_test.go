package decap

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"l4lb/internal/testutil"
)

// Verdicts of linux/bpf.h.
const (
	xdpAborted = 0
	xdpDrop    = 1
	xdpPass    = 2
)

// The ends of the tunnels of the tests.
var (
	gateway4  = netip.MustParseAddr("10.0.0.1")
	gateway6  = netip.MustParseAddr("2001:db8::1")
	backend4  = netip.MustParseAddr("10.0.9.11")
	backend6  = netip.MustParseAddr("2001:db8:9::11")
	stranger4 = netip.MustParseAddr("10.0.0.2")
	stranger6 = netip.MustParseAddr("2001:db8::2")
)

// newFixture loads the program for one gateway and one backend, without an
// interface.
func newFixture(t testing.TB, vips ...netip.Prefix) *Decap {
	t.Helper()
	return newFixtureWith(t, Options{VIPs: vips, GUEPort: DefaultGUEPort, GENEVEPort: DefaultGENEVEPort})
}

func newFixtureWith(t testing.TB, o Options) *Decap {
	t.Helper()
	testutil.RequireRoot(t)
	o.Interface, o.Gateways = "none", []netip.Prefix{whole(gateway4), whole(gateway6)}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := load(o)
	if err != nil {
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			t.Fatalf("%+v", refused)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.setLocal([]netip.Addr{backend4, backend6}); err != nil {
		t.Fatal(err)
	}
	return d
}

// run puts a frame through and returns the verdict, the frame that came out and
// the name under which it was counted.
func (d *Decap) run(t testing.TB, frame []byte) (uint32, []byte, string) {
	t.Helper()
	before, err := d.Counts()
	if err != nil {
		t.Fatal(err)
	}
	o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	verdict, err := d.objs.L4lbDecap.Run(o)
	if err != nil {
		t.Fatalf("run %d bytes: %v", len(frame), err)
	}
	after, err := d.Counts()
	if err != nil {
		t.Fatal(err)
	}
	var counted string
	for name, n := range after {
		if n == before[name] {
			continue
		}
		if n != before[name]+1 || counted != "" {
			t.Errorf("counted %s and %s (%d)", counted, name, n-before[name])
		}
		counted = name
	}
	return verdict, o.DataOut, counted
}
