package testutil

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A frame sent back by native XDP_TX must arrive, which needs the pass program
// on the other end of the veth pair.
func TestPassProgramLetsXDPTxArrive(t *testing.T) {
	client, gateway := NewNetNS(t, "client"), NewNetNS(t, "gateway")
	Veth(t, client, "eth0", gateway, "c1")
	client.AttachPass("eth0")
	attachTx(t, gateway, "c1")

	var fd int
	client.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	defer unix.Close(fd)
	at := &unix.SockaddrLinklayer{Ifindex: client.Ifindex("eth0"), Protocol: 0x0008} // ETH_P_IP, network order
	if err := unix.Bind(fd, at); err != nil {
		t.Fatal(err)
	}
	timeout := unix.NsecToTimeval(int64(2 * time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatal(err)
	}
	frame := UDP(t, netip.AddrPortFrom(Client4, 1), netip.AddrPortFrom(VIP4, 2))
	if _, err := unix.Write(fd, frame); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	n, err := unix.Read(fd, buf)
	if err != nil {
		t.Fatalf("the frame did not come back: %v", err)
	}
	if got, want := Dump(buf[:n]), Dump(frame); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func attachTx(t *testing.T, ns *NetNS, name string) {
	t.Helper()
	const xdpTx = 3
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpTx), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	ns.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: ns.Ifindex(name), Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
}
