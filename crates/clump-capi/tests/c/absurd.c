/* Invalid lengths, counts and numbers: each is an error, or a message returned to sender. */
#include "expect.h"

enum { TAG = 0xab, TAKE = 1, ANSWERS = 2 };

static const uint64_t LENGTHS[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, (uint64_t)1 << 62, (uint64_t)1 << 40};
static int backs, answered;

#define REFUSED(call)                                                                                        \
    do {                                                                                                     \
        clump_error_clear();                                                                                 \
        EXPECT((call) < 0 && clump_error_text()[0] != '\0');                                                 \
    } while (0)
#define REFUSED_NULL(call)                                                                                   \
    do {                                                                                                     \
        clump_error_clear();                                                                                 \
        EXPECT((call) == NULL && clump_error_text()[0] != '\0');                                             \
    } while (0)

static void take(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)n, (void)d, (void)len;
    EXPECT(!"a message of an absurd length has arrived");
}

static void back(const clump_returned *message) {
    EXPECT(message->reason == CLUMP_RETURNED_BAD_LENGTH || message->reason == CLUMP_RETURNED_BAD_OFFSET);
    backs++;
}

/* Words and payloads of replies and of deferred requests. */
static void answers(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    char some[8] = "";
    (void)a, (void)n, (void)d, (void)len;
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        REFUSED(clump_reply_bulk_words(t, TAKE, some, LENGTHS[i], NULL, 0));
        REFUSED(clump_defer_bulk_words(t, 0, TAKE, some, LENGTHS[i], NULL, 0));
    }
    REFUSED(clump_reply_words(t, TAKE, NULL, 9));
    REFUSED(clump_reply_words(t, TAKE, NULL, -1));
    REFUSED(clump_reply_bulk_words(t, TAKE, NULL, 8, NULL, 0));
    REFUSED(clump_reply_long_words(t, TAKE, 0, some, (size_t)1 << 62, NULL, 0));
    answered = 1;
}

static void messages(clump_t *cl) {
    char some[8] = "";
    clump_ep *ep = clump_ep_open(cl, TAG);
    clump_name names[64];
    int n = clump_nranks(cl), me = clump_rank(cl);
    OK(clump_ep_handler(ep, TAKE, take));
    OK(clump_ep_handler(ep, ANSWERS, answers));
    OK(clump_ep_on_returned(ep, back, NULL));
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    for (int to = 0; to < n; to++) {
        int dest = clump_ep_map(ep, names[to], TAG), nobody = clump_ep_map(ep, names[to], TAG + 1);
        for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
            REFUSED(clump_request_bulk_words(ep, dest, TAKE, some, LENGTHS[i], NULL, 0));
            REFUSED(clump_request_bulk_words(ep, nobody, TAKE, some, LENGTHS[i], NULL, 0));
            REFUSED(clump_try_request_bulk_words(ep, dest, TAKE, some, LENGTHS[i], NULL, 0));
            if (LENGTHS[i] > SIZE_MAX / 2) {
                REFUSED(clump_request_long_words(ep, dest, TAKE, 0, some, LENGTHS[i], NULL, 0));
                continue;
            }
            int before = backs;
            OK(clump_request_long_words(ep, dest, TAKE, 0, some, LENGTHS[i], NULL, 0));
            while (backs == before) OK(clump_poll(ep));
        }
        REFUSED(clump_request_bulk_words(ep, dest, TAKE, NULL, 8, NULL, 0));
        REFUSED(clump_request_words(ep, dest, TAKE, NULL, 1));
        REFUSED(clump_request_words(ep, dest, TAKE, LENGTHS, -1));
        REFUSED(clump_request_words(ep, dest, TAKE, LENGTHS, 9));
        REFUSED(clump_request_words(ep, dest, TAKE, LENGTHS, INT32_MAX));
        REFUSED(clump_request_words(ep, dest, 256, LENGTHS, 1));
        REFUSED(clump_request_words(ep, dest, INT32_MIN, LENGTHS, 1));
    }
    REFUSED(clump_request_words(ep, -1, TAKE, LENGTHS, 1));
    REFUSED(clump_request_words(ep, INT32_MAX, TAKE, LENGTHS, 1));
    REFUSED(clump_ep_unmap(ep, INT32_MAX));
    OK(clump_request(ep, clump_ep_map(ep, names[me], TAG), ANSWERS));
    while (!answered) OK(clump_poll(ep));
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) REFUSED(clump_ep_export(ep, LENGTHS[i], NULL));
    OK(clump_barrier(cl));
    OK(clump_ep_close(ep));
}

