package loader

import (
	"cmp"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
	"l4lb/pkg/encap"
	"l4lb/pkg/lb"
	"l4lb/pkg/model"
)

const (
	tunnelLinkMTU = 1500
	tunnelVNI     = 0x4c4c4c
	tunnelGUE     = 6080
	tunnelGENEVE  = 6081
)

var tunnelKinds = []lb.Forwarding{lb.ForwardIPIP, lb.ForwardGUE, lb.ForwardGENEVE}

// tunnelCase is a tunnel to member A, and the flow that goes through it.
type tunnelCase struct {
	kind         lb.Forwarding
	outer6       bool
	inner6       bool
	source       netip.Prefix // not valid: the gateway's address
	leavesByPort uint32       // 0: the one that it came in at
	linkMTU      int          // 0: tunnelLinkMTU
}

func (c tunnelCase) String() string {
	version := map[bool]int{false: 4, true: 6}
	return fmt.Sprintf("%s, IPv%d in IPv%d", c.kind, version[c.inner6], version[c.outer6])
}

// eachTunnel has every kind with every mix of families.
func eachTunnel(t *testing.T, test func(t *testing.T, c tunnelCase)) {
	t.Helper()
	for _, kind := range tunnelKinds {
		for _, outer6 := range []bool{false, true} {
			for _, inner6 := range []bool{false, true} {
				c := tunnelCase{kind: kind, outer6: outer6, inner6: inner6}
				t.Run(c.String(), func(t *testing.T) { test(t, c) })
			}
		}
	}
}

func (c tunnelCase) tunnel() encap.Tunnel {
	out := encap.Tunnel{Kind: c.kind, Source: c.source, Dest: testutil.ZoneABackend4, LinkMTU: cmp.Or(c.linkMTU, tunnelLinkMTU)}
	gateway := testutil.Gateway4
	if c.outer6 {
		out.Dest, gateway = testutil.ZoneABackend6, testutil.Gateway6
	}
	if !c.source.IsValid() {
		out.Source = netip.PrefixFrom(gateway, gateway.BitLen())
	}
	switch c.kind {
	case lb.ForwardGUE:
		out.Port = tunnelGUE
	case lb.ForwardGENEVE:
		out.Port, out.VNI = tunnelGENEVE, tunnelVNI
	}
	return out
}

// fits is the longest packet that the tunnel takes.
func (c tunnelCase) fits() int {
	return cmp.Or(c.linkMTU, tunnelLinkMTU) - encap.Overhead(c.kind, c.outer6)
}

// open makes the tunnel that to member A, which new flows of all clients go to.
func (c tunnelCase) open(t *testing.T, d *Datapath) {
	t.Helper()
	header, err := c.tunnel().Header()
	must(t, err)
	changeMember(t, d, memberA, func(m *Member) {
		m.Tunnel = header
		if c.leavesByPort != 0 {
			m.IfIndex = c.leavesByPort
		}
	})
	newFlowsGoTo(t, d, memberA)
}

// around is the frame as it leaves the gateway, for a packet of a flow.
func (c tunnelCase) around(t *testing.T, frame []byte, flow model.Packet) []byte {
	t.Helper()
	hash := model.FlowHash(&flow, 0)
	spec := c.tunnel()
	out := testutil.Tunnel{
		Kind: string(c.kind), Dst: spec.Dest, SrcMAC: testutil.GatewayMAC, DstMAC: testutil.BackendAMAC,
		SrcPort: 0xc000 | uint16(hash)&0x3fff, DstPort: spec.Port, VNI: spec.VNI, FlowLabel: uint32(hash>>14) & 0xfffff,
		KeepTags: c.leavesByPort == 0,
	}
	out.Src = withHostBits(spec.Source, hash)
	return out.Around(t, frame)
}

