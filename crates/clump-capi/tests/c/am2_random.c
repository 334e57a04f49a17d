/* Random programs of messages against a model. The seed, the sender and its number determine a
 * message; so its sender knows its expected result, its receiver the expected content. Every
 * message is handled once, or returned once for the right reason. Usage: am2_random SEED
 * MESSAGES. */
#include "am2_arity.h"
#include "am2_world.h"

enum { SHORT, MEDIUM, LONG };
enum { FINE, WRONG_TAG, NO_HANDLER, UNBOUND, BAD_OFFSET, BAD_LENGTH, TO_ZERO };

#define ENDPOINTS 2
#define REQUEST_OF(kind, n) ((handler_t)(1 + (kind) * 17 + (n)))
#define REPLY_OF(kind, n) ((handler_t)(61 + (kind) * 17 + (n)))
#define MISSING 200

/* Each sender has this much of each segment: for requests below, for replies above. Deposits in
 * flight have a slot each. */
#define SLOT 2048
#define SLOTS 16
#define PART (2 * SLOTS * SLOT)

static struct seat {
    ep_t ep;
    eb_t eb;
    unsigned char *memory;
    /* Messages sent here: the result of each; how many are in flight; slots taken. */
    unsigned char *state;
    int under_way;
    int slot_of[SLOTS];
    /* Messages without reply that each endpoint of each rank sent here: how many, and the sum of
     * numbers. */
    uint64_t *got, *due;
} seats[ENDPOINTS];

static eb_t bundles[2];
static uint64_t seed;
static int messages;
static size_t segment_bytes;

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The content of message `number` of endpoint `from` (rank * ENDPOINTS + seat). */
struct plan {
    uint64_t hash;
    int kind, count, fault, reply, to, bytes;
};

static struct plan plan_of(int from, int number) {
    uint64_t h = mix(seed ^ mix(((uint64_t)from << 32) | (uint32_t)number));
    struct plan plan = {h, (int)(h % 3), 2 + (int)(h / 3 % 15), FINE, (h >> 20) % 3 != 0, 0, 0};
    if ((h >> 24) % 5 == 0) plan.fault = WRONG_TAG + (int)((h >> 28) % 6);
    if ((plan.fault == BAD_OFFSET || plan.fault == BAD_LENGTH) && plan.kind != LONG) plan.fault = FINE;
    plan.to = (int)((h >> 32) % (uint64_t)(ranks * ENDPOINTS));
    plan.bytes = plan.kind == SHORT ? 0 : (int)((h >> 44) % 4 ? (h >> 48) % 200 : (h >> 48) % (SLOT + 1));
    if (plan.kind == LONG) plan.reply = 1; /* its slot is free when the reply is there */
    return plan;
}

static int status_of(int fault) {
    static const int status[] = {0, EBADTAG, EBADHANDLER, EBADENTRY, EBADSEGOFF, EBADLENGTH, EBADARGS};
    return status[fault];
}

static void fill_arguments(int *x, int from, int number, struct plan plan) {
    x[0] = from;
    x[1] = number;
    for (int at = 2; at < plan.count; at++) x[at] = (int)mix(plan.hash + (uint64_t)at);
}

static unsigned char byte(struct plan plan, int at) { return (unsigned char)(plan.hash >> (at % 7 * 8)) ^ (unsigned char)at; }

static struct seat *seat_of(void *token, int *index) {
    ep_t at;
    OK(AM_GetDestEndpoint(token, &at));
    *index = seats[0].ep == at ? 0 : 1;
    EXPECT(seats[*index].ep == at);
    return &seats[*index];
}

/* Checks that a message is what its plan says. */
static struct plan check(int kind, int count, const int *x, const unsigned char *bytes, size_t len) {
    EXPECT(x[0] >= 0 && x[0] < ranks * ENDPOINTS && x[1] >= 0 && x[1] < messages);
    struct plan plan = plan_of(x[0], x[1]);
    int due[16];
    fill_arguments(due, x[0], x[1], plan);
    EXPECT(plan.kind == kind && plan.count == count && !memcmp(due, x, (size_t)count * sizeof *x));
    EXPECT(len == (size_t)plan.bytes);
    for (int at = 0; at < plan.bytes; at++) EXPECT(bytes[at] == byte(plan, at));
    return plan;
}

