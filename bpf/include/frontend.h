/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_FRONTEND_H
#define L4LB_FRONTEND_H

/* Which addresses are ours, and which rule a packet for one of them matches. */

/* The hash of a frontend record; pkg/loader places records by the same one. */
static __always_inline __u64 front_hash(const __u64 addr[2], __u32 word)
{
	return hash_final(hash_round(hash_round(hash_round(0, addr[0]), addr[1]), word));
}

/* The part of a record's key that is not the address. */
static __always_inline __u32 front_word(__u8 kind, __u8 proto, __be16 port)
{
	return (__u32)kind << 24 | (__u32)proto << 16 | port;
}

struct front_address {
	__u64 word[2];
};

/* Where a record is in l4lb_fronts, -1 when there is none. A global function:
 * it is verified once, on its own.
 */
__noinline int front_search(const struct front_address *addr, __u32 word)
{
	__u32 half = control.front_half * (cfg_front_mask + 1), at;

	if (!addr)
		return -1;
	at = front_hash(addr->word, word);
	for (int i = 0; i < FRONT_PROBES; i++) {
		__u32 index = half + ((at + i) & cfg_front_mask);
		struct front *front = bpf_map_lookup_elem(&l4lb_fronts, &index);

		if (!front || front->kind == FRONT_EMPTY)
			return -1;
		if (front->addr[0] == addr->word[0] && front->addr[1] == addr->word[1] &&
		    front_word(front->kind, front->proto, front->port) == word)
			return index;
	}
	return -1;
}

static __always_inline struct front *front_lookup(const __u64 addr[2], __u32 word)
{
	int index = front_search((const void *)addr, word);

	return index < 0 ? NULL : bpf_map_lookup_elem(&l4lb_fronts, &index);
}

/* The record of an address of ours, or NULL. The mapped form of an IPv4 address
 * in an IPv6 packet is not that address.
 */
static __always_inline struct front *find_address(const __u64 addr[2], bool ipv4)
{
	bool mapped = !addr[0] && (__u32)addr[1] == bpf_htonl(0xffff);
	__u64 prefix[2] = {addr[0], addr[1] & bpf_cpu_to_be64(0xffffffff00000000ULL)};
	struct front *front;

	if (mapped != ipv4)
		return NULL;
	front = front_lookup(addr, front_word(FRONT_ADDRESS, 0, 0));
	if (front || !control.front_prefixes)
		return front;
	return front_lookup(prefix, front_word(FRONT_PREFIX, 0, 0));
}

/* The most specific rule: address, protocol and port; address and protocol;
 * address (L3_DEFAULT). 0 when there is none (semantics.md 6). Most addresses have
 * one port of a protocol, which their own record knows.
 */
static __always_inline __u32 find_rule(const struct packet *pkt, const struct front *front)
{
	__be16 dport = pkt->fragment ? pkt->match_port : pkt->tail.dport, only;
	__u8 proto = pkt->tail.proto;
	struct front *port;
	__u32 rule;

	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return front->rule_l3;
	rule = proto == IPPROTO_TCP ? front->rule : front->rule_udp;
	only = proto == IPPROTO_TCP ? front->tcp_port : front->udp_port;
	if (only) {
		if (only == dport && pkt->fragment != FRAGMENT_LATER)
			return rule;
		rule = 0;
	}
	if (front->ports && pkt->fragment != FRAGMENT_LATER) {
		port = front_lookup(front->addr, front_word(FRONT_PORT, proto, dport));
		if (port)
			return port->rule;
	}
	return rule ?: front->rule_l3;
}

/* The end of a packet for an address of ours that no rule takes. */
static __always_inline int drop_unwanted(struct packet *pkt)
{
	if (pkt->fragment == FRAGMENT_LATER)
		return drop(pkt, REASON_FRAGMENT);
	return drop(pkt, REASON_NO_RULE);
}

#endif
