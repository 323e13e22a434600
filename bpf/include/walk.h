/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* The packet's walk for one address family; select.h includes this file twice.
 */

/* Turns the tracking key into that of a PER_SESSION service (1.6). */
static __always_inline void FT(session_key)(struct FT(flow_key) *key, const struct rule *rule)
{
	key->tail.sport = 0;
	key->tail.dport = 0;
	key->tail.kind = rule->kind;
	key->tail.scope = rule->service;
	if (rule->kind != FLOW_KIND_CLIENT_IP_PROTO)
		key->tail.proto = 0;
	if (rule->kind == FLOW_KIND_CLIENT_ONLY)
		__builtin_memset(key->daddr, 0, sizeof(key->daddr));
}

/* When the entry holds, sends the packet to its backend. rule is NULL where the
 * frontend is not known yet: the entry knows its rule. *aside, if not NULL, says
 * that the marks which lead to the entry are to be renewed first, by follow_aside.
 */
static __always_inline int FT(follow_flow)(struct xdp_md *ctx, struct packet *pkt,
					   struct FT(flow) *flow, const struct FT(flow_key) *key,
					   struct rule *rule, bool *aside)
{
	__u64 value = READ_ONCE(flow->value);
	__u32 member_id = flow_member(value), rule_id = flow_rule(value), last;
	struct member *member;

	if (flow_state(value) != FLOW_STATE_CONFIRMED && flow_state(value) != FLOW_STATE_PROBATION)
		return VERDICT_CONTINUE;
	member = bpf_map_lookup_elem(&l4lb_members, &member_id);
	if (!rule)
		rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	else if (!kind_is_session(key->tail.kind) && rule_id != pkt->rule)
		return VERDICT_CONTINUE; /* of another port's rule: see start_flow */
	if (!member || !rule)
		return VERDICT_CONTINUE;
	pkt->now = clock_ticks();
	if (!flow_holds(value, &flow->meta, rule, member, key->tail.kind, flow_class(&key->tail),
			pkt->now))
		return VERDICT_CONTINUE;
	pkt->zone = READ_ONCE(flow->meta.zone);
	barrier();
	if (!FT(flow_key_eq)(&flow->key, key))
		return VERDICT_CONTINUE;

	last = READ_ONCE(flow->meta.last);
	if (last != pkt->now) {
		if (aside && (last ^ pkt->now) >> cfg_spill_shift) {
			*aside = true;
			return VERDICT_CONTINUE;
		}
		WRITE_ONCE(flow->meta.last, pkt->now);
	}
	if (flow_state(value) == FLOW_STATE_PROBATION) {
		__u64 confirmed = (value ^ FLOW_CONFIRM) & ~(__u64)FLOW_BY_SYN;

		if (__sync_val_compare_and_swap(&flow->value, value, confirmed) == value) {
			count_event(FLOW_EVENT_CONFIRMED);
			note_confirmed(value, member, rule);
		}
	}
	pkt->rule = pkt->rule ?: rule_id;
	pkt->member = member_id;
	pkt->flow = TRACE_FLOW_HIT;
	leave_trace(pkt);
	if (__builtin_expect(rule->flags & RULE_ROUTED, 0))
		return deliver_routed(ctx, pkt, member, rule);
	return deliver(ctx, pkt, member, rule);
}

/* Remembers the choice. place is what flow_search found. */
static __always_inline void FT(remember)(struct packet *pkt, const struct FT(flow_key) *key,
					 __u64 hash, __u32 place, const struct member *member,
					 const struct rule *rule)
{
	__u16 generation = member->generation[flow_class(&key->tail) & 1];
	struct flow_entry entry = {
		.value = flow_value(pkt->member, FLOW_STATE_PROBATION, generation, pkt->rule),
		.meta.last = pkt->now,
		.meta.epoch = kind_is_session(key->tail.kind) ? rule->service_epoch : rule->epoch,
		.meta.zone = pkt->zone,
	};
	enum flow_event event;
	int syn = SYN_SILENT;

	if (rule->flags & RULE_SIGNALS)
		syn = FT(weigh_syn)(key, hash, pkt);
	if (syn != SYN_SILENT)
		entry.value |= FLOW_BY_SYN;
	event = FT(flow_put)(key, hash, place, &entry);
	if (event != FLOW_EVENT_MAX)
		count_event(event);
	if (event == FLOW_EVENT_MAX || event == FLOW_EVENT_PROBATION_DISPLACED) {
		count_event(pkt->fresh ? FLOW_EVENT_NEW_SYN : FLOW_EVENT_NEW_OTHER);
		if (syn == SYN_COUNTS)
			count_signal(member->stat_base + rule->stat_slot, SIGNAL_SYN);
	}
}

/* Chooses a backend for a packet that follows no entry. The table is searched for
 * the flow's place just before the choice: the buckets and the selection table's
 * slot come out of memory at the same time then, which is most of the wait.
 */
static __always_inline int FT(choose_backend)(struct xdp_md *ctx, struct packet *pkt,
					      const struct FT(flow_key) *key, __u64 hash,
					      struct rule *rule)
{
	int verdict = find_zone(pkt, rule, sizeof(key->saddr) == 4);
	struct member *member;
	__u32 place;

	if (verdict != VERDICT_CONTINUE)
		return verdict;
	place = FT(flow_search)(key, hash);
	verdict = choose_member(pkt, rule);
	if (verdict != VERDICT_CONTINUE)
		return verdict;
	member = bpf_map_lookup_elem(&l4lb_members, &pkt->member);
	if (!member)
		return internal_error(pkt);
	if (!member->ifindex)
		return drop(pkt, REASON_NO_NEIGHBOUR);
	if (rule->flags & RULE_ROUTED) {
		__u32 reason = take_hop(ctx, pkt->l3, backend_mac(member), false, 0);

		if (reason)
			return pass(pkt, reason); /* and do not remember it */
	}
	pkt->flow = TRACE_FLOW_NEW;
	FT(remember)(pkt, key, hash, place, member, rule);
	if (rule->flags & RULE_ROUTED)
		return deliver_routed(ctx, pkt, member, rule);
	return deliver(ctx, pkt, member, rule);
}

