/* Active messages of all kinds around a ring of ranks, and their misuse. */
#include "expect.h"

#define TAG 0x5eed
enum { PING = 1, PONG, BULK, DEPOSIT, LONG_REPLY, BULK_REPLY, RELAY, RELAYED, MISUSE, FAIL, BACK_REPLY, NINE };

static clump_ep *ep, *other;
static int next, self;
static uint64_t seen, came_back, back_words[8];
static clump_returned back;
static char back_payload[64];
static unsigned char *mine;
static clump_token *kept;

static void returned(const clump_returned *m);
static int is_seen(void *wanted) { return seen == *(uint64_t *)wanted; }
static int is_back(void *wanted) { return came_back == *(uint64_t *)wanted; }
static void await(int (*done)(void *), uint64_t value) { OK(clump_poll_until(ep, done, &value)); }

static void ping(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    EXPECT(d == NULL && len == 0 && clump_token_may_reply(t) == 1);
    uint64_t sum = 0, offset;
    for (int i = 0; i < n; i++) sum += a[i];
    EXPECT(clump_token_offset(t, &offset) == 0);
    OK(clump_reply(t, PONG, sum));
    EXPECT(clump_token_may_reply(t) == 0);
    FAILS(CLUMP_ERR_TOKEN, clump_reply(t, PONG, sum));
}
static void pong(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)d, (void)len;
    EXPECT(n == 1 && clump_token_may_reply(t) == 0);
    FAILS(CLUMP_ERR_TOKEN, clump_reply(t, PONG, 1));
    seen = a[0];
}
static void bulk(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    EXPECT(n == 2 && a[0] == len && a[1] == 77);
    for (size_t i = 0; i < len; i++) EXPECT(((const unsigned char *)d)[i] == (unsigned char)(i * 7));
    OK(clump_reply_bulk(t, BULK_REPLY, d, len, len));
}
static void bulk_reply(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    EXPECT(n == 1 && a[0] == len && clump_name_rank(clump_token_from(t)) >= 0);
    for (size_t i = 0; i < len; i++) EXPECT(((const unsigned char *)d)[i] == (unsigned char)(i * 7));
    seen = len + 1;
}
static void deposit(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    uint64_t offset = 0;
    EXPECT(n == 1 && a[0] == 5 && clump_token_offset(t, &offset) == 1 && offset == 4096);
    EXPECT(d == mine + offset && memcmp(d, "deposit", len) == 0);
    OK(clump_reply_long(t, LONG_REPLY, 100, "answer", 6, len));
}
static void long_reply(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t;
    EXPECT(n == 1 && a[0] == 7 && len == 6 && memcmp(d, "answer", 6) == 0 && memcmp(mine + 100, d, 6) == 0);
    seen = 1000;
}
/* Forwards a message with one more payload, after it has replied. */
static void relay(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)d, (void)len;
    EXPECT(n == 1);
    OK(clump_reply(t, PONG, a[0]));
    OK(clump_defer(t, self, RELAYED, a[0], 1));
    OK(clump_defer_bulk(t, self, RELAYED, "relayed", 7, a[0], 2));
    FAILS(CLUMP_ERR_DESTINATION, clump_defer(t, -1, RELAYED));
    FAILS(CLUMP_ERR_TOO_LONG, clump_defer(t, self, RELAYED, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}
static uint64_t relayed_sum;
static void relayed(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    EXPECT(n == 2 && clump_token_context(t) == &relayed_sum);
    if (a[1] == 2) EXPECT(len == 7 && memcmp(d, "relayed", 7) == 0);
    *(uint64_t *)clump_token_context(t) += a[1];
}
/* Makes all calls that are not allowed inside a handler. */
static void misuse(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)a, (void)n, (void)d, (void)len;
    FAILS(CLUMP_ERR_IN_HANDLER, clump_request(ep, next, PING, 1));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_try_request(ep, next, PING, 1));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_request_bulk(ep, next, PING, "", 0));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_request_long(ep, next, PING, 0, "", 0));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_poll(ep));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_poll_inline(ep));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_wait(ep));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_drain(ep));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_poll_until(ep, is_seen, &seen));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_ep_handler(ep, PING, ping));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_ep_map(ep, 1, 1));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_ep_unmap(ep, next));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_ep_set_tag(ep, 1));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_ep_on_returned(ep, returned, NULL));
    FAILS(CLUMP_ERR_BUSY, clump_ep_close(ep));
    kept = t;
    OK(clump_reply(t, PONG, 31));
}
static void fail(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)a, (void)d, (void)len;
    OK(clump_token_fail(t, n == 0 ? NULL : "it wanted to"));
}
static void back_reply(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)a, (void)n, (void)d, (void)len;
    OK(clump_reply(t, 200)); /* no endpoint has that handler */
}
static void nine(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)a, (void)d, (void)len;
    uint64_t all[9] = {0};
    EXPECT(n == 0);
    FAILS(CLUMP_ERR_TOO_LONG, clump_reply_words(t, PONG, all, 9));
    FAILS(CLUMP_ERR_ARGUMENT, clump_reply_words(t, PONG, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_reply_words(t, PONG, all, -1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_reply(t, 256));
    FAILS(CLUMP_ERR_ARGUMENT, clump_reply_bulk(t, PONG, NULL, 1));
    size_t most = clump_max_medium(other);
    char *huge = calloc(1, most + 1);
    FAILS(CLUMP_ERR_TOO_LONG, clump_reply_bulk(t, PONG, huge, most + 1));
    free(huge);
    OK(clump_reply(t, PONG, 99)); /* the right to reply is still there */
}
static void returned(const clump_returned *m) {
    EXPECT(m->context == &came_back && m->nwords <= 8 && m->payload_bytes <= sizeof back_payload);
    FAILS(CLUMP_ERR_IN_HANDLER, clump_poll(ep));
    back = *m;
    for (int i = 0; i < m->nwords; i++) back_words[i] = m->words[i];
    if (m->payload_bytes > 0) memcpy(back_payload, m->payload, m->payload_bytes);
    came_back++;
}

static void all_kinds(void) {
    for (uint64_t i = 1; i <= 200; i++) {
        OK(clump_request(ep, next, PING, i));
        if (i % 2) await(is_seen, i);
        while (seen != i) OK(clump_poll_inline(ep));
    }
    OK(clump_request(ep, next, PING));
    await(is_seen, 0);
    OK(clump_request(ep, next, PING, 1, 2, 3, 4, 5, 6, 7, 8));
    await(is_seen, 36);
    size_t most = clump_max_medium(ep);
    EXPECT(most >= 4096);
    unsigned char *page = malloc(most + 1);
    for (size_t i = 0; i <= most; i++) page[i] = (unsigned char)(i * 7);
    size_t sizes[] = {0, 1, 63, 64, 4096, most};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        OK(clump_request_bulk(ep, next, BULK, page, sizes[i], sizes[i], 77));
        await(is_seen, sizes[i] + 1);
    }
    FAILS(CLUMP_ERR_TOO_LONG, clump_request_bulk(ep, next, BULK, page, most + 1, 1, 77));
    free(page);
    OK(clump_request_long(ep, next, DEPOSIT, 4096, "deposit", 7, 5));
    await(is_seen, 1000);
    OK(clump_request(ep, next, RELAY, 11));
    await(is_seen, 11);
    OK(clump_request(ep, next, MISUSE));
    await(is_seen, 31);
    OK(clump_request(ep, next, NINE));
    await(is_seen, 99);
    int tries = 0;
    while (clump_try_request(ep, next, PING, 5) == 0) tries++;
    await(is_seen, 5);
    OK(clump_drain(ep));
}

