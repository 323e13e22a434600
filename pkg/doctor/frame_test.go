package doctor

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"l4lb/pkg/announce"
)

// The questions are read back by an independent decoder.
func TestQuestions(t *testing.T) {
	mac := [6]byte{2, 0x4c, 0, 0, 0, 1}
	p := gopacket.NewPacket(announce.ARPRequest(mac, netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("192.0.2.10")), layers.LayerTypeEthernet, gopacket.Default)
	arp, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP)
	if !ok || arp.Operation != layers.ARPRequest || netip.AddrFrom4([4]byte(arp.DstProtAddress)).String() != "192.0.2.10" ||
		[6]byte(arp.SourceHwAddress) != mac || netip.AddrFrom4([4]byte(arp.SourceProtAddress)).String() != "10.1.0.2" {
		t.Errorf("ARP request: %v", p)
	}
	frame := solicitation(mac, netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:f::12:3456"))
	p = gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	ip, ok := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	if !ok || ip.HopLimit != 255 || ip.DstIP.String() != "ff02::1:ff12:3456" {
		t.Errorf("solicitation: %v", p)
	}
	nd, ok := p.Layer(layers.LayerTypeICMPv6NeighborSolicitation).(*layers.ICMPv6NeighborSolicitation)
	if !ok || nd.TargetAddress.String() != "2001:db8:f::12:3456" || len(nd.Options) != 1 {
		t.Errorf("solicitation: %v", p)
	}
	if sum := checksum(ip16(ip.SrcIP), ip16(ip.DstIP), frame[ethernetHeader+ipv6Header:]); sum != 0 {
		t.Errorf("the checksum is wrong by %#x", sum)
	}
}

func ip16(ip []byte) [16]byte { return [16]byte(ip) }

func TestAnswersAreRead(t *testing.T) {
	mac := [6]byte{2, 0, 0, 0, 0, 7}
	reply := announce.ARPRequest(mac, netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("10.1.0.2"))
	if _, _, ok := readARP(reply); ok {
		t.Error("a request is taken for a reply")
	}
	reply[ethernetHeader+7] = arpReply
	if a, got, ok := readARP(reply); !ok || got != mac || a.String() != "192.0.2.10" {
		t.Errorf("ARP reply: %v %v %v", a, got, ok)
	}
	advert := solicitation(mac, netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("2001:db8:f::10"))
	if _, _, ok := readAdvertisement(advert); ok {
		t.Error("a solicitation is taken for an advertisement")
	}
	advert[ethernetHeader+ipv6Header], advert[ethernetHeader+ipv6Header+24] = typeAdvertise, 2
	if a, got, ok := readAdvertisement(advert); !ok || got != mac || a.String() != "2001:db8:f::10" {
		t.Errorf("advertisement: %v %v %v", a, got, ok)
	}
	for n := range advert {
		readAdvertisement(advert[:n]) // no panic
		readARP(reply[:min(n, len(reply))])
	}
}
