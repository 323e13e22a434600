package loader

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/lb"
)

// tooBigAnswer is what the sender of a frame is told: from the address that it
// was sent to, with as much of it as goes.
func tooBigAnswer(t *testing.T, in []byte, src, dst netip.Addr, mtu int, tags ...testutil.Mutate) []byte {
	t.Helper()
	linkSize := 14 + 4*len(tags)
	base := append([]testutil.Mutate{testutil.MACs(testutil.GatewayMAC, testutil.ClientMAC)}, tags...)
	if src.Is4() {
		p := append([]byte{0, 0}, binary.BigEndian.AppendUint16(nil, uint16(mtu))...)
		return testutil.ICMPError(t, dst, src, 3, 4, [4]byte(p), in[linkSize-14:][:14+548], append(base, func(p *testutil.Packet) {
			p.IP4.TOS, p.IP4.Id = 0xc0, 0
		})...)
	}
	p := binary.BigEndian.AppendUint32(nil, uint32(mtu))
	return testutil.ICMPError(t, dst, src, 2, 0, [4]byte(p), in[linkSize-14:][:14+1232], base...)
}

func tooBig(reason lbReason, verdict Verdict, rule uint32, flow TraceFlow, out []byte) outcome {
	return outcome{Trace: Trace{Verdict: verdict, Reason: Reason(reason), Rule: rule, Member: memberA, Flow: flow}, out: out}
}

func noDF(p *testutil.Packet) {
	if p.IP4 != nil {
		p.IP4.Flags = 0
	}
}

// A packet that is one byte too long is answered, on its first way and along its
// entry; nothing counts as forwarded.
func TestPacketsThatAreTooBigAreAnswered(t *testing.T) {
	eachTunnel(t, func(t *testing.T, c tunnelCase) {
		d := newFixtureWith(t, Options{TooBigPerSecond: 1 << 20})
		prepareManyRuns(t, d)
		c.open(t, d)
		tests := []struct {
			name   string
			reason lbReason
			size   int
			mutate []testutil.Mutate
			tags   []testutil.Mutate
		}{
			{"by one byte", lbReasonREASON_TOO_BIG, c.fits() + 1, nil, nil},
			{"in a full frame", lbReasonREASON_TOO_BIG, 1500, []testutil.Mutate{tos(0x03)}, nil},
			{"with a tag", lbReasonREASON_TOO_BIG, 1500, nil, []testutil.Mutate{testutil.VLAN(7)}},
			{"with two tags", lbReasonREASON_TOO_BIG, 1500, nil, []testutil.Mutate{testutil.VLAN(7), testutil.VLAN(8)}},
			{"that may be fragmented", lbReasonREASON_TOO_BIG_NO_DF, 1500, []testutil.Mutate{noDF}, nil},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				forgetFlows(d)
				f, flow := c.web(t, append(append([]testutil.Mutate{c.size(tt.size)}, tt.mutate...), tt.tags...)...)
				reason := tt.reason
				if c.inner6 {
					reason = lbReasonREASON_TOO_BIG
				}
				out := tooBigAnswer(t, f(), flow.Src, flow.Dst, c.fits(), tt.tags...)
				want := tooBig(reason, VerdictTX, ruleTCP80, TraceNew, out)
				want.events = []FlowEvent{newOther}
				send(t, d, f, want)
				want.Flow, want.events = TraceHit, []FlowEvent{confirmed}
				send(t, d, f, want)
			})
		}
	})
}

// A link that IPv6 cannot use is not told of: no sender goes below 1280.
func TestTooBigNeverNamesLessThanIPv6Needs(t *testing.T) {
	d := newFixtureWith(t, Options{TooBigPerSecond: 1 << 20})
	c := tunnelCase{kind: lb.ForwardIPIP, inner6: true}
	spec := c.tunnel()
	spec.LinkMTU = 1290
	header, err := spec.Header()
	must(t, err)
	changeMember(t, d, memberA, func(m *Member) { m.Tunnel = header })
	newFlowsGoTo(t, d, memberA)
	f, flow := c.web(t, c.size(1400))
	want := tooBig(lbReasonREASON_TOO_BIG, VerdictTX, ruleTCP80, TraceNew, tooBigAnswer(t, f(), flow.Src, flow.Dst, 1280))
	want.events = []FlowEvent{newOther}
	send(t, d, f, want)
}