static void what_comes_back(clump_name stranger) {
    OK(clump_request(ep, next, 99, 1, 2));
    await(is_back, 1);
    EXPECT(back.reason == CLUMP_RETURNED_BAD_HANDLER && back.handler == 99 && back.nwords == 2 && back_words[1] == 2);
    EXPECT(!back.is_reply && !back.is_long && strstr(clump_reason_text(back.reason), "handler"));
    OK(clump_request_bulk(ep, next, 99, "payload", 7));
    await(is_back, 2);
    EXPECT(back.reason == CLUMP_RETURNED_BAD_HANDLER && back.payload_bytes == 7 && !memcmp(back_payload, "payload", 7));
    OK(clump_request(ep, next, 0));
    await(is_back, 3);
    EXPECT(back.reason == CLUMP_RETURNED_BAD_ARGUMENTS);
    OK(clump_request_long(ep, next, DEPOSIT, 1 << 20, "x", 1));
    await(is_back, 4);
    EXPECT(back.is_long && back.offset == 1 << 20 && back.deposit_bytes == 1);
    EXPECT(back.reason == CLUMP_RETURNED_BAD_OFFSET || back.reason == CLUMP_RETURNED_BAD_LENGTH);
    int wrong = clump_ep_map(ep, stranger, TAG + 1), nobody = clump_ep_map_ordered(ep, 0, TAG);
    EXPECT(wrong >= 0 && nobody >= 0);
    OK(clump_request(ep, wrong, PING, 1));
    await(is_back, 5);
    EXPECT(back.reason == CLUMP_RETURNED_BAD_TAG && back.dest == stranger);
    OK(clump_request(ep, nobody, PING, 1));
    await(is_back, 6);
    EXPECT(back.reason == CLUMP_RETURNED_NO_ENDPOINT);
    OK(clump_ep_unmap(ep, nobody));
    FAILS(CLUMP_ERR_DESTINATION, clump_request(ep, nobody, PING, 1));
    FAILS(CLUMP_ERR_DESTINATION, clump_ep_unmap(ep, nobody));
    OK(clump_ep_unmap(ep, wrong));
    for (int i = 1; i <= 10; i++) EXPECT(clump_reason_text(i) != clump_reason_text(0));
}

