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
