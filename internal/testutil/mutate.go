package testutil

import (
	"encoding/binary"
	"net"
	"strings"

	"github.com/gopacket/gopacket/layers"
)

// Flags sets exactly the TCP flags named by letters of "SAFRPU".
func Flags(letters string) Mutate {
	return func(p *Packet) {
		has := func(c string) bool { return strings.Contains(letters, c) }
		t := p.TCP
		t.SYN, t.ACK, t.FIN = has("S"), has("A"), has("F")
		t.RST, t.PSH, t.URG = has("R"), has("P"), has("U")
	}
}

// Payload replaces the payload.
func Payload(b []byte) Mutate {
	return func(p *Packet) { p.Payload = b }
}

// MACs sets the link addresses.
func MACs(src, dst net.HardwareAddr) Mutate {
	return func(p *Packet) { p.Eth.SrcMAC, p.Eth.DstMAC = src, dst }
}

// VLAN adds 802.1Q tags, outermost first.
func VLAN(ids ...uint16) Mutate {
	return func(p *Packet) {
		for _, id := range ids {
			p.VLANs = append(p.VLANs, layers.Dot1Q{VLANIdentifier: id})
		}
	}
}

// TTL sets the IPv4 time to live or the IPv6 hop limit.
func TTL(n uint8) Mutate {
	return func(p *Packet) {
		if p.IP4 != nil {
			p.IP4.TTL = n
		} else {
			p.IP6.HopLimit = n
		}
	}
}

// IPv4Options adds bytes of IPv4 options; the length is a multiple of 4.
func IPv4Options(b []byte) Mutate {
	return func(p *Packet) {
		for len(b) > 0 {
			o := layers.IPv4Option{OptionType: b[0]}
			n := 1 // end of list and no-operation are one byte
			if b[0] > 1 {
				n = int(b[1])
				o.OptionLength, o.OptionData = b[1], b[2:n]
			}
			p.IP4.Options = append(p.IP4.Options, o)
			b = b[n:]
		}
	}
}

// Fragment makes the packet a fragment: offset in units of 8 bytes, more says
// whether others follow. The transport header, if any, is kept.
func Fragment(offset uint16, more bool) Mutate {
	return func(p *Packet) {
		if p.IP4 != nil {
			p.IP4.Flags, p.IP4.FragOffset = 0, offset
			if more {
				p.IP4.Flags = layers.IPv4MoreFragments
			}
			return
		}
		b := make([]byte, 8)
		binary.BigEndian.PutUint16(b[2:], offset<<3)
		if more {
			b[3] |= 1
		}
		binary.BigEndian.PutUint32(b[4:], 0x4c4c4c4c)
		p.Ext6 = append(p.Ext6, Ext6{Type: layers.IPProtocolIPv6Fragment, Bytes: b})
	}
}

// HopByHop adds an IPv6 hop-by-hop header of 8*(n+1) bytes, all padding.
func HopByHop(n uint8) Mutate { return padHeader(layers.IPProtocolIPv6HopByHop, n) }

// DestOptions adds an IPv6 destination options header of 8*(n+1) bytes.
func DestOptions(n uint8) Mutate { return padHeader(layers.IPProtocolIPv6Destination, n) }

// AH adds an IPv6 authentication header (RFC 4302) with n words of check value.
func AH(n uint8) Mutate {
	return func(p *Packet) {
		b := make([]byte, 12+4*int(n))
		b[1], b[7], b[11] = n+1, 9, 1 // length in words less two; SPI; sequence
		p.Ext6 = append(p.Ext6, Ext6{Type: layers.IPProtocolAH, Bytes: b})
	}
}

func padHeader(kind layers.IPProtocol, n uint8) Mutate {
	return func(p *Packet) {
		b := make([]byte, 8*(int(n)+1))
		b[1] = n
		// One PadN option fills up to 255+2 bytes, Pad1 (zeros) the rest.
		b[2], b[3] = 1, byte(min(len(b)-4, 255))
		p.Ext6 = append(p.Ext6, Ext6{Type: kind, Bytes: b})
	}
}
