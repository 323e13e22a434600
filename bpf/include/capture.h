/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_CAPTURE_H
#define L4LB_CAPTURE_H

/* What a capture and the process that wants it tell each other; pkg/capture has
 * the Go side.
 */

#define CAPTURE_FRAME 65536 /* a frame is captured up to one byte less */
#define CAPTURE_TERMS 16    /* conditions of a filter */
#define CAPTURE_CLAUSES 16  /* alternatives of a filter */

/* Conditions. Those up to CAPTURE_ARRIVAL_MAX are known when the packet arrives,
 * the others when the program is done with it.
 */
enum capture_kind {
	CAPTURE_NONE,
	CAPTURE_SRC,   /* addr under mask; value: EtherType, network order */
	CAPTURE_DST,   /* the same */
	CAPTURE_SPORT, /* value, network order */
	CAPTURE_DPORT, /* value, network order */
	CAPTURE_PROTO, /* value: IP protocol */
	CAPTURE_ETHER, /* value: EtherType, network order */
	CAPTURE_FRAGMENT,
	CAPTURE_ARRIVAL_MAX,
	CAPTURE_VERDICT, /* value: mask of 1 << XDP action */
	CAPTURE_REASON,	 /* value: enum reason */
	CAPTURE_FLOW,	 /* value: TRACE_FLOW_* */
	CAPTURE_RULE,	 /* id is listed in l4lb_cap_ids for this condition */
	CAPTURE_MEMBER,
	CAPTURE_ZONE,
};

struct capture_term {
	enum capture_kind kind;
	__u32 value;
	__u64 addr[2]; /* network order; IPv4 as ::ffff:a.b.c.d */
	__u64 mask[2];
};

/* One alternative: conditions, by their bits, that must and must not hold. */
struct capture_clause {
	__u16 yes;
	__u16 no;
};

struct capture_id {
	__u32 term;
	__u32 id;
};

/* By the interface that packets come in at. */
struct capture_counts {
	__u64 seen;
	__u64 matched;
	__u64 skipped; /* beyond the rate */
	__u64 lost;    /* no room in the ring buffer */
};

/* One packet, followed by the frame as it arrived and, when it was sent, as it
 * left.
 */
struct capture_event {
	__u64 arrived; /* ns of the monotonic clock */
	__u64 left;
	__u32 ifindex;
	__u32 egress;	 /* interface it was sent to; 0: not sent, or not known */
	__u32 in_length; /* of the frame */
	__u32 out_length;
	__u32 in_captured; /* bytes of it that follow */
	__u32 out_captured;
	__u32 verdict;
	__u32 reason;
	__u32 rule;
	__u32 member;
	__u32 cpu;
	__u8 flow; /* TRACE_FLOW_* */
	__u8 zone;
	__u16 reserved;
};
_Static_assert(sizeof(struct capture_event) == 64, "capture_event layout");

#endif
