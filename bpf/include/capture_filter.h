/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_CAPTURE_FILTER_H
#define L4LB_CAPTURE_FILTER_H

/* A capture's filter: alternatives of conditions, see pkg/capture. */

/* Conditions, and the number of alternatives in use; 0: every packet matches. */
volatile const struct capture_term cfg_terms[CAPTURE_TERMS] = {};
volatile const struct capture_clause cfg_clauses[CAPTURE_CLAUSES] = {};
volatile const __u32 cfg_clause_count = 0;

/* (condition, id) that the condition names */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 18);
	__type(key, struct capture_id);
	__type(value, __u8);
} l4lb_cap_ids SEC(".maps");

static __always_inline bool under_mask(const volatile struct capture_term *term, const __u64 *addr)
{
	return !((addr[0] ^ term->addr[0]) & term->mask[0]) &&
	       !((addr[1] ^ term->addr[1]) & term->mask[1]);
}

/* Conditions about addresses hold for IP packets alone, which have some. */
static __always_inline bool arrival_holds(const volatile struct capture_term *term,
					  const struct packet *pkt)
{
	bool ip = pkt->addr[1] | pkt->addr[0] | pkt->addr[2] | pkt->addr[3];
	bool ports = pkt->tail.kind == FLOW_KIND_PORTS && pkt->tail.proto;

	switch (term->kind) {
	case CAPTURE_SRC:
		return ip && pkt->l2_proto == term->value && under_mask(term, &pkt->addr[0]);
	case CAPTURE_DST:
		return ip && pkt->l2_proto == term->value && under_mask(term, &pkt->addr[2]);
	case CAPTURE_SPORT:
		return ports && pkt->tail.sport == term->value;
	case CAPTURE_DPORT:
		return ports && pkt->tail.dport == term->value;
	case CAPTURE_PROTO:
		return ip && pkt->tail.proto == term->value;
	case CAPTURE_ETHER:
		return pkt->l2_proto == term->value;
	case CAPTURE_FRAGMENT:
		return pkt->fragment;
	default:
		return false;
	}
}

static __always_inline bool is_listed(__u32 term, __u32 id)
{
	struct capture_id key = {.term = term, .id = id};

	return bpf_map_lookup_elem(&l4lb_cap_ids, &key) != NULL;
}

static __always_inline bool outcome_holds(__u32 i, const volatile struct capture_term *term,
					  const struct capture_event *event)
{
	switch (term->kind) {
	case CAPTURE_VERDICT:
		return term->value & (1U << (event->verdict & 31));
	case CAPTURE_REASON:
		return event->reason == term->value;
	case CAPTURE_FLOW:
		return event->flow == term->value;
	case CAPTURE_RULE:
		return is_listed(i, event->rule);
	case CAPTURE_MEMBER:
		return is_listed(i, event->member);
	case CAPTURE_ZONE:
		return is_listed(i, event->zone);
	default:
		return false;
	}
}

/* Whether a clause holds, as far as the known conditions tell. */
static __always_inline bool clause_holds(__u32 truth, __u32 known)
{
	if (!cfg_clause_count)
		return true;
	for (__u32 i = 0; i < CAPTURE_CLAUSES && i < cfg_clause_count; i++) {
		__u32 yes = cfg_clauses[i].yes & known, no = cfg_clauses[i].no & known;

		if ((truth & yes) == yes && !(truth & no))
			return true;
	}
	return false;
}

/* Whether a packet may match as it leaves. Sets truth, by the bits of the
 * conditions that are known when it arrives.
 */
static __always_inline bool may_match(const struct packet *pkt, __u32 *truth)
{
	__u32 known = 0, holds = 0;

	for (__u32 i = 0; i < CAPTURE_TERMS; i++) {
		const volatile struct capture_term *term = &cfg_terms[i];

		if (term->kind == CAPTURE_NONE)
			break;
		if (term->kind > CAPTURE_ARRIVAL_MAX)
			continue;
		known |= 1U << i;
		if (arrival_holds(term, pkt))
			holds |= 1U << i;
	}
	*truth = holds;
	return clause_holds(holds, known);
}

static __always_inline bool matches(__u32 truth, const struct capture_event *event)
{
	for (__u32 i = 0; i < CAPTURE_TERMS; i++) {
		const volatile struct capture_term *term = &cfg_terms[i];

		if (term->kind == CAPTURE_NONE)
			break;
		if (term->kind > CAPTURE_ARRIVAL_MAX && outcome_holds(i, term, event))
			truth |= 1U << i;
	}
	return clause_holds(truth, ~0U);
}

#endif
