/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_ECHO_H
#define L4LB_ECHO_H

/* Echo requests for a VIP that no L3_DEFAULT rule takes are answered here, so
 * many a tick.
 */

#define ICMP_ECHO_REQUEST 8
#define ICMP6_ECHO_REQUEST 128
#define ICMP6_ECHO_ANSWER 129

static __always_inline void swap_link_addresses(struct ethhdr *eth)
{
	__u8 mac[MAC_SIZE];

	copy_mac(mac, eth->h_dest);
	copy_mac(eth->h_dest, eth->h_source);
	copy_mac(eth->h_source, mac);
}

/* The sum of an echo request from behind its checksum on, with what ICMPv6 adds
 * of the IP header (RFC 4443 2.3). Negative when the request is damaged.
 */
static __always_inline __s64 sum_request(struct xdp_md *ctx, struct packet *pkt, __u32 size,
					 bool ipv4)
{
	struct icmp_header icmp;
	__s64 sum = 0;

	if (bpf_xdp_load_bytes(ctx, pkt->l4, &icmp, sizeof(icmp)))
		return -1;
	if (ipv4) {
		sum = sum_frame(ctx, pkt->l3, pkt->l4 - pkt->l3, 0);
		if (sum < 0 || csum_fold(sum))
			return -1;
		sum = 0;
	} else {
		sum = bpf_csum_diff(NULL, 0, (void *)pkt->addr, sizeof(pkt->addr),
				    bpf_htonl(size) + bpf_htonl(IPPROTO_ICMPV6));
	}
	sum = sum_frame(ctx, pkt->l4 + 4, size - 4, sum);
	if (sum < 0 || csum_fold(sum + *(__u16 *)&icmp.type + icmp.checksum))
		return -1;
	return sum;
}

/* Addresses swapped, and a fresh TTL, which the header's checksum follows. */
static __always_inline void turn_ipv4(struct iphdr *ip)
{
	__be16 before = *(__be16 *)&ip->ttl;
	__be32 addr = ip->saddr;

	ip->saddr = ip->daddr;
	ip->daddr = addr;
	ip->ttl = 64;
	ip->check = csum_replace(ip->check, before, *(__be16 *)&ip->ttl);
}

static __always_inline void turn_ipv6(struct ipv6hdr *ip, const struct packet *pkt)
{
	__builtin_memcpy(&ip->saddr, &pkt->addr[2], 16);
	__builtin_memcpy(&ip->daddr, &pkt->addr[0], 16);
	ip->hop_limit = 64;
}

/* Answers an echo request (RFC 792; RFC 4443 4.2). It is summed whole, so that a
 * damaged one gets no answer; the budget comes before the work. The answer's
 * checksum is made from that sum: carried along by the difference, the one of a
 * message of zeros would be wrong.
 */
static __always_inline int answer_echo(struct xdp_md *ctx, struct packet *pkt, __u32 size,
				       bool ipv4)
{
	struct icmp_header *icmp;
	struct ethhdr *eth;
	void *ip;
	__s64 sum;

	if (!take_budget(&l4lb_echo, cfg_echo_limit, clock_ticks()))
		return drop(pkt, REASON_ECHO_RATE_LIMITED);
	sum = sum_request(ctx, pkt, size, ipv4);
	if (sum < 0)
		return drop(pkt, REASON_ECHO_BAD_CHECKSUM);
	eth = frame_data(ctx);
	ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	icmp = frame_data(ctx) + (pkt->l4 & OFFSET_MASK);
	pin(eth);
	if ((void *)(eth + 1) > frame_end(ctx) ||
	    ip + (ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) > frame_end(ctx) ||
	    (void *)(icmp + 1) > frame_end(ctx))
		return pass(pkt, REASON_MALFORMED);
	swap_link_addresses(eth);
	if (ipv4)
		turn_ipv4(ip);
	else
		turn_ipv6(ip, pkt);
	icmp->type = ipv4 ? 0 : ICMP6_ECHO_ANSWER;
	icmp->checksum = csum_fold(sum + *(__u16 *)&icmp->type);
	pkt->reason = REASON_ECHO_REPLY;
	return XDP_TX;
}

#endif