/* A connection begins whose packets are to follow a session. An entry that its
 * 5-tuple has from another rule, which was less specific, would come first.
 */
static __always_inline void FT(forget)(const struct FT(flow_key) *key)
{
	struct FT(flow) *flow = FT(flow_lookup)(key, FT(flow_hash)(key));
	__u64 value;

	if (!flow)
		return;
	value = READ_ONCE(flow->value);
	if (flow_state(value) != FLOW_STATE_BUSY)
		__sync_val_compare_and_swap(&flow->value, value, 0);
}

/* The rest of the walk for a packet without a 5-tuple entry that holds, and the
 * walk of a fragment. Its key has no ports, so that all fragments of a datagram
 * have the same one (semantics.md 1.4, 1.6): the entry may be that of another
 * port's rule, which is none of this one's.
 */
__noinline int FT(start_flow)(struct xdp_md *ctx, struct packet *pkt)
{
	struct FT(flow_key) key = {};
	struct FT(flow) *flow;
	struct front *front;
	struct rule *rule;
	__u32 rule_id;
	bool session, tracked; /* tracked: an entry may have it */
	int verdict;

	if (!pkt)
		return XDP_ABORTED;
	pkt->now = clock_ticks();
	front = find_address(&pkt->addr[2], sizeof(key.saddr) == 4);
	rule_id = front ? find_rule(pkt, front) : (__u32)find_route(pkt);
	if (!rule_id)
		return front ? drop_unwanted(pkt) : XDP_PASS;
	pkt->rule = rule_id;
	rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	if (!rule)
		return internal_error(pkt);
	/* A SYN begins a connection, whether or not there is a session. */
	session = kind_is_session(rule->kind);
	tracked = session || (pkt->fragment && !pkt->fresh);
	if ((pkt->fresh || !tracked) && !admit(pkt, rule->flags))
		return XDP_DROP;
	key.tail = pkt->tail;
	FT(flow_key_from)(&key, pkt);
	if (session) {
		if (pkt->fresh && !pkt->fragment)
			FT(forget)(&key);
		FT(session_key)(&key, rule);
	}
	if (tracked) {
		flow = FT(flow_seek)(&key, FT(flow_hash)(&key), pkt->now);
		if (flow) {
			/* Another rule let this session in. */
			if (!pkt->fresh && flow_rule(READ_ONCE(flow->value)) != rule_id &&
			    !admit(pkt, rule->flags & RULE_SOURCE_FILTER))
				return XDP_DROP;
			verdict = FT(follow_flow)(ctx, pkt, flow, &key, rule, NULL);
			if (verdict != VERDICT_CONTINUE)
				return verdict;
		}
		if (!pkt->fresh && !admit(pkt, rule->flags))
			return XDP_DROP;
	}
	return FT(choose_backend)(ctx, pkt, &key, FT(flow_hash)(&key), rule);
}

/* What is rare of following an entry: it is in the far part of the flow table, or
 * marks that lead to it are due.
 */
__noinline int FT(follow_aside)(struct xdp_md *ctx, struct packet *pkt)
{
	struct FT(flow_key) key = {};
	struct FT(flow) *flow;
	int verdict;

	if (!pkt)
		return VERDICT_CONTINUE;
	key.tail = pkt->tail;
	FT(flow_key_from)(&key, pkt);
	flow = FT(flow_seek)(&key, FT(flow_hash)(&key), clock_ticks());
	if (!flow)
		return VERDICT_CONTINUE;
	verdict = FT(follow_flow)(ctx, pkt, flow, &key, NULL, NULL);
	if (verdict == VERDICT_CONTINUE)
		pkt->zone = 0;
	return verdict;
}

/* The walk of a parsed packet that is neither fragment nor ICMP error: the flow
 * table first, nothing else on a hit.
 */
static __always_inline int FT(walk)(struct xdp_md *ctx, struct packet *pkt)
{
	struct FT(flow_key) key = {.tail = pkt->tail};
	int verdict = VERDICT_CONTINUE;
	struct FT(flow) *flow;
	struct packet copy;
	bool aside = false;

	FT(flow_key_first)(&key, pkt);
	if (!pkt->fresh) {
		flow = FT(flow_find)(&key, FT(flow_hash)(&key), &aside);
		if (flow) {
			verdict = FT(follow_flow)(ctx, pkt, flow, &key, NULL, &aside);
#ifdef L4LB_CAPTURE
			/* By a longer way to the same end: the stack of the program that
			 * shows its packets has no room for the short one.
			 */
			if (verdict == VERDICT_TUNNEL) {
				aside = true;
				verdict = VERDICT_CONTINUE;
			}
#endif
			if (verdict == VERDICT_TUNNEL)
				return deliver_tunnel(ctx, pkt);
			if (verdict != VERDICT_CONTINUE)
				return pkt->reason ? leave(pkt->reason, verdict) : verdict;
		}
	}
	copy = *pkt;
	copy.zone = copy.flow = copy.reason = 0;
	copy.rule = copy.member = copy.now = 0;
	FT(map_addresses)(&copy);
	if (aside)
		verdict = FT(follow_aside)(ctx, &copy);
	if (verdict == VERDICT_CONTINUE)
		verdict = FT(start_flow)(ctx, &copy);
	return conclude_walk(ctx, &copy, verdict);
}
