package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"l4lb/internal/testutil"
	"l4lb/pkg/controller"
)

// The controller hears of addresses and interfaces that come and go.
func TestHostIsFollowed(t *testing.T) {
	gw, peer := testutil.NewNetNS(t, "gateway"), testutil.NewNetNS(t, "peer")
	testutil.Veth(t, gw, "eth0", peer, "eth0")
	heard := make(chan controller.Host, 64)
	w := &hostWatch{
		interfaces: []string{"eth0", "eth1"}, log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		set: func(ctx context.Context, h controller.Host) error {
			heard <- h
			return nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		gw.Do(func() error { return w.run(ctx) })
	}()
	defer func() { cancel(); <-done }()

	want := func(what string, ok func(controller.Host) bool) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		var last controller.Host
		for {
			select {
			case last = <-heard:
				if ok(last) {
					return
				}
			case <-deadline:
				t.Fatalf("%s: not heard of, the last is %+v", what, last)
			}
		}
	}
	has := func(p string) func(controller.Host) bool {
		return func(h controller.Host) bool { return slices.Contains(h.Addresses, netip.MustParsePrefix(p)) }
	}
	index := uint32(gw.Ifindex("eth0"))
	want("the start", func(h controller.Host) bool { return h.Interfaces["eth0"] == index && h.Interfaces["eth1"] == 0 })
	gw.AddAddr("eth0", "203.0.113.77/24")
	want("a new address", has("203.0.113.77/24"))
	gw.AddAddr("eth0", "2001:db8:e::7/64")
	want("a new IPv6 address", has("2001:db8:e::7/64"))
	gw.DelAddr("eth0", "203.0.113.77/24")
	want("an address less", func(h controller.Host) bool { return !has("203.0.113.77/24")(h) })
	testutil.Veth(t, gw, "eth1", peer, "eth1")
	want("a new interface", func(h controller.Host) bool { return h.Interfaces["eth1"] == uint32(gw.Ifindex("eth1")) })
}
