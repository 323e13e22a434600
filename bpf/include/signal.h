/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_SIGNAL_H
#define L4LB_SIGNAL_H

/* What traffic shows of a backend whose service wants it (RULE_SIGNALS). It is
 * reported and decides nothing: no map that a packet's way depends on has it.
 * All of it is off an established flow's way.
 */

#define SIGNAL_SYN 0
#define SIGNAL_CONFIRMED 1
#define SIGNAL_UNREACHABLE 2

#define SYN_SILENT 0
#define SYN_KNOWN 1
#define SYN_COUNTS 2

__noinline int count_signal(__u32 record, __u32 signal)
{
	struct signals *signals = bpf_map_lookup_elem(&l4lb_signals, &record);

	if (!signals)
		return 0;
	if (signal == SIGNAL_SYN)
		signals->syns++;
	else if (signal == SIGNAL_CONFIRMED)
		signals->confirmed++;
	else
		signals->unreachable++;
	return 0;
}

/* A flow's second packet came; value is its entry's before. */
static __always_inline void note_confirmed(__u64 value, const struct member *member,
					   const struct rule *rule)
{
	if (value & FLOW_BY_SYN)
		count_signal(member->stat_base + rule->stat_slot, SIGNAL_CONFIRMED);
}

#endif
