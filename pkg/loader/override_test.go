package loader

import (
	"net/netip"
	"testing"
)

func TestOverridingPrefixesWinOverLongerOnes(t *testing.T) {
	nodes, err := buildZones([]ZonePrefix{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Zone: zoneA},
		{Prefix: netip.MustParsePrefix("10.200.1.0/24"), Zone: zoneB},
		{Prefix: netip.MustParsePrefix("10.200.0.0/16"), Overrides: true},
		{Prefix: netip.MustParsePrefix("10.200.9.0/24"), OtherRegion: true, Overrides: true},
	}, 64)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]uint32{
		"10.1.0.1": zoneA, "10.199.255.255": zoneA, "10.201.0.0": zoneA,
		"10.200.0.1": 0, "10.200.1.1": 0, "10.200.9.1": zoneOtherRegion, "10.200.10.1": 0,
	} {
		leaf := uint32(zoneNode | zoneRoot4)
		for _, b := range netip.MustParseAddr(addr).AsSlice() {
			if leaf&zoneNode == 0 {
				break
			}
			leaf = nodes[leaf&^zoneNode].Child[b]
		}
		if leaf != want {
			t.Errorf("%s: leaf %#x, want %#x", addr, leaf, want)
		}
	}
}
