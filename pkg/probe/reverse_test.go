package probe

import (
	"net/netip"
	"testing"
)

// The filter of an interface is read once for all VIPs, and again after a recheck.
func TestTheFilterIsReadOnceForAllVIPs(t *testing.T) {
	ns := newNS(t, "host")
	entered := 0
	v := newReverse(0, func(f func() error) error {
		entered++
		return ns.Do(f)
	})
	lo, err := ns.Link("lo")
	must(t, err)
	ask := func() {
		t.Helper()
		for n := range byte(100) {
			vip := netip.AddrFrom4([4]byte{192, 0, 2, n})
			must(t, v.allow(ns.Netlink(), triple{vip, gateway4, lo.Index}))
		}
	}
	ask()
	ask()
	if entered != 1 {
		t.Errorf("the namespace was entered %d times, want 1", entered)
	}
	v.recheck()
	ask()
	if entered != 2 {
		t.Errorf("after a recheck the namespace was entered %d times, want 2", entered)
	}
	// A filter that turned strict is seen then: it has no route to the VIPs.
	must(t, ns.SetSysctl("ipv4/conf/lo/rp_filter", "1"))
	v.recheck()
	if blocked, err := v.blocked(ns.Netlink(), triple{vip4, gateway4, lo.Index}); err != nil || !blocked {
		t.Errorf("a strict filter without a route: blocked %v, %v", blocked, err)
	}
}
