package netlab

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// AttachPass attaches an XDP program that passes every frame, whatever its length,
// natively. A veth
// end receives what its peer sends by XDP_TX or a redirect only while it runs a
// program itself. It is detached by Close.
func (n *Namespace) AttachPass(name string) error {
	attrs, err := n.Link(name)
	if err != nil {
		return err
	}
	l, err := n.attachPass(attrs.Index)
	if err != nil {
		return fmt.Errorf("attach pass program to %s:%s: %w", n.name, name, err)
	}
	n.closeWith(l)
	return nil
}

func (n *Namespace) attachPass(index int) (l link.Link, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	const xdpPass = 2 // enum xdp_action of linux/bpf.h
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "l4lb_lab_pass",
		Type:         ebpf.XDP,
		License:      "Dual BSD/GPL",
		Flags:        unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		return nil, err
	}
	defer prog.Close() // the link holds it
	err = n.Do(func() error {
		l, err = link.AttachXDP(link.XDPOptions{
			Program: prog, Interface: index, Flags: link.XDPDriverMode,
		})
		return err
	})
	return l, err
}
