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

// writeTunnel makes a member's tunnel ready and returns the bits of its state
// that put it into force. A change goes to the record that is not in force, so
// that no packet gets half of it. Two changes of a member are a Settle apart.
func (d *Datapath) writeTunnel(id uint32, h encap.Header) uint8 {
	if h == (encap.Header{}) {
		return 0
	}
	bits, at := memberTunnel, 2*id
	state := d.members[id].State
	if state&memberTunnel != 0 {
		if d.tunnel(id) == h {
			return state & memberTunnelBits
		}
		if state&memberTunnelOdd == 0 {
			bits, at = memberTunnelBits, at+1
		}
	}
	record := tunnelRecord(h)
	from := (*[unsafe.Sizeof(record) / 8]uint64)(unsafe.Pointer(&record))
	to := (*[unsafe.Sizeof(record) / 8]uint64)(unsafe.Pointer(&d.tunnels[at]))
	for i := range from {
		atomic.StoreUint64(&to[i], from[i])
	}
	return uint8(bits)
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
	at := 2 * id
	if state&memberTunnelOdd != 0 {
		at++
	}
	r := d.tunnels[at]
	return encap.Header{
		IP:     *(*[40]byte)(unsafe.Pointer(&r.Ip)),
		UDP:    *(*[8]byte)(unsafe.Pointer(&r.Udp)),
		GENEVE: *(*[8]byte)(unsafe.Pointer(&r.Geneve)),
		MTU:    r.Mtu, Size: r.Size, Flags: r.Flags, Spread: r.Spread,
	}
}
