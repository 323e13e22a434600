/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_OWNER_H
#define L4LB_OWNER_H

/* The gateway's kernel has no VIP: this is where ARP requests and neighbour
 * solicitations for one are answered.
 */

#define ICMP6_SOLICIT 135
#define ICMP6_ADVERT 136
#define ND_SOLICITED 0x60000000 /* NA flags: solicited, override */
#define ND_OVERRIDE 0x20000000

struct arp_ipv4 {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_size;
	__u8 protocol_size;
	__be16 operation;
	__u8 sender_mac[MAC_SIZE];
	__u8 sender_ip[4];
	__u8 target_mac[MAC_SIZE];
	__u8 target_ip[4];
} __attribute__((packed));

struct neighbour_message {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 flags;
	__u64 target[2];
	__u8 option; /* source or target link address */
	__u8 option_size;
	__u8 mac[MAC_SIZE];
} __attribute__((packed));
_Static_assert(sizeof(struct neighbour_message) == 32, "RFC 4861 4.3, 4.4 with one option");

static __always_inline void copy_mac(void *to, const void *from)
{
	__builtin_memcpy(to, from, MAC_SIZE);
}

static __always_inline bool same_mac(const __u8 *a, const __u8 *b)
{
	return *(__u32 *)a == *(__u32 *)b && *(__u16 *)(a + 4) == *(__u16 *)(b + 4);
}

/* Answers an ARP request for a VIP (RFC 826). */
static __always_inline int answer_arp(struct xdp_md *ctx, struct packet *pkt,
				      const struct port *port)
{
	struct ethhdr *eth = frame_data(ctx);
	struct arp_ipv4 *arp = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	__u64 vip[2] = {};
	__u8 sender[4];

	pin(eth);
	if ((void *)(eth + 1) > frame_end(ctx) || (void *)(arp + 1) > frame_end(ctx))
		return XDP_PASS;
	if (arp->hardware != bpf_htons(1) || arp->protocol != bpf_htons(ETH_P_IP) ||
	    arp->hardware_size != MAC_SIZE || arp->protocol_size != 4 ||
	    arp->operation != bpf_htons(1))
		return XDP_PASS;
	vip[1] = mapped_ipv4(*(__be32 *)arp->target_ip);
	if (!find_address(vip, true))
		return XDP_PASS;

	__builtin_memcpy(sender, arp->sender_ip, 4);
	__builtin_memcpy(arp->sender_ip, arp->target_ip, 4);
	__builtin_memcpy(arp->target_ip, sender, 4);
	copy_mac(arp->target_mac, arp->sender_mac);
	copy_mac(arp->sender_mac, port->mac);
	arp->operation = bpf_htons(2);
	copy_mac(eth->h_dest, arp->target_mac);
	copy_mac(eth->h_source, port->mac);
	pkt->reason = REASON_ARP_REPLY;
	return XDP_TX;
}

/* Writes the advertisement over the solicitation; both have the same size. */
static __always_inline void write_advertisement(struct ethhdr *eth, struct ipv6hdr *ip,
						struct neighbour_message *nd,
						const struct port *port)
{
	__u64 *source = (__u64 *)&ip->saddr;
	bool probe = !(source[0] | source[1]); /* duplicate address detection */
	__u64 sum;

	copy_mac(eth->h_dest, eth->h_source);
	copy_mac(eth->h_source, port->mac);
	if (probe) {
		/* ff02::1, to all nodes (RFC 4861 7.2.4) */
		__u64 all[2] = {bpf_cpu_to_be64(0xff02000000000000ULL), bpf_cpu_to_be64(1)};
		__u8 mac[MAC_SIZE] = {0x33, 0x33, 0, 0, 0, 1};

		__builtin_memcpy(&ip->daddr, all, 16);
		copy_mac(eth->h_dest, mac);
	} else {
		__builtin_memcpy(&ip->daddr, &ip->saddr, 16);
	}
	__builtin_memcpy(&ip->saddr, nd->target, 16);
	ip->payload_len = bpf_htons(sizeof(*nd));
	ip->hop_limit = 255;
	nd->type = ICMP6_ADVERT;
	nd->code = 0;
	nd->flags = bpf_htonl(probe ? ND_OVERRIDE : ND_SOLICITED);
	nd->option = 2; /* target link address */
	nd->option_size = 1;
	copy_mac(nd->mac, port->mac);
	nd->checksum = 0;
	sum = bpf_csum_diff(NULL, 0, (void *)&ip->saddr, 32,
			    bpf_htonl(sizeof(*nd)) + bpf_htonl(IPPROTO_ICMPV6));
	sum = bpf_csum_diff(NULL, 0, (void *)nd, sizeof(*nd), sum);
	nd->checksum = csum_fold(sum);
}

/* Answers a neighbour solicitation for a VIP (RFC 4861 7.2.4). One without a
 * link address option gets room for ours first.
 */
static __always_inline int answer_solicitation(struct xdp_md *ctx, struct packet *pkt,
					       const struct port *port)
{
	struct ipv6hdr *ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	struct neighbour_message *nd = (void *)(ip + 1);
	struct ethhdr *eth = frame_data(ctx);
	void *end = frame_end(ctx);
	__s64 missing;
	__u32 size;

	if ((void *)nd + 24 > end || ip->hop_limit != 255 || ip->nexthdr != IPPROTO_ICMPV6 ||
	    nd->type != ICMP6_SOLICIT)
		return XDP_PASS;
	size = bpf_ntohs(ip->payload_len);
	if (size < 24 || (void *)nd + size > end)
		return XDP_PASS;
	if (!find_address(nd->target, false))
		return XDP_PASS;
	missing = (long)(nd + 1) - (long)end;
	if (missing > 0) {
		if (bpf_xdp_adjust_tail(ctx, missing))
			return XDP_PASS;
		eth = frame_data(ctx);
		ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
		nd = (void *)(ip + 1);
	}
	pin(eth);
	if ((void *)(eth + 1) > frame_end(ctx) || (void *)(nd + 1) > frame_end(ctx))
		return internal_error(pkt);
	write_advertisement(eth, ip, nd, port);
	pkt->reason = REASON_ND_REPLY;
	return XDP_TX;
}

/* A solicitation that is not answered although it was sent to a VIP: it is not
 * valid, or asks for a foreign address. No router forwards one (RFC 4861 7.1.1).
 */
static __always_inline bool is_stray_solicitation(struct xdp_md *ctx, const struct packet *pkt)
{
	struct ipv6hdr *ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	struct ethhdr *eth = frame_data(ctx);

	pin(eth);
	if ((void *)(eth + 1) > frame_end(ctx) || (void *)(ip + 1) > frame_end(ctx))
		return false;
	return !(eth->h_dest[0] & 1) && find_address((__u64 *)&ip->daddr, false);
}

/* ARP requests and neighbour solicitations; everything else is passed. */
__noinline int answer_owner(struct xdp_md *ctx, struct packet *pkt)
{
	__u32 index = ctx->ingress_ifindex & cfg_port_mask;
	struct port *port = bpf_map_lookup_elem(&l4lb_ports, &index);
	int verdict;

	if (!pkt || !port)
		return XDP_ABORTED;
	if (pkt->l2_proto == bpf_htons(ETH_P_ARP))
		return answer_arp(ctx, pkt, port);
	verdict = answer_solicitation(ctx, pkt, port);
	if (verdict == XDP_PASS && is_stray_solicitation(ctx, pkt))
		return drop(pkt, REASON_NO_RULE);
	return verdict;
}

#endif
