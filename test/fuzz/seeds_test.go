package fuzz

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	. "l4lb/internal/testutil"
)

// Addresses that mutations put into packets: VIPs of the configuration, one that
// is nobody's, and clients of every kind.
var (
	targets = addrs(
		"192.0.2.10", "192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.14", "192.0.2.15", "192.0.2.16",
		"192.0.2.17", "192.0.2.18", "192.0.2.19", "203.0.113.9", "203.0.113.70", "203.0.113.200",
		"2001:db8:f::10", "2001:db8:f::11", "2001:db8:f::12", "2001:db8:f:0:1::7", "2001:db8:f::15",
		"2001:db8:f::17", "2001:db8:f::18", "2001:db8:f::19", "2001:db8:e::9", "2001:db8:d::9",
	)
	clients = addrs(
		"198.51.100.7", "198.51.100.200", "10.1.200.7", "10.2.200.7", "10.99.0.7", "10.200.0.7", "192.0.2.10",
		"2001:db8:c::7", "2001:db8:a:1::7", "2001:db8:b:1::7", "2001:db8:99::7", "2001:db8:f::10",
	)
)

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// seeds are the frames that mutations start from: those of the captures under
// examples, and one of every kind that the tables of pkg/loader have.
func seeds(tb testing.TB) [][]byte {
	tb.Helper()
	list := captured(tb)
	for _, v := range [][2]netip.Addr{{Client4, VIP4}, {Client6, VIP6}, {ZoneAClient4, VIP4B}, {ZoneBClient6, VIP6B}} {
		list = append(list, built(tb, v[0], v[1])...)
	}
	return list
}

func captured(tb testing.TB) (list [][]byte) {
	tb.Helper()
	files, err := filepath.Glob("../../examples/replay/*/*.pcap")
	if err != nil || len(files) == 0 {
		tb.Fatalf("captures: %v, %v", files, err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			tb.Fatal(err)
		}
		defer f.Close()
		r, err := pcapgo.NewReader(f)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		for {
			frame, _, err := r.ReadPacketData()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				tb.Fatalf("%s: %v", name, err)
			}
			list = append(list, frame)
		}
	}
	return list
}

func built(tb testing.TB, src, dst netip.Addr) [][]byte {
	from, web, dns := netip.AddrPortFrom(src, 4000), netip.AddrPortFrom(dst, 80), netip.AddrPortFrom(dst, 53)
	v6 := src.Is6()
	list := [][]byte{
		SYN(tb, from, web), TCP(tb, from, web), TCP(tb, from, web, Flags("SA")), TCP(tb, from, web, Flags("R")),
		TCP(tb, from, web, VLAN(7)), TCP(tb, from, web, VLAN(7, 8)), UDP(tb, from, dns), UDP(tb, from, dns, Payload(make([]byte, 1400))),
		TCP(tb, from, web, Payload(make([]byte, 1440))), SYN(tb, from, web, TTL(1)),
		UDP(tb, from, dns, Fragment(0, true)), UDP(tb, from, dns, Fragment(90, false)), TCP(tb, from, web, Fragment(1, true)),
		Echo(tb, src, dst), Echo(tb, src, dst, TTL(1)),
		IP(tb, src, dst, layers.IPProtocolESP, make([]byte, 40)), IP(tb, src, dst, layers.IPProtocolGRE, make([]byte, 40)),
		IP(tb, src, dst, layers.IPProtocolAH, make([]byte, 40)), IP(tb, src, dst, layers.IPProtocolSCTP, make([]byte, 40)),
	}
	answer := TCP(tb, web, from) // of ours, for an error to quote
	if v6 {
		return append(list,
			ICMPError(tb, Router6, dst, 2, 0, [4]byte{2: 5}, answer), ICMPError(tb, Router6, dst, 3, 0, [4]byte{}, answer),
			ICMPError(tb, Router6, dst, 1, 4, [4]byte{}, answer),
			TCP(tb, from, web, HopByHop(0), DestOptions(1)), UDP(tb, from, dns, DestOptions(0), DestOptions(0), DestOptions(0)),
			NeighborSolicitation(tb, ClientMAC, src, dst), NeighborSolicitation(tb, ClientMAC, netip.IPv6Unspecified(), dst),
		)
	}
	return append(list,
		ICMPError(tb, Router4, dst, 3, 4, [4]byte{2: 5}, answer), ICMPError(tb, Router4, dst, 11, 0, [4]byte{}, answer),
		ICMPError(tb, Router4, dst, 12, 0, [4]byte{}, answer),
		TCP(tb, from, web, IPv4Options([]byte{1, 1, 1, 0})), ARPRequest(tb, ClientMAC, src, dst), ARPReply(tb, ClientMAC, src, GatewayMAC, dst),
	)
}
