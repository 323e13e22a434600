package loader

import (
	"errors"
	"net/netip"
	"testing"

	"l4lb/internal/testutil"
)

func webFrom(t *testing.T, client string) frame {
	return tcp(t, ap(netip.MustParseAddr(client), 4000), ap(testutil.VIP4, 80))
}

// Every record of a table as full as its size allows is found by the program.
func TestProgramFindsEveryFrontend(t *testing.T) {
	const frontends = 64
	d := newFixture(t)
	must(t, d.SetRule(ruleTCPAll, fixtureRule(ruleTCPAll)))
	var list []Frontend
	for i := range byte(frontends) {
		addr := netip.AddrFrom4([4]byte{203, 0, 113, i})
		if i%2 == 1 {
			addr = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: i})
		}
		f := Frontend{Address: netip.PrefixFrom(addr, addr.BitLen()), TCP: ruleTCPAll}
		for port := range uint16(4) {
			f.Ports = append(f.Ports, FrontendPort{Protocol: 6, Port: 80 + port, Rule: ruleTCP80})
		}
		list = append(list, f)
	}
	must(t, d.SetFrontends(list))
	for _, f := range list {
		client := testutil.ZoneAClient4
		if f.Address.Addr().Is6() {
			client = testutil.ZoneAClient6
		}
		for port, rule := range map[uint16]uint32{80: ruleTCP80, 83: ruleTCP80, 84: ruleTCPAll} {
			trace, _, err := d.Run(testutil.SYN(t, ap(client, 4000), ap(f.Address.Addr(), port)))
			if err != nil || trace.Rule != rule {
				t.Errorf("%s port %d: %+v, %v, want rule %d", f.Address, port, trace, err, rule)
			}
		}
	}
}

// An address's own record knows one port of each protocol, and the others have
// records: which is which makes no difference to a packet.
func TestPortsOfAnAddressAreEqual(t *testing.T) {
	d := newFixture(t)
	rules := []uint32{ruleTCP80, ruleUDPAll, ruleTCPAll, ruleL3}
	for _, id := range rules {
		must(t, d.SetRule(id, fixtureRule(id)))
	}
	const tcpNumber, udpNumber = 6, 17
	vip := netip.PrefixFrom(testutil.VIP4, 32)
	one := []FrontendPort{{tcpNumber, 80, ruleTCP80}}
	both := []FrontendPort{{udpNumber, 80, ruleUDPAll}, {tcpNumber, 80, ruleTCP80}, {tcpNumber, 81, ruleTCPAll}}
	for name, tt := range map[string]struct {
		frontend          Frontend
		tcp80, tcp81, udp uint32
	}{
		"one port":                       {Frontend{Ports: one}, ruleTCP80, 0, 0},
		"one port and every protocol":    {Frontend{Ports: one, L3: ruleL3}, ruleTCP80, ruleL3, ruleL3},
		"one port and all of another":    {Frontend{Ports: one, UDP: ruleUDPAll}, ruleTCP80, 0, ruleUDPAll},
		"one port beside all others":     {Frontend{Ports: one, TCP: ruleTCPAll}, ruleTCP80, ruleTCPAll, 0},
		"ports of both protocols":        {Frontend{Ports: both}, ruleTCP80, ruleTCPAll, ruleUDPAll},
		"both and every protocol":        {Frontend{Ports: both, L3: ruleL3}, ruleTCP80, ruleTCPAll, ruleUDPAll},
		"all ports of a protocol":        {Frontend{TCP: ruleTCPAll}, ruleTCPAll, ruleTCPAll, 0},
		"all ports and every protocol":   {Frontend{TCP: ruleTCPAll, L3: ruleL3}, ruleTCPAll, ruleTCPAll, ruleL3},
		"every protocol":                 {Frontend{L3: ruleL3}, ruleL3, ruleL3, ruleL3},
		"ports of both, and all of each": {Frontend{Ports: both, TCP: ruleL3, UDP: ruleL3}, ruleTCP80, ruleTCPAll, ruleUDPAll},
	} {
		t.Run(name, func(t *testing.T) {
			forgetFlows(d)
			tt.frontend.Address = vip
			must(t, d.SetFrontends([]Frontend{tt.frontend}))
			client := ap(testutil.ZoneAClient4, 4000)
			for _, p := range []struct {
				what  string
				frame []byte
				want  uint32
			}{
				{"tcp 80", testutil.SYN(t, client, ap(testutil.VIP4, 80)), tt.tcp80},
				{"tcp 81", testutil.SYN(t, client, ap(testutil.VIP4, 81)), tt.tcp81},
				{"udp 80", testutil.UDP(t, client, ap(testutil.VIP4, 80)), tt.udp},
			} {
				trace, _, err := d.Run(p.frame)
				must(t, err)
				if trace.Rule != p.want {
					t.Errorf("%s: rule %d, want %d", p.what, trace.Rule, p.want)
				}
			}
		})
	}
}

