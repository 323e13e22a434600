package decap

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// The parts of a tunnel packet are all built by gopacket; only GUE and GENEVE
// headers, which it does not write, are written here.

// wrap is one kind of tunnel: it puts an inner packet into an outer frame.
type wrap struct {
	name    string
	counted string
	// make builds the frame from src to dst around an inner packet.
	make func(t testing.TB, src, dst netip.Addr, inner []byte, mutate ...testutil.Mutate) []byte
}

// header is what stands before the inner packet in the tunnel.
type header func(inner []byte) []byte

func gueDirect([]byte) []byte { return nil }

// guePlain is version 0 without optional fields.
func guePlain(inner []byte) []byte { return []byte{0, byte(protocolOf(inner)), 0, 0} }

func geneve(options int) header {
	return func(inner []byte) []byte {
		kind := []byte{0x08, 0x00}
		if inner[0]>>4 == 6 {
			kind = []byte{0x86, 0xdd}
		}
		h := []byte{byte(options), 0, kind[0], kind[1], 0, 0, 7, 0} // VNI 7
		for i := range options {
			h = append(h, 0x01, 0x02, 0x03, byte(i)) // of no known class, not critical
		}
		return h
	}
}

// protocolOf names an inner packet in an outer header.
func protocolOf(inner []byte) layers.IPProtocol {
	if inner[0]>>4 == 4 {
		return layers.IPProtocolIPv4
	}
	return layers.IPProtocolIPv6
}

func inIP(t testing.TB, src, dst netip.Addr, inner []byte, mutate ...testutil.Mutate) []byte {
	t.Helper()
	return testutil.IP(t, src, dst, protocolOf(inner), inner, mutate...)
}

func inUDP(port uint16, h header) func(testing.TB, netip.Addr, netip.Addr, []byte, ...testutil.Mutate) []byte {
	return func(t testing.TB, src, dst netip.Addr, inner []byte, mutate ...testutil.Mutate) []byte {
		t.Helper()
		payload := testutil.Payload(slices.Concat(h(inner), inner))
		return testutil.UDP(t, netip.AddrPortFrom(src, 50001), netip.AddrPortFrom(dst, port), append([]testutil.Mutate{payload}, mutate...)...)
	}
}

var wraps = []wrap{
	{"IP in IP", "ip", inIP},
	{"GUE version 1", "gue", inUDP(DefaultGUEPort, gueDirect)},
	{"GUE version 0", "gue", inUDP(DefaultGUEPort, guePlain)},
	{"GENEVE", "geneve", inUDP(DefaultGENEVEPort, geneve(0))},
	{"GENEVE with an option", "geneve", inUDP(DefaultGENEVEPort, geneve(1))},
	{"GENEVE with as many options as fit", "geneve", inUDP(DefaultGENEVEPort, geneve(63))},
}

// outerOf is the gateway and the backend of a family.
func outerOf(ipv6 bool) (src, dst netip.Addr) {
	if ipv6 {
		return gateway6, backend6
	}
	return gateway4, backend4
}

// innerOf is a client's segment to the VIP: a whole frame.
func innerOf(t testing.TB, ipv6 bool, mutate ...testutil.Mutate) []byte {
	t.Helper()
	client, vip := testutil.Client4, testutil.VIP4
	if ipv6 {
		client, vip = testutil.Client6, testutil.VIP6
	}
	payload := testutil.Payload([]byte("GET / HTTP/1.0\r\n\r\n"))
	return testutil.TCP(t, netip.AddrPortFrom(client, 40000), netip.AddrPortFrom(vip, 80), append([]testutil.Mutate{payload}, mutate...)...)
}

// packetOf is the IP packet of a frame without tags that has no padding.
func packetOf(frame []byte) []byte { return frame[14:] }

// eachWrap runs a test for every kind of tunnel and every mix of families.
func eachWrap(t *testing.T, test func(t *testing.T, w wrap, outer6, inner6 bool)) {
	names := map[bool]string{false: "IPv4", true: "IPv6"}
	for _, w := range wraps {
		for _, outer6 := range []bool{false, true} {
			for _, inner6 := range []bool{false, true} {
				t.Run(w.name+"/"+names[inner6]+" in "+names[outer6], func(t *testing.T) { test(t, w, outer6, inner6) })
			}
		}
	}
}
