package replay

import (
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"l4lb/pkg/loader"
)

// hold attaches the program to the loopback interface of a network namespace of
// its own, where no packet ever is. While a program is attached anywhere, the
// kernel keeps it in its dispatcher; without that, many kernels put it there and
// take it out again for every test run, and wait some milliseconds each time.
// Where it cannot be done a replay is only slower. The caller releases it.
func hold(prog *ebpf.Program) (release func()) {
	type held struct {
		link  link.Link
		space *os.File
	}
	done := make(chan held, 1)
	go func() {
		var h held
		defer func() { done <- h }()
		// The thread stays locked, so it ends with this goroutine, and
		// nobody else is ever run in the namespace.
		runtime.LockOSThread()
		if unix.Unshare(unix.CLONE_NEWNET) != nil {
			return
		}
		space, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return
		}
		l, err := link.AttachXDP(link.XDPOptions{
			Program: prog, Interface: loader.TestIfIndex, Flags: link.XDPGenericMode,
		})
		if err != nil {
			space.Close()
			return
		}
		h = held{link: l, space: space}
	}()
	h := <-done
	return func() {
		if h.link != nil {
			h.link.Close()
			h.space.Close()
		}
	}
}
