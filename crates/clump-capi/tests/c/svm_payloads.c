/* Payloads in pages of shared virtual memory that this rank has no right on, at home on the other
 * node: clump's own copies from them and into them take the faults, with its locks held.
 * `svm_payloads ROUNDS`; rank 0 prints the number of faults of all ranks. */
#include "expect.h"
#include <clump/svm.h>

#define TAG 0x5eed
#define RANKS 4
enum { BULK = 1, LONG, RIGHT, ANSWER };

/* Bytes of payloads; they begin 50 bytes before the end of a page. */
static const size_t sizes[] = {100, 5000, 70000};
#define SIZES (sizeof sizes / sizeof *sizes)
/* Operations of a rank in a round, each with a place of its own in its parts: from the end, and with
 * a gap behind it, so that no fault reads ahead of a later one. */
#define PLACES 32
#define PLACE ((size_t)64 << 12)
/* Bytes of a place that are used at most: by collectives of 20,000 bytes, and one more. */
#define USED (RANKS * 20000 + 1)
#define PART (PLACES * PLACE)

static clump_t *cl;
static clump_ep *ep;
static clump_rma *rma;
static clump_target *targets[RANKS];
static int dests[RANKS];
static int me, ranks, other;
/* Where each rank reads and writes; the other node is their home. */
static unsigned char *from[RANKS], *to[RANKS];
static int next_place, answers, rightly;
static uint64_t seed;

static unsigned char pattern(uint64_t of, size_t at) { return (unsigned char)(at * 31 + (at >> 8) * 7 + of * 13); }

static int is_pattern(const void *data, uint64_t of, size_t len) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t at = 0; at < len; at++)
        if (bytes[at] != pattern(of, at)) return 0;
    return 1;
}

/* The seed of a rank's place. */
static uint64_t of_place(int rank, int place) { return seed * 1000 + (uint64_t)(rank * PLACES + place); }
static size_t offset(int place) { return (size_t)(PLACES - 1 - place) * PLACE + 4096 - 50; }

static uint64_t faults(void) {
    svm_breakdown times;
    OK(svm_times(cl, &times));
    return times.faults;
}

