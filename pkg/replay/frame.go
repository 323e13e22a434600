package replay

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
)

const (
	minFrame = etherHeader // what the kernel's test run takes at least
	vlanTag  = 4
	vlans    = 2 // that the program steps over
)

// maxFrame is what a test run gives the program in one piece: a page without the
// room for headers (256 bytes) and for the kernel's own record behind it (320),
// and some to spare.
var maxFrame = os.Getpagesize() - 256 - 320 - 256

// frame is a packet made ready for the program.
type frame struct {
	run    []byte     // what the program is given
	source netip.Addr // of an IP packet
	// missing bytes of the packet were not captured.
	missing int

	captured []byte // all that was captured, as an Ethernet frame
	shorter  bool   // run is shorter than the packet, and says so in its IP header
	l3       int    // where that header is; 0: run is what was captured
}

// framer makes frames. It keeps buffers, so a frame holds until the next one.
type framer struct {
	buf, fitted []byte
}

// frame makes an Ethernet frame of a packet, of a length that the program can be
// given.
func (f *framer) frame(p packet) frame {
	data, more := ethernet(f.buf[:0], p)
	f.buf = data
	length := max(p.length+more, len(data))
	out := frame{run: data, captured: data, missing: length - len(data)}
	proto, l3 := network(data)
	out.source = sourceAddress(proto, data[min(l3, len(data)):])
	if length <= maxFrame && out.missing == 0 {
		return out
	}
	if !out.source.IsValid() || out.missing > 0 && !headersWhole(proto, data[l3:]) {
		out.run = data[:min(len(data), maxFrame)]
		return out
	}
	f.fitted = append(f.fitted[:0], data[:min(len(data), maxFrame)]...)
	for len(f.fitted) < min(length, maxFrame) {
		f.fitted = append(f.fitted, 0)
	}
	out.run, out.l3 = f.fitted, l3
	if at, header := lengthField(proto, l3); l3+header+int(binary.BigEndian.Uint16(f.fitted[at:])) > maxFrame {
		binary.BigEndian.PutUint16(f.fitted[at:], uint16(maxFrame-l3-header))
		out.shorter = true
	}
	out.mendRequest(proto)
	return out
}

// restore gives a frame that left the program the bytes that its run had too
// many or too few of the packet, and says how many are missing from it. What the
// program itself added stays. A forwarded frame of another length is in a
// tunnel; any other is an answer, and whole.
func (f *frame) restore(sent []byte, forwarded bool) (frame []byte, missing int) {
	if len(sent) != len(f.run) {
		if filled := len(f.run) - len(f.captured); forwarded && filled > 0 && len(sent) > filled {
			return sent[:len(sent)-filled], f.missing
		}
		return sent, 0
	}
	return f.restoreLength(sent), f.missing
}

func (f *frame) restoreLength(sent []byte) []byte {
	proto, _ := network(f.captured)
	if f.shorter {
		at, _ := lengthField(proto, f.l3)
		copy(sent[at:at+2], f.captured[at:])
	}
	if f.l3 != 0 {
		f.restoreAnswer(proto, sent)
	}
	if len(f.captured) <= len(sent) {
		return sent[:len(f.captured)]
	}
	return append(sent, f.captured[len(sent):]...)
}

// network steps over the Ethernet header and tags: the type of what follows and
// where it starts. l3 may be behind the end.
func network(data []byte) (proto uint16, l3 int) {
	if len(data) < etherHeader {
		return 0, len(data)
	}
	proto, l3 = binary.BigEndian.Uint16(data[12:]), etherHeader
	for range vlans {
		if proto != etherVLAN && proto != etherQinQ {
			break
		}
		if len(data) < l3+vlanTag {
			return 0, len(data)
		}
		proto, l3 = binary.BigEndian.Uint16(data[l3+2:]), l3+vlanTag
	}
	return proto, l3
}

// sourceAddress is invalid for what is not a whole IP header.
func sourceAddress(proto uint16, ip []byte) netip.Addr {
	switch {
	case proto == etherIPv4 && len(ip) >= 20 && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:16]))
	case proto == etherIPv6 && len(ip) >= 40 && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:24]))
	}
	return netip.Addr{}
}

// lengthField is where an IP header keeps the packet's length, and what that
// length leaves out of the header.
func lengthField(proto uint16, l3 int) (at, header int) {
	if proto == etherIPv4 {
		return l3 + 2, 0
	}
	return l3 + 4, 40
}

// headersWhole reports whether everything that a verdict can depend on was
// captured of an IP packet: its header and a TCP header's length behind it, or
// an ICMP message with what it quotes.
func headersWhole(proto uint16, ip []byte) bool {
	const tcp = 20
	header, next := 40, ip[6]
	if proto == etherIPv4 {
		header, next = int(ip[0]&15)*4, ip[9]
	}
	switch next {
	case 1, 58: // ICMP, ICMPv6
		return len(ip) >= header && quoteWhole(proto, ip[header:])
	case 0, 43, 44, 60: // IPv6 extension headers; in IPv4 nothing of interest
		return proto == etherIPv4
	}
	return len(ip) >= header+tcp
}

// quoteWhole reports whether an ICMP message was captured with its header and, of
// an error, those of the packet it quotes. One with IPv6 extension headers counts
// as cut.
func quoteWhole(proto uint16, icmp []byte) bool {
	const message, ports = icmpHeader, 8
	header := 40
	switch {
	case len(icmp) < message:
		return false
	case icmp[0] == 0 || icmp[0] == echoRequest4 || icmp[0] >= echoRequest6:
		return true
	case len(icmp) < message+20:
		return false
	case proto == etherIPv4:
		header = max(20, int(icmp[message]&15)*4)
	case slices.Contains([]byte{0, 43, 44, 51, 60}, icmp[message+6]):
		return false
	}
	return len(icmp) >= message+header+ports
}
