/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_FRONTEND_H
#define L4LB_FRONTEND_H

/* Which addresses are ours, and which rule a packet for one of them matches. */

/* The hash of a frontend record; pkg/loader places records by the same one. */
static __always_inline __u64 front_hash(const __u64 addr[2], __u32 word)
{
	return hash_final(hash_round(hash_round(word, addr[0]), addr[1]));
}

/* The part of a record's key that is not the address. */
static __always_inline __u32 front_word(__u8 kind, __u8 proto, __be16 port)
{
	return (__u32)kind << 24 | (__u32)proto << 16 | port;
}

struct front_address {
	__u64 word[2];
};

static __always_inline bool front_is(const struct front *front, const __u64 addr[2], __u32 word)
{
	return front->addr[0] == addr[0] && front->addr[1] == addr[1] &&
	       front_word(front->kind, front->proto, front->port) == word;
}

/* The index of the probe-th slot that a record with this hash may be in. */
static __always_inline __u32 front_index(__u32 hash, __u32 probe)
{
	return control.front_half * (cfg_front_mask + 1) + ((hash + probe) & cfg_front_mask);
}

/* Where a record that is not in its first slot is in l4lb_fronts, -1 when there is
 * none. A global function: it is verified once, on its own.
 */
__noinline int front_search(const struct front_address *addr, __u32 word)
{
	__u32 hash;

	if (!addr)
		return -1;
	hash = front_hash(addr->word, word);
	for (int i = 1; i < FRONT_PROBES; i++) {
		__u32 index = front_index(hash, i);
		struct front *front = bpf_map_lookup_elem(&l4lb_fronts, &index);

		if (!front || front->kind == FRONT_EMPTY)
			return -1;
		if (front_is(front, addr->word, word))
			return index;
	}
	return -1;
}

/* Most records are in their first slot. */
static __always_inline struct front *front_lookup(const __u64 addr[2], __u32 word)
{
	__u32 index = front_index(front_hash(addr, word), 0);
	struct front *front = bpf_map_lookup_elem(&l4lb_fronts, &index);
	int found;

	if (!front || front->kind == FRONT_EMPTY)
		return NULL;
	if (front_is(front, addr, word))
		return front;
	found = front_search((const void *)addr, word);
	return found < 0 ? NULL : bpf_map_lookup_elem(&l4lb_fronts, &found);
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
