package fuzz

import (
	"encoding/binary"
	"net/netip"
)

// packet is a frame as this test reads it: by the RFCs, and without looking at
// how the program does. lengths says that headers and lengths agree to the last
// byte; where they do not, fields hold what could be read.
type packet struct {
	raw  []byte
	tags int
	l3   int
	kind uint16 // Ethernet type behind the tags; 0 where there is none

	ip       bool // an IP header is there, whole
	ipv6     bool
	lengths  bool
	src, dst netip.Addr
	ttl      uint8
	end      int // of the IP packet
	headers  int // IPv6 extension headers
	proto    uint8
	l4       int  // what follows the IP headers
	fragment bool // an IPv6 fragment header counts, whatever is in it
	later    bool // not the first fragment
}

var be = binary.BigEndian

func read(raw []byte) packet {
	p := packet{raw: raw}
	if len(raw) < 14 {
		return p
	}
	p.kind, p.l3 = be.Uint16(raw[12:]), 14
	for p.tags < 2 && (p.kind == 0x8100 || p.kind == 0x88a8) {
		if len(raw) < p.l3+4 {
			p.kind = 0
			return p
		}
		p.kind = be.Uint16(raw[p.l3+2:])
		p.l3 += 4
		p.tags++
	}
	switch p.kind {
	case 0x0800:
		p.read4()
	case 0x86dd:
		p.read6()
	}
	return p
}

func (p *packet) read4() {
	ip := p.raw[p.l3:]
	if len(ip) < 20 {
		return
	}
	p.ip = true
	p.src, p.dst = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	header, total := int(ip[0]&0xf)*4, int(be.Uint16(ip[2:]))
	p.ttl, p.proto, p.l4, p.end = ip[8], ip[9], p.l3+header, p.l3+total
	fragment := be.Uint16(ip[6:])
	p.fragment, p.later = fragment&0x3fff != 0, fragment&0x1fff != 0
	p.lengths = ip[0]>>4 == 4 && header >= 20 && total >= header && total <= len(ip) && p.transportFits()
}

func (p *packet) read6() {
	ip := p.raw[p.l3:]
	if len(ip) < 40 {
		return
	}
	p.ip, p.ipv6 = true, true
	p.src, p.dst = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	p.ttl, p.proto, p.l4 = ip[7], ip[6], p.l3+40
	p.end = p.l4 + int(be.Uint16(ip[4:]))
	if ip[0]>>4 != 6 || p.end > len(p.raw) {
		return
	}
	for !p.fragment {
		switch p.proto {
		case 0, 43, 51, 60: // hop by hop, routing, authentication, destination options
		case 44:
			p.fragment = true
		default:
			p.lengths = p.transportFits()
			return
		}
		if p.l4+8 > p.end {
			return
		}
		ext := p.raw[p.l4:]
		size := 8 + int(ext[1])*8
		switch {
		case p.proto == 51:
			size = 8 + int(ext[1])*4
		case p.fragment:
			size = 8
			p.later = be.Uint16(ext[2:])>>3 != 0
		}
		p.proto, p.l4 = ext[0], p.l4+size
		p.headers++
		if p.l4 > p.end {
			return
		}
		if p.headers > 40 {
			return
		}
	}
	p.lengths = p.transportFits()
}

// transportFits reports whether the packet holds what we read of its transport
// header.
func (p *packet) transportFits() bool {
	if p.later {
		return true
	}
	need := map[uint8]int{6: 20, 17: 8, 132: 12, 1: 8, 58: 8}[p.proto]
	return p.l4+need <= p.end
}

// body is the IP packet's data from the transport header on.
func (p *packet) body() []byte { return p.raw[p.l4:p.end] }

// sum is the ones' complement sum of RFC 1071, folded: 0xffff where a checksum
// is in b and right.
func sum(start uint32, b []byte) uint16 {
	s := uint64(start)
	for len(b) >= 4 {
		s += uint64(be.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(be.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// pseudo is the sum of the pseudo header of TCP, UDP and ICMPv6.
func (p *packet) pseudo(proto uint8) uint32 {
	ip := p.raw[p.l3:]
	if p.ipv6 {
		return uint32(sum(uint32(p.end-p.l4)+uint32(proto), ip[8:40]))
	}
	return uint32(sum(uint32(p.end-p.l4)+uint32(proto), ip[12:20]))
}

// headerSum reports whether an IPv4 header's checksum is right.
func (p *packet) headerSum() bool {
	header := int(p.raw[p.l3]&0xf) * 4
	return sum(0, p.raw[p.l3:p.l3+header]) == 0xffff
}

// transportSum reports whether the transport checksum is right; known is false
// where there is none to judge.
func (p *packet) transportSum() (right, known bool) {
	if !p.lengths || p.fragment {
		return false, false
	}
	b := p.body()
	switch {
	case p.proto == 6, p.proto == 17, p.proto == 58 && p.ipv6:
		return sum(p.pseudo(p.proto), b) == 0xffff, true
	case p.proto == 1 && !p.ipv6:
		return sum(0, b) == 0xffff, true
	}
	return false, false
}
