package netlab

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ethtool commands of linux/ethtool.h that golang.org/x/sys does not name, each
// with the value it reads or sets.
const (
	ethtoolGTXCSUM = 0x16
	ethtoolSTXCSUM = 0x17
	ethtoolSTSO    = 0x1f
	ethtoolSGSO    = 0x24
	ethtoolSGRO    = 0x2c
)

// TxChecksumOff makes the kernel compute checksums in software before a frame
// enters the interface. On a veth a frame otherwise carries a partial checksum,
// which an XDP program on the other end sees, forwards and thereby ruins: ping
// works and TCP does not.
func (n *Namespace) TxChecksumOff(link string) error {
	return n.setOffload(link, ethtoolSTXCSUM, 0)
}

// OffloadsOff turns transmit checksums, segmentation (TSO, GSO) and receive
// coalescing (GRO) off, so that an XDP program sees the frames a wire would
// carry. What the driver cannot change is skipped.
func (n *Namespace) OffloadsOff(link string) error {
	for _, cmd := range []uint32{ethtoolSTSO, ethtoolSGSO, ethtoolSGRO} {
		if err := n.setOffload(link, cmd, 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	return n.TxChecksumOff(link)
}

// TxChecksum reports whether transmit checksum offload is on.
func (n *Namespace) TxChecksum(link string) (bool, error) {
	v, err := n.ethtoolValue(link, ethtoolGTXCSUM, 0)
	return v != 0, err
}

func (n *Namespace) setOffload(link string, cmd, value uint32) error {
	_, err := n.ethtoolValue(link, cmd, value)
	return err
}

// ethtoolValue is struct ethtool_value of linux/ethtool.h.
type ethtoolValue struct {
	cmd  uint32
	data uint32
}

// ifreq is struct ifreq of linux/if.h, with ifr_data used.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

func (n *Namespace) ethtoolValue(link string, cmd, value uint32) (uint32, error) {
	v := ethtoolValue{cmd: cmd, data: value}
	err := n.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		req := ifreq{data: unsafe.Pointer(&v)}
		if copy(req.name[:unix.IFNAMSIZ-1], link) != len(link) {
			return unix.EINVAL
		}
		var pin runtime.Pinner
		pin.Pin(&v)
		defer pin.Unpin()
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ethtool command %#x on %s:%s: %w", cmd, n.name, link, err)
	}
	return v.data, nil
}
