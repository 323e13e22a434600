package loader

import (
	"net/netip"
	"sync/atomic"

	"l4lb/pkg/conntrack"
)

// flowBusy is FLOW_STATE_BUSY; the states below it are conntrack's.
const flowBusy = 3

// EachFlow calls f with every entry of the flow tables, expired and invalid ones
// too, until f returns false. It reads the mapped tables without a system call,
// while packets write them: an entry that changes under the read is left out.
func (d *Datapath) EachFlow(f func(conntrack.Record) bool) {
	for b := range d.flows4 {
		for i := range d.flows4[b].Flow {
			if r, _, ok := d.flows4[b].read(i); ok && !f(r) {
				return
			}
		}
	}
	for b := range d.flows6 {
		for i := range d.flows6[b].Flow {
			if r, _, ok := d.flows6[b].read(i); ok && !f(r) {
				return
			}
		}
	}
}

// AmendFlows gives every entry to the rule whose id f returns, mostly its own; 0
// removes it. Packets may write the tables meanwhile.
func (d *Datapath) AmendFlows(f func(conntrack.Record) (rule uint32)) {
	for b := range d.flows4 {
		for i := range d.flows4[b].Flow {
			if r, value, ok := d.flows4[b].read(i); ok {
				amend(&d.flows4[b].Flow[i].Value, value, &r, f(r), func() conntrack.Record { return d.flows4[b].decode(i, value) })
			}
		}
	}
	for b := range d.flows6 {
		for i := range d.flows6[b].Flow {
			if r, value, ok := d.flows6[b].read(i); ok {
				amend(&d.flows6[b].Flow[i].Value, value, &r, f(r), func() conntrack.Record { return d.flows6[b].decode(i, value) })
			}
		}
	}
}

// amend changes the rule in an entry's value word as a packet would: it claims
// the entry first. One that another flow has got since it was read, or whose
// word has changed, is left as it is.
func amend(word *uint64, value uint64, was *conntrack.Record, rule uint32, read func() conntrack.Record) {
	if rule == was.Rule || !atomic.CompareAndSwapUint64(word, value, flowBusy<<24) {
		return
	}
	is := read()
	is.Last, is.Epoch, is.Zone = was.Last, was.Epoch, was.Zone
	switch {
	case is != *was:
		atomic.StoreUint64(word, value)
	case rule == 0:
		atomic.StoreUint64(word, 0)
	default:
		atomic.StoreUint64(word, value&(1<<48-1)|uint64(rule)<<48)
	}
}

// read returns an entry and its value word; ok is false where there is none, or
// one that changes under the read.
func (b *lbBucket4) read(i int) (r conntrack.Record, value uint64, ok bool) {
	value, used := flowValue(&b.Flow[i].Value)
	if !used {
		return r, value, false
	}
	r = b.decode(i, value)
	return r, value, atomic.LoadUint64(&b.Flow[i].Value) == value
}

func (b *lbBucket4) decode(i int, value uint64) conntrack.Record {
	key, meta := b.Flow[i].Key, b.Flow[i].Meta
	r := record(value, meta.Last, meta.Epoch, meta.Zone)
	r.Src, r.Dst = netip.AddrFrom4(key.Saddr), netip.AddrFrom4(key.Daddr)
	r.SrcPort, r.DstPort = swap16(key.Tail.Sport), swap16(key.Tail.Dport)
	r.Protocol, r.Kind, r.Service = key.Tail.Proto, conntrack.Kind(key.Tail.Kind), key.Tail.Scope
	return r
}

func (b *lbBucket6) read(i int) (r conntrack.Record, value uint64, ok bool) {
	value, used := flowValue(&b.Flow[i].Value)
	if !used {
		return r, value, false
	}
	r = b.decode(i, value)
	return r, value, atomic.LoadUint64(&b.Flow[i].Value) == value
}

func (b *lbBucket6) decode(i int, value uint64) conntrack.Record {
	key, meta := b.Flow[i].Key, b.Flow[i].Meta
	r := record(value, meta.Last, meta.Epoch, meta.Zone)
	r.Src, r.Dst = netip.AddrFrom16(key.Saddr), netip.AddrFrom16(key.Daddr)
	r.SrcPort, r.DstPort = swap16(key.Tail.Sport), swap16(key.Tail.Dport)
	r.Protocol, r.Kind, r.Service = key.Tail.Proto, conntrack.Kind(key.Tail.Kind), key.Tail.Scope
	return r
}

// flowValue reads an entry's value word; used is false where there is no entry, or
// one that is being written.
func flowValue(word *uint64) (value uint64, used bool) {
	value = atomic.LoadUint64(word)
	state := flowState(value)
	return value, state != 0 && state != flowBusy
}

// flowBySYN is FLOW_BY_SYN: a note in an entry's value word, not part of its
// state.
const flowBySYN = 1 << 31

func flowState(value uint64) uint8 { return uint8((value &^ flowBySYN) >> 24) }

// record unpacks an entry's value word: see struct flow4 of bpf/include/types.h.
func record(value uint64, last uint32, epoch uint16, zone uint8) conntrack.Record {
	return conntrack.Record{
		Member: uint32(value) & 0xffffff, State: conntrack.State(flowState(value)),
		Generation: uint16(value >> 32), Rule: uint32(value >> 48),
		Last: last, Epoch: epoch, Zone: zone,
	}
}

// FlowCapacity is how many entries each address family's table has room for.
func (d *Datapath) FlowCapacity() int { return len(d.flows4) * bucketFlows }

// RuleState is what decides about the entries of a rule.
func (d *Datapath) RuleState(id uint32) conntrack.RuleState {
	if int(id) >= len(d.rules) {
		return conntrack.RuleState{}
	}
	r := &d.rules[id]
	return conntrack.RuleState{Service: r.Service, Epoch: r.Epoch, ServiceEpoch: r.ServiceEpoch, IdleTicks: r.Idle}
}

// MemberState is what decides about the entries of a backend.
func (d *Datapath) MemberState(id uint32) conntrack.MemberState {
	if int(id) >= len(d.members) {
		return conntrack.MemberState{}
	}
	return conntrack.MemberState{Generation: d.members[id].Generation, IdleTicks: d.members[id].Idle}
}

// ClearFlows empties the flow tables, spill marks included. It is for a data plane
// that no packet comes to meanwhile.
func (d *Datapath) ClearFlows() {
	clear(d.flows4)
	clear(d.flows6)
}
