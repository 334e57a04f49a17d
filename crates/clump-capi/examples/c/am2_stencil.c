/* Heat in a rod: a one-dimensional stencil on all processes, in Active Messages II alone, as
 * programs of its time were written. Its only environment is a folder that all processes see, and
 * the number of processes:
 *
 *     clump run -n 4 --nodes 2 ./am2_stencil FOLDER 4 CELLS STEPS
 *
 * Each process has some of the cells. In each step it sends its outermost cells to its neighbours
 * (short requests), and computes when it has theirs. Every tenth step all processes add up how much
 * has changed (requests up a tree, and down again when the root has the sum). In the end the first
 * process gets all cells, as deposits into its segment, and a count of warm and cold ones as medium
 * messages. It computes the same alone, and compares.
 */
#define _POSIX_C_SOURCE 200809L
#include <am2.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG ((tag_t)0x68656174)
#define MOST 64
#define CLASSES 16
/* Handlers. */
enum { RETURNED, HALO, CHANGE, TOTAL, FIELD, STORED, CLASS, ARRIVE };

static eb_t bundle;
static ep_t endpoint;
static int me, processes;
/* Cells of the rod, those of this process with one more at each end, and the same a step later. */
static int cells, first, mine;
static double *now, *next;

/* Halos by step, even and odd: a neighbour is one step ahead at most. */
static double halo[2][2];
static int arrived[2][2];
/* The sum that goes up and down the tree. */
static double sum, total;
static int children_heard, totals;
/* For the first process: all cells, and how many cells and counts have come. */
static double *field;
static int stored, acknowledged, classes_heard, classes[CLASSES];
/* Arrivals in rounds of the barrier, even and odd: the process 1, 2, 4, ... before this one has
 * come. */
static int barrier_of, arrivals[2][8];

static void fail(const char *what) {
    fprintf(stderr, "process %d: %s\n", me, what);
    exit(1);
}
static void check(int status, const char *what) {
    if (status != AM_OK) fail(what);
}
#define CHECK(call) check((call), #call)

/* A double as two arguments, and back. */
static int high(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(uint32_t)(bits >> 32);
}
static int low(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(uint32_t)bits;
}
static double number(int high, int low) {
    uint64_t bits = (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void on_returned(int status, op_t opcode, void *token) {
    (void)token;
    fprintf(stderr, "process %d: a message came back: status %d, opcode %d\n", me, status, opcode);
    exit(1);
}
static void on_halo(void *token, int step, int side, int h, int l) {
    (void)token;
    halo[step & 1][side] = number(h, l);
    arrived[step & 1][side] = 1;
}
static void on_change(void *token, int h, int l) {
    (void)token;
    sum += number(h, l);
    children_heard++;
}
static void on_total(void *token, int h, int l) {
    (void)token;
    total = number(h, l);
    totals++;
}
static void on_field(void *token, void *at, size_t bytes, int from, int count) {
    if ((double *)at != field + from || bytes != (size_t)count * sizeof(double)) fail("a deposit elsewhere");
    stored += count;
    CHECK(AM_Reply1(token, STORED, count));
}
static void on_stored(void *token, int count) {
    (void)token;
    acknowledged += count;
}
static void on_class(void *token, void *counts, size_t bytes) {
    (void)token;
    if (bytes != sizeof classes) fail("a list of another length");
    for (int at = 0; at < CLASSES; at++) classes[at] += ((int *)counts)[at];
    classes_heard++;
}
static void on_arrive(void *token, int barrier, int round) {
    (void)token;
    arrivals[barrier & 1][round] = 1;
}

/* Dissemination barrier: each process notifies the one 1, 2, 4, ... after it. */
static void barrier(void) {
    for (int round = 0, step = 1; step < processes; round++, step *= 2) {
        CHECK(AM_Request2(endpoint, (me + step) % processes, ARRIVE, barrier_of, round));
        while (!arrivals[barrier_of & 1][round]) CHECK(AM_Poll(bundle));
        arrivals[barrier_of & 1][round] = 0;
    }
    barrier_of++;
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(en_t)); }

/* Finds the names of all processes: each writes its own to a file, and reads all when there are
 * enough. The first in the order of names is process 0. */
static void meet(const char *folder, en_t own) {
    char path[4096], done[8192];
    unsigned char bytes[sizeof own];
    int length = 0;
    memcpy(bytes, &own, sizeof own);
    length = snprintf(path, sizeof path, "%s/", folder);
    for (size_t at = 0; at < sizeof bytes; at++) length += snprintf(path + length, 4, "%02x", bytes[at]);
    snprintf(done, sizeof done, "%s.name", path);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(&own, sizeof own, 1, file) != 1 || fclose(file) != 0) fail("writing my name");
    /* The rename makes the file visible at once, and whole. */
    if (rename(path, done) != 0) fail("showing my name");
    en_t names[MOST];
    int count = 0;
    while (count < processes) {
        DIR *all = opendir(folder);
        if (all == NULL) fail("reading the folder");
        count = 0;
        for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
            if (strstr(entry->d_name, ".name") == NULL || count == MOST) continue;
            snprintf(done, sizeof done, "%s/%s", folder, entry->d_name);
            file = fopen(done, "rb");
            if (file == NULL || fread(&names[count++], sizeof own, 1, file) != 1) fail("reading a name");
            fclose(file);
        }
        closedir(all);
        CHECK(AM_Poll(bundle));
    }
    qsort(names, (size_t)processes, sizeof own, by_bytes);
    for (int process = 0; process < processes; process++) {
        CHECK(AM_Map(endpoint, process, names[process], TAG));
        if (memcmp(&names[process], &own, sizeof own) == 0) me = process;
    }
}

