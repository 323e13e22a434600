package loader

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/layers"

	"l4lb/internal/testutil"
)

// frame builds one packet; mutations make a variant of it. The packet builder is
// not the program's code, so that a frame with other link addresses is what a
// forwarded one must be, byte for byte.
type frame func(mutate ...testutil.Mutate) []byte

func tcp(tb testing.TB, src, dst netip.AddrPort, base ...testutil.Mutate) frame {
	return func(mutate ...testutil.Mutate) []byte {
		return testutil.TCP(tb, src, dst, append(slices.Clone(base), mutate...)...)
	}
}

func syn(tb testing.TB, src, dst netip.AddrPort, base ...testutil.Mutate) frame {
	return tcp(tb, src, dst, append([]testutil.Mutate{testutil.Flags("S")}, base...)...)
}

func udp(tb testing.TB, src, dst netip.AddrPort, base ...testutil.Mutate) frame {
	return func(mutate ...testutil.Mutate) []byte {
		return testutil.UDP(tb, src, dst, append(slices.Clone(base), mutate...)...)
	}
}

func otherIP(tb testing.TB, src, dst netip.Addr, proto layers.IPProtocol, payload []byte, base ...testutil.Mutate) frame {
	return func(mutate ...testutil.Mutate) []byte {
		return testutil.IP(tb, src, dst, proto, payload, append(slices.Clone(base), mutate...)...)
	}
}

func echo(tb testing.TB, src, dst netip.Addr, base ...testutil.Mutate) frame {
	return func(mutate ...testutil.Mutate) []byte {
		return testutil.Echo(tb, src, dst, append(slices.Clone(base), mutate...)...)
	}
}

func raw(b []byte) frame {
	return func(...testutil.Mutate) []byte { return b }
}

func ap(addr netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(addr, port) }

// outcome is all that a packet may cause.
type outcome struct {
	Trace
	events []FlowEvent
	out    []byte // nil: as it came in, but for the link addresses where forwarded
}

const (
	newSYN    = FlowEvent(lbFlowEventFLOW_EVENT_NEW_SYN)
	newOther  = FlowEvent(lbFlowEventFLOW_EVENT_NEW_OTHER)
	confirmed = FlowEvent(lbFlowEventFLOW_EVENT_CONFIRMED)
	displaced = FlowEvent(lbFlowEventFLOW_EVENT_PROBATION_DISPLACED)
	noRoom    = FlowEvent(lbFlowEventFLOW_EVENT_NO_ROOM)
	contended = FlowEvent(lbFlowEventFLOW_EVENT_CONTENDED)
)

// started is the outcome of a packet that begins a tracked flow.
func started(member, rule uint32, zone uint8, event FlowEvent) outcome {
	return outcome{
		Trace:  Trace{Verdict: VerdictTX, Rule: rule, Member: member, Flow: TraceNew, Zone: zone},
		events: []FlowEvent{event},
	}
}

// followed is the outcome of a packet that follows a tracked flow.
func followed(member, rule uint32, zone uint8, events ...FlowEvent) outcome {
	return outcome{
		Trace:  Trace{Verdict: VerdictTX, Rule: rule, Member: member, Flow: TraceHit, Zone: zone},
		events: events,
	}
}

func passed(reason lbReason) outcome {
	return outcome{Trace: Trace{Verdict: VerdictPass, Reason: Reason(reason)}}
}

func dropped(reason lbReason, rule, member uint32) outcome {
	return outcome{Trace: Trace{Verdict: VerdictDrop, Reason: Reason(reason), Rule: rule, Member: member}}
}

func answered(reason lbReason, out []byte) outcome {
	return outcome{Trace: Trace{Verdict: VerdictTX, Reason: Reason(reason)}, out: out}
}

