/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */

/* One flow table; flow.h includes this file once for each address family, with
 * FT(x) giving the family's name of x.
 *
 * A flow is in one of FLOW_WAYS buckets, the first that had room. A bucket says
 * (spill) whether a flow went past it, so that a miss mostly costs one bucket.
 * Entries are claimed by compare-and-swap of their value word to BUSY, written,
 * and published by that word again: a reader that finds its key, reads the
 * value and finds its key still there has that flow's value.
 */

/* The way-th bucket that a flow may be in. */
static __always_inline struct FT(bucket) *FT(flow_bucket)(__u64 hash, __u32 way)
{
	__u32 index = ((__u32)hash + way * ((__u32)(hash >> 40) | 1)) & FT(cfg_flow_mask);

	return bpf_map_lookup_elem(&FT(l4lb_flows), &index);
}

/* The entry that has this key, whatever its state; NULL when there is none.
 * Unrolled: this is the hot path.
 */
static __always_inline struct FT(flow) *FT(flow_find)(const struct FT(flow_key) *key, __u64 hash)
{
#pragma unroll
	for (int way = 0; way < FLOW_WAYS; way++) {
		struct FT(bucket) *bucket = FT(flow_bucket)(hash, way);

		if (!bucket)
			return NULL;
#pragma unroll
		for (int i = 0; i < BUCKET_FLOWS; i++) {
			struct FT(flow) *flow = &bucket->flow[i];

			if (FT(flow_key_eq)(&flow->key, key))
				return flow;
		}
		if (!READ_ONCE(bucket->flow[0].meta.spill))
			return NULL;
	}
	return NULL;
}

/* The same in a global function: way * BUCKET_FLOWS + flow, or FLOW_NO_ROOM. */
__noinline int FT(flow_search)(const struct FT(flow_key) *key, __u64 hash)
{
	if (!key)
		return FLOW_NO_ROOM;
	for (__u32 i = 0; i < FLOW_WAYS * BUCKET_FLOWS; i++) {
		struct FT(bucket) *bucket = FT(flow_bucket)(hash, i / BUCKET_FLOWS);

		if (!bucket)
			return FLOW_NO_ROOM;
		pin(bucket);
		if (FT(flow_key_eq)(&bucket->flow[i % BUCKET_FLOWS].key, key))
			return i;
		if (i % BUCKET_FLOWS == BUCKET_FLOWS - 1 && !READ_ONCE(bucket->flow[0].meta.spill))
			return FLOW_NO_ROOM;
	}
	return FLOW_NO_ROOM;
}

static __always_inline struct FT(flow) *FT(flow_lookup)(const struct FT(flow_key) *key, __u64 hash)
{
	__u32 place = FT(flow_search)(key, hash);
	struct FT(bucket) *bucket;

	if (place >= FLOW_NO_ROOM)
		return NULL;
	bucket = FT(flow_bucket)(hash, place / BUCKET_FLOWS);
	if (!bucket)
		return NULL;
	pin(bucket);
	return &bucket->flow[place % BUCKET_FLOWS];
}

/* How willingly the flow gives its place to another one. A global function, as
 * those below: each is verified once, on its own.
 */
__noinline enum flow_rank FT(flow_rank)(const struct FT(flow) *flow, __u32 now)
{
	__u64 value;

	if (!flow)
		return FLOW_RANK_HELD;
	value = READ_ONCE(flow->value);
	if (flow_state(value) == FLOW_STATE_EMPTY)
		return FLOW_RANK_FREE;
	if (flow_state(value) == FLOW_STATE_BUSY)
		return FLOW_RANK_HELD;
	if (!flow_is_live(value, &flow->meta, &flow->key.tail, now))
		return FLOW_RANK_FREE;
	if (flow_state(value) == FLOW_STATE_PROBATION)
		return FLOW_RANK_PROBATION;
	return FLOW_RANK_HELD;
}

/* Claims flow, which held old, and writes key and value into it. */
static __always_inline bool FT(flow_write)(struct FT(flow) *flow, const struct FT(flow_key) *key,
					   __u64 old, __u64 value, const struct flow_meta *meta)
{
	__u64 busy = (__u64)FLOW_STATE_BUSY << MEMBER_BITS;

	if (__sync_val_compare_and_swap(&flow->value, old, busy) != old)
		return false;
	FT(flow_key_set)(&flow->key, key);
	WRITE_ONCE(flow->meta.last, meta->last);
	WRITE_ONCE(flow->meta.epoch, meta->epoch);
	WRITE_ONCE(flow->meta.zone, meta->zone);
	barrier();
	WRITE_ONCE(flow->value, value);
	return true;
}

/* The place for a flow that has no entry: the first unused one, else that of
 * the longest silent unconfirmed flow. No live confirmed flow is displaced.
 * Returns way * BUCKET_FLOWS + flow, with FLOW_DISPLACES where it is not
 * unused, or FLOW_NO_ROOM.
 */
__noinline int FT(flow_choose)(__u64 hash, __u32 now)
{
	__u32 best = FLOW_NO_ROOM, best_age = 0;

	for (__u32 i = 0; i < FLOW_WAYS * BUCKET_FLOWS; i++) {
		struct FT(bucket) *bucket = FT(flow_bucket)(hash, i / BUCKET_FLOWS);
		struct FT(flow) *flow;
		__u32 age;
		enum flow_rank rank;

		if (!bucket)
			return FLOW_NO_ROOM;
		pin(bucket);
		flow = &bucket->flow[i % BUCKET_FLOWS];
		rank = FT(flow_rank)(flow, now);
		if (rank == FLOW_RANK_FREE)
			return i;
		age = now - READ_ONCE(flow->meta.last);
		if (rank == FLOW_RANK_PROBATION && age >= best_age) {
			best = i | FLOW_DISPLACES;
			best_age = age;
		}
	}
	return best;
}

/* Gives a flow that has no entry a probationary one. Returns
 * FLOW_EVENT_MAX when nothing but the entry came of it.
 */
__noinline enum flow_event FT(flow_insert)(const struct FT(flow_key) *key, __u64 hash, __u64 value,
					   const struct flow_meta *meta)
{
	__u32 place, place_way;
	struct FT(bucket) *bucket;
	struct FT(flow) *flow;
	__u64 old;

	if (!key || !meta)
		return FLOW_EVENT_CONTENDED;
	place = FT(flow_choose)(hash, meta->last);
	if (place == FLOW_NO_ROOM)
		return FLOW_EVENT_NO_ROOM;
	place_way = (place & ~FLOW_DISPLACES) / BUCKET_FLOWS;
	for (__u32 way = 0; way < FLOW_WAYS - 1 && way < place_way; way++) {
		bucket = FT(flow_bucket)(hash, way);
		if (bucket && !READ_ONCE(bucket->flow[0].meta.spill))
			WRITE_ONCE(bucket->flow[0].meta.spill, 1);
	}
	bucket = FT(flow_bucket)(hash, place_way);
	if (!bucket)
		return FLOW_EVENT_CONTENDED;
	pin(bucket);
	flow = &bucket->flow[place % BUCKET_FLOWS];
	old = READ_ONCE(flow->value);
	if ((place & FLOW_DISPLACES) && flow_state(old) != FLOW_STATE_PROBATION)
		return FLOW_EVENT_CONTENDED;
	if (!FT(flow_write)(flow, key, old, value, meta))
		return FLOW_EVENT_CONTENDED;
	return place & FLOW_DISPLACES ? FLOW_EVENT_PROBATION_DISPLACED : FLOW_EVENT_MAX;
}
