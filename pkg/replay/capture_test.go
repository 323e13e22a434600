package replay

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var threePackets = []taken{
	{data: bytes.Repeat([]byte{1}, 61)},
	{at: time.Second, data: bytes.Repeat([]byte{2}, 62), length: 1000},
	{at: 2*time.Second + 789*time.Microsecond, data: bytes.Repeat([]byte{3}, 63)},
}

// read reads a whole capture.
func read(t *testing.T, data []byte) (list []packet, nanoseconds bool, err error) {
	t.Helper()
	c, err := openCapture(file(t, "in.pcap", data))
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	for {
		p, err := c.next()
		if errors.Is(err, io.EOF) {
			return list, c.nanoseconds(), nil
		}
		if err != nil {
			return list, c.nanoseconds(), err
		}
		p.data = slices.Clone(p.data)
		list = append(list, p)
	}
}

// expectThree compares with threePackets, times to the precision of the file.
func expectThree(t *testing.T, got []packet, err error, precision time.Duration) {
	t.Helper()
	if err != nil || len(got) != len(threePackets) {
		t.Fatalf("%d packets, error %v", len(got), err)
	}
	for i, want := range threePackets {
		p := got[i]
		if at := begin.Add(want.at).Truncate(precision); !p.time.Equal(at) {
			t.Errorf("packet %d: time %s, want %s", i, p.time, at)
		}
		if !bytes.Equal(p.data, want.data) || p.length != max(want.length, len(want.data)) || p.link != linkEthernet {
			t.Errorf("packet %d is %+v", i, p)
		}
	}
}

func TestPcapOfEveryKind(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for magic, nanoseconds := range map[uint32]bool{pcapMicroseconds: false, pcapNanoseconds: true} {
			got, ns, err := read(t, writePcap(order, magic, linkEthernet, threePackets))
			expectThree(t, got, err, time.Microsecond)
			if ns != nanoseconds {
				t.Errorf("%s, magic %x: nanoseconds is %v", order, magic, ns)
			}
		}
	}
	withCheckSequence := writePcap(binary.LittleEndian, pcapMicroseconds, 0x14000001, threePackets)
	got, _, err := read(t, withCheckSequence)
	expectThree(t, got, err, time.Microsecond)
}

// section makes a pcapng section of one Ethernet interface. resolution is
// if_tsresol, stamps are in it.
func section(order binary.ByteOrder, resolution byte, offset int64, stamp func(time.Time) uint64) []byte {
	out := new(bytes.Buffer)
	block := func(kind uint32, values ...any) {
		body := new(bytes.Buffer)
		for _, v := range values {
			binary.Write(body, order, v)
		}
		body.Write(make([]byte, -body.Len()&3))
		size := uint32(body.Len() + 12)
		binary.Write(out, order, []uint32{kind, size})
		out.Write(body.Bytes())
		binary.Write(out, order, size)
	}
	block(ngSection, uint32(ngOrderMagic), uint16(1), uint16(0), int64(-1))
	block(ngInterface, uint16(1), uint16(0), uint32(0),
		uint16(2), uint16(4), []byte("eth0"), uint16(9), uint16(1), []byte{resolution, 0, 0, 0},
		uint16(14), uint16(8), offset, uint32(0))
	block(5, uint32(0), uint64(0)) // interface statistics
	for _, p := range threePackets {
		ts := stamp(begin.Add(p.at).Add(-time.Duration(offset) * time.Second))
		block(ngEnhanced, uint32(0), uint32(ts>>32), uint32(ts), uint32(len(p.data)), uint32(max(p.length, len(p.data))), p.data)
	}
	return out.Bytes()
}

func TestPcapngOfEveryResolutionAndOrder(t *testing.T) {
	micro := func(t time.Time) uint64 { return uint64(t.UnixMicro()) }
	nano := func(t time.Time) uint64 { return uint64(t.UnixNano()) }
	pico := func(t time.Time) uint64 { return uint64(t.UnixNano()) * 1000 }
	binary20 := func(t time.Time) uint64 { return uint64(t.Unix())<<20 | uint64(t.Nanosecond())<<20/1e9 }
	le, be := section(binary.LittleEndian, 6, 0, micro), section(binary.BigEndian, 9, 3600, nano)
	for name, data := range map[string][]byte{
		"microseconds": le, "nanoseconds, big endian, with an offset": be,
		"picoseconds": section(binary.LittleEndian, 12, 1_690_000_000, pico),
		"2^-20 s":     section(binary.BigEndian, 0x94, 0, binary20),
	} {
		t.Run(name, func(t *testing.T) {
			got, ns, err := read(t, data)
			if name == "2^-20 s" {
				for i := range got {
					got[i].time = got[i].time.Add(time.Microsecond).Truncate(time.Microsecond)
				}
			}
			expectThree(t, got, err, time.Microsecond)
			if !ns {
				t.Error("output would lose time")
			}
		})
	}
	both, _, err := read(t, slices.Concat(le, be))
	if err != nil || len(both) != 6 {
		t.Fatalf("two sections: %d packets, %v", len(both), err)
	}
	expectThree(t, both[3:], nil, time.Microsecond)
}

