package decap

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// expect puts a frame through and compares all that can be seen of it.
func expect(t *testing.T, d *Decap, in []byte, verdict uint32, want []byte, counted string) {
	t.Helper()
	got, out, name := d.run(t, in)
	if got != verdict || name != counted {
		t.Errorf("verdict %d, counted as %q; want %d, %q", got, name, verdict, counted)
	}
	if diff := testutil.Diff(want, out); verdict == xdpPass && diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
}

func TestTunnelsAreUnwrapped(t *testing.T) {
	d := newFixture(t)
	tags := map[string][]testutil.Mutate{
		"untagged": nil, "one tag": {testutil.VLAN(7)}, "two tags": {testutil.VLAN(7, 8), serviceTag},
	}
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		inner := innerOf(t, inner6)
		for name, tag := range tags {
			t.Run(name, func(t *testing.T) {
				want := innerOf(t, inner6, tag...)
				expect(t, d, w.make(t, src, dst, packetOf(inner), tag...), xdpPass, want, w.counted)
			})
		}
	})
}

func serviceTag(p *testutil.Packet) { p.VLANType = layers.EthernetTypeQinQ }

// What stands around the inner packet and does not matter.
func TestOuterHeadersMayHaveMore(t *testing.T) {
	d := newFixture(t)
	options := testutil.IPv4Options([]byte{1, 1, 1, 1, 1, 1, 1, 0})
	for name, more := range map[string]struct {
		ipv6 bool
		add  testutil.Mutate
	}{
		"IPv4 options":           {false, options},
		"destination options":    {true, testutil.DestOptions(0)}, // the encapsulation limit of Linux
		"hop-by-hop options":     {true, testutil.HopByHop(1)},
		"a TTL of 1":             {false, testutil.TTL(1)},
		"a hop limit of 1":       {true, testutil.TTL(1)},
		"a DSCP":                 {false, func(p *testutil.Packet) { p.IP4.TOS = 0xb8 }},
		"a traffic class":        {true, func(p *testutil.Packet) { p.IP6.TrafficClass = 0xb8; p.IP6.FlowLabel = 0x54321 }},
		"no UDP checksum":        {false, noChecksum},
		"no UDP checksum, IPv6":  {true, noChecksum},
		"bytes behind the outer": {false, func(*testutil.Packet) {}},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := outerOf(more.ipv6)
			for _, w := range wraps {
				in, want := w.make(t, src, dst, packetOf(innerOf(t, true)), more.add), innerOf(t, true)
				if name == "bytes behind the outer" {
					in, want = append(in, 1, 2, 3), append(want, 1, 2, 3)
				}
				expect(t, d, in, xdpPass, want, w.counted)
			}
		})
	}
}

// noChecksum writes a checksum of zero; of the other kinds it changes nothing.
func noChecksum(p *testutil.Packet) {
	if p.UDP == nil {
		return
	}
	if p.IP4 != nil { // the header's own checksum stays right
		p.IP4.Checksum = 0
	}
	p.Payload = append([]byte{
		byte(p.UDP.SrcPort >> 8), byte(p.UDP.SrcPort), byte(p.UDP.DstPort >> 8), byte(p.UDP.DstPort),
		byte((8 + len(p.Payload)) >> 8), byte(8 + len(p.Payload)), 0, 0,
	}, p.Payload...)
	p.UDP = nil
}

// Tunnels count only from a listed gateway to an address of this host. What is
// wrapped in what is left alone is left alone too.
func TestForeignTunnelsArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		stranger, elsewhere := stranger4, stranger4
		if outer6 {
			stranger, elsewhere = stranger6, stranger6
		}
		inner := packetOf(innerOf(t, inner6))
		from := w.make(t, stranger, dst, inner)
		expect(t, d, from, xdpPass, from, "source_not_listed")
		to := w.make(t, src, elsewhere, inner)
		expect(t, d, to, xdpPass, to, "other")
	})
}

func TestInnerDestinationsCanBeListed(t *testing.T) {
	vips := []netip.Prefix{whole(testutil.VIP4), netip.MustParsePrefix("2001:db8:f::/64")}
	d := newFixture(t, vips...)
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		allowed := innerOf(t, inner6)
		expect(t, d, w.make(t, src, dst, packetOf(allowed)), xdpPass, allowed, w.counted)
		other := innerOf(t, inner6, func(p *testutil.Packet) {
			if p.IP4 != nil {
				p.IP4.DstIP = testutil.VIP4B.AsSlice()
			} else {
				p.IP6.DstIP = testutil.Outside6.AsSlice()
			}
		})
		refused := w.make(t, src, dst, packetOf(other))
		expect(t, d, refused, xdpPass, refused, "destination_not_listed")
	})
}

func TestFragmentsOfTunnelsArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	eachWrap(t, func(t *testing.T, w wrap, outer6, inner6 bool) {
		src, dst := outerOf(outer6)
		for _, f := range []testutil.Mutate{testutil.Fragment(0, true), testutil.Fragment(100, true), testutil.Fragment(200, false)} {
			in := w.make(t, src, dst, packetOf(innerOf(t, inner6)), f)
			expect(t, d, in, xdpPass, in, "fragment")
		}
	})
	strangers := inIP(t, stranger4, backend4, packetOf(innerOf(t, false)), testutil.Fragment(0, true))
	expect(t, d, strangers, xdpPass, strangers, "other")
}

// Traffic of a host that has nothing to do with tunnels.
func TestOtherFramesArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	ap := netip.AddrPortFrom
	for name, frame := range map[string][]byte{
		"tcp to us":                testutil.TCP(t, ap(gateway4, 1000), ap(backend4, 6080)),
		"udp to another port":      testutil.UDP(t, ap(gateway4, 6080), ap(backend4, 6079)),
		"udp over IPv6":            testutil.UDP(t, ap(gateway6, 6081), ap(backend6, 53)),
		"a client's packet":        innerOf(t, false),
		"an echo request":          testutil.Echo(t, gateway6, backend6),
		"GRE":                      testutil.IP(t, gateway4, backend4, layers.IPProtocolGRE, make([]byte, 40)),
		"arp":                      testutil.ARPRequest(t, testutil.GatewayMAC, gateway4, backend4),
		"solicitation":             testutil.NeighborSolicitation(t, testutil.GatewayMAC, gateway6, backend6),
		"three tags":               inIP(t, gateway4, backend4, packetOf(innerOf(t, false)), testutil.VLAN(1, 2, 3)),
		"too many headers of IPv6": inIP(t, gateway6, backend6, packetOf(innerOf(t, false)), testutil.DestOptions(0), testutil.DestOptions(0), testutil.DestOptions(0), testutil.DestOptions(0), testutil.DestOptions(0)),
	} {
		t.Run(name, func(t *testing.T) { expect(t, d, frame, xdpPass, frame, "other") })
	}
}

func TestTunnelsCanBeSwitchedOff(t *testing.T) {
	d := newFixtureWith(t, Options{})
	for _, w := range wraps {
		in, want, counted := w.make(t, gateway4, backend4, packetOf(innerOf(t, false))), innerOf(t, false), "ip"
		if w.counted != "ip" {
			want, counted = in, "other"
		}
		expect(t, d, in, xdpPass, want, counted)
	}
}
