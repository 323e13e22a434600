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
	SYN, ACK         bool // of TCP
	Fragment         Fragment
	ICMPType         uint8 // of ICMP in IPv4 and of ICMPv6 in IPv6
	// BadChecksum is damage that only who answers an echo request looks at.
	BadChecksum bool
	// Quoted is the packet that an ICMP error is about, as it was sent; nil
	// where the error does not hold enough of it.
	Quoted *Packet
	TTL    uint8 // or hop limit
	// Sender is the backend that sent the frame, if one did.
	Sender    netip.Addr
	Interface string // that the frame came in at
}

// Fragment says which piece of a datagram a packet is.
type Fragment uint8

const (
	Whole         Fragment = iota // no fragment
	FirstFragment                 // with the ports in it
	LaterFragment                 // or a first one that is too short for them
)

// hasPorts reports whether the packet is tracked by ports.
func (p *Packet) hasPorts() bool {
	return p.Fragment == Whole && (p.Protocol == protoTCP || p.Protocol == protoUDP || p.Protocol == protoSCTP)
}

// namesPort reports whether the packet says which port's rule it is for.
func (p *Packet) namesPort() bool { return p.Fragment != LaterFragment }

// opens reports whether the packet starts a connection: a TCP SYN without ACK
// (semantics.md 1.2).
func (p *Packet) opens() bool {
	return p.Protocol == protoTCP && p.Fragment != LaterFragment && p.SYN && !p.ACK
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
	if !p.isICMP() || p.Fragment == LaterFragment {
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

// concerns is the packet that the backend which an ICMP error is for gets from
// its client: the quoted one, turned round. Nil for an error that is for nobody:
// obsolete, in pieces, cut short, or about a packet of somebody else.
func (p *Packet) concerns() *Packet {
	relayed := p.Dst.Is6() && p.ICMPType >= 1 && p.ICMPType <= 4 ||
		p.Dst.Is4() && (p.ICMPType == 3 || p.ICMPType == 11 || p.ICMPType == 12)
	q := p.Quoted
	if p.Fragment != Whole || !relayed || q == nil || q.Src != p.Dst {
		return nil
	}
	about := &Packet{
		Src: q.Dst, Dst: q.Src, Protocol: q.Protocol, SrcPort: q.DstPort, DstPort: q.SrcPort,
		TTL: p.TTL, Sender: p.Sender, Interface: p.Interface, // those of the error, which is what goes there
	}
	if q.Fragment == LaterFragment {
		about.Fragment = LaterFragment
	}
	return about
}

func (p *Packet) isEchoRequest() bool {
	return p.isICMP() && p.Fragment == Whole && (p.Dst.Is4() && p.ICMPType == 8 || p.Dst.Is6() && p.ICMPType == 128)
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
	ReasonBadChecksum = "ECHO_BAD_CHECKSUM"
	ReasonEchoReply   = "ECHO_REPLY"
	ReasonNoRule      = "NO_RULE"
	ReasonNoBackend   = "NO_BACKEND"
	ReasonOtherRegion = "OTHER_REGION"

	ReasonSourceNotAllowed  = "SOURCE_NOT_ALLOWED"
	ReasonRateLimited       = "RATE_LIMITED"
	ReasonSourceRateLimited = "SOURCE_RATE_LIMITED"

	ReasonTTLExpired    = "TTL_EXPIRED"
	ReasonSentByBackend = "SENT_BY_BACKEND"
)

// Result is what was decided about a packet; fields are empty where the packet
// did not get that far.
type Result struct {
	Verdict Verdict
	Reason  string
	Rule    string // forwarding rule
	Routed  bool   // by way of a route: forwarded, the packet takes a hop
	Service string // backend service
	Backend string // instance
	Addr    netip.Addr
	Flow    Flow
	// ClientZone is the client's zone when its entry was made.
	ClientZone string
}