// Another writer's file, with an obsolete and a simple packet block behind it.
func TestPcapngOfAnotherWriter(t *testing.T) {
	b := new(bytes.Buffer)
	w, err := pcapgo.NewNgWriter(b, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range threePackets {
		ci := gopacket.CaptureInfo{Timestamp: begin.Add(p.at), CaptureLength: len(p.data), Length: max(p.length, len(p.data))}
		if err := w.WritePacket(ci, p.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got, _, err := read(t, b.Bytes())
	expectThree(t, got, err, time.Nanosecond)

	le := binary.LittleEndian
	simple := le.AppendUint32(nil, ngSimple)
	simple = le.AppendUint32(simple, 20)
	simple = le.AppendUint32(simple, 3)
	simple = append(simple, 7, 8, 9, 0)
	b.Write(le.AppendUint32(simple, 20))
	got, _, err = read(t, b.Bytes())
	if err != nil || len(got) != 4 || !bytes.Equal(got[3].data, []byte{7, 8, 9}) || !got[3].time.Equal(got[2].time) {
		t.Errorf("simple packet block: %v, %+v", err, got)
	}
}

func TestEmptyCapturesGiveNothing(t *testing.T) {
	for name, data := range map[string][]byte{
		"pcap":                     writePcap(binary.LittleEndian, pcapMicroseconds, linkEthernet, nil),
		"pcapng":                   section(binary.LittleEndian, 6, 0, func(time.Time) uint64 { return 0 })[:28],
		"pcapng with an interface": section(binary.LittleEndian, 6, 0, func(time.Time) uint64 { return 0 })[:28+52],
	} {
		t.Run(name, func(t *testing.T) {
			r := mustReplay(t, Options{Config: parseConfig(t, zonalYAML), Capture: file(t, "in.pcap", data)})
			if len(r.records) != 0 || len(r.sent) != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestEveryTruncatedCaptureIsAnError(t *testing.T) {
	stamp := func(t time.Time) uint64 { return uint64(t.UnixMicro()) }
	pcap := writePcap(binary.LittleEndian, pcapMicroseconds, linkEthernet, threePackets)
	for name, whole := range map[string][]byte{"pcap": pcap, "pcapng": section(binary.BigEndian, 6, 0, stamp)} {
		full, _, err := read(t, whole)
		if err != nil {
			t.Fatal(err)
		}
		clean := 0
		for n := range whole {
			got, _, err := read(t, whole[:n])
			if err == nil {
				clean++ // between two packets or blocks
			}
			if len(got) > 0 && !bytes.Equal(got[len(got)-1].data, full[len(got)-1].data) {
				t.Fatalf("%s cut at %d: packet %d is wrong", name, n, len(got)-1)
			}
			if err != nil && !errors.Is(err, errTruncated) && !strings.Contains(err.Error(), "truncated") &&
				!errors.Is(err, errFormat) && !strings.Contains(err.Error(), "empty") {
				t.Errorf("%s cut at %d: %v", name, n, err)
			}
		}
		if want := map[string]int{"pcap": 3, "pcapng": 5}[name]; clean != want {
			t.Errorf("%s: %d of its beginnings are whole, want %d", name, clean, want)
		}
	}
}

func FuzzCapture(f *testing.F) {
	f.Add(writePcap(binary.LittleEndian, pcapMicroseconds, linkEthernet, threePackets))
	f.Add(section(binary.BigEndian, 9, 3600, func(t time.Time) uint64 { return uint64(t.UnixNano()) }))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readFormat(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		var fr framer
		for {
			p, err := c.next()
			if err != nil {
				return
			}
			out := fr.frame(p)
			if len(out.run) > maxFrame || len(out.run) >= minFrame && out.run[0]&1 == 0 && [6]byte(out.run[:6]) != gatewayMAC {
				t.Fatalf("%d bytes: %x", len(out.run), out.run)
			}
			out.restore(slices.Clone(out.run), false)
		}
	})
}

// Of a gateway's own capture, what it sent is left out: what arrived stands beside
// it.
func TestPacketsThatAGatewaySentAreLeftOut(t *testing.T) {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriterInterface(&b, pcapgo.NgInterface{Name: "eth0 in", LinkType: layers.LinkTypeEthernet}, pcapgo.NgWriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.AddInterface(pcapgo.NgInterface{Name: "eth1 out (l4lb)", LinkType: layers.LinkTypeEthernet})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range threePackets {
		for _, number := range []int{0, out} {
			ci := gopacket.CaptureInfo{Timestamp: begin.Add(p.at), CaptureLength: len(p.data), Length: max(p.length, len(p.data)), InterfaceIndex: number}
			if err := w.WritePacket(ci, p.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got, _, err := read(t, b.Bytes())
	expectThree(t, got, err, time.Nanosecond)
}
