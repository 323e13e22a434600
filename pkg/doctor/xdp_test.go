package doctor

import (
	"strings"
	"testing"

	"l4lb/internal/testutil"
)

func TestTheKernelSaysWhatADriverCanDo(t *testing.T) {
	ns, other := testutil.NewNetNS(t, "a"), testutil.NewNetNS(t, "b")
	testutil.Veth(t, ns, "eth0", other, "eth0")
	ns.Do(func() error {
		veth, lo := xdpFeatures(ns.Ifindex("eth0")), xdpFeatures(ns.Ifindex("lo"))
		if got := driver("eth0"); got != "veth" {
			t.Errorf("the driver of eth0 is %q", got)
		}
		if !veth.known || veth.bits&featureBasic == 0 {
			t.Errorf("veth: %+v", veth)
		}
		if !lo.known || lo.bits != 0 {
			t.Errorf("lo: %+v", lo)
		}
		return nil
	})
}

func TestDriverFinding(t *testing.T) {
	tests := []struct {
		name     string
		driver   string
		features features
		status   Status
		what     string
	}{
		{"native by the kernel's word", "mlx5_core", features{featureBasic | featureTransmit, true}, OK, "has native XDP"},
		{"none by the kernel's word", "tg3", features{0, true}, Problem, "has no native XDP"},
		{"no transmit of others' packets yet", "virtio_net", features{featureBasic, true}, Note, "by another interface"},
		{"known by name on an older kernel", "ixgbe", features{}, OK, "is known to have"},
		{"not known on an older kernel", "tg3", features{}, Warning, "not known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := driverFinding("eth0", tt.driver, tt.features)
			if f.Status != tt.status || !strings.Contains(f.What, tt.what) {
				t.Errorf("got %s: %s", f.Status, f.What)
			}
			if f.Status != OK && f.Why == "" || (f.Status == Problem || f.Status == Warning) && len(f.Mend) == 0 {
				t.Errorf("no reason or no mend: %+v", f)
			}
		})
	}
}
