package loader

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"l4lb/pkg/encap"
)

// Class is a protocol class: whether connections may outlive their backend's
// health (semantics.md 1.8).
type Class int

const (
	// ClassConnection is TCP and SCTP.
	ClassConnection Class = iota
	// ClassOther is everything else, and all PER_SESSION entries.
	ClassOther
	// ClassMax is the number of classes.
	ClassMax
)

// Member is a backend as a member of one service.
type Member struct {
	// DMAC and SMAC are the link addresses of the frame that is sent out of
	// IfIndex. IfIndex 0 means the backend cannot be reached.
	DMAC, SMAC [6]byte
	IfIndex    uint32
	// Generation is compared with that of a flow entry; a change makes all
	// entries of the class invalid at once.
	Generation [ClassMax]uint16
	StatBase   uint32
	Zone       uint8
	// State is kept for the next daemon; the program does not read it. Its
	// bits 5 and 6 are not the caller's.
	State   uint8
	Service uint16
	// IdleTicks is the idle timeout of the service's PER_SESSION entries,
	// which may outlive the rule that made them.
	IdleTicks uint32
	// Tunnel is put around its packets; none where it is zero.
	Tunnel encap.Header
	// MTU is the length in bytes of the longest packet that the link to it takes;
	// 0 where that is not known or there is a tunnel. Longer packets of routes are
	// answered.
	MTU uint16
}

// SetMember writes the record of a member id. The link addresses are written
// before the interface index that makes them count, and a tunnel before what
// says that there is one.
func (d *Datapath) SetMember(id uint32, m Member) error {
	if id == 0 || int(id) >= len(d.members) {
		return fmt.Errorf("member %d: %w (%d)", id, ErrFull, len(d.members))
	}
	if err := d.keepMarks(m.IdleTicks); err != nil {
		return err
	}
	r := &d.members[id]
	if m.IfIndex == 0 {
		atomic.StoreUint32(&r.Ifindex, 0)
	}
	r.StatBase = m.StatBase
	// Zone, State and Service are one aligned word.
	facts := struct {
		zone, state uint8
		service     uint16
	}{m.Zone, m.State&^memberTunnelBits | d.writeWay(id, m.Tunnel, m.MTU), m.Service}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.Zone)), *(*uint32)(unsafe.Pointer(&facts)))
	atomic.StoreUint32(&r.Idle, m.IdleTicks)
	// Generation is one aligned word: both classes change together.
	generation := *(*uint32)(unsafe.Pointer(&m.Generation))
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.Generation)), generation)
	link := struct{ dmac, smac [6]byte }{m.DMAC, m.SMAC}
	words := (*[3]uint32)(unsafe.Pointer(&link))
	to := (*[3]uint32)(unsafe.Pointer(&r.Dmac))
	for i := range words {
		atomic.StoreUint32(&to[i], words[i])
	}
	atomic.StoreUint32(&r.Ifindex, m.IfIndex)
	return nil
}

// Member reads the record of a member id.
func (d *Datapath) Member(id uint32) Member {
	r := &d.members[id]
	return Member{
		DMAC: r.Dmac, SMAC: r.Smac, IfIndex: r.Ifindex, Generation: r.Generation,
		StatBase: r.StatBase, Zone: r.Zone, State: r.State &^ memberTunnelBits, Service: r.Service, IdleTicks: r.Idle,
		Tunnel: d.tunnel(id), MTU: d.linkMTU(id),
	}
}

// MemberCapacity is one more than the highest member id.
func (d *Datapath) MemberCapacity() uint32 { return uint32(len(d.members)) }

// Affinity is which packet fields choose a backend: AFFINITY_ of
// bpf/include/types.h.
type Affinity uint8

const (
	AffinityFiveTuple Affinity = iota
	AffinityClientIPProto
	AffinityClientIP
	AffinityClientOnly
)

// FlowKind is what a flow's key holds: FLOW_KIND_ of bpf/include/types.h.
type FlowKind uint8

