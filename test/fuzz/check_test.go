package fuzz

import (
	"bytes"
	"fmt"

	"l4lb/pkg/loader"
)

// send puts one frame through the program and says what is wrong with what it
// did, "" for nothing.
func (w *world) send(in []byte) (loader.Trace, string) {
	t, out, err := w.d.RunInto(in, w.out)
	if err != nil {
		return t, err.Error()
	}
	what := w.check(in, out, t)
	if what != "" {
		what = fmt.Sprintf("%s\n  %s, reason %q, rule %d, member %d, flow %s\n  in  %x\n  out %x",
			what, t.Verdict, t.Reason, t.Rule, t.Member, t.Flow, in, out)
	}
	w.seen.count(t)
	return t, what
}

// check holds the outcome against what must be true of any frame.
func (w *world) check(in, out []byte, t loader.Trace) string {
	p := read(in)
	switch t.Verdict {
	case loader.VerdictPass:
		if !bytes.Equal(in, out) {
			return "a passed frame was changed"
		}
		return w.checkPassed(&p, t.Reason)
	case loader.VerdictDrop:
		return w.checkDropped(&p, t.Reason)
	case loader.VerdictTX, loader.VerdictRedirect:
		if t.Reason == 0 {
			return w.checkForwarded(&p, out, t)
		}
		if t.Verdict != loader.VerdictTX {
			return "an answer leaves by another interface"
		}
		return w.checkAnswered(&p, out, t)
	}
	return "aborted, or a verdict that does not exist"
}

// toUs reports whether a frame is addressed to the gateway's interface.
func toUs(in []byte) bool { return len(in) >= 14 && bytes.Equal(in[:6], gatewayMAC[:]) }

// ours reports whether a packet is for an address of the configuration, or for
// one that we are a next hop to.
func (w *world) ours(p *packet) bool {
	return toUs(p.raw) && p.ip && (w.owns(p.dst) || w.routed(p.dst))
}

// checkPassed: a packet of ours whose headers can be read is not left to the
// kernel without a reason, and the reason is true.
func (w *world) checkPassed(p *packet, reason loader.Reason) string {
	switch reason.String() {
	case "":
		// Neighbour discovery has no next hop: it is the kernel's.
		solicits := p.ipv6 && p.lengths && p.headers == 0 && p.proto == 58 && p.raw[p.l4] == 135 && !w.owns(p.dst)
		if w.ours(p) && p.lengths && versionFits(p) && !solicits {
			return "a packet for an address of ours was passed without a reason"
		}
	case "MALFORMED":
		if p.lengths && versionFits(p) {
			return "nothing is wrong with the lengths of a packet that is called malformed"
		}
	case "ICMP_ERROR":
		if p.later || !w.ours(p) || !isICMPError(p) {
			return "passed as an ICMP error, but is none for an address of ours"
		}
	case "TTL_EXPIRED":
		if !w.ours(p) || !w.routed(p.dst) || p.ttl > 1 {
			return "passed for its TTL, which is not used up"
		}
	case "SENT_BY_BACKEND":
		if !w.ours(p) || !w.routed(p.dst) || !w.isBackend(p.raw[6:12]) {
			return "passed as sent by a backend, which it was not"
		}
	case "EXTENSION_HEADER":
		if !p.ipv6 || p.headers < 6 && p.l4 < 0x1ff {
			return "passed for its extension headers, which are few"
		}
	default:
		return "passed for a reason that is none to pass"
	}
	return ""
}

// versionFits: the Ethernet type and the IP header name the same protocol.
func versionFits(p *packet) bool {
	return p.ip && (p.raw[p.l3]>>4 == 6) == p.ipv6
}

func isICMPError(p *packet) bool {
	if p.l4 >= len(p.raw) {
		return false
	}
	kind := p.raw[p.l4]
	if p.ipv6 {
		return p.proto == 58 && kind < 128
	}
	return p.proto == 1 && (kind == 3 || kind == 4 || kind == 5 || kind == 11 || kind == 12)
}

// dropReasons are the reasons to drop a packet.
var dropReasons = map[string]bool{
	"FRAGMENT": true, "NO_RULE": true, "NO_BACKEND": true, "OTHER_REGION": true, "NO_NEIGHBOUR": true, "ECHO_RATE_LIMITED": true, "ECHO_BAD_CHECKSUM": true,
	"SOURCE_NOT_ALLOWED": true, "TOO_BIG_RATE_LIMITED": true, "TOO_BIG_UNANSWERED": true, "RATE_LIMITED": true, "SOURCE_RATE_LIMITED": true,
}

// checkDropped: only what is ours is dropped, and for a reason to drop.
func (w *world) checkDropped(p *packet, reason loader.Reason) string {
	if !dropReasons[reason.String()] {
		return "dropped without a reason to drop"
	}
	if !w.ours(p) {
		return "a packet that is not ours was dropped"
	}
	if reason.String() == "FRAGMENT" && !p.fragment && !isICMPError(p) { // which may be about one
		return "dropped as a fragment, but is none"
	}
	return ""
}

// checkForwarded: a packet of ours, to a backend, and as it came.
func (w *world) checkForwarded(p *packet, out []byte, t loader.Trace) string {
	if !w.ours(p) {
		return "a packet that is not ours was forwarded"
	}
	m, known := w.members[t.Member]
	if !known || t.Rule == 0 {
		return "forwarded to nobody who is known"
	}
	if m.tx != (t.Verdict == loader.VerdictTX) {
		return "forwarded out of the wrong interface"
	}
	if len(out) < 14 || !bytes.Equal(out[:12], m.head[:]) {
		return "forwarded with wrong link addresses"
	}
	want := p.raw[12:]
	if w.routed(p.dst) {
		want = w.hopped(p, m.way.unwrapped(p, out))[12:]
	}
	if p.l4 > p.end || p.end > len(p.raw) {
		return "forwarded though its lengths do not agree"
	}
	if m.way.kind.Tunnelled() {
		return m.way.checkWrapped(p, want[p.l3-12:p.end-12], out)
	}
	if w.routed(p.dst) && p.end-p.l3 > linkMTU {
		return "a route's packet is longer than its link carries"
	}
	if !bytes.Equal(out[12:], want) {
		return "changed above the link"
	}
	return w.checkDecodes(p, out)
}

// hopped is the packet as a router sends it on: one less of its TTL, and a header
// checksum that is as right or wrong as it was.
func (w *world) hopped(p *packet, out []byte) []byte {
	want := append(w.want[:0], p.raw...)
	if p.ipv6 {
		want[p.l3+7]--
		return want
	}
	want[p.l3+8]--
	if q := read(out); q.ip && q.headerSum() == p.headerSum() {
		copy(want[p.l3+10:p.l3+12], out[p.l3+10:])
	}
	return want
}

func (w *world) isBackend(mac []byte) bool {
	for _, m := range w.members {
		if bytes.Equal(m.head[:6], mac) {
			return true
		}
	}
	return false
}
