package admin

import (
	"net/netip"
	"net/url"
	"testing"
	"time"

	"l4lb/pkg/conntrack"
)

func TestFilterQueryIsReadBack(t *testing.T) {
	for name, f := range map[string]conntrack.Filter{
		"nothing":   {},
		"one host":  {Client: netip.MustParsePrefix("10.1.0.7/32")},
		"a network": {Client: netip.MustParsePrefix("2001:db8:a::/48")},
		"all fields": {
			Client: netip.MustParsePrefix("10.1.0.0/16"), VIP: netip.MustParseAddr("192.0.2.10"), Backend: "web-a-1",
			Service: "web", Zone: "zone-a", State: conntrack.Probation, MinIdle: time.Minute, Limit: 7,
		},
	} {
		got, err := parseFilter(filterQuery(f))
		if err != nil || got != f {
			t.Errorf("%s: read back %+v, %v, want %+v", name, got, err, f)
		}
	}
}

func TestBadFiltersAreRefused(t *testing.T) {
	for key, value := range map[string]string{
		"client": "10.1.0.300", "vip": "192.0.2.0/24", "state": "OLD", "minIdleSec": "-1", "limit": "many",
	} {
		if f, err := parseFilter(url.Values{key: {value}}); err == nil {
			t.Errorf("%s=%s is read as %+v", key, value, f)
		}
	}
}
