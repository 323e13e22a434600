/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_SPECIAL_H
#define L4LB_SPECIAL_H

/* Fragments and ICMP: what is decided before flows matter. */

#define TCP_FLAGS 13 /* where they are; the lowest bits: */
#define TCP_SYN 0x02
#define TCP_ACK 0x10

/* Sends a fragment on by its addresses and protocol, so that all of a datagram
 * have the same way whatever order they come in, and none is remembered for the
 * others. The protocol is what each of them says: in IPv6 that is the header
 * behind the fragment header, even where it is one more extension header. The
 * first one's port, where it is there, only says which rule it is for.
 */
static __always_inline int handle_fragment(struct xdp_md *ctx, struct packet *pkt, bool ipv4)
{
	__u32 end = packet_end(ctx, pkt, ipv4);
	__be16 where, ports[2];
	__u8 proto = pkt->tail.proto, head;

	if (bpf_xdp_load_bytes(ctx, ipv4 ? pkt->l3 + 6 : pkt->l4 - 6, &where, sizeof(where)))
		return pass(pkt, REASON_MALFORMED);
	if (where & bpf_htons(ipv4 ? IP_OFFSET_MASK : IP6_OFFSET_MASK))
		return VERDICT_FRAGMENT;
	if (proto == IPPROTO_TCP && pkt->l4 + TCP_FLAGS < end &&
	    !bpf_xdp_load_bytes(ctx, pkt->l4 + TCP_FLAGS, &head, sizeof(head)))
		pkt->fresh = (head & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	if (pkt->l4 + sizeof(ports) <= end &&
	    !bpf_xdp_load_bytes(ctx, pkt->l4, ports, sizeof(ports))) {
		pkt->fragment = FRAGMENT_PORTS;
		pkt->match_port = ports[1];
	}
	return VERDICT_FRAGMENT;
}

/* Whether ICMP for nobody of ours, which the kernel or a backend may have to
 * route, says that a port is closed. It is counted where the stack is not as deep.
 */
static __always_inline bool tells_unreachable(struct xdp_md *ctx, const struct packet *pkt,
					      bool ipv4)
{
	__u8 head[2]; /* type, code */

	return pkt->l4 <= OFFSET_MASK && !bpf_xdp_load_bytes(ctx, pkt->l4, head, sizeof(head)) &&
	       is_port_unreachable(head[0], head[1], ipv4);
}

/* Echo requests for a VIP are answered unless an L3_DEFAULT rule takes them;
 * ICMP errors are about another packet. Everything else goes to a rule, or by a
 * route.
 */
static __always_inline int handle_icmp(struct xdp_md *ctx, struct packet *pkt, bool ipv4)
{
	struct front *front = find_address(&pkt->addr[2], ipv4);
	int size = packet_end(ctx, pkt, ipv4) - pkt->l4;
	__u8 type;

	if (!front) {
		if (pkt->fragment)
			return VERDICT_FRAGMENT;
		pkt->unreachable = tells_unreachable(ctx, pkt, ipv4);
		if (!control.routes)
			return XDP_PASS;
	}
	if (size < (int)sizeof(struct icmp_header) ||
	    bpf_xdp_load_bytes(ctx, pkt->l4, &type, sizeof(type)))
		return front ? pass(pkt, REASON_MALFORMED) : VERDICT_CONTINUE;
	if (is_relayed_error(type, ipv4) && !pkt->fragment)
		return VERDICT_ERROR;
	if (front && is_icmp_error(type, ipv4))
		return pass(pkt, REASON_ICMP_ERROR);
	if (pkt->fragment)
		return VERDICT_FRAGMENT;
	if (!front || front->rule_l3)
		return VERDICT_CONTINUE;
	if (ipv4 && type == ICMP_ECHO_REQUEST)
		return answer_echo(ctx, pkt, size, true);
	if (!ipv4 && type == ICMP6_ECHO_REQUEST && pkt->l4 == pkt->l3 + sizeof(struct ipv6hdr))
		return answer_echo(ctx, pkt, size, false);
	return VERDICT_CONTINUE;
}

/* Returns VERDICT_CONTINUE for a packet that goes to a rule like any other. */
__noinline int handle_special(struct xdp_md *ctx, struct packet *pkt)
{
	bool ipv4;
	int verdict;

	if (!pkt)
		return XDP_ABORTED;
	ipv4 = pkt->l2_proto == bpf_htons(ETH_P_IP);
	if (pkt->fragment) {
		verdict = handle_fragment(ctx, pkt, ipv4);
		if (pkt->fragment != FRAGMENT_PORTS ||
		    pkt->tail.proto != (ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
			return verdict;
	}
	return handle_icmp(ctx, pkt, ipv4);
}

#endif
