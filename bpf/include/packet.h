/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_PACKET_H
#define L4LB_PACKET_H

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define barrier() asm volatile("" ::: "memory")

/* Keeps the compiler from computing a checked pointer a second time: to the
 * verifier the second one would be unchecked.
 */
#define pin_pointer(p) asm volatile("" : "+r"(p))

/* A step's verdict: an XDP action, or VERDICT_CONTINUE to go on. */
#define VERDICT_CONTINUE (-1)

/* Headers start within this; the verifier wants a bound where it lost one. */
#define OFFSET_MASK 0x1ff

/* What the steps know about the packet: numbers only, so that it can be handed
 * to global functions, each of which is verified once, on its own. Offsets are
 * from the frame's start.
 */
struct packet {
	__u64 addr[4]; /* source, destination as 16 bytes each, network order */
	struct flow_tail tail;
	__be16 l2_proto;
	__u16 reserved;
	__u32 l3;     /* offset of the IP header */
	__u32 l4;     /* offset of what follows the IP headers */
	__u32 length; /* of the frame, bytes */
	__u32 now;    /* ticks */
	__u32 rule;
	__u32 member;
	enum reason reason;
	__u8 zone;
	__u8 flow; /* TRACE_FLOW_* */
	__u8 fragment;
	__u8 fresh; /* a TCP SYN without ACK */
};

static __always_inline __u32 clock_ticks(void)
{
	if (cfg_virtual_clock)
		return clock_now;
	return bpf_jiffies64() >> cfg_clock_shift;
}

static __always_inline int drop(struct packet *pkt, enum reason reason)
{
	pkt->reason = reason;
	return XDP_DROP;
}

static __always_inline int pass(struct packet *pkt, enum reason reason)
{
	pkt->reason = reason;
	return XDP_PASS;
}

/* A map record that must be there is not. Nothing has been written yet. */
static __always_inline int internal_error(struct packet *pkt)
{
	pkt->reason = REASON_INTERNAL;
	return XDP_ABORTED;
}

static __always_inline void *frame_data(const struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void *frame_end(const struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

#endif
