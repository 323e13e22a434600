/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_TYPES_H
#define L4LB_TYPES_H

/* Layouts shared with Go. bpf2go generates the Go side, so this file is the
 * only definition. Ids start at 1; 0 means none. Structs have no implicit
 * padding.
 */

#define TABLE_SIZE 65537 /* slots of a selection table */
#define ZONE_MAX 64	 /* client zones incl. 0, no zone */
#define ZONE_PAIRS 4096	 /* ZONE_MAX * ZONE_MAX */
#define BUCKET_FLOWS 4	 /* flows in a bucket */
#define FLOW_WAYS 4	 /* buckets a flow may be in: near, middle, two far */
#define FRONT_PROBES 32	 /* slots a frontend may be away from its hash */
#define MEMBER_BITS 24
#define NAME_SIZE 192

/* What a flow's packets have in common: 16 bytes for IPv4, 40 for IPv6. A part
 * that the tracking key leaves out is zero.
 */
#define FLOW_KIND_PORTS 0	    /* addresses, protocol, ports */
#define FLOW_KIND_NO_PORTS 1	    /* addresses, protocol */
#define FLOW_KIND_CLIENT_IP_PROTO 2 /* addresses, protocol; PER_SESSION */
#define FLOW_KIND_CLIENT_IP 3	    /* addresses; PER_SESSION */
#define FLOW_KIND_CLIENT_ONLY 4	    /* source address; PER_SESSION */

struct flow_tail {
	__be16 sport;
	__be16 dport;
	__u8 proto;
	__u8 kind;
	__u16 scope; /* service, for the PER_SESSION kinds; else 0 */
};

/* State of a flow entry: 24 bits member, 8 state, 16 member generation, 16
 * rule, in one word, so that a reader sees all of it or none.
 */
#define FLOW_STATE_EMPTY 0
#define FLOW_STATE_PROBATION 1 /* one packet seen */
#define FLOW_STATE_CONFIRMED 2 /* two or more */
#define FLOW_STATE_BUSY 3      /* being rewritten */

/* In the state's highest bit, while a flow is on probation: a SYN that counts in
 * struct signals made it.
 */
#define FLOW_BY_SYN (1U << 31)

struct flow_meta {
	__u32 last;  /* ticks */
	__u16 epoch; /* of the rule */
	__u8 zone;   /* of the client, when the entry was made */
	__u8 spill;  /* in a bucket's first flow: a flow is further on; see flow.h */
};

struct flow_key4 {
	__u8 saddr[4];
	__u8 daddr[4];
	struct flow_tail tail;
} __attribute__((aligned(8)));

struct flow4 {
	struct flow_key4 key;
	__u64 value;
	struct flow_meta meta;
};
_Static_assert(sizeof(struct flow4) == 32, "two IPv4 flows to a cache line");

struct flow_key6 {
	__u8 saddr[16];
	__u8 daddr[16];
	struct flow_tail tail;
} __attribute__((aligned(8)));

struct flow6 {
	struct flow_key6 key;
	__u64 value;
	struct flow_meta meta;
	__u64 reserved;
};
_Static_assert(sizeof(struct flow6) == 64, "one IPv6 flow to a cache line");

struct bucket4 {
	struct flow4 flow[BUCKET_FLOWS];
};

struct bucket6 {
	struct flow6 flow[BUCKET_FLOWS];
};

/* Classes of protocols by whether connections outlive their backend's health
 * (semantics.md 1.8).
 */
#define CLASS_CONNECTION 0 /* TCP, SCTP */
#define CLASS_OTHER 1
#define CLASS_MAX 2

/* A member that is reached through a tunnel: MEMBER_TUNNEL in its state.
 * MEMBER_TUNNEL_ODD where the second of its two records in l4lb_tunnels is the
 * one in force, which of a member on the link has the MTU alone.
 */
#define MEMBER_TUNNEL 0x20
#define MEMBER_TUNNEL_ODD 0x40

/* A backend as a member of one service. */
struct member {
	__u8 dmac[6]; /* the frame's new link addresses, in frame order */
	__u8 smac[6];
	__u32 ifindex; /* 0: the link address is not known */
	/* An entry holds while its generation of the class is this one. */
	__u16 generation[CLASS_MAX];
	__u32 stat_base; /* first record in l4lb_stats, one per rule */
	__u8 zone;
	__u8 state; /* MEMBER_TUNNEL*; the rest is pkg/controller's and not read here */
	__u16 service;
	__u32 idle;	       /* ticks, of the service; for PER_SESSION entries */
} __attribute__((aligned(8))); /* dmac is loaded as a word */
_Static_assert(sizeof(struct member) == 32, "member layout");

