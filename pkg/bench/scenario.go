package bench

import (
	"encoding/binary"
	"net/netip"
)

// Scenario is a kind of packet.
type Scenario string

const (
	// EstablishedHit is a TCP segment of a tracked, confirmed flow.
	EstablishedHit Scenario = "establishedHit"
	// NewSYN is the SYN of a flow that the table has never seen.
	NewSYN Scenario = "newSyn"
	// NewUDP is the first datagram of such a flow; unlike a SYN it is looked
	// up first.
	NewUDP Scenario = "newUdp"
	// RepeatedSYN is the SYN of a tracked flow: chosen anew, entry rewritten.
	RepeatedSYN Scenario = "repeatedSyn"
	// Pass is a TCP segment for an address that is not ours.
	Pass Scenario = "pass"
)

// Scenarios lists all of them in the order of tables.
func Scenarios() []Scenario {
	return []Scenario{EstablishedHit, RepeatedSYN, NewSYN, NewUDP, Pass}
}

// Family is the packets' address family.
type Family string

const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
)

const (
	protoTCP = 6
	protoUDP = 17

	tcpSYN = 0x02
	tcpACK = 0x10

	xdpPass = 2
	xdpTX   = 3
)

// shape is how a scenario's packets look, and what becomes of them.
type shape struct {
	proto    byte
	flags    byte // of TCP
	ours     bool // for one of our VIPs
	fresh    bool // each packet is of a flow that was never seen
	newFlows bool // each packet makes or rewrites an entry
	verdict  uint32
}

var shapes = map[Scenario]shape{
	EstablishedHit: {proto: protoTCP, flags: tcpACK, ours: true, verdict: xdpTX},
	RepeatedSYN:    {proto: protoTCP, flags: tcpSYN, ours: true, newFlows: true, verdict: xdpTX},
	NewSYN:         {proto: protoTCP, flags: tcpSYN, ours: true, fresh: true, newFlows: true, verdict: xdpTX},
	NewUDP:         {proto: protoUDP, ours: true, fresh: true, newFlows: true, verdict: xdpTX},
	Pass:           {proto: protoTCP, flags: tcpACK, verdict: xdpPass},
}

// The flow of number 0. Others have more in the bytes that bpf/bench_xdp.c names:
// the network, the client and its port, and the VIP, one of vips.
var (
	firstClient = map[Family]netip.Addr{
		IPv4: netip.MustParseAddr("10.1.0.0"), IPv6: netip.MustParseAddr("2001:db8:a:100::"),
	}
	firstVIP = map[Family]netip.Addr{
		IPv4: netip.MustParseAddr("192.0.2.16"), IPv6: netip.MustParseAddr("2001:db8:f::10"),
	}
	firstOther = map[Family]netip.Addr{
		IPv4: netip.MustParseAddr("203.0.113.16"), IPv6: netip.MustParseAddr("2001:db8:e::10"),
	}
	gatewayMAC = [6]byte{0x02, 0x4c, 0, 0, 0, 0x01}
	clientMAC  = [6]byte{0x02, 0x4c, 0, 0, 0x01, 0x07}
)

const (
	vips       = 16
	networks   = 4 // of clients; the last is in no zone
	firstPort  = 1024
	tcpPort    = 80
	udpPort    = 443
	ethSize    = 14
	ipv4Size   = 20
	ipv6Size   = 40
	l4Size     = 20 // of TCP; UDP has payload in its place
	frameWords = 8
)

// frame builds the frame of flow 0, padded to what the driver writes. Checksums
// are left out: nothing in the data plane's path of these packets looks at them.
func (s shape) frame(family Family) []byte {
	src, dst := firstClient[family], firstVIP[family]
	if !s.ours {
		dst = firstOther[family]
	}
	b := append(gatewayMAC[:], clientMAC[:]...)
	if family == IPv4 {
		b = append(b, 0x08, 0x00, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, ipv4Size+l4Size)
		b = append(b, 0, 0, 0x40, 0, 64, s.proto, 0, 0)
	} else {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, l4Size)
		b = append(b, s.proto, 64)
	}
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, firstPort)
	b = binary.BigEndian.AppendUint16(b, s.port())
	l4 := make([]byte, l4Size-4)
	if s.proto == protoTCP {
		l4[8], l4[9] = 5<<4, s.flags
	} else {
		l4[1] = l4Size
	}
	b = append(b, l4...)
	return append(b, make([]byte, max(0, 8*frameWords-len(b)))...)
}

func (s shape) port() uint16 {
	if s.proto == protoUDP {
		return udpPort
	}
	return tcpPort
}

// run is what the driver is told to make the scenario's frames.
func (s shape) run(family Family) benchBenchRun {
	frame := s.frame(family)
	run := benchBenchRun{Sport: firstPort, Dport: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, s.port()))}
	addresses := frame[ethSize+ipv4Size-8:]
	words := 1
	if family == IPv6 {
		addresses, words = frame[ethSize+ipv6Size-32:], 4
		run.Ipv6 = 1
	}
	for i := range words {
		run.Address[i] = binary.NativeEndian.Uint64(addresses[8*i:])
	}
	for i := range run.Frame {
		run.Frame[i] = binary.NativeEndian.Uint64(frame[8*i:])
	}
	return run
}
