package doctor

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Sizes and offsets in bytes.
const (
	ethernetHeader = 14
	arpMessage     = 28
	ipv6Header     = 40
	ndMessage      = 32 // a solicitation or advertisement with one option

	arpReply      = 2
	nextICMPv6    = 58
	typeSolicit   = 135
	typeAdvertise = 136
)

// onlyAdvertisements lets neighbour advertisements through to a socket that
// gets whole IPv6 frames: its gateway may be a busy one.
var onlyAdvertisements = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: ethernetHeader + 6}, // next header
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: nextICMPv6},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: ethernetHeader + ipv6Header}, // type
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: typeAdvertise},
	{Code: unix.BPF_RET | unix.BPF_K, K: 256},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

// readARP returns who a reply says has an address.
func readARP(b []byte) (addr netip.Addr, mac [6]byte, ok bool) {
	if len(b) < ethernetHeader+arpMessage {
		return addr, mac, false
	}
	arp := b[ethernetHeader:]
	if binary.BigEndian.Uint16(arp) != 1 || binary.BigEndian.Uint16(arp[2:]) != unix.ETH_P_IP ||
		binary.BigEndian.Uint16(arp[6:]) != arpReply {
		return addr, mac, false
	}
	return netip.AddrFrom4([4]byte(arp[14:18])), [6]byte(arp[8:14]), true
}

// solicitation asks for an address the group of those that it may belong to
// (RFC 4861 4.3).
func solicitation(mac [6]byte, from, target netip.Addr) []byte {
	t := target.As16()
	group := [16]byte{0: 0xff, 1: 0x02, 11: 0x01, 12: 0xff, 13: t[13], 14: t[14], 15: t[15]}
	b := make([]byte, 0, ethernetHeader+ipv6Header+ndMessage)
	b = append(b, 0x33, 0x33, 0xff, t[13], t[14], t[15])
	b = append(b, mac[:]...)
	b = append(b,
		0x86, 0xdd, // IPv6
		0x60, 0, 0, 0, // version, class and label
		0, ndMessage,
		nextICMPv6,
		255) // hop limit: proves that no router forwarded it
	b = append(b, from.AsSlice()...)
	b = append(b, group[:]...)
	b = append(b, typeSolicit, 0, 0, 0 /* checksum, below */, 0, 0, 0, 0)
	b = append(b, t[:]...)
	b = append(b, 1, 1) // option: source link-layer address, 8 bytes
	b = append(b, mac[:]...)
	binary.BigEndian.PutUint16(b[ethernetHeader+ipv6Header+2:], checksum(from.As16(), group, b[ethernetHeader+ipv6Header:]))
	return b
}

// readAdvertisement returns who an advertisement says has an address. One
// without a link address (RFC 4861 4.4 allows it in answer to a unicast) is
// taken by the frame's own.
func readAdvertisement(b []byte) (addr netip.Addr, mac [6]byte, ok bool) {
	const target = ethernetHeader + ipv6Header + 8
	if len(b) < target+16 || b[ethernetHeader+6] != nextICMPv6 || b[ethernetHeader+ipv6Header] != typeAdvertise {
		return addr, mac, false
	}
	addr = netip.AddrFrom16([16]byte(b[target : target+16]))
	if option := b[target+16:]; len(option) >= 8 && option[0] == 2 && option[1] == 1 {
		return addr, [6]byte(option[2:8]), true
	}
	return addr, [6]byte(b[6:12]), true
}

// checksum is that of ICMPv6 with the pseudo-header (RFC 8200 8.1). All lengths
// are even.
func checksum(src, dst [16]byte, icmp []byte) uint16 {
	sum := uint32(len(icmp)) + nextICMPv6
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
