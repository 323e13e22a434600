/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_TUNNEL_H
#define L4LB_TUNNEL_H

/* Encapsulation for backends that are a router away. The outer headers stand
 * ready in l4lb_tunnels; encap.h fills in what depends on the packet.
 */

#define TRACED_LENGTH 14 /* bits of flow and zone, below the frame's length */
#define MIN_FRAME 60	 /* Ethernet's, without the check sequence */

/* Reads the packet's IP header at l3. Returns -1 where there is none. */
static __always_inline int read_inner(struct inner *inner, struct packet *pkt, void *data,
				      void *end)
{
	void *ip = data + (pkt->l3 & OFFSET_MASK);

	pin(ip);
	inner->ipv4 = pkt->l2_proto == bpf_htons(ETH_P_IP);
	if (read_inner_header(inner, ip, end))
		return -1;
	if (inner->ipv4) {
		pkt->addr[0] = *(__u64 *)(ip + offsetof(struct iphdr, saddr));
		map_addresses4(pkt);
	} else {
		__builtin_memcpy(pkt->addr, ip + offsetof(struct ipv6hdr, saddr),
				 sizeof(pkt->addr));
	}
	inner->hash = selection_hash(pkt, AFFINITY_FIVE_TUPLE);
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
 * stay on the frame where it leaves by the interface that it came in at. A packet
 * for the link is one that is too long for it.
 */
static __always_inline int enter_tunnel(struct xdp_md *ctx, struct packet *pkt)
{
	__u32 ifindex, rule_id = pkt->rule, keep;
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
	tunnel = find_way(pkt, member);
	ifindex = READ_ONCE(member->ifindex);
	if (!ifindex)
		return drop(pkt, REASON_NO_NEIGHBOUR);
	if (!tunnel || !tunnel->mtu || data + LINK_SIZE_MAX > frame_end(ctx) ||
	    read_inner(&inner, pkt, data, frame_end(ctx)))
		return internal_error(pkt);
	if (inner.size > tunnel->mtu)
		return answer_too_big(ctx, pkt, tunnel->mtu);
	if (!tunnel->size) /* a link that takes the packet after all */
		return internal_error(pkt);
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
 * path has in registers: tail is a struct flow_tail, traced the frame's length,
 * zone and flow, as deliver_tunnel packs them.
 */
__noinline int encapsulate(struct xdp_md *ctx, __u32 member, __u32 rule, __u64 tail, __u32 traced)
{
	void *data = frame_data(ctx);
	struct packet pkt = {
		.length = traced >> TRACED_LENGTH,
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
			   frame_length(ctx) << TRACED_LENGTH | (__u32)pkt->zone << 8 | pkt->flow);
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