/* Makes a call that has to take faults. */
#define FAULTING(call)                                                                                       \
    do {                                                                                                     \
        const uint64_t before_ = faults();                                                                   \
        OK(call);                                                                                            \
        if (faults() == before_) {                                                                           \
            fprintf(stderr, "%s:%d: no fault in %s\n", __FILE__, __LINE__, #call);                           \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Answers from a page of this rank's own that it has no right on. The last places are for that. */
static void answer(clump_token *t, int asker) {
    const int place = PLACES - 1 - asker;
    FAULTING(clump_reply_bulk(t, ANSWER, from[me] + offset(place), 5000, of_place(me, place)));
}
static void bulk(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    EXPECT(n == 3 && a[1] == len && is_pattern(d, a[0], len));
    if (len == 5000) answer(t, (int)a[2]);
    else OK(clump_reply(t, RIGHT));
}
static void deposited(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    EXPECT(n == 2 && a[1] == len && is_pattern(d, a[0], len));
    OK(clump_reply(t, RIGHT));
}
static void right(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)d;
    EXPECT(n == 0 && len == 0);
    rightly++;
}
static void answered(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t;
    EXPECT(n == 1 && len == 5000 && is_pattern(d, a[0], len));
    answers++;
}
static int all_answered(void *wanted) { return answers + rightly == *(int *)wanted; }

static int take_place(void) {
    EXPECT(next_place < PLACES - RANKS);
    return next_place++;
}

static void messages(int rank) {
    int wanted = answers + rightly;
    for (size_t s = 0; s < SIZES; s++) {
        int place = take_place();
        const size_t len = sizes[s] < clump_max_medium(ep) ? sizes[s] : clump_max_medium(ep);
        uint64_t of = of_place(me, place);
        FAULTING(clump_request_bulk(ep, dests[rank], BULK, from[me] + offset(place), len, of, len, me));
        place = take_place();
        of = of_place(me, place);
        FAULTING(clump_request_long(ep, dests[rank], LONG, (uint64_t)me << 20 | s << 18, from[me] + offset(place),
                                    sizes[s], of, sizes[s]));
        wanted += 2;
        OK(clump_poll_until(ep, all_answered, &wanted));
    }
}

/* What is got at a place is what was put from there. */
static void one_sided(int rank) {
    for (size_t s = 0; s < SIZES; s++) {
        const int place = take_place();
        const uint64_t at = ((uint64_t)me << 20 | s << 18) + 50;
        FAULTING(clump_rma_put(targets[rank], at, from[me] + offset(place), sizes[s]));
        OK(clump_rma_quiet(rma));
        if (s % 2 == 0) {
            FAULTING(clump_rma_get(targets[rank], at, to[me] + offset(place), sizes[s]));
        } else {
            const uint64_t before = faults();
            OK(clump_rma_get_start(targets[rank], at, to[me] + offset(place), sizes[s]));
            OK(clump_rma_sync(rma));
            EXPECT(faults() > before);
        }
    }
}

/* What each rank gets of another is what that gave at the place. */
static void collective(size_t len) {
    int place = take_place();
    FAULTING(clump_all_gather(cl, from[me] + offset(place), len, to[me] + offset(place)));
    for (int rank = 0; rank < ranks; rank++)
        EXPECT(is_pattern(to[me] + offset(place) + (size_t)rank * len, of_place(rank, place), len));
    place = take_place();
    FAULTING(clump_broadcast(cl, 1, me == 1 ? from[me] + offset(place) : to[me] + offset(place), len));
    EXPECT(is_pattern(me == 1 ? from[me] + offset(place) : to[me] + offset(place), of_place(1, place), len));
    place = take_place();
    FAULTING(clump_gather(cl, 0, from[me] + offset(place), len, to[me] + offset(place)));
    for (int rank = 0; me == 0 && rank < ranks; rank++)
        EXPECT(is_pattern(to[me] + offset(place) + (size_t)rank * len, of_place(rank, place), len));
    place = take_place();
    FAULTING(clump_scatter(cl, 0, from[me] + offset(place), to[me] + offset(place), len));
    for (size_t at = 0; at < len; at++)
        EXPECT(to[me][offset(place) + at] == pattern(of_place(0, place), (size_t)me * len + at));
    place = take_place();
    FAULTING(clump_all_to_all(cl, from[me] + offset(place), to[me] + offset(place), len));
    for (int rank = 0; rank < ranks; rank++)
        for (size_t at = 0; at < len; at++)
            EXPECT(to[me][offset(place) + (size_t)rank * len + at] ==
                   pattern(of_place(rank, place), (size_t)me * len + at));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    OK(svm_open(cl, 0));
    const uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2;
    me = clump_rank(cl), ranks = clump_nranks(cl), other = (me + ranks / 2) % ranks;
    EXPECT(ranks <= RANKS && clump_nnodes(cl) == 2 && clump_node_of(cl, me) != clump_node_of(cl, other));
    rma = clump_rma_open(cl), ep = clump_ep_open(cl, TAG);
    EXPECT(rma != NULL && ep != NULL);
    OK(clump_ep_handler(ep, BULK, bulk));
    OK(clump_ep_handler(ep, LONG, deposited));
    OK(clump_ep_handler(ep, RIGHT, right));
    OK(clump_ep_handler(ep, ANSWER, answered));
    void *base;
    OK(clump_ep_export(ep, RANKS << 20, &base));
    clump_segment *mine = clump_allocate(cl, rma, RANKS << 20, targets);
    EXPECT(mine != NULL);
    clump_name names[RANKS];
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    for (int rank = 0; rank < ranks; rank++) {
        OK(dests[rank] = clump_ep_map(ep, names[rank], TAG));
        const int home = 1 - clump_node_of(cl, rank);
        from[rank] = svm_alloc_all(cl, PART, SVM_HOME_NODE(home));
        to[rank] = svm_alloc_all(cl, PART, SVM_HOME_NODE(home));
        EXPECT(from[rank] != NULL && to[rank] != NULL);
    }
    for (seed = 1; seed <= rounds; seed++) {
        /* The rank at their home writes the pages, so that no other has a right on them. */
        for (int place = 0; place < PLACES; place++)
            for (size_t at = 0; at < USED; at++) {
                from[other][offset(place) + at] = pattern(of_place(other, place), at);
                to[other][offset(place) + at] = (unsigned char)seed;
            }
        OK(svm_barrier(cl));
        next_place = 0;
        messages(other);
        messages(me ^ 1);
        const int first = next_place;
        one_sided(other);
        one_sided(me ^ 1);
        const int last = next_place;
        collective(100);
        collective(20000);
        OK(svm_barrier(cl));
        for (int place = first; place < last; place++) {
            const size_t len = sizes[(size_t)(place - first) % SIZES];
            EXPECT(is_pattern(to[other] + offset(place), of_place(other, place), len));
            EXPECT(to[other][offset(place) + len] == (unsigned char)seed);
        }
        OK(svm_barrier(cl));
    }
    uint64_t all_faults[RANKS], sum = 0;
    OK(clump_all_gather_u64(cl, faults(), all_faults));
    for (int rank = 0; rank < ranks; rank++) sum += all_faults[rank];
    if (me == 0) printf("rank 0: payloads in shared memory are right\nrank 0: faults: %llu\n", (unsigned long long)sum);
    OK(clump_finalize(cl));
    return 0;
}
