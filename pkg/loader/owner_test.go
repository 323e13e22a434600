package loader

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// ARP requests for a VIP are answered with the interface's link address.
func TestARPRequestsForAVIPAreAnswered(t *testing.T) {
	d := newFixture(t)
	client, router := testutil.ClientMAC, testutil.RouterMAC
	unspecified := netip.IPv4Unspecified()
	tests := []struct {
		name         string
		sender       net.HardwareAddr
		senderIP, ip netip.Addr
		mutate       []testutil.Mutate
	}{
		{"a broadcast request", client, testutil.Client4, testutil.VIP4, nil},
		{"a request for a vip with L3_DEFAULT", router, testutil.Router4, testutil.VIP4B, nil},
		{"a unicast request", client, testutil.Client4, testutil.VIP4, []testutil.Mutate{testutil.MACs(client, testutil.GatewayMAC)}},
		{"a request behind a tag", client, testutil.Client4, testutil.VIP4, []testutil.Mutate{testutil.VLAN(7)}},
		{"a request behind two tags", client, testutil.Client4, testutil.VIP4, []testutil.Mutate{testutil.VLAN(7, 8), serviceTag}},
		{"an address conflict probe", client, unspecified, testutil.VIP4, nil},
		{"a claim by another host", client, testutil.VIP4, testutil.VIP4, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := testutil.ARPRequest(t, tt.sender, tt.senderIP, tt.ip, tt.mutate...)
			tagsOnly := append(tt.mutate, testutil.MACs(testutil.GatewayMAC, tt.sender))
			out := testutil.ARPReply(t, testutil.GatewayMAC, tt.ip, tt.sender, tt.senderIP, tagsOnly...)
			send(t, d, raw(in), answered(lbReasonREASON_ARP_REPLY, out))
		})
	}
}

// Anything that is no request for an IPv4 address over Ethernet is passed.
func TestOtherARPIsPassedUntouched(t *testing.T) {
	d := newFixture(t)
	for name, change := range map[string]func(*layers.ARP){
		"a reply":                  func(a *layers.ARP) { a.Operation = layers.ARPReply },
		"a reverse request":        func(a *layers.ARP) { a.Operation = 3 },
		"another kind of link":     func(a *layers.ARP) { a.AddrType = 6 },
		"another protocol":         func(a *layers.ARP) { a.Protocol = layers.EthernetTypeIPv6 },
		"link addresses too long":  func(a *layers.ARP) { a.HwAddressSize = 8 },
		"protocol addresses of 16": func(a *layers.ARP) { a.ProtAddressSize = 16 },
	} {
		t.Run(name, func(t *testing.T) {
			send(t, d, raw(testutil.ARPRequest(t, testutil.ClientMAC, testutil.Client4, testutil.VIP4,
				func(p *testutil.Packet) { change(p.ARP); p.KeepLengths = true })), passed(0))
		})
	}
}

const solicitedOverride = testutil.NDSolicited | testutil.NDOverride

// Neighbour solicitations for a VIP are answered (RFC 4861 7.2.4).
func TestSolicitationsForAVIPAreAnswered(t *testing.T) {
	d := newFixture(t)
	client := testutil.ClientMAC
	advert := func(flags testutil.NDFlags, mutate ...testutil.Mutate) []byte {
		return testutil.NeighborAdvertisement(t, testutil.GatewayMAC, testutil.VIP6, client, testutil.Client6, flags, mutate...)
	}
	solicit := func(mutate ...testutil.Mutate) []byte {
		return testutil.NeighborSolicitation(t, client, testutil.Client6, testutil.VIP6, mutate...)
	}
	noOption := func(p *testutil.Packet) { p.Payload = p.Payload[:20] }
	unicast := func(p *testutil.Packet) {
		p.Eth.DstMAC, p.IP6.DstIP = testutil.GatewayMAC, testutil.VIP6.AsSlice()
	}
	tests := []struct {
		name    string
		in, out []byte
	}{
		{"address resolution", solicit(), advert(solicitedOverride)},
		{"behind a tag", solicit(testutil.VLAN(7)), advert(solicitedOverride, testutil.VLAN(7))},
		{"behind two tags", solicit(testutil.VLAN(7, 8), serviceTag), advert(solicitedOverride, testutil.VLAN(7, 8), serviceTag)},
		{"a unicast probe of an unreachable neighbour", solicit(unicast), advert(solicitedOverride)},
		{"a unicast probe without our address grows by the option", solicit(unicast, noOption), advert(solicitedOverride)},
		{"without an option behind a tag", solicit(noOption, testutil.VLAN(7)), advert(solicitedOverride, testutil.VLAN(7))},
		{
			"with flow label and traffic class", solicit(func(p *testutil.Packet) { p.IP6.TrafficClass, p.IP6.FlowLabel = 0xc0, 0x12345 }),
			advert(solicitedOverride, func(p *testutil.Packet) { p.IP6.TrafficClass, p.IP6.FlowLabel = 0xc0, 0x12345 }),
		},
		{"with reserved bits set", solicit(func(p *testutil.Packet) { p.Payload[3] = 0xff }), advert(solicitedOverride)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			send(t, d, raw(tt.in), answered(lbReasonREASON_ND_REPLY, tt.out))
		})
	}
}

