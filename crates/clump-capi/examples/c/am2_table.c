/* A hash table distributed over all ranks, in Active Messages II: every rank puts words into it and
 * looks them up; the hash of a word names its rank. Then a ping-pong, for the time of a round trip.
 *
 *   gcc -O2 am2_table.c $(pkg-config --cflags --libs clump) -o am2_table
 *   clump run -n 4 ./am2_table
 *   clump run -n 4 --nodes 2 ./am2_table
 */
#include <clump/am2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETURNED, PUT, PUT_DONE, GET, GOT, PING, PONG };

#define TAG ((tag_t)0x7ab1e)
#define WORDS_EACH 2000
#define BUCKETS 4096
#define PINGS 10000

static void must(int code, const char *what) {
    if (code == AM_OK) return;
    fprintf(stderr, "%s gave %d: %s\n", what, code, clump_error_text());
    exit(1);
}
#define MUST(call) must((call), #call)

/* This rank's part of the table. */
static struct entry {
    struct entry *next;
    int value;
    size_t bytes;
    char word[];
} *buckets[BUCKETS];

static int waiting; /* replies that are still to come */
static int found, value_found, pong;

static unsigned hash_of(const char *word, size_t bytes) {
    unsigned hash = 2166136261u;
    while (bytes--) hash = (hash ^ (unsigned char)*word++) * 16777619u;
    return hash;
}

static struct entry *find(const char *word, size_t bytes) {
    struct entry *entry = buckets[hash_of(word, bytes) / 64 % BUCKETS];
    while (entry && (entry->bytes != bytes || memcmp(entry->word, word, bytes) != 0)) entry = entry->next;
    return entry;
}

/* Handlers: they run in calls that send, poll or wait, and reply at most once. */
static void put(void *token, void *word, size_t bytes, int value) {
    struct entry *entry = find((const char *)word, bytes);
    if (!entry) {
        struct entry **bucket = &buckets[hash_of((const char *)word, bytes) / 64 % BUCKETS];
        entry = (struct entry *)malloc(sizeof *entry + bytes);
        if (!entry) abort();
        *entry = (struct entry){*bucket, 0, bytes};
        memcpy(entry->word, word, bytes);
        *bucket = entry;
    }
    entry->value += value;
    MUST(AM_Reply0(token, PUT_DONE));
}
static void get(void *token, void *word, size_t bytes) {
    const struct entry *entry = find((const char *)word, bytes);
    MUST(AM_Reply2(token, GOT, entry != NULL, entry ? entry->value : 0));
}
static void put_done(void *token) {
    (void)token;
    waiting--;
}
static void got(void *token, int is_there, int value) {
    (void)token;
    found = is_there;
    value_found = value;
    waiting--;
}
static void ping(void *token, int number) { MUST(AM_Reply1(token, PONG, number)); }
static void ponged(void *token, int number) {
    (void)token;
    pong = number;
}
static void returned(int status, op_t opcode, void *token) {
    (void)token;
    fprintf(stderr, "a message came back: status %d, opcode %d\n", status, opcode);
    exit(1);
}

int main(void) {
    MUST(AM_Init());
    clump_t *job = clump_am_job();
    int me = clump_rank(job), ranks = clump_nranks(job);

    eb_t bundle;
    ep_t ep;
    en_t name, *names = (en_t *)malloc((size_t)ranks * sizeof *names);
    if (!names) abort();
    MUST(AM_AllocateBundle(AM_SEQ, &bundle));
    MUST(AM_AllocateEndpoint(bundle, &ep, &name));
    MUST(AM_SetHandler(ep, RETURNED, returned));
    MUST(AM_SetHandler(ep, PUT, put));
    MUST(AM_SetHandler(ep, PUT_DONE, put_done));
    MUST(AM_SetHandler(ep, GET, get));
    MUST(AM_SetHandler(ep, GOT, got));
    MUST(AM_SetHandler(ep, PING, ping));
    MUST(AM_SetHandler(ep, PONG, ponged));
    MUST(AM_SetTag(ep, TAG));
    MUST(AM_SetEventMask(bundle, AM_NOTEMPTY));

    /* A rank that knows an endpoint's name and tag may send to it. Names are plain bits: gather
     * them. */
    if (clump_all_gather(job, &name, sizeof name, names) != 0) must(AM_ERR_RESOURCE, "clump_all_gather");
    for (int rank = 0; rank < ranks; rank++) MUST(AM_Map(ep, rank, names[rank], TAG));

    /* All ranks put the same words, each its share of each. */
    char word[32];
    for (int at = 0; at < WORDS_EACH; at++) {
        int bytes = snprintf(word, sizeof word, "word %d", at);
        waiting++;
        MUST(AM_RequestI1(ep, (int)(hash_of(word, (size_t)bytes) % (unsigned)ranks), PUT, word, (size_t)bytes, me + 1));
    }
    while (waiting > 0) MUST(AM_WaitSema(bundle));
    /* While a rank waits in a collective, its endpoints are polled. */
    if (clump_barrier(job) != 0) must(AM_ERR_RESOURCE, "clump_barrier");

    int wrong = 0;
    for (int at = me; at < WORDS_EACH + ranks; at += ranks) {
        int bytes = snprintf(word, sizeof word, "word %d", at);
        waiting++;
        MUST(AM_RequestI0(ep, (int)(hash_of(word, (size_t)bytes) % (unsigned)ranks), GET, word, (size_t)bytes));
        while (waiting > 0) MUST(AM_WaitSema(bundle));
        int due = at < WORDS_EACH ? ranks * (ranks + 1) / 2 : 0;
        wrong += found != (at < WORDS_EACH) || value_found != due;
    }
    if (wrong) {
        fprintf(stderr, "rank %d: %d words are wrong\n", me, wrong);
        return 1;
    }

    if (me == 0) {
        uint64_t start = clump_wall_ns();
        for (int number = 1; number <= PINGS; number++) {
            MUST(AM_Request1(ep, ranks - 1, PING, number));
            while (pong != number) MUST(AM_Poll(bundle));
        }
        double took = (double)(clump_wall_ns() - start) / PINGS;
        printf("%d words are right at %d ranks; a round trip took %.0f ns\n", WORDS_EACH, ranks, took);
    }
    if (clump_barrier(job) != 0) must(AM_ERR_RESOURCE, "clump_barrier");

    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (struct entry *entry = buckets[bucket], *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    }
    free(names);
    MUST(AM_Terminate());
    return 0;
}
