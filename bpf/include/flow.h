/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_FLOW_H
#define L4LB_FLOW_H

/* Connection tracking (semantics.md 1.2, 1.6, 1.7): what makes an entry hold,
 * and the tables of both address families.
 */

enum flow_rank {
	FLOW_RANK_HELD,	     /* live and confirmed, or being written */
	FLOW_RANK_PROBATION, /* live, one packet seen */
	FLOW_RANK_FREE,	     /* unused, expired or no longer valid */
};

/* An entry may be this many ticks younger than a packet: another CPU that read
 * the time a little later has touched it.
 */
#define CLOCK_SKEW 8

/* A spill mark is SPILL_MARK with the time, in units of 1 << cfg_spill_shift
 * ticks, when a flow that went past the bucket was last seen. A unit is a small
 * part of SPILL_UNITS of them, so that all marks that count are of this round.
 */
#define SPILL_UNITS 128
#define SPILL_MARK SPILL_UNITS

static __always_inline __u8 spill_mark(__u32 now)
{
	return SPILL_MARK | ((now >> cfg_spill_shift) & (SPILL_UNITS - 1));
}

/* Whether a flow that is followed may be past the bucket: spill_life covers the
 * longest idle time. A mark may be a unit younger than the packet, as an entry
 * may be some ticks.
 */
static __always_inline bool spill_counts(__u8 mark, __u32 now)
{
	return mark && ((spill_mark(now) + 1 - mark) & (SPILL_UNITS - 1)) <= spill_life + 1;
}

/* Places that a flow may be in; the first far bucket's number. */
#define FLOW_PLACES (FLOW_WAYS * BUCKET_FLOWS)
#define FLOW_WAY_FAR 2
#define FLOW_NOWHERE FLOW_PLACES

/* How good a place is for a flow, as a number to compare. */
#define FLOW_SCORE(rank, age) ((__u64)(rank) << 32 | (__u32)(age))

struct flow_best {
	__u64 score;
	__u64 value; /* what was read there */
	__u64 place; /* way * BUCKET_FLOWS + flow, or FLOW_NOWHERE */
};

/* What is written of a flow beside its key. */
struct flow_entry {
	__u64 value;
	struct flow_meta meta;
};

static __always_inline __u8 flow_state(__u64 value)
{
	return (value & ~(__u64)FLOW_BY_SYN) >> MEMBER_BITS;
}

static __always_inline __u32 flow_member(__u64 value)
{
	return value & ((1U << MEMBER_BITS) - 1);
}

static __always_inline __u16 flow_generation(__u64 value)
{
	return value >> 32;
}

static __always_inline __u32 flow_rule(__u64 value)
{
	return value >> 48;
}

static __always_inline __u64 flow_value(__u32 member, __u8 state, __u16 generation, __u32 rule)
{
	return (__u64)rule << 48 | (__u64)generation << 32 | (__u32)state << MEMBER_BITS | member;
}

/* What makes of a flow on probation a confirmed one. */
#define FLOW_CONFIRM ((__u64)(FLOW_STATE_PROBATION ^ FLOW_STATE_CONFIRMED) << MEMBER_BITS)

static __always_inline bool kind_is_session(__u8 kind)
{
	return kind >= FLOW_KIND_CLIENT_IP_PROTO;
}

/* The class whose generation decides about an entry with this key. */
static __always_inline __u8 flow_class(const struct flow_tail *tail)
{
	if (kind_is_session(tail->kind))
		return CLASS_OTHER;
	return tail->proto == IPPROTO_TCP || tail->proto == IPPROTO_SCTP ? CLASS_CONNECTION
									 : CLASS_OTHER;
}

static __always_inline bool flow_in_time(const struct flow_meta *meta, __u32 idle, __u32 now)
{
	return now + CLOCK_SKEW - READ_ONCE(meta->last) <= idle + CLOCK_SKEW;
}

/* An entry holds while its rule or service was not flushed, it was not idle too
 * long, and its backend did not lose the flows of its class.
 */
static __always_inline bool flow_holds(__u64 value, const struct flow_meta *meta,
				       const struct rule *rule, const struct member *member,
				       __u8 kind, __u8 class, __u32 now)
{
	__u16 epoch = kind_is_session(kind) ? rule->service_epoch : rule->epoch;

	return READ_ONCE(meta->epoch) == epoch && flow_in_time(meta, rule->idle, now) &&
	       member->generation[class & 1] == flow_generation(value);
}

/* Whether an entry whose rule and member are not at hand may still be followed.
 * That of a PER_SESSION service may outlive the rule that made it.
 */
