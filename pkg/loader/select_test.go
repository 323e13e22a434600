package loader

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// chosen is the member that a new flow's packet is given.
func chosen(t *testing.T, d *Datapath, packet []byte) uint32 {
	t.Helper()
	forgetFlows(d)
	trace, _, err := d.Run(packet)
	if err != nil || trace.Flow != TraceNew {
		t.Fatalf("%+v, %v\n%s", trace, err, testutil.Dump(packet))
	}
	return trace.Member
}

func newSelectFixture(t *testing.T, o Options) *Datapath {
	t.Helper()
	o.FlowEntries = 16
	d := newFixtureWith(t, o)
	prepareManyRuns(t, d)
	manyMembers(t, d, 60)
	var list []Frontend
	for _, a := range []netip.Addr{testutil.VIP4, testutil.VIP4B, testutil.VIP6, testutil.VIP6B} {
		list = append(list, Frontend{Address: netip.PrefixFrom(a, a.BitLen()), L3: ruleL3})
	}
	must(t, d.SetFrontends(list))
	return d
}

// Both directions of a flow hash to the same slot, so that both meet the same
// appliance (semantics.md 4.4).
func TestSelectionIsSymmetric(t *testing.T) {
	d := newSelectFixture(t, Options{})
	for _, a := range affinities[:3] {
		t.Run(a.name, func(t *testing.T) {
			changeRules(t, d, func(r *Rule) { r.Affinity = a.affinity })
			used := map[uint32]bool{}
			for port := uint16(1); port <= 100; port++ {
				for _, pair := range [][2]netip.Addr{{testutil.VIP4, testutil.VIP4B}, {testutil.VIP6, testutil.VIP6B}, {testutil.VIP4, testutil.VIP4}} {
					there := chosen(t, d, testutil.UDP(t, ap(pair[0], port), ap(pair[1], 53)))
					back := chosen(t, d, testutil.UDP(t, ap(pair[1], 53), ap(pair[0], port)))
					if there != back {
						t.Fatalf("%v port %d: member %d, reply %d", pair, port, there, back)
					}
					used[there] = true
				}
			}
			if many := len(used) > 10; many != (a.affinity == AffinityFiveTuple) {
				t.Errorf("%d members were used", len(used))
			}
		})
	}
	esp := func(src, dst netip.Addr) []byte {
		return testutil.IP(t, src, dst, layers.IPProtocolESP, make([]byte, 20))
	}
	if chosen(t, d, esp(testutil.VIP4, testutil.VIP4B)) != chosen(t, d, esp(testutil.VIP4B, testutil.VIP4)) {
		t.Error("esp and its reply go to different members")
	}
}

// The table of semantics.md 1.4: which fields choose the backend.
func TestFieldsThatChooseTheBackend(t *testing.T) {
	d := newSelectFixture(t, Options{})
	tests := []struct {
		name                         string
		affinity                     Affinity
		ports, protocol, vip, useful bool // whether a change of it may change the backend
	}{
		{"NONE", AffinityFiveTuple, true, true, true, true},
		{"CLIENT_IP_PROTO", AffinityClientIPProto, false, true, true, true},
		{"CLIENT_IP", AffinityClientIP, false, false, true, true},
		{"CLIENT_IP_NO_DESTINATION", AffinityClientOnly, false, false, false, true},
	}
	client := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}) }
	build := func(i int, sport, dport uint16, tcp bool, vip netip.Addr) []byte {
		if tcp {
			return testutil.SYN(t, ap(client(i), sport), ap(vip, dport))
		}
		return testutil.UDP(t, ap(client(i), sport), ap(vip, dport))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changeRules(t, d, func(r *Rule) { r.Affinity = tt.affinity })
			var sport, dport, protocol, vip, clients int
			for i := range 50 {
				base := chosen(t, d, build(i, 1000, 80, true, testutil.VIP4))
				sport += differs(base, chosen(t, d, build(i, 1001, 80, true, testutil.VIP4)))
				dport += differs(base, chosen(t, d, build(i, 1000, 81, true, testutil.VIP4)))
				protocol += differs(base, chosen(t, d, build(i, 1000, 80, false, testutil.VIP4)))
				vip += differs(base, chosen(t, d, build(i, 1000, 80, true, testutil.VIP4B)))
				clients += differs(base, chosen(t, d, build(i+100, 1000, 80, true, testutil.VIP4)))
			}
			for field, c := range map[string]struct {
				changes int
				may     bool
			}{
				"source port": {sport, tt.ports}, "destination port": {dport, tt.ports}, "protocol": {protocol, tt.protocol},
				"destination": {vip, tt.vip}, "source": {clients, tt.useful},
			} {
				if c.may && c.changes < 40 || !c.may && c.changes != 0 {
					t.Errorf("another %s changed the backend %d times of 50", field, c.changes)
				}
			}
		})
	}
}

