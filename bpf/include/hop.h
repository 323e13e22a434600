/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_HOP_H
#define L4LB_HOP_H

/* What a router does to a packet that it forwards: it takes one of its TTL. A
 * packet whose TTL is used up is the kernel's, which answers time exceeded. So
 * is one that the backend itself sent here: to send it back would be a loop, the
 * kernel has a route of its own or says that it has none.
 *
 * With write the packet is changed, unless there is a reason not to forward it,
 * which is returned: one is that it is longer than mtu bytes, where that is not 0.
 * A global function: few packets come here.
 */
__noinline int take_hop(struct xdp_md *ctx, __u32 l3, __u64 dmac, bool write, __u32 mtu)
{
	__u8 *eth = frame_data(ctx), *ttl;
	__u8 *ip = eth + (l3 & OFFSET_MASK);
	__be16 before, after;
	__u32 size;

	pin(eth);
	pin(ip);
	if ((void *)(eth + sizeof(struct ethhdr)) > frame_end(ctx) ||
	    (void *)(ip + sizeof(struct iphdr)) > frame_end(ctx))
		return REASON_MALFORMED;
	/* The first six bytes of both: the frame's source, the backend. */
	if ((*(__u64 *)(eth + ETH_ALEN) ^ dmac) << 16 == 0)
		return REASON_SENT_BY_BACKEND;
	if (ip[0] >> 4 != 4) {
		ttl = ip + offsetof(struct ipv6hdr, hop_limit);
		size = sizeof(struct ipv6hdr) + bpf_ntohs(((struct ipv6hdr *)ip)->payload_len);
		if (*ttl <= 1)
			return REASON_TTL_EXPIRED;
		if (mtu && size > mtu)
			return REASON_TOO_BIG;
		if (write)
			*ttl -= 1;
		return REASON_NONE;
	}
	ttl = ip + offsetof(struct iphdr, ttl);
	if (*ttl <= 1)
		return REASON_TTL_EXPIRED;
	if (mtu && bpf_ntohs(((struct iphdr *)ip)->tot_len) > mtu)
		return REASON_TOO_BIG;
	if (!write)
		return REASON_NONE;
	before = *(__be16 *)ttl;
	*ttl -= 1;
	after = *(__be16 *)ttl;
	((struct iphdr *)ip)->check = csum_replace(((struct iphdr *)ip)->check, before, after);
	return REASON_NONE;
}

#endif
