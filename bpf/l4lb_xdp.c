/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* The data plane: one program, attached to every interface of the gateway that
 * VIP traffic arrives on. docs/development/architecture.md has the walk.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "reason.h"
#include "types.h"
#include "config.h"
#include "maps.h"
#include "packet.h"
#include "budget.h"
#include "hash.h"
#include "parse.h"
#include "csum.h"
#include "hop.h"
#include "deliver.h"
#include "mss.h"
#include "toobig.h"
#include "encap.h"
#include "tunnel.h"
#include "flow.h"
#include "signal.h"
#include "frontend.h"
#include "route.h"
#include "zone.h"
#include "admit.h"
#include "quote.h"
#include "select.h"
#include "sum.h"
#include "owner.h"
#include "echo.h"
#include "special.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What handle_special leaves to the family. */
static __always_inline int handle_rest(struct xdp_md *ctx, struct packet *pkt, bool ipv4,
				       int verdict)
{
	if (pkt->unreachable) {
		if (ipv4)
			note_unreachable4(ctx, pkt);
		else
			note_unreachable6(ctx, pkt);
	}
	if (verdict == VERDICT_FRAGMENT)
		return ipv4 ? start_flow4(ctx, pkt) : start_flow6(ctx, pkt);
	if (verdict == VERDICT_ERROR)
		return ipv4 ? relay_error4(ctx, pkt) : relay_error6(ctx, pkt);
	return verdict;
}

/* Fragments and ICMP are rare; what is left after them is walked. */
static __always_inline int handle_ip(struct xdp_md *ctx, struct packet *pkt, bool ipv4)
{
	__u8 icmp = ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;

	if (pkt->fragment || pkt->tail.proto == icmp) {
		struct packet copy = *pkt;
		int verdict;

		if (ipv4)
			map_addresses4(&copy);
		verdict = handle_rest(ctx, &copy, ipv4, handle_special(ctx, &copy));
		if (verdict != VERDICT_CONTINUE)
			return conclude_walk(ctx, &copy, verdict);
		pkt->fragment = 0; /* none is let through */
	}
	return ipv4 ? walk4(ctx, pkt) : walk6(ctx, pkt);
}

static __always_inline int handle_ipv4(struct xdp_md *ctx, struct packet *pkt, void *data,
				       void *end)
{
	if (parse_ipv4(pkt, data, end))
		return leave(REASON_MALFORMED, XDP_PASS);
	return handle_ip(ctx, pkt, true);
}

static __always_inline int handle_ipv6(struct xdp_md *ctx, struct packet *pkt, void *data,
				       void *end)
{
	int err = parse_ipv6(pkt, data, end);

	if (err)
		return leave(err == -1 ? REASON_MALFORMED : REASON_EXTENSION_HEADER, XDP_PASS);
	return handle_ip(ctx, pkt, false);
}

/* ARP, and whatever neighbour discovery sends to a multicast address or to us. */
static __always_inline bool is_owner_question(const struct packet *pkt, void *data, void *end)
{
	struct ethhdr *eth = data;
	struct ipv6hdr *ip = data + (pkt->l3 & OFFSET_MASK);
	__u8 *icmp = (void *)(ip + 1);

	if (pkt->l2_proto == bpf_htons(ETH_P_ARP))
		return true;
	if (pkt->l2_proto != bpf_htons(ETH_P_IPV6))
		return false;
	if (eth->h_dest[0] & 1)
		return true;
	return (void *)(icmp + 1) <= end && ip->nexthdr == IPPROTO_ICMPV6 && *icmp == ICMP6_SOLICIT;
}

static __always_inline int handle_frame(struct xdp_md *ctx, struct packet *pkt)
{
	__u32 index = pkt->ifindex & cfg_port_mask;
	struct port *port = bpf_map_lookup_elem(&l4lb_ports, &index);
	void *data, *end;
	struct ethhdr *eth;
	bool to_us;

	if (!port || port->ifindex != pkt->ifindex)
		return leave(REASON_NONE, XDP_PASS);
	pkt->length = frame_length(ctx);
	eth = data = frame_data(ctx);
	end = frame_end(ctx);
	if ((void *)(eth + 1) > end) /* no frame is that short, its first buffer may be */
		return leave(REASON_MALFORMED, XDP_PASS);
	pkt->l2_proto = parse_ethernet(pkt, data, end);
	to_us = same_mac(eth->h_dest, port->mac);
	if (to_us && pkt->l2_proto == bpf_htons(ETH_P_IP))
		return handle_ipv4(ctx, pkt, data, end);
	if (!to_us && !(eth->h_dest[0] & 1))
		return leave(REASON_NONE, XDP_PASS);
	if (is_owner_question(pkt, data, end)) {
		struct packet copy = *pkt;

		return conclude(&copy, answer_owner(ctx, &copy));
	}
	if (to_us && pkt->l2_proto == bpf_htons(ETH_P_IPV6))
		return handle_ipv6(ctx, pkt, data, end);
	return leave(REASON_NONE, XDP_PASS);
}

#ifndef L4LB_CAPTURE /* which has an entry point of its own */
SEC("xdp")
int l4lb_ingress(struct xdp_md *ctx)
{
	struct packet pkt = {
		.ifindex = ctx->ingress_ifindex,
	};

	leave_trace(&pkt);
	return handle_frame(ctx, &pkt);
}
#endif
