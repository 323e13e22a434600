package model

import (
	"encoding/binary"
	"net/netip"

	"l4lb/pkg/lb"
)

// selectionHash is the hash of the fields that the affinity names (semantics.md
// 1.4). Source and destination are ordered first, so that both directions of a
// flow have one hash (4.4); the source alone cannot be.
func selectionHash(p *Packet, affinity lb.SessionAffinity, seed uint64) uint64 {
	src, dst := words(p.Src), words(p.Dst)
	if affinity == lb.AffinityClientIPNoDestination {
		return hashWords(seed, src[0], src[1])
	}
	var srcPort, dstPort, protocol uint64
	if affinity.FiveTuple() && p.hasPorts() {
		srcPort, dstPort = portWord(p.SrcPort), portWord(p.DstPort)
	}
	if affinity != lb.AffinityClientIP {
		protocol = uint64(p.Protocol)
	}
	if swapped(src, dst, srcPort, dstPort) {
		src, dst, srcPort, dstPort = dst, src, dstPort, srcPort
	}
	return hashWords(seed, src[0], src[1], dst[0], dst[1], protocol<<32|srcPort<<16|dstPort)
}

func swapped(src, dst [2]uint64, srcPort, dstPort uint64) bool {
	switch {
	case src[0] != dst[0]:
		return src[0] > dst[0]
	case src[1] != dst[1]:
		return src[1] > dst[1]
	}
	return srcPort > dstPort
}

// slotOf spreads the upper half of a hash over the slots of a table.
func slotOf(hash uint64, slots int) int {
	return int(hash >> 32 * uint64(slots) >> 32)
}

// words is an address as two little-endian words, IPv4 in its mapped form.
func words(a netip.Addr) [2]uint64 {
	b := a.As16()
	return [2]uint64{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// portWord is a port in network order, read as little-endian.
func portWord(port uint16) uint64 { return uint64(port&0xff)<<8 | uint64(port>>8) }

// hashWords folds the words in by multiply-xorshift rounds.
func hashWords(h uint64, list ...uint64) uint64 {
	for _, w := range list {
		h = (h ^ w) * 0xbf58476d1ce4e5b9
		h ^= h >> 32
	}
	h *= 0x94d049bb133111eb
	h ^= h >> 29
	h *= 0xff51afd7ed558ccd
	return h ^ h>>32
}

// FlowHash is the hash that tells flows apart in the outer headers of tunnels: of
// the 5-tuple, whatever the affinity.
func FlowHash(p *Packet, seed uint64) uint64 {
	return selectionHash(p, lb.AffinityNone, seed)
}