// send puts one frame through the program and checks everything it did.
func send(t *testing.T, d *Datapath, f frame, want outcome) {
	t.Helper()
	in := f()
	before := readCounters(t, d)
	trace, out, err := d.Run(slices.Clone(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Trace, trace); diff != "" {
		t.Errorf("trace (-want +got):\n%s%s", diff, testutil.Dump(in))
	}
	wantOut := want.out
	switch {
	case wantOut == nil && forwards(want.Verdict):
		m := d.Member(want.Member)
		wantOut = f(testutil.MACs(m.SMAC[:], m.DMAC[:]))
	case wantOut == nil:
		wantOut = in
	}
	if diff := testutil.Diff(wantOut, out); diff != "" {
		t.Errorf("packet (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantCounters(d, want, len(in)), readCounters(t, d).since(before)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

// sendAll sends packets that are all to meet the same outcome.
func sendAll(t *testing.T, d *Datapath, want outcome, frames ...frame) {
	t.Helper()
	for _, f := range frames {
		send(t, d, f, want)
	}
}

func forwards(v Verdict) bool { return v == VerdictTX || v == VerdictRedirect }

// counters are all that are not zero, by name.
type counters map[string]uint64

func (c counters) since(before counters) counters {
	diff := counters{}
	for name, n := range c {
		if n != before[name] {
			diff[name] = n - before[name]
		}
	}
	return diff
}

func wantCounters(d *Datapath, want outcome, length int) counters {
	c := counters{}
	if want.Reason != 0 || want.Verdict == VerdictPass {
		c["reason "+want.Reason.String()] = 1
	}
	switch want.Reason {
	case ReasonSourceNotAllowed, ReasonRateLimited, ReasonSourceRateLimited:
		c[fmt.Sprintf("rule %d refused for %s", want.Rule, want.Reason)] = 1
	}
	for _, e := range want.events {
		c["event "+e.String()]++
	}
	if want.Member == 0 || want.Reason != 0 || !forwards(want.Verdict) {
		return c
	}
	m, r := d.Member(want.Member), d.Rule(want.Rule)
	traffic := fmt.Sprintf("traffic %d ", m.StatBase+uint32(r.StatSlot))
	zones := fmt.Sprintf("zone %d to %d ", want.Zone, m.Zone)
	c[traffic+"packets"], c[traffic+"bytes"] = 1, uint64(length)
	c[zones+"packets"], c[zones+"bytes"] = 1, uint64(length)
	if want.Flow == TraceNew {
		c[traffic+"flows"] = 1
	}
	return c
}

func readCounters(tb testing.TB, d *Datapath) counters {
	tb.Helper()
	c := counters{}
	add := func(name string, n uint64) {
		if n != 0 {
			c[name] += n
		}
	}
	for i, n := range perCPU[uint64](tb, d.objs.L4lbReasons) {
		add("reason "+Reason(i).String(), n)
	}
	for i, n := range perCPU[uint64](tb, d.objs.L4lbEvents) {
		add("event "+FlowEvent(i).String(), n)
	}
	for i, t := range perCPU[lbTraffic](tb, d.objs.L4lbStats) {
		if t != (lbTraffic{}) {
			name := fmt.Sprintf("traffic %d ", i)
			add(name+"packets", t.Packets)
			add(name+"bytes", t.Bytes)
			add(name+"flows", t.Flows)
		}
	}
	for i, r := range perCPU[lbRefused](tb, d.objs.L4lbRefused) {
		name := fmt.Sprintf("rule %d refused for ", i)
		add(name+ReasonSourceNotAllowed.String(), r.NotAllowed)
		add(name+ReasonRateLimited.String(), r.Limited)
		add(name+ReasonSourceRateLimited.String(), r.SourceLimited)
	}
	for i, s := range perCPU[lbSignals](tb, d.objs.L4lbSignals) {
		name := fmt.Sprintf("signal %d ", i)
		add(name+"SYNs", s.Syns)
		add(name+"confirmed", s.Confirmed)
		add(name+"unreachable", s.Unreachable)
	}
	for i, t := range perCPU[lbZoneTraffic](tb, d.objs.L4lbZstats) {
		if t != (lbZoneTraffic{}) {
			name := fmt.Sprintf("zone %d to %d ", i/ZoneMax, i%ZoneMax)
			add(name+"packets", t.Packets)
			add(name+"bytes", t.Bytes)
		}
	}
	return c
}

// perCPU iterates over the values of a per-CPU array by index, each CPU's one by
// one.
func perCPU[T any](tb testing.TB, m *ebpf.Map) func(yield func(int, T) bool) {
	tb.Helper()
	var cursor ebpf.MapBatchCursor
	keys := make([]uint32, m.MaxEntries())
	values := make([]T, len(keys)*ebpf.MustPossibleCPU())
	n, err := m.BatchLookup(&cursor, keys, values, nil)
	if n != len(keys) {
		tb.Fatalf("read %s: %d of %d values: %v", m, n, len(keys), err)
	}
	return func(yield func(int, T) bool) {
		for i, v := range values {
			if !yield(int(keys[i/ebpf.MustPossibleCPU()]), v) {
				return
			}
		}
	}
}
