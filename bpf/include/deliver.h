/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_DELIVER_H
#define L4LB_DELIVER_H

static __always_inline void count_event(__u32 event)
{
	__u64 *count = bpf_map_lookup_elem(&l4lb_events, &event);

	if (count)
		*count += 1;
}

static __always_inline void count_traffic(const struct packet *pkt, const struct member *member,
					  const struct rule *rule)
{
	__u32 record = member->stat_base + rule->stat_slot;
	__u32 zones = pkt->zone * ZONE_MAX + member->zone;
	struct traffic *traffic = bpf_map_lookup_elem(&l4lb_stats, &record);
	struct zone_traffic *zone = bpf_map_lookup_elem(&l4lb_zstats, &zones);

	if (traffic) {
		traffic->packets++;
		traffic->bytes += pkt->length;
		if (pkt->flow == TRACE_FLOW_NEW)
			traffic->flows++;
	}
	if (zone) {
		zone->packets++;
		zone->bytes += pkt->length;
	}
}

/* Sends the frame to its backend on the link, everything above untouched. Where
 * there is a tunnel to it, the caller is to encapsulate.
 */
static __always_inline int deliver(struct xdp_md *ctx, struct packet *pkt,
				   const struct member *member, const struct rule *rule)
{
	__u8 *eth;

	if (!member->ifindex)
		return drop(pkt, REASON_NO_NEIGHBOUR);
	if (member->state & MEMBER_TUNNEL)
		return VERDICT_TUNNEL;
	pkt->length = frame_length(ctx); /* again, rather than keep it all the way */
	eth = frame_data(ctx);
	if ((void *)(eth + sizeof(struct ethhdr)) > (void *)frame_end(ctx))
		return internal_error(pkt);
	count_traffic(pkt, member, rule);
	*(__u64 *)eth = *(__u64 *)member->dmac;
	*(__u32 *)(eth + 8) = *(__u32 *)(member->smac + 2);
	if (member->ifindex == pkt->ifindex)
		return XDP_TX;
	return bpf_redirect(member->ifindex, 0);
}

/* By which a frame that a backend sent is known: nothing where it is behind a
 * router, whose address that of the tunnel's frames is.
 */
static __always_inline __u64 backend_mac(const struct member *member)
{
	return member->state & MEMBER_TUNNEL ? 0 : *(__u64 *)member->dmac;
}

/* The record of the way to the packet's member that is in force. */
static __always_inline struct tunnel *find_way(const struct packet *pkt,
					       const struct member *member)
{
	__u32 index = 2 * pkt->member + !!(member->state & MEMBER_TUNNEL_ODD);

	return bpf_map_lookup_elem(&l4lb_tunnels, &index);
}

/* The same for the packet of a route, which takes a hop first, unless it is too
 * long: encapsulate answers it, on the link too.
 */
static __always_inline int deliver_routed(struct xdp_md *ctx, struct packet *pkt,
					  const struct member *member, const struct rule *rule)
{
	struct tunnel *way;
	__u32 reason;

	if (!member->ifindex)
		return drop(pkt, REASON_NO_NEIGHBOUR);
	way = find_way(pkt, member);
	reason = take_hop(ctx, pkt->l3, backend_mac(member), true, way ? way->mtu : 0);
	if (reason == REASON_TOO_BIG)
		return VERDICT_TUNNEL;
	if (reason)
		return pass(pkt, reason);
	return deliver(ctx, pkt, member, rule);
}

#endif
