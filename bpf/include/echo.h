/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_ECHO_H
#define L4LB_ECHO_H

/* Echo requests for a VIP that no L3_DEFAULT rule takes are answered here, so
 * many a tick.
 */

#define ICMP_ECHO_REQUEST 8
#define ICMP6_ECHO_REQUEST 128
#define ICMP6_ECHO_ANSWER 129

/* One echo reply less in this tick's budget. */
static __always_inline bool take_echo_budget(__u32 now)
{
	__u32 zero = 0;
	struct echo_budget *budget = bpf_map_lookup_elem(&l4lb_echo, &zero);

	if (!budget)
		return false;
	if (budget->tick != now) {
		budget->tick = now;
		budget->used = 0;
	}
	return budget->used++ < cfg_echo_limit;
}

static __always_inline void swap_link_addresses(struct ethhdr *eth)
{
	__u8 mac[MAC_SIZE];

	copy_mac(mac, eth->h_dest);
	copy_mac(eth->h_dest, eth->h_source);
	copy_mac(eth->h_source, mac);
}

/* Answers an IPv4 echo request for a VIP: addresses swapped, type 0, a fresh
 * TTL, both checksums carried along (RFC 1624), so a wrong one stays wrong.
 */
static __always_inline int answer_echo4(struct xdp_md *ctx, struct packet *pkt)
{
	struct ethhdr *eth = frame_data(ctx);
	struct iphdr *ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	struct icmp_header *icmp = frame_data(ctx) + (pkt->l4 & OFFSET_MASK);
	__be16 before, after;
	__be32 addr;

	pin(eth);
	if ((void *)(eth + 1) > frame_end(ctx) || (void *)(ip + 1) > frame_end(ctx) ||
	    (void *)(icmp + 1) > frame_end(ctx))
		return pass(pkt, REASON_MALFORMED);
	if (!take_echo_budget(clock_ticks()))
		return drop(pkt, REASON_ECHO_RATE_LIMITED);
	swap_link_addresses(eth);
	addr = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = addr;
	before = *(__be16 *)&ip->ttl;
	ip->ttl = 64;
	after = *(__be16 *)&ip->ttl;
	ip->check = csum_replace(ip->check, before, after);
	before = *(__be16 *)&icmp->type;
	icmp->type = 0;
	after = *(__be16 *)&icmp->type;
	icmp->checksum = csum_replace(icmp->checksum, before, after);
	if (!icmp->checksum && !icmp->rest)
		icmp->checksum = 0xffff; /* of a message that is all zeros */
	pkt->reason = REASON_ECHO_REPLY;
	return XDP_TX;
}

/* The same for IPv6 (RFC 4443 4.2). */
static __always_inline int answer_echo6(struct xdp_md *ctx, struct packet *pkt)
{
	struct ethhdr *eth = frame_data(ctx);
	struct ipv6hdr *ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	struct icmp_header *icmp = (void *)(ip + 1); /* as ICMPv6: type, code, checksum */
	__be16 before, after;

	pin(eth);
	if ((void *)(eth + 1) > frame_end(ctx) || (void *)(icmp + 1) > frame_end(ctx))
		return pass(pkt, REASON_MALFORMED);
	if (!take_echo_budget(clock_ticks()))
		return drop(pkt, REASON_ECHO_RATE_LIMITED);
	swap_link_addresses(eth);
	__builtin_memcpy(&ip->saddr, &pkt->addr[2], 16);
	__builtin_memcpy(&ip->daddr, &pkt->addr[0], 16);
	ip->hop_limit = 64;
	before = *(__be16 *)&icmp->type;
	icmp->type = ICMP6_ECHO_ANSWER;
	after = *(__be16 *)&icmp->type;
	icmp->checksum = csum_replace(icmp->checksum, before, after);
	pkt->reason = REASON_ECHO_REPLY;
	return XDP_TX;
}

#endif
