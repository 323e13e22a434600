package model

import "net/netip"

// The IP protocol numbers that the rules tell apart.
const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
	protoSCTP   = 132
)

// Packet is what the rules look at.
type Packet struct {
	Src, Dst netip.Addr
	Protocol uint8
	// SrcPort and DstPort are those of TCP, UDP and SCTP. No other protocol
	// is tracked by ports, and no fragment.
	SrcPort, DstPort uint16
	SYN, ACK         bool  // of TCP
	Fragment         bool  // any piece of a fragmented datagram, the first one too
	ICMPType         uint8 // of ICMP in IPv4 and of ICMPv6 in IPv6
}

// hasPorts reports whether the packet is tracked by ports.
func (p *Packet) hasPorts() bool {
	return !p.Fragment && (p.Protocol == protoTCP || p.Protocol == protoUDP || p.Protocol == protoSCTP)
}

// opens reports whether the packet starts a connection: a TCP SYN without ACK
// (semantics.md 1.2).
func (p *Packet) opens() bool {
	return p.Protocol == protoTCP && !p.Fragment && p.SYN && !p.ACK
}

func (p *Packet) isICMP() bool {
	return p.Protocol == p.icmp()
}

func (p *Packet) icmp() uint8 {
	if p.Dst.Is4() {
		return protoICMP
	}
	return protoICMPv6
}

// isICMPError reports whether the packet quotes another one (RFC 792; RFC 4443
// 2.1).
func (p *Packet) isICMPError() bool {
	if !p.isICMP() {
		return false
	}
	if p.Dst.Is6() {
		return p.ICMPType < 128
	}
	switch p.ICMPType {
	case 3, 4, 5, 11, 12:
		return true
	}
	return false
}

func (p *Packet) isEchoRequest() bool {
	return p.isICMP() && (p.Dst.Is4() && p.ICMPType == 8 || p.Dst.Is6() && p.ICMPType == 128)
}

// Verdict is what becomes of a packet.
type Verdict string

const (
	Pass    Verdict = "PASS"    // to the gateway's own kernel
	Drop    Verdict = "DROP"    // nowhere
	Forward Verdict = "FORWARD" // to Result.Backend
	Answer  Verdict = "ANSWER"  // back to the client, by the gateway itself
)

// Flow says what connection tracking made of a packet.
type Flow string

const (
	FlowNone Flow = "NONE" // not tracked
	FlowHit  Flow = "HIT"  // followed an entry
	FlowNew  Flow = "NEW"  // a backend was selected, and an entry made
)

// The reasons of verdicts, as `replay` prints them.
const (
	ReasonFragment    = "FRAGMENT"
	ReasonICMPError   = "ICMP_ERROR"
	ReasonEchoReply   = "ECHO_REPLY"
	ReasonNoRule      = "NO_RULE"
	ReasonNoBackend   = "NO_BACKEND"
	ReasonOtherRegion = "OTHER_REGION"

	ReasonSourceNotAllowed  = "SOURCE_NOT_ALLOWED"
	ReasonRateLimited       = "RATE_LIMITED"
	ReasonSourceRateLimited = "SOURCE_RATE_LIMITED"
)

// Result is what was decided about a packet; fields are empty where the packet
// did not get that far.
type Result struct {
	Verdict Verdict
	Reason  string
	Rule    string // forwarding rule
	Service string // backend service
	Backend string // instance
	Addr    netip.Addr
	Flow    Flow
	// ClientZone is the client's zone when its entry was made.
	ClientZone string
}
