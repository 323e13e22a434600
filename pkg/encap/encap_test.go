package encap

import (
	"errors"
	"net/netip"
	"testing"

	"l4lb/pkg/lb"
)

func TestHeaders(t *testing.T) {
	prefix, address := netip.MustParsePrefix, netip.MustParseAddr
	tests := []struct {
		name   string
		tunnel Tunnel
		size   uint8
		mtu    uint16
		spread uint8
	}{
		{"IPIP", Tunnel{Kind: lb.ForwardIPIP, Source: prefix("10.0.0.1/32"), Dest: address("10.9.0.11"), LinkMTU: 1500}, 20, 1480, 0},
		{"IPIP from a prefix", Tunnel{Kind: lb.ForwardIPIP, Source: prefix("10.0.0.0/29"), Dest: address("10.9.0.11"), LinkMTU: 1500}, 20, 1480, 3},
		{"IPIP over IPv6", Tunnel{Kind: lb.ForwardIPIP, Source: prefix("2001:db8::/48"), Dest: address("2001:db8:9::11"), LinkMTU: 1500}, 40, 1460, 64},
		{"GUE", Tunnel{Kind: lb.ForwardGUE, Source: prefix("10.0.0.1/32"), Dest: address("10.9.0.11"), LinkMTU: 9000}, 28, 8972, 0},
		{"GUE over IPv6", Tunnel{Kind: lb.ForwardGUE, Source: prefix("2001:db8::1/128"), Dest: address("2001:db8:9::11"), LinkMTU: 1500}, 48, 1452, 0},
		{"GENEVE", Tunnel{Kind: lb.ForwardGENEVE, Source: prefix("10.0.0.1/32"), Dest: address("10.9.0.11"), LinkMTU: 1500}, 36, 1464, 0},
		{"GENEVE over IPv6", Tunnel{Kind: lb.ForwardGENEVE, Source: prefix("2001:db8::1/128"), Dest: address("2001:db8:9::11"), LinkMTU: 1500}, 56, 1444, 0},
		{"over loopback, of the largest MTU", Tunnel{Kind: lb.ForwardIPIP, Source: prefix("10.0.0.1/32"), Dest: address("10.9.0.11"), LinkMTU: 65536}, 20, 65515, 0},
		{"the least", Tunnel{Kind: lb.ForwardIPIP, Source: prefix("10.0.0.1/32"), Dest: address("10.9.0.11"), LinkMTU: 596}, 20, 576, 0},
	}
	for _, tt := range tests {
		h, err := tt.tunnel.Header()
		if err != nil || h.Size != tt.size || h.MTU != tt.mtu || h.Spread != tt.spread || h.Dest() != tt.tunnel.Dest {
			t.Errorf("%s: %+v to %s, %v", tt.name, h, h.Dest(), err)
		}
	}
	small := tests[8].tunnel
	small.LinkMTU--
	if h, err := small.Header(); !errors.Is(err, ErrTooSmall) || h != (Header{}) {
		t.Errorf("no room: %v", err)
	}
	for _, source := range []netip.Prefix{{}, prefix("2001:db8::1/128")} {
		mixed := tests[0].tunnel
		mixed.Source = source
		if _, err := mixed.Header(); err == nil || errors.Is(err, ErrTooSmall) {
			t.Errorf("from %s to %s: %v", mixed.Source, mixed.Dest, err)
		}
	}
	if (Header{}).Dest().IsValid() {
		t.Error("no tunnel ends somewhere")
	}
}
