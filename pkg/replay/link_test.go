package replay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "l4lb/internal/testutil"
)

// cookedHeader makes a Linux cooked header, of version 1 or 2.
func cookedHeader(version, kind int, address []byte, proto uint16) []byte {
	padded := append(slices.Clone(address), make([]byte, 8-len(address))...)
	if version == 1 {
		b := binary.BigEndian.AppendUint16(nil, uint16(kind))
		b = binary.BigEndian.AppendUint16(b, 1)
		b = binary.BigEndian.AppendUint16(b, uint16(len(address)))
		return binary.BigEndian.AppendUint16(append(b, padded...), proto)
	}
	b := binary.BigEndian.AppendUint16(nil, proto)
	b = append(b, 0, 0, 0, 0, 0, 2, 0, 1, byte(kind), byte(len(address)))
	return append(b, padded...)
}

// Whatever the link type, the same packets meet the same verdicts and leave as
// the same frames; only the sender's link address may be made up.
func TestEveryLinkTypeGivesTheSameVerdicts(t *testing.T) {
	frames := [][]byte{
		SYN(t, port(ZoneAClient4, 1), vip80, Payload(make([]byte, 20))),
		SYN(t, port(ZoneBClient6, 1), port(VIP6, 80)),
		Echo(t, ZoneAClient4, VIP4),
		UDP(t, port(ZoneAClient4, 1), port(Outside4, 1)),
		UDP(t, port(ZoneAClient4, 1), port(VIP4, 53), MACs(ClientMAC, BroadcastMAC)),
	}
	cooked := func(version int) func([]byte, int) []byte {
		return func(f []byte, kind int) []byte {
			return append(cookedHeader(version, kind, f[6:12], binary.BigEndian.Uint16(f[12:])), f[14:]...)
		}
	}
	bare := func(f []byte, _ int) []byte { return f[14:] }
	tests := []struct {
		name    string
		link    linkType
		convert func(frame []byte, kind int) []byte
		packets int // broadcast is nothing that a bare IP packet can tell
	}{
		{"Linux cooked", linkSLL, cooked(1), 5},
		{"Linux cooked 2", linkSLL2, cooked(2), 5},
		{"raw IP", linkRaw, bare, 4},
		{"raw IP by its BSD number", linkRawBSD, bare, 4},
		{"raw IP by its OpenBSD number", linkRawOpen, bare, 4},
		{"IPv4", linkIPv4, bare, 4},
		{"IPv6", linkIPv6, bare, 4},
	}
	var packets []taken
	for _, f := range frames {
		packets = append(packets, taken{data: f})
	}
	want := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: ethernetCapture(t, packets)})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var converted []taken
			for i, f := range frames[:tt.packets] {
				kind := []int{0, 4, 3, 0, 1}[i]
				converted = append(converted, taken{data: tt.convert(f, kind)})
			}
			got := mustReplay(t, Options{
				Config:  parseConfig(t, zonalYAML),
				Capture: file(t, "in.pcap", writePcap(binary.BigEndian, pcapNanoseconds, tt.link, converted)),
			})
			if diff := cmp.Diff(want.records[:tt.packets], got.records); diff != "" {
				t.Errorf("records differ from Ethernet's (-want +got):\n%s", diff)
			}
			for i := range got.sent {
				// An echo reply goes back to a sender that raw IP does not name.
				if !bytes.Equal(want.sent[i].frame[6:], got.sent[i].frame[6:]) {
					t.Errorf("output %d differs from Ethernet's (-want +got):\n%s", i, Diff(want.sent[i].frame, got.sent[i].frame))
				}
			}
		})
	}
}

func TestMissingLinkHeaders(t *testing.T) {
	udp := UDP(t, port(ZoneAClient4, 1), port(VIP4, 53))[14:]
	group4, group6 := slices.Clone(udp), UDP(t, port(ZoneAClient6, 1), port(netip.MustParseAddr("ff02::1:ff00:10"), 53))[14:]
	copy(group4[16:], []byte{224, 128, 0, 251})
	limited := slices.Clone(udp)
	copy(limited[16:], []byte{255, 255, 255, 255})
	v4, v6 := []byte{8, 0}, []byte{0x86, 0xdd}
	tests := []struct {
		name string
		p    packet
		want []byte // the Ethernet header
	}{
		{"raw unicast", packet{link: linkRaw, data: udp}, slices.Concat(gatewayMAC[:], senderMAC[:], v4)},
		{"raw group", packet{link: linkRaw, data: group4}, slices.Concat(MAC("01:00:5e:00:00:fb"), senderMAC[:], v4)},
		{"raw broadcast", packet{link: linkRaw, data: limited}, slices.Concat(BroadcastMAC, senderMAC[:], v4)},
		{"raw ipv6 group", packet{link: linkRaw, data: group6}, slices.Concat(MAC("33:33:ff:00:00:10"), senderMAC[:], v6)},
		{"cooked, no address", packet{link: linkSLL, data: append(cookedHeader(1, 0, nil, 0x800), udp...)}, slices.Concat(gatewayMAC[:], senderMAC[:], v4)},
		{"cooked, sent by the host", packet{link: linkSLL2, data: append(cookedHeader(2, 4, ClientMAC, 0x800), udp...)}, slices.Concat(gatewayMAC[:], ClientMAC, v4)},
		{"cooked group, not IP", packet{link: linkSLL2, data: append(cookedHeader(2, 2, ClientMAC, 0x88cc), 1, 2, 3)}, slices.Concat(groupMAC[:], ClientMAC, []byte{0x88, 0xcc})},
		{"cooked group", packet{link: linkSLL, data: append(cookedHeader(1, 2, ClientMAC, 0x800), group4...)}, slices.Concat(MAC("01:00:5e:00:00:fb"), ClientMAC, v4)},
		{"cooked, cut off", packet{link: linkSLL, data: make([]byte, 15)}, nil},
		{"cooked 2, cut off", packet{link: linkSLL2, data: make([]byte, 19)}, nil},
	}
	for _, tt := range tests {
		frame, _ := ethernet(nil, tt.p)
		if !bytes.Equal(frame[:min(14, len(frame))], tt.want) {
			t.Errorf("%s: header is %x, want %x", tt.name, frame[:min(14, len(frame))], tt.want)
		}
	}
}
