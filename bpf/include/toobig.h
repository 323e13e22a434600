/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_TOOBIG_H
#define L4LB_TOOBIG_H

/* A packet that is too big for the tunnel to its backend is answered, so that
 * its sender finds the path's MTU: fragmentation needed (RFC 1191) or packet too
 * big (RFC 8201), from the address that it was sent to, quoting as much of it as
 * goes.
 */

#define QUOTE4 548   /* the answer has 576 bytes (RFC 1812 4.3.2.3) */
#define QUOTE6 1232  /* the answer has 1280 bytes (RFC 4443 2.4) */
#define CSUM_MAX 512 /* bytes that bpf_csum_diff takes */
#define IP_DONT_FRAGMENT 0x4000
#define INTERNET_CONTROL 0xc0 /* precedence (RFC 1812 4.3.2.5) */
#define ANSWER_TTL 64

struct too_big4 {
	struct iphdr ip;
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 unused;
	__be16 mtu;
};

struct too_big6 {
	struct ipv6hdr ip;
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 mtu;
};

/* The sum of size bytes, a multiple of 4 that is known when this is compiled. */
static __always_inline __u64 csum_bytes(void *data, __u32 size, __u64 sum)
{
	for (int i = 0; i < 3 && size > CSUM_MAX; i++) {
		sum = bpf_csum_diff(NULL, 0, data, CSUM_MAX, sum);
		data += CSUM_MAX;
		size -= CSUM_MAX;
	}
	return bpf_csum_diff(NULL, 0, data, size, sum);
}

/* Errors are not answered (RFC 1122 3.2.2, RFC 4443 2.4), nor what is sent in the
 * name of many, nor a piece of a datagram that is not the first.
 */
static __always_inline bool is_answerable4(const struct iphdr *ip, void *end)
{
	__u8 *type = (void *)ip + ip->ihl * 4, first = *(__u8 *)&ip->saddr;

	if (first == 0 || first == 127 || first >= 224 ||
	    (ip->frag_off & bpf_htons(IP_OFFSET_MASK)))
		return false;
	if (ip->protocol != IPPROTO_ICMP)
		return true;
	return (void *)(type + 1) <= end && (*type == 8 || *type == 0 || *type >= 13);
}

static __always_inline bool is_answerable6(struct packet *pkt, const struct ipv6hdr *ip, void *end)
{
	__u64 *source = (__u64 *)&ip->saddr;
	void *l4 = (void *)(ip + 1);
	__u8 *type;

	if (*(__u8 *)source == 0xff || !(source[0] | source[1]))
		return false;
	/* The tail of an ICMP error is that of the packet that it quotes. */
	pkt->tail.proto = ip->nexthdr;
	if (walk_extensions(pkt, &l4, end, bpf_ntohs(ip->payload_len)))
		return false;
	if (pkt->tail.proto != IPPROTO_ICMPV6)
		return true;
	type = l4;
	/* Redirect messages are errors too, by their number they are not. */
	return (void *)(type + 1) <= end && *type >= 128 && *type != 137;
}

/* Makes room for more bytes of headers in front of the packet, cuts it to quote
 * bytes, and addresses the frame to where it came from. Returns the new packet,
 * or NULL.
 */
static __always_inline void *turn_around(struct xdp_md *ctx, const struct packet *pkt, int more,
					 int quote)
{
	__u64 *eth = frame_data(ctx), tags, macs;
	__be16 *type;
	__u32 last;

	if ((void *)eth + LINK_SIZE_MAX > frame_end(ctx))
		return NULL;
	/* Destination, source: bytes 0 to 5 and 6 to 11. */
	macs = eth[0];
	last = *(__u32 *)(eth + 1);
	tags = *(__u64 *)((void *)eth + 2 * MAC_SIZE);
	if (bpf_xdp_adjust_tail(ctx, -(int)(pkt->length - pkt->l3 - quote)) ||
	    bpf_xdp_adjust_head(ctx, -more))
		return NULL;
	eth = frame_data(ctx);
	if ((void *)eth + LINK_SIZE_MAX > frame_end(ctx))
		return NULL;
	eth[0] = macs >> 48 | (__u64)last << 16 | macs << 48;
	*(__u32 *)(eth + 1) = macs >> 16;
	*(__u64 *)((void *)eth + 2 * MAC_SIZE) = tags;
	type = (void *)eth + ((pkt->l3 - sizeof(*type)) & 0x1f);
	pin(type);
	if ((void *)(type + 1) > frame_end(ctx))
		return NULL;
	*type = pkt->l2_proto;
	return type + 1;
}

