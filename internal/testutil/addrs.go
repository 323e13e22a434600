package testutil

import (
	"net"
	"net/netip"
)

// The addresses of tests, by role. They are documentation addresses (RFC 5737,
// RFC 3849) and, for zones, private ones, so that a frame that escapes reaches
// nobody.
var (
	VIP4     = netip.MustParseAddr("192.0.2.10")
	VIP4B    = netip.MustParseAddr("192.0.2.11")
	Client4  = netip.MustParseAddr("198.51.100.7") // in no zone
	Gateway4 = netip.MustParseAddr("192.0.2.1")
	Router4  = netip.MustParseAddr("192.0.2.254")
	Outside4 = netip.MustParseAddr("203.0.113.9") // nothing of ours

	ZoneAClient4  = netip.MustParseAddr("10.1.200.7")
	ZoneBClient4  = netip.MustParseAddr("10.2.200.7")
	ZoneABackend4 = netip.MustParseAddr("10.1.0.11")
	ZoneBBackend4 = netip.MustParseAddr("10.2.0.11")

	VIP6     = netip.MustParseAddr("2001:db8:f::10")
	VIP6B    = netip.MustParseAddr("2001:db8:f::11")
	Client6  = netip.MustParseAddr("2001:db8:c::7") // in no zone
	Gateway6 = netip.MustParseAddr("2001:db8:f::1")
	Router6  = netip.MustParseAddr("2001:db8:f::fe")
	Outside6 = netip.MustParseAddr("2001:db8:e::9") // nothing of ours

	ZoneAClient6  = netip.MustParseAddr("2001:db8:a:1::7")
	ZoneBClient6  = netip.MustParseAddr("2001:db8:b:1::7")
	ZoneABackend6 = netip.MustParseAddr("2001:db8:a::11")
	ZoneBBackend6 = netip.MustParseAddr("2001:db8:b::11")
)

// The link addresses of tests, by role. All are locally administered.
var (
	ClientMAC    = MAC("02:4c:00:00:01:07")
	GatewayMAC   = MAC("02:4c:00:00:00:01")
	RouterMAC    = MAC("02:4c:00:00:00:fe")
	BackendAMAC  = MAC("02:4c:0a:01:00:0b")
	BackendBMAC  = MAC("02:4c:0a:02:00:0b")
	BroadcastMAC = MAC("ff:ff:ff:ff:ff:ff")
)

// MAC parses a link address and panics where it is none.
func MAC(s string) net.HardwareAddr {
	mac, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return mac
}
