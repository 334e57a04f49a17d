/* Every reason for which a message is returned to handler 0, with all of the message; tags; freed
 * objects. */
#include "am2_world.h"

#define TAKES 1
#define ANSWERS 2
#define TAKES_PAYLOAD 3
#define REPLIES_TO 4
#define SEES_TAG 5
#define MISSING 200

static int taken, answered, backs;
static tag_t seen_tag;
static clump_am_returned_t last;
static char last_payload[64];

static void takes(void *token, int a, int b) {
    (void)token;
    EXPECT(a == 11 && b == -12);
    taken++;
}
static void takes_payload(void *token, void *payload, size_t bytes) {
    (void)token, (void)payload, (void)bytes;
    taken++;
}
static void answers(void *token) { OK(AM_Reply0(token, MISSING)); }

/* Replies with the handler that it is told. */
static void replies_to(void *token, int handler, int kind) {
    if (kind == 0) OK(AM_Reply2(token, (handler_t)handler, 3, 4));
    if (kind == 1) OK(AM_ReplyI1(token, (handler_t)handler, "reply", 5, 6));
    if (kind == 2) OK(AM_ReplyXfer0(token, 90, (handler_t)handler, "0123456789", 10));
    if (kind == 3) OK(AM_ReplyXfer0(token, 101, (handler_t)handler, "0123456789", 10));
    answered++;
}
static void sees_tag(void *token) {
    OK(AM_GetMsgTag(token, &seen_tag));
    taken++;
}

static void came_back(int status, op_t opcode, void *token) {
    OK(clump_am_returned(token, &last));
    EXPECT(last.status == status && last.opcode == opcode);
    if (last.payload) {
        EXPECT(last.bytes <= sizeof last_payload);
        memcpy(last_payload, last.payload, last.bytes);
    }
    en_t to;
    OK(AM_GetSourceEndpoint(token, &to));
    EXPECT(same_name(to, last.to));
    GIVES(AM_ERR_BAD_ARG, AM_Reply0(token, TAKES));
    backs++;
}

static void set_handlers_of(ep_t at) {
    OK(AM_SetHandler(at, 0, came_back));
    OK(AM_SetHandler(at, TAKES, takes));
    OK(AM_SetHandler(at, ANSWERS, answers));
    OK(AM_SetHandler(at, TAKES_PAYLOAD, takes_payload));
    OK(AM_SetHandler(at, REPLIES_TO, replies_to));
    OK(AM_SetHandler(at, SEES_TAG, sees_tag));
}

static char memory[100];

static void set_handlers(void) {
    set_handlers_of(ep);
    OK(AM_SetSeg(ep, memory, sizeof memory));
}


static void refusals(int to) {
    int wrong;
    OK(AM_MapAny(ep, &wrong, names[to], WORLD_TAG + 1));
    EXPECT(wrong == ranks);
    /* Each as soon as it is sent, or by the next wait. */
    int before = backs;
    OK(AM_Request2(ep, wrong, TAKES, 11, -12));
    UNTIL(backs > before);
    EXPECT(last.status == EBADTAG && last.opcode == AM_REQUEST_M && last.handler == TAKES && last.count == 2);
    EXPECT(last.arguments[0] == 11 && last.arguments[1] == -12 && same_name(last.to, names[to]));
    before = backs;
    OK(AM_RequestI1(ep, to, MISSING, "payload", 7, 9));
    UNTIL(backs > before);
    EXPECT(last.status == EBADHANDLER && last.opcode == AM_REQUEST_IM && last.handler == MISSING);
    EXPECT(last.count == 1 && last.arguments[0] == 9 && last.bytes == 7 && !memcmp(last_payload, "payload", 7));
    before = backs;
    OK(AM_RequestXfer3(ep, to, 101, TAKES_PAYLOAD, "x", 1, 1, 2, 3));
    UNTIL(backs > before);
    EXPECT(last.status == EBADSEGOFF && last.opcode == AM_REQUEST_XFER_M && last.offset == 101 && last.bytes == 1);
    EXPECT(last.count == 3 && last.arguments[2] == 3);
    before = backs;
    OK(AM_RequestXfer0(ep, to, 99, TAKES_PAYLOAD, "xy", 2));
    UNTIL(backs > before);
    EXPECT(last.status == EBADLENGTH && last.offset == 99 && last.bytes == 2 && last.payload == NULL);
    before = taken;
    OK(AM_RequestXfer0(ep, to, 98, TAKES_PAYLOAD, "xy", 2));
    OK(AM_RequestXfer0(ep, to, 100, TAKES_PAYLOAD, NULL, 0));
    before = backs;
    OK(AM_Request0(ep, to, 0));
    UNTIL(backs > before);
    EXPECT(last.status == EBADARGS && last.handler == 0);
    /* Nothing mapped: not sent anywhere, and no name to report. */
    before = backs;
    OK(AM_RequestI2(ep, wrong + 1, TAKES, "abc", 3, 1, 2));
    EXPECT(backs == before + 1 && last.status == EBADENTRY && last.opcode == AM_REQUEST_IM && last.to.bits == 0);
    EXPECT(last.count == 2 && last.bytes == 3 && !memcmp(last_payload, "abc", 3));
    GIVES(AM_ERR_BAD_ARG, AM_Request0(ep, -1, TAKES));
    GIVES(AM_ERR_BAD_ARG, AM_Request0(ep, 256, TAKES));
    /* A name that no endpoint has. */
    en_t nobody = {names[to].bits + ((uint64_t)1 << 31)};
    int none;
    OK(AM_MapAny(ep, &none, nobody, WORLD_TAG));
    before = backs;
    OK(AM_Request0(ep, none, TAKES));
    UNTIL(backs > before);
    EXPECT(last.status == EBADENDPOINT);
    OK(AM_UnMap(ep, none));
    OK(AM_UnMap(ep, wrong));
    /* Replies that the requester does not take go to its own handler 0. */
    before = backs;
    OK(AM_Request0(ep, to, ANSWERS));
    UNTIL(backs > before);
    EXPECT(last.status == EBADHANDLER && last.opcode == AM_REPLY_M && last.handler == MISSING);
    EXPECT(same_name(last.to, names[to]));
    before = backs;
    OK(AM_Request2(ep, to, REPLIES_TO, MISSING, 1));
    UNTIL(backs > before);
    EXPECT(last.opcode == AM_REPLY_IM && last.bytes == 5 && !memcmp(last_payload, "reply", 5) && last.arguments[0] == 6);
    before = taken;
    OK(AM_Request2(ep, to, REPLIES_TO, TAKES_PAYLOAD, 2));
    UNTIL(taken > before);
    EXPECT(!memcmp(memory + 90, "0123456789", 10));
}

