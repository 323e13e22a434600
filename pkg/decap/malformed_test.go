package decap

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"l4lb/internal/testutil"
)

// A frame cut short anywhere is passed as it is.
func TestFramesCutShortArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		whole := w.make(t, src, dst, packetOf(innerOf(t, inner6)), testutil.VLAN(7))
		for n := 14; n < len(whole); n++ {
			expectLeftAlone(t, d, whole[:n], fmt.Sprintf("first %d bytes", n))
		}
	})
}

// The same where the outer headers promise no more than there is.
func TestInnerPacketsCutShortArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		inner := packetOf(innerOf(t, inner6))
		for n := 1; n < len(inner); n++ {
			expectLeftAlone(t, d, w.make(t, src, dst, inner[:n]), fmt.Sprintf("inner packet's first %d bytes", n))
		}
	})
}

func expectLeftAlone(t *testing.T, d *Decap, in []byte, what string) {
	t.Helper()
	verdict, out, counted := d.run(t, in)
	if verdict != xdpPass || !bytes.Equal(in, out) || unwrapped(counted) {
		t.Errorf("%s: verdict %d, counted as %q, changed %v; want an untouched frame", what, verdict, counted, !bytes.Equal(in, out))
	}
}

func unwrapped(counted string) bool {
	return slices.Contains(countNames[:decapOutcomeDECAP_OTHER], counted)
}

// Headers that lie, or that ask for what is not known.
func TestHeadersThatAreNotUnderstood(t *testing.T) {
	const (
		ip4  = 14 // the outer headers of the frames below
		ip6  = 14
		udp4 = ip4 + 20
		in4  = ip4 + 20 // the inner packet in IPv4
		in6  = ip6 + 40
		gue  = udp4 + 8
	)
	four, six := packetOf(innerOf(t, false)), packetOf(innerOf(t, true))
	ipip, ip6ip := inIP(t, gateway4, backend4, four), inIP(t, gateway4, backend4, six)
	ip6ip6 := inIP(t, gateway6, backend6, six)
	over := func(port uint16, h header) []byte { return inUDP(port, h)(t, gateway4, backend4, four) }
	set := func(offset int, b ...byte) func([]byte) { return func(f []byte) { copy(f[offset:], b) } }
	tests := []struct {
		name    string
		frame   []byte
		lie     func([]byte)
		counted string
	}{
		{"outer checksum is wrong", ipip, set(ip4+10, 0, 1), "malformed"},
		{"inner IPv4 packet is longer than the outer", ipip, set(in4+2, 1, 0), "malformed"},
		{"inner IPv4 packet is shorter than its header", ipip, set(in4+2, 0, 19), "malformed"},
		{"inner IPv4 header is too short", ipip, set(in4, 0x44), "malformed"},
		{"inner IPv4 header is longer than its packet", ipip, set(in4, 0x4f, 0, 0, 40), "malformed"},
		{"inner packet is IPv6, not IPv4", ipip, set(in4, 0x60), "malformed"},
		{"inner packet is IPv4, not IPv6", ip6ip, set(in4, 0x45), "malformed"},
		{"inner IPv6 packet is longer than the outer", ip6ip6, set(in6+4, 1, 0), "malformed"},
		{"outer IPv4 version", ipip, set(ip4, 0x55), "other"},
		{"outer IPv4 header is too short", ipip, set(ip4, 0x44), "other"},
		{"outer packet is longer than the frame", ipip, set(ip4+2, 5, 0), "other"},
		{"outer IPv6 version", ip6ip6, set(ip6, 0x50), "other"},
		{"outer IPv6 packet is longer than the frame", ip6ip6, set(ip6+4, 5, 0), "other"},
		{"UDP longer than its packet", over(DefaultGUEPort, gueDirect), set(udp4+4, 1, 0), "other"},
		{"UDP shorter than its header", over(DefaultGUEPort, gueDirect), set(udp4+4, 0, 7), "other"},
		{"UDP shorter than the inner packet", over(DefaultGUEPort, gueDirect), set(udp4+4, 0, 20), "malformed"},
		{"GUE control message", over(DefaultGUEPort, guePlain), set(gue, 0x20), "header_not_supported"},
		{"GUE optional fields", over(DefaultGUEPort, guePlain), set(gue, 1), "header_not_supported"},
		{"GUE flags", over(DefaultGUEPort, guePlain), set(gue+2, 0x80), "header_not_supported"},
		{"GUE version 2", over(DefaultGUEPort, guePlain), set(gue, 0x80), "header_not_supported"},
		{"GUE around something else", over(DefaultGUEPort, guePlain), set(gue+1, 47), "header_not_supported"},
		{"GUE version 1 around version 5", over(DefaultGUEPort, gueDirect), set(gue, 0x55), "malformed"},
		{"GENEVE version 1", over(DefaultGENEVEPort, geneve(0)), set(gue, 0x40), "header_not_supported"},
		{"GENEVE control packet", over(DefaultGENEVEPort, geneve(0)), set(gue+1, 0x80), "header_not_supported"},
		{"GENEVE critical option", over(DefaultGENEVEPort, geneve(1)), set(gue+1, 0x40), "header_not_supported"},
		{"GENEVE around Ethernet", over(DefaultGENEVEPort, geneve(0)), set(gue+2, 0x65, 0x58), "header_not_supported"},
		{"GENEVE options longer than the packet", over(DefaultGENEVEPort, geneve(0)), set(gue, 0x3f), "malformed"},
	}
	d := newFixture(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := slices.Clone(tt.frame)
			tt.lie(in)
			expect(t, d, in, xdpPass, in, tt.counted)
		})
	}
}

