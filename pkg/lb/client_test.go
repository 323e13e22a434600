package lb

import (
	"net/netip"
	"testing"
)

func TestClassify(t *testing.T) {
	ranges := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	m := ClientMap{
		Zones: []Zone{
			{Name: "zone-a", ClientRanges: ranges("10.0.0.0/8", "2001:db8:a::/48")},
			{Name: "zone-b", ClientRanges: ranges("10.2.0.0/16", "10.200.1.0/24")},
		},
		Incompatible: ranges("10.200.0.0/16"),
		OtherRegion:  ranges("10.99.0.0/16", "10.200.9.0/24"),
	}
	tests := []struct {
		name, addr string
		want       Client
	}{
		{"a client of a zone", "10.1.0.1", Client{Class: ClientZonal, Zone: "zone-a"}},
		{"the longest prefix wins", "10.2.0.1", Client{Class: ClientZonal, Zone: "zone-b"}},
		{"IPv6", "2001:db8:a::1", Client{Class: ClientZonal, Zone: "zone-a"}},
		{"IPv4 in IPv6 form", "::ffff:10.2.0.1", Client{Class: ClientZonal, Zone: "zone-b"}},
		{"no zone", "198.51.100.1", Client{}},
		{"VPN inside a zone's range is not zonal", "10.200.0.1", Client{Class: ClientIncompatible, Zone: "zone-a"}},
		{"a zone's range inside VPN is not zonal either", "10.200.1.1", Client{Class: ClientIncompatible, Zone: "zone-b"}},
		{"another region", "10.99.0.1", Client{Class: ClientOtherRegion, Zone: "zone-a"}},
		{"VPN of another region needs global access", "10.200.9.1", Client{Class: ClientOtherRegion, Zone: "zone-a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := m.Classify(netip.MustParseAddr(tt.addr)); got != tt.want {
				t.Errorf("Classify(%s) = %+v, want %+v", tt.addr, got, tt.want)
			}
		})
	}
}
