/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_MAPS_H
#define L4LB_MAPS_H

/* All maps. Sizes marked (loader) are set from the configuration. The first
 * group carries state over restarts and is pinned; the second is written anew
 * by each daemon.
 */

/* bucket -> tracked flows */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct bucket4);
} l4lb_flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct bucket6);
} l4lb_flows6 SEC(".maps");

/* member id -> how to reach it, and which of its flows hold */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct member);
} l4lb_members SEC(".maps");

/* 2 * member id, and one more -> the tunnel to it, before and after a change */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct tunnel);
} l4lb_tunnels SEC(".maps");

/* rule id -> what to do with its packets */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct rule);
} l4lb_rules SEC(".maps");

/* member's stat_base + rule's stat_slot -> traffic */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct traffic);
} l4lb_stats SEC(".maps");

/* as l4lb_stats, for rules with RULE_SIGNALS; not pinned */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct signals);
} l4lb_signals SEC(".maps");

/* client zone * ZONE_MAX + backend zone -> traffic */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ZONE_PAIRS);
	__type(key, __u32);
	__type(value, struct zone_traffic);
} l4lb_zstats SEC(".maps");

/* enum reason -> packets */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASON_MAX);
	__type(key, __u32);
	__type(value, __u64);
} l4lb_reasons SEC(".maps");

/* enum flow_event -> count */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FLOW_EVENT_MAX);
	__type(key, __u32);
	__type(value, __u64);
} l4lb_events SEC(".maps");

/* (kind, id) -> name */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* (loader) */
	__type(key, struct name_key);
	__type(value, struct name_value);
} l4lb_names SEC(".maps");

/* rule id -> packets that were refused */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct refused);
} l4lb_refused SEC(".maps");

/* service * ZONE_MAX + client zone -> selection table, 0 for none */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct pick);
} l4lb_picks SEC(".maps");

/* One selection table: a single value, within which no more lookups are needed. */
struct selection_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct table));
};

struct wide_selection_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct wide_table));
};

/* table id -> selection table */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__array(values, struct selection_table);
} l4lb_tables SEC(".maps");

/* table id without TABLE_WIDE -> selection table */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__array(values, struct wide_selection_table);
} l4lb_wide SEC(".maps");

/* frontends, two halves of cfg_front_mask + 1 slots */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct front);
} l4lb_fronts SEC(".maps");

/* One route table: destination -> hops. */
struct route_table {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* (loader) */
	__uint(key_size, sizeof(struct route_key));
	__uint(value_size, sizeof(struct route_value));
};

/* 0 -> route table in force */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct route_table);
} l4lb_routes SEC(".maps");

/* client zone trie, two halves of cfg_zone_nodes nodes */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct zone_node);
} l4lb_zones SEC(".maps");

/* ifindex & cfg_port_mask -> interface */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct port);
} l4lb_ports SEC(".maps");

/* rule id -> which new flows it takes */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* (loader) */
	__type(key, __u32);
	__type(value, struct admission);
} l4lb_admission SEC(".maps");

/* (set of ranges, address) -> the set holds the address */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* (loader) */
	__type(key, struct range_key);
	__type(value, __u64);
} l4lb_ranges SEC(".maps");

/* (rule, source prefix) -> when the source's bucket is full again */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* (loader) */
	__type(key, struct source_key);
	__type(value, __u64);
} l4lb_sources SEC(".maps");

/* 0 -> echo replies of this tick */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct answer_budget);
} l4lb_echo SEC(".maps");

/* 0 -> answers to packets that are too big, of this tick */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct answer_budget);
} l4lb_toobig SEC(".maps");

/* 0 -> this CPU's bytes to sum */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sum_chunk);
} l4lb_sums SEC(".maps");

volatile struct control_state control = {};
volatile __u32 spill_life = 0; /* how old a spill mark may be, in its units */
volatile struct trace_record trace = {};
volatile __u32 clock_now = 0; /* ticks, with cfg_virtual_clock */

#endif
