/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_CONFIG_H
#define L4LB_CONFIG_H

/* Load-time constants: set by pkg/loader before the program is verified, so
 * that a branch on one costs nothing. Sizes of maps are set with them.
 */

/* Secret of the flow table's bucket choice. Lives as long as the table. */
volatile const __u64 cfg_flow_seed = 0;

/* Mixed into the choice of a backend; equal on all gateways of a VIP. */
volatile const __u64 cfg_select_seed = 0;

/* Numbers of buckets in the parts of a flow table, one after the other. */
volatile const __u32 cfg_flow_near = 0;
volatile const __u32 cfg_flow_middle = 0;
volatile const __u32 cfg_flow_far = 0;

/* A spill mark has the ticks above this bit as its time. */
volatile const __u8 cfg_spill_shift = 0;

/* Number of slots - 1 of one half of the frontend table. */
volatile const __u32 cfg_front_mask = 0;

/* Number of nodes of one half of the client zone trie. */
volatile const __u32 cfg_zone_nodes = 0;

/* Number of slots - 1 of the port table, indexed by ifindex. */
volatile const __u32 cfg_port_mask = 0;

/* A tick of the flow table is 1 << cfg_clock_shift jiffies. */
volatile const __u8 cfg_clock_shift = 0;

/* 1: time is the variable clock_now instead of jiffies (replay, tests). */
volatile const __u8 cfg_virtual_clock = 0;

/* 1: leave what was decided in the variable trace (replay, tests). */
volatile const __u8 cfg_trace = 0;

/* 1: a frame may be in several buffers, of which the program sees the first. Set
 * where an interface's packets are longer than a page; the program is loaded with
 * BPF_F_XDP_HAS_FRAGS then.
 */
volatile const __u8 cfg_frags = 0;

/* Echo replies per CPU and tick; 0 answers none. */
volatile const __u32 cfg_echo_limit = 0;

/* The same for packets that are too big for their tunnel. */
volatile const __u32 cfg_too_big_limit = 0;

#endif
