package announce

import (
	"encoding/binary"
	"net/netip"
)

// Sizes and offsets in bytes.
const (
	ethernetHeader = 14
	ethernetMin    = 60 // without the checksum
	ipv6Header     = 40
	advertisement  = 32 // ICMPv6 with one option
)

// frame builds the announcement that addr is at mac.
func frame(addr netip.Addr, mac [6]byte) []byte {
	if addr.Is4() {
		return gratuitousARP(addr, mac)
	}
	return unsolicitedNA(addr.As16(), mac)
}

// gratuitousARP is an ARP request for the sender's own address (RFC 5227 2.3).
// Hosts update an existing entry from either a request or a reply; some network
// gear only looks at requests.
func gratuitousARP(addr netip.Addr, mac [6]byte) []byte { return ARPRequest(mac, addr, addr) }

// ARPRequest is the frame that asks the whole link for the IPv4 address target
// (RFC 826).
func ARPRequest(mac [6]byte, from, target netip.Addr) []byte {
	b := make([]byte, 0, ethernetMin)
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	b = append(b, mac[:]...)
	b = append(b,
		0x08, 0x06, // ARP
		0x00, 0x01, // Ethernet
		0x08, 0x00, // IPv4
		6, 4, // address lengths
		0x00, 0x01) // request
	b = append(b, mac[:]...)
	b = append(b, from.AsSlice()...)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = append(b, target.AsSlice()...)
	return b[:ethernetMin]
}

// unsolicitedNA is a neighbour advertisement to all nodes (RFC 4861 7.2.6) with
// the override flag, which makes hosts replace the link address they know.
func unsolicitedNA(addr [16]byte, mac [6]byte) []byte {
	allNodes := [16]byte{0: 0xff, 1: 0x02, 15: 0x01}
	b := make([]byte, 0, ethernetHeader+ipv6Header+advertisement)
	b = append(b, 0x33, 0x33, 0x00, 0x00, 0x00, 0x01)
	b = append(b, mac[:]...)
	b = append(b,
		0x86, 0xdd, // IPv6
		0x60, 0, 0, 0, // version, class and label
		0, advertisement,
		58,  // ICMPv6
		255) // hop limit: proves that no router forwarded it
	b = append(b, addr[:]...)
	b = append(b, allNodes[:]...)
	b = append(b,
		136, 0, // neighbour advertisement
		0, 0, // checksum, below
		0x20, 0, 0, 0) // override; not solicited, not a router
	b = append(b, addr[:]...)
	b = append(b, 2, 1) // option: target link-layer address, 8 bytes
	b = append(b, mac[:]...)

	icmp := b[ethernetHeader+ipv6Header:]
	binary.BigEndian.PutUint16(icmp[2:], checksum(addr, allNodes, icmp))
	return b
}

// checksum is that of ICMPv6 with the pseudo-header (RFC 8200 8.1). All lengths
// are even.
func checksum(src, dst [16]byte, icmp []byte) uint16 {
	sum := uint32(len(icmp)) + 58
	for _, part := range [][]byte{src[:], dst[:], icmp} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