static void got_request(void *token, int kind, int count, const int *x, unsigned char *bytes, size_t len) {
    int index;
    struct seat *seat = seat_of(token, &index);
    struct plan plan = check(kind, count, x, bytes, len);
    tag_t tag;
    en_t from;
    OK(AM_GetMsgTag(token, &tag));
    OK(AM_GetSourceEndpoint(token, &from));
    EXPECT(plan.fault == FINE && plan.to == me * ENDPOINTS + index && tag == WORLD_TAG + (tag_t)index);
    EXPECT(clump_am_rank_of(from) == x[0] / ENDPOINTS);
    if (!plan.reply) {
        seat->got[2 * x[0]]++;
        seat->got[2 * x[0] + 1] += (uint64_t)x[1];
        return;
    }
    uintptr_t offset = kind == LONG ? (uintptr_t)(bytes - seat->memory) + SLOTS * SLOT - (uintptr_t)x[0] * PART : 0;
    offset += (uintptr_t)plan.to * PART;
    handler_t handler = REPLY_OF(kind, count);
    if (kind == SHORT) OK(clump_am_reply(token, handler, (unsigned)count, x));
    if (kind == MEDIUM) OK(clump_am_reply_medium(token, handler, bytes, len, (unsigned)count, x));
    if (kind == LONG) OK(clump_am_reply_long(token, offset, handler, bytes, len, (unsigned)count, x));
}

static void end_of(struct seat *seat, int number) {
    EXPECT(seat->state[number] == 1);
    seat->state[number] = 2;
    seat->under_way--;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (seat->slot_of[slot] == number) seat->slot_of[slot] = -1;
    }
}

static void got_reply(void *token, int kind, int count, const int *x, unsigned char *bytes, size_t len) {
    int index;
    struct seat *seat = seat_of(token, &index);
    struct plan plan = check(kind, count, x, bytes, len);
    EXPECT(plan.fault == FINE && plan.reply && x[0] == me * ENDPOINTS + index);
    end_of(seat, x[1]);
}

static void came_back(int status, op_t opcode, void *token) {
    int index;
    struct seat *seat = seat_of(token, &index);
    clump_am_returned_t m;
    OK(clump_am_returned(token, &m));
    EXPECT(m.count >= 2 && m.arguments[0] == me * ENDPOINTS + index && m.arguments[1] < messages);
    struct plan plan = plan_of(m.arguments[0], m.arguments[1]);
    int due[16];
    fill_arguments(due, m.arguments[0], m.arguments[1], plan);
    if (status != status_of(plan.fault)) fprintf(stderr, "status %d, fault %d\n", status, plan.fault);
    EXPECT(status == status_of(plan.fault) && opcode == AM_REQUEST_M + plan.kind && m.count == plan.count);
    EXPECT(!memcmp(due, m.arguments, (size_t)m.count * sizeof *due) && m.bytes == (size_t)plan.bytes);
    for (size_t at = 0; plan.kind == MEDIUM && at < m.bytes; at++)
        EXPECT(((const unsigned char *)m.payload)[at] == byte(plan, (int)at));
    end_of(seat, m.arguments[1]);
}

#define HANDLERS(n)                                                                                          \
    static void request_short_##n(void *token P##n) {                                                        \
        int x[] = {0 V##n};                                                                                  \
        got_request(token, SHORT, n, x + 1, NULL, 0);                                                        \
    }                                                                                                        \
    static void request_medium_##n(void *token, void *bytes, size_t len P##n) {                              \
        int x[] = {0 V##n};                                                                                  \
        got_request(token, MEDIUM, n, x + 1, (unsigned char *)bytes, len);                                   \
    }                                                                                                        \
    static void request_long_##n(void *token, void *bytes, size_t len P##n) {                                \
        int x[] = {0 V##n};                                                                                  \
        got_request(token, LONG, n, x + 1, (unsigned char *)bytes, len);                                     \
    }                                                                                                        \
    static void reply_short_##n(void *token P##n) {                                                          \
        int x[] = {0 V##n};                                                                                  \
        got_reply(token, SHORT, n, x + 1, NULL, 0);                                                          \
    }                                                                                                        \
    static void reply_medium_##n(void *token, void *bytes, size_t len P##n) {                                \
        int x[] = {0 V##n};                                                                                  \
        got_reply(token, MEDIUM, n, x + 1, (unsigned char *)bytes, len);                                     \
    }                                                                                                        \
    static void reply_long_##n(void *token, void *bytes, size_t len P##n) {                                  \
        int x[] = {0 V##n};                                                                                  \
        got_reply(token, LONG, n, x + 1, (unsigned char *)bytes, len);                                       \
    }
EACH(HANDLERS)

