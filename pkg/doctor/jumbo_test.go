package doctor

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"l4lb/internal/testutil"
)

func TestJumboFinding(t *testing.T) {
	tests := []struct {
		name     string
		features features
		xdp      *netlink.LinkXdp
		status   Status
		what     string
	}{
		{"several buffers by the kernel's word", features{featureBasic | featureBuffers, true}, nil, OK, "in several buffers"},
		{"one buffer by the kernel's word", features{featureBasic, true}, nil, Warning, "hands over no frames"},
		{"not known on an older kernel", features{}, nil, Warning, "not known"},
		{"attached already", features{}, &netlink.LinkXdp{Attached: true}, OK, "the driver takes it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := jumboFinding(&netlink.LinkAttrs{Name: "eth0", MTU: 9000, Xdp: tt.xdp}, "ixgbe", tt.features)
			if f.Status != tt.status || !strings.Contains(f.What, tt.what) || !strings.Contains(f.What, "9000") {
				t.Errorf("got %s: %s", f.Status, f.What)
			}
			if f.Status != OK && (f.Why == "" || len(f.Mend) != 1 || f.Mend[0] != "ip link set dev eth0 mtu 3000") {
				t.Errorf("no reason or no mend: %+v", f)
			}
		})
	}
}

// The kernel says which drivers hand over frames in several buffers; veth does.
func TestVethTakesFramesInSeveralBuffers(t *testing.T) {
	ns, other := testutil.NewNetNS(t, "a"), testutil.NewNetNS(t, "b")
	testutil.Veth(t, ns, "eth0", other, "eth0")
	ns.Do(func() error {
		if f := xdpFeatures(ns.Ifindex("eth0")); f.bits&featureBuffers == 0 {
			t.Errorf("veth: %+v", f)
		}
		return nil
	})
}
