package fuzz

import (
	"bytes"
	"net/netip"

	"l4lb/pkg/lb"
)

// linkMTU is what the links to backends carry.
const linkMTU = 1500

// gateway4 and gateway6 are where tunnels begin.
var (
	gateway4 = netip.MustParseAddr("10.0.0.1")
	gateway6 = netip.MustParseAddr("2001:db8:0:1::1")
)

// wrapping is the tunnel of a backend.
type wrapping struct {
	kind     lb.Forwarding // L2: none
	src, dst netip.Addr
	keepTags bool // leaves by the interface it came in at
}

func (t wrapping) overhead() int {
	n := map[lb.Forwarding]int{lb.ForwardGUE: 8, lb.ForwardGENEVE: 16}[t.kind] + 20
	if t.dst.Is6() {
		n += 20
	}
	return n
}

// checkWrapped holds a frame that left in a tunnel against the headers that the
// RFCs want around inner, the IP packet as it must be inside. It returns what is
// wrong, "" for nothing.
func (t wrapping) checkWrapped(p *packet, inner, out []byte) string {
	q := read(out)
	switch tags := p.tags; {
	case !t.keepTags && q.tags != 0, t.keepTags && q.tags != tags:
		return "a tunnel's frame has the wrong number of tags"
	case !q.ip || q.ipv6 != t.dst.Is6() || q.src != t.src || q.dst != t.dst:
		return "a tunnel between the wrong addresses"
	case !q.lengths || q.end-q.l3 != t.overhead()+len(inner):
		return "a tunnel's lengths are wrong"
	case q.end-q.l3 > linkMTU:
		return "a tunnel's packet is longer than its link carries"
	case q.ttl != 64 || q.fragment || q.headers != 0:
		return "a tunnel's header has something odd"
	}
	if what := t.checkOuter(&q, inner); what != "" {
		return what
	}
	if !bytes.Equal(out[q.end-len(inner):q.end], inner) {
		return "a packet was changed in its tunnel"
	}
	return ""
}

// unwrapped is a frame that left with what was around the packet taken off.
func (t wrapping) unwrapped(p *packet, out []byte) []byte {
	if !t.kind.Tunnelled() {
		return out
	}
	size := p.end - p.l3
	q := read(out)
	if size < 0 || q.end > len(out) || q.end < size {
		return out
	}
	return append(bytes.Clone(p.raw[:p.l3]), out[q.end-size:q.end]...)
}

func (t wrapping) checkOuter(q *packet, inner []byte) string {
	ip, isInner6 := q.raw[q.l3:], inner[0]>>4 == 6
	tos := inner[1]
	if isInner6 {
		tos = byte(be.Uint16(inner) >> 4)
	}
	if q.ipv6 {
		if byte(be.Uint16(ip)>>4) != tos {
			return "a tunnel's traffic class is not that of its packet"
		}
	} else if ip[1] != tos || ip[0] != 0x45 || be.Uint16(ip[6:]) != 0x4000 || !q.headerSum() {
		return "a tunnel's IPv4 header is wrong"
	}
	proto, etherType := uint8(4), uint16(0x0800)
	if isInner6 {
		proto, etherType = 41, 0x86dd
	}
	body := q.body()
	port := map[lb.Forwarding]uint16{lb.ForwardGUE: 6080, lb.ForwardGENEVE: 6081}[t.kind]
	switch {
	case port == 0 && q.proto != proto:
		return "a tunnel's protocol is wrong"
	case port == 0:
		return ""
	case q.proto != 17 || be.Uint16(body) < 0xc000 || be.Uint16(body[2:]) != port || int(be.Uint16(body[4:])) != len(body) || be.Uint16(body[6:]) != 0:
		return "a tunnel's UDP header is wrong"
	case port == 6081 && !bytes.Equal(body[8:16], []byte{0, 0, byte(etherType >> 8), byte(etherType), 0, 0, 0, 0}):
		return "a tunnel's GENEVE header is wrong"
	}
	return ""
}

// checkTooBig: RFC 1191, RFC 8201, from the address that the packet was sent to.
func (w *world) checkTooBig(p *packet, out []byte, member uint32) string {
	q := read(out)
	proto, kind := uint8(1), []byte{3, 4}
	if p.ipv6 {
		proto, kind = 58, []byte{2, 0}
	}
	if !w.ours(p) || !q.lengths || q.src != p.dst || q.dst != p.src || q.proto != proto || !bytes.Equal(q.body()[:2], kind) {
		return "an answer to a packet that is too big is none"
	}
	if right, known := q.transportSum(); !known || !right || !q.ipv6 && !q.headerSum() {
		return "the checksum of an answer to a packet that is too big is wrong"
	}
	if !bytes.Equal(out[:6], p.raw[6:12]) || !bytes.Equal(out[6:12], gatewayMAC[:]) {
		return "an answer to a packet that is too big goes elsewhere"
	}
	mtu := int(be.Uint16(q.body()[6:]))
	if p.ipv6 {
		mtu = int(be.Uint32(q.body()[4:]))
	}
	least, most := linkMTU-56, linkMTU-20
	if !w.members[member].way.kind.Tunnelled() {
		least, most = linkMTU, linkMTU
		if !w.routed(p.dst) {
			return "a packet for a VIP was held against the link's MTU"
		}
	}
	if size := p.end - p.l3; mtu >= size || mtu > most || mtu < least {
		return "a packet that is too big is told the wrong size"
	}
	quote := q.body()[8:]
	if len(quote) < 28 || !bytes.Equal(quote, p.raw[p.l3:p.l3+len(quote)]) {
		return "an answer to a packet that is too big quotes another one"
	}
	return ""
}