// withHostBits puts the low bits of n into the host bits of a prefix.
func withHostBits(p netip.Prefix, n uint64) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := range min(len(b)*8-p.Bits(), 64) {
		if n>>bit&1 != 0 {
			b[len(b)-1-bit/8] |= 1 << (bit % 8)
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// web is a TCP packet of the case's family for rule ruleTCP80, and its flow.
func (c tunnelCase) web(t *testing.T, base ...testutil.Mutate) (frame, model.Packet) {
	src, dst := ap(testutil.Client4, 4000), ap(testutil.VIP4, 80)
	if c.inner6 {
		src, dst = ap(testutil.Client6, 4000), ap(testutil.VIP6, 80)
	}
	return tcp(t, src, dst, base...), model.Packet{
		Src: src.Addr(), Dst: dst.Addr(), Protocol: 6, SrcPort: src.Port(), DstPort: dst.Port(),
	}
}

func tos(n uint8) testutil.Mutate {
	return func(p *testutil.Packet) {
		if p.IP4 != nil {
			p.IP4.TOS = n
		} else {
			p.IP6.TrafficClass = n
		}
	}
}

// size makes the IP packet of a TCP frame so many bytes long.
func (c tunnelCase) size(n int) testutil.Mutate {
	headers := 40
	if c.inner6 {
		headers = 60
	}
	return func(p *testutil.Packet) {
		p.Payload = make([]byte, n-headers)
		for i := range p.Payload {
			p.Payload[i] = byte(i)
		}
	}
}

// sendTunnelled sends a frame twice: its flow begins, and is followed.
func (c tunnelCase) sendTunnelled(t *testing.T, d *Datapath, f frame, flow model.Packet, rule uint32) {
	t.Helper()
	verdict := VerdictTX
	if c.leavesByPort != 0 {
		verdict = VerdictRedirect
	}
	event := newOther
	for _, want := range []outcome{started(memberA, rule, 0, event), followed(memberA, rule, 0, confirmed)} {
		want.Verdict, want.out = verdict, c.around(t, f(), flow)
		send(t, d, f, want)
	}
}

func TestTunnels(t *testing.T) {
	tests := []struct {
		name   string
		mutate []testutil.Mutate
	}{
		{"a packet", nil},
		{"a packet with a tag", []testutil.Mutate{testutil.VLAN(7)}},
		{"a packet with two tags", []testutil.Mutate{testutil.VLAN(7, 8), serviceTag}},
		{"a short packet in a padded frame", []testutil.Mutate{testutil.Payload(nil)}},
		{"not ECN-capable, expedited", []testutil.Mutate{tos(0xb8)}},
		{"ECT(1)", []testutil.Mutate{tos(0x01)}},
		{"ECT(0)", []testutil.Mutate{tos(0x02)}},
		{"congestion experienced", []testutil.Mutate{tos(0x03)}},
		{"every bit of the type of service", []testutil.Mutate{tos(0xff)}},
		{"a TTL of 1", []testutil.Mutate{testutil.TTL(1)}},
	}
	eachTunnel(t, func(t *testing.T, c tunnelCase) {
		d := newFixture(t)
		prepareManyRuns(t, d)
		for _, port := range []uint32{0, TestIfIndex + 1} {
			c.leavesByPort = port
			c.open(t, d)
			for _, tt := range tests {
				t.Run(fmt.Sprintf("%s, out of %d", tt.name, port), func(t *testing.T) {
					forgetFlows(d)
					f, flow := c.web(t, tt.mutate...)
					c.sendTunnelled(t, d, f, flow, ruleTCP80)
				})
			}
		}
	})
}

// The longest packet that fits makes an outer packet of the link's MTU; what
// follows it in its frame is left behind.
func TestTunnelsTakePacketsUpToTheirMTU(t *testing.T) {
	eachTunnel(t, func(t *testing.T, c tunnelCase) {
		d := newFixture(t)
		c.open(t, d)
		for _, size := range []int{c.fits() - 1, c.fits()} {
			forgetFlows(d)
			f, flow := c.web(t, c.size(size))
			c.sendTunnelled(t, d, f, flow, ruleTCP80)
			if n := len(c.around(t, f(), flow)) - 14; n != size+encap.Overhead(c.kind, c.outer6) || n > tunnelLinkMTU {
				t.Errorf("a packet of %d bytes makes one of %d", size, n)
			}
			trailed := raw(append(f(), make([]byte, 100)...))
			want := followed(memberA, ruleTCP80, 0)
			want.out = c.around(t, f(), flow)
			send(t, d, trailed, want)
		}
	})
}

// Protocols without ports are told apart by addresses and protocol.
func TestTunnelsCarryEveryProtocol(t *testing.T) {
	eachTunnel(t, func(t *testing.T, c tunnelCase) {
		d := newFixture(t)
		c.open(t, d)
		src, dst := testutil.Client4, testutil.VIP4B
		if c.inner6 {
			src, dst = testutil.Client6, testutil.VIP6B
		}
		protocols := []layers.IPProtocol{layers.IPProtocolESP, layers.IPProtocolGRE}
		if !c.inner6 { // in IPv6 it is an extension header
			protocols = append(protocols, layers.IPProtocolAH)
		}
		for _, proto := range protocols {
			f := otherIP(t, src, dst, proto, make([]byte, 40))
			c.sendTunnelled(t, d, f, model.Packet{Src: src, Dst: dst, Protocol: uint8(proto)}, ruleL3)
		}
		odd := ipOptions(options8)
		if c.inner6 {
			odd = testutil.DestOptions(1)
		}
		f, flow := c.web(t, odd)
		c.sendTunnelled(t, d, f, flow, ruleTCP80)
	})
}

// The host bits of a source prefix differ by flow, and stay for one.
func TestTunnelSourcesTellFlowsApart(t *testing.T) {
	for _, tt := range []struct {
		c    tunnelCase
		want int // distinct sources
	}{
		{tunnelCase{kind: lb.ForwardIPIP, source: netip.MustParsePrefix("10.9.0.0/29")}, 8},
		{tunnelCase{kind: lb.ForwardIPIP, inner6: true, source: netip.MustParsePrefix("10.9.0.0/30")}, 4},
		{tunnelCase{kind: lb.ForwardIPIP, outer6: true, source: netip.MustParsePrefix("2001:db8:9::/125")}, 8},
		{tunnelCase{kind: lb.ForwardIPIP, outer6: true, source: netip.MustParsePrefix("2001:db8:9::/64")}, 64},
		{tunnelCase{kind: lb.ForwardGUE, source: netip.MustParsePrefix("10.9.0.1/32")}, 1},
	} {
		t.Run(fmt.Sprintf("%s from %s", tt.c, tt.c.source), func(t *testing.T) {
			d := newFixture(t)
			tt.c.open(t, d)
			sources := map[netip.Addr]bool{}
			for port := range uint16(64) {
				_, flow := tt.c.web(t)
				flow.SrcPort += port
				f := tcp(t, ap(flow.Src, flow.SrcPort), ap(flow.Dst, flow.DstPort))
				tt.c.sendTunnelled(t, d, f, flow, ruleTCP80)
				sources[withHostBits(tt.c.source, model.FlowHash(&flow, 0))] = true
			}
			if len(sources) != tt.want {
				t.Errorf("64 flows have %d sources, want %d", len(sources), tt.want)
			}
		})
	}
}

// A changed tunnel holds for the next packet of a flow, as often as it changes;
// without one the frame goes over the link again.
func TestTunnelsChangeUnderAFlow(t *testing.T) {
	d := newFixture(t)
	c := tunnelCase{kind: lb.ForwardGUE}
	c.open(t, d)
	f, flow := c.web(t)
	c.sendTunnelled(t, d, f, flow, ruleTCP80)
	for _, kind := range []lb.Forwarding{lb.ForwardIPIP, lb.ForwardGENEVE, lb.ForwardGENEVE, lb.ForwardGUE} {
		c.kind, c.outer6 = kind, !c.outer6
		c.open(t, d)
		want := followed(memberA, ruleTCP80, 0)
		want.out = c.around(t, f(), flow)
		send(t, d, f, want)
	}
	changeMember(t, d, memberA, func(m *Member) { m.Tunnel = encap.Header{} })
	send(t, d, f, followed(memberA, ruleTCP80, 0))
}

// A member whose link address is lost is not sent anything.
func TestTunnelWithoutALinkAddress(t *testing.T) {
	d := newFixture(t)
	c := tunnelCase{kind: lb.ForwardIPIP}
	c.open(t, d)
	f, flow := c.web(t)
	c.sendTunnelled(t, d, f, flow, ruleTCP80)
	changeMember(t, d, memberA, func(m *Member) { m.IfIndex = 0 })
	want := dropped(lbReasonREASON_NO_NEIGHBOUR, ruleTCP80, memberA)
	want.Flow = TraceHit
	send(t, d, f, want)
}
