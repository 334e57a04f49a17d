/* Messages of all kinds with 0 to 16 arguments, requests and replies, to this rank and to the next;
 * payloads up to the longest, and one byte more. */
#include "am2_arity.h"
#include "am2_world.h"

enum { SHORT, MEDIUM, LONG };
/* Index of the handler of a kind's requests with n arguments, and of its replies. */
#define REQUEST_OF(kind, n) ((handler_t)(1 + (kind) * 17 + (n)))
#define REPLY_OF(kind, n) ((handler_t)(101 + (kind) * 17 + (n)))
#define HUGE_REQUEST 60
#define HUGE_REPLY 160

/* Long requests with n arguments are deposited at n * SPREAD, replies SPREAD / 2 behind. */
#define SPREAD 8192

static unsigned char *memory;
static size_t memory_bytes;
static int replies, huge_requests, huge_replies;

/* Argument number `at` of a message with n. */
static int value(int n, int at) { return (int)(0x9e3779b9u * (unsigned)(n * 31 + at + 1)); }

static unsigned char byte(int n, size_t at) { return (unsigned char)(at * 7 + (at >> 8) + (size_t)n * 13 + 1); }

/* Bytes of a payload that goes with n arguments: none, a few, as many as there may be. */
static size_t payload_bytes(int n) {
    return n == 0 ? 0 : n == 16 ? (size_t)AM_MaxMedium() : (size_t)(n * n * 13 + 1);
}
static size_t deposit_bytes(int n) { return n == 0 ? 0 : (size_t)(n * 211 + 1); }

static void fill(unsigned char *to, int n, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) to[at] = byte(n, at);
}

static void check_token(void *token) {
    en_t from;
    ep_t here;
    tag_t tag;
    OK(AM_GetSourceEndpoint(token, &from));
    int rank = clump_am_rank_of(from);
    EXPECT(rank >= 0 && rank < ranks && same_name(from, names[rank]));
    OK(AM_GetDestEndpoint(token, &here));
    EXPECT(here == ep);
    OK(AM_GetMsgTag(token, &tag));
    EXPECT(tag == WORLD_TAG);
}

static void check_arguments(int n, const int *got) {
    for (int at = 0; at < n; at++) EXPECT(got[at] == value(n, at));
}

static void check_payload(int n, const void *payload, size_t bytes, size_t due) {
    const unsigned char *is = (const unsigned char *)payload;
    EXPECT(bytes == due);
    for (size_t at = 0; at < bytes; at++) EXPECT(is[at] == byte(n, at));
}

