package testutil

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Tunnel is what is put around a packet.
type Tunnel struct {
	Kind             string // IPIP, GUE or GENEVE
	Src, Dst         netip.Addr
	SrcMAC, DstMAC   net.HardwareAddr
	SrcPort, DstPort uint16 // of GUE and GENEVE
	VNI, FlowLabel   uint32 // of GENEVE; of IPv6
	KeepTags         bool
}

// minFrame is what a short Ethernet frame is padded to.
const minFrame = 60

// Around builds the frame that carries another one's IP packet. Tags are left
// out unless KeepTags; the padding of a short frame goes along.
func (t Tunnel) Around(tb testing.TB, frame []byte) []byte {
	tb.Helper()
	eth, tags, tos, inner, rest := takeApart(tb, frame)
	eth.SrcMAC, eth.DstMAC = t.SrcMAC, t.DstMAC
	var out []gopacket.SerializableLayer
	outerType := layers.EthernetTypeIPv4
	if t.Dst.Is6() {
		outerType = layers.EthernetTypeIPv6
	}
	if t.KeepTags && len(tags) > 0 {
		tags[len(tags)-1].Type = outerType
	} else {
		eth.EthernetType, tags = outerType, nil
	}
	out = append(out, eth)
	for _, tag := range tags {
		out = append(out, tag)
	}
	payload := t.transport(tb, inner)
	out = append(out, t.network(tos, inner), gopacket.Payload(payload))
	b := serialize(tb, true, out...)
	// The packet's own length says where it ends.
	b = b[:linkSize(tags)+t.networkSize()+len(payload)]
	return append(b, rest...)
}

func linkSize(tags []*layers.Dot1Q) int { return 14 + 4*len(tags) }

func (t Tunnel) networkSize() int {
	if t.Dst.Is6() {
		return 40
	}
	return 20
}

// takeApart finds the IP packet of a frame, and the padding of a short one.
func takeApart(tb testing.TB, frame []byte) (eth *layers.Ethernet, tags []*layers.Dot1Q, tos uint8, inner, rest []byte) {
	tb.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.Ethernet:
			copied := *l
			eth = &copied
		case *layers.Dot1Q:
			copied := *l
			tags = append(tags, &copied)
		case *layers.IPv4:
			tos = l.TOS
			inner = frame[linkSize(tags):][:l.Length]
		case *layers.IPv6:
			tos = l.TrafficClass
			inner = frame[linkSize(tags):][:40+l.Length]
		}
		if inner != nil {
			break
		}
	}
	if inner == nil {
		tb.Fatalf("no IP packet in\n%s", Dump(frame))
	}
	end := linkSize(tags) + len(inner)
	return eth, tags, tos, inner, frame[end:max(end, min(minFrame, len(frame)))]
}

// transport is what the outer IP header is put before.
func (t Tunnel) transport(tb testing.TB, inner []byte) []byte {
	tb.Helper()
	udp := &layers.UDP{SrcPort: layers.UDPPort(t.SrcPort), DstPort: layers.UDPPort(t.DstPort)}
	switch t.Kind {
	case "IPIP":
		return inner
	case "GUE":
		return serialize(tb, false, udp, gopacket.Payload(inner))
	case "GENEVE":
		geneve := &layers.Geneve{Protocol: layers.EthernetTypeIPv4, VNI: t.VNI}
		if inner[0]>>4 == 6 {
			geneve.Protocol = layers.EthernetTypeIPv6
		}
		return serialize(tb, false, udp, geneve, gopacket.Payload(inner))
	}
	tb.Fatalf("no such tunnel: %q", t.Kind)
	return nil
}

func (t Tunnel) network(tos uint8, inner []byte) gopacket.SerializableLayer {
	proto := layers.IPProtocolUDP
	switch {
	case t.Kind != "IPIP":
	case inner[0]>>4 == 4:
		proto = layers.IPProtocolIPv4
	default:
		proto = layers.IPProtocolIPv6
	}
	if t.Dst.Is4() {
		return &layers.IPv4{
			Version: 4, IHL: 5, TOS: tos, Flags: layers.IPv4DontFragment, TTL: 64, Protocol: proto,
			SrcIP: t.Src.AsSlice(), DstIP: t.Dst.AsSlice(),
		}
	}
	return &layers.IPv6{
		Version: 6, TrafficClass: tos, FlowLabel: t.FlowLabel, NextHeader: proto, HopLimit: 64,
		SrcIP: t.Src.AsSlice(), DstIP: t.Dst.AsSlice(),
	}
}

func serialize(tb testing.TB, checksums bool, list ...gopacket.SerializableLayer) []byte {
	tb.Helper()
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: checksums}
	if err := gopacket.SerializeLayers(buf, opts, list...); err != nil {
		tb.Fatalf("serialize packet: %v", err)
	}
	return buf.Bytes()
}
