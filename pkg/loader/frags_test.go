package loader

import (
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/netlab"
	"l4lb/internal/testutil"
	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
)

const jumbo = 9000 // bytes of a packet: three buffers

// newJumboFixture takes frames in several buffers.
func newJumboFixture(t *testing.T) *Datapath {
	t.Helper()
	return newFixtureWith(t, Options{Frags: true, EchoPerSecond: 1 << 20, TooBigPerSecond: 1 << 20})
}

// pattern is a payload whose bytes are not alike anywhere near each other.
func pattern(size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(i ^ i>>8)
	}
	return out
}

// jumboLAN is a gateway and a client on a link of 9000 bytes.
func jumboLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{testutil.NewNetNS(t, "gateway"), testutil.NewNetNS(t, "client")}
	testutil.VethEnds(t,
		netlab.End{NS: l.gateway.Namespace, Name: "eth0", MAC: testutil.GatewayMAC, MTU: jumbo},
		netlab.End{NS: l.client.Namespace, Name: "eth0", MAC: testutil.ClientMAC, MTU: jumbo})
	return l
}

// Packets that are in several buffers go the ways of all others: new flow, hit,
// fragment, no rule, not ours, and not in order. All bytes are counted.
func TestFramesInSeveralBuffers(t *testing.T) {
	d := newJumboFixture(t)
	newFlowsGoTo(t, d, memberA)
	for _, c := range []tunnelCase{{}, {inner6: true}} {
		for _, size := range []int{100, 1500, 3000, 3400, 3500, 3600, 4096, 4200, 8000, jumbo, 16000} {
			forgetFlows(d)
			f, _ := c.web(t, c.size(size))
			send(t, d, f, started(memberA, ruleTCP80, 0, newOther))
			send(t, d, f, followed(memberA, ruleTCP80, 0, confirmed))
			send(t, d, f, followed(memberA, ruleTCP80, 0))
		}
	}
	text := pattern(jumbo - 40 - 8)
	for _, ipv6 := range []bool{false, true} {
		client, vip := testutil.Client4, testutil.VIP4
		if ipv6 {
			client, vip = testutil.Client6, testutil.VIP6
		}
		datagram := udp(t, ap(client, 4000), ap(vip, 53), testutil.Payload(text))
		send(t, d, datagram, started(memberA, ruleUDPAll, 0, newOther))
		send(t, d, datagram, followed(memberA, ruleUDPAll, 0, confirmed))
		send(t, d, tcp(t, ap(client, 4000), ap(vip, 81), testutil.Payload(text)), dropped(lbReasonREASON_NO_RULE, 0, 0))
		send(t, d, tcp(t, ap(vip, 4000), ap(client, 80), testutil.Payload(text)), passed(lbReasonREASON_NONE))
		send(t, d, raw(datagram()[:4000]), passed(lbReasonREASON_MALFORMED))
	}
}

// A frame in one buffer meets the same whether or not there may be several.
func TestFragsChangeNothingForShortFrames(t *testing.T) {
	with, without := newJumboFixture(t), newFixtureWith(t, Options{EchoPerSecond: 1 << 20, TooBigPerSecond: 1 << 20})
	for _, d := range []*Datapath{with, without} {
		newFlowsGoTo(t, d, memberA)
		for _, client := range []tunnelCase{{}, {inner6: true}} {
			f, _ := client.web(t)
			send(t, d, f, started(memberA, ruleTCP80, 0, newOther))
			send(t, d, f, followed(memberA, ruleTCP80, 0, confirmed))
			whole := f()
			send(t, d, raw(whole[:len(whole)-20]), passed(lbReasonREASON_MALFORMED))
		}
	}
}

// Of a datagram that is longer than the link a fragment is a frame of 9000 bytes.
func TestFragmentsInSeveralBuffers(t *testing.T) {
	d := newJumboFixture(t)
	newFlowsGoTo(t, d, memberA)
	const piece = 8960
	more := otherIP(t, testutil.Client4, testutil.VIP4, layers.IPProtocolUDP, pattern(piece), func(p *testutil.Packet) {
		p.IP4.Flags, p.IP4.FragOffset = layers.IPv4MoreFragments, 0
	})
	later := otherIP(t, testutil.Client4, testutil.VIP4, layers.IPProtocolUDP, pattern(piece), func(p *testutil.Packet) {
		p.IP4.Flags, p.IP4.FragOffset = 0, piece/8
	})
	send(t, d, more, started(memberA, ruleUDPAll, 0, newOther))
	send(t, d, later, followed(memberA, ruleUDPAll, 0, confirmed))
}

// Echo requests are answered with all that they bring.
func TestEchoRequestsInSeveralBuffers(t *testing.T) {
	d := newJumboFixture(t)
	for _, ipv6 := range []bool{false, true} {
		for _, size := range []int{4000, 8000, 8001, 8952} {
			request, reply := echoPair(t, ipv6, 0x4c4c, 9, pattern(size))
			send(t, d, raw(request), answered(lbReasonREASON_ECHO_REPLY, reply))
		}
	}
}

