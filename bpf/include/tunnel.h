/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_TUNNEL_H
#define L4LB_TUNNEL_H

/* Encapsulation for backends that are a router away. The outer headers stand
 * ready in l4lb_tunnels; what depends on the packet is filled in here: lengths,
 * DSCP and ECN (RFC 6040), the inner family, and what tells flows apart.
 */

#define MIN_FRAME 60 /* Ethernet's, without the check sequence */
#define FLOW_LABEL_BITS 20
#define SOURCE_PORT_BASE 0xc000
#define SOURCE_PORT_MASK 0x3fff

/* What the outer headers take from the packet. */
struct inner {
	__u64 hash; /* the same for all packets of a flow, in both directions */
	__u16 size; /* bytes, by its IP header */
	__u8 tos;   /* DSCP and ECN */
	bool ipv4;
};

static __always_inline __u64 low_bits(__u64 value, __u8 bits)
{
	return bits >= 64 ? value : value & ((1ULL << (bits & 63)) - 1);
}

/* Reads the packet's IP header at l3. Returns -1 where there is none. */
static __always_inline int read_inner(struct inner *inner, struct packet *pkt, void *data,
				      void *end)
{
	struct iphdr *ip4 = data + (pkt->l3 & OFFSET_MASK);
	struct ipv6hdr *ip6;

	pin(ip4);
	if ((void *)(ip4 + 1) > end)
		return -1;
	inner->ipv4 = pkt->l2_proto == bpf_htons(ETH_P_IP);
	if (inner->ipv4) {
		inner->size = bpf_ntohs(ip4->tot_len);
		inner->tos = ip4->tos;
		pkt->addr[0] = *(__u64 *)&ip4->saddr;
		map_addresses4(pkt);
	} else {
		ip6 = (void *)ip4;
		if ((void *)(ip6 + 1) > end)
			return -1;
		inner->size = sizeof(*ip6) + bpf_ntohs(ip6->payload_len);
		inner->tos = bpf_ntohs(*(__be16 *)ip6) >> 4;
		__builtin_memcpy(pkt->addr, &ip6->saddr, sizeof(pkt->addr));
	}
	inner->hash = selection_hash(pkt, AFFINITY_FIVE_TUPLE);
	return 0;
}

/* The protocol number of the packet in the outer IP header. */
static __always_inline __u64 inner_protocol(const struct inner *inner)
{
	return inner->ipv4 ? IPPROTO_IPIP : IPPROTO_IPV6;
}

static __always_inline void write_outer4(__u64 *to, const struct tunnel *tunnel,
					 const struct inner *inner)
{
	__u64 first = tunnel->ip[0], second = tunnel->ip[1], sum;
	__u32 dest = tunnel->ip[2];

	first |= (__u64)inner->tos << 8;
	first |= (__u64)bpf_htons(inner->size + tunnel->size) << 16;
	if (!(tunnel->flags & TUNNEL_UDP))
		second |= inner_protocol(inner) << 8;
	second |= (__u64)bpf_htonl(low_bits(inner->hash, tunnel->spread)) << 32;
	sum = (first & 0xffffffff) + (first >> 32) + (second & 0xffffffff) + (second >> 32) + dest;
	second |= (__u64)csum_fold(sum) << 16;
	to[0] = first;
	to[1] = second;
	*(__u32 *)(to + 2) = dest;
}

/* The flow label carries the flow's entropy where there are no ports (RFC 6438). */
static __always_inline void write_outer6(__u64 *to, const struct tunnel *tunnel,
					 const struct inner *inner)
{
	__u32 label = low_bits(inner->hash >> 14, FLOW_LABEL_BITS);
	__u64 first = tunnel->ip[0];

	first |= bpf_htonl((__u32)inner->tos << FLOW_LABEL_BITS | label);
	first |= (__u64)bpf_htons(inner->size + tunnel->size - sizeof(struct ipv6hdr)) << 32;
	if (!(tunnel->flags & TUNNEL_UDP))
		first |= inner_protocol(inner) << 48;
	to[0] = first;
	to[1] = tunnel->ip[1];
	to[2] = tunnel->ip[2] | bpf_cpu_to_be64(low_bits(inner->hash, tunnel->spread));
	to[3] = tunnel->ip[3];
	to[4] = tunnel->ip[4];
}

/* UDP and GENEVE. The checksum stays 0: see docs/setup/tunnels.md. ip_size is
 * that of the outer IP header. Returns -1 where the frame ends before them.
 */
static __always_inline int write_udp(__u64 *to, void *end, const struct tunnel *tunnel,
				     const struct inner *inner, __u32 ip_size)
{
	__u16 port = SOURCE_PORT_BASE | (inner->hash & SOURCE_PORT_MASK);
	__u64 type = inner->ipv4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);

	if ((void *)(to + 2) > end)
		return -1;
	to[0] = tunnel->udp | bpf_htons(port) |
		(__u64)bpf_htons(inner->size + tunnel->size - ip_size) << 32;
	if (tunnel->flags & TUNNEL_GENEVE)
		to[1] = tunnel->geneve | type << 16;
	return 0;
}

