package testutil

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"
)

// Echo builds an ICMP or ICMPv6 echo request.
func Echo(tb testing.TB, src, dst netip.Addr, mutate ...Mutate) []byte {
	tb.Helper()
	if src.Is4() {
		p := ipPacket(src, dst, layers.IPProtocolICMPv4)
		p.ICMP4 = &layers.ICMPv4{
			TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0), Id: 0x4c, Seq: 1,
		}
		p.Payload = []byte("l4lb echo request payload, 32 by")
		return p.Build(tb, mutate...)
	}
	p := ipPacket(src, dst, layers.IPProtocolICMPv6)
	p.ICMP6 = &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoRequest, 0)}
	p.Payload = append([]byte{0, 0x4c, 0, 1}, "l4lb echo request payload, 32 by"...)
	return p.Build(tb, mutate...)
}

// ICMPError builds an ICMP or ICMPv6 message that quotes a frame's IP packet. The
// rest is the second word of the header (the MTU where there is one).
func ICMPError(tb testing.TB, src, dst netip.Addr, kind, code uint8, rest [4]byte, frame []byte, mutate ...Mutate) []byte {
	tb.Helper()
	quoted := frame[14:]
	if src.Is4() {
		p := ipPacket(src, dst, layers.IPProtocolICMPv4)
		p.ICMP4 = &layers.ICMPv4{
			TypeCode: layers.CreateICMPv4TypeCode(kind, code),
			Id:       uint16(rest[0])<<8 | uint16(rest[1]), Seq: uint16(rest[2])<<8 | uint16(rest[3]),
		}
		p.Payload = quoted
		return p.Build(tb, mutate...)
	}
	p := ipPacket(src, dst, layers.IPProtocolICMPv6)
	p.ICMP6 = &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, code)}
	p.Payload = append(rest[:], quoted...)
	return p.Build(tb, mutate...)
}

// ARPRequest builds a broadcast question for target.
func ARPRequest(tb testing.TB, senderMAC net.HardwareAddr, sender, target netip.Addr, mutate ...Mutate) []byte {
	tb.Helper()
	return arp(layers.ARPRequest, senderMAC, sender, MAC("00:00:00:00:00:00"), target, BroadcastMAC).Build(tb, mutate...)
}

// ARPReply builds the answer that senderMAC has sender, to target.
func ARPReply(tb testing.TB, senderMAC net.HardwareAddr, sender netip.Addr, targetMAC net.HardwareAddr, target netip.Addr, mutate ...Mutate) []byte {
	tb.Helper()
	return arp(layers.ARPReply, senderMAC, sender, targetMAC, target, targetMAC).Build(tb, mutate...)
}

func arp(op uint16, smac net.HardwareAddr, sender netip.Addr, tmac net.HardwareAddr, target netip.Addr, to net.HardwareAddr) *Packet {
	return &Packet{
		Eth: layers.Ethernet{SrcMAC: smac, DstMAC: to, EthernetType: layers.EthernetTypeARP},
		ARP: &layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
			HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
			SourceHwAddress: smac, SourceProtAddress: sender.AsSlice(),
			DstHwAddress: tmac, DstProtAddress: target.AsSlice(),
		},
	}
}

// NeighborSolicitation builds a multicast question for target with the source
// link-layer address option.
func NeighborSolicitation(tb testing.TB, senderMAC net.HardwareAddr, sender, target netip.Addr, mutate ...Mutate) []byte {
	tb.Helper()
	t := target.As16()
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], t[13:])
	p := ndPacket(senderMAC, sender, netip.AddrFrom16(group), layers.ICMPv6TypeNeighborSolicitation)
	p.Eth.DstMAC = net.HardwareAddr{0x33, 0x33, 0xff, t[13], t[14], t[15]}
	p.Payload = ndPayload(0, target, 1, senderMAC)
	return p.Build(tb, mutate...)
}

// NDFlags are the flags of a neighbour advertisement (RFC 4861 4.4).
type NDFlags byte

const (
	NDRouter    NDFlags = 0x80
	NDSolicited NDFlags = 0x40
	NDOverride  NDFlags = 0x20
)

// NeighborAdvertisement builds the statement that senderMAC has target, with the
// target link-layer address option.
func NeighborAdvertisement(tb testing.TB, senderMAC net.HardwareAddr, target netip.Addr, dstMAC net.HardwareAddr, dst netip.Addr, flags NDFlags, mutate ...Mutate) []byte {
	tb.Helper()
	p := ndPacket(senderMAC, target, dst, layers.ICMPv6TypeNeighborAdvertisement)
	p.Eth.DstMAC = dstMAC
	p.Payload = ndPayload(flags, target, 2, senderMAC)
	return p.Build(tb, mutate...)
}

func ndPacket(senderMAC net.HardwareAddr, src, dst netip.Addr, kind uint8) *Packet {
	p := ipPacket(src, dst, layers.IPProtocolICMPv6)
	p.Eth.SrcMAC = senderMAC
	p.IP6.HopLimit = 255
	p.ICMP6 = &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	return p
}

func ndPayload(flags NDFlags, target netip.Addr, option byte, mac net.HardwareAddr) []byte {
	b := append([]byte{byte(flags), 0, 0, 0}, target.AsSlice()...)
	return append(append(b, option, 1), mac...)
}
