/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_PARSE_H
#define L4LB_PARSE_H

#define VLAN_DEPTH 2	  /* 802.1ad outer, 802.1Q inner */
#define LINK_SIZE_MAX 22  /* Ethernet header and VLAN_DEPTH tags */
#define EXTENSION_DEPTH 6 /* IPv6 extension headers walked */
#define IP_MORE_FRAGMENTS 0x2000
#define IP_OFFSET_MASK 0x1fff
#define IP6_OFFSET_MASK 0xfff8

struct vlan_header {
	__be16 tci;
	__be16 proto;
};

/* Steps over the Ethernet header and up to VLAN_DEPTH tags. Returns the type of
 * what follows in network order and sets pkt->l3; 0 when truncated.
 */
static __always_inline __be16 parse_ethernet(struct packet *pkt, void *data, void *end)
{
	struct ethhdr *eth = data;
	struct vlan_header *vlan = (void *)(eth + 1);
	__be16 proto;

	if ((void *)(eth + 1) > end)
		return 0;
	proto = *(__be16 *)(data + offsetof(struct ethhdr, h_proto));
	pkt->l3 = sizeof(*eth);
#pragma unroll
	for (int i = 0; i < VLAN_DEPTH; i++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(vlan + 1) > end)
			return 0;
		proto = vlan->proto;
		vlan++;
		pkt->l3 += sizeof(*vlan);
	}
	return proto;
}

/* Takes the ports of TCP, UDP and SCTP. Everything else is tracked by addresses and
 * protocol alone (semantics.md 1.6). size is what the IP header says there is
 * from l4 on. Returns 0, or -1 when the header is truncated.
 */
static __always_inline int parse_ports(struct packet *pkt, void *l4, void *end, int size)
{
	struct tcphdr *tcp = l4;

	pkt->tail.kind = FLOW_KIND_NO_PORTS;
	if (pkt->fragment)
		return 0;
	if (pkt->tail.proto == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > end || size < (int)sizeof(*tcp))
			return -1;
		pkt->fresh = tcp->syn && !tcp->ack;
	} else if (pkt->tail.proto == IPPROTO_UDP) {
		if (l4 + 8 > end || size < 8)
			return -1;
	} else if (pkt->tail.proto == IPPROTO_SCTP) { /* common header, RFC 9260 3.1 */
		if (l4 + 12 > end || size < 12)
			return -1;
	} else {
		return 0;
	}
	pkt->tail.kind = FLOW_KIND_PORTS;
	*(__u32 *)&pkt->tail.sport = *(__u32 *)l4; /* both */
	return 0;
}

/* The second word of ::ffff:a.b.c.d. */
static __always_inline __u64 mapped_ipv4(__be32 addr)
{
	return (__u64)addr << 32 | bpf_htonl(0xffff);
}

/* Brings the addresses of an IPv4 packet to the form they have in IPv6. */
static __always_inline void map_addresses4(struct packet *pkt)
{
	__u64 both = pkt->addr[0];

	pkt->addr[0] = pkt->addr[2] = 0;
	pkt->addr[1] = mapped_ipv4(both);
	pkt->addr[3] = mapped_ipv4(both >> 32);
}

static __always_inline void map_addresses6(struct packet *pkt)
{
}

/* IPv4, options allowed. Returns 0, or -1 when lengths do not agree. */
static __always_inline int parse_ipv4(struct packet *pkt, void *data, void *end)
{
	struct iphdr *ip = data + (pkt->l3 & OFFSET_MASK);
	__u32 header, total;

	pin(ip);
	if ((void *)(ip + 1) > end)
		return -1;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	pkt->addr[0] = *(__u64 *)&ip->saddr; /* and daddr */
	pkt->tail.proto = ip->protocol;
	pkt->fragment = !!(ip->frag_off & bpf_htons(IP_MORE_FRAGMENTS | IP_OFFSET_MASK));
	pkt->l4 = pkt->l3 + header;
	if (ip->version != 4 || header < sizeof(*ip) || total < header ||
	    pkt->l3 + total > pkt->length)
		return -1;
	return parse_ports(pkt, (void *)ip + header, end, total - header);
}

/* The protocol numbers of those that we walk, as a set: each comparison is one
 * more path for the verifier, in each of the headers.
 */
#define EXTENSION_HEADERS                                                                          \
	(1ULL << IPPROTO_HOPOPTS | 1ULL << IPPROTO_ROUTING | 1ULL << IPPROTO_FRAGMENT |            \
	 1ULL << IPPROTO_AH | 1ULL << IPPROTO_DSTOPTS)

static __always_inline bool is_extension_header(__u8 next)
{
	return next < 64 && EXTENSION_HEADERS >> next & 1;
}

/* What an extension header takes, by its second byte: units of 8 bytes (RFC 8200
 * 4), for AH of 4 (RFC 4302 2.2). That byte means nothing in a fragment header.
 */
static __always_inline __u32 extension_size(__u8 this, __u8 length)
{
	__u32 not_ah = this ^ IPPROTO_AH;

	if (this == IPPROTO_FRAGMENT)
		return 8;
	pin(not_ah); /* or it becomes a branch: see EXTENSION_HEADERS */
	return 8 + length * (8 - 4 * ((not_ah - 1) >> 31));
}

/* Steps over hop-by-hop, routing and destination options and AH, and stops behind
 * a fragment header. size is what the IP header says there is. Returns 0, -1 when
 * truncated, -2 when there are too many.
 */
static __always_inline int walk_extensions(struct packet *pkt, void **l4, void *end, int size)
{
	__u8 *ext = *l4;

#pragma unroll
	for (int i = 0; i < EXTENSION_DEPTH; i++) {
		__u8 this = pkt->tail.proto;
		__u32 skip;

		if (!is_extension_header(this)) {
			*l4 = ext;
			return 0;
		}
		if ((void *)(ext + 8) > end)
			return -1;
		pkt->tail.proto = ext[0];
		skip = extension_size(this, ext[1]);
		size -= skip;
		if (size < 0)
			return -1;
		ext += skip;
		if (this == IPPROTO_FRAGMENT) {
			pkt->fragment = FRAGMENT_LATER;
			*l4 = ext;
			return 0;
		}
	}
	*l4 = ext;
	return is_extension_header(pkt->tail.proto) ? -2 : 0;
}

/* IPv6. Returns 0, -1 when lengths do not agree, -2 when there are more
 * extension headers than we walk.
 */
static __always_inline int parse_ipv6(struct packet *pkt, void *data, void *end)
{
	struct ipv6hdr *ip = data + (pkt->l3 & OFFSET_MASK);
	int err = 0, size;
	void *l4;

	pin(ip);
	l4 = ip + 1;
	if (l4 > end)
		return -1;
#pragma unroll
	for (int i = 0; i < 4; i++)
		pkt->addr[i] = ((__u64 *)&ip->saddr)[i];
	pkt->tail.proto = ip->nexthdr;
	size = bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || pkt->l3 + sizeof(*ip) + size > pkt->length)
		return -1;
	if (is_extension_header(ip->nexthdr))
		err = walk_extensions(pkt, &l4, end, size);
	if (err)
		return err;
	pkt->l4 = l4 - data;
	return parse_ports(pkt, l4, end, size - (int)(pkt->l4 - pkt->l3 - sizeof(*ip)));
}

#endif
