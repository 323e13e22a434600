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

static __always_inline struct FT(bucket) *FT(flow_bucket)(__u64 hash, __u32 way)
{
	__u32 index = bucket_of(hash, way);

	return bpf_map_lookup_elem(&FT(l4lb_flows), &index);
}

static __always_inline bool FT(flow_spilled)(struct FT(bucket) *bucket, __u32 now)
{
	return spill_counts(READ_ONCE(bucket->flow[0].meta.spill), now);
}

/* Where the entry with this key is, whatever its state: way * BUCKET_FLOWS + flow,
 * or FLOW_NOWHERE.
 */
__noinline __u32 FT(flow_search)(const struct FT(flow_key) *key, __u64 hash)
{
	if (!key)
		return FLOW_NOWHERE;
	for (__u32 way = 0; way < FLOW_WAYS; way++) {
		struct FT(bucket) *bucket = FT(flow_bucket)(hash, way);

		if (!bucket)
			return FLOW_NOWHERE;
#pragma unroll
		for (__u32 i = 0; i < BUCKET_FLOWS; i++)
			if (FT(flow_key_eq)(&bucket->flow[i].key, key))
				return way * BUCKET_FLOWS + i;
		if (!FT(flow_spilled)(bucket, clock_ticks()))
			return FLOW_NOWHERE;
	}
	return FLOW_NOWHERE;
}

/* The place-th place of those that a flow may be in. */
static __always_inline struct FT(flow) *FT(flow_at)(__u64 hash, __u32 place)
{
	struct FT(bucket) *bucket;

	if (place >= FLOW_PLACES)
		return NULL;
	bucket = FT(flow_bucket)(hash, place / BUCKET_FLOWS);
	if (!bucket)
		return NULL;
	pin(bucket);
	return &bucket->flow[place % BUCKET_FLOWS];
}

static __always_inline struct FT(flow) *FT(flow_lookup)(const struct FT(flow_key) *key, __u64 hash)
{
	return FT(flow_at)(hash, FT(flow_search)(key, hash));
}

/* The entry that has this key, for the hot path: the far part of the table, where
 * few flows are, is left out. *aside says whether the entry may be there.
 */
static __always_inline struct FT(flow) *FT(flow_find)(const struct FT(flow_key) *key, __u64 hash,
						      bool *aside)
{
#pragma unroll
	for (int way = 0; way < FLOW_WAY_FAR; way++) {
		struct FT(bucket) *bucket = FT(flow_bucket)(hash, way);

		if (!bucket)
			return NULL;
#pragma unroll
		for (int i = 0; i < BUCKET_FLOWS; i++) {
			struct FT(flow) *flow = &bucket->flow[i];

			if (FT(flow_key_eq)(&flow->key, key))
				return flow;
		}
		if (!FT(flow_spilled)(bucket, clock_ticks()))
			return NULL;
	}
	*aside = true;
	return NULL;
}

/* Says that a flow which is seen now is past the way-th bucket. */
static __always_inline void FT(flow_mark)(__u64 hash, __u32 way, __u32 now)
{
	struct FT(bucket) *bucket = FT(flow_bucket)(hash, way);

	if (bucket && READ_ONCE(bucket->flow[0].meta.spill) != spill_mark(now))
		WRITE_ONCE(bucket->flow[0].meta.spill, spill_mark(now));
}

/* Says so of the buckets before that of the flow's place. */
static __always_inline void FT(flow_mark_before)(__u64 hash, __u32 place, __u32 now)
{
	for (__u32 way = 0; way < FLOW_WAYS - 1 && way < place / BUCKET_FLOWS; way++)
		FT(flow_mark)(hash, way, now);
}

/* The entry that has this key, to be followed by a packet: the marks that lead to
 * it are renewed.
 */
static __always_inline struct FT(flow) *FT(flow_seek)(const struct FT(flow_key) *key, __u64 hash,
						      __u32 now)
{
	__u32 place = FT(flow_search)(key, hash);

	if (place < FLOW_PLACES)
		FT(flow_mark_before)(hash, place, now);
	return FT(flow_at)(hash, place);
}

/* How willingly a flow that was read as value gives its place to another one. A
 * global function, as those below: each is verified once, on its own.
 */
__noinline enum flow_rank FT(flow_rank)(const struct FT(flow) *flow, __u64 value, __u32 now)
{
	if (!flow || flow_state(value) == FLOW_STATE_BUSY)
		return FLOW_RANK_HELD;
	if (!flow_is_live(value, &flow->meta, &flow->key.tail, now))
		return FLOW_RANK_FREE;
	if (flow_state(value) == FLOW_STATE_PROBATION)
		return FLOW_RANK_PROBATION;
	return FLOW_RANK_HELD;
}

