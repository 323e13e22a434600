package capture

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strconv"

	"l4lb/pkg/loader"
)

// Kinds of conditions, by the names of bpf/include/capture.h.
const (
	kindSrc      = tracerCaptureKindCAPTURE_SRC
	kindDst      = tracerCaptureKindCAPTURE_DST
	kindSport    = tracerCaptureKindCAPTURE_SPORT
	kindDport    = tracerCaptureKindCAPTURE_DPORT
	kindProto    = tracerCaptureKindCAPTURE_PROTO
	kindEther    = tracerCaptureKindCAPTURE_ETHER
	kindFragment = tracerCaptureKindCAPTURE_FRAGMENT
	kindVerdict  = tracerCaptureKindCAPTURE_VERDICT
	kindReason   = tracerCaptureKindCAPTURE_REASON
	kindFlow     = tracerCaptureKindCAPTURE_FLOW
	kindRule     = tracerCaptureKindCAPTURE_RULE
	kindMember   = tracerCaptureKindCAPTURE_MEMBER
	kindZone     = tracerCaptureKindCAPTURE_ZONE
)

var protocols = map[string]uint32{
	"icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmp6": 58, "sctp": 132,
}

var etherTypes = map[string]uint32{
	"ip": swap16(0x0800), "arp": swap16(0x0806), "ip6": swap16(0x86dd),
}

var namedKinds = map[string]tracerCaptureKind{
	"rule": kindRule, "backend": kindMember, "service": kindMember, "zone": kindZone,
}

// namedValue tells a backend's name from a service's.
func namedValue(word string) uint32 {
	if word == "service" {
		return byService
	}
	return byInstance
}

const (
	byInstance = iota
	byService
)

func swap16(v uint16) uint32 { return uint32(bits.ReverseBytes16(v)) }

func protocol(word string) (uint32, bool) {
	if n, ok := protocols[word]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(word, 10, 8)
	return uint32(n), err == nil
}

// prefix is a network as the programs compare it: 16 bytes, IPv4 mapped.
type prefix struct{ addr, mask [2]uint64 }

func makePrefix(p netip.Prefix) prefix {
	p = p.Masked()
	ones := p.Bits()
	if p.Addr().Is4() {
		ones += 96
	}
	addr := p.Addr().As16()
	var mask [16]byte
	for i := range ones {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	words := func(b [16]byte) [2]uint64 {
		return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
	}
	return prefix{words(addr), words(mask)}
}

// endpoint is what follows src, dst, host, net and port.
func (p *parser) endpoint(t token) (*node, error) {
	side := ""
	word := t
	if t.text == "src" || t.text == "dst" {
		side, word = t.text, p.take()
	}
	pair := func(src, dst term) (*node, error) {
		switch side {
		case "src":
			return p.leaf(t, src)
		case "dst":
			return p.leaf(t, dst)
		}
		return p.either(t, src, dst)
	}
	if word.text == "port" {
		value := p.take()
		port, err := strconv.ParseUint(value.text, 10, 16)
		if err != nil {
			return nil, p.errorf(value, "%q is no port: use a number from 0 to 65535", value.text)
		}
		number := swap16(uint16(port))
		return pair(term{kind: kindSport, value: number}, term{kind: kindDport, value: number})
	}
	if word.text == "host" || word.text == "net" {
		word = p.take()
	}
	network, err := netip.ParsePrefix(word.text)
	if err != nil {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(word.text); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			network = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if err != nil || !network.IsValid() {
		return nil, p.errorf(word, "%q is no address or network: use one such as 192.0.2.10 or 2001:db8::/32", word.text)
	}
	if a := network.Addr(); a.Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
	}
	family := etherTypes["ip6"]
	if network.Addr().Is4() {
		family = etherTypes["ip"]
	}
	addr := makePrefix(network)
	return pair(term{kind: kindSrc, value: family, addr: addr}, term{kind: kindDst, value: family, addr: addr})
}

// outcome is what follows verdict, reason and flow.
func (p *parser) outcome(t token) (*node, error) {
	kind, values := kindVerdict, verdicts
	switch t.text {
	case "reason":
		kind, values = kindReason, reasons()
	case "flow":
		kind, values = kindFlow, flows
	}
	value, err := p.choose(t.text, p.take(), values)
	if err != nil {
		return nil, err
	}
	return p.leaf(t, term{kind: kind, value: value})
}

// verdicts are masks of 1 << XDP action.
var verdicts = map[string]uint32{
	"ABORTED":  1 << loader.VerdictAborted,
	"DROP":     1 << loader.VerdictDrop,
	"PASS":     1 << loader.VerdictPass,
	"TX":       1 << loader.VerdictTX,
	"REDIRECT": 1 << loader.VerdictRedirect,
	"SENT":     1<<loader.VerdictTX | 1<<loader.VerdictRedirect,
}

var flows = map[string]uint32{
	"NONE": uint32(loader.TraceNone), "HIT": uint32(loader.TraceHit), "NEW": uint32(loader.TraceNew),
}

func reasons() map[string]uint32 {
	out := map[string]uint32{"NONE": 0}
	for r := loader.Reason(1); r < loader.ReasonMax; r++ {
		out[r.String()] = uint32(r)
	}
	return out
}
