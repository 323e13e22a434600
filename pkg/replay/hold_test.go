package replay

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	. "l4lb/internal/testutil"
)

// The program is attached somewhere, and not to an interface of this host.
func TestHoldTouchesNoInterface(t *testing.T) {
	RequireRoot(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	before := linksOf(t, id)
	release := hold(prog)
	if got := linksOf(t, id); before != 0 || got != 1 {
		t.Errorf("%d links to the program, %d before; want 1, 0", got, before)
	}
	list, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if x := l.Attrs().Xdp; x != nil && x.ProgId == uint32(id) {
			t.Errorf("attached to %s", l.Attrs().Name)
		}
	}
	release()
	if got := linksOf(t, id); got != 0 {
		t.Errorf("%d links to the program after release", got)
	}
}

// linksOf counts the links of a program.
func linksOf(t *testing.T, prog ebpf.ProgramID) int {
	t.Helper()
	n := 0
	for it := new(link.Iterator); ; {
		if !it.Next() {
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if info, err := it.Link.Info(); err == nil && info.Program == prog {
			n++
		}
	}
}
