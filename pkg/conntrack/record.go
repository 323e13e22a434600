// Package conntrack is the Go side of the flow table: what an entry holds, which
// entries are followed, and how they are filtered, counted and shown. Reading
// the table itself is pkg/loader's.
package conntrack

import (
	"fmt"
	"net/netip"
	"time"
)

// State is how well a flow is known: FLOW_STATE_ of bpf/include/types.h.
type State uint8

const (
	// Probation is a flow of which one packet was seen. It gives its place
	// to another flow when there is no room.
	Probation State = 1
	// Confirmed is a flow of two packets or more. It keeps its place.
	Confirmed State = 2
)

// String is the name that `flows` prints.
func (s State) String() string {
	switch s {
	case Probation:
		return "PROBATION"
	case Confirmed:
		return "CONFIRMED"
	}
	return "UNKNOWN"
}

// ParseState reads a State's name.
func ParseState(name string) (State, error) {
	for _, s := range []State{Probation, Confirmed} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("flow state %q is neither %s nor %s", name, Probation, Confirmed)
}

// Kind is which fields an entry's key holds (semantics.md 1.6): FLOW_KIND_ of
// bpf/include/types.h.
type Kind uint8

const (
	Ports         Kind = 0 // addresses, protocol, ports
	NoPorts       Kind = 1 // addresses, protocol
	ClientIPProto Kind = 2 // addresses, protocol, of a PER_SESSION service
	ClientIP      Kind = 3 // addresses
	ClientOnly    Kind = 4 // source address
)

// String is the name that `flows` prints.
func (k Kind) String() string {
	names := [...]string{"FIVE_TUPLE", "THREE_TUPLE", "CLIENT_IP_PROTO", "CLIENT_IP", "CLIENT_IP_NO_DESTINATION"}
	if int(k) < len(names) {
		return names[k]
	}
	return "UNKNOWN"
}

// Session reports whether the rules of a service share the entry.
func (k Kind) Session() bool { return k >= ClientIPProto }

// Record is one entry. Fields that the key leaves out are zero.
type Record struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	Protocol         uint8 // IP protocol number
	Kind             Kind
	Service          uint16 // id; only for the PER_SESSION kinds
	State            State
	Member, Rule     uint32 // ids
	Generation       uint16
	Epoch            uint16
	Last             uint32 // tick of the last packet
	Zone             uint8  // id of the client's zone when the entry was made
}

// RuleState is what decides about the entries of a rule.
type RuleState struct {
	Service             uint16 // id
	Epoch, ServiceEpoch uint16
	IdleTicks           uint32
}

// MemberState is what decides about the entries of a backend: the generations of
// connection-oriented protocols and of all others, and how long a PER_SESSION
// entry may be idle.
type MemberState struct {
	Generation [2]uint16
	IdleTicks  uint32
}

// Table is what the package needs of the data plane; *loader.Datapath has it.
type Table interface {
	EachFlow(f func(Record) bool)
	RuleState(id uint32) RuleState
	MemberState(id uint32) MemberState
	Now() (ticks uint32, err error)
	TickDuration() time.Duration
}

// clockSkew is CLOCK_SKEW of bpf/include/flow.h: an entry may be this many ticks
// younger than the time that was read before it.
const clockSkew = 8

// Holds reports whether a packet of the flow would follow the entry, as
// flow_holds of bpf/include/flow.h decides it. rule is the entry's or, for a
// PER_SESSION entry, any of its service.
func (r Record) Holds(rule RuleState, member MemberState, now uint32) bool {
	epoch, idle := rule.Epoch, rule.IdleTicks
	if r.Kind.Session() {
		epoch, idle = rule.ServiceEpoch, member.IdleTicks
	}
	inTime := now+clockSkew-r.Last <= idle+clockSkew
	return r.Epoch == epoch && inTime && member.Generation[r.class()] == r.Generation
}

// class is the index of the generation that counts: TCP and SCTP connections,
// or everything else.
func (r Record) class() int {
	const tcp, sctp = 6, 132
	if !r.Kind.Session() && (r.Protocol == tcp || r.Protocol == sctp) {
		return 0
	}
	return 1
}
