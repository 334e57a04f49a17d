/* Messages returned because of timing: a target without space, a requester that closes before its
 * reply. For a rank by itself, with a short CLUMP_SEND_TIMEOUT_MS. */
#define _POSIX_C_SOURCE 200809L
#include "am2_world.h"
#include <pthread.h>

#define TAKES 1
#define ANSWERS 2

static int taken, asked, backs;
static clump_am_returned_t last;

static void takes(void *token, int a) {
    (void)token;
    EXPECT(a == taken);
    taken++;
}
static void answers(void *token) {
    OK(AM_Reply1(token, TAKES, 7));
    asked++;
}
static void came_back(int status, op_t opcode, void *token) {
    OK(clump_am_returned(token, &last));
    EXPECT(last.status == status && last.opcode == opcode);
    backs++;
}
static void set_handlers_of(ep_t at) {
    OK(AM_SetHandler(at, 0, came_back));
    OK(AM_SetHandler(at, TAKES, takes));
    OK(AM_SetHandler(at, ANSWERS, answers));
}
static void set_handlers(void) { set_handlers_of(ep); }

/* An endpoint in a bundle of its own. */
static ep_t apart(eb_t *bundle, en_t *name) {
    ep_t at;
    OK(AM_AllocateBundle(AM_SEQ, bundle));
    OK(AM_AllocateEndpoint(*bundle, &at, name));
    OK(AM_SetTag(at, WORLD_TAG));
    set_handlers_of(at);
    return at;
}

/* A thread that owns a bundle, and polls it only when it is told how many messages are to come. */
static pthread_barrier_t meet;
static int wanted;
static void *idler(void *bundle) {
    OK(AM_Poll((eb_t)bundle));
    for (int turn = 0; turn < 2; turn++) {
        pthread_barrier_wait(&meet);
        pthread_barrier_wait(&meet);
        while (taken < wanted) OK(AM_Poll((eb_t)bundle));
    }
    pthread_barrier_wait(&meet);
    return NULL;
}

/* Sends requests until there is no space, for longer than a message may wait: the last is returned,
 * all others arrive. */
static void congestion(void) {
    eb_t aside;
    en_t name;
    apart(&aside, &name);
    int index, sent = 0;
    pthread_t thread;
    EXPECT(pthread_barrier_init(&meet, NULL, 2) == 0 && pthread_create(&thread, NULL, idler, aside) == 0);
    pthread_barrier_wait(&meet);
    OK(AM_MapAny(ep, &index, name, WORLD_TAG));
    while (backs == 0) OK(AM_Request1(ep, index, TAKES, sent++));
    EXPECT(last.status == ECONGESTION && last.opcode == AM_REQUEST_M && last.arguments[0] == sent - 1);
    EXPECT(same_name(last.to, name) && backs == 1 && taken == 0);
    wanted = sent - 1;
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    EXPECT(taken == wanted);
    OK(AM_Request1(ep, index, TAKES, taken));
    wanted++;
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    EXPECT(taken == wanted && pthread_join(thread, NULL) == 0);
    OK(AM_UnMap(ep, index));
    OK(AM_FreeBundle(aside));
}

/* A requester that closes before it takes the reply that was sent to it, or before that is sent. */
static void rejected(int before_it_is_sent) {
    eb_t aside;
    en_t name;
    ep_t asker = apart(&aside, &name);
    OK(AM_Map(asker, 0, names[me], WORLD_TAG));
    const int had = backs, were = asked, arrived = taken;
    OK(AM_Request0(asker, 0, ANSWERS));
    while (!before_it_is_sent && asked == were) OK(AM_Poll(eb));
    OK(AM_FreeBundle(aside));
    UNTIL(backs > had);
    EXPECT(last.status == EREPLYREJECTED && last.opcode == AM_REPLY_M && last.handler == TAKES);
    EXPECT(last.count == 1 && last.arguments[0] == 7 && same_name(last.to, name));
    EXPECT(asked == were + 1 && taken == arrived);
}

int main(void) {
    world_begin(AM_SEQ, set_handlers);
    congestion();
    rejected(0);
    rejected(1);
    world_end();
    return 0;
}
