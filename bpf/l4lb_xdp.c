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
#include "hash.h"
#include "parse.h"
#include "deliver.h"
#include "flow.h"
#include "frontend.h"
#include "zone.h"
#include "select.h"
#include "csum.h"
#include "owner.h"
#include "echo.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Fragments and ICMP are rare; what is left after them is walked. */
static __always_inline int handle_ip(struct xdp_md *ctx, struct packet *pkt, bool ipv4)
{
	__u8 icmp = ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	int verdict;

	if (pkt->fragment || pkt->tail.proto == icmp) {
		verdict = handle_special(ctx, pkt);
		if (verdict != VERDICT_CONTINUE)
			return verdict;
	}
	return ipv4 ? walk4(ctx, pkt) : walk6(ctx, pkt);
}

static __always_inline int handle_ipv4(struct xdp_md *ctx, struct packet *pkt)
{
	if (parse_ipv4(pkt, frame_data(ctx), frame_end(ctx)))
		return pass(pkt, REASON_MALFORMED);
	return handle_ip(ctx, pkt, true);
}

static __always_inline int handle_ipv6(struct xdp_md *ctx, struct packet *pkt)
{
	int err = parse_ipv6(pkt, frame_data(ctx), frame_end(ctx));

	if (err)
		return pass(pkt, err == -1 ? REASON_MALFORMED : REASON_EXTENSION_HEADER);
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
	void *data = frame_data(ctx), *end = frame_end(ctx);
	__u32 index = ctx->ingress_ifindex & cfg_port_mask;
	struct port *port = bpf_map_lookup_elem(&l4lb_ports, &index);
	struct ethhdr *eth = data;
	bool to_us;

	pkt->l2_proto = parse_ethernet(pkt, data, end);
	if (!pkt->l2_proto || !port || port->ifindex != ctx->ingress_ifindex ||
	    (void *)(eth + 1) > end)
		return XDP_PASS;
	to_us = same_mac(eth->h_dest, port->mac);
	if (!to_us && !(eth->h_dest[0] & 1))
		return XDP_PASS;
	if (is_owner_question(pkt, data, end))
		return answer_owner(ctx, pkt);
	if (!to_us)
		return XDP_PASS;
	pkt->now = clock_ticks();
	if (pkt->l2_proto == bpf_htons(ETH_P_IP))
		return handle_ipv4(ctx, pkt);
	if (pkt->l2_proto == bpf_htons(ETH_P_IPV6))
		return handle_ipv6(ctx, pkt);
	return XDP_PASS;
}

/* The one place where verdicts are counted. Index 0 counts what was passed
 * because nothing of it is ours; forwarded packets are counted by backend.
 */
static __always_inline void count_verdict(const struct packet *pkt, int verdict)
{
	__u32 reason = pkt->reason;
	__u64 *count;

	if (reason || verdict == XDP_PASS) {
		count = bpf_map_lookup_elem(&l4lb_reasons, &reason);
		if (count)
			*count += 1;
	}
	if (cfg_trace) {
		trace.reason = reason;
		trace.rule = pkt->rule;
		trace.member = pkt->member;
		trace.flow = pkt->flow;
		trace.zone = pkt->zone;
	}
}

SEC("xdp")
int l4lb_ingress(struct xdp_md *ctx)
{
	struct packet pkt = { .length = ctx->data_end - ctx->data };
	int verdict = handle_frame(ctx, &pkt);

	count_verdict(&pkt, verdict);
	return verdict;
}
