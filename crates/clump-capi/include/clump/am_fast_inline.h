/* Polling, and sending a short message to a rank of the same node, without a call in the fast path.
 * Part of <clump/am.h>. Written by hand.
 *
 * Both do what the library's functions of the same names do in their best cases
 * (crates/clump-shm/src/lane.rs, crates/clump-am/src/dispatch.rs), and call them in all others:
 * another thread, a handler of the endpoint, a lane without space, a target that is closed or has
 * another tag, a message to handle. The layouts are part of CLUMP_ABI.
 */
#ifndef CLUMP_AM_FAST_INLINE_H
#define CLUMP_AM_FAST_INLINE_H

#if defined(__cplusplus) && defined(__GNUC__)
/* C++ programs may ask for warnings about casts of C. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* A slot of a lane: one cache line. The header publishes it: 16 bits lap, 4 kind (1: words only), 4
 * number of words, 8 handler; behind it up to seven words. */
typedef struct clump_layout_lane_slot {
    uint64_t header;
    uint64_t words[7];
} clump_layout_lane_slot;

/* The position of a sender in a lane. */
typedef struct clump_layout_cursor {
    /* Messages sent, and the limit up to which they may be sent before the library has to read the
     * receiver's position. */
    uint64_t tail, limit;
    /* The slot of the next message, and the lap that publishes it. */
    uint64_t at, lap;
    /* Words of the messages. */
    uint64_t words;
} clump_layout_cursor;

/* The route to a destination; without a cursor there is none for inline functions. */
typedef struct clump_layout_way {
    clump_layout_cursor *cursor;
    clump_layout_lane_slot *slots;
    uint64_t len;
    /* 0 while the receiver does not poll this lane, and needs the doorbell. */
    const uint32_t *hot;
    /* Values that these words must have for the target to take messages of this sender. */
    const uint64_t *state;
    uint64_t state_wanted;
    const uint64_t *tag;
    uint64_t tag_wanted;
    unsigned char *unchecked;
} clump_layout_way;

/* A lane that is polled for messages; the next begins `stride` bytes behind it. */
typedef struct clump_layout_lane {
    const clump_layout_lane_slot *slots;
    unsigned char unused_[24];
    uint64_t at, awaited;
} clump_layout_lane;

typedef struct clump_layout_lanes {
    const clump_layout_lane *first;
    uint64_t count;
} clump_layout_lanes;

/* The state that a poll reads. */
typedef struct clump_layout_view {
    const uint64_t *bell;
    const clump_layout_lanes *hot;
    const unsigned char *pending;
    const unsigned char *busy;
    /* Polls so far; and the number of the next one that has more to do. */
    uint32_t *pulse;
    /* Counters: short requests, and their bytes. */
    uint64_t *sent[2];
} clump_layout_view;

/* The beginning of an endpoint; crates/clump-ffi/src/slot.rs and inline.rs assert the same. */
typedef struct clump_layout_ep {
    uint64_t near_end_;
    unsigned char *near_base_;
    void *context;
    unsigned char unused_[40];
    /* The thread that may use the following fields now: its thread pointer. */
    uintptr_t thread;
    const clump_layout_view *view;
    const clump_layout_way *ways;
    uint64_t ways_count, lane_stride;
} clump_layout_ep;

#ifdef __cplusplus
#define CLUMP_ASSERT_LAYOUT_(condition) static_assert(condition, "the layout that the library has")
#else
#define CLUMP_ASSERT_LAYOUT_(condition) __extension__ _Static_assert(condition, "the layout that the library has")
#endif
CLUMP_ASSERT_LAYOUT_(sizeof(clump_layout_lane_slot) == 64 && sizeof(clump_layout_cursor) == 40);
CLUMP_ASSERT_LAYOUT_(offsetof(clump_layout_cursor, at) == 16 && offsetof(clump_layout_cursor, lap) == 24);
CLUMP_ASSERT_LAYOUT_(sizeof(clump_layout_way) == 72 && offsetof(clump_layout_way, state_wanted) == 40);
CLUMP_ASSERT_LAYOUT_(offsetof(clump_layout_lane, at) == 32 && offsetof(clump_layout_lane, awaited) == 40);
CLUMP_ASSERT_LAYOUT_(offsetof(clump_layout_view, pulse) == 32 && offsetof(clump_layout_view, sent) == 40);
CLUMP_ASSERT_LAYOUT_(offsetof(clump_layout_ep, context) == 16 && offsetof(clump_layout_ep, thread) == 64);
CLUMP_ASSERT_LAYOUT_(offsetof(clump_layout_ep, ways) == 80 && offsetof(clump_layout_ep, lane_stride) == 96);
#undef CLUMP_ASSERT_LAYOUT_

/* Returns the thread pointer of this thread; one that no thread has, on architectures where it is
 * unknown how to get it. */
static __inline__ uintptr_t clump_thread_pointer_(void) {
#if defined(__x86_64__) && defined(__LP64__)
    uintptr_t at;
    __asm__("mov %%fs:0, %0" : "=r"(at));
    return at;
#else
    return ~(uintptr_t)0;
#endif
}