#define HANDLERS(n)                                                                                          \
    static void short_request_##n(void *token P##n) {                                                        \
        int x[] = {0 V##n};                                                                                  \
        check_token(token);                                                                                  \
        check_arguments(n, x + 1);                                                                           \
        OK(AM_Reply##n(token, REPLY_OF(SHORT, n) V##n));                                                     \
    }                                                                                                        \
    static void short_reply_##n(void *token P##n) {                                                          \
        int x[] = {0 V##n};                                                                                  \
        check_token(token);                                                                                  \
        check_arguments(n, x + 1);                                                                           \
        replies++;                                                                                           \
    }                                                                                                        \
    static void medium_request_##n(void *token, void *payload, size_t bytes P##n) {                          \
        int x[] = {0 V##n};                                                                                  \
        check_token(token);                                                                                  \
        check_arguments(n, x + 1);                                                                           \
        check_payload(n, payload, bytes, payload_bytes(n));                                                  \
        EXPECT((uintptr_t)payload % 8 == 0);                                                                 \
        OK(AM_ReplyI##n(token, REPLY_OF(MEDIUM, n), payload, bytes V##n));                                   \
    }                                                                                                        \
    static void medium_reply_##n(void *token, void *payload, size_t bytes P##n) {                            \
        int x[] = {0 V##n};                                                                                  \
        check_token(token);                                                                                  \
        check_arguments(n, x + 1);                                                                           \
        check_payload(n, payload, bytes, payload_bytes(n));                                                  \
        memset(payload, 0xee, bytes); /* a handler may write to it */                                        \
        replies++;                                                                                           \
    }                                                                                                        \
    static void long_request_##n(void *token, void *address, size_t bytes P##n) {                            \
        int x[] = {0 V##n};                                                                                  \
        check_token(token);                                                                                  \
        check_arguments(n, x + 1);                                                                           \
        EXPECT(address == memory + n * SPREAD);                                                              \
        check_payload(n, address, bytes, deposit_bytes(n));                                                  \
        OK(AM_ReplyXfer##n(token, n *SPREAD + SPREAD / 2, REPLY_OF(LONG, n), address, bytes V##n));          \
    }                                                                                                        \
    static void long_reply_##n(void *token, void *address, size_t bytes P##n) {                              \
        int x[] = {0 V##n};                                                                                  \
        check_token(token);                                                                                  \
        check_arguments(n, x + 1);                                                                           \
        EXPECT(address == memory + n * SPREAD + SPREAD / 2);                                                 \
        check_payload(n, address, bytes, deposit_bytes(n));                                                  \
        replies++;                                                                                           \
    }
EACH(HANDLERS)

static void huge_request(void *token, void *address, size_t bytes, int n) {
    EXPECT(bytes == (size_t)AM_MaxLong() && address == memory);
    /* All of it is there, and right at both ends and in between. */
    const unsigned char *is = (const unsigned char *)address;
    for (size_t at = 0; at < bytes; at += at < 5000 || at > bytes - 5000 ? 1 : 997) EXPECT(is[at] == byte(n, at));
    huge_requests++;
    OK(AM_Reply1(token, HUGE_REPLY, n));
}

static void huge_reply(void *token, int n) {
    (void)token;
    EXPECT(n == 5);
    huge_replies++;
}

static void nothing_comes_back(int status, op_t opcode, void *token) {
    (void)token;
    fprintf(stderr, "rank %d: a message came back: status %d, opcode %d\n", me, status, opcode);
    exit(3);
}

static void set_handlers(void) {
#define SET(n)                                                                                               \
    OK(AM_SetHandler(ep, REQUEST_OF(SHORT, n), short_request_##n));                                          \
    OK(AM_SetHandler(ep, REPLY_OF(SHORT, n), short_reply_##n));                                              \
    OK(AM_SetHandler(ep, REQUEST_OF(MEDIUM, n), medium_request_##n));                                        \
    OK(AM_SetHandler(ep, REPLY_OF(MEDIUM, n), medium_reply_##n));                                            \
    OK(AM_SetHandler(ep, REQUEST_OF(LONG, n), long_request_##n));                                            \
    OK(AM_SetHandler(ep, REPLY_OF(LONG, n), long_reply_##n));
    EACH(SET)
    OK(AM_SetHandler(ep, HUGE_REQUEST, huge_request));
    OK(AM_SetHandler(ep, HUGE_REPLY, huge_reply));
    OK(AM_SetHandler(ep, 0, nothing_comes_back));
    memory_bytes = (size_t)AM_MaxLong();
    memory = (unsigned char *)malloc(memory_bytes);
    EXPECT(memory != NULL);
    /* A short one first: a segment may grow. */
    OK(AM_SetSeg(ep, memory, 100));
    OK(AM_SetSeg(ep, memory, memory_bytes));
}

/* One message of each kind with n arguments, sent four ways. */
#define SEND(n)                                                                                              \
    static void send_##n(int to, unsigned char *from) {                                                      \
        int x[17];                                                                                           \
        for (int at = 0; at < n; at++) x[at] = value(n, at);                                                 \
        (void)x;                                                                                             \
        int due = replies + 4;                                                                               \
        OK(AM_Request##n(ep, to, REQUEST_OF(SHORT, n) X##n));                                                \
        fill(from, n, payload_bytes(n));                                                                     \
        OK(AM_RequestI##n(ep, to, REQUEST_OF(MEDIUM, n), from, payload_bytes(n) X##n));                      \
        fill(from, n, deposit_bytes(n));                                                                     \
        OK(AM_RequestXfer##n(ep, to, n *SPREAD, REQUEST_OF(LONG, n), from, deposit_bytes(n) X##n));          \
        UNTIL(replies == due - 1);                                                                           \
        int sent;                                                                                            \
        while ((sent = AM_RequestXferAsync##n(ep, to, n *SPREAD, REQUEST_OF(LONG, n), from,                  \
                                              deposit_bytes(n) X##n)) == AM_ERR_NOT_SENT)                    \
            OK(AM_Poll(eb));                                                                                 \
        OK(sent);                                                                                            \
        UNTIL(replies == due);                                                                               \
    }
EACH(SEND)

static void send_all(int to, unsigned char *from) {
#define SEND_EACH(n) send_##n(to, from);
    EACH(SEND_EACH)
    GIVES(AM_ERR_BAD_ARG, AM_RequestI0(ep, to, 1, from, (size_t)AM_MaxMedium() + 1));
    GIVES(AM_ERR_BAD_ARG, AM_RequestXfer0(ep, to, 0, 1, from, memory_bytes + 1));
}

int main(void) {
    world_begin(AM_SEQ, set_handlers);
    unsigned char *from = (unsigned char *)malloc(memory_bytes + 1);
    EXPECT(from != NULL);
    int next = (me + 1) % ranks;
    /* In turn, so that the deposits of two ranks do not overlap. */
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == me) {
            send_all(me, from);
            if (next != me) send_all(next, from);
        }
        EXPECT(clump_barrier(job) == 0);
    }
    EXPECT(replies == 17 * 4 * (next == me ? 1 : 2));
    /* The longest message, from the last rank to the first. */
    if (me == ranks - 1) {
        fill(from, 5, memory_bytes);
        OK(AM_RequestXfer1(ep, 0, 0, HUGE_REQUEST, from, memory_bytes, 5));
        UNTIL(huge_replies == 1);
    }
    world_end();
    EXPECT(huge_requests == (me == 0));
    free(from);
    free(memory);
    return 0;
}
