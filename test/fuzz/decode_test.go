package fuzz

import (
	"fmt"
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// decoder reads frames by a library that knows nothing of ours.
type decoder struct {
	eth layers.Ethernet
	tag layers.Dot1Q
	ip4 layers.IPv4
	ip6 layers.IPv6
}

func newDecoder() *decoder { return &decoder{} }

// checkDecodes: what leaves is an IP packet to the library too, from and to whom
// we read it, and as long.
func (w *world) checkDecodes(p *packet, out []byte) string {
	d, feedback := w.decoder, gopacket.NilDecodeFeedback
	if err := d.eth.DecodeFromBytes(out, feedback); err != nil {
		return fmt.Sprintf("what leaves cannot be decoded: %v", err)
	}
	kind, data := d.eth.EthernetType, d.eth.Payload
	for range p.tags {
		if err := d.tag.DecodeFromBytes(data, feedback); err != nil {
			return fmt.Sprintf("what leaves cannot be decoded: %v", err)
		}
		kind, data = d.tag.Type, d.tag.Payload
	}
	var src, dst net.IP
	var length int
	var err error
	switch kind {
	case layers.EthernetTypeIPv4:
		err = d.ip4.DecodeFromBytes(data, feedback)
		src, dst, length = d.ip4.SrcIP, d.ip4.DstIP, int(d.ip4.Length)
	case layers.EthernetTypeIPv6:
		err = d.ip6.DecodeFromBytes(data, feedback)
		src, dst, length = d.ip6.SrcIP, d.ip6.DstIP, int(d.ip6.Length)+40
	}
	// The library reads IPv4 options and the hop-by-hop header too; those are
	// the end host's. It takes an IPv6 packet without payload for a jumbogram.
	options := p.ipv6 && (p.headers > 0 || p.end == p.l3+40) || !p.ipv6 && p.raw[p.l3]&0xf > 5
	switch {
	case err != nil && options:
		return ""
	case err != nil:
		return fmt.Sprintf("what leaves cannot be decoded: %v", err)
	}
	if !src.Equal(p.src.AsSlice()) || !dst.Equal(p.dst.AsSlice()) || length != p.end-p.l3 {
		return "what leaves is decoded as another packet"
	}
	return ""
}
