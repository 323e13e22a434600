/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* What a SYN is to the signals of its rule, for one address family; select.h
 * includes this file twice.
 */

/* Whether a SYN that was given to pkt->member begins a flow (SYN_COUNTS), is sent
 * again (SYN_KNOWN), or tells nothing (SYN_SILENT): the flow was confirmed before,
 * so that its next packet confirms nothing. Asked before the entry is written.
 */
__noinline int FT(weigh_syn)(const struct FT(flow_key) *key, __u64 hash, const struct packet *pkt)
{
	struct FT(flow) *flow;
	__u64 value;

	if (!key || !pkt || !pkt->fresh || key->tail.kind != FLOW_KIND_PORTS)
		return SYN_SILENT;
	flow = FT(flow_lookup)(key, hash);
	if (!flow)
		return SYN_COUNTS;
	value = READ_ONCE(flow->value);
	if (!flow_is_live(value, &flow->meta, &key->tail, pkt->now))
		return SYN_COUNTS;
	if (flow_state(value) != FLOW_STATE_PROBATION)
		return SYN_SILENT;
	if ((value & FLOW_BY_SYN) && flow_member(value) == pkt->member &&
	    flow_rule(value) == pkt->rule)
		return SYN_KNOWN;
	return SYN_COUNTS;
}
