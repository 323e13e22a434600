package fuzz

import (
	"bytes"
	"net/netip"

	"l4lb/pkg/loader"
)

// checkAnswered builds the answer that must have come.
func (w *world) checkAnswered(p *packet, out []byte, t loader.Trace) string {
	switch t.Reason.String() {
	case "ARP_REPLY":
		return w.checkARP(p, out)
	case "ND_REPLY":
		return w.checkAdvertisement(p, out)
	case "ECHO_REPLY":
		return w.checkEcho(p, out)
	case "TOO_BIG", "TOO_BIG_NO_DF":
		return w.checkTooBig(p, out, t.Member)
	}
	return "answered for a reason that is none to answer"
}

// checkARP: RFC 826.
func (w *world) checkARP(p *packet, out []byte) string {
	arp := p.raw[p.l3:]
	if p.kind != 0x0806 || len(arp) < 28 || !bytes.Equal(arp[:8], []byte{0, 1, 8, 0, 6, 4, 0, 1}) {
		return "an ARP reply to what is no request"
	}
	if !w.owns(netip.AddrFrom4([4]byte(arp[24:28]))) {
		return "an ARP reply for an address that is not ours"
	}
	want := bytes.Clone(p.raw)
	reply := want[p.l3:]
	reply[7] = 2
	copy(reply[8:14], gatewayMAC[:])
	copy(reply[14:18], arp[24:28])
	copy(reply[18:28], arp[8:18])
	copy(want, arp[8:14])
	copy(want[6:], gatewayMAC[:])
	return same(want, out, "a wrong ARP reply")
}

// checkAdvertisement: RFC 4861 7.2.4.
func (w *world) checkAdvertisement(p *packet, out []byte) string {
	if !p.ipv6 || p.raw[p.l3+6] != 58 || p.raw[p.l3+7] != 255 || p.end > len(p.raw) || p.end-p.l3-40 < 24 {
		return "an advertisement to what is no solicitation"
	}
	nd := p.raw[p.l3+40:]
	if nd[0] != 135 || !w.owns(netip.AddrFrom16([16]byte(nd[8:24]))) {
		return "an advertisement for an address that is not ours"
	}
	want := append(bytes.Clone(p.raw), make([]byte, max(0, p.l3+72-len(p.raw)))...)
	ip, na := want[p.l3:], want[p.l3+40:]
	be.PutUint16(ip[4:], 32)
	ip[7] = 255
	copy(want[6:], gatewayMAC[:])
	flags := byte(0x60) // solicited, override
	if p.src.IsUnspecified() {
		flags = 0x20
		copy(want, []byte{0x33, 0x33, 0, 0, 0, 1})
		all := netip.MustParseAddr("ff02::1").As16()
		copy(ip[24:40], all[:])
	} else {
		copy(want, p.raw[6:12])
		copy(ip[24:40], ip[8:24])
	}
	copy(ip[8:24], nd[8:24])
	copy(na, []byte{136, 0, 0, 0, flags, 0, 0, 0})
	copy(na[24:], []byte{2, 1})
	copy(na[26:], gatewayMAC[:])
	q := read(want)
	be.PutUint16(na[2:], ^sum(q.pseudo(58), q.body()))
	return same(want, out, "a wrong advertisement")
}

// checkEcho: RFC 792, RFC 4443 4.2. A checksum that was right is right again.
func (w *world) checkEcho(p *packet, out []byte) string {
	request, answer := byte(8), byte(0)
	if p.ipv6 {
		request, answer = 128, 129
	}
	if !w.ours(p) || p.fragment || p.l4+8 > len(p.raw) || p.raw[p.l4] != request || p.proto != 1 && p.proto != 58 {
		return "an echo reply to what is no request for an address of ours"
	}
	want := bytes.Clone(p.raw)
	copy(want, p.raw[6:12])
	copy(want[6:], p.raw[:6])
	ip, size, at := want[p.l3:], 4, 12
	if p.ipv6 {
		size, at = 16, 8
		ip[7] = 64
	} else {
		ip[8] = 64
	}
	copy(ip[at:], p.raw[p.l3+at+size:p.l3+at+2*size])
	copy(ip[at+size:], p.raw[p.l3+at:p.l3+at+size])
	want[p.l4] = answer
	if len(out) != len(want) {
		return "an echo reply of another length"
	}
	// The checksums are judged, the rest is compared.
	q := read(out)
	if !p.ipv6 {
		if p.headerSum() != q.headerSum() {
			return "the header checksum of an echo reply is not as it was"
		}
		copy(want[p.l3+10:p.l3+12], out[p.l3+10:])
	}
	was, known := p.transportSum()
	is, _ := q.transportSum()
	if known && was != is {
		return "the checksum of an echo reply is not as it was"
	}
	copy(want[p.l4+2:p.l4+4], out[p.l4+2:])
	return same(want, out, "a wrong echo reply")
}

func same(want, got []byte, what string) string {
	if bytes.Equal(want, got) {
		return ""
	}
	return what
}
