/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* Takes the packets of a gateway out of their tunnels, on a backend that has no
 * tunnel device. A tunnel counts only from a listed gateway to an address of
 * this host; everything else goes to the kernel as it came. See pkg/decap.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "csum.h"
#include "outer.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* UDP ports of the two tunnels, network order; 0: not accepted. */
volatile const __be16 cfg_gue_port = 0;
volatile const __be16 cfg_geneve_port = 0;

/* 1: inner packets must be for a range in l4lb_inners. */
volatile const __u8 cfg_check_inner = 0;

/* What became of a frame. Only the first group was unwrapped. */
enum outcome {
	DECAP_IP,
	DECAP_GUE,
	DECAP_GENEVE,
	DECAP_OTHER,	   /* passed: no tunnel to this host */
	DECAP_SOURCE,	   /* passed: a tunnel from somebody who is not listed */
	DECAP_DESTINATION, /* passed: the inner packet is for an address that is not listed */
	DECAP_FRAGMENT,	   /* passed: a fragment of a tunnel packet */
	DECAP_HEADER,	   /* passed: a tunnel header that asks for more than is known */
	DECAP_MALFORMED,   /* passed: lengths or checksum do not agree */
	DECAP_CONGESTED,   /* dropped: congestion was met that the sender cannot be told */
	DECAP_ABORTED,	   /* dropped: should not happen */
	DECAP_MAX,
};

/* enum outcome -> frames */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DECAP_MAX);
	__type(key, enum outcome);
	__type(value, __u64);
} l4lb_outcomes SEC(".maps");

#define RANGES(name)                                                                               \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                                               \
		__uint(max_entries, 4096);                                                         \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__type(key, struct range_key);                                                     \
		__type(value, __u32);                                                              \
	} name SEC(".maps")

RANGES(l4lb_gateways); /* who may send tunnels */
RANGES(l4lb_ends);     /* addresses that tunnels end at */
RANGES(l4lb_inners);   /* what inner packets may be for */

static __always_inline enum tunnel find_tunnel(struct outer *o, void *data, void *end)
{
	__be16 port;

	o->inner = inner_type(o->proto);
	if (o->inner)
		return TUNNEL_IP;
	if (o->proto != IPPROTO_UDP)
		return TUNNEL_NONE;
	port = read_udp(o, data, end);
	if (port && port == cfg_gue_port)
		return TUNNEL_GUE;
	return port && port == cfg_geneve_port ? TUNNEL_GENEVE : TUNNEL_NONE;
}

/* A later fragment does not say which tunnel it belongs to: what a gateway sends
 * to us in fragments is taken for one.
 */
static __always_inline enum outcome judge_fragment(struct outer *o)
{
	bool tunnel =
		inner_type(o->proto) || o->proto == IPPROTO_UDP || o->proto == IPPROTO_FRAGMENT;

	if (tunnel && bpf_map_lookup_elem(&l4lb_ends, &o->dest) &&
	    bpf_map_lookup_elem(&l4lb_gateways, &o->source))
		return DECAP_FRAGMENT;
	return DECAP_OTHER;
}

/* Reads the inner packet's destination. Returns -1 when the header is truncated,
 * is not of the version that was promised, or is longer than the outer packet.
 */
static __always_inline int read_inner(const struct outer *o, void *data, void *end,
				      struct range_key *dest)
{
	void *inner = at(data, o->next);
	struct ipv6hdr *ip6 = inner;
	struct iphdr *ip = inner;

	if (o->next > OFFSET_MASK || (void *)(ip + 1) > end)
		return -1;
	if (o->inner == bpf_htons(ETH_P_IP)) {
		__u32 header = ip->ihl * 4, total = bpf_ntohs(ip->tot_len);

		if (ip->version != 4 || header < sizeof(*ip) || total < header ||
		    o->next + total > o->end)
			return -1;
		map_ipv4(dest, ip->daddr);
		return 0;
	}
	if ((void *)(ip6 + 1) > end || ip6->version != 6 ||
	    o->next + sizeof(*ip6) + bpf_ntohs(ip6->payload_len) > o->end)
		return -1;
	dest->bits = 128;
	__builtin_memcpy(dest->addr, &ip6->daddr, 16);
	return 0;
}

/* RFC 6040 4.2: the inner packet's ECN field by what it was and what the outer
 * header met; -1 where the packet must be dropped.
 */
