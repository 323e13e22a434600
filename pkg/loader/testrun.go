package loader

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runAttr is the part of union bpf_attr that BPF_PROG_TEST_RUN uses.
type runAttr struct {
	fd, verdict, sizeIn, sizeOut uint32
	in, out                      uint64
	repeat, duration             uint32
	ctxSizeIn, ctxSizeOut        uint32
	ctxIn, ctxOut                uint64
	flags, cpu, batch, reserved  uint32
}

// testRun puts a frame through a program by one system call, and none besides:
// the library's way costs several times as much.
func testRun(fd int, frame, out []byte) (verdict uint32, n int, err error) {
	if len(frame) == 0 || len(out) == 0 {
		return 0, 0, unix.EINVAL
	}
	attr := runAttr{
		fd: uint32(fd), sizeIn: uint32(len(frame)),
		in: uint64(uintptr(unsafe.Pointer(&frame[0]))), out: uint64(uintptr(unsafe.Pointer(&out[0]))),
	}
	for {
		attr.sizeOut = uint32(len(out))
		_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		runtime.KeepAlive(frame)
		runtime.KeepAlive(out)
		if errno == 0 {
			return attr.verdict, int(attr.sizeOut), nil
		}
		if !errors.Is(errno, unix.EINTR) {
			return 0, 0, errno
		}
	}
}

// RunInto is Run with the caller's memory: the frame that left is in out, which
// must have room for what the program adds.
func (d *Datapath) RunInto(frame, out []byte) (Trace, []byte, error) {
	if !d.opts.Virtual {
		return Trace{}, nil, errors.New("run frame: not a virtual data plane")
	}
	verdict, n, err := testRun(d.objs.L4lbIngress.FD(), frame, out)
	if err != nil {
		return Trace{}, nil, fmt.Errorf("run frame of %d bytes: %w", len(frame), err)
	}
	var t lbTraceRecord
	if err := d.objs.Trace.Get(&t); err != nil {
		return Trace{}, nil, fmt.Errorf("read trace: %w", err)
	}
	return Trace{
		Verdict: Verdict(verdict), Reason: Reason(t.Reason), Rule: t.Rule, Member: t.Member,
		Flow: TraceFlow(t.Flow), Zone: t.Zone,
	}, out[:n], nil
}
