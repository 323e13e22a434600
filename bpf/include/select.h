/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_SELECT_H
#define L4LB_SELECT_H

/* The walk of a packet for one of our addresses (semantics.md 1.1): the flow's
 * backend where there is one, else one of the client's eligible set.
 */

/* The backend for a new flow: hash into the table of (service, client zone). */
static __always_inline __u32 pick_member(const struct packet *pkt, const struct rule *rule)
{
	__u32 index = rule->pick_base + pkt->zone, slot, line;
	struct pick *pick = bpf_map_lookup_elem(&l4lb_picks, &index);
	struct slot_line *slots;
	void *table;

	if (!pick || !pick->table)
		return 0;
	table = bpf_map_lookup_elem(&l4lb_tables, &pick->table);
	if (!table)
		return 0;
	slot = (selection_hash(pkt, rule->affinity) >> 32) * TABLE_SIZE >> 32;
	line = slot / LINE_SLOTS;
	slots = bpf_map_lookup_elem(table, &line);
	return slots ? flow_member(slots->slot[slot % LINE_SLOTS]) : 0;
}

/* Turns the tracking key into that of a PER_SESSION service (1.6). */
static __always_inline void session_tail(struct flow_tail *tail, const struct rule *rule)
{
	tail->sport = 0;
	tail->dport = 0;
	tail->kind = rule->kind;
	tail->scope = rule->service;
	if (rule->kind != FLOW_KIND_CLIENT_IP_PROTO)
		tail->proto = 0;
}

static __always_inline void touch(struct flow_meta *meta, __u32 now)
{
	if (READ_ONCE(meta->last) != now)
		WRITE_ONCE(meta->last, now);
}

#define FT(x) x##4
#include "walk.h"
#undef FT

#define FT(x) x##6
#include "walk.h"
#undef FT

#endif
