package daemon

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
	"l4lb/pkg/loader"
)

// grown is a configuration of n backends in one service with r rules.
func grown(n, r int) *lb.Config {
	cfg := &lb.Config{
		Gateway: lb.Gateway{FlowTable: lb.FlowTable{Entries: 1 << 20}, HashSeed: 7},
		Groups:  []lb.Group{{Name: "g"}}, HealthChecks: []lb.HealthCheck{{Name: "hc", Timeout: 5 * time.Second}},
		Services: []lb.Service{{Name: "web", HealthCheck: "hc", Backends: []lb.BackendRef{{Group: "g"}}}},
	}
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		cfg.Groups[0].Endpoints = append(cfg.Groups[0].Endpoints, lb.Endpoint{Instance: fmt.Sprint("i-", i), Addr: addr})
	}
	for i := range r {
		cfg.Rules = append(cfg.Rules, lb.ForwardingRule{Name: fmt.Sprint("r-", i), Service: "web"})
	}
	return cfg
}

func TestSizesHaveHeadroom(t *testing.T) {
	small := loader.Options{
		FlowEntries: 1 << 20, SelectSeed: 7, Members: 1 << 14, Rules: 1 << 12, Services: 1 << 10,
		Frontends: 1 << 12, ZoneNodes: 1 << 10, StatSlots: 8, Ranges: 1 << 16,
	}
	large := small
	large.Members, large.StatSlots = 1<<15, 16
	tests := []struct {
		name string
		cfg  *lb.Config
		want loader.Options
	}{
		{"a small configuration gets the defaults", grown(3, 1), small},
		{"a large one can double", grown(10000, 9), large},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sizes(tt.cfg, "")); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestZonePrefixesAreCounted(t *testing.T) {
	cfg := grown(1, 1)
	for i := range 200 {
		p := netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(i)}), 64)
		cfg.Clients.Incompatible = append(cfg.Clients.Incompatible, p)
	}
	if got := sizes(cfg, "").ZoneNodes; got != 4096 {
		t.Errorf("%d zone nodes for 200 prefixes of 8 bytes, want 4096", got)
	}
}

func TestPinnedStateMustHaveRoom(t *testing.T) {
	have := loader.Options{Members: 10, Rules: 10, Services: 10, StatSlots: 8}
	tests := []struct {
		name string
		need loader.Options
		want bool
	}{
		{"what fits", loader.Options{Members: 9, Rules: 9, Services: 9, StatSlots: 8}, true},
		{"too many backends, since id 0 is nobody's", loader.Options{Members: 10}, false},
		{"too many rules", loader.Options{Rules: 10}, false},
		{"too many services", loader.Options{Services: 10}, false},
		{"too many rules of one service", loader.Options{StatSlots: 9}, false},
	}
	for _, tt := range tests {
		if got := fits(tt.need, have); got != tt.want {
			t.Errorf("%s: fits = %v", tt.name, got)
		}
	}
}

func TestFirstChecksAreBounded(t *testing.T) {
	tests := []struct {
		name     string
		backends int
		timeout  time.Duration
		want     time.Duration
	}{
		{"a few backends with a short timeout", 3, time.Second, 1350 * time.Millisecond},
		{"a long timeout counts for 2 s", 3, 5 * time.Second, 2350 * time.Millisecond},
		{"many backends are spread over 1 s at most", 10000, 5 * time.Second, 3250 * time.Millisecond},
	}
	for _, tt := range tests {
		cfg := grown(tt.backends, 1)
		cfg.HealthChecks[0].Timeout = tt.timeout
		if got := firstChecks(cfg); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