const (
	FlowPorts FlowKind = iota
	FlowNoPorts
	FlowClientIPProto
	FlowClientIP
	FlowClientOnly
)

// Rule is a forwarding rule with what its service says about packets.
type Rule struct {
	Service uint16 // id
	// Epoch and ServiceEpoch are compared with that of a flow entry, the
	// second for PER_SESSION entries, which the rules of a service share.
	Epoch, ServiceEpoch uint16
	StatSlot            uint16
	IdleTicks           uint32
	Affinity            Affinity
	Kind                FlowKind // FlowPorts, or a PER_SESSION kind
	GlobalAccess        bool
	// Routed makes it the next hop of routes: its packets take a hop.
	Routed bool
	// SourceFilter and RateLimited have the program look at the rule's
	// Admission.
	SourceFilter, RateLimited bool
	// Signals has what the rule's traffic shows of its backends counted.
	Signals bool
}

// RULE_ of bpf/include/types.h.
const (
	ruleGlobalAccess = 1 << 0
	ruleRouted       = 1 << 1
	ruleSourceFilter = 1 << 2
	ruleRateLimited  = 1 << 3
	ruleSignals      = 1 << 7
)

// SetRule writes the record of a rule id.
func (d *Datapath) SetRule(id uint32, r Rule) error {
	if id == 0 || int(id) >= len(d.rules) {
		return fmt.Errorf("rule %d: %w (%d)", id, ErrFull, len(d.rules))
	}
	if err := d.keepMarks(r.IdleTicks); err != nil {
		return err
	}
	record := lbRule{
		PickBase: uint32(r.Service) * ZoneMax, Idle: r.IdleTicks,
		Epoch: r.Epoch, ServiceEpoch: r.ServiceEpoch, Service: r.Service,
		StatSlot: r.StatSlot, Affinity: uint8(r.Affinity), Kind: uint8(r.Kind),
	}
	for flag, set := range map[uint8]bool{
		ruleGlobalAccess: r.GlobalAccess, ruleRouted: r.Routed,
		ruleSourceFilter: r.SourceFilter, ruleRateLimited: r.RateLimited,
		ruleSignals: r.Signals,
	} {
		if set {
			record.Flags |= flag
		}
	}
	d.rules[id] = record
	return nil
}

// Rule reads the record of a rule id.
func (d *Datapath) Rule(id uint32) Rule {
	r := &d.rules[id]
	return Rule{
		Service: r.Service, Epoch: r.Epoch, ServiceEpoch: r.ServiceEpoch, StatSlot: r.StatSlot,
		IdleTicks: r.Idle, Affinity: Affinity(r.Affinity), Kind: FlowKind(r.Kind),
		GlobalAccess: r.Flags&ruleGlobalAccess != 0, Routed: r.Flags&ruleRouted != 0,
		SourceFilter: r.Flags&ruleSourceFilter != 0, RateLimited: r.Flags&ruleRateLimited != 0,
		Signals: r.Flags&ruleSignals != 0,
	}
}

// RuleCapacity is one more than the highest rule id.
func (d *Datapath) RuleCapacity() uint32 { return uint32(len(d.rules)) }

// ServiceCapacity is one more than the highest service id.
func (d *Datapath) ServiceCapacity() uint32 { return d.opts.Services }

// StatSlots is the number of rules of one service that have counters of their
// own.
func (d *Datapath) StatSlots() uint32 { return d.opts.StatSlots }

// SetPort makes an interface one of ours: frames to mac are handled.
func (d *Datapath) SetPort(ifindex uint32, mac [6]byte) error {
	p := &d.ports[ifindex%portSlots]
	if p.Ifindex != 0 && p.Ifindex != ifindex {
		return fmt.Errorf("interface indexes %d and %d share a slot of the port table", p.Ifindex, ifindex)
	}
	p.Mac = mac
	atomic.StoreUint32(&p.Ifindex, ifindex)
	return nil
}

// portSlots is the size of the port table; interface indexes that are equal
// modulo it cannot be attached together.
const portSlots = 1024
