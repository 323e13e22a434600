/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_SUM_H
#define L4LB_SUM_H

#define SUM_CHUNKS 128 /* of SUM_CHUNK bytes: the largest packet */

/* The sum of at most SUM_CHUNK bytes of the frame, which need not be in one
 * piece, on top of sum; to be folded. Negative when they are not there. A global
 * function, as the next one: each is verified once, on its own.
 */
__noinline __s64 sum_chunk(struct xdp_md *ctx, __u32 at, __u32 size, __u32 sum)
{
	__u32 zero = 0;
	struct sum_chunk *chunk = bpf_map_lookup_elem(&l4lb_sums, &zero);

	if (!chunk || !size || size > SUM_CHUNK || bpf_xdp_load_bytes(ctx, at, chunk->bytes, size))
		return -1;
	chunk->bytes[size] = chunk->bytes[size + 1] = chunk->bytes[size + 2] = 0;
	return bpf_csum_diff(NULL, 0, (void *)chunk->bytes, (size + 3) & ~3U, sum);
}

/* A sum on its way through the frame. */
struct sum_walk {
	struct xdp_md *ctx;
	__u32 at;
	__u32 size; /* what is left */
	__s64 sum;
};

static long sum_step(__u32 i, struct sum_walk *walk)
{
	__u32 len = walk->size < SUM_CHUNK ? walk->size : SUM_CHUNK;

	walk->sum = sum_chunk(walk->ctx, walk->at, len, walk->sum);
	walk->at += len;
	walk->size -= len;
	return !walk->size || walk->sum < 0;
}

/* The same for any size. The kernel's loop: written out, the verifier would go
 * through each of its turns.
 */
__noinline __s64 sum_frame(struct xdp_md *ctx, __u32 at, __u32 size, __u32 sum)
{
	struct sum_walk walk = {.ctx = ctx, .at = at, .size = size, .sum = sum};

	bpf_loop(SUM_CHUNKS, sum_step, &walk, 0);
	return walk.size ? -1 : walk.sum;
}

#endif
