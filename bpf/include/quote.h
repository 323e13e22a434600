/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_QUOTE_H
#define L4LB_QUOTE_H

/* ICMP errors quote the packet they are about (RFC 792; RFC 4443 3): one that a
 * backend of ours sent to its client. Turned round it is one that the client
 * would send, and that packet's backend is whom the error concerns.
 */

#define QUOTED_BYTES 8 /* of what follows the quoted IP headers: RFC 792 */

struct icmp_header {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest;
};

static __always_inline bool is_icmp_error(__u8 type, bool ipv4)
{
	if (!ipv4)
		return type < 128; /* RFC 4443 2.1 */
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* Unreachable and too big, time exceeded, parameter problem. Source quench is
 * obsolete (RFC 6633), and a redirect is for the next hop's neighbours only.
 */
static __always_inline bool is_relayed_error(__u8 type, bool ipv4)
{
	if (!ipv4)
		return type >= 1 && type <= 4;
	return type == 3 || type == 11 || type == 12;
}

static __always_inline bool is_port_unreachable(__u8 type, __u8 code, bool ipv4)
{
	return ipv4 ? type == 3 && code == 3 : type == 1 && code == 4;
}

/* Where the IP packet ends in the frame; padding may follow. 0 on an error. */
static __always_inline __u32 packet_end(struct xdp_md *ctx, const struct packet *pkt, bool ipv4)
{
	__be16 size;

	if (bpf_xdp_load_bytes(ctx, pkt->l3 + (ipv4 ? 2 : 4), &size, sizeof(size)))
		return 0;
	return pkt->l3 + bpf_ntohs(size) + (ipv4 ? 0 : sizeof(struct ipv6hdr));
}

/* Takes the ports of the quoted packet, the other way round. */
static __always_inline int quoted_ports(struct xdp_md *ctx, struct packet *pkt, __u32 at, __u32 end)
{
	__u8 proto = pkt->tail.proto;
	__be16 ports[2];

	if (at + QUOTED_BYTES > end || bpf_xdp_load_bytes(ctx, at, ports, sizeof(ports)))
		return -1;
	pkt->tail.kind = FLOW_KIND_NO_PORTS;
	if (pkt->fragment ||
	    (proto != IPPROTO_TCP && proto != IPPROTO_UDP && proto != IPPROTO_SCTP))
		return 0;
	pkt->tail.kind = FLOW_KIND_PORTS;
	pkt->tail.sport = ports[1];
	pkt->tail.dport = ports[0];
	return 0;
}

/* Makes an ICMP error the packet that it quotes, turned round. Only an error
 * for the sender of the quoted packet is one. Returns 0, or -1 when that is not
 * so or the quote is too short.
 */
__noinline int read_quote4(struct xdp_md *ctx, struct packet *pkt)
{
	__u32 at, end, header;
	struct iphdr ip;

	if (!pkt)
		return -1;
	at = pkt->l4 + sizeof(struct icmp_header);
	end = packet_end(ctx, pkt, true);
	if (at + sizeof(ip) > end || bpf_xdp_load_bytes(ctx, at, &ip, sizeof(ip)))
		return -1;
	header = ip.ihl * 4;
	if (ip.version != 4 || header < sizeof(ip) || mapped_ipv4(ip.saddr) != pkt->addr[3])
		return -1;
	pkt->addr[1] = mapped_ipv4(ip.daddr);
	pkt->tail.proto = ip.protocol;
	pkt->fragment = ip.frag_off & bpf_htons(IP_OFFSET_MASK) ? FRAGMENT_LATER : 0;
	return quoted_ports(ctx, pkt, at + header, end);
}

/* Steps over the quoted packet's extension headers. Returns where they end, 0
 * when there are too many or one is cut off. Of a later fragment only what the
 * fragment header says is known.
 */
static __always_inline __u32 quoted_extensions(struct xdp_md *ctx, struct packet *pkt, __u32 at)
{
	for (int i = 0; i < EXTENSION_DEPTH; i++) {
		__u8 this = pkt->tail.proto, ext[4];

		if (!is_extension_header(this))
			return at;
		if (bpf_xdp_load_bytes(ctx, at, ext, sizeof(ext)))
			return 0;
		pkt->tail.proto = ext[0];
		at += extension_size(this, ext[1]);
		if (this == IPPROTO_FRAGMENT && (ext[2] || ext[3] & 0xf8)) {
			pkt->fragment = FRAGMENT_LATER;
			return at;
		}
	}
	return is_extension_header(pkt->tail.proto) ? 0 : at;
}

__noinline int read_quote6(struct xdp_md *ctx, struct packet *pkt)
{
	struct ipv6hdr ip;
	__u32 at, end;

	if (!pkt)
		return -1;
	at = pkt->l4 + sizeof(struct icmp_header);
	end = packet_end(ctx, pkt, false);
	if (at + sizeof(ip) > end || bpf_xdp_load_bytes(ctx, at, &ip, sizeof(ip)))
		return -1;
	if (ip.version != 6 || ((__u64 *)&ip.saddr)[0] != pkt->addr[2] ||
	    ((__u64 *)&ip.saddr)[1] != pkt->addr[3])
		return -1;
	__builtin_memcpy(pkt->addr, &ip.daddr, sizeof(ip.daddr));
	pkt->tail.proto = ip.nexthdr;
	at = quoted_extensions(ctx, pkt, at + sizeof(ip));
	if (!at)
		return -1;
	return quoted_ports(ctx, pkt, at, end);
}

#endif
