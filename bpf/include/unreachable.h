/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* ICMP port unreachable that passes on its way to a client, for one address
 * family; select.h includes this file twice.
 */

/* Counts it to the backend that the flow it quotes has, if its rule wants that.
 * Nothing is made of it but a number: an error may be forged.
 */
__noinline int FT(note_unreachable)(struct xdp_md *ctx, const struct packet *pkt)
{
	struct FT(flow_key) key = {};
	struct packet quoted;
	struct member *member;
	struct front *front;
	struct rule *rule;
	__u64 addr[2];
	__u32 rule_id;
	__be16 port;

	if (!pkt)
		return 0;
	quoted = *pkt;
	if (FT(read_quote)(ctx, &quoted) || quoted.fragment)
		return 0;
	/* The quote was turned round; here it is the client's own packet. */
	__builtin_memcpy(addr, &quoted.addr[0], sizeof(addr));
	__builtin_memcpy(&quoted.addr[0], &quoted.addr[2], sizeof(addr));
	__builtin_memcpy(&quoted.addr[2], addr, sizeof(addr));
	port = quoted.tail.sport;
	quoted.tail.sport = quoted.tail.dport;
	quoted.tail.dport = port;
	front = find_address(&quoted.addr[2], sizeof(key.saddr) == 4);
	if (!front)
		return 0;
	quoted.now = clock_ticks();
	quoted.rule = 0;
	key.tail = quoted.tail;
	FT(flow_key_from)(&key, &quoted);
	if (!FT(flow_peek)(&key, &quoted)) {
		rule_id = find_rule(&quoted, front);
		rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
		if (!rule || !kind_is_session(rule->kind))
			return 0;
		quoted.rule = rule_id;
		FT(session_key)(&key, rule);
		if (!FT(flow_peek)(&key, &quoted))
			return 0;
	}
	member = bpf_map_lookup_elem(&l4lb_members, &quoted.member);
	rule_id = quoted.rule;
	rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	if (member && rule && (rule->flags & RULE_SIGNALS))
		count_signal(member->stat_base + rule->stat_slot, SIGNAL_UNREACHABLE);
	return 0;
}