static __always_inline int merge_ecn(__u8 inner, __u8 outer)
{
	const __u8 not_ect = 0, ect1 = 1, ect0 = 2, ce = 3;

	if (outer == ce)
		return inner == not_ect ? -1 : ce;
	return inner == ect0 && outer == ect1 ? ect1 : inner;
}

/* The first byte of an IPv4 header stands with its ToS in one word of the
 * checksum; an IPv6 header has no checksum.
 */
static __always_inline int write_ecn(const struct outer *o, void *data, void *end)
{
	__u8 *inner = at(data, o->next);
	struct iphdr *ip = (void *)inner;
	int ecn;

	if ((void *)(ip + 1) > end)
		return -1;
	if (o->inner == bpf_htons(ETH_P_IP)) {
		__u16 before = *(__u16 *)inner;

		ecn = merge_ecn(ip->tos & 3, o->ecn);
		if (ecn < 0)
			return -1;
		if (ecn == (ip->tos & 3))
			return 0;
		ip->tos = (ip->tos & ~3) | ecn;
		ip->check = csum_replace(ip->check, before, *(__u16 *)inner);
		return 0;
	}
	ecn = merge_ecn(inner[1] >> 4 & 3, o->ecn);
	if (ecn < 0)
		return -1;
	inner[1] = (inner[1] & ~0x30) | ecn << 4;
	return 0;
}

/* Moves the Ethernet header, tags included, to the inner packet and names that
 * there. The frame is cut already, or not at all.
 */
static __always_inline int strip(struct xdp_md *ctx, const struct outer *o)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 l2[L2_MAX];

	if (data + L2_MAX > end)
		return -1;
	__builtin_memcpy(l2, data, L2_MAX);
	if (bpf_xdp_adjust_head(ctx, o->next - o->l2))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + L2_MAX > end)
		return -1;
	__builtin_memcpy(data, l2, 12);
	if (o->l2 > 14)
		__builtin_memcpy(data + 12, l2 + 12, 4);
	if (o->l2 > 18)
		__builtin_memcpy(data + 16, l2 + 16, 4);
	data = at(data, o->l2 - 2);
	if (data + 2 > end)
		return -1;
	__builtin_memcpy(data, &o->inner, 2);
	return 0;
}

/* Returns the enum outcome of the frame; DECAP_IP, DECAP_GUE and
 * DECAP_GENEVE are still to be unwrapped.
 */
static __always_inline enum outcome judge(struct outer *o, void *data, void *end)
{
	__be16 proto = read_ethernet(o, data, end);
	bool ipv4 = proto == bpf_htons(ETH_P_IP);
	struct range_key dest = {};
	enum tunnel tunnel;
	int err = -1;

	if (ipv4)
		err = read_ipv4(o, data, end);
	else if (proto == bpf_htons(ETH_P_IPV6))
		err = read_ipv6(o, data, end);
	if (err)
		return DECAP_OTHER;
	if (o->fragment)
		return judge_fragment(o);
	tunnel = find_tunnel(o, data, end);
	if (tunnel == TUNNEL_NONE || !bpf_map_lookup_elem(&l4lb_ends, &o->dest))
		return DECAP_OTHER;
	if (!bpf_map_lookup_elem(&l4lb_gateways, &o->source))
		return DECAP_SOURCE;
	if (ipv4 && !good_ipv4_header(o, data, end))
		return DECAP_MALFORMED;
	if (tunnel == TUNNEL_GUE)
		err = read_gue(o, data, end);
	else if (tunnel == TUNNEL_GENEVE)
		err = read_geneve(o, data, end);
	if (err)
		return DECAP_HEADER;
	if (read_inner(o, data, end, &dest))
		return DECAP_MALFORMED;
	if (cfg_check_inner && !bpf_map_lookup_elem(&l4lb_inners, &dest))
		return DECAP_DESTINATION;
	return DECAP_IP + (tunnel - TUNNEL_IP);
}

SEC("xdp.frags")
int l4lb_decap(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct outer o = {.length = bpf_xdp_get_buff_len(ctx)};
	enum outcome outcome = judge(&o, data, end);
	int verdict = XDP_PASS;
	__u64 *frames;

	if (outcome <= DECAP_GENEVE) {
		if (write_ecn(&o, data, end)) {
			outcome = DECAP_CONGESTED;
			verdict = XDP_DROP;
		} else if (strip(ctx, &o)) {
			outcome = DECAP_ABORTED;
			verdict = XDP_ABORTED;
		}
	}
	frames = bpf_map_lookup_elem(&l4lb_outcomes, &outcome);
	if (frames)
		*frames += 1;
	return verdict;
}
