/* Calls from what runs at the end of a process: functions of atexit, destructors of static objects
 * and of the program. The endpoint is open until then, and the last one ends the job. */
#include "expect.h"
#include <vector>

namespace {

enum { SUM = 1 };

clump_t *cl;
clump_ep *ep;
int arrived, rounds, next;
const char *how;

void add(clump_token *, const uint64_t *, int, const void *, size_t) { arrived++; }

/* A barrier, and a message around the ring. */
void take_part(const char *where) {
    rounds++;
    OK(clump_barrier(cl));
    OK(clump_request(ep, next, SUM));
    while (arrived < rounds) OK(clump_wait(ep));
    FAILS(CLUMP_ERR_DESTINATION, clump_request(ep, -1, SUM));
    printf("rank %d: %s is right\n", clump_rank(cl), where);
}

void finish() {
    OK(clump_finalize(cl));
    printf("finalize is right\n");
}

void at_exit_first() { if (strcmp(how, "atexit") == 0) finish(); }
void at_exit_last() { take_part("atexit"); }

struct static_object {
    ~static_object() {
        if (strcmp(how, "atexit") == 0) return;
        take_part("a static object");
        if (strcmp(how, "static") == 0) finish();
    }
} object;

__attribute__((destructor)) void at_the_end() {
    if (strcmp(how, "destructor") != 0) return;
    take_part("a destructor");
    finish();
    fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != nullptr && argc > 1);
    how = argv[1];
    ep = clump_ep_open(cl, 1);
    OK(clump_ep_handler(ep, SUM, add));
    std::vector<clump_name> names(clump_nranks(cl));
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names.data()));
    next = clump_ep_map(ep, names[(clump_rank(cl) + 1) % clump_nranks(cl)], 1);
    OK(next);
    OK(clump_barrier(cl));
    OK(atexit(at_exit_first));
    OK(atexit(at_exit_last));
    if (argc > 2) exit(0);
    return 0;
}
