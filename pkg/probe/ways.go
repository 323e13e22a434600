package probe

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
)

const (
	// Kinds of delivery, as in bpf/probe_tc.c.
	deliveryNone   = 0
	deliveryL2     = 1
	deliveryTunnel = 2

	indexBits = 20
	maxIndex  = 1<<indexBits - 1

	// defaultMTU and leastMTU bound what the device's MTU is, in bytes. Less
	// than 1280 would switch IPv6 off.
	defaultMTU = 1500
	leastMTU   = 1280
)

// indexes hands out numbers from 1 to maxIndex. One that was given back comes
// again last, so that a probe in flight with it is long over.
type indexes struct {
	used map[uint32]bool
	last uint32
}

func newIndexes() indexes { return indexes{used: map[uint32]bool{}} }

// take returns a number that is not in use. There are more of them than
// backends a gateway has (a member id has 24 bits, tables 16).
func (x *indexes) take() uint32 {
	for {
		x.last = x.last%maxIndex + 1
		if !x.used[x.last] {
			x.used[x.last] = true
			return x.last
		}
	}
}

func (x *indexes) free(i uint32) { delete(x.used, i) }

// delivery is what the program does with a frame for the way's backend.
func (w *way) delivery() probeDelivery {
	tunnelled := w.path.Tunnel.Size > 0
	if !w.path.Usable || tunnelled != w.path.Way.Forwarding.Tunnelled() {
		return probeDelivery{Kind: deliveryNone}
	}
	d := probeDelivery{Ifindex: uint32(w.path.IfIndex), Kind: deliveryL2, Dmac: w.path.DMAC, Smac: w.path.SMAC}
	if h := &w.path.Tunnel; tunnelled {
		d.Kind = deliveryTunnel
		d.Tunnel = probeTunnel{
			Ip:     *(*[5]uint64)(unsafe.Pointer(&h.IP)),
			Udp:    *(*uint64)(unsafe.Pointer(&h.UDP)),
			Geneve: *(*uint64)(unsafe.Pointer(&h.GENEVE)),
			Mtu:    h.MTU, Size: h.Size, Flags: h.Flags, Spread: h.Spread,
		}
	}
	return d
}

// mtu is the longest packet that the way takes.
func (w *way) mtu() int {
	if w.path.Tunnel.Size > 0 {
		return int(w.path.Tunnel.MTU)
	}
	return w.path.MTU
}

// write tells the program of a way. The caller holds mu.
func (o *Output) write(w *way) error {
	if err := o.objs.L4lbProbes.Put(w.index, w.delivery()); err != nil {
		return fmt.Errorf("write way to %s: %w", w.path.Backend, err)
	}
	return nil
}

// forget takes a way from the program. The caller holds mu.
func (o *Output) forget(w *way) error {
	if err := o.objs.L4lbProbes.Delete(w.index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete way to %s: %w", w.path.Backend, err)
	}
	return nil
}

// fitMTU gives the device the smallest MTU of the ways in use, so that no probe
// is too long for the interface that it leaves by. The caller holds mu.
func (o *Output) fitMTU() error {
	mtu := 0
	for _, w := range o.ways {
		if m := w.mtu(); w.path.Usable && m > 0 && (mtu == 0 || m < mtu) {
			mtu = m
		}
	}
	if mtu == 0 {
		return nil
	}
	if mtu = max(mtu, leastMTU); mtu == o.mtu {
		return nil
	}
	if err := o.device.setMTU(o.nl, mtu); err != nil {
		return err
	}
	o.mtu = mtu
	return nil
}