/* Collectives of a team take the way of those of the job; those in two phases begin by themselves. */
static void teams(clump_t *cl) {
    char some[64 * 8] = "", all[64 * 64] = "";
    clump_team *world = clump_team_world(cl);
    size_t counts[64] = {0}, got[64];
    EXPECT(world != NULL);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        REFUSED(clump_team_broadcast(world, 0, some, LENGTHS[i]));
        REFUSED_NULL(clump_team_broadcast_start(world, 0, some, LENGTHS[i]));
        REFUSED_NULL(clump_team_all_gather_start(world, some, LENGTHS[i], all));
        REFUSED_NULL(clump_team_all_reduce_start(world, some, some, LENGTHS[i], CLUMP_U8, CLUMP_MAX));
        REFUSED_NULL(clump_team_all_reduce_start(world, some, some, LENGTHS[i] / 8 + 1, CLUMP_U64, CLUMP_MAX));
        REFUSED_NULL(clump_team_all_to_all_start(world, some, all, LENGTHS[i]));
        counts[0] = LENGTHS[i];
        REFUSED(clump_team_all_to_all_v(world, some, counts, all, sizeof all, got));
        counts[clump_nranks(cl) - 1] += SIZE_MAX / 2;
        REFUSED(clump_team_all_to_all_v(world, some, counts, all, sizeof all, got));
    }
    OK(clump_team_barrier(world));
    OK(clump_team_free(world));
}

static void collectives(clump_t *cl) {
    char some[64 * 8] = "", all[64 * 64] = "";
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        REFUSED(clump_broadcast(cl, 0, some, LENGTHS[i]));
        REFUSED(clump_all_gather(cl, some, LENGTHS[i], all));
        REFUSED(clump_all_reduce(cl, some, some, LENGTHS[i], CLUMP_U8, CLUMP_MAX));
        REFUSED(clump_reduce(cl, 0, some, some, LENGTHS[i], CLUMP_U8, CLUMP_MAX));
        REFUSED(clump_scan(cl, some, some, LENGTHS[i], CLUMP_U8, CLUMP_MAX));
        REFUSED(clump_exclusive_scan(cl, some, some, LENGTHS[i], CLUMP_U8, CLUMP_MAX));
        REFUSED(clump_gather(cl, 0, some, LENGTHS[i], all));
        REFUSED(clump_all_to_all(cl, some, all, LENGTHS[i]));
        REFUSED(clump_all_reduce(cl, some, some, LENGTHS[i] / 8 + 1, CLUMP_U64, CLUMP_MAX));
    }
    REFUSED(clump_broadcast(cl, 0, NULL, 1));
    REFUSED(clump_broadcast(cl, INT32_MIN, some, 1));
    REFUSED(clump_gather(cl, INT32_MAX, some, 1, all));
    REFUSED(clump_scatter(cl, -1, some, all, 1));
    REFUSED(clump_scatter(cl, 0, some, NULL, 1));
    REFUSED(clump_reduce(cl, -1, some, some, 1, CLUMP_U8, CLUMP_MAX));
    REFUSED(clump_reduce(cl, 0, NULL, some, 1, CLUMP_U8, CLUMP_MAX));
    REFUSED(clump_all_to_all(cl, some, NULL, 1));
    REFUSED(clump_node_of(cl, INT32_MAX));
    /* They work as before. */
    OK(clump_broadcast(cl, 0, some, sizeof some));
}

static void one_sided(clump_t *cl) {
    char some[8] = "";
    clump_target *targets[64];
    clump_rma *rma = clump_rma_open(cl);
    int n = clump_nranks(cl);
    EXPECT(rma != NULL && clump_allocate(cl, rma, 64, targets) != NULL);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        uint64_t length = LENGTHS[i];
        REFUSED_NULL(clump_segment_export(rma, length, 0));
        REFUSED_NULL(clump_segment_export(rma, 8, length));
        REFUSED_NULL(clump_locks_export(rma, length));
        REFUSED_NULL(clump_flags_export(rma, length));
        for (int to = 0; to < n; to++) {
            REFUSED(clump_rma_get(targets[to], 0, some, length));
            REFUSED(clump_rma_put(targets[to], 0, some, length) < 0 ? -1 : clump_rma_quiet(rma));
            REFUSED(clump_rma_get(targets[to], length, some, 8));
            REFUSED(clump_rma_put_u64(targets[to], length & ~(uint64_t)7, 1) < 0 ? -1 : clump_rma_quiet(rma));
        }
    }
    OK(clump_barrier(cl));
    OK(clump_rma_close(rma));
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL && clump_nranks(cl) <= 64);
    messages(cl);
    collectives(cl);
    teams(cl);
    one_sided(cl);
    OK(clump_barrier(cl));
    int me = clump_rank(cl);
    OK(clump_finalize(cl));
    printf("rank %d: refusals are right\n", me);
    return 0;
}
