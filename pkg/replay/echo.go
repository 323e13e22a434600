package replay

import "encoding/binary"

// An echo request that a VIP answers is summed by the program. One that runs with
// other bytes than it was sent with (see framer) gets the checksum of those, and
// the answer that of the packet: in doubt the sender's was right.

const (
	icmpHeader                = 8
	echoRequest4, echoAnswer4 = 8, 0
	echoRequest6, echoAnswer6 = 128, 129
)

// echoRequestAt is where the ICMP header of an echo request starts; 0 where the
// IP packet at l3 is none, or is a fragment.
func echoRequestAt(proto uint16, data []byte, l3 int) int {
	ip := data[l3:]
	at, kind := 40, byte(echoRequest6)
	if proto == etherIPv4 {
		at, kind = int(ip[0]&15)*4, echoRequest4
		if ip[9] != 1 || binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 {
			return 0
		}
	} else if ip[6] != 58 {
		return 0
	}
	if len(ip) < at+icmpHeader || ip[at] != kind {
		return 0
	}
	return l3 + at
}

// mendRequest makes the sums right of an echo request whose bytes are not those
// that were captured.
func (f *frame) mendRequest(proto uint16) {
	at := echoRequestAt(proto, f.run, f.l3)
	if at == 0 {
		return
	}
	ip := f.run[f.l3:]
	field, header := lengthField(proto, 0)
	length := binary.BigEndian.Uint16(ip[field:])
	end := f.l3 + header + int(length)
	if end < at+icmpHeader || end > len(f.run) {
		return
	}
	if proto == etherIPv4 && f.shorter {
		replaceWord(ip[10:], binary.BigEndian.Uint16(f.captured[f.l3+field:]), length)
	}
	var sum uint32
	if proto == etherIPv6 {
		sum = addWords(uint32(end-at)+58, ip[8:40])
	}
	message := f.run[at:end]
	binary.BigEndian.PutUint16(message[2:], 0)
	binary.BigEndian.PutUint16(message[2:], ^fold(addWords(sum, message)))
}

// restoreAnswer gives the answer to a mended request the sums that go with the
// packet as it was captured.
func (f *frame) restoreAnswer(proto uint16, sent []byte) {
	at := echoRequestAt(proto, f.captured, f.l3)
	if at == 0 || len(sent) < at+icmpHeader {
		return
	}
	request, answer := uint16(echoRequest4), uint16(echoAnswer4)
	if proto == etherIPv6 {
		request, answer = echoRequest6, echoAnswer6
	}
	if sent[at] != byte(answer) {
		return
	}
	copy(sent[at+2:at+4], f.captured[at+2:])
	replaceWord(sent[at+2:], request<<8, answer<<8)
	if proto == etherIPv4 {
		ttl := f.l3 + 8
		copy(sent[f.l3+10:f.l3+12], f.captured[f.l3+10:])
		replaceWord(sent[f.l3+10:], binary.BigEndian.Uint16(f.captured[ttl:]), binary.BigEndian.Uint16(sent[ttl:]))
	}
}

// replaceWord is the checksum after a word that it covers has changed (RFC 1624).
func replaceWord(check []byte, from, to uint16) {
	sum := uint32(^binary.BigEndian.Uint16(check)) + uint32(^from) + uint32(to)
	binary.BigEndian.PutUint16(check, ^fold(sum))
}

func addWords(sum uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
