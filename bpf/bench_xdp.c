/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* The driver of pkg/bench: BPF_PROG_TEST_RUN repeats it on one buffer. Each run
 * writes the header of the next flow over whatever the run before left there
 * and tail-calls the program that is measured. With bench_trivial in its place
 * the driver's own cost is measured.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define FRAME_WORDS 8
#define FRAME_SIZE (FRAME_WORDS * 8)

/* Where a flow's number goes in the frame. Addresses are written whole, so that
 * no load of the measured program straddles two of our stores and waits for
 * both: on a real frame it would not.
 */
#define IPV4_ADDRESSES 26
#define IPV4_PORTS 34
#define IPV6_SOURCE 22
#define IPV6_DEST 38
#define IPV6_PORTS 54

/* What to run; written by pkg/bench before each BPF_PROG_TEST_RUN. */
struct bench_run {
	__u64 frame[FRAME_WORDS]; /* the frame of flow 0 */
	__u64 address[4];	  /* its addresses: IPv4 in the first word */
	__u16 sport;		  /* and ports; this one in host order */
	__be16 dport;
	__u32 ipv6;
	__u32 first; /* number of the first flow */
	__u32 mask;  /* number of flows - 1; a power of two less one */
	__u32 next;  /* packets so far */
};

volatile struct bench_run run = {};

/* 0 -> the program that is measured. The index is a constant, which the kernel
 * turns into a plain jump.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} bench_program SEC(".maps");

/* A flow's number is, from its low bits up: which of 16 VIPs, which of 4
 * networks, which of 1024 clients there, which port of the client. All are
 * added to those of flow 0.
 */
struct flow {
	__u32 vip;
	__u32 network;
	__u32 client;
	__u32 port;
};

static __always_inline struct flow flow_of(__u32 number)
{
	return (struct flow){
		.vip = number & 15,
		.network = number >> 4 & 3,
		.client = number >> 6 & 1023,
		.port = number >> 16,
	};
}

static __always_inline void write_ports(void *at, struct flow flow)
{
	*(__u32 *)at = bpf_htons(run.sport + flow.port) | (__u32)run.dport << 16;
}

/* Network is byte 1 of the source, client bytes 2 and 3, VIP the last byte of
 * the destination.
 */
static __always_inline void write_ipv4(void *data, struct flow flow)
{
	__u32 source = bpf_htonl(flow.network << 16 | flow.client);

	*(__u64 *)(data + IPV4_ADDRESSES) = run.address[0] + source + ((__u64)flow.vip << 56);
	write_ports(data + IPV4_PORTS, flow);
}

/* Network is byte 5 of the source, client its last bytes, VIP the last byte of
 * the destination.
 */
static __always_inline void write_ipv6(void *data, struct flow flow)
{
	*(__u64 *)(data + IPV6_SOURCE) = run.address[0] + ((__u64)flow.network << 40);
	*(__u64 *)(data + IPV6_SOURCE + 8) = run.address[1] + bpf_cpu_to_be64(flow.client);
	*(__u64 *)(data + IPV6_DEST) = run.address[2];
	*(__u64 *)(data + IPV6_DEST + 8) = run.address[3] + ((__u64)flow.vip << 56);
	write_ports(data + IPV6_PORTS, flow);
}

SEC("xdp")
int bench_driver(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct flow flow = flow_of(run.first + (run.next & run.mask));

	if (data + FRAME_SIZE > end)
		return XDP_ABORTED;
	run.next++;
#pragma unroll
	for (int i = 0; i < FRAME_WORDS; i++)
		((volatile __u64 *)data)[i] = run.frame[i];
	if (run.ipv6)
		write_ipv6(data, flow);
	else
		write_ipv4(data, flow);
	bpf_tail_call_static(ctx, &bench_program, 0);
	return XDP_ABORTED;
}

/* Its time is the driver's. */
SEC("xdp")
int bench_trivial(struct xdp_md *ctx)
{
	return XDP_TX;
}
