/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_ENCAP_H
#define L4LB_ENCAP_H

/* Writes the outer headers of a tunnel, for the packets of clients (tunnel.h) and
 * for health checks (probe_tc.c) alike. They stand ready in a struct tunnel; what
 * depends on the packet is filled in here: lengths, DSCP and ECN (RFC 6040), the
 * inner family, and what tells flows apart.
 */

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

/* Takes size and ToS from the packet's IP header. Returns -1 where it is cut. */
static __always_inline int read_inner_header(struct inner *inner, void *ip, void *end)
{
	struct ipv6hdr *ip6 = ip;
	struct iphdr *ip4 = ip;

	if (inner->ipv4) {
		if ((void *)(ip4 + 1) > end)
			return -1;
		inner->size = bpf_ntohs(ip4->tot_len);
		inner->tos = ip4->tos;
		return 0;
	}
	if ((void *)(ip6 + 1) > end)
		return -1;
	inner->size = sizeof(*ip6) + bpf_ntohs(ip6->payload_len);
	inner->tos = bpf_ntohs(*(__be16 *)ip6) >> 4;
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

#endif
