package loader

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// A frame cut short anywhere is passed as it is, until all that its headers
// promise is there: then it is handled like the whole one.
func TestFramesCutShortArePassedUntouched(t *testing.T) {
	a4, a6 := ap(testutil.ZoneAClient4, 4000), ap(testutil.ZoneAClient6, 4000)
	web4, web6 := ap(testutil.VIP4, 80), ap(testutil.VIP6, 80)
	dns4, dns6 := ap(testutil.VIP4, 53), ap(testutil.VIP6, 53)
	tests := []struct {
		name  string
		whole int // bytes that the headers promise
		frame frame
	}{
		{"tcp over ipv4", 14 + 20 + 20, tcp(t, a4, web4)},
		{"tcp with payload", 14 + 20 + 20 + 30, tcp(t, a4, web4, testutil.Payload(make([]byte, 30)))},
		{"udp over ipv4", 14 + 20 + 8 + 9, udp(t, a4, dns4)},
		{"ipv4 options", 14 + 28 + 8 + 9, udp(t, a4, dns4, ipOptions(options8))},
		{"one tag", 14 + 4 + 20 + 20, tcp(t, a4, web4, testutil.VLAN(7))},
		{"two tags", 14 + 8 + 20 + 20, tcp(t, a4, web4, testutil.VLAN(7, 8), serviceTag)},
		{"tcp over ipv6", 14 + 40 + 20, tcp(t, a6, web6)},
		{"udp over ipv6", 14 + 40 + 8 + 9, udp(t, a6, dns6)},
		{"ipv6 extension headers", 14 + 40 + 8 + 16 + 20, tcp(t, a6, web6, testutil.HopByHop(0), testutil.DestOptions(1))},
		{"ipv6 authentication header", 14 + 40 + 24 + 20, tcp(t, a6, web6, testutil.AH(3))},
		{"sctp", 14 + 20 + 32, otherIP(t, a4.Addr(), testutil.VIP4B, layers.IPProtocolSCTP, make([]byte, 32))},
	}
	d := newFixture(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			full := tt.frame()
			forwarded := tt.frame(testutil.MACs(testutil.GatewayMAC, testutil.BackendAMAC))
			for n := 14; n <= len(full); n++ {
				verdict, want := VerdictPass, full[:n]
				if n >= tt.whole {
					verdict, want = VerdictTX, forwarded[:n]
				}
				checkCut(t, d, full[:n], verdict, want)
			}
		})
	}
}

// The same for what we answer.
func TestQuestionsCutShortArePassedUntouched(t *testing.T) {
	echo4, echo6 := testutil.Echo(t, testutil.Client4, testutil.VIP4), testutil.Echo(t, testutil.Client6, testutil.VIP6)
	tests := []struct {
		name  string
		whole int
		frame []byte
	}{
		{"arp", 14 + 28, testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4)},
		{"tagged arp", 14 + 4 + 28, testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4, testutil.VLAN(7))},
		{"solicitation", 14 + 40 + 32, testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.VIP6)},
		{"echo request", len(echo4), echo4},
		{"icmpv6 echo request", len(echo6), echo6},
	}
	d := newFixtureWith(t, Options{EchoPerSecond: 1 << 20})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := 14; n <= len(tt.frame); n++ {
				if n < tt.whole {
					checkCut(t, d, tt.frame[:n], VerdictPass, tt.frame[:n])
				} else {
					checkCut(t, d, tt.frame[:n], VerdictTX, nil)
				}
			}
		})
	}
}

// checkCut puts a cut frame through; want nil accepts any frame of its length.
func checkCut(t *testing.T, d *Datapath, in []byte, verdict Verdict, want []byte) {
	t.Helper()
	trace, out, err := d.Run(append([]byte(nil), in...))
	if err != nil {
		t.Fatal(err)
	}
	if trace.Verdict != verdict || len(out) != len(in) {
		t.Fatalf("first %d bytes: %s (%s), %d bytes out, want %s", len(in), trace.Verdict, trace.Reason, len(out), verdict)
	}
	if want != nil && !cmp.Equal(want, out) {
		t.Fatalf("first %d bytes (-want +got):\n%s", len(in), testutil.Diff(want, out))
	}
}

// Lengths that disagree with each other or with the frame.
func TestFramesThatLieAboutLengthsArePassedUntouched(t *testing.T) {
	a4, a6 := ap(testutil.ZoneAClient4, 4000), ap(testutil.ZoneAClient6, 4000)
	web4, web6 := ap(testutil.VIP4, 80), ap(testutil.VIP6, 80)
	set := func(offset int, b ...byte) func([]byte) { return func(f []byte) { copy(f[offset:], b) } }
	tests := []struct {
		name  string
		frame []byte
		lie   func([]byte)
	}{
		{"ipv4 version 5", testutil.TCP(t, a4, web4), set(14, 0x55)},
		{"ipv4 header of 16 bytes", testutil.TCP(t, a4, web4), set(14, 0x44)},
		{"ipv4 header longer than the packet", testutil.UDP(t, a4, web4), set(14, 0x4f)},
		{"ipv4 packet longer than the frame", testutil.TCP(t, a4, web4), set(16, 0, 200)},
		{"ipv4 packet shorter than its header", testutil.TCP(t, a4, web4), set(16, 0, 19)},
		{"ipv4 packet without any transport header", testutil.TCP(t, a4, web4), set(16, 0, 20)},
		{"ipv4 packet shorter than its tcp header", testutil.TCP(t, a4, web4), set(16, 0, 39)},
		{"ipv4 packet shorter than its udp header", testutil.UDP(t, a4, web4), set(16, 0, 27)},
		{"ipv6 version 4", testutil.TCP(t, a6, web6), set(14, 0x40)},
		{"ipv6 packet longer than the frame", testutil.TCP(t, a6, web6), set(18, 0, 21)},
		{"ipv6 packet shorter than its tcp header", testutil.TCP(t, a6, web6), set(18, 0, 19)},
		{"ipv6 packet shorter than its udp header", testutil.UDP(t, a6, web6), set(18, 0, 7)},
		{"ipv6 jumbogram", testutil.TCP(t, a6, web6), set(18, 0, 0)},
		{"ipv6 extension header longer than the packet", testutil.TCP(t, a6, web6, testutil.HopByHop(0)), set(55, 2)},
		{"ipv6 extension header longer than a packet without ports", testutil.IP(t, a6.Addr(), testutil.VIP6B, layers.IPProtocolESP, make([]byte, 15), testutil.HopByHop(0)), set(55, 2)},
		{"ipv6 authentication header longer than the packet", testutil.TCP(t, a6, web6, testutil.AH(3)), set(55, 10)},
		{"ipv6 extension header longer than the frame", testutil.TCP(t, a6, web6, testutil.HopByHop(0)), set(55, 255)},
	}
	d := newFixture(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.lie(tt.frame)
			send(t, d, raw(tt.frame), passed(lbReasonREASON_MALFORMED))
		})
	}
	for name, lie := range map[string]func([]byte){
		"payload shorter than a solicitation": set(18, 0, 23),
		"payload longer than the frame":       set(18, 0, 33),
		"no payload":                          set(18, 0, 0),
	} {
		t.Run(fmt.Sprintf("solicitation with %s", name), func(t *testing.T) {
			f := testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.VIP6)
			lie(f)
			send(t, d, raw(f), passed(0))
		})
	}
}
