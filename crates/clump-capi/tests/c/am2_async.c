/* Long messages that are sent without waiting: how many may be in flight, and the destination of
 * the rest of one when its entry was mapped to another endpoint meanwhile. */
#include "am2_world.h"

#define TAKE 1
#define TAKEN 2
#define ELSE 3

#define BYTES (2u << 20)
#define ROUNDS 5

static unsigned char *from, *memory;
static int taken, elsewhere, wrong;
/* A second endpoint of each rank. */
static ep_t second;

static unsigned char pattern(size_t at, int seed) { return (unsigned char)(at * 31 + at / 4093 + (size_t)seed); }

static void take(void *token, void *at, size_t bytes, int seed) {
    const unsigned char *got = (const unsigned char *)at;
    EXPECT(got == memory && bytes == BYTES);
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != pattern(i, seed)) wrong++;
    OK(AM_Reply1(token, TAKEN, seed));
}
static void is_taken(void *token, int seed) {
    (void)token, (void)seed;
    taken++;
}
static void take_else(void *token, int seed) {
    OK(AM_Reply1(token, TAKEN, seed));
    elsewhere++;
}

static void set_handlers(void) {
    from = (unsigned char *)malloc(BYTES);
    memory = (unsigned char *)malloc(BYTES);
    EXPECT(from && memory);
    OK(AM_SetHandler(ep, TAKE, take));
    OK(AM_SetHandler(ep, TAKEN, is_taken));
    OK(AM_SetSeg(ep, memory, BYTES));
    OK(AM_AllocateEndpoint(eb, &second, NULL));
    OK(AM_SetTag(second, WORLD_TAG));
    OK(AM_SetHandler(second, ELSE, take_else));
}

/* An endpoint copies at most one unfinished deposit: a sender that sends another meanwhile has
 * to try again, for any destination. */
static void backlog_is_bounded(void) {
    int accepted = 0, refused = 0, far = 0;
    taken = 0;
    for (size_t i = 0; i < BYTES; i++) from[i] = pattern(i, 5);
    for (int to = 0; to < ranks; to++) {
        if (clump_node_of(job, to) == clump_node_of(job, me)) continue;
        int sent = AM_RequestXferAsync1(ep, to, 0, TAKE, from, BYTES, 5);
        EXPECT(sent == AM_OK || sent == AM_ERR_NOT_SENT);
        accepted += sent == AM_OK;
        refused += sent == AM_ERR_NOT_SENT;
        far++;
    }
    /* Each deposit needs more answers of the network than there are polls here. */
    if (far > 0) EXPECT(accepted == 1 && refused == far - 1);
    UNTIL(taken == accepted);
}

/* The rest of a deposit is sent to its original destination, though its entry is mapped to another
 * endpoint now. */
static void entries_change_hands(int to, en_t other) {
    const int index = 200;
    for (int round = 0; round < ROUNDS; round++) {
        int before = taken;
        for (size_t i = 0; i < BYTES; i++) from[i] = pattern(i, round);
        OK(AM_Map(ep, index, names[to], WORLD_TAG));
        int sent;
        while ((sent = AM_RequestXferAsync1(ep, index, 0, TAKE, from, BYTES, round)) != AM_OK) {
            EXPECT(sent == AM_ERR_NOT_SENT);
            OK(AM_Poll(eb));
        }
        OK(AM_UnMap(ep, index));
        OK(AM_Map(ep, index, other, WORLD_TAG));
        OK(AM_Request1(ep, index, ELSE, round));
        /* The next message to a fresh entry frees old ones. */
        OK(AM_Map(ep, index + 1, other, WORLD_TAG));
        OK(AM_Request1(ep, index + 1, ELSE, round));
        UNTIL(taken == before + 3);
        OK(AM_UnMap(ep, index));
        OK(AM_UnMap(ep, index + 1));
    }
}

int main(void) {
    world_begin(AM_SEQ, set_handlers);
    en_t name, *seconds = (en_t *)calloc((size_t)ranks, sizeof name);
    OK(clump_am_name(second, &name));
    EXPECT(seconds && clump_all_gather(job, &name, sizeof name, seconds) == 0);
    int senders = 0;
    /* One rank sends at a time: their deposits would mix. */
    for (int sender = 0; sender < ranks; sender++) {
        int to = (sender + 1) % ranks;
        if (sender == me) {
            backlog_is_bounded();
            entries_change_hands(to, seconds[to]);
        }
        senders++;
        EXPECT(clump_barrier(job) == 0);
    }
    EXPECT(senders == ranks && elsewhere == 2 * ROUNDS && wrong == 0);
    free(seconds), free(from);
    world_end();
    free(memory);
    return 0;
}
