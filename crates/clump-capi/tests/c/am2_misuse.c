/* Misuse by a program: null, freed, of another thread, in a handler, twice. Each is an error, with
 * a text, and changes nothing. */
#include "am2_world.h"
#include <pthread.h>

#define TRY 1
#define REPLY 2

static int tried, replied;
static void *old_token;
static eb_t other_eb;

static void from_another_thread(void *token);

/* Calls everything that a handler may not do, and what it may. */
static void try_all(void *token, int depth) {
    ep_t fresh;
    eb_t bundle;
    en_t name;
    tag_t tag;
    void *address;
    uintptr_t bytes;
    int number;
    handler_t any;
    GIVES(AM_ERR_NOT_SENT, AM_Request0(ep, 0, REPLY));
    GIVES(AM_ERR_NOT_SENT, AM_RequestI0(ep, 0, REPLY, "x", 1));
    GIVES(AM_ERR_NOT_SENT, AM_RequestXfer0(ep, 0, 0, REPLY, "x", 1));
    GIVES(AM_ERR_NOT_SENT, AM_RequestXferAsync0(ep, 0, 0, REPLY, "x", 1));
    GIVES(AM_ERR_IN_USE, AM_Poll(eb));
    GIVES(AM_ERR_IN_USE, AM_Poll(other_eb));
    GIVES(AM_ERR_IN_USE, AM_WaitSema(eb));
    GIVES(AM_ERR_IN_USE, AM_Init());
    GIVES(AM_ERR_IN_USE, AM_Terminate());
    GIVES(AM_ERR_IN_USE, AM_AllocateBundle(AM_SEQ, &bundle));
    GIVES(AM_ERR_IN_USE, AM_AllocateEndpoint(eb, &fresh, &name));
    GIVES(AM_ERR_IN_USE, AM_FreeBundle(eb));
    GIVES(AM_ERR_IN_USE, AM_FreeEndpoint(ep));
    GIVES(AM_ERR_IN_USE, AM_MoveEndpoint(ep, eb, other_eb));
    GIVES(AM_ERR_IN_USE, AM_SetTag(ep, 1));
    GIVES(AM_ERR_IN_USE, AM_SetSeg(ep, &number, sizeof number));
    EXPECT(clump_barrier(job) < 0 && clump_error() == CLUMP_ERR_IN_HANDLER);
    EXPECT(clump_finalize(job) < 0);
    /* Reading is allowed, and so are table and handlers. */
    OK(AM_GetTag(ep, &tag));
    EXPECT(tag == WORLD_TAG);
    OK(AM_GetSeg(ep, &address, &bytes));
    OK(AM_MapAny(ep, &number, names[0], WORLD_TAG));
    OK(AM_GetTranslationName(ep, number, &name));
    OK(AM_UnMap(ep, number));
    OK(AM_SetHandlerAny(ep, &any, try_all));
    OK(AM_SetNumHandlers(ep, any + 1));
    OK(AM_SetNumHandlers(ep, 256));
    /* Tokens. */
    clump_am_returned_t back;
    GIVES(AM_ERR_BAD_ARG, clump_am_returned(token, &back));
    GIVES(AM_ERR_BAD_ARG, AM_GetMsgTag(NULL, &tag));
    GIVES(AM_ERR_BAD_ARG, AM_GetMsgTag((char *)token + 1, &tag));
    GIVES(AM_ERR_BAD_ARG, AM_GetMsgTag(token, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetSourceEndpoint(token, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetDestEndpoint(token, NULL));
    if (old_token) {
        GIVES(AM_ERR_BAD_ARG, AM_GetMsgTag(old_token, &tag));
        GIVES(AM_ERR_BAD_ARG, AM_Reply0(old_token, REPLY));
    }
    old_token = token;
    from_another_thread(token);
    /* A failed reply leaves the right to one. */
    GIVES(AM_ERR_BAD_ARG, AM_ReplyI0(token, REPLY, token, (size_t)AM_MaxMedium() + 1));
    GIVES(AM_ERR_BAD_ARG, AM_ReplyI0(token, REPLY, NULL, 1));
    GIVES(AM_ERR_BAD_ARG, AM_ReplyXfer0(token, 0, REPLY, token, (size_t)AM_MaxLong() + 1));
    GIVES(AM_ERR_BAD_ARG, clump_am_reply(token, REPLY, 17, NULL));
    GIVES(AM_ERR_BAD_ARG, clump_am_reply(token, REPLY, 1, NULL));
    OK(AM_Reply1(token, REPLY, depth));
    GIVES(AM_ERR_BAD_ARG, AM_Reply1(token, REPLY, depth));
    GIVES(AM_ERR_BAD_ARG, AM_ReplyI0(token, REPLY, "x", 1));
    tried++;
}

static void reply(void *token, int depth) {
    (void)depth;
    GIVES(AM_ERR_BAD_ARG, AM_Reply0(token, REPLY));
    replied++;
}

static void *use_token(void *token) {
    tag_t tag;
    GIVES(AM_ERR_BAD_ARG, AM_GetMsgTag(token, &tag));
    GIVES(AM_ERR_BAD_ARG, AM_Reply1(token, REPLY, 0));
    /* The endpoint's bundle belongs to the thread that runs the handler. */
    GIVES(AM_ERR_IN_USE, AM_Poll(eb));
    GIVES(AM_ERR_IN_USE, AM_Request0(ep, 0, REPLY));
    GIVES(AM_ERR_IN_USE, AM_GetTag(ep, &tag));
    GIVES(AM_ERR_IN_USE, AM_FreeEndpoint(ep));
    GIVES(AM_ERR_IN_USE, AM_FreeBundle(eb));
    GIVES(AM_ERR_IN_USE, AM_MoveEndpoint(ep, eb, other_eb));
    GIVES(AM_ERR_IN_USE, AM_WaitSema(eb));
    GIVES(AM_ERR_IN_USE, AM_SetEventMask(eb, AM_NOTEMPTY));
    GIVES(AM_ERR_IN_USE, AM_AllocateEndpoint(eb, &ep, NULL));
    return NULL;
}

static void from_another_thread(void *token) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, use_token, token) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void set_handlers(void) {
    OK(AM_SetHandler(ep, TRY, try_all));
    OK(AM_SetHandler(ep, REPLY, reply));
    OK(AM_AllocateBundle(AM_SEQ, &other_eb));
}

/* Calls every function with an invalid handle. */
static void no_endpoint(ep_t none) {
    en_t name = {0};
    tag_t tag;
    int number;
    handler_t handler;
    void *address;
    uintptr_t bytes;
    GIVES(AM_ERR_BAD_ARG, AM_FreeEndpoint(none));
    GIVES(AM_ERR_BAD_ARG, AM_MoveEndpoint(none, eb, eb));
    GIVES(AM_ERR_BAD_ARG, AM_SetHandler(none, 1, reply));
    GIVES(AM_ERR_BAD_ARG, AM_SetHandlerAny(none, &handler, reply));
    GIVES(AM_ERR_BAD_ARG, AM_GetNumHandlers(none, &number));
    GIVES(AM_ERR_BAD_ARG, AM_SetNumHandlers(none, 3));
    GIVES(AM_ERR_BAD_ARG, AM_SetSeg(none, &number, sizeof number));
    GIVES(AM_ERR_BAD_ARG, AM_GetSeg(none, &address, &bytes));
    GIVES(AM_ERR_BAD_ARG, AM_SetTag(none, 5));
    GIVES(AM_ERR_BAD_ARG, AM_GetTag(none, &tag));
    GIVES(AM_ERR_BAD_ARG, AM_Map(none, 0, name, 5));
    GIVES(AM_ERR_BAD_ARG, AM_MapAny(none, &number, name, 5));
    GIVES(AM_ERR_BAD_ARG, AM_UnMap(none, 0));
    GIVES(AM_ERR_BAD_ARG, AM_GetTranslationInuse(none, 0));
    GIVES(AM_ERR_BAD_ARG, AM_GetTranslationTag(none, 0, &tag));
    GIVES(AM_ERR_BAD_ARG, AM_GetTranslationName(none, 0, &name));
    GIVES(AM_ERR_BAD_ARG, AM_GetNumTranslations(none, &number));
    GIVES(AM_ERR_BAD_ARG, AM_SetNumTranslations(none, 10));
    GIVES(AM_ERR_BAD_ARG, AM_SetExpectedResources(none, 1, 1));
    GIVES(AM_ERR_BAD_ARG, clump_am_name(none, &name));
    GIVES(AM_ERR_BAD_ARG, AM_Request0(none, 0, 1));
    GIVES(AM_ERR_BAD_ARG, AM_RequestI0(none, 0, 1, "x", 1));
    GIVES(AM_ERR_BAD_ARG, AM_RequestXfer0(none, 0, 0, 1, "x", 1));
    GIVES(AM_ERR_BAD_ARG, AM_RequestXferAsync0(none, 0, 0, 1, "x", 1));
}

static void no_bundle(eb_t none) {
    ep_t fresh;
    en_t name;
    int mask;
    GIVES(AM_ERR_BAD_ARG, AM_AllocateEndpoint(none, &fresh, &name));
    GIVES(AM_ERR_BAD_ARG, AM_FreeBundle(none));
    GIVES(AM_ERR_BAD_ARG, AM_MoveEndpoint(ep, none, eb));
    GIVES(AM_ERR_BAD_ARG, AM_MoveEndpoint(ep, eb, none));
    GIVES(AM_ERR_BAD_ARG, AM_Poll(none));
    GIVES(AM_ERR_BAD_ARG, AM_SetEventMask(none, AM_NOTEMPTY));
    GIVES(AM_ERR_BAD_ARG, AM_GetEventMask(none, &mask));
    GIVES(AM_ERR_BAD_ARG, AM_WaitSema(none));
}

static void bad_arguments(void) {
    int number;
    void *address;
    GIVES(AM_ERR_BAD_ARG, AM_AllocateBundle(7, &other_eb));
    GIVES(AM_ERR_BAD_ARG, AM_AllocateBundle(AM_SEQ, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_AllocateEndpoint(eb, NULL, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_MoveEndpoint(ep, other_eb, eb));
    GIVES(AM_ERR_BAD_ARG, AM_SetHandler(ep, 1, 0));
    GIVES(AM_ERR_BAD_ARG, AM_SetHandlerAny(ep, NULL, reply));
    GIVES(AM_ERR_BAD_ARG, AM_GetNumHandlers(ep, NULL));
    GIVES(AM_ERR_RESOURCE, AM_SetNumHandlers(ep, 257));
    GIVES(AM_ERR_RESOURCE, AM_SetNumHandlers(ep, 0));
    GIVES(AM_ERR_BAD_ARG, AM_MaxNumTranslations(NULL));
    GIVES(AM_ERR_BAD_ARG, AM_MaxSegLength(NULL));
    GIVES(AM_ERR_BAD_ARG, AM_SetSeg(ep, NULL, 1));
    GIVES(AM_ERR_RESOURCE, AM_SetSeg(ep, &number, UINTPTR_MAX));
    GIVES(AM_ERR_BAD_ARG, AM_GetSeg(ep, &address, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_GetSeg(ep, NULL, (uintptr_t *)&address));
    GIVES(AM_ERR_BAD_ARG, AM_GetTag(ep, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_Map(ep, -1, names[0], 1));
    GIVES(AM_ERR_BAD_ARG, AM_Map(ep, 256, names[0], 1));
    GIVES(AM_ERR_IN_USE, AM_Map(ep, 0, names[0], 1));
    GIVES(AM_ERR_BAD_ARG, AM_MapAny(ep, NULL, names[0], 1));
    GIVES(AM_ERR_RESOURCE, AM_UnMap(ep, 255));
    GIVES(AM_ERR_RESOURCE, AM_GetTranslationInuse(ep, 255));
    GIVES(AM_ERR_RESOURCE, AM_SetNumTranslations(ep, 0));
    GIVES(AM_ERR_RESOURCE, AM_SetNumTranslations(ep, 65537));
    GIVES(AM_ERR_BAD_ARG, AM_SetExpectedResources(ep, -1, 1));
    GIVES(AM_ERR_BAD_ARG, AM_SetEventMask(eb, 7));
    GIVES(AM_ERR_BAD_ARG, AM_GetEventMask(eb, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_WaitSema(other_eb)); /* AM_NOEVENTS */
    GIVES(AM_ERR_BAD_ARG, clump_am_request(ep, 0, 1, 17, NULL));
    GIVES(AM_ERR_BAD_ARG, clump_am_request(ep, 0, 1, 3, NULL));
    GIVES(AM_ERR_BAD_ARG, AM_RequestI0(ep, 0, 1, NULL, 1));
    GIVES(AM_ERR_BAD_ARG, AM_GetMsgTag(old_token, NULL)); /* outside of any handler */
    GIVES(AM_ERR_BAD_ARG, AM_Reply0(old_token, 1));
}

/* Calls every function before AM_Init and after AM_Terminate. */
static void not_there(void) {
    eb_t bundle;
    GIVES(AM_ERR_NOT_INIT, AM_Terminate());
    GIVES(AM_ERR_NOT_INIT, AM_AllocateBundle(AM_SEQ, &bundle));
    GIVES(AM_ERR_NOT_INIT, AM_AllocateEndpoint(NULL, NULL, NULL) == AM_ERR_BAD_ARG ? AM_Poll(NULL) : 0);
    GIVES(AM_ERR_NOT_INIT, AM_Request0(NULL, 0, 0));
    GIVES(AM_ERR_NOT_INIT, AM_Poll(NULL));
    EXPECT(AM_MaxMedium() == 0 && clump_am_job() == NULL && AM_MaxShort() == 16);
}

int main(void) {
    not_there();
    world_begin(AM_SEQ, set_handlers);
    OK(AM_Request1(ep, me, TRY, 5));
    OK(AM_Request1(ep, me, TRY, 6));
    UNTIL(tried == 2 && replied == 2);
    bad_arguments();
    int number = 0;
    no_endpoint(NULL);
    no_endpoint((ep_t)(void *)&number);
    no_endpoint((ep_t)(void *)eb);
    no_bundle(NULL);
    no_bundle((eb_t)(void *)&number);
    no_bundle((eb_t)(void *)ep);
    ep_t freed, next;
    OK(AM_AllocateEndpoint(other_eb, &freed, NULL));
    OK(AM_FreeEndpoint(freed));
    no_endpoint(freed);
    OK(AM_AllocateEndpoint(other_eb, &next, NULL));
    no_endpoint(freed);
    OK(AM_FreeBundle(other_eb));
    no_bundle(other_eb);
    no_endpoint(next);
    /* The maximum number of bundles, and one more. */
    eb_t all[64];
    int bundles = 0, endpoints = 0;
    int got;
    while ((got = AM_AllocateBundle(AM_SEQ, &all[bundles])) == AM_OK) EXPECT(++bundles < 64);
    EXPECT(got == AM_ERR_RESOURCE && bundles == 63);
    while ((got = AM_AllocateEndpoint(all[0], &next, NULL)) == AM_OK) endpoints++;
    EXPECT(got == AM_ERR_RESOURCE && endpoints == 30);
    world_end();
    not_there();
    GIVES(AM_ERR_RESOURCE, AM_Init()); /* a job that was left is not joined again */
    return 0;
}
