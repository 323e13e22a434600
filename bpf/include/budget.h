/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_BUDGET_H
#define L4LB_BUDGET_H

/* Takes one of the answers that this CPU may give in the tick now; false where it
 * has given limit of them. map holds the struct answer_budget of their kind.
 */
static __always_inline bool take_budget(void *map, __u32 limit, __u32 now)
{
	__u32 zero = 0;
	struct answer_budget *budget = bpf_map_lookup_elem(map, &zero);

	if (!budget)
		return false;
	if (budget->tick != now) {
		budget->tick = now;
		budget->used = 0;
	}
	return budget->used++ < limit;
}

#endif