/* What is put around the packets to a member: the outer headers, in frame order,
 * without what depends on the packet. A cache line.
 */
#define TUNNEL_IPV6 1	/* the outer header is IPv6 */
#define TUNNEL_UDP 2	/* a UDP header follows it */
#define TUNNEL_GENEVE 4 /* and a GENEVE header that */
#define TUNNEL_CLAMP_MSS 8

struct tunnel {
	__u64 ip[5];  /* IPv4 has 20 bytes of it */
	__u64 udp;    /* source port, length and checksum are 0 */
	__u64 geneve; /* the protocol type is 0 */
	__u16 mtu;    /* bytes of the longest packet that fits in; of a link 0 if not known */
	__u8 size;    /* bytes of all outer headers */
	__u8 flags;   /* TUNNEL_* */
	__u8 spread;  /* low bits of the source address that differ by flow; up to 64 */
	__u8 reserved[3];
};
_Static_assert(sizeof(struct tunnel) == 64, "one tunnel to a cache line");

#define RULE_GLOBAL_ACCESS 1
#define RULE_ROUTED 2	     /* the next hop of routes: its packets take a hop */
#define RULE_SOURCE_FILTER 4 /* l4lb_admission has ranges for its sources */
#define RULE_RATE_LIMITED 8  /* l4lb_admission has limits for its new flows */
#define RULE_SIGNALS 128     /* count in l4lb_signals */

/* Session affinity: which fields choose the backend (semantics.md 1.4). */
#define AFFINITY_FIVE_TUPLE 0
#define AFFINITY_CLIENT_IP_PROTO 1
#define AFFINITY_CLIENT_IP 2
#define AFFINITY_CLIENT_ONLY 3

/* A forwarding rule with what its service says about packets. */
struct rule {
	__u32 pick_base;     /* first of ZONE_MAX records in l4lb_picks */
	__u32 idle;	     /* ticks */
	__u16 epoch;	     /* an entry of this rule holds while it has this epoch */
	__u16 service_epoch; /* the same for the kinds that rules share */
	__u16 service;
	__u16 stat_slot; /* added to the member's stat_base */
	__u8 affinity;
	__u8 kind; /* FLOW_KIND_PORTS, or the PER_SESSION kind */
	__u8 flags;
	__u8 reserved[13];
};
_Static_assert(sizeof(struct rule) == 32, "rule layout");

/* What a rule asks of new flows, in one cache line. Costs and bursts are times
 * in 1/16 ns; a cost of 0 is no limit.
 */
struct admission {
	__u64 full_at; /* when the rule's bucket is full again; the program's */
	__u64 cost;    /* of a flow */
	__u64 burst;   /* how far full_at may be ahead of the clock */
	__u64 source_cost;
	__u64 source_burst;
	__u64 source_mask[2]; /* what is one source; as the addresses of a packet */
	__u32 ranges;	      /* in l4lb_ranges; 0: every source is allowed */
	__u32 edition;	      /* of the limits: another one has buckets of its own */
};
_Static_assert(sizeof(struct admission) == 64, "one rule to a cache line");

/* An allowed source range: the set's number, then the address. */
#define RANGE_BITS 160

struct range_key {
	__u32 length; /* bits that count, of what follows */
	__u32 ranges;
	__u8 addr[16];
};

/* A source of a rule: the masked address. */
struct source_key {
	__u64 prefix[2];
	__u32 rule;
	__u32 edition;
};

/* Packets of a rule that were refused. */
struct refused {
	__u64 not_allowed;
	__u64 limited;
	__u64 source_limited;
};

/* Frontends: an open-addressed table of addresses and of (address, protocol,
 * port). A record is at most FRONT_PROBES slots behind its hash.
 */
#define FRONT_EMPTY 0
#define FRONT_ADDRESS 1 /* an address of ours and some of its rules */
#define FRONT_PREFIX 2	/* the same for an IPv6 /96 */
#define FRONT_PORT 3	/* one more port of it: rule */