static __always_inline bool flow_is_live(__u64 value, const struct flow_meta *meta,
					 const struct flow_tail *tail, __u32 now)
{
	__u32 member_id = flow_member(value), rule_id = flow_rule(value);
	struct member *member = bpf_map_lookup_elem(&l4lb_members, &member_id);
	struct rule *rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);

	if (!member || !rule)
		return false;
	if (kind_is_session(tail->kind))
		return flow_in_time(meta, member->idle, now) &&
		       member->generation[CLASS_OTHER] == flow_generation(value);
	return flow_holds(value, meta, rule, member, tail->kind, flow_class(tail), now);
}

#define WORD(x) (*(__u64 *)(x))

/* The share-th of so many buckets, of 1 << 32 shares. */
static __always_inline __u32 flow_share(__u32 share, __u32 buckets)
{
	return (__u64)share * buckets >> 32;
}

/* The way-th bucket that a flow may be in. The parts of the table are of very
 * different size: while there are few flows, all are in the near one, whose
 * pages and lines the CPU keeps at hand.
 */
static __always_inline __u32 bucket_of(__u64 hash, __u32 way)
{
	__u32 low = hash, high = hash >> 32;

	if (way == 0)
		return flow_share(low, cfg_flow_near);
	if (way == 1)
		return cfg_flow_near + flow_share(high, cfg_flow_middle);
	return cfg_flow_near + cfg_flow_middle +
	       flow_share(way == 2 ? high * 0x9e3779b1 : low * 0x85ebca6b, cfg_flow_far);
}

static __always_inline bool flow_key_eq4(const struct flow_key4 *flow, const struct flow_key4 *key)
{
	return READ_ONCE(WORD(flow->saddr)) == WORD(key->saddr) &&
	       READ_ONCE(WORD(&flow->tail)) == WORD(&key->tail);
}

static __always_inline void flow_key_set4(struct flow_key4 *flow, const struct flow_key4 *key)
{
	WRITE_ONCE(WORD(flow->saddr), WORD(key->saddr));
	WRITE_ONCE(WORD(&flow->tail), WORD(&key->tail));
}

/* The key of a packet whose addresses are not mapped yet. */
static __always_inline void flow_key_first4(struct flow_key4 *key, const struct packet *pkt)
{
	WORD(key->saddr) = pkt->addr[0];
}

static __always_inline void flow_key_from4(struct flow_key4 *key, const struct packet *pkt)
{
	WORD(key->saddr) = pkt->addr[1] >> 32 | (pkt->addr[3] & ~0xffffffffULL);
}

static __always_inline __u64 flow_hash4(const struct flow_key4 *key)
{
	__u64 h = hash_round(cfg_flow_seed, WORD(key->saddr));

	return hash_round(hash_round(h, WORD(&key->tail)), 0);
}

static __always_inline bool flow_key_eq6(const struct flow_key6 *flow, const struct flow_key6 *key)
{
	return READ_ONCE(WORD(flow->saddr)) == WORD(key->saddr) &&
	       READ_ONCE(WORD(flow->saddr + 8)) == WORD(key->saddr + 8) &&
	       READ_ONCE(WORD(flow->daddr)) == WORD(key->daddr) &&
	       READ_ONCE(WORD(flow->daddr + 8)) == WORD(key->daddr + 8) &&
	       READ_ONCE(WORD(&flow->tail)) == WORD(&key->tail);
}

static __always_inline void flow_key_set6(struct flow_key6 *flow, const struct flow_key6 *key)
{
	WRITE_ONCE(WORD(flow->saddr), WORD(key->saddr));
	WRITE_ONCE(WORD(flow->saddr + 8), WORD(key->saddr + 8));
	WRITE_ONCE(WORD(flow->daddr), WORD(key->daddr));
	WRITE_ONCE(WORD(flow->daddr + 8), WORD(key->daddr + 8));
	WRITE_ONCE(WORD(&flow->tail), WORD(&key->tail));
}

static __always_inline void flow_key_from6(struct flow_key6 *key, const struct packet *pkt)
{
	__builtin_memcpy(key->saddr, pkt->addr, 32);
}

static __always_inline void flow_key_first6(struct flow_key6 *key, const struct packet *pkt)
{
	flow_key_from6(key, pkt);
}

static __always_inline __u64 flow_hash6(const struct flow_key6 *key)
{
	__u64 h = hash_round(cfg_flow_seed, WORD(key->saddr));

	h = hash_round(h, WORD(key->saddr + 8));
	h = hash_round(h, WORD(key->daddr));
	h = hash_round(h, WORD(key->daddr + 8));
	return hash_round(hash_round(h, WORD(&key->tail)), 0);
}

#define FT(x) x##4
#include "flow_table.h"
#undef FT

#define FT(x) x##6
#include "flow_table.h"
#undef FT

#endif
