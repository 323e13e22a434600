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
			flow := &d.flows4[b].Flow[i]
			value, used := flowValue(&flow.Value)
			if !used {
				continue
			}
			key, meta := flow.Key, flow.Meta
			if atomic.LoadUint64(&flow.Value) != value {
				continue
			}
			r := record(value, meta.Last, meta.Epoch, meta.Zone)
			r.Src, r.Dst = netip.AddrFrom4(key.Saddr), netip.AddrFrom4(key.Daddr)
			r.SrcPort, r.DstPort = swap16(key.Tail.Sport), swap16(key.Tail.Dport)
			r.Protocol, r.Kind, r.Service = key.Tail.Proto, conntrack.Kind(key.Tail.Kind), key.Tail.Scope
			if !f(r) {
				return
			}
		}
	}
	for b := range d.flows6 {
		for i := range d.flows6[b].Flow {
			flow := &d.flows6[b].Flow[i]
			value, used := flowValue(&flow.Value)
			if !used {
				continue
			}
			key, meta := flow.Key, flow.Meta
			if atomic.LoadUint64(&flow.Value) != value {
				continue
			}
			r := record(value, meta.Last, meta.Epoch, meta.Zone)
			r.Src, r.Dst = netip.AddrFrom16(key.Saddr), netip.AddrFrom16(key.Daddr)
			r.SrcPort, r.DstPort = swap16(key.Tail.Sport), swap16(key.Tail.Dport)
			r.Protocol, r.Kind, r.Service = key.Tail.Proto, conntrack.Kind(key.Tail.Kind), key.Tail.Scope
			if !f(r) {
				return
			}
		}
	}
}

// flowValue reads an entry's value word; used is false where there is no entry, or
// one that is being written.
func flowValue(word *uint64) (value uint64, used bool) {
	value = atomic.LoadUint64(word)
	state := uint8(value >> 24)
	return value, state != 0 && state != flowBusy
}

// record unpacks an entry's value word: see struct flow4 of bpf/include/types.h.
func record(value uint64, last uint32, epoch uint16, zone uint8) conntrack.Record {
	return conntrack.Record{
		Member: uint32(value) & 0xffffff, State: conntrack.State(value >> 24),
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