// A record has few places; where they are taken, the table is full and what was
// there before stays.
func TestFrontendsThatDoNotFitLeaveTheOldOnes(t *testing.T) {
	d := newFixture(t)
	var list []Frontend
	for i := range 1025 { // one more than there are slots
		addr := netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
		list = append(list, Frontend{Address: netip.PrefixFrom(addr, 32), TCP: ruleTCPAll})
	}
	if err := d.SetFrontends(list); !errors.Is(err, ErrFull) {
		t.Fatalf("SetFrontends: %v, want ErrFull", err)
	}
	list = list[:1]
	list[0].TCP = ruleTCPAll
	for i := range 1024 {
		list[0].Ports = append(list[0].Ports, FrontendPort{Protocol: 6, Port: uint16(i), Rule: ruleTCP80})
	}
	if err := d.SetFrontends(list); !errors.Is(err, ErrFull) {
		t.Fatalf("SetFrontends with many ports: %v, want ErrFull", err)
	}
	send(t, d, webFrom(t, "10.1.1.1"), started(memberA, ruleTCP80, zoneA, newOther))
}

// placeFront puts records that share a hash one behind the other, around the
// table's end too.
func TestRecordsOfOneHashAreInARow(t *testing.T) {
	table := make([]lbFront, 64)
	f := lbFront{Addr: addressWords(testutil.VIP4), Kind: frontAddress}
	var places []int
	for range frontProbes {
		must(t, placeFront(table, f))
	}
	if err := placeFront(table, f); !errors.Is(err, ErrFull) {
		t.Fatalf("one more record of a hash: %v, want ErrFull", err)
	}
	for i, slot := range table {
		if slot.Kind != 0 {
			places = append(places, i)
		}
	}
	if len(places) != frontProbes {
		t.Errorf("records are at %d", places)
	}
	for i := 1; i < len(places); i++ {
		if gap := places[i] - places[i-1]; gap != 1 && gap != len(table)-frontProbes+1 {
			t.Errorf("records are at %d", places)
		}
	}
}

// Four ports an address fit, whatever the number of addresses.
func TestFrontendTableHasRoomForFourPortsAnAddress(t *testing.T) {
	for _, frontends := range []uint32{1, 8, 9, 64, 1000, 4096} {
		slots := frontSlots(frontends)
		if slots&(slots-1) != 0 || slots < 64 || slots < frontends*16 {
			t.Fatalf("%d frontends have %d slots", frontends, slots)
		}
		table := make([]lbFront, slots)
		for i := range frontends {
			addr := addressWords(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
			must(t, placeFront(table, lbFront{Addr: addr, Kind: frontAddress}))
			for port := range uint16(4) {
				must(t, placeFront(table, lbFront{Addr: addr, Kind: frontPort, Proto: 6, Port: swap16(port)}))
			}
		}
	}
}
