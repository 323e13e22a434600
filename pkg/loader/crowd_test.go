package loader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"l4lb/internal/testutil"
)

// crowd makes the packets of many flows fast, by changing the addresses and
// ports of one. Checksums are left wrong: the program does not look at them.
type crowd struct {
	frame []byte
	ipv6  bool
}

func newCrowd(tb testing.TB, f frame) *crowd {
	tb.Helper()
	b := bytes.Clone(f())
	return &crowd{frame: b, ipv6: b[12] == 0x86}
}

// flow is the packet of the n-th flow: n is in the last bytes of the source
// address and in the source port.
func (c *crowd) flow(n uint32) []byte {
	address, ports := 14+12, 14+20
	if c.ipv6 {
		address, ports = 14+8+12, 14+40
	}
	binary.BigEndian.PutUint16(c.frame[address+2:], uint16(n>>12))
	binary.BigEndian.PutUint16(c.frame[ports:], 0x8000|uint16(n&0xfff))
	return c.frame
}

// run puts a frame through without looking at the trace, which concurrent runs
// share, and returns the verdict and the link address it was sent to.
func run(tb testing.TB, d *Datapath, in []byte) (Verdict, [6]byte) {
	opts := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256)}
	verdict, err := d.objs.L4lbIngress.Run(&opts)
	if err != nil {
		tb.Error(err)
		return 0, [6]byte{}
	}
	return Verdict(verdict), [6]byte(opts.DataOut[:6])
}

// manyMembers makes members 1 to n, and gives the tables of zone 0 equal shares
// of them: the slots of one follow each other.
func manyMembers(tb testing.TB, d *Datapath, n int) {
	tb.Helper()
	slots := make([]uint32, TableSize)
	for i := range slots {
		slots[i] = uint32(i*n/TableSize) + 1
	}
	for id := uint32(1); id <= uint32(n); id++ {
		mac := memberMAC(id)
		must(tb, d.SetMember(id, fixtureMember(mac[:], zoneA, id*4)))
	}
	table, err := d.NewTable(slots)
	must(tb, err)
	must(tb, d.SetPick(serviceWeb, 0, table))
	must(tb, d.SetZones(nil))
}

func memberMAC(id uint32) [6]byte { return [6]byte{2, 0x4c, 0xbb, 0, byte(id >> 8), byte(id)} }

// events are the flow events since a reading, by name.
func events(tb testing.TB, d *Datapath, before counters) map[FlowEvent]int {
	tb.Helper()
	out := map[FlowEvent]int{}
	diff := readCounters(tb, d).since(before)
	for e := range FlowEventMax {
		if n := diff["event "+e.String()]; n != 0 {
			out[e] = int(n)
		}
	}
	return out
}

// entry is a flow entry as the tests look at it.
type entry struct {
	key    string
	member uint32
	state  uint8
}

// entries reads the IPv4 flow table.
func entries(tb testing.TB, d *Datapath) []entry {
	tb.Helper()
	var out []entry
	for i := range d.flows4 {
		for _, f := range d.flows4[i].Flow {
			if state := uint8(f.Value >> 24); state != 0 {
				key := fmt.Sprintf("%s %x", netip.AddrFrom4(f.Key.Saddr), f.Key.Tail)
				out = append(out, entry{key, uint32(f.Value & 0xffffff), state})
			}
		}
	}
	return out
}

// noDuplicates fails the test where a flow has two entries.
func noDuplicates(t *testing.T, d *Datapath) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range entries(t, d) {
		if seen[e.key] {
			t.Errorf("two entries of %s", e.key)
		}
		seen[e.key] = true
	}
}

var crowdVIP = ap(testutil.VIP4, 53)
