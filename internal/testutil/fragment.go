package testutil

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"
)

// Fragments cuts what an untagged IP frame carries into fragments of size bytes,
// a multiple of 8, as a router does. The frame has neither options nor extension
// headers; mutations are for each fragment.
func Fragments(tb testing.TB, frame []byte, size int, mutate ...Mutate) (out [][]byte) {
	tb.Helper()
	ip := frame[14:]
	var src, dst netip.Addr
	var proto byte
	var data []byte
	if ip[0]>>4 == 4 {
		src, dst = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
		proto, data = ip[9], ip[20:binary.BigEndian.Uint16(ip[2:])]
	} else {
		src, dst = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
		proto, data = ip[6], ip[40:40+binary.BigEndian.Uint16(ip[4:])]
	}
	for at := 0; at < len(data); at += size {
		end := min(at+size, len(data))
		all := append([]Mutate{Fragment(uint16(at/8), end < len(data))}, mutate...)
		out = append(out, IP(tb, src, dst, layers.IPProtocol(proto), data[at:end], all...))
	}
	return out
}

// FragmentID sets the identification of a fragment, behind Fragment.
func FragmentID(id uint16) Mutate {
	return func(p *Packet) {
		if p.IP4 != nil {
			p.IP4.Id = id
			return
		}
		for _, e := range p.Ext6 {
			if e.Type == layers.IPProtocolIPv6Fragment {
				binary.BigEndian.PutUint32(e.Bytes[4:], uint32(id))
			}
		}
	}
}
