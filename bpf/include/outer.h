/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_OUTER_H
#define L4LB_OUTER_H

/* Reads the headers around a tunnelled packet. Nothing is written here. */

#define OFFSET_MASK 0x3ff /* headers start within this; the verifier wants a bound */
#define VLAN_DEPTH 2	  /* 802.1ad outer, 802.1Q inner */
#define EXTENSION_DEPTH 4 /* IPv6 extension headers walked */
#define L2_MAX (14 + 4 * VLAN_DEPTH)
#define IP_FRAGMENT 0x3fff /* more fragments, or an offset */

#define GUE_VERSION_MASK 0xc0
#define GUE_PLAIN 0x00	/* version 0, no optional fields, no control message */
#define GUE_DIRECT 0x40 /* version 1: the packet itself */
#define GENEVE_HEADER 8
#define GENEVE_VERSION_MASK 0xc0
#define GENEVE_OPTIONS_MASK 0x3f /* in words */
#define GENEVE_CONTROL 0x80
#define GENEVE_CRITICAL 0x40

/* Makes the compiler take a value as it is here, so that the verifier sees the
 * pointer that was checked.
 */
#define pin(value) asm volatile("" : "+r"(value))

/* An address or a range; IPv4 as ::ffff:a.b.c.d. */
struct range_key {
	__u32 bits;
	__u8 addr[16];
};

/* How the inner packet was wrapped. */
enum tunnel {
	TUNNEL_NONE,
	TUNNEL_IP, /* IP in IP, of any two families */
	TUNNEL_GUE,
	TUNNEL_GENEVE,
};

/* What is known of the frame: numbers only, offsets from its start. */
struct outer {
	struct range_key source;
	struct range_key dest;
	__u32 length; /* of the frame */
	__u32 l2;     /* length of the Ethernet header with its tags */
	__u32 next;   /* offset of what follows the headers read so far */
	__u32 end;    /* offset of what follows the outer packet */
	__be16 inner; /* EtherType of the packet within */
	__u8 proto;
	__u8 ecn;
	__u8 fragment;
};

static __always_inline void *at(void *data, __u32 offset)
{
	void *p = data + (offset & OFFSET_MASK);

	pin(p);
	return p;
}

/* Steps over the Ethernet header and its tags. Returns the type of what
 * follows, 0 when truncated.
 */
static __always_inline __be16 read_ethernet(struct outer *o, void *data, void *end)
{
	struct ethhdr *eth = data;
	__be16 proto;

	if (data + sizeof(*eth) > end)
		return 0;
	proto = eth->h_proto;
	o->l2 = sizeof(*eth);
#pragma unroll
	for (int i = 0; i < VLAN_DEPTH; i++) {
		__be16 *tag = at(data, o->l2);

		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(tag + 2) > end)
			return 0;
		proto = tag[1];
		o->l2 += 4;
	}
	return proto;
}

static __always_inline void map_ipv4(struct range_key *key, __be32 addr)
{
	key->bits = 128;
	__builtin_memset(key->addr, 0, 10);
	key->addr[10] = key->addr[11] = 0xff;
	__builtin_memcpy(key->addr + 12, &addr, 4);
}

/* Returns 0, or -1 when the header is truncated or its lengths do not agree. */
static __always_inline int read_ipv4(struct outer *o, void *data, void *end)
{
	struct iphdr *ip = at(data, o->l2);
	__u32 header, total;

	if ((void *)(ip + 1) > end)
		return -1;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	o->end = o->l2 + total;
	if (ip->version != 4 || header < sizeof(*ip) || total < header || o->end > o->length)
		return -1;
	o->next = o->l2 + header;
	o->proto = ip->protocol;
	o->ecn = ip->tos & 3;
	o->fragment = !!(ip->frag_off & bpf_htons(IP_FRAGMENT));
	map_ipv4(&o->source, ip->saddr);
	map_ipv4(&o->dest, ip->daddr);
	return 0;
}

/* Reports whether the checksum of the outer IPv4 header is right: nobody looks
 * at that header again.
 */
static __always_inline bool good_ipv4_header(const struct outer *o, void *data, void *end)
{
	struct iphdr *ip = at(data, o->l2);
	__u16 *word = (void *)ip;
	__u32 words;
	__u64 sum = 0;

	if ((void *)(ip + 1) > end)
		return false;
	words = ip->ihl * 2;
	for (__u32 i = 0; i < 30 && i < words; i++) {
		pin(word);
		if ((void *)(word + 1) > end)
			return false;
		sum += *word++;
	}
	return !csum_fold(sum);
}