/* Returns the endpoint, if inline functions of this thread may use it now; else null. */
static __inline__ const clump_layout_ep *clump_ep_here_(const clump_ep *ep) {
    const clump_layout_ep *at = (const clump_layout_ep *)(const void *)ep;
    if (__builtin_expect(at == NULL || __atomic_load_n(&at->thread, __ATOMIC_RELAXED) != clump_thread_pointer_(), 0))
        return NULL;
    return at;
}

/* Returns 1 if a poll would find nothing; counts it as a poll then. */
static __inline__ int clump_poll_in_vain_(const clump_layout_ep *at) {
    const clump_layout_view *view = at->view;
    const clump_layout_lanes *hot = view->hot;
    const unsigned char *lane = (const unsigned char *)hot->first;
    uint64_t left;
    uint32_t now;
    for (left = hot->count; left != 0; left--, lane += at->lane_stride) {
        const clump_layout_lane *it = (const clump_layout_lane *)(const void *)lane;
        if ((__atomic_load_n(&it->slots[it->at].header, __ATOMIC_RELAXED) & 0xffff) == it->awaited) return 0;
    }
    now = view->pulse[0] + 1;
    if (__builtin_expect(__atomic_load_n(view->bell, __ATOMIC_RELAXED) != 0 || view->pending[0] != 0 ||
                             view->pending[1] != 0 || *view->busy != 0 || (int32_t)(view->pulse[1] - now) <= 0,
                         0))
        return 0;
    view->pulse[0] = now;
    return 1;
}

/* Writes a message into the lane of its target. Returns 0 if that takes a call; 2 if the target
 * needs the doorbell. */
static __inline__ int clump_push_(const clump_layout_ep *at, int dest, int handler, const uint64_t *words, int count) {
    const clump_layout_way *way;
    clump_layout_cursor *cursor;
    clump_layout_lane_slot *slot;
    uint64_t header;
    uint64_t *const *sent;
    int i, looks;
    if ((uint64_t)(uint32_t)dest >= at->ways_count || (uint32_t)handler - 1 >= 255 || (uint32_t)count > 7) return 0;
    way = &at->ways[(uint32_t)dest];
    cursor = way->cursor;
    if (cursor == NULL || __atomic_load_n(way->state, __ATOMIC_ACQUIRE) != way->state_wanted ||
        __atomic_load_n(way->tag, __ATOMIC_RELAXED) != way->tag_wanted || cursor->tail >= cursor->limit)
        return 0;
    slot = &way->slots[cursor->at];
    header = cursor->lap | 1u << 16 | (uint64_t)(uint32_t)count << 20 | (uint64_t)(uint32_t)handler << 24;
    cursor->tail++;
    cursor->words += (uint64_t)(uint32_t)count;
    if (++cursor->at == way->len) {
        cursor->at = 0;
        cursor->lap = (cursor->lap + 1) & 0xffff;
    }
    for (i = 0; i < count; i++) __atomic_store_n(&slot->words[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&slot->header, header, __ATOMIC_RELEASE);
    /* The other half of this fence is the receiver's, which executes it on all processors before it
     * sleeps. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    looks = __atomic_load_n(way->hot, __ATOMIC_RELAXED) != 0;
    *way->unchecked = 1;
    sent = at->view->sent;
    __atomic_store_n(sent[0], __atomic_load_n(sent[0], __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_store_n(sent[1], __atomic_load_n(sent[1], __ATOMIC_RELAXED) + (uint64_t)(uint32_t)count * 8,
                     __ATOMIC_RELAXED);
    return looks ? 1 : 2;
}

/* As clump_poll, with half its instructions when there is nothing: for programs that poll now and
 * then while they compute. A loop that only polls should use clump_poll: the tighter the loop, the
 * more often it takes the cache line of the next message from its sender, so that such a loop finds
 * the message later. */
static __inline__ int clump_poll_inline(clump_ep *ep) {
    const clump_layout_ep *at = clump_ep_here_(ep);
    if (__builtin_expect(at != NULL, 1) && clump_poll_in_vain_(at)) return 0;
    return clump_poll(ep);
}

/* As clump_request_words. */
static __inline__ int clump_request_inline(clump_ep *ep, int dest, int handler, const uint64_t *words, int count) {
    const clump_layout_ep *at = clump_ep_here_(ep);
    if (__builtin_expect(at != NULL, 1)) {
        const int pushed = clump_push_(at, dest, handler, words, count);
        if (__builtin_expect(pushed == 1, 1) && clump_poll_in_vain_(at)) return 0;
        if (pushed != 0) {
            const int polled = clump_request_pushed(ep, dest, pushed == 2, 1);
            return polled < 0 ? polled : 0;
        }
    }
    return clump_request_words(ep, dest, handler, words, count);
}

/* As clump_try_request_words. */
static __inline__ int clump_try_request_inline(clump_ep *ep, int dest, int handler, const uint64_t *words, int count) {
    const clump_layout_ep *at = clump_ep_here_(ep);
    if (__builtin_expect(at != NULL, 1)) {
        const int pushed = clump_push_(at, dest, handler, words, count);
        if (__builtin_expect(pushed == 1, 1)) return 1;
        if (pushed == 2) {
            const int rung = clump_request_pushed(ep, dest, 1, 0);
            return rung < 0 ? rung : 1;
        }
    }
    return clump_try_request_words(ep, dest, handler, words, count);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* CLUMP_AM_FAST_INLINE_H */
