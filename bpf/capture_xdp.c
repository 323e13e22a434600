/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* The data plane that shows its packets. While a capture runs, this program is in
 * the place of l4lb_ingress: the same code on the same maps, between a look at the
 * frame that arrives and one at the frame that leaves. So the program that is there
 * otherwise need not know about captures. See pkg/capture.
 */
#define L4LB_CAPTURE
#include "l4lb_xdp.c"

#include "capture.h"
#include "capture_filter.h"

/* Bytes kept of a frame, below CAPTURE_FRAME. */
volatile const __u32 cfg_snaplen = CAPTURE_FRAME - 1;

/* ns from one packet of a CPU to the next, 0 for no bound; and how far ahead of
 * that a burst may be.
 */
volatile const __u64 cfg_gap = 0;
volatile const __u64 cfg_burst = 0;

#define STATE_IDLE 0	/* no packet, or one that does not match */
#define STATE_ARMED 1	/* as it leaves, it may match */
#define STATE_SKIPPED 2 /* the same, beyond the rate: nothing is copied */

/* The packet that a CPU is at: XDP handles one at a time. */
struct capture_cpu {
	__u64 due; /* when a packet is within the rate again */
	__u32 state;
	__u32 truth; /* bit n: condition n holds */
	struct trace_record trace;
	__u32 reserved;
	struct capture_event event;
	__u8 data[2 * CAPTURE_FRAME]; /* behind the event, as it is sent */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* number of CPUs, set when it is loaded */
	__type(key, __u32);
	__type(value, struct capture_cpu);
} l4lb_cap_cpus SEC(".maps");

/* interface that is captured -> counts */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct capture_counts);
} l4lb_cap_ports SEC(".maps");

/* 0 -> when, in ns of the monotonic clock, nobody reads any more */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} l4lb_cap_until SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} l4lb_cap_ring SEC(".maps");

static __always_inline struct capture_cpu *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&l4lb_cap_cpus, &cpu);
}

static __always_inline volatile struct trace_record *current_trace(void)
{
	struct capture_cpu *cpu = this_cpu();

	return cpu ? &cpu->trace : &trace;
}

/* Parses as the data plane does, by the same code, for the filter. */
static __always_inline void parse_arrival(struct packet *pkt, void *data, void *end)
{
	pkt->l2_proto = parse_ethernet(pkt, data, end);
	if (pkt->l2_proto == bpf_htons(ETH_P_IP)) {
		parse_ipv4(pkt, data, end);
		map_addresses4(pkt);
	} else if (pkt->l2_proto == bpf_htons(ETH_P_IPV6)) {
		parse_ipv6(pkt, data, end);
	}
}

/* Copies what is to be kept of the frame, all its buffers, to data from at on. */
static __always_inline __u32 copy_frame(struct xdp_md *ctx, struct capture_cpu *cpu, __u32 at,
					__u32 length)
{
	__u32 keep = length < cfg_snaplen ? length : cfg_snaplen;

	at &= CAPTURE_FRAME - 1;
	pin(at);
	keep &= CAPTURE_FRAME - 1;
	pin(keep);
	if (!keep || bpf_xdp_load_bytes(ctx, 0, cpu->data + at, keep))
		return 0;
	return keep;
}

static __always_inline bool is_read(__u64 now)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&l4lb_cap_until, &zero);

	return until && now < READ_ONCE(*until);
}

/* Looks at a frame that arrives. A global function, as the next one: each is
 * verified once, on its own.
 */
__noinline int capture_arrival(struct xdp_md *ctx)
{
	struct packet pkt = {};
	struct capture_counts *counts;
	struct capture_event *event;
	struct capture_cpu *cpu;

	cpu = this_cpu();
	if (!cpu)
		return 0;
	event = &cpu->event;
	cpu->state = STATE_IDLE;
	pkt.ifindex = ctx->ingress_ifindex;
	pkt.length = bpf_xdp_get_buff_len(ctx);
	counts = bpf_map_lookup_elem(&l4lb_cap_ports, &pkt.ifindex);
	if (!counts)
		return 0;
	counts->seen++;
	parse_arrival(&pkt, frame_data(ctx), frame_end(ctx));
	if (!may_match(&pkt, &cpu->truth))
		return 0;

	__builtin_memset(event, 0, sizeof(*event));
	event->arrived = bpf_ktime_get_ns();
	event->ifindex = pkt.ifindex;
	event->in_length = pkt.length;
	event->cpu = bpf_get_smp_processor_id();
	if (!is_read(event->arrived))
		return 0;
	if (cfg_gap && cpu->due > event->arrived + cfg_burst) {
		cpu->state = STATE_SKIPPED;
		return 0;
	}
	event->in_captured = copy_frame(ctx, cpu, 0, pkt.length);
	cpu->state = STATE_ARMED;
	return 0;
}

/* Takes its turn for a packet at the rate; false where it is beyond it. */
static __always_inline bool within_rate(struct capture_cpu *cpu)
{
	__u64 now = cpu->event.arrived;

	if (cpu->state == STATE_SKIPPED)
		return false;
	if (cfg_gap)
		cpu->due = (cpu->due > now ? cpu->due : now) + cfg_gap;
	return true;
}

/* The interface that a packet is sent to: back, or to its backend's. */
static __always_inline __u32 find_egress(const struct capture_event *event)
{
	__u32 id = event->member;
	struct member *member;

	if (event->verdict != XDP_REDIRECT)
		return event->ifindex;
	member = bpf_map_lookup_elem(&l4lb_members, &id);
	return member ? member->ifindex : 0;
}

/* Looks at a frame that leaves, and sends both when they match. */
__noinline int capture_departure(struct xdp_md *ctx, int verdict)
{
	bool sent = verdict == XDP_TX || verdict == XDP_REDIRECT;
	struct capture_cpu *cpu = this_cpu();
	struct capture_counts *counts;
	struct capture_event *event;
	__u32 size;

	if (!cpu || cpu->state == STATE_IDLE)
		return verdict;
	event = &cpu->event;
	event->verdict = verdict;
	event->reason = cpu->trace.reason;
	event->rule = cpu->trace.rule;
	event->member = cpu->trace.member;
	event->flow = cpu->trace.flow;
	event->zone = cpu->trace.zone;
	counts = bpf_map_lookup_elem(&l4lb_cap_ports, &event->ifindex);
	if (!counts || !matches(cpu->truth, event))
		return verdict;
	counts->matched++;
	if (!within_rate(cpu)) {
		counts->skipped++;
		return verdict;
	}
	event->left = bpf_ktime_get_ns();
	if (sent) {
		event->egress = find_egress(event);
		event->out_length = bpf_xdp_get_buff_len(ctx);
		event->out_captured = copy_frame(ctx, cpu, event->in_captured, event->out_length);
	}
	size = sizeof(*event) + (event->in_captured & (CAPTURE_FRAME - 1)) +
	       (event->out_captured & (CAPTURE_FRAME - 1));
	if (bpf_ringbuf_output(&l4lb_cap_ring, event, size, 0))
		counts->lost++;
	return verdict;
}

SEC("xdp")
int l4lb_capture(struct xdp_md *ctx)
{
	struct packet pkt = {
		.ifindex = ctx->ingress_ifindex,
	};

	capture_arrival(ctx);
	leave_trace(&pkt);
	return capture_departure(ctx, handle_frame(ctx, &pkt));
}
