/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* Delivers health check probes: they are addressed to a VIP, and the mark of
 * their socket names the backend that each is for. The program is at the exit
 * of an interface of ours that only they are routed to; see pkg/probe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "reason.h"
#include "types.h"
#include "csum.h"
#include "encap.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define INDEX_MASK 0xfffff /* the part of the mark that names the way */
#define MAX_DELIVERIES 1048576

/* How a frame gets to a backend. */
#define DELIVERY_NONE 0
#define DELIVERY_L2 1	  /* a new Ethernet header */
#define DELIVERY_TUNNEL 2 /* and outer headers */

#define GOLDEN_RATIO 0x9e3779b97f4a7c15 /* spreads 32 bits over 64 */

struct delivery {
	__u32 ifindex;
	__u32 kind;
	__u8 dmac[6]; /* the two addresses as they stand in a frame */
	__u8 smac[6];
	__u32 reserved;
	struct tunnel tunnel; /* DELIVERY_TUNNEL: as clients' packets get it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DELIVERIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct delivery);
} l4lb_probes SEC(".maps");

/* Puts the packet into the tunnel, by the code that the data plane has for it. The
 * kernel is told what the headers are: it computes the checksum within.
 */
static __always_inline int enter_tunnel(struct __sk_buff *skb, const struct tunnel *tunnel)
{
	struct inner inner = {
		.ipv4 = skb->protocol == bpf_htons(ETH_P_IP),
		.hash = bpf_get_hash_recalc(skb) * GOLDEN_RATIO,
	};
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	struct ethhdr *eth;

	flags |= tunnel->flags & TUNNEL_IPV6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6
					     : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	if (tunnel->flags & TUNNEL_UDP)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	if (read_inner_header(&inner, data + sizeof(*eth), end) ||
	    bpf_skb_adjust_room(skb, tunnel->size, BPF_ADJ_ROOM_MAC, flags))
		return -1;
	eth = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if ((void *)(eth + 1) > end)
		return -1;
	eth->h_proto = bpf_htons(tunnel->flags & TUNNEL_IPV6 ? ETH_P_IPV6 : ETH_P_IP);
	return write_outer(eth + 1, end, tunnel, &inner);
}

/* Frames that are no probe, or one for a backend that is gone, end here. A mark
 * is for one hop: the interface that the frame leaves by must not see it.
 */
SEC("tc")
int l4lb_probe(struct __sk_buff *skb)
{
	__u32 index = skb->mark & INDEX_MASK;
	struct delivery *way;

	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return TC_ACT_SHOT;
	way = bpf_map_lookup_elem(&l4lb_probes, &index);
	if (!way || way->kind == DELIVERY_NONE)
		return TC_ACT_SHOT;
	if (way->kind == DELIVERY_TUNNEL && enter_tunnel(skb, &way->tunnel))
		return TC_ACT_SHOT;
	if (bpf_skb_store_bytes(skb, 0, way->dmac, sizeof(way->dmac) + sizeof(way->smac), 0))
		return TC_ACT_SHOT;
	skb->mark = 0;
	return bpf_redirect(way->ifindex, 0);
}