// Frames with random bytes changed: what is not unwrapped is untouched, and what
// is unwrapped is the link header and a piece of the frame, whose version and
// length are those that its headers claim.
func TestRandomChangesAreNeverWrong(t *testing.T) {
	const rounds = 400
	d := newFixture(t)
	random := rand.New(rand.NewPCG(1, 2))
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		frame := w.make(t, src, dst, packetOf(innerOf(t, inner6, ecn(2))))
		for range rounds {
			in := slices.Clone(frame)
			for range 1 + random.IntN(3) {
				in[random.IntN(min(len(in), 120))] = byte(random.Uint32())
			}
			in = in[:14+random.IntN(len(in)-13)]
			verdict, out, counted := d.run(t, in)
			switch {
			case verdict == xdpDrop && counted == "congested_not_ect":
			case verdict != xdpPass:
				t.Fatalf("verdict %d, counted as %q:\n%s", verdict, counted, testutil.Dump(in))
			case unwrapped(counted):
				expectPiece(t, in, out)
			case !bytes.Equal(in, out):
				t.Fatalf("counted as %q, but changed:\n%s", counted, testutil.Diff(in, out))
			}
		}
	})
}

// expectPiece compares an unwrapped frame with the end of what it came from. The
// ECN field and with it the checksum may differ.
func expectPiece(t *testing.T, in, out []byte) {
	t.Helper()
	cut := len(in) - len(out)
	if cut < 20 || len(out) < 14+20 || !bytes.Equal(in[:12], out[:12]) {
		t.Fatalf("link header (-in +out):\n%s", testutil.Diff(in, out))
	}
	want, got := slices.Clone(in[cut+14:]), slices.Clone(out[14:])
	version, promised := got[0]>>4, int(got[2])<<8|int(got[3])
	if version == 6 {
		promised = 40 + int(got[4])<<8 + int(got[5])
	}
	if kind := map[byte]string{4: "\x08\x00", 6: "\x86\xdd"}[version]; kind != string(out[12:14]) || promised > len(got) {
		t.Fatalf("version %d of %d bytes is no packet:\n%s", version, promised, testutil.Dump(out))
	}
	for _, p := range [][]byte{want, got} {
		p[1] = 0
		if version == 4 {
			p[10], p[11] = 0, 0
		}
	}
	if !bytes.Equal(want, got) {
		t.Fatalf("inner packet (-in +out):\n%s", testutil.Diff(in, out))
	}
}