/* Requests replies from `to` that are returned there: to handler 0, and beyond this endpoint's
 * segment. */
static void bad_replies(int to) {
    OK(AM_Request2(ep, to, REPLIES_TO, 0, 0));
    OK(AM_Request2(ep, to, REPLIES_TO, TAKES_PAYLOAD, 3));
}

/* Within this rank: tags, a bundle of endpoints, freed objects. */
static void tags(void) {
    ep_t other;
    en_t name;
    tag_t tag;
    OK(AM_AllocateEndpoint(eb, &other, &name));
    set_handlers_of(other);
    OK(AM_GetTag(other, &tag));
    EXPECT(tag == AM_NONE);
    const struct {
        tag_t set, given;
        int arrives;
    } cases[] = {{AM_NONE, AM_NONE, 0}, {AM_NONE, AM_ALL, 0},  {AM_ALL, 0x77, 1},  {AM_ALL, AM_NONE, 1},
                 {AM_ALL, AM_ALL, 1},   {0x77, 0x77, 1},       {0x77, AM_ALL, 0},  {0x77, 0x78, 0},
                 {0x77, AM_NONE, 0},    {~(tag_t)0, ~(tag_t)0, 1}};
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        OK(AM_SetTag(other, cases[at].set));
        OK(AM_GetTag(other, &tag));
        EXPECT(tag == cases[at].set);
        int index, before = taken + backs, back = backs;
        OK(AM_MapAny(ep, &index, name, cases[at].given));
        OK(AM_Request0(ep, index, SEES_TAG));
        UNTIL(taken + backs > before);
        EXPECT(backs - back == !cases[at].arrives);
        if (cases[at].arrives) EXPECT(seen_tag == cases[at].given);
        if (!cases[at].arrives) EXPECT(last.status == EBADTAG);
        OK(AM_UnMap(ep, index));
    }
    int index, before = backs;
    OK(AM_SetTag(other, 5));
    OK(AM_MapAny(ep, &index, name, 5));
    /* Sent, but not handled before its target is freed. */
    eb_t aside;
    OK(AM_AllocateBundle(AM_SEQ, &aside));
    OK(AM_MoveEndpoint(other, eb, aside));
    OK(AM_Request2(ep, index, TAKES, 1, 2));
    OK(AM_FreeBundle(aside));
    GIVES(AM_ERR_BAD_ARG, AM_SetTag(other, 6));
    UNTIL(backs > before);
    EXPECT(last.status == EBADENDPOINT && last.count == 2 && last.arguments[1] == 2);
    before = backs;
    OK(AM_Request2(ep, index, TAKES, 3, 4));
    UNTIL(backs > before);
    EXPECT(last.status == EBADENDPOINT && last.arguments[0] == 3);
    OK(AM_UnMap(ep, index));
}

/* Without a handler 0 a call reports the message, once. */
static void unclaimed(void) {
    eb_t own;
    ep_t at;
    en_t name;
    OK(AM_AllocateBundle(AM_PAR, &own));
    OK(AM_AllocateEndpoint(own, &at, &name));
    GIVES(AM_ERR_NOT_SENT, AM_Request0(at, 3, TAKES));
    EXPECT(strstr(clump_error_text(), "handler 0 is not set") != NULL);
    OK(AM_Poll(own));
    OK(AM_Map(at, 3, names[me], WORLD_TAG + 1));
    int sent = AM_Request0(at, 3, TAKES);
    for (int tries = 0; sent == AM_OK && tries < 1000; tries++) sent = AM_Poll(own);
    GIVES(AM_ERR_NOT_SENT, (clump_error_clear(), sent == AM_ERR_NOT_SENT ? AM_Request0(at, 4, TAKES) : sent));
    OK(AM_FreeEndpoint(at));
    OK(AM_FreeBundle(own));
}

int main(void) {
    world_begin(AM_SEQ, set_handlers);
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == me) {
            refusals((me + 1) % ranks);
            if (ranks > 1) refusals(me);
        }
        EXPECT(clump_barrier(job) == 0);
    }
    tags();
    unclaimed();
    EXPECT(clump_barrier(job) == 0);
    /* Replies of a rank that could not be delivered are returned to that rank. */
    int before = backs, had = answered;
    EXPECT(clump_barrier(job) == 0);
    bad_replies((me + 1) % ranks);
    UNTIL(backs == before + 2);
    EXPECT(answered == had + 2);
    EXPECT(last.opcode == AM_REPLY_XFER_M || last.opcode == AM_REPLY_M);
    /* Between nodes, the requester does not report why it refused a reply. */
    EXPECT(last.status == EBADSEGOFF || last.status == EBADARGS || last.status == EREPLYREJECTED);
    world_end();
    return 0;
}