/* Steps over options; tunnels of Linux put some there (RFC 2473 4.1.1). */
static __always_inline int read_extensions(struct outer *o, void *data, void *end)
{
	for (int i = 0; i < EXTENSION_DEPTH; i++) {
		__u8 *ext;

		if (o->proto == IPPROTO_FRAGMENT) {
			o->fragment = 1;
			return 0;
		}
		if (o->proto != IPPROTO_DSTOPTS && o->proto != IPPROTO_HOPOPTS)
			return 0;
		if (o->next > OFFSET_MASK)
			return -1;
		ext = at(data, o->next);
		if ((void *)(ext + 8) > end)
			return -1;
		o->proto = ext[0];
		o->next += 8 + ext[1] * 8;
	}
	return -1;
}

/* As read_ipv4. */
static __always_inline int read_ipv6(struct outer *o, void *data, void *end)
{
	struct ipv6hdr *ip = at(data, o->l2);

	if ((void *)(ip + 1) > end)
		return -1;
	o->next = o->l2 + sizeof(*ip);
	o->end = o->next + bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || o->end > o->length)
		return -1;
	o->proto = ip->nexthdr;
	o->ecn = ip->flow_lbl[0] >> 4 & 3;
	o->source.bits = o->dest.bits = 128;
	__builtin_memcpy(o->source.addr, &ip->saddr, 16);
	__builtin_memcpy(o->dest.addr, &ip->daddr, 16);
	return read_extensions(o, data, end);
}

/* The EtherType of an inner packet by the protocol that names it, 0 for none. */
static __always_inline __be16 inner_type(__u8 proto)
{
	if (proto == IPPROTO_IPIP)
		return bpf_htons(ETH_P_IP);
	return proto == IPPROTO_IPV6 ? bpf_htons(ETH_P_IPV6) : 0;
}

/* Steps over a UDP header and returns its destination port, 0 when lengths do
 * not agree. What follows the datagram is no part of it.
 */
static __always_inline __be16 read_udp(struct outer *o, void *data, void *end)
{
	struct udphdr *udp;
	__u32 size;

	if (o->next > OFFSET_MASK)
		return 0;
	udp = at(data, o->next);
	if ((void *)(udp + 1) > end)
		return 0;
	size = bpf_ntohs(udp->len);
	if (size < sizeof(*udp) || o->next + size > o->end)
		return 0;
	o->end = o->next + size;
	o->next += sizeof(*udp);
	return udp->dest;
}

/* GUE: version 1 is the packet itself, told by its first four bits; version 0
 * is accepted where its header says no more than what follows. Returns 0, or -1
 * for anything else.
 */
static __always_inline int read_gue(struct outer *o, void *data, void *end)
{
	__u8 *gue = at(data, o->next);

	if ((void *)(gue + 4) > end)
		return -1;
	if ((gue[0] & GUE_VERSION_MASK) == GUE_DIRECT) {
		o->inner = inner_type(gue[0] >> 4 == 4 ? IPPROTO_IPIP : IPPROTO_IPV6);
		return 0;
	}
	if (gue[0] != GUE_PLAIN || gue[2] || gue[3])
		return -1;
	o->inner = inner_type(gue[1]);
	o->next += 4;
	return o->inner ? 0 : -1;
}

/* GENEVE (RFC 8926 3.4): options are skipped, except where one is critical. */
static __always_inline int read_geneve(struct outer *o, void *data, void *end)
{
	__u8 *geneve = at(data, o->next);

	if ((void *)(geneve + GENEVE_HEADER) > end)
		return -1;
	if (geneve[0] & GENEVE_VERSION_MASK || geneve[1] & (GENEVE_CONTROL | GENEVE_CRITICAL))
		return -1;
	__builtin_memcpy(&o->inner, geneve + 2, 2);
	o->next += GENEVE_HEADER + (geneve[0] & GENEVE_OPTIONS_MASK) * 4;
	if (o->inner != bpf_htons(ETH_P_IP) && o->inner != bpf_htons(ETH_P_IPV6))
		return -1;
	return 0;
}

#endif