// What RFC 1122 3.2.2 and RFC 4443 2.4 forbid to answer is dropped.
func TestPacketsThatAreTooBigAndMustNotBeAnswered(t *testing.T) {
	d := newFixtureWith(t, Options{TooBigPerSecond: 1 << 20})
	tunnelCase{kind: lb.ForwardGUE}.open(t, d)
	big := make([]byte, 1460)
	address := netip.MustParseAddr
	icmp := func(src, dst netip.Addr, kind, code uint8) frame {
		return raw(testutil.ICMPError(t, src, dst, kind, code, [4]byte{}, append(make([]byte, 14), big...)))
	}
	tests := []struct {
		name     string
		frame    frame
		answered bool
	}{
		{"a packet", otherIP(t, testutil.Client4, testutil.VIP4B, layers.IPProtocolESP, big), true},
		{"from a group", otherIP(t, address("224.0.0.5"), testutil.VIP4B, layers.IPProtocolESP, big), false},
		{"from a broadcast address", otherIP(t, address("255.255.255.255"), testutil.VIP4B, layers.IPProtocolESP, big), false},
		{"from nowhere", otherIP(t, address("0.0.0.0"), testutil.VIP4B, layers.IPProtocolESP, big), false},
		{"from this host", otherIP(t, address("127.0.0.1"), testutil.VIP4B, layers.IPProtocolESP, big), false},
		{"an echo request", icmp(testutil.Client4, testutil.VIP4B, 8, 0), true},
		{"an echo request, ipv6", icmp(testutil.Client6, testutil.VIP6B, 128, 0), true},
		{"a redirect, ipv6", icmp(testutil.Client6, testutil.VIP6B, 137, 0), false},
		{"an ipv6 packet", otherIP(t, testutil.Client6, testutil.VIP6B, layers.IPProtocolESP, big), true},
		{"from a group, ipv6", otherIP(t, address("ff02::5"), testutil.VIP6B, layers.IPProtocolESP, big), false},
		{"from nowhere, ipv6", otherIP(t, address("::"), testutil.VIP6B, layers.IPProtocolESP, big), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forgetFlows(d)
			trace, _, err := d.Run(tt.frame())
			must(t, err)
			want := Trace{Verdict: VerdictDrop, Reason: Reason(lbReasonREASON_TOO_BIG_UNANSWERED), Rule: ruleL3, Member: memberA, Flow: TraceNew}
			if tt.answered {
				want.Verdict, want.Reason = VerdictTX, Reason(lbReasonREASON_TOO_BIG)
			}
			if trace != want {
				t.Errorf("%+v, want %+v", trace, want)
			}
		})
	}
}

// Of a flood only so many are answered in a tick; the next one has its own.
func TestTooBigAnswersAreRateLimited(t *testing.T) {
	d := newFixtureWith(t, Options{TooBigPerSecond: 2000}) // 2 a millisecond
	c := tunnelCase{kind: lb.ForwardIPIP}
	c.open(t, d)
	onOneCPU(t)
	f, _ := c.web(t, c.size(1500))
	for round := range 2 {
		must(t, d.SetClock(fixtureStart+time.Duration(round)*time.Millisecond))
		for i, want := range []lbReason{
			lbReasonREASON_TOO_BIG, lbReasonREASON_TOO_BIG, lbReasonREASON_TOO_BIG_RATE_LIMITED, lbReasonREASON_TOO_BIG_RATE_LIMITED,
		} {
			trace, _, err := d.Run(f())
			must(t, err)
			verdict := VerdictTX
			if want == lbReasonREASON_TOO_BIG_RATE_LIMITED {
				verdict = VerdictDrop
			}
			if trace.Reason != Reason(want) || trace.Verdict != verdict {
				t.Errorf("round %d, packet %d: %+v, want %s", round, i, trace, Reason(want))
			}
		}
	}
}
