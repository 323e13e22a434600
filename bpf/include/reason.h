/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_REASON_H
#define L4LB_REASON_H

/* Why a packet met its verdict. One list for the program, the metric label,
 * replay and docs/setup/reasons.md; Go's names are in pkg/loader/reason.go.
 * Append only: the numbers are stored in pinned maps.
 */
enum reason {
	/* Forwarded, or nothing of ours and passed. */
	REASON_NONE,

	/* Passed to the kernel untouched although it looked like ours. */
	REASON_MALFORMED,	 /* truncated, or lengths that disagree */
	REASON_FRAGMENT,	 /* dropped: without ports, and no rule takes all */
	REASON_ICMP_ERROR,	 /* ICMP error for a VIP that quotes no packet of it */
	REASON_EXTENSION_HEADER, /* more IPv6 extension headers than we walk */

	/* Answered by us. */
	REASON_ARP_REPLY,
	REASON_ND_REPLY,
	REASON_ECHO_REPLY,

	/* Dropped. */
	REASON_NO_RULE,		  /* VIP of ours, but no rule for protocol and port */
	REASON_NO_BACKEND,	  /* the client's eligible set is empty */
	REASON_OTHER_REGION,	  /* client of another region, rule without global access */
	REASON_NO_NEIGHBOUR,	  /* the backend's link address is not known */
	REASON_ECHO_RATE_LIMITED, /* more echo requests for VIPs than we answer */

	/* Aborted: should never happen. */
	REASON_INTERNAL,

	/* Dropped: new flows that their rule does not take. */
	REASON_SOURCE_NOT_ALLOWED,  /* source outside of the rule's ranges */
	REASON_RATE_LIMITED,	    /* the rule begins too many flows */
	REASON_SOURCE_RATE_LIMITED, /* the source begins too many flows */

	/* Passed to the kernel although a route takes the packet. */
	REASON_TTL_EXPIRED,	/* the kernel answers time exceeded */
	REASON_SENT_BY_BACKEND, /* the chosen backend has just sent the frame to us */

	/* Longer than the tunnel to the backend lets through, or a route's than the link. */
	REASON_TOO_BIG,		     /* answered: the sender is told what fits */
	REASON_TOO_BIG_NO_DF,	     /* answered, although the sender allows fragments */
	REASON_TOO_BIG_RATE_LIMITED, /* dropped: more than we answer */
	REASON_TOO_BIG_UNANSWERED,   /* dropped: of a kind that must not be answered */

	REASON_ECHO_BAD_CHECKSUM, /* dropped: an echo request for a VIP, damaged */

	REASON_MAX,
};

/* What happened to the flow table; counted, not a verdict. */
enum flow_event {
	FLOW_EVENT_NEW_SYN,		/* entry made by a TCP SYN */
	FLOW_EVENT_NEW_OTHER,		/* entry made by any other packet */
	FLOW_EVENT_CONFIRMED,		/* second packet of a flow */
	FLOW_EVENT_PROBATION_DISPLACED, /* unconfirmed entry gave its place */
	FLOW_EVENT_NO_ROOM,		/* forwarded without an entry: buckets full */
	FLOW_EVENT_CONTENDED,		/* forwarded without an entry: lost a race */

	FLOW_EVENT_MAX,
};

#endif
