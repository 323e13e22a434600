/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_ADMIT_H
#define L4LB_ADMIT_H

/* What a rule asks of a new flow before one is begun: that its source is
 * allowed, and that neither the rule nor the source begins too many. Packets
 * that follow an entry never come here.
 *
 * A rate is one word: the time at which its bucket will be full again (GCRA). A
 * flow moves it on by what it costs, and is refused where it would be further
 * ahead of the clock than the burst. One compare-and-swap moves it, so that all
 * CPUs together begin as many flows as were allowed and no more.
 */

#define ADMIT_TIME_SHIFT 4 /* buckets count in 1/16 ns: half a lifetime in 64 bits */
#define ADMIT_TRIES 32	   /* each one that fails is another CPU's flow */

/* The kernel's coarse clock moves by jiffies, which every burst outlasts. */
static __always_inline __u64 admit_clock(void)
{
	__u64 now = cfg_virtual_clock ? clock_now * 1000000ULL : bpf_ktime_get_coarse_ns();

	return now << ADMIT_TIME_SHIFT;
}

/* When the bucket will be full again after one flow more. */
static __always_inline __u64 full_after(__u64 full_at, __u64 cost, __u64 now)
{
	return (full_at > now ? full_at : now) + cost;
}

/* Takes one flow out of a bucket; false where there is none. */
static __always_inline bool take_flow(__u64 *full_at, __u64 cost, __u64 burst, __u64 now)
{
	for (int i = 0; i < ADMIT_TRIES; i++) {
		__u64 old = READ_ONCE(*full_at), next = full_after(old, cost, now);

		if (next - now > burst)
			return false;
		if (__sync_val_compare_and_swap(full_at, old, next) == old)
			return true;
	}
	return false;
}

/* The same for the bucket of the packet's source, which is made when it is
 * first needed. Where none can be had the rule's own limit is left.
 */
static __always_inline bool take_source_flow(const struct packet *pkt, const struct admission *a,
					     __u64 now)
{
	struct source_key key = {.rule = pkt->rule, .edition = a->edition};
	__u64 first = now + a->source_cost, *full_at;

	key.prefix[0] = pkt->addr[0] & a->source_mask[0];
	key.prefix[1] = pkt->addr[1] & a->source_mask[1];
	full_at = bpf_map_lookup_elem(&l4lb_sources, &key);
	if (!full_at) {
		if (!bpf_map_update_elem(&l4lb_sources, &key, &first, BPF_NOEXIST))
			return true;
		full_at = bpf_map_lookup_elem(&l4lb_sources, &key);
	}
	return !full_at || take_flow(full_at, a->source_cost, a->source_burst, now);
}

static __always_inline bool source_allowed(const struct packet *pkt, __u32 ranges)
{
	struct range_key key = {.length = RANGE_BITS, .ranges = ranges};

	if (!ranges)
		return true;
	__builtin_memcpy(key.addr, pkt->addr, sizeof(key.addr));
	return bpf_map_lookup_elem(&l4lb_ranges, &key);
}

/* What flags, those of the packet's rule, ask for. Returns the reason to drop it
 * for, or REASON_NONE. A rule that has used up its own rate takes nothing from
 * its sources. A global function: it is verified once, on its own.
 */
__noinline enum reason admit_flow(const struct packet *pkt, __u8 flags)
{
	struct admission *a;
	__u32 rule_id;
	__u64 now;

	if (!pkt)
		return REASON_INTERNAL;
	rule_id = pkt->rule;
	a = bpf_map_lookup_elem(&l4lb_admission, &rule_id);
	if (!a)
		return REASON_NONE;
	if ((flags & RULE_SOURCE_FILTER) && !source_allowed(pkt, READ_ONCE(a->ranges)))
		return REASON_SOURCE_NOT_ALLOWED;
	if (!(flags & RULE_RATE_LIMITED))
		return REASON_NONE;
	now = admit_clock();
	if (a->cost && full_after(READ_ONCE(a->full_at), a->cost, now) - now > a->burst)
		return REASON_RATE_LIMITED;
	if (a->source_cost && !take_source_flow(pkt, a, now))
		return REASON_SOURCE_RATE_LIMITED;
	if (a->cost && !take_flow(&a->full_at, a->cost, a->burst, now))
		return REASON_RATE_LIMITED;
	return REASON_NONE;
}

static __always_inline void count_refused(__u32 rule_id, enum reason reason)
{
	struct refused *refused = bpf_map_lookup_elem(&l4lb_refused, &rule_id);

	if (!refused)
		return;
	if (reason == REASON_SOURCE_NOT_ALLOWED)
		refused->not_allowed++;
	else if (reason == REASON_RATE_LIMITED)
		refused->limited++;
	else
		refused->source_limited++;
}

/* Whether the packet's rule takes its flow; where not, the packet has its end. */
static __always_inline bool admit(struct packet *pkt, __u8 flags)
{
	enum reason reason;

	flags &= RULE_SOURCE_FILTER | RULE_RATE_LIMITED;
	if (!flags)
		return true;
	reason = admit_flow(pkt, flags);
	if (!reason)
		return true;
	count_refused(pkt->rule, reason);
	pkt->reason = reason;
	return false;
}

#endif