// Who tests whether a VIP is taken has no address yet: the answer goes to all
// nodes, not solicited (RFC 4861 7.2.4).
func TestDuplicateAddressDetectionIsAnsweredToAllNodes(t *testing.T) {
	d := newFixture(t)
	allNodes := netip.MustParseAddr("ff02::1")
	out := testutil.NeighborAdvertisement(t, testutil.GatewayMAC, testutil.VIP6,
		testutil.MAC("33:33:00:00:00:01"), allNodes, testutil.NDOverride)
	probe := func(option ...byte) []byte {
		return testutil.NeighborSolicitation(t, testutil.ClientMAC, netip.IPv6Unspecified(), testutil.VIP6,
			func(p *testutil.Packet) { p.Payload = append(p.Payload[:20], option...) })
	}
	send(t, d, raw(probe()), answered(lbReasonREASON_ND_REPLY, out))
	// Linux sends a nonce along (RFC 7527).
	send(t, d, raw(probe(14, 1, 1, 2, 3, 4, 5, 6)), answered(lbReasonREASON_ND_REPLY, out))
}

// More options than one stay behind as padding of the frame.
func TestSolicitationsWithMoreOptionsAreAnswered(t *testing.T) {
	d := newFixture(t)
	in := testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.VIP6,
		func(p *testutil.Packet) { p.Payload = append(p.Payload, 14, 1, 1, 2, 3, 4, 5, 6) })
	out := testutil.NeighborAdvertisement(t, testutil.GatewayMAC, testutil.VIP6, testutil.ClientMAC, testutil.Client6, solicitedOverride)
	send(t, d, raw(in), answered(lbReasonREASON_ND_REPLY, append(out, 14, 1, 1, 2, 3, 4, 5, 6)))
}

// A solicitation that was forwarded by a router is a forgery (RFC 4861 7.1.1).
func TestSolicitationsFromAfarArePassedUntouched(t *testing.T) {
	d := newFixture(t)
	for _, hops := range []uint8{0, 1, 64, 254} {
		send(t, d, raw(testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, testutil.VIP6,
			testutil.TTL(hops))), passed(0))
	}
	advert := testutil.NeighborAdvertisement(t, testutil.RouterMAC, testutil.VIP6, testutil.MAC("33:33:00:00:00:01"),
		netip.MustParseAddr("ff02::1"), testutil.NDOverride)
	send(t, d, raw(advert), passed(0))
}

// One that was sent to a VIP and is not answered goes nowhere: the kernel, which
// has no VIP, would route it.
func TestStraySolicitationsAreNotRouted(t *testing.T) {
	d := newFixture(t)
	direct := func(target netip.Addr, hops uint8) []byte {
		b := testutil.NeighborSolicitation(t, testutil.ClientMAC, testutil.Client6, target, testutil.TTL(hops))
		copy(b, testutil.GatewayMAC[:])
		vip := testutil.VIP6.As16()
		copy(b[14+24:], vip[:])
		return b
	}
	out := testutil.NeighborAdvertisement(t, testutil.GatewayMAC, testutil.VIP6, testutil.ClientMAC, testutil.Client6, solicitedOverride)
	send(t, d, raw(direct(testutil.VIP6, 255)), answered(lbReasonREASON_ND_REPLY, out))
	send(t, d, raw(direct(testutil.VIP6, 64)), dropped(lbReasonREASON_NO_RULE, 0, 0))
	send(t, d, raw(direct(testutil.Client6, 255)), dropped(lbReasonREASON_NO_RULE, 0, 0))
}
