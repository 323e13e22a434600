/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_MSS_H
#define L4LB_MSS_H

/* The maximum segment size that a TCP handshake tells is brought down to what a
 * tunnel lets through.
 */

#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTION_MSS 2
#define TCP_OPTIONS_MAX 40
#define CLAMP_REACH 0x1ff /* of the option's offset in the frame */

/* Where the MSS option of a TCP header is, from the frame's start; 0 where there
 * is none. from and to bound the options.
 */
static __always_inline __u32 find_mss(void *data, void *end, __u32 from, __u32 to)
{
	for (int i = 0; i < TCP_OPTIONS_MAX; i++) {
		__u8 *option = data + (from & CLAMP_REACH);
		__u32 size;

		pin(option);
		if (from + 4 > to || (void *)(option + 4) > end)
			return 0;
		if (option[0] == TCP_OPTION_MSS)
			return option[1] == 4 ? from : 0;
		if (option[0] == TCP_OPTION_END)
			return 0;
		size = option[0] == TCP_OPTION_NOP ? 1 : option[1];
		pin(size);
		if (size == 0)
			return 0;
		from += size;
	}
	return 0;
}

/* Brings the segment size of a SYN, or SYN with ACK, of the packet of size bytes at
 * ip down to what fits into mtu, with the checksum (RFC 1624). Everything that is not in
 * order is left alone. A global function: it is verified once, on its own.
 */
__noinline int clamp_mss(struct xdp_md *ctx, __u32 ip, __u32 size, __u32 mtu, bool ipv4)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	struct iphdr *ip4 = data + (ip & OFFSET_MASK);
	struct ipv6hdr *ip6 = data + (ip & OFFSET_MASK);
	__u32 at, limit, offset;
	__be16 before, after;
	struct tcphdr *tcp;
	__u8 *option;

	if (ipv4) {
		if ((void *)(ip4 + 1) > end || ip4->protocol != IPPROTO_TCP ||
		    (ip4->frag_off & bpf_htons(IP_OFFSET_MASK)))
			return 0;
		at = ip + ip4->ihl * 4;
		limit = mtu - sizeof(*ip4) - sizeof(*tcp);
	} else {
		if ((void *)(ip6 + 1) > end || ip6->nexthdr != IPPROTO_TCP)
			return 0;
		at = ip + sizeof(*ip6);
		limit = mtu - sizeof(*ip6) - sizeof(*tcp);
	}
	tcp = data + (at & OFFSET_MASK);
	pin(tcp);
	if ((void *)(tcp + 1) > end || !tcp->syn || at + tcp->doff * 4 > ip + size)
		return 0;
	offset = find_mss(data, end, at + sizeof(*tcp), at + tcp->doff * 4);
	if (!offset)
		return 0;
	option = data + (offset & CLAMP_REACH);
	pin(option);
	if ((void *)(option + 4) > end)
		return 0;
	before = option[2] << 8 | option[3];
	if (before <= limit)
		return 0;
	after = limit;
	option[2] = after >> 8;
	option[3] = after;
	/* In network order where it begins at an even offset; else its bytes are
	 * in two words of the sum, the other way round.
	 */
	if (!((offset - at) & 1)) {
		before = bpf_htons(before);
		after = bpf_htons(after);
	}
	tcp->check = csum_replace(tcp->check, before, after);
	return 0;
}

#endif
