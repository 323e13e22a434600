/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_PACKET_H
#define L4LB_PACKET_H

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define barrier() asm volatile("" ::: "memory")

/* Makes the compiler take a value as it is here. It would compute a checked
 * pointer a second time, or leave out a check that follows from another one;
 * the verifier sees neither.
 */
#define pin(value) asm volatile("" : "+r"(value))

/* A step's verdict: an XDP action, or how to go on. */
#define VERDICT_CONTINUE (-1)
#define VERDICT_FRAGMENT (-2) /* by the frontend: ports are no part of the key */
#define VERDICT_ERROR (-3)    /* by the packet that the ICMP error quotes */
#define VERDICT_NO_ROUTE (-4) /* no address of ours, and no route either */
#define VERDICT_TUNNEL (-5)   /* to the member, by way of encapsulate */

/* What a fragment knows of its ports. Until handle_special any fragment is
 * FRAGMENT_LATER.
 */
#define FRAGMENT_LATER 1
#define FRAGMENT_PORTS 2 /* the first one; match_port is its destination port */

/* Headers start within this; the verifier wants a bound where it lost one. */
#define OFFSET_MASK 0x1ff

#define MAC_SIZE 6

/* What the steps know about the packet: numbers only. On the way of a packet
 * that follows an entry they stay in registers: no pointer to the struct leaves
 * the program's main function. Global functions, each of which is verified once,
 * on its own, are handed a copy. Offsets are from the frame's start.
 */
struct packet {
	/* Source, destination as 16 bytes each, network order. IPv4 addresses
	 * stand side by side in the first word until map_addresses4.
	 */
	__u64 addr[4];
	struct flow_tail tail;
	__u32 length;  /* of the frame in all its buffers, bytes */
	__u32 ifindex; /* it came in at */
	__u32 now;     /* ticks, from the step on that looks at the clock */
	__u32 member;
	__u16 rule;
	__be16 l2_proto;
	__u16 l4; /* offset of what follows the IP headers */
	__u8 l3;  /* offset of the IP header */
	__u8 reason;
	__u8 zone;
	__u8 flow;	   /* TRACE_FLOW_* */
	__u8 fragment;	   /* FRAGMENT_*; 0 for none */
	__u8 fresh;	   /* a TCP SYN without ACK */
	__be16 match_port; /* of a first fragment: names its rule, and nothing else */
	__u8 unreachable;  /* an ICMP port unreachable that passes through */
	__u8 reserved;
};
_Static_assert(sizeof(struct packet) == 72, "the stack is small");

static __always_inline __u32 clock_ticks(void)
{
	if (cfg_virtual_clock)
		return clock_now;
	return bpf_jiffies64() >> cfg_clock_shift;
}

/* Where the trace of the packet at hand is left. A capture has traffic on every
 * CPU, see capture_xdp.c.
 */
#ifdef L4LB_CAPTURE
static __always_inline volatile struct trace_record *current_trace(void);
#else
static __always_inline volatile struct trace_record *current_trace(void)
{
	return &trace;
}
#endif

/* Leaves what was found out about the packet to replay, captures and tests. */
static __always_inline void leave_trace(const struct packet *pkt)
{
	volatile struct trace_record *left;

	if (!cfg_trace)
		return;
	left = current_trace();
	left->reason = pkt->reason;
	left->rule = pkt->rule;
	left->member = pkt->member;
	left->flow = pkt->flow;
	left->zone = pkt->zone;
}

/* The one place where verdicts are counted. Index 0 counts what was passed
 * because nothing of it is ours; forwarded packets are counted by backend.
 */
__noinline int leave(__u32 reason, int verdict)
{
	__u64 *count;

	if (reason || verdict == XDP_PASS) {
		count = bpf_map_lookup_elem(&l4lb_reasons, &reason);
		if (count)
			*count += 1;
	}
	if (cfg_trace)
		current_trace()->reason = reason;
	return verdict;
}

/* The end of a packet that a global function had. */
static __always_inline int conclude(const struct packet *pkt, int verdict)
{
	leave_trace(pkt);
	return leave(pkt->reason, verdict);
}

/* A reason is pinned to its own path: the compiler would load it on everybody's,
 * ahead of the check.
 */
static __always_inline int decide(struct packet *pkt, enum reason reason, int verdict)
{
	__u32 pinned = reason;

	pin(pinned);
	pkt->reason = pinned;
	return verdict;
}

static __always_inline int drop(struct packet *pkt, enum reason reason)
{
	return decide(pkt, reason, XDP_DROP);
}

static __always_inline int pass(struct packet *pkt, enum reason reason)
{
	return decide(pkt, reason, XDP_PASS);
}

/* A map record that must be there is not. Nothing has been written yet. */
static __always_inline int internal_error(struct packet *pkt)
{
	return decide(pkt, REASON_INTERNAL, XDP_ABORTED);
}

static __always_inline void *frame_data(const struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void *frame_end(const struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

/* Of the whole frame, where all before frame_end is its first buffer only. */
static __always_inline __u32 frame_length(struct xdp_md *ctx)
{
	if (cfg_frags)
		return bpf_xdp_get_buff_len(ctx);
	return ctx->data_end - ctx->data;
}

#endif
