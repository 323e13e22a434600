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

/* One end of a flow, as a number. */
static __always_inline __u64 end_hash(__u64 a0, __u64 a1, __be16 port)
{
	return hash_round(hash_round(hash_round(cfg_select_seed, a0), a1), port);
}

/* The fields that choose a backend (semantics.md 1.4), as one number that does
 * not change when source and destination are swapped (4.4), so that both
 * directions of a flow meet the same appliance: it is made of a sum.
 */
static __always_inline __u64 selection_hash(const struct packet *pkt, __u8 affinity)
{
	bool ports = affinity == AFFINITY_FIVE_TUPLE;
	__u64 source = end_hash(pkt->addr[0], pkt->addr[1], ports ? pkt->tail.sport : 0);
	__u64 dest = end_hash(pkt->addr[2], pkt->addr[3], ports ? pkt->tail.dport : 0);

	if (affinity == AFFINITY_CLIENT_ONLY)
		return hash_final(source);
	if (affinity == AFFINITY_CLIENT_IP)
		return hash_final(source + dest);
	return hash_final(source + dest + ((__u64)pkt->tail.proto << 32));
}

#endif
