package differential

import (
	"encoding/binary"

	"l4lb/pkg/model"
)

var (
	gatewayMAC = [6]byte{0x02, 0x4c, 0, 0, 0, 1}
	clientMAC  = [6]byte{0x02, 0x4c, 0, 0, 1, 7}
)

// frame builds a packet as it comes to the gateway, into buf. It is a great deal
// faster than a general builder; a million packets want it.
func frame(buf []byte, p *model.Packet, s shape) []byte {
	b := append(buf[:0], gatewayMAC[:]...)
	sender := clientMAC
	if p.Sender.IsValid() {
		sender = macOf(p.Sender)
	}
	b = append(b, sender[:]...)
	for i := range s.tags {
		kind := []uint16{0x8100, 0x88a8}[(s.tags-1-i)&1]
		b = binary.BigEndian.AppendUint16(b, kind)
		b = binary.BigEndian.AppendUint16(b, 100+uint16(i))
	}
	payload := transport(p, s)
	if p.Dst.Is4() {
		return appendIPv4(b, p, s, payload)
	}
	return appendIPv6(b, p, s, payload)
}

func appendIPv4(b []byte, p *model.Packet, s shape, payload []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, 0x0800)
	header := 20
	if s.options {
		header = 24
	}
	at := len(b)
	src, dst := p.Src.As4(), p.Dst.As4()
	b = append(b, 0x40|byte(header/4), 0)
	b = binary.BigEndian.AppendUint16(b, uint16(header+len(payload)))
	b = append(b, 0, 1, 0, 0, p.TTL, p.Protocol, 0, 0)
	binary.BigEndian.PutUint16(b[at+6:], fragmentField(p, s)>>3|fragmentField(p, s)<<13)
	b = append(append(b, src[:]...), dst[:]...)
	if s.options {
		b = append(b, 1, 1, 1, 1) // no operation
	}
	binary.BigEndian.PutUint16(b[at+10:], checksum(0, b[at:]))
	return append(b, payload...)
}

func appendIPv6(b []byte, p *model.Packet, s shape, payload []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, 0x86dd)
	var ext []byte
	next := p.Protocol
	if p.Fragment != model.Whole {
		ext = []byte{next, 0, 0, 0, 0, 0, 0, 9}
		binary.BigEndian.PutUint16(ext[2:], fragmentField(p, s))
		next = 44
	}
	if s.options {
		ext = append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, ext...)
		next = 60
		if s.payload&2 != 0 { // RFC 4302: 12 bytes and a check value of 12
			ext = append([]byte{next, 4, 0, 0, 0, 0, 0, 7, 23: 9}, ext...)
			next = 51
		}
	}
	src, dst := p.Src.As16(), p.Dst.As16()
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ext)+len(payload)))
	b = append(b, next, p.TTL)
	b = append(append(b, src[:]...), dst[:]...)
	return append(append(b, ext...), payload...)
}

// fragmentField is offset and flag as in IPv6 (RFC 8200 4.5); IPv4 has the flag
// in front.
func fragmentField(p *model.Packet, s shape) uint16 {
	more := uint16(s.payload & 1)
	switch p.Fragment {
	case model.FirstFragment:
		if p.Dst.Is6() {
			return more // a lone one is a fragment too (RFC 6946)
		}
		return 1
	case model.LaterFragment:
		return 1400 | more
	}
	return 0
}

// quote is a quoted packet: its headers, and of what follows them 8 bytes.
func quote(p *model.Packet, s shape) []byte {
	s = shape{options: s.quoteOptions, payload: s.payload}
	b := frame(nil, p, s)[14:]
	header := 40
	if p.Dst.Is4() {
		header = int(b[0]&15) * 4
	} else {
		header += len(b) - header - len(transport(p, s)) // extension headers
	}
	return b[:header+8]
}

// transport is what follows the IP headers.
func transport(p *model.Packet, s shape) []byte {
	var b []byte
	size := int(s.payload)
	switch p.Protocol {
	case 6:
		b = make([]byte, 20+size)
		binary.BigEndian.PutUint16(b, p.SrcPort)
		binary.BigEndian.PutUint16(b[2:], p.DstPort)
		b[12] = 5 << 4
		if p.SYN {
			b[13] |= 0x02
		}
		if p.ACK {
			b[13] |= 0x10
		}
		b[13] |= byte(size) & 0x05 // FIN, RST: they mean nothing to us
	case 17:
		b = make([]byte, 8+size)
		binary.BigEndian.PutUint16(b, p.SrcPort)
		binary.BigEndian.PutUint16(b[2:], p.DstPort)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	case 1, 58:
		b = make([]byte, 8, 128)
		b[0], b[7] = p.ICMPType, 9
		if p.Quoted != nil {
			b = append(b, quote(p.Quoted, s)...)
		}
		b = append(b, make([]byte, size)...)
		binary.BigEndian.PutUint16(b[2:], checksum(icmpPseudo(p, len(b)), b))
		if p.BadChecksum {
			b[2] ^= 1 << (size & 7)
		}
	case 132: // the common header, RFC 9260 3.1
		b = make([]byte, 12+size)
		binary.BigEndian.PutUint16(b, p.SrcPort)
		binary.BigEndian.PutUint16(b[2:], p.DstPort)
	default:
		b = make([]byte, 12+size)
		binary.BigEndian.PutUint32(b, uint32(size)*0x01020304)
	}
	return b
}

// icmpPseudo is the sum of ICMPv6's pseudo header (RFC 8200 8.1).
func icmpPseudo(p *model.Packet, size int) uint32 {
	if p.Protocol != 58 {
		return 0
	}
	sum := uint32(size) + 58
	for _, a := range [][16]byte{p.Src.As16(), p.Dst.As16()} {
		for i := 0; i < 16; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(a[i:]))
		}
	}
	return sum
}

func checksum(sum uint32, b []byte) uint16 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// echoReply is the frame that answers an echo request (RFC 792; RFC 4443 4.2).
func echoReply(p *model.Packet, s shape) []byte {
	reply := *p
	reply.Src, reply.Dst = p.Dst, p.Src
	reply.ICMPType = 0
	if p.Dst.Is6() {
		reply.ICMPType = 129
	}
	b := frame(nil, &reply, s)
	copy(b, b[6:12]) // to whom sent it
	copy(b[6:], gatewayMAC[:])
	ip := 14 + 4*int(s.tags)
	if p.Dst.Is6() {
		b[ip+7] = 64
		return b
	}
	b[ip+8], b[ip+10], b[ip+11] = 64, 0, 0
	header := int(b[ip]&0xf) * 4
	binary.BigEndian.PutUint16(b[ip+10:], checksum(0, b[ip:ip+header]))
	return b
}