// A tunnel over a link of 9000 bytes takes what fits, leaves behind what follows
// the packet in its frame, be it a buffer of its own, and has the rest answered.
func TestTunnelsTakeFramesInSeveralBuffers(t *testing.T) {
	eachTunnel(t, func(t *testing.T, c tunnelCase) {
		c.linkMTU = jumbo
		d := newJumboFixture(t)
		c.open(t, d)
		for _, size := range []int{100, 3400, 3500, 4000, 8000, c.fits()} {
			forgetFlows(d)
			f, flow := c.web(t, c.size(size))
			c.sendTunnelled(t, d, f, flow, ruleTCP80)
			for _, more := range []int{1, 100, 5000} {
				want := followed(memberA, ruleTCP80, 0)
				want.out = c.around(t, f(), flow)
				send(t, d, raw(append(f(), make([]byte, more)...)), want)
			}
			if n := len(c.around(t, f(), flow)) - 14; n != size+encap.Overhead(c.kind, c.outer6) || n > jumbo {
				t.Errorf("a packet of %d bytes makes one of %d", size, n)
			}
		}
		for _, tags := range [][]testutil.Mutate{nil, {testutil.VLAN(7)}} {
			forgetFlows(d)
			f, flow := c.web(t, append([]testutil.Mutate{c.size(jumbo)}, tags...)...)
			want := tooBig(lbReasonREASON_TOO_BIG, VerdictTX, ruleTCP80, TraceNew, tooBigAnswer(t, f(), flow.Src, flow.Dst, c.fits(), tags...))
			want.events = []FlowEvent{newOther}
			send(t, d, f, want)
		}
	})
}

// An ICMP error may quote as much as it likes.
func TestErrorsInSeveralBuffers(t *testing.T) {
	d := newJumboFixture(t)
	newFlowsGoTo(t, d, memberA)
	c := tunnelCase{}
	f, flow := c.web(t)
	send(t, d, f, started(memberA, ruleTCP80, 0, newOther))
	sent := testutil.TCP(t, ap(flow.Dst, flow.DstPort), ap(flow.Src, flow.SrcPort), testutil.Payload(pattern(8000)))
	trace, _, err := d.Run(testutil.ICMPError(t, testutil.Router4, testutil.VIP4, 3, 4, [4]byte{0, 0, 5, 0xdc}, sent))
	must(t, err)
	if trace.Verdict != VerdictTX || trace.Member != memberA {
		t.Errorf("%+v, want it at member %d", trace, memberA)
	}
}

// Without the flag native mode is refused where a packet may be longer than a
// page, and the refusal says what to do; generic mode does not mind.
func TestAttachNeedsFragsForALargeMTU(t *testing.T) {
	l := jumboLAN(t)
	d := newFixture(t)
	err := l.attach(d, "eth0", lb.XDPNative)
	for _, want := range []string{"attach to eth0", "MTU of eth0 is 9000", "restart the gateway", "ip link set dev eth0 mtu 3000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("attach at an MTU of 9000: %v, want it to say %q", err, want)
		}
	}
	if got := l.mode(); got != "" {
		t.Errorf("attached in mode %q", got)
	}
	must(t, l.attach(d, "eth0", lb.XDPGeneric))
}

func TestAttachAtALargeMTU(t *testing.T) {
	l := jumboLAN(t)
	d := newJumboFixture(t)
	must(t, l.attach(d, "eth0", lb.XDPNative))
	if got := l.mode(); got != lb.XDPNative {
		t.Errorf("attached in mode %q", got)
	}
}

// A driver without native XDP says no in the same way to long frames: both mends
// are named.
func TestDriversThatTakeNoLongFramesAreNamed(t *testing.T) {
	l := jumboLAN(t)
	l.gateway.Bridge("br0", "eth0")
	d := newJumboFixture(t)
	err := l.attach(d, "br0", lb.XDPNative)
	for _, want := range []string{"attach to br0", "MTU of 9000", "ip link set dev br0 mtu 3000", "xdpMode: generic"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("attach to a bridge of 9000 bytes: %v, want it to say %q", err, want)
		}
	}
}

// A process that takes frames in several buffers follows one that did not, and the
// other way round, on the link that is pinned.
func TestFragsComeAndGoWithAPinnedLink(t *testing.T) {
	dir := pinDir(t)
	l := newLAN(t)
	for _, frags := range []bool{false, true, false} {
		d := load(t, Options{PinDir: dir, Frags: frags})
		fillFixture(t, d)
		must(t, l.attach(d, "eth0", lb.XDPNative))
		if !l.answers(t, patience) {
			t.Errorf("frags %v: ARP for a VIP was not answered", frags)
		}
		f, _ := tunnelCase{}.web(t, tunnelCase{}.size(jumbo))
		if trace, _, err := d.Run(f()); err != nil || trace.Verdict != VerdictTX && frags {
			t.Errorf("frags %v: %+v, %v", frags, trace, err)
		}
		must(t, d.Close())
	}
}