/* Returns the sum of the values of all processes. */
static double all_sum(double value) {
    int left = 2 * me + 1, right = 2 * me + 2;
    int children = (left < processes) + (right < processes), before = totals;
    while (children_heard < children) CHECK(AM_Poll(bundle));
    children_heard = 0;
    value += sum;
    sum = 0;
    if (me == 0) {
        total = value;
    } else {
        CHECK(AM_Request2(endpoint, (me - 1) / 2, CHANGE, high(value), low(value)));
        while (totals == before) CHECK(AM_Poll(bundle));
    }
    double whole = total;
    if (left < processes) CHECK(AM_Request2(endpoint, left, TOTAL, high(whole), low(whole)));
    if (right < processes) CHECK(AM_Request2(endpoint, right, TOTAL, high(whole), low(whole)));
    return whole;
}

static double begins(int cell) { return cell % 7 == 3 ? 100.0 : (double)(cell % 5); }
static double after(double left, double self, double right) { return self + 0.25 * (left - 2 * self + right); }

/* Computes one step; both ends of the rod are at 0. */
static double step(int at) {
    int even = at & 1;
    if (me > 0) CHECK(AM_Request4(endpoint, me - 1, HALO, at, 1, high(now[1]), low(now[1])));
    if (me < processes - 1) CHECK(AM_Request4(endpoint, me + 1, HALO, at, 0, high(now[mine]), low(now[mine])));
    while ((me > 0 && !arrived[even][0]) || (me < processes - 1 && !arrived[even][1])) CHECK(AM_Poll(bundle));
    arrived[even][0] = arrived[even][1] = 0;
    now[0] = me > 0 ? halo[even][0] : 0;
    now[mine + 1] = me < processes - 1 ? halo[even][1] : 0;
    double change = 0;
    for (int cell = 1; cell <= mine; cell++) {
        next[cell] = after(now[cell - 1], now[cell], now[cell + 1]);
        change += next[cell] > now[cell] ? next[cell] - now[cell] : now[cell] - next[cell];
    }
    double *swap = now;
    now = next;
    next = swap;
    return change;
}

static int class_of(double value) {
    int class_ = (int)(value * CLASSES / 100.0);
    return class_ < 0 ? 0 : class_ >= CLASSES ? CLASSES - 1 : class_;
}

