package model

import (
	"encoding/binary"
	"net/netip"

	"l4lb/pkg/lb"
)

// selectionHash is the hash of the fields that the affinity names (semantics.md
// 1.4). It is made of the sum of both ends' hashes, so that both directions of a
// flow have the same one (4.4); the source alone cannot.
func selectionHash(p *Packet, affinity lb.SessionAffinity, seed uint64) uint64 {
	var srcPort, dstPort uint64
	if affinity.FiveTuple() && p.hasPorts() {
		srcPort, dstPort = portWord(p.SrcPort), portWord(p.DstPort)
	}
	sum := endHash(seed, p.Src, srcPort)
	if affinity == lb.AffinityClientIPNoDestination {
		return finish(sum)
	}
	sum += endHash(seed, p.Dst, dstPort)
	if affinity != lb.AffinityClientIP {
		sum += uint64(p.Protocol) << 32
	}
	return finish(sum)
}

// endHash folds address and port in by multiply-xorshift rounds.
func endHash(h uint64, addr netip.Addr, port uint64) uint64 {
	w := words(addr)
	for _, w := range []uint64{w[0], w[1], port} {
		h = (h ^ w) * 0xbf58476d1ce4e5b9
		h ^= h >> 32
	}
	return h
}

func finish(h uint64) uint64 {
	h *= 0x94d049bb133111eb
	h ^= h >> 29
	h *= 0xff51afd7ed558ccd
	return h ^ h>>32
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

// FlowHash is the hash that tells flows apart in the outer headers of tunnels: of
// the 5-tuple, whatever the affinity.
func FlowHash(p *Packet, seed uint64) uint64 {
	return selectionHash(p, lb.AffinityNone, seed)
}