static __always_inline int answer_too_big4(struct xdp_md *ctx, struct packet *pkt, __u32 mtu)
{
	struct iphdr *ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	enum reason reason = REASON_TOO_BIG;
	struct too_big4 *answer;
	__be32 source, dest;
	__u64 sum;

	pin(ip);
	if ((void *)ip + QUOTE4 > frame_end(ctx) || !is_answerable4(ip, frame_end(ctx)))
		return drop(pkt, REASON_TOO_BIG_UNANSWERED);
	if (!take_budget(&l4lb_toobig, cfg_too_big_limit, clock_ticks()))
		return drop(pkt, REASON_TOO_BIG_RATE_LIMITED);
	if (!(ip->frag_off & bpf_htons(IP_DONT_FRAGMENT)))
		reason = REASON_TOO_BIG_NO_DF;
	source = ip->daddr;
	dest = ip->saddr;
	answer = turn_around(ctx, pkt, sizeof(*answer), QUOTE4);
	if (!answer)
		return internal_error(pkt);
	pin(answer);
	if ((void *)(answer + 1) + QUOTE4 > frame_end(ctx))
		return internal_error(pkt);
	answer->ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tos = INTERNET_CONTROL,
		.tot_len = bpf_htons(sizeof(*answer) + QUOTE4),
		.frag_off = bpf_htons(IP_DONT_FRAGMENT),
		.ttl = ANSWER_TTL,
		.protocol = IPPROTO_ICMP,
		.saddr = source,
		.daddr = dest,
	};
	answer->ip.check = csum_fold(csum_bytes(answer, sizeof(answer->ip), 0));
	answer->type = 3;
	answer->code = 4;
	answer->checksum = 0;
	answer->unused = 0;
	answer->mtu = bpf_htons(mtu);
	sum = csum_bytes(&answer->type, sizeof(*answer) - sizeof(answer->ip) + QUOTE4, 0);
	answer->checksum = csum_fold(sum);
	return decide(pkt, reason, XDP_TX);
}

static __always_inline int answer_too_big6(struct xdp_md *ctx, struct packet *pkt, __u32 mtu)
{
	struct ipv6hdr *ip = frame_data(ctx) + (pkt->l3 & OFFSET_MASK);
	const __u32 size = sizeof(struct too_big6) - sizeof(*ip) + QUOTE6;
	struct too_big6 *answer;
	__u64 *address, sum;

	pin(ip);
	if ((void *)ip + QUOTE6 > frame_end(ctx) || !is_answerable6(pkt, ip, frame_end(ctx)))
		return drop(pkt, REASON_TOO_BIG_UNANSWERED);
	if (!take_budget(&l4lb_toobig, cfg_too_big_limit, clock_ticks()))
		return drop(pkt, REASON_TOO_BIG_RATE_LIMITED);
	answer = turn_around(ctx, pkt, sizeof(*answer), QUOTE6);
	if (!answer)
		return internal_error(pkt);
	pin(answer);
	if ((void *)(answer + 1) + QUOTE6 > frame_end(ctx))
		return internal_error(pkt);
	*(__u64 *)&answer->ip = 0;
	answer->ip.version = 6;
	answer->ip.payload_len = bpf_htons(size);
	answer->ip.nexthdr = IPPROTO_ICMPV6;
	answer->ip.hop_limit = ANSWER_TTL;
	address = (__u64 *)&answer->ip.saddr;
	address[0] = pkt->addr[2];
	address[1] = pkt->addr[3];
	address[2] = pkt->addr[0];
	address[3] = pkt->addr[1];
	answer->type = 2;
	answer->code = 0;
	answer->checksum = 0;
	answer->mtu = bpf_htonl(mtu < IPV6_MIN_MTU ? IPV6_MIN_MTU : mtu);
	sum = csum_bytes(&answer->type, size, csum_bytes(address, 32, 0));
	answer->checksum = csum_fold(sum + bpf_htonl(size) + bpf_htonl(IPPROTO_ICMPV6));
	return decide(pkt, REASON_TOO_BIG, XDP_TX);
}

/* Answers a packet longer than mtu, or says why it does not. A global function:
 * it is verified once, on its own.
 */
__noinline int answer_too_big(struct xdp_md *ctx, struct packet *pkt, __u32 mtu)
{
	if (!pkt)
		return XDP_ABORTED;
	if (pkt->l2_proto == bpf_htons(ETH_P_IP))
		return answer_too_big4(ctx, pkt, mtu);
	return answer_too_big6(ctx, pkt, mtu);
}

#endif