/* Sends all cells and counts to process 0. */
static void gather(void) {
    int counts[CLASSES] = {0}, piece = 100;
    for (int cell = 1; cell <= mine; cell++) counts[class_of(now[cell])]++;
    for (int from = 0; from < mine; from += piece) {
        int count = mine - from < piece ? mine - from : piece;
        CHECK(AM_RequestXfer2(endpoint, 0, (uintptr_t)(first + from) * sizeof(double), FIELD, now + 1 + from,
                              (size_t)count * sizeof(double), first + from, count));
    }
    CHECK(AM_RequestI0(endpoint, 0, CLASS, counts, sizeof counts));
    while (acknowledged < mine || (me == 0 && (stored < cells || classes_heard < processes)))
        CHECK(AM_Poll(bundle));
}

/* Computes the result in one process, and compares. */
static void compare(int steps) {
    double *rod = (double *)calloc((size_t)cells + 2, sizeof *rod), *then = (double *)calloc((size_t)cells + 2, sizeof *then);
    int counts[CLASSES] = {0};
    if (rod == NULL || then == NULL) fail("memory");
    for (int cell = 0; cell < cells; cell++) rod[cell + 1] = begins(cell);
    for (int at = 0; at < steps; at++) {
        for (int cell = 1; cell <= cells; cell++) then[cell] = after(rod[cell - 1], rod[cell], rod[cell + 1]);
        double *swap = rod;
        rod = then;
        then = swap;
    }
    for (int cell = 0; cell < cells; cell++) {
        if (rod[cell + 1] != field[cell]) fail("a cell is wrong");
        counts[class_of(field[cell])]++;
    }
    if (memcmp(counts, classes, sizeof counts) != 0) fail("a count is wrong");
    printf("all %d cells are right after %d steps\n", cells, steps);
    free(rod);
    free(then);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s FOLDER PROCESSES CELLS STEPS\n", argv[0]);
        return 2;
    }
    processes = atoi(argv[2]);
    cells = atoi(argv[3]);
    int steps = atoi(argv[4]);
    if (processes < 1 || processes > MOST || cells < processes || steps < 0) fail("numbers that make no sense");
    en_t own;
    CHECK(AM_Init());
    CHECK(AM_AllocateBundle(AM_SEQ, &bundle));
    CHECK(AM_AllocateEndpoint(bundle, &endpoint, &own));
    CHECK(AM_SetExpectedResources(endpoint, processes, 4));
    field = (double *)calloc((size_t)cells, sizeof *field);
    if (field == NULL) fail("memory");
    CHECK(AM_SetSeg(endpoint, field, (uintptr_t)cells * sizeof *field));
    CHECK(AM_SetHandler(endpoint, RETURNED, on_returned));
    CHECK(AM_SetHandler(endpoint, HALO, on_halo));
    CHECK(AM_SetHandler(endpoint, CHANGE, on_change));
    CHECK(AM_SetHandler(endpoint, TOTAL, on_total));
    CHECK(AM_SetHandler(endpoint, FIELD, on_field));
    CHECK(AM_SetHandler(endpoint, STORED, on_stored));
    CHECK(AM_SetHandler(endpoint, CLASS, on_class));
    CHECK(AM_SetHandler(endpoint, ARRIVE, on_arrive));
    CHECK(AM_SetTag(endpoint, TAG));
    meet(argv[1], own);

    first = (int)((long)cells * me / processes);
    mine = (int)((long)cells * (me + 1) / processes) - first;
    now = (double *)calloc((size_t)mine + 2, sizeof *now);
    next = (double *)calloc((size_t)mine + 2, sizeof *next);
    if (now == NULL || next == NULL) fail("memory");
    for (int cell = 0; cell < mine; cell++) now[cell + 1] = begins(first + cell);
    double changed = 0;
    for (int at = 0; at < steps; at++) {
        double change = step(at);
        if (at % 10 == 9) changed = all_sum(change);
    }
    gather();
    if (me == 0) {
        compare(steps);
        printf("the last sum of changes was %.3f\n", changed);
    }
    barrier();
    CHECK(AM_Terminate());
    free(now);
    free(next);
    free(field);
    return 0;
}
