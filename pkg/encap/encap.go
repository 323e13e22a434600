// Package encap builds the outer headers of tunnels, as the data plane and the
// delivery of health checks put them around packets. docs/setup/tunnels.md has
// the formats.
package encap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"l4lb/pkg/lb"
)

// Flags of a Header: TUNNEL_ of bpf/include/types.h.
const (
	FlagIPv6     = 1 << iota // the outer header is IPv6
	FlagUDP                  // a UDP header follows it
	FlagGENEVE               // and a GENEVE header that
	FlagClampMSS             // TCP handshakes are told the segment size that fits
)

const (
	ipv4Size   = 20
	ipv6Size   = 40
	udpSize    = 8
	geneveSize = 8

	hopLimit = 64
	protoUDP = 17

	// MinMTU is the least that a tunnel must let through: what every IPv4
	// host accepts (RFC 791).
	MinMTU = 576
	// MaxSpread is how many low bits of a source address can tell flows apart.
	MaxSpread = 64
)

// Tunnel is a tunnel to one backend.
type Tunnel struct {
	Kind lb.Forwarding // not L2
	// Source is the gateway's address, or a prefix whose host bits tell flows
	// apart.
	Source netip.Prefix
	Dest   netip.Addr
	Port   uint16 // UDP destination of GUE and GENEVE
	VNI    uint32 // of GENEVE
	// LinkMTU is the longest outer packet that leaves, in bytes.
	LinkMTU int
	// ClampMSS has TCP handshakes told the segment size that fits.
	ClampMSS bool
}

// Header is the outer headers in frame order, without what depends on the
// packet inside: struct tunnel of bpf/include/types.h. The zero value is no
// tunnel.
type Header struct {
	IP     [ipv6Size]byte // IPv4 has 20 bytes of it
	UDP    [udpSize]byte
	GENEVE [geneveSize]byte
	MTU    uint16 // bytes of the longest packet that fits in
	Size   uint8  // bytes of all headers
	Flags  uint8
	Spread uint8 // low bits of the source address that differ by flow
}

// Dest is where the tunnel ends; not valid for the zero header.
func (h Header) Dest() netip.Addr {
	switch {
	case h.Size == 0:
		return netip.Addr{}
	case h.Flags&FlagIPv6 != 0:
		return netip.AddrFrom16([16]byte(h.IP[24:]))
	}
	return netip.AddrFrom4([4]byte(h.IP[16:ipv4Size]))
}

// ErrTooSmall says that the way has no room for headers and a packet.
var ErrTooSmall = errors.New("MTU is too small for the tunnel")

// Overhead is how many bytes the headers of a kind take, by the family of the
// outer addresses.
func Overhead(kind lb.Forwarding, ipv6 bool) int {
	size := ipv4Size
	if ipv6 {
		size = ipv6Size
	}
	switch kind {
	case lb.ForwardGUE:
		return size + udpSize
	case lb.ForwardGENEVE:
		return size + udpSize + geneveSize
	case lb.ForwardIPIP:
		return size
	}
	return 0
}

// Header builds the outer headers. It fails where the source has another
// family than the destination, and with ErrTooSmall.
func (t Tunnel) Header() (Header, error) {
	ipv6 := t.Dest.Is6()
	if !t.Source.IsValid() || t.Source.Addr().Is6() != ipv6 {
		return Header{}, fmt.Errorf("tunnel to %s: the gateway has no source address of its family", t.Dest)
	}
	h := Header{Size: uint8(Overhead(t.Kind, ipv6)), Spread: uint8(min(t.Source.Addr().BitLen()-t.Source.Bits(), MaxSpread))}
	mtu := min(t.LinkMTU-int(h.Size), 1<<16-1-int(h.Size))
	if mtu < MinMTU {
		return Header{}, fmt.Errorf("tunnel to %s: %w: %d bytes less %d of headers", t.Dest, ErrTooSmall, t.LinkMTU, h.Size)
	}
	h.MTU = uint16(mtu)
	var proto byte // of the packet inside, where no UDP header comes first
	if t.Kind != lb.ForwardIPIP {
		h.Flags, proto = FlagUDP, protoUDP
		binary.BigEndian.PutUint16(h.UDP[2:], t.Port)
	}
	if t.Kind == lb.ForwardGENEVE {
		h.Flags |= FlagGENEVE
		binary.BigEndian.PutUint32(h.GENEVE[4:], t.VNI<<8)
	}
	if t.ClampMSS {
		h.Flags |= FlagClampMSS
	}
	source := t.Source.Masked().Addr().AsSlice()
	if ipv6 {
		h.Flags |= FlagIPv6
		h.IP[0], h.IP[6], h.IP[7] = 6<<4, proto, hopLimit
		copy(h.IP[8:], source)
		copy(h.IP[24:], t.Dest.AsSlice())
		return h, nil
	}
	const dontFragment = 0x40
	h.IP[0], h.IP[6], h.IP[8], h.IP[9] = 4<<4|ipv4Size/4, dontFragment, hopLimit, proto
	copy(h.IP[12:], source)
	copy(h.IP[16:], t.Dest.AsSlice())
	return h, nil
}