func differs(a, b uint32) int {
	if a != b {
		return 1
	}
	return 0
}

// With a client affinity, any number of connections of one client go to one
// backend, without shared state: no entry is there to help.
func TestOneClientHasOneBackendWithClientAffinity(t *testing.T) {
	d := newSelectFixture(t, Options{})
	for _, a := range affinities[1:] {
		changeRules(t, d, func(r *Rule) { r.Affinity = a.affinity })
		first := chosen(t, d, testutil.SYN(t, ap(testutil.Client4, 1024), ap(testutil.VIP4, 80)))
		for port := uint16(1025); port < 2024; port++ {
			if m := chosen(t, d, testutil.SYN(t, ap(testutil.Client4, port), ap(testutil.VIP4, port))); m != first {
				t.Fatalf("%s: port %d went to member %d, the first to %d", a.name, port, m, first)
			}
		}
	}
}

// Protocols without ports are spread by addresses and protocol (semantics.md
// 1.4): what follows the IP header does not matter, whatever it looks like.
func TestProtocolsWithoutPortsAreSpreadByAddressesAndProtocol(t *testing.T) {
	d := newSelectFixture(t, Options{})
	for _, proto := range []layers.IPProtocol{layers.IPProtocolESP, layers.IPProtocolGRE} {
		used := map[uint32]bool{}
		for i := range byte(50) {
			client := netip.AddrFrom4([4]byte{198, 51, 100, i})
			one := chosen(t, d, testutil.IP(t, client, testutil.VIP4, proto, append([]byte{1, 2, 3, 4}, make([]byte, 20)...)))
			two := chosen(t, d, testutil.IP(t, client, testutil.VIP4, proto, append([]byte{5, 6, 7, 8}, make([]byte, 20)...)))
			if one != two {
				t.Fatalf("%s from %s: members %d and %d", proto, client, one, two)
			}
			used[one] = true
		}
		if len(used) < 25 {
			t.Errorf("%s: 50 clients use %d of 60 members", proto, len(used))
		}
	}
}

// Gateways with the same seed choose alike, whatever their flow tables' secrets.
func TestGatewaysWithTheSameSeedChooseAlike(t *testing.T) {
	one := newSelectFixture(t, Options{SelectSeed: 42})
	two := newSelectFixture(t, Options{SelectSeed: 42})
	foreign := newSelectFixture(t, Options{SelectSeed: 43})
	different := 0
	for port := uint16(1); port <= 300; port++ {
		packet := testutil.SYN(t, ap(testutil.Client6, port), ap(testutil.VIP6, 80))
		a, b := chosen(t, one, packet), chosen(t, two, packet)
		if a != b {
			t.Fatalf("port %d: members %d and %d", port, a, b)
		}
		different += differs(a, chosen(t, foreign, packet))
	}
	if different < 280 {
		t.Errorf("another seed chose another backend for %d of 300 flows", different)
	}
}

// New flows are spread over the slots evenly: with 60 equal stretches of slots,
// chi-square has 59 degrees of freedom, 110 at the 0.01 % level. The seed is
// fixed: this cannot fail by chance.
func TestFlowsAreSpreadEvenlyOverTheSlots(t *testing.T) {
	const flows, members = 6000, 60
	for name, f := range map[string]frame{
		"ipv4": udp(t, ap(testutil.Client4, 1), ap(testutil.VIP4, 53)),
		"ipv6": udp(t, ap(testutil.Client6, 1), ap(testutil.VIP6, 53)),
	} {
		for _, affinity := range []Affinity{AffinityFiveTuple, AffinityClientOnly} {
			d := newSelectFixture(t, Options{SelectSeed: 1})
			changeRules(t, d, func(r *Rule) { r.Affinity = affinity })
			c := newCrowd(t, f)
			count := make([]float64, members+1)
			for n := range uint32(flows) {
				packet := n
				if affinity == AffinityClientOnly {
					packet = n << 12 // another address each
				}
				_, mac := run(t, d, c.flow(packet))
				count[int(mac[4])<<8|int(mac[5])]++
			}
			chi := 0.0
			for _, n := range count[1:] {
				chi += (n - flows/members) * (n - flows/members) / (flows / members)
			}
			if count[0] != 0 || chi > 110 {
				t.Errorf("%s, affinity %d: chi-square %.1f: %v", name, affinity, chi, count)
			}
		}
	}
}