static __always_inline int write_outer(void *to, void *end, const struct tunnel *tunnel,
				       const struct inner *inner)
{
	if (tunnel->flags & TUNNEL_IPV6) {
		if (to + sizeof(struct ipv6hdr) > end)
			return -1;
		write_outer6(to, tunnel, inner);
		to += sizeof(struct ipv6hdr);
		if (tunnel->flags & TUNNEL_UDP)
			return write_udp(to, end, tunnel, inner, sizeof(struct ipv6hdr));
		return 0;
	}
	if (to + sizeof(struct iphdr) > end)
		return -1;
	write_outer4(to, tunnel, inner);
	to += sizeof(struct iphdr);
	if (tunnel->flags & TUNNEL_UDP)
		return write_udp(to, end, tunnel, inner, sizeof(struct iphdr));
	return 0;
}

/* Cuts off what follows the packet in its frame, but for the padding of a short
 * one: it would go along and could make the outer frame too long.
 */
static __always_inline int trim(struct xdp_md *ctx, const struct packet *pkt, __u16 size)
{
	__u32 need = pkt->l3 + size;

	if (need < MIN_FRAME)
		need = MIN_FRAME;
	if (pkt->length <= need)
		return 0;
	return bpf_xdp_adjust_tail(ctx, -(int)(pkt->length - need));
}

/* Puts the packet into the tunnel to its member, and sends it. Its VLAN tags
 * stay on the frame where it leaves by the interface that it came in at.
 */
static __always_inline int enter_tunnel(struct xdp_md *ctx, struct packet *pkt)
{
	__u32 index, ifindex, rule_id = pkt->rule, keep;
	void *data = frame_data(ctx);
	struct inner inner = {};
	struct member *member;
	struct tunnel *tunnel;
	struct rule *rule;
	__u64 tags;

	member = bpf_map_lookup_elem(&l4lb_members, &pkt->member);
	rule = bpf_map_lookup_elem(&l4lb_rules, &rule_id);
	if (!member || !rule)
		return internal_error(pkt);
	index = 2 * pkt->member + !!(member->state & MEMBER_TUNNEL_ODD);
	tunnel = bpf_map_lookup_elem(&l4lb_tunnels, &index);
	ifindex = READ_ONCE(member->ifindex);
	if (!ifindex)
		return drop(pkt, REASON_NO_NEIGHBOUR);
	if (!tunnel || !tunnel->size || data + LINK_SIZE_MAX > frame_end(ctx) ||
	    read_inner(&inner, pkt, data, frame_end(ctx)))
		return internal_error(pkt);
	if (inner.size > tunnel->mtu)
		return answer_too_big(ctx, pkt, tunnel->mtu);
	tags = *(__u64 *)(data + 2 * MAC_SIZE);
	keep = ifindex == pkt->ifindex ? pkt->l3 : sizeof(struct ethhdr);
	if (trim(ctx, pkt, inner.size) ||
	    bpf_xdp_adjust_head(ctx, pkt->l3 - (int)(tunnel->size + keep)))
		return internal_error(pkt);

	/* From here on the frame is another one. */
	count_traffic(pkt, member, rule);
	data = frame_data(ctx);
	if (data + LINK_SIZE_MAX > frame_end(ctx))
		return internal_error(pkt);
	*(__u64 *)data = *(__u64 *)member->dmac;
	*(__u32 *)(data + 8) = *(__u32 *)(member->smac + 2);
	*(__u64 *)(data + 2 * MAC_SIZE) = tags;
	data += (keep - sizeof(__be16)) & 0x1f;
	pin(data);
	if (data + sizeof(__be16) > frame_end(ctx))
		return internal_error(pkt);
	*(__be16 *)data = bpf_htons(tunnel->flags & TUNNEL_IPV6 ? ETH_P_IPV6 : ETH_P_IP);
	if (write_outer(data + sizeof(__be16), frame_end(ctx), tunnel, &inner))
		return internal_error(pkt);
	if (tunnel->flags & TUNNEL_CLAMP_MSS)
		clamp_mss(ctx, keep + tunnel->size, inner.size, tunnel->mtu, inner.ipv4);
	return ifindex == pkt->ifindex ? XDP_TX : bpf_redirect(ifindex, 0);
}

/* The end of a packet whose member is behind a tunnel. A global function: it is
 * verified once, on its own. It is handed what the frame does not say and the hot
 * path has in registers: tail is a struct flow_tail.
 */
__noinline int encapsulate(struct xdp_md *ctx, __u32 member, __u32 rule, __u64 tail, __u32 traced)
{
	void *data = frame_data(ctx);
	struct packet pkt = {
		.length = ctx->data_end - ctx->data,
		.ifindex = ctx->ingress_ifindex,
		.member = member,
		.rule = rule,
		.zone = (traced >> 8) & (ZONE_MAX - 1),
		.flow = traced,
	};
	int verdict;

	*(__u64 *)&pkt.tail = tail;
	pkt.l2_proto = parse_ethernet(&pkt, data, frame_end(ctx));
	verdict = enter_tunnel(ctx, &pkt);
	return pkt.reason ? leave(pkt.reason, verdict) : verdict;
}

static __always_inline int deliver_tunnel(struct xdp_md *ctx, const struct packet *pkt)
{
	return encapsulate(ctx, pkt->member, pkt->rule, *(__u64 *)&pkt->tail,
			   (__u32)pkt->zone << 8 | pkt->flow);
}

/* The end of a packet that global functions had, which goes into a tunnel where
 * they say so.
 */
static __always_inline int conclude_walk(struct xdp_md *ctx, const struct packet *pkt, int verdict)
{
	if (verdict == VERDICT_TUNNEL) {
		leave_trace(pkt);
		return deliver_tunnel(ctx, pkt);
	}
	return conclude(pkt, verdict);
}

#endif