struct front {
	__u64 addr[2]; /* network order; IPv4 as ::ffff:a.b.c.d */
	__be16 port;   /* FRONT_PORT */
	__u8 proto;    /* FRONT_PORT */
	__u8 kind;
	__u16 rule;	/* FRONT_PORT: its rule; else the TCP rule */
	__u16 rule_udp; /* UDP rule */
	__u16 rule_l3;	/* L3_DEFAULT rule */
	/* The only port of rule and of rule_udp; 0 for all ports. */
	__be16 tcp_port;
	__be16 udp_port;
	__u8 ports; /* there are FRONT_PORT records of the address */
	__u8 reserved;
};
_Static_assert(sizeof(struct front) == 32, "front layout");

/* A destination of the route table: longest prefix first, IPv4 as
 * ::ffff:a.b.c.d.
 */
struct route_key {
	__u32 bits;
	__u8 addr[16];
};

/* One way for the packets of a destination. */
#define ROUTE_HOPS 32

struct route_hop {
	__u64 source[2]; /* network order; those of the packet under mask */
	__u64 mask[2];
	__u32 ifindex; /* the packet came in at; 0: any */
	__u16 rule;
	__u16 reserved;
};

/* Hops of longer prefixes come first; the first that fits a packet is taken.
 * None leaves it to the kernel.
 */
struct route_value {
	__u32 hops;
	__u32 reserved;
	struct route_hop hop[ROUTE_HOPS];
};

/* A node of the client zone trie, one address byte a level. A child is a leaf
 * (bits 0-7 zone, ZONE_OTHER_REGION) or, with ZONE_NODE set, another node.
 */
#define ZONE_OTHER_REGION (1U << 8)
#define ZONE_NODE (1U << 31)
#define ZONE_ROOT4 0
#define ZONE_ROOT6 1

struct zone_node {
	__u32 child[256];
};

/* An interface the program is attached to. */
struct port {
	__u32 ifindex; /* 0: free */
	__u8 mac[6];
	__u16 reserved0;
	__u32 reserved1;
};
_Static_assert(sizeof(struct port) == 16, "port layout");

/* The selection table of a (service, client zone). */
#define TABLE_WIDE (1U << 31)

struct pick {
	__u32 table; /* 0: the eligible set is empty; with TABLE_WIDE where it is wide */
	__u32 reserved;
};

/* What a new flow waits for is a line of its selection table, so tables are small:
 * that of up to TABLE_MEMBERS members has their ids, and a byte for each slot: the
 * place of its member among them.
 */
#define TABLE_MEMBERS 256

struct table {
	__u32 member[TABLE_MEMBERS];
	__u8 slot[TABLE_SIZE];
	__u8 reserved[7];
};

/* That of more has member ids as slots; their upper 8 bits are reserved. */
struct wide_table {
	__u32 slot[TABLE_SIZE];
	__u32 reserved;
};

struct traffic {
	__u64 packets;
	__u64 bytes; /* of whole frames */
	__u64 flows; /* packets that were not tracked before */
};

/* What the traffic of a rule whose service wants it shows of a backend. */
struct signals {
	__u64 syns;	   /* SYNs that made a flow of their own */
	__u64 confirmed;   /* of those, flows that a second packet came of */
	__u64 unreachable; /* ICMP port unreachable about the rule's flows */
};

struct zone_traffic {
	__u64 packets;
	__u64 bytes;
};

/* Answers of one kind that the gateway makes itself, in one tick. */
struct answer_budget {
	__u32 tick;
	__u32 used;
};

/* Bytes that were copied out of a frame to be summed, with room for the zeros
 * that make them whole words.
 */
#define SUM_CHUNK 512

struct sum_chunk {
	__u8 bytes[SUM_CHUNK + 4];
};

/* Names of what ids stand for, so that a new daemon finds its way. */
struct name_key {
	__u32 kind;
	__u32 id;
};

struct name_value {
	__u8 text[NAME_SIZE]; /* padded with zero bytes */
};

/* Which half of the double-buffered tables is in force. */
struct control_state {
	__u32 front_half;
	__u32 front_prefixes; /* number of FRONT_PREFIX records */
	__u32 zone_half;
	__u32 routes; /* 0: there are none */
};

#define TRACE_FLOW_NONE 0
#define TRACE_FLOW_HIT 1
#define TRACE_FLOW_NEW 2

/* What was decided about the last packet, with cfg_trace. */
struct trace_record {
	enum reason reason;
	__u32 rule;
	__u32 member;
	__u8 flow;
	__u8 zone;
	__u16 reserved;
};

#endif
