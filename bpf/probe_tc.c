/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* Delivers health check probes: they are addressed to a VIP, and the mark of
 * their socket names the backend that each is for. The program is at the exit
 * of an interface of ours that only they are routed to; see pkg/probe.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define INDEX_MASK 0xfffff /* the part of the mark that names the way */
#define MAX_DELIVERIES 1048576

/* How a frame gets to a backend. */
#define DELIVERY_NONE 0
#define DELIVERY_L2 1 /* a new Ethernet header */

struct delivery {
	__u32 ifindex;
	__u32 kind;
	__u8 dmac[6]; /* the two addresses as they stand in a frame */
	__u8 smac[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DELIVERIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct delivery);
} l4lb_probes SEC(".maps");

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
	if (!way || way->kind != DELIVERY_L2)
		return TC_ACT_SHOT;
	if (bpf_skb_store_bytes(skb, 0, way->dmac, sizeof(way->dmac) + sizeof(way->smac), 0))
		return TC_ACT_SHOT;
	skb->mark = 0;
	return bpf_redirect(way->ifindex, 0);
}