/* Opens a seat and maps its entries: all endpoints with the right tag, then with a wrong one. */
static void open_seat(int index) {
    struct seat *seat = &seats[index];
    size_t all = (size_t)(ranks * ENDPOINTS);
    en_t name, *theirs = (en_t *)calloc((size_t)ranks, sizeof name);
    seat->eb = bundles[index];
    OK(AM_AllocateEndpoint(seat->eb, &seat->ep, &name));
    OK(AM_SetTag(seat->ep, WORLD_TAG + (tag_t)index));
    segment_bytes = all * PART;
    seat->memory = (unsigned char *)malloc(segment_bytes);
    seat->state = (unsigned char *)calloc((size_t)messages, 1);
    seat->got = (uint64_t *)calloc(2 * all, sizeof(uint64_t));
    seat->due = (uint64_t *)calloc(2 * all, sizeof(uint64_t));
    EXPECT(theirs && seat->memory && seat->state && seat->got && seat->due);
    for (int slot = 0; slot < SLOTS; slot++) seat->slot_of[slot] = -1;
    OK(AM_SetSeg(seat->ep, seat->memory, segment_bytes));
    OK(AM_SetHandler(seat->ep, 0, came_back));
#define SET(n)                                                                                               \
    OK(AM_SetHandler(seat->ep, REQUEST_OF(SHORT, n), request_short_##n));                                    \
    OK(AM_SetHandler(seat->ep, REQUEST_OF(MEDIUM, n), request_medium_##n));                                  \
    OK(AM_SetHandler(seat->ep, REQUEST_OF(LONG, n), request_long_##n));                                      \
    OK(AM_SetHandler(seat->ep, REPLY_OF(SHORT, n), reply_short_##n));                                        \
    OK(AM_SetHandler(seat->ep, REPLY_OF(MEDIUM, n), reply_medium_##n));                                      \
    OK(AM_SetHandler(seat->ep, REPLY_OF(LONG, n), reply_long_##n));
    EACH(SET)
    EXPECT(clump_all_gather(job, &name, sizeof name, theirs) == 0);
    for (int from = 0; from < ENDPOINTS; from++) {
        /* Both seats are open when the second one is. */
        for (int rank = 0; index == ENDPOINTS - 1 && rank < ranks; rank++) {
            en_t to[ENDPOINTS] = {names[rank], theirs[rank]};
            for (int at = 0; at < ENDPOINTS; at++) {
                int entry = rank * ENDPOINTS + at;
                OK(AM_Map(seats[from].ep, entry, to[at], WORLD_TAG + (tag_t)at));
                OK(AM_Map(seats[from].ep, (int)all + entry, to[at], WORLD_TAG + 99));
            }
        }
    }
    memcpy(names, theirs, (size_t)ranks * sizeof name);
    free(theirs);
}

/* Sends message `number` of a seat; false if it has to wait for a slot, or for space. */
static int send_one(int index, int number) {
    struct seat *seat = &seats[index];
    int from = me * ENDPOINTS + index, slot = 0, x[16];
    struct plan plan = plan_of(from, number);
    unsigned char bytes[SLOT];
    while (plan.kind == LONG && seat->slot_of[slot] >= 0) {
        if (++slot == SLOTS) return 0;
    }
    fill_arguments(x, from, number, plan);
    for (int at = 0; at < plan.bytes; at++) bytes[at] = byte(plan, at);
    int entry = plan.to + (plan.fault == WRONG_TAG ? ranks * ENDPOINTS : 0);
    if (plan.fault == UNBOUND) entry = 255;
    handler_t handler = REQUEST_OF(plan.kind, plan.count);
    if (plan.fault == NO_HANDLER) handler = MISSING;
    if (plan.fault == TO_ZERO) handler = 0;
    uintptr_t offset = (uintptr_t)from * PART + (uintptr_t)(slot * SLOT);
    if (plan.fault == BAD_OFFSET) offset = segment_bytes + 1 + (uintptr_t)number;
    if (plan.fault == BAD_LENGTH) offset = segment_bytes - (plan.bytes ? (uintptr_t)plan.bytes - 1 : 0);
    if (plan.fault == BAD_LENGTH && plan.bytes == 0) offset = (uintptr_t)from * PART;
    int waited = plan.reply || plan.fault != FINE;
    unsigned count = (unsigned)plan.count;
    seat->state[number] = 1;
    seat->under_way += waited;
    if (!waited) seat->state[number] = 2;
    if (!waited) {
        seat->due[2 * plan.to]++;
        seat->due[2 * plan.to + 1] += (uint64_t)number;
    }
    if (plan.kind == LONG) seat->slot_of[slot] = number;
    if (plan.kind == SHORT) OK(clump_am_request(seat->ep, entry, handler, count, x));
    size_t len = (size_t)plan.bytes;
    if (plan.kind == MEDIUM) OK(clump_am_request_medium(seat->ep, entry, handler, bytes, len, count, x));
    if (plan.kind == LONG) {
        int wait = (int)(plan.hash >> 60) & 1;
        int sent = clump_am_request_long(seat->ep, entry, offset, handler, bytes, len, wait, count, x);
        if (sent == AM_ERR_NOT_SENT) {
            seat->slot_of[slot] = -1;
            seat->state[number] = 0;
            seat->under_way--;
            return 0;
        }
        OK(sent);
    }
    return 1;
}

static void no_handlers(void) {}

static void poll_both(void) {
    for (int index = 0; index < ENDPOINTS; index++) OK(AM_Poll(bundles[index]));
}

/* Returns true if a plan with a wrong length has no bytes to deposit: no length is too long
 * then. */
static int has_no_fault(int from, int number) {
    struct plan plan = plan_of(from, number);
    return plan.fault == BAD_LENGTH && plan.bytes == 0;
}

int main(int argc, char **argv) {
    EXPECT(argc == 3);
    seed = strtoull(argv[1], NULL, 0);
    messages = atoi(argv[2]);
    world_begin(AM_SEQ, no_handlers);
    int parallel = (int)(mix(seed) & 1);
    for (int index = 0; index < ENDPOINTS; index++) {
        OK(AM_AllocateBundle(parallel ? AM_PAR : AM_SEQ, &bundles[index]));
        OK(AM_SetEventMask(bundles[index], AM_NOTEMPTY));
    }
    for (int index = 0; index < ENDPOINTS; index++) open_seat(index);
    EXPECT(clump_barrier(job) == 0);
    uint64_t chance = mix(seed + 17 + (uint64_t)me);
    int next[ENDPOINTS] = {0};
    while (next[0] < messages || next[1] < messages) {
        chance = mix(chance + 1);
        int index = (int)(chance & 1);
        if (next[index] == messages) index = 1 - index;
        if (has_no_fault(me * ENDPOINTS + index, next[index])) {
            next[index]++;
            continue;
        }
        if (seats[index].under_way < 40 && send_one(index, next[index])) next[index]++;
        if ((chance >> 1) % 4 == 0) OK(AM_Poll(bundles[(chance >> 4) & 1]));
        if ((chance >> 8) % 50 == 0) {
            eb_t to = bundles[(chance >> 16) & 1];
            OK(AM_MoveEndpoint(seats[index].ep, seats[index].eb, to));
            seats[index].eb = to;
        }
        if (seats[index].under_way >= 40) OK(AM_Poll(seats[index].eb));
    }
    for (int index = 0; index < ENDPOINTS; index++) {
        while (seats[index].under_way > 0) poll_both();
    }
    /* Messages sent without reply, and messages that came: all ranks gather both. */
    size_t all = (size_t)(ranks * ENDPOINTS), words = 2 * all * ENDPOINTS;
    uint64_t *mine = (uint64_t *)calloc(words, 8), *every = (uint64_t *)calloc(words * (size_t)ranks, 8);
    EXPECT(mine && every);
    for (int index = 0; index < ENDPOINTS; index++) memcpy(mine + 2 * all * (size_t)index, seats[index].due, 16 * all);
    EXPECT(clump_all_gather(job, mine, words * 8, every) == 0);
    for (size_t from = 0; from < all; from++) {
        for (int index = 0; index < ENDPOINTS; index++) {
            const uint64_t *due = every + 2 * all * from + 2 * (size_t)(me * ENDPOINTS + index);
            const uint64_t *got = seats[index].got + 2 * from;
            while (got[0] < due[0]) poll_both();
            EXPECT(got[0] == due[0] && got[1] == due[1]);
        }
    }
    EXPECT(clump_barrier(job) == 0);
    /* Nothing came twice, or too late. */
    for (int index = 0; index < ENDPOINTS; index++) {
        OK(AM_Poll(seats[index].eb));
        EXPECT(seats[index].under_way == 0);
        for (int at = 0; at < messages; at++)
            EXPECT(seats[index].state[at] == 2 || has_no_fault(me * ENDPOINTS + index, at));
        free(seats[index].state);
        free(seats[index].got);
        free(seats[index].due);
    }
    free(mine);
    free(every);
    unsigned char *memory[ENDPOINTS] = {seats[0].memory, seats[1].memory};
    world_end();
    free(memory[0]);
    free(memory[1]);
    return 0;
}