static void wrong_arguments(clump_t *cl) {
    uint64_t w[9] = {0}, tag = 0;
    FAILS(CLUMP_ERR_TOO_LONG, clump_request(ep, next, PING, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request_words(ep, next, PING, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request_words(ep, next, PING, w, -1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request(ep, next, 256, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request(ep, next, -1, 1));
    FAILS(CLUMP_ERR_DESTINATION, clump_request(ep, -1, PING, 1));
    FAILS(CLUMP_ERR_DESTINATION, clump_request(ep, 1 << 20, PING, 1));
    FAILS(CLUMP_ERR_DESTINATION, clump_try_request(ep, 1 << 20, PING, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request_bulk(ep, next, BULK, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request_long(ep, next, BULK, 0, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request_bulk(ep, next, BULK, "", (size_t)-1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_handler(ep, 0, ping));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_handler(ep, 256, ping));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_handler(ep, 1, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_on_returned(ep, NULL, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_poll_until(ep, NULL, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_tag(ep, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_set_events(ep, 7));
    FAILS(CLUMP_ERR_BUSY, clump_ep_export(ep, 4096, NULL));
    FAILS(CLUMP_ERR_LIMIT, clump_ep_export(other, UINT64_MAX, NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_ep_open(NULL, TAG));
    NULLS(CLUMP_ERR_HANDLE, clump_ep_open((clump_t *)ep, TAG));
    FAILS(CLUMP_ERR_HANDLE, clump_poll((clump_ep *)cl));
    FAILS(CLUMP_ERR_ARGUMENT, clump_poll(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_poll_inline(NULL));
    FAILS(CLUMP_ERR_HANDLE, clump_poll_inline((clump_ep *)cl));
    FAILS(CLUMP_ERR_ARGUMENT, clump_request(NULL, 0, 1));
    EXPECT(clump_ep_name(NULL) == 0 && clump_max_medium(NULL) == 0 && clump_token_context(NULL) == NULL);
    FAILS(CLUMP_ERR_ARGUMENT, clump_reply(NULL, 1));
    FAILS(CLUMP_ERR_TOKEN, clump_reply(kept, 1));
    FAILS(CLUMP_ERR_TOKEN, clump_defer(kept, 0, 1));
    FAILS(CLUMP_ERR_TOKEN, clump_token_fail(kept, NULL));
    FAILS(CLUMP_ERR_TOKEN, clump_token_refuse(kept));
    FAILS(CLUMP_ERR_HANDLE, clump_reply((clump_token *)w, 1));
    OK(clump_ep_set_tag(other, 17));
    OK(clump_ep_tag(other, &tag));
    EXPECT(tag == 17);
    OK(clump_ep_set_events(ep, CLUMP_EVENTS_NONE));
    OK(clump_ep_set_events(ep, CLUMP_EVENTS_NOT_EMPTY));
    OK(clump_ep_close(NULL));
}

/* The maximum number of endpoints, then one more; closed ones are recognised. */
static void limits(clump_t *cl) {
    clump_ep *all[64];
    int count = 0;
    while (count < 64 && (all[count] = clump_ep_open(cl, 1)) != NULL) count++;
    EXPECT(count > 20 && count < 64 && clump_error() == CLUMP_ERR_LIMIT);
    for (int i = 0; i < count; i++) OK(clump_ep_close(all[i]));
    for (int i = 0; i < count; i++) {
        FAILS(CLUMP_ERR_HANDLE, clump_ep_close(all[i]));
        FAILS(CLUMP_ERR_HANDLE, clump_request(all[i], 0, 1));
        FAILS(CLUMP_ERR_HANDLE, clump_poll_inline(all[i]));
    }
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    int rank = clump_rank(cl), nranks = clump_nranks(cl);
    ep = clump_ep_open(cl, TAG), other = clump_ep_open(cl, TAG);
    EXPECT(ep != NULL && other != NULL);
    OK(clump_ep_handler(ep, PING, ping));
    OK(clump_ep_handler(ep, PONG, pong));
    OK(clump_ep_handler(ep, BULK, bulk));
    OK(clump_ep_handler(ep, BULK_REPLY, bulk_reply));
    OK(clump_ep_handler(ep, DEPOSIT, deposit));
    OK(clump_ep_handler(ep, LONG_REPLY, long_reply));
    OK(clump_ep_handler(ep, RELAY, relay));
    OK(clump_ep_handler_with(ep, RELAYED, relayed, &relayed_sum));
    OK(clump_ep_handler(ep, MISUSE, misuse));
    OK(clump_ep_handler(ep, FAIL, fail));
    OK(clump_ep_handler(ep, BACK_REPLY, back_reply));
    OK(clump_ep_handler(ep, NINE, nine));
    OK(clump_ep_on_returned(ep, returned, &came_back));
    void *base = NULL;
    OK(clump_ep_export(ep, 1 << 16, &base));
    mine = base;
    clump_name *names = calloc((size_t)nranks, sizeof *names);
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    EXPECT(names[rank] == clump_ep_name(ep) && clump_name_rank(names[nranks - 1]) == nranks - 1);
    clump_name stranger = names[(rank + 1) % nranks];
    next = clump_ep_map(ep, stranger, TAG), self = clump_ep_map_ordered(ep, names[rank], TAG);
    EXPECT(next >= 0 && self >= 0);
    free(names);

    all_kinds();
    OK(clump_barrier(cl));
    what_comes_back(stranger);
    OK(clump_barrier(cl));
    wrong_arguments(cl);
    limits(cl);
    /* A handler that fails, and a reply for which there is no handler. Only this rank's own, so
     * that each has its own count. */
    uint64_t before = came_back;
    OK(clump_barrier(cl));
    int failed = clump_request(ep, self, FAIL, 1);
    while (failed >= 0) failed = clump_poll(ep);
    EXPECT(failed == CLUMP_ERR_HANDLER_FAILED && strstr(clump_error_text(), "it wanted to"));
    failed = clump_request(ep, self, FAIL);
    while (failed >= 0) failed = clump_poll(ep);
    EXPECT(failed == CLUMP_ERR_HANDLER_FAILED);
    int answered = clump_request(ep, self, BACK_REPLY);
    while (answered >= 0) answered = clump_poll(ep);
    EXPECT(answered == CLUMP_ERR_RETURNED && came_back == before);
    /* Without a function for returned messages, one is an error. */
    OK(clump_ep_set_tag(other, TAG));
    int alone = clump_ep_map(other, clump_ep_name(ep), TAG);
    EXPECT(alone >= 0);
    int got = clump_request(other, alone, 99);
    while (got >= 0) got = clump_poll(ep) < 0 ? -1 : clump_poll(other);
    EXPECT(got == CLUMP_ERR_RETURNED);
    /* Messages that another rank forwarded to this one meanwhile. */
    while (relayed_sum < 3) OK(clump_poll(ep));
    EXPECT(relayed_sum == 3);
    OK(clump_barrier(cl));
    OK(clump_ep_close(ep));
    OK(clump_finalize(cl)); /* closes the other one */
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_poll(other));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_poll_inline(other));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_reply(kept, 1));
    printf("rank %d: messages are right\n", rank);
    return 0;
}
