package loader

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// reference finds a client's zone the plain way.
func reference(list []ZonePrefix, addr netip.Addr) uint32 {
	bits, leaf := -1, uint32(0)
	for _, z := range list {
		if z.Prefix.Contains(addr) && z.Prefix.Bits() > bits {
			bits, leaf = z.Prefix.Bits(), uint32(z.Zone)
			if z.OtherRegion {
				leaf |= zoneOtherRegion
			}
		}
	}
	return leaf
}

// search walks the trie as zone_search of bpf/include/zone.h does.
func search(t *testing.T, nodes []lbZoneNode, addr netip.Addr) uint32 {
	t.Helper()
	node := uint32(zoneRoot4)
	if addr.Is6() {
		node = zoneRoot6
	}
	for _, b := range addr.AsSlice() {
		child := nodes[node].Child[b]
		if child&zoneNode == 0 {
			return child
		}
		node = child &^ zoneNode
	}
	t.Errorf("%s: the trie goes on behind the last byte", addr)
	return 0
}

func zonePrefix(s string, zone uint8) ZonePrefix {
	return ZonePrefix{Prefix: netip.MustParsePrefix(s), Zone: zone}
}

func TestLongestPrefixWins(t *testing.T) {
	list := []ZonePrefix{
		zonePrefix("10.1.2.3/32", 1), zonePrefix("10.1.2.0/24", 2), zonePrefix("10.1.2.128/25", 3),
		zonePrefix("10.1.0.0/16", 4), zonePrefix("10.0.0.0/8", 5), zonePrefix("0.0.0.0/0", 6),
		zonePrefix("192.0.2.0/31", 7),
		{Prefix: netip.MustParsePrefix("10.1.2.192/26"), OtherRegion: true},
		zonePrefix("2001:db8::/32", 8), zonePrefix("2001:db8:a::/48", 9), zonePrefix("2001:db8:a::1/128", 10),
		zonePrefix("2001:db8:a:8000::/49", 11),
		{Prefix: netip.MustParsePrefix("2001:db8:b::/48")},
	}
	want := map[string]uint32{
		"10.1.2.3": 1, "10.1.2.4": 2, "10.1.2.127": 2, "10.1.2.128": 3, "10.1.2.191": 3,
		"10.1.2.192": zoneOtherRegion, "10.1.2.255": zoneOtherRegion, "10.1.3.0": 4, "10.0.255.255": 5, "10.255.0.1": 5,
		"9.255.255.255": 6, "11.0.0.0": 6, "255.255.255.255": 6, "192.0.2.0": 7, "192.0.2.1": 7, "192.0.2.2": 6,
		"2001:db8::1": 8, "2001:db8:a::2": 9, "2001:db8:a::1": 10, "2001:db8:a:7fff::1": 9, "2001:db8:a:8000::1": 11,
		"2001:db8:b::1": 0, "2001:db9::1": 0, "::1": 0, "::ffff:10.1.2.3": 0,
	}
	for _, order := range []string{"as listed", "backwards"} {
		if order == "backwards" {
			for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
				list[i], list[j] = list[j], list[i]
			}
		}
		nodes, err := buildZones(list, 64)
		if err != nil {
			t.Fatal(err)
		}
		for addr, leaf := range want {
			if got := search(t, nodes, netip.MustParseAddr(addr)); got != leaf {
				t.Errorf("%s: %s is in %#x, want %#x", order, addr, got, leaf)
			}
		}
	}
}

// randomPrefix is near others: prefixes nest and share bytes.
func randomPrefix(r *rand.Rand) netip.Prefix {
	if r.IntN(2) == 0 {
		a := [4]byte{10, byte(r.IntN(3)), byte(r.IntN(256)), byte(r.IntN(256))}
		return netip.PrefixFrom(netip.AddrFrom4(a), r.IntN(33)).Masked()
	}
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(r.IntN(2)), byte(r.IntN(3)), byte(r.IntN(256))}
	a[15] = byte(r.IntN(4))
	return netip.PrefixFrom(netip.AddrFrom16(a), r.IntN(129)).Masked()
}

// near is an address in, or next to, a prefix.
func near(r *rand.Rand, p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= byte(r.IntN(2)) << (7 - i%8)
	}
	addr, _ := netip.AddrFromSlice(b)
	switch r.IntN(4) {
	case 0:
		if next := addr.Next(); next.IsValid() {
			return next
		}
	case 1:
		if before := p.Addr().Prev(); before.IsValid() {
			return before
		}
	}
	return addr
}

func TestZoneTrieAgreesWithAPlainSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		seen := map[netip.Prefix]bool{}
		var list []ZonePrefix
		for range r.IntN(30) {
			p := randomPrefix(r)
			if !seen[p] {
				seen[p] = true
				list = append(list, ZonePrefix{Prefix: p, Zone: uint8(r.IntN(ZoneMax)), OtherRegion: r.IntN(5) == 0})
			}
		}
		nodes, err := buildZones(list, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			addr := near(r, randomPrefix(r))
			if len(list) > 0 && r.IntN(2) == 0 {
				addr = near(r, list[r.IntN(len(list))].Prefix)
			}
			if got, want := search(t, nodes, addr), reference(list, addr); got != want {
				t.Fatalf("%s is in %#x, want %#x, of %v", addr, got, want, list)
			}
		}
	}
}

// The program walks the trie that was built, in both halves of its map.
func TestProgramFindsTheZonesOfTheTrie(t *testing.T) {
	d := newFixture(t)
	setFixturePick(t, d, 0, memberA)
	list := []ZonePrefix{
		zonePrefix("10.1.2.3/32", zoneA), zonePrefix("10.0.0.0/8", zoneB), zonePrefix("198.51.100.0/25", zoneA),
		zonePrefix("2001:db8:a::1/128", zoneA), zonePrefix("2001:db8::/32", zoneB),
	}
	for range 3 {
		must(t, d.SetZones(list))
		for _, client := range []string{"10.1.2.3", "10.1.2.4", "198.51.100.127", "198.51.100.128", "203.0.113.1", "2001:db8:a::1", "2001:db8:a::2", "fd00::1"} {
			addr := netip.MustParseAddr(client)
			vip := ap(fixtureFrontends()[0].Address.Addr(), 80)
			if addr.Is6() {
				vip = ap(fixtureFrontends()[1].Address.Addr(), 80)
			}
			trace, _, err := d.Run(syn(t, ap(addr, 4000), vip)())
			if want := reference(list, addr); err != nil || uint32(trace.Zone) != want {
				t.Errorf("%s is in %d, want %d, %v", addr, trace.Zone, want, err)
			}
		}
		must(t, d.SetZones(nil))
	}
}

func TestZonesThatDoNotFitLeaveTheOldOnes(t *testing.T) {
	d := newFixture(t)
	var list []ZonePrefix
	for i := range 64 {
		list = append(list, ZonePrefix{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 1, 1}), 32), Zone: zoneB})
	}
	if err := d.SetZones(list); !errors.Is(err, ErrFull) {
		t.Fatalf("SetZones: %v, want ErrFull", err)
	}
	f := webFrom(t, "10.1.1.1")
	send(t, d, f, started(memberA, ruleTCP80, zoneA, newOther))
}
