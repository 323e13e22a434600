/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_ROUTE_H
#define L4LB_ROUTE_H

/* The load balancer as the next hop of static routes (semantics.md 4): packets
 * for destinations that are not ours, sent to us to be forwarded.
 */

static __always_inline bool hop_fits(const struct route_hop *hop, const struct packet *pkt)
{
	if (hop->ifindex && hop->ifindex != pkt->ifindex)
		return false;
	return (pkt->addr[0] & hop->mask[0]) == hop->source[0] &&
	       (pkt->addr[1] & hop->mask[1]) == hop->source[1];
}

/* The rule of the first hop that fits, 0 when none does. A global function, as
 * the next one: each is verified once, on its own.
 */
__noinline int choose_hop(const struct route_value *route, const struct packet *pkt)
{
	if (!route || !pkt)
		return 0;
	for (__u32 i = 0; i < ROUTE_HOPS && i < route->hops; i++) {
		if (hop_fits(&route->hop[i], pkt))
			return route->hop[i].rule;
	}
	return 0;
}

/* The rule whose backends the packet goes through, 0 for none. Only packets
 * without an entry come here, so a trie lookup for each is cheap enough.
 */
__noinline int find_route(const struct packet *pkt)
{
	struct route_key key = {.bits = 128};
	bool mapped, ipv4;
	__u32 zero = 0;
	void *table;

	if (!pkt || !control.routes)
		return 0;
	mapped = !pkt->addr[2] && (__u32)pkt->addr[3] == bpf_htonl(0xffff);
	ipv4 = pkt->l2_proto == bpf_htons(ETH_P_IP);
	table = bpf_map_lookup_elem(&l4lb_routes, &zero);
	if (mapped != ipv4 || !table)
		return 0;
	__builtin_memcpy(key.addr, &pkt->addr[2], sizeof(key.addr));
	return choose_hop(bpf_map_lookup_elem(table, &key), pkt);
}

#endif
