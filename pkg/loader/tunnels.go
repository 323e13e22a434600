package loader

import (
	"sync/atomic"
	"unsafe"

	"l4lb/pkg/encap"
)

// MEMBER_TUNNEL and MEMBER_TUNNEL_ODD of bpf/include/types.h.
const (
	memberTunnel     = 0x20
	memberTunnelOdd  = 0x40
	memberTunnelBits = memberTunnel | memberTunnelOdd
)

// writeWay makes ready what a member's second record says, its tunnel or else the
// MTU of its link, and returns the bits of its state that put it into force. A
// change goes to the record that is not in force, so that no packet gets half of
// it. Two changes of a member are a Settle apart.
func (d *Datapath) writeWay(id uint32, h encap.Header, mtu uint16) uint8 {
	record, bits := lbTunnel{Mtu: mtu}, uint8(0)
	if h != (encap.Header{}) {
		record, bits = tunnelRecord(h), memberTunnel
	}
	odd := d.members[id].State & memberTunnelOdd
	if d.tunnels[wayIndex(id, odd)] == record {
		return bits | odd
	}
	odd ^= memberTunnelOdd
	from := (*[unsafe.Sizeof(record) / 8]uint64)(unsafe.Pointer(&record))
	to := (*[unsafe.Sizeof(record) / 8]uint64)(unsafe.Pointer(&d.tunnels[wayIndex(id, odd)]))
	for i := range from {
		atomic.StoreUint64(&to[i], from[i])
	}
	return bits | odd
}

// wayIndex is where the record of a member with this state is that is in force.
func wayIndex(id uint32, state uint8) uint32 {
	if state&memberTunnelOdd != 0 {
		return 2*id + 1
	}
	return 2 * id
}

func tunnelRecord(h encap.Header) lbTunnel {
	return lbTunnel{
		Ip:     *(*[5]uint64)(unsafe.Pointer(&h.IP)),
		Udp:    *(*uint64)(unsafe.Pointer(&h.UDP)),
		Geneve: *(*uint64)(unsafe.Pointer(&h.GENEVE)),
		Mtu:    h.MTU, Size: h.Size, Flags: h.Flags, Spread: h.Spread,
	}
}

// tunnel reads a member's tunnel that is in force.
func (d *Datapath) tunnel(id uint32) encap.Header {
	state := d.members[id].State
	if state&memberTunnel == 0 {
		return encap.Header{}
	}
	r := d.tunnels[wayIndex(id, state)]
	return encap.Header{
		IP:     *(*[40]byte)(unsafe.Pointer(&r.Ip)),
		UDP:    *(*[8]byte)(unsafe.Pointer(&r.Udp)),
		GENEVE: *(*[8]byte)(unsafe.Pointer(&r.Geneve)),
		MTU:    r.Mtu, Size: r.Size, Flags: r.Flags, Spread: r.Spread,
	}
}

// linkMTU reads the MTU of a member's link, 0 where there is a tunnel.
func (d *Datapath) linkMTU(id uint32) uint16 {
	state := d.members[id].State
	if state&memberTunnel != 0 {
		return 0
	}
	return d.tunnels[wayIndex(id, state)].Mtu
}
