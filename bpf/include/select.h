/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_SELECT_H
#define L4LB_SELECT_H

/* The walk of a packet for one of our addresses (semantics.md 1.1): the flow's
 * backend where there is one, else one of the client's eligible set.
 */

/* The table with this id among those of one form, or NULL. */
static __always_inline void *find_table(void *tables, __u32 id)
{
	void *map = bpf_map_lookup_elem(tables, &id);
	__u32 zero = 0;

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

/* The member that owns a slot of a table. */
static __always_inline __u32 slot_member(__u32 id, __u32 slot)
{
	struct table *table = find_table(&l4lb_tables, id);

	if (!table || slot >= TABLE_SIZE)
		return 0;
	return table->member[table->slot[slot]];
}

/* The same of a wide table. */
static __always_inline __u32 wide_slot_member(__u32 id, __u32 slot)
{
	struct wide_table *table = find_table(&l4lb_wide, id);

	if (!table || slot >= TABLE_SIZE)
		return 0;
	return flow_member(table->slot[slot]);
}

/* The backend for a new flow: hash into the table of (service, client zone). */
__noinline __u32 pick_member(const struct packet *pkt, const struct rule *rule)
{
	__u32 index, slot, table;
	struct pick *pick;

	if (!pkt || !rule)
		return 0;
	index = rule->pick_base + pkt->zone;
	pick = bpf_map_lookup_elem(&l4lb_picks, &index);
	if (!pick)
		return 0;
	table = READ_ONCE(pick->table);
	if (!table)
		return 0;
	slot = (selection_hash(pkt, rule->affinity) >> 32) * TABLE_SIZE >> 32;
	if (table & TABLE_WIDE)
		return wide_slot_member(table & ~TABLE_WIDE, slot);
	return slot_member(table, slot);
}

/* Finds pkt->zone. Returns VERDICT_CONTINUE where the rule is for the client. */
static __always_inline int find_zone(struct packet *pkt, const struct rule *rule, bool ipv4)
{
	__u32 zone = client_zone(pkt, ipv4);

	pkt->zone = zone & (ZONE_MAX - 1);
	if ((zone & ZONE_OTHER_REGION) && !(rule->flags & RULE_GLOBAL_ACCESS))
		return drop(pkt, REASON_OTHER_REGION);
	return VERDICT_CONTINUE;
}

/* Chooses pkt->member by the rule's service and the client's zone. Returns
 * VERDICT_CONTINUE when there is one.
 */
static __always_inline int choose_member(struct packet *pkt, const struct rule *rule)
{
	pkt->member = pick_member(pkt, rule);
	return pkt->member ? VERDICT_CONTINUE : drop(pkt, REASON_NO_BACKEND);
}

#define FT(x) x##4
#include "signal_flow.h"
#include "walk.h"
#include "relay.h"
#include "unreachable.h"
#undef FT

#define FT(x) x##6
#include "signal_flow.h"
#include "walk.h"
#include "relay.h"
#include "unreachable.h"
#undef FT

#endif
