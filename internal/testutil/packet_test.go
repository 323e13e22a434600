package testutil

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Every builder must give a frame that decodes completely, with checksums that
// verify, into the layers that were asked for.
func TestBuildersGiveWellFormedFrames(t *testing.T) {
	c4, v4 := netip.AddrPortFrom(Client4, 40000), netip.AddrPortFrom(VIP4, 443)
	c6, v6 := netip.AddrPortFrom(Client6, 40000), netip.AddrPortFrom(VIP6, 443)
	options := []byte{1, 1, 148, 4, 0, 0, 1, 0}
	tests := []struct {
		name  string
		frame []byte
		want  string
	}{
		{"tcp over ipv4", TCP(t, c4, v4), "Ethernet IPv4 TCP"},
		{"syn over ipv6", SYN(t, c6, v6), "Ethernet IPv6 TCP"},
		{"udp over ipv4", UDP(t, c4, v4), "Ethernet IPv4 UDP Payload"},
		{"udp over ipv6", UDP(t, c6, v6), "Ethernet IPv6 UDP Payload"},
		{"one tag", TCP(t, c4, v4, VLAN(7)), "Ethernet Dot1Q IPv4 TCP"},
		{"two tags", TCP(t, c6, v6, VLAN(7, 8)), "Ethernet Dot1Q Dot1Q IPv6 TCP"},
		{"ipv4 options", TCP(t, c4, v4, IPv4Options(options)), "Ethernet IPv4 TCP"},
		{"extension headers", UDP(t, c6, v6, HopByHop(0), DestOptions(1)), "Ethernet IPv6 IPv6HopByHop IPv6Destination UDP Payload"},
		{"ipv6 fragment", UDP(t, c6, v6, Fragment(0, true)), "Ethernet IPv6 IPv6Fragment Fragment"},
		{"ipv4 fragment", UDP(t, c4, v4, Fragment(0, true)), "Ethernet IPv4 Fragment"},
		{"echo", Echo(t, Client4, VIP4), "Ethernet IPv4 ICMPv4 Payload"},
		{"echo6", Echo(t, Client6, VIP6), "Ethernet IPv6 ICMPv6 ICMPv6Echo Payload"},
		{"icmp error", ICMPError(t, Router4, VIP4, 3, 4, [4]byte{0, 0, 5, 0}, TCP(t, v4, c4)), "Ethernet IPv4 ICMPv4 Payload"},
		{"icmpv6 error", ICMPError(t, Router6, VIP6, 2, 0, [4]byte{0, 0, 5, 0}, TCP(t, v6, c6)), "Ethernet IPv6 ICMPv6 Payload"},
		{"arp", ARPRequest(t, ClientMAC, Client4, VIP4), "Ethernet ARP Payload"},
		{"arp reply", ARPReply(t, GatewayMAC, VIP4, ClientMAC, Client4), "Ethernet ARP Payload"},
		{"solicitation", NeighborSolicitation(t, ClientMAC, Client6, VIP6), "Ethernet IPv6 ICMPv6 ICMPv6NeighborSolicitation"},
		{"advertisement", NeighborAdvertisement(t, GatewayMAC, VIP6, ClientMAC, Client6, NDSolicited), "Ethernet IPv6 ICMPv6 ICMPv6NeighborAdvertisement"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Decode(tt.frame)
			var got []string
			for _, l := range p.Layers() {
				got = append(got, l.LayerType().String())
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("layers (-want +got):\n%s\n%s", diff, Dump(tt.frame))
			}
			if p.ErrorLayer() != nil {
				t.Errorf("undecodable: %v", p.ErrorLayer().Error())
			}
			checkChecksums(t, p)
		})
	}
}

// checkChecksums verifies the checksums of all layers. A fragment's transport
// cannot be.
func checkChecksums(t *testing.T, p gopacket.Packet) {
	t.Helper()
	for _, l := range p.Layers() {
		if l, ok := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if err := l.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
				t.Error(err)
			}
		}
	}
	err, mismatches := p.VerifyChecksums()
	if err != nil {
		t.Errorf("verify checksums: %v", err)
	}
	for _, m := range mismatches {
		t.Errorf("layer %d has checksum %#x, want %#x", m.LayerIndex, m.Actual, m.Correct)
	}
}

func TestMutationsReachTheFrame(t *testing.T) {
	src, dst := netip.AddrPortFrom(Client4, 1), netip.AddrPortFrom(VIP4, 2)
	frame := TCP(t, src, dst, Flags("SA"), TTL(9), MACs(RouterMAC, BackendAMAC), Payload([]byte("payload")))
	p := Decode(frame)
	tcp := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !tcp.SYN || !tcp.ACK || tcp.PSH || string(tcp.LayerPayload()) != "payload" {
		t.Errorf("tcp is wrong:\n%s", Dump(frame))
	}
	if ip := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ip.TTL != 9 {
		t.Errorf("ttl = %d, want 9", ip.TTL)
	}
	if !bytes.Equal(frame[:6], BackendAMAC) || !bytes.Equal(frame[6:12], RouterMAC) {
		t.Errorf("link addresses are wrong:\n%s", Dump(frame))
	}
	last := func(p *Packet) { p.IP4.Checksum, p.KeepChecksums = 1, true }
	if frame = TCP(t, src, dst, last); frame[24] != 0 || frame[25] != 1 {
		t.Errorf("checksum was not kept:\n%s", Dump(frame))
	}
}

func TestDiffNamesTheFieldThatDiffers(t *testing.T) {
	src, dst := netip.AddrPortFrom(Client4, 1), netip.AddrPortFrom(VIP4, 2)
	diff := Diff(TCP(t, src, dst), TCP(t, src, dst, TTL(9)))
	if !strings.Contains(diff, `TTL=9"`) {
		t.Errorf("diff does not name the TTL:\n%s", diff)
	}
	if diff := Diff(TCP(t, src, dst), TCP(t, src, dst)); diff != "" {
		t.Errorf("equal frames differ:\n%s", diff)
	}
}
