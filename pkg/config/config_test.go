package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"l4lb/pkg/lb"
)

func diffConfig(want, got any) string {
	return cmp.Diff(want, got,
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }))
}

func TestWholeSchemaParses(t *testing.T) {
	doc, err := Load(filepath.Join("testdata", "whole.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pfx, addr := netip.MustParsePrefix, netip.MustParseAddr
	want := &lb.Config{
		Gateway: lb.Gateway{
			Name: "gw-1", Region: "region-1", Interfaces: []string{"eth0"}, XDPMode: lb.XDPNative,
			FlowTable: lb.FlowTable{Entries: 1048576}, AdminListen: "unix:/run/l4lb/admin.sock",
			MetricsListen: "127.0.0.1:9464",
		},
		Clients: lb.ClientMap{
			Zones: []lb.Zone{
				{Name: "zone-a", ClientRanges: []netip.Prefix{pfx("10.1.0.0/16"), pfx("2001:db8:a::/48")}},
				{Name: "zone-b", ClientRanges: []netip.Prefix{pfx("10.2.0.0/16")}},
			},
			Incompatible: []netip.Prefix{pfx("10.200.0.0/16")},
			OtherRegion:  []netip.Prefix{pfx("10.99.0.0/16")},
		},
		HealthChecks: []lb.HealthCheck{{
			Name: "hc-http", Type: lb.CheckHTTP, CheckInterval: 5 * time.Second, Timeout: 5 * time.Second,
			HealthyThreshold: 2, UnhealthyThreshold: 2, Port: 80, ProxyHeader: lb.ProxyNone, RequestPath: "/healthz",
		}},
		Groups: []lb.Group{
			{Name: "web-a", Zone: "zone-a", Endpoints: []lb.Endpoint{
				{Instance: "web-a-1", Addr: addr("10.1.0.11")}, {Instance: "web-a-2", Addr: addr("10.1.0.12")},
			}},
			{Name: "web-spare", Zone: "zone-b", Endpoints: []lb.Endpoint{{Instance: "web-b-1", Addr: addr("10.2.0.11")}}},
		},
		Services: []lb.Service{{
			Name: "web", Protocol: lb.ServiceTCP, HealthCheck: "hc-http", Affinity: lb.AffinityNone,
			LocalityLbPolicy: lb.PolicyMaglev,
			Tracking:         lb.Tracking{Mode: lb.PerConnection, Persistence: lb.PersistDefault, IdleTimeout: 600 * time.Second},
			DrainTimeout:     300 * time.Second,
			Failover:         &lb.FailoverPolicy{Ratio: 500_000, DrainTimeout: 300 * time.Second},
			Zonal:            lb.ZonalAffinity{Spillover: lb.ZonalSpillCrossZone, SpilloverRatio: 800_000},
			Backends:         []lb.BackendRef{{Group: "web-a"}, {Group: "web-spare", Failover: true}},
			Forwarding:       lb.ForwardL2,
			Probe:            lb.ProbeVIP,
		}},
		Rules: []lb.ForwardingRule{{
			Name: "web-vip", Address: pfx("192.0.2.10/32"), Protocol: lb.RuleTCP, Ports: []uint16{80, 443}, Service: "web",
		}},
	}
	if diff := diffConfig(want, doc.Config); diff != "" {
		t.Errorf("configuration mismatch (-want +got):\n%s", diff)
	}
	if len(doc.Warnings) > 0 {
		t.Errorf("unexpected warnings: %v", doc.Warnings)
	}
}

// What the API exports is full of URLs and output-only fields.
func TestExportsCanBePasted(t *testing.T) {
	doc, err := Load(filepath.Join("testdata", "export.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := doc.Config.Services[0]
	if s.HealthCheck != "hc-tcp" || s.Backends[0].Group != "ig-a" {
		t.Errorf("references did not become names: %+v", s)
	}
	g := doc.Config.Groups[0]
	if g.Zone != "zone-a" || g.Endpoints[0].Instance != "vm-1" {
		t.Errorf("zone or instance URL did not become a name: %+v", g)
	}
	if r := doc.Config.Rules[0]; r.Service != "be-ilb" || !r.AllPorts {
		t.Errorf("rule = %+v", r)
	}
	if h := doc.Config.HealthChecks[0]; h.Port != 80 || !h.LogEnabled {
		t.Errorf("health check = %+v", h)
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "read configuration: ") {
		t.Errorf("err = %v", err)
	}
}

func TestCheckHostRefusesOwnAddresses(t *testing.T) {
	doc := mustParse(t, `
backendServices:
- {name: s}
forwardingRules:
- {name: a, IPAddress: 192.0.2.1, ports: [80], backendService: s}
- name: b
  IPAddress: 192.0.2.2
  ports: [80]
  backendService: s
- {name: six, IPAddress: "2001:db8:1::/96", ports: [80], backendService: s}
`)
	host := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	if err := doc.CheckHost(host("192.0.2.9/24", "127.0.0.1/8")); err != nil {
		t.Errorf("foreign addresses: %v", err)
	}
	compareErrors(t, doc.CheckHost(host("192.0.2.2/24", "192.0.2.9/32", "2001:db8:1::7/64")), []string{
		"6:14: IPAddress 192.0.2.2 is an address of this host",
		"9:26: IPAddress 2001:db8:1::7 is an address of this host",
	})
}

// semantics.md 4.2: a route's destination may hold a subnet, but not be in one.
func TestCheckHostRefusesRoutesIntoOwnSubnets(t *testing.T) {
	doc := mustParse(t, `
backendServices: [{name: s, protocol: UNSPECIFIED}]
forwardingRules: [{name: fw, IPAddress: 192.0.2.1, allPorts: true, backendService: s}]
routes:
- {name: all, destRange: 0.0.0.0/0, nextHopIlb: fw}
- {name: wider, destRange: 203.0.112.0/23, nextHopIlb: fw}
- {name: same, destRange: 203.0.113.0/24, nextHopIlb: fw}
- {name: inside, destRange: 203.0.113.128/25, nextHopIlb: fw}
- {name: host, destRange: 198.51.100.7/32, nextHopIlb: fw}
`)
	host := []netip.Prefix{netip.MustParsePrefix("203.0.113.1/24"), netip.MustParsePrefix("198.51.100.7/32"), netip.MustParsePrefix("2001:db8::1/64")}
	compareErrors(t, doc.CheckHost(host), []string{
		"6:27: destRange 203.0.113.0/24 is in 203.0.113.0/24, a subnet of this host",
		"7:29: destRange 203.0.113.128/25 is in 203.0.113.0/24, a subnet of this host",
		"8:27: destRange 198.51.100.7/32 is in 198.51.100.7/32, a subnet of this host",
	})
	if err := doc.CheckHost([]netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}); err != nil {
		t.Errorf("a host elsewhere: %v", err)
	}
}
