/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_HASH_H
#define L4LB_HASH_H

/* Multiply-xorshift rounds: the odd constants are those of splitmix64 and
 * murmur3's finalizers. Each round folds one word into the state.
 */
static __always_inline __u64 hash_round(__u64 h, __u64 word)
{
	h = (h ^ word) * 0xbf58476d1ce4e5b9ULL;
	return h ^ (h >> 32);
}

static __always_inline __u64 hash_final(__u64 h)
{
	h *= 0x94d049bb133111ebULL;
	h ^= h >> 29;
	h *= 0xff51afd7ed558ccdULL;
	return h ^ (h >> 32);
}

/* The fields that choose a backend (semantics.md 1.4), as one number that does
 * not change when source and destination are swapped (4.4), so that both
 * directions of a flow meet the same appliance.
 */
static __always_inline __u64 selection_hash(const struct packet *pkt, __u8 affinity)
{
	__u64 a0 = pkt->addr[0], a1 = pkt->addr[1];
	__u64 b0 = pkt->addr[2], b1 = pkt->addr[3];
	__u64 ports = 0, h = cfg_select_seed;
	__u32 sport = 0, dport = 0;
	bool swap;

	if (affinity == AFFINITY_CLIENT_ONLY) {
		h = hash_round(h, a0);
		return hash_final(hash_round(h, a1));
	}
	if (affinity == AFFINITY_FIVE_TUPLE) {
		sport = pkt->tail.sport;
		dport = pkt->tail.dport;
	}
	if (a0 != b0)
		swap = a0 > b0;
	else if (a1 != b1)
		swap = a1 > b1;
	else
		swap = sport > dport;

	ports = swap ? (__u64)dport << 16 | sport : (__u64)sport << 16 | dport;
	if (affinity != AFFINITY_CLIENT_IP)
		ports |= (__u64)pkt->tail.proto << 32;

	h = hash_round(h, swap ? b0 : a0);
	h = hash_round(h, swap ? b1 : a1);
	h = hash_round(h, swap ? a0 : b0);
	h = hash_round(h, swap ? a1 : b1);
	return hash_final(hash_round(h, ports));
}

#endif
