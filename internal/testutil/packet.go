package testutil

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Packet is a frame under construction. Exactly one of IP4, IP6 and ARP is set,
// and at most one transport. Lengths, checksums and the type fields of tags and
// extension headers are filled in when it is serialized. A frame shorter than 60
// bytes is padded to that.
type Packet struct {
	Eth   layers.Ethernet
	VLANs []layers.Dot1Q // outermost first
	// VLANType is the EtherType of the outermost tag, 0 for 802.1Q.
	VLANType layers.EthernetType

	IP4  *layers.IPv4
	IP6  *layers.IPv6
	Ext6 []Ext6 // extension headers of IP6, in order
	ARP  *layers.ARP

	TCP     *layers.TCP
	UDP     *layers.UDP
	ICMP4   *layers.ICMPv4
	ICMP6   *layers.ICMPv6
	Payload []byte

	// KeepLengths leaves lengths as they are in the layers, for frames that lie.
	KeepLengths bool
	// KeepChecksums leaves checksums as they are in the layers.
	KeepChecksums bool
}

// Ext6 is an IPv6 extension header: its own type and its bytes. The first byte,
// the type of the next header, is filled in.
type Ext6 struct {
	Type  layers.IPProtocol
	Bytes []byte
}

// Mutate changes a packet before it is serialized.
type Mutate func(*Packet)

// TCP builds an Ethernet frame with a TCP segment, ACK set, from the client's to
// the gateway's link address. The addresses say which IP version it is.
func TCP(tb testing.TB, src, dst netip.AddrPort, mutate ...Mutate) []byte {
	tb.Helper()
	p := ipPacket(src.Addr(), dst.Addr(), layers.IPProtocolTCP)
	p.TCP = &layers.TCP{
		SrcPort: layers.TCPPort(src.Port()), DstPort: layers.TCPPort(dst.Port()),
		Seq: 1000, Ack: 2000, Window: 64240, ACK: true,
	}
	return p.Build(tb, mutate...)
}

// SYN is TCP with only the SYN flag set.
func SYN(tb testing.TB, src, dst netip.AddrPort, mutate ...Mutate) []byte {
	tb.Helper()
	return TCP(tb, src, dst, append([]Mutate{Flags("S")}, mutate...)...)
}

// UDP builds an Ethernet frame with a UDP datagram.
func UDP(tb testing.TB, src, dst netip.AddrPort, mutate ...Mutate) []byte {
	tb.Helper()
	p := ipPacket(src.Addr(), dst.Addr(), layers.IPProtocolUDP)
	p.UDP = &layers.UDP{SrcPort: layers.UDPPort(src.Port()), DstPort: layers.UDPPort(dst.Port())}
	p.Payload = []byte("l4lb test")
	return p.Build(tb, mutate...)
}

// IP builds an Ethernet frame with an IP packet of any protocol around a payload.
func IP(tb testing.TB, src, dst netip.Addr, proto layers.IPProtocol, payload []byte, mutate ...Mutate) []byte {
	tb.Helper()
	p := ipPacket(src, dst, proto)
	p.Payload = payload
	return p.Build(tb, mutate...)
}

// ipPacket has the defaults that all builders share.
func ipPacket(src, dst netip.Addr, proto layers.IPProtocol) *Packet {
	p := &Packet{Eth: layers.Ethernet{SrcMAC: ClientMAC, DstMAC: GatewayMAC}}
	if src.Is4() {
		p.Eth.EthernetType = layers.EthernetTypeIPv4
		p.IP4 = &layers.IPv4{
			Version: 4, TTL: 64, Id: 0x4c4c, Flags: layers.IPv4DontFragment,
			Protocol: proto, SrcIP: src.AsSlice(), DstIP: dst.AsSlice(),
		}
		return p
	}
	p.Eth.EthernetType = layers.EthernetTypeIPv6
	p.IP6 = &layers.IPv6{
		Version: 6, HopLimit: 64, NextHeader: proto,
		SrcIP: src.AsSlice(), DstIP: dst.AsSlice(),
	}
	return p
}

// Build applies the mutations and serializes the packet.
func (p *Packet) Build(tb testing.TB, mutate ...Mutate) []byte {
	tb.Helper()
	for _, m := range mutate {
		m(p)
	}
	opts := gopacket.SerializeOptions{FixLengths: !p.KeepLengths, ComputeChecksums: !p.KeepChecksums}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, opts, p.layers(tb)...); err != nil {
		tb.Fatalf("serialize packet: %v", err)
	}
	return buf.Bytes()
}

// layers lists what there is, outermost first, and links the type fields.
func (p *Packet) layers(tb testing.TB) []gopacket.SerializableLayer {
	tb.Helper()
	eth, tags := p.Eth, append([]layers.Dot1Q(nil), p.VLANs...)
	out := []gopacket.SerializableLayer{&eth}
	for i := range tags {
		out = append(out, &tags[i])
		tags[i].Type = layers.EthernetTypeDot1Q
	}
	if len(tags) > 0 {
		tags[len(tags)-1].Type = eth.EthernetType
		eth.EthernetType = cmp.Or(p.VLANType, layers.EthernetTypeDot1Q)
	}
	switch {
	case p.ARP != nil:
		return append(out, p.ARP)
	case p.IP4 != nil:
		out = append(out, p.IP4)
	case p.IP6 != nil:
		out = append(out, p.ip6()...)
	}
	return append(out, p.transport(tb)...)
}

func (p *Packet) ip6() []gopacket.SerializableLayer {
	ip := *p.IP6
	out := []gopacket.SerializableLayer{&ip}
	next := ip.NextHeader
	for i := len(p.Ext6) - 1; i >= 0; i-- {
		b := append([]byte(nil), p.Ext6[i].Bytes...)
		b[0] = byte(next)
		next = p.Ext6[i].Type
		out = slices.Insert(out, 1, gopacket.SerializableLayer(gopacket.Payload(b)))
	}
	ip.NextHeader = next
	return out
}

func (p *Packet) transport(tb testing.TB) []gopacket.SerializableLayer {
	tb.Helper()
	var out []gopacket.SerializableLayer
	add := func(l interface {
		gopacket.SerializableLayer
		SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
	},
	) {
		var ip gopacket.NetworkLayer = p.IP4
		if p.IP6 != nil {
			ip = p.IP6
		}
		if err := l.SetNetworkLayerForChecksum(ip); err != nil {
			tb.Fatalf("prepare checksum: %v", err)
		}
		out = append(out, l)
	}
	switch {
	case p.TCP != nil:
		add(p.TCP)
	case p.UDP != nil:
		add(p.UDP)
	case p.ICMP6 != nil:
		add(p.ICMP6)
	case p.ICMP4 != nil:
		out = append(out, p.ICMP4)
	}
	return append(out, gopacket.Payload(p.Payload))
}
