/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_ZONE_H
#define L4LB_ZONE_H

struct client_address {
	__u8 byte[16];
};

/* The client's zone by the longest matching prefix of its address: the bytes
 * from first on, starting at root. Returns a leaf of the trie: zone id, and
 * ZONE_OTHER_REGION. A global function: it is verified once, on its own.
 */
__noinline __u32 zone_search(const struct client_address *addr, __u32 root, __u32 first)
{
	__u32 half = control.zone_half * cfg_zone_nodes, node = root;

	if (!addr)
		return 0;
	for (__u32 i = first; i < sizeof(addr->byte); i++) {
		__u32 index = half + node;
		struct zone_node *found = bpf_map_lookup_elem(&l4lb_zones, &index);

		if (!found)
			return 0;
		node = READ_ONCE(found->child[addr->byte[i & 15]]);
		if (!(node & ZONE_NODE))
			return node;
		node &= ~ZONE_NODE;
	}
	return 0;
}

static __always_inline __u32 client_zone(const struct packet *pkt, bool ipv4)
{
	return zone_search((const void *)pkt->addr, ipv4 ? ZONE_ROOT4 : ZONE_ROOT6, ipv4 ? 12 : 0);
}

#endif
