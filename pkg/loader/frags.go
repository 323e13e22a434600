package loader

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"l4lb/pkg/lb"
)

// WithFrags marks a program as one that takes frames in several buffers, which the
// kernel would not give it otherwise. Its constant cfg_frags is the other half.
func WithFrags(p *ebpf.ProgramSpec) { p.Flags |= unix.BPF_F_XDP_HAS_FRAGS }

// isRefusal tells that a driver does not take the program as it is.
func isRefusal(err error) bool {
	for _, no := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.ERANGE, unix.E2BIG, ebpf.ErrNotSupported} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// explainRefusal says what to do about a driver that refuses the program. Drivers
// have no error number of their own for frames that are too long.
func (d *Datapath) explainRefusal(dev *net.Interface, mode lb.XDPMode, err error) error {
	switch {
	case mode != lb.XDPNative || !isRefusal(err):
		return err
	case dev.MTU > lb.PageMTU && !d.opts.Frags:
		return fmt.Errorf("the MTU of %s is %d, and the program was loaded for frames of one page: restart the gateway, or ip link set dev %s mtu %d: %w",
			dev.Name, dev.MTU, dev.Name, lb.PageMTU, err)
	case dev.MTU > lb.PageMTU:
		return fmt.Errorf("the driver of %s refuses native XDP at an MTU of %d, also for frames in several buffers: ip link set dev %s mtu %d, or set xdpMode: generic to run slower without it: %w",
			dev.Name, dev.MTU, dev.Name, lb.PageMTU, err)
	case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("the driver has no native XDP: set xdpMode: generic to run slower without it: %w", err)
	}
	return err
}
