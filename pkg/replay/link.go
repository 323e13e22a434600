package replay

import (
	"encoding/binary"
	"fmt"
)

// linkType is a number of the tcpdump.org registry of link types.
type linkType uint32

const (
	linkEthernet linkType = 1
	linkRawBSD   linkType = 12
	linkRawOpen  linkType = 14
	linkRaw      linkType = 101
	linkSLL      linkType = 113
	linkIPv4     linkType = 228
	linkIPv6     linkType = 229
	linkSLL2     linkType = 276
)

// check refuses link types that no Ethernet frame can be made of.
func (l linkType) check() error {
	switch l {
	case linkEthernet, linkRawBSD, linkRawOpen, linkRaw, linkSLL, linkIPv4, linkIPv6, linkSLL2:
		return nil
	}
	return fmt.Errorf("link type %d is not supported: Ethernet (1), Linux cooked (113, 276) and raw IP (101) are", l)
}

const (
	etherHeader = 14
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd
	etherVLAN   = 0x8100
	etherQinQ   = 0x88a8

	cookedBroadcast = 1
	cookedMulticast = 2
)

// The link addresses of frames that were captured without: the sender, and an
// unnamed group.
var (
	senderMAC    = [6]byte{0x02, 0x4c, 0, 0, 0, 2}
	broadcastMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	groupMAC     = [6]byte{0x01, 0, 0x5e, 0, 0, 0}
)

// ethernet appends a packet as an Ethernet frame to buf, addressed to the
// gateway where it is not to a group. A header that is missing is made up: it has
// the sender's address where the capture kept one, else senderMAC. What is too
// short for its link's header comes out shorter than an Ethernet header. more is
// how many bytes the frame is longer than the packet was.
func ethernet(buf []byte, p packet) (frame []byte, more int) {
	switch p.link {
	case linkEthernet:
		frame = append(buf, p.data...)
		if len(frame) >= etherHeader && frame[0]&1 == 0 {
			copy(frame, gatewayMAC[:])
		}
		return frame, 0
	case linkSLL:
		const header = 16
		if len(p.data) < header {
			return buf, 0
		}
		kind := byte(min(binary.BigEndian.Uint16(p.data), 0xff))
		return cooked(buf, kind, p.data[6:14], int(binary.BigEndian.Uint16(p.data[4:])), p.data[14:16], p.data[header:]),
			etherHeader - header
	case linkSLL2:
		const header = 20
		if len(p.data) < header {
			return buf, 0
		}
		return cooked(buf, p.data[10], p.data[12:20], int(p.data[11]), p.data[:2], p.data[header:]), etherHeader - header
	}
	return raw(buf, p.data), etherHeader
}

// cooked makes a frame of what a Linux cooked header keeps.
func cooked(buf []byte, kind byte, address []byte, size int, proto, payload []byte) []byte {
	source := senderMAC
	if size == len(source) && [6]byte(address[:6]) != [6]byte{} {
		source = [6]byte(address[:6])
	}
	group, isGroup := ipGroup(binary.BigEndian.Uint16(proto), payload)
	dest := gatewayMAC
	switch {
	case kind == cookedBroadcast:
		dest = broadcastMAC
	case isGroup:
		dest = group
	case kind == cookedMulticast:
		dest = groupMAC
	}
	return put(buf, dest, source, proto, payload)
}

// raw makes a frame of a bare IP packet, whose version says which.
func raw(buf, payload []byte) []byte {
	proto := []byte{etherIPv4 >> 8, etherIPv4 & 0xff}
	if len(payload) > 0 && payload[0]>>4 == 6 {
		proto = []byte{etherIPv6 >> 8, etherIPv6 & 0xff}
	}
	dest := gatewayMAC
	if group, ok := ipGroup(binary.BigEndian.Uint16(proto), payload); ok {
		dest = group
	}
	return put(buf, dest, senderMAC, proto, payload)
}

func put(buf []byte, dest, source [6]byte, proto, payload []byte) []byte {
	buf = append(append(append(buf, dest[:]...), source[:]...), proto...)
	return append(buf, payload...)
}

// ipGroup is the link address of the group or broadcast that an IP packet is
// for (RFC 1112, RFC 2464).
func ipGroup(proto uint16, ip []byte) (mac [6]byte, ok bool) {
	switch {
	case proto == etherIPv4 && len(ip) >= 20:
		d := ip[16:20]
		if [4]byte(d) == [4]byte{255, 255, 255, 255} {
			return broadcastMAC, true
		}
		return [6]byte{0x01, 0, 0x5e, d[1] & 0x7f, d[2], d[3]}, d[0]>>4 == 14
	case proto == etherIPv6 && len(ip) >= 40:
		d := ip[24:40]
		return [6]byte{0x33, 0x33, d[12], d[13], d[14], d[15]}, d[0] == 0xff
	}
	return mac, false
}