/* Claims flow, which held old, and writes key and entry into it. */
static __always_inline bool FT(flow_write)(struct FT(flow) *flow, const struct FT(flow_key) *key,
					   __u64 old, const struct flow_entry *entry)
{
	__u64 busy = (__u64)FLOW_STATE_BUSY << MEMBER_BITS, value = entry->value;

	if (__sync_val_compare_and_swap(&flow->value, old, busy) != old)
		return false;
	FT(flow_key_set)(&flow->key, key);
	WRITE_ONCE(flow->meta.last, entry->meta.last);
	WRITE_ONCE(flow->meta.epoch, entry->meta.epoch);
	WRITE_ONCE(flow->meta.zone, entry->meta.zone);
	barrier();
	WRITE_ONCE(flow->value, value);
	return true;
}

/* Takes a mark back that no longer counts, by compare-and-swap: it may have been
 * renewed meanwhile.
 */
static __always_inline void FT(flow_unmark)(struct FT(bucket) *bucket, __u32 now)
{
	struct flow_meta *meta = &bucket->flow[0].meta;
	union {
		__u32 word;
		struct {
			__u16 epoch;
			__u8 zone, spill;
		};
	} old = {.word = READ_ONCE(*(__u32 *)&meta->epoch)}, bare = old;

	if (!old.spill || spill_counts(old.spill, now))
		return;
	bare.spill = 0;
	__sync_val_compare_and_swap((__u32 *)&meta->epoch, old.word, bare.word);
}

/* Looks in the way-th bucket of a flow for a better place than the best that is
 * known: the first unused one, else that of the longest silent unconfirmed flow.
 */
__noinline int FT(flow_weigh)(const struct FT(bucket) *bucket, struct flow_best *best, __u32 way,
			      __u32 now)
{
	if (!bucket || !best)
		return 0;
	for (__u32 i = 0; i < BUCKET_FLOWS; i++) {
		const struct FT(flow) *flow = &bucket->flow[i];
		__u64 value = READ_ONCE(flow->value), score = FLOW_SCORE(FLOW_RANK_FREE, 0);

		if (value)
			score = FLOW_SCORE(FT(flow_rank)(flow, value, now),
					   now - READ_ONCE(flow->meta.last));
		if (score > best->score) {
			best->score = score;
			best->value = value;
			best->place = way * BUCKET_FLOWS + i;
			if (score >= FLOW_SCORE(FLOW_RANK_FREE, 0))
				return 0;
		}
	}
	return 0;
}

/* The best place for a flow that has no entry; no live confirmed flow is
 * displaced. Marks that no longer count are taken back on the way.
 */
static __always_inline void FT(flow_choose)(__u64 hash, struct flow_best *best, __u32 now)
{
	best->score = FLOW_SCORE(FLOW_RANK_PROBATION, 0) - 1;
	best->place = FLOW_NOWHERE;
	for (__u32 way = 0; way < FLOW_WAYS; way++) {
		struct FT(bucket) *bucket = FT(flow_bucket)(hash, way);

		if (!bucket)
			return;
		FT(flow_unmark)(bucket, now);
		FT(flow_weigh)(bucket, best, way, now);
		if (best->score >= FLOW_SCORE(FLOW_RANK_FREE, 0))
			return;
	}
}

/* Gives a flow its entry, the one that it has or a new one. place is what
 * flow_search found. A confirmed flow stays confirmed. Returns FLOW_EVENT_MAX when
 * nothing but the entry came of it.
 */
__noinline enum flow_event FT(flow_put)(const struct FT(flow_key) *key, __u64 hash, __u32 place,
					struct flow_entry *entry)
{
	struct flow_best best = {.place = place};
	struct FT(flow) *flow;

	if (!key || !entry)
		return FLOW_EVENT_CONTENDED;
	flow = FT(flow_at)(hash, best.place);
	if (flow) {
		best.score = FLOW_SCORE(FLOW_RANK_FREE, 0);
		best.value = READ_ONCE(flow->value);
		if (flow_state(best.value) == FLOW_STATE_BUSY)
			return FLOW_EVENT_CONTENDED;
		if (flow_state(best.value) == FLOW_STATE_CONFIRMED &&
		    FT(flow_rank)(flow, best.value, entry->meta.last) == FLOW_RANK_HELD)
			entry->value ^= FLOW_CONFIRM;
	} else {
		FT(flow_choose)(hash, &best, entry->meta.last);
		flow = FT(flow_at)(hash, best.place);
		if (!flow)
			return FLOW_EVENT_NO_ROOM;
	}
	FT(flow_mark_before)(hash, best.place, entry->meta.last);
	if (!FT(flow_write)(flow, key, best.value, entry))
		return FLOW_EVENT_CONTENDED;
	return best.score < FLOW_SCORE(FLOW_RANK_FREE, 0) ? FLOW_EVENT_PROBATION_DISPLACED
							  : FLOW_EVENT_MAX;
}
