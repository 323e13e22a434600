package netns

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"l4lb/internal/testutil"
)

// attachForeign puts an XDP program of somebody else on an interface, by netlink
// as `ip link set … xdpdrv` does, and returns its number.
func attachForeign(t *testing.T, ns *testutil.NetNS, iface string) ebpf.ProgramID {
	t.Helper()
	const xdpPass = 2
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "foreign", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	ns.Do(func() error {
		link, err := netlink.LinkByName(iface)
		if err == nil {
			err = netlink.LinkSetXdpFdWithFlags(link, p.FD(), unix.XDP_FLAGS_DRV_MODE)
		}
		return err
	})
	return id
}
