/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* The walk of an ICMP error for one address family; select.h includes this file
 * twice.
 */

/* Looks up whom an entry sends its packets to, and leaves it as it is: an error
 * is no packet of the flow, and may be forged. Returns whether an entry holds.
 * pkt->rule is 0 where the frontend is not known yet, as in follow_flow.
 */
__noinline int FT(flow_peek)(const struct FT(flow_key) *key, struct packet *pkt)
{
	__u32 member_id, rule_id;
	struct FT(flow) *flow;
	struct member *member;
	struct rule *rule;
	__u64 value;

	if (!key || !pkt)
		return 0;
	flow = FT(flow_lookup)(key, FT(flow_hash)(key));
	if (!flow)
		return 0;
	value = READ_ONCE(flow->value);
	if (flow_state(value) != FLOW_STATE_CONFIRMED && flow_state(value) != FLOW_STATE_PROBATION)
		return 0;
	rule_id = flow_rule(value);
	if (pkt->rule && !kind_is_session(key->tail.kind) && rule_id != pkt->rule)
		return 0;
	rule_id = pkt->rule ?: rule_id;
	member_id = flow_member(value);
	member = bpf_map_lookup_elem(&l4lb_members, &member_id);
	rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	if (!member || !rule ||
	    !flow_holds(value, &flow->meta, rule, member, key->tail.kind, flow_class(&key->tail),
			pkt->now))
		return 0;
	pkt->zone = READ_ONCE(flow->meta.zone);
	barrier();
	if (!FT(flow_key_eq)(&flow->key, key))
		return 0;
	pkt->rule = rule_id;
	pkt->member = member_id;
	pkt->flow = TRACE_FLOW_HIT;
	return 1;
}

/* Finds the backend of a packet as the walk would, and remembers nothing. front
 * is NULL where only a route may take it.
 */
static __always_inline int FT(find_backend)(struct packet *pkt, const struct front *front)
{
	struct FT(flow_key) key = {.tail = pkt->tail};
	struct rule *rule;
	__u32 rule_id;
	bool session;
	int verdict;

	FT(flow_key_from)(&key, pkt);
	if (!pkt->fragment && FT(flow_peek)(&key, pkt))
		return VERDICT_CONTINUE;
	rule_id = front ? find_rule(pkt, front) : (__u32)find_route(pkt);
	if (!rule_id)
		return front ? drop_unwanted(pkt) : VERDICT_NO_ROUTE;
	pkt->rule = rule_id;
	rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	if (!rule)
		return internal_error(pkt);
	if (!admit(pkt, rule->flags & RULE_SOURCE_FILTER))
		return XDP_DROP;
	session = kind_is_session(rule->kind);
	if (session)
		FT(session_key)(&key, rule);
	if ((session || pkt->fragment) && FT(flow_peek)(&key, pkt))
		return VERDICT_CONTINUE;
	verdict = find_zone(pkt, rule, sizeof(key.saddr) == 4);
	return verdict == VERDICT_CONTINUE ? choose_member(pkt, rule) : verdict;
}

/* Sends an ICMP error to the backend whose packet it quotes, or by a route to
 * the one that the quoted flow goes through, on a gateway that never saw the flow
 * too. Of a VIP's the frame is not touched above the link. By a route every error
 * goes somewhere: one that quotes nothing of use, as any other packet.
 */
__noinline int FT(relay_error)(struct xdp_md *ctx, struct packet *pkt)
{
	struct member *member;
	struct front *front;
	struct rule *rule;
	__u32 rule_id;
	int verdict;

	if (!pkt)
		return XDP_ABORTED;
	front = find_address(&pkt->addr[2], sizeof(((struct FT(flow_key) *)0)->saddr) == 4);
	if (FT(read_quote)(ctx, pkt))
		return front ? pass(pkt, REASON_ICMP_ERROR) : VERDICT_CONTINUE;
	pkt->now = clock_ticks();
	verdict = FT(find_backend)(pkt, front);
	if (verdict == VERDICT_NO_ROUTE)
		return VERDICT_CONTINUE;
	if (verdict != VERDICT_CONTINUE)
		return verdict;
	rule_id = pkt->rule;
	member = bpf_map_lookup_elem(&l4lb_members, &pkt->member);
	rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	if (!member || !rule)
		return internal_error(pkt);
	if (rule->flags & RULE_ROUTED)
		return deliver_routed(ctx, pkt, member, rule);
	return deliver(ctx, pkt, member, rule);
}
