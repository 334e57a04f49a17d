/* Teams: splits of all kinds, their collectives against what each rank computes by itself, several
 * teams at one time, collectives in two phases with work in between, and misuse. */
#include "expect.h"

#define MOST 64

/* A team, and the ranks of the job that it must consist of. */
typedef struct {
    clump_team *team;
    int me, n, members[MOST];
} crowd;

static clump_t *cl;
static int rank, nranks;

/* The same numbers on all ranks. */
static uint32_t drawn(uint32_t seed) {
    seed = (seed + 1) * 2654435761u;
    seed ^= seed >> 15;
    seed *= 2246822519u;
    return seed ^ seed >> 13;
}

/* What rank `r` of the job gives in round `round`. */
static int64_t given(int r, int round) { return (int64_t)(drawn((uint32_t)(r * 1000 + round)) % 2001) - 1000; }

/* Splits all ranks, and computes whom the team must consist of. A color below 0: in none. */
static crowd divided(clump_team *world, const int64_t *colors, const int64_t *keys) {
    crowd it = {NULL, -1, 0, {0}};
    OK(clump_team_split(world, colors[rank], keys[rank], &it.team));
    EXPECT((it.team == NULL) == (colors[rank] < 0));
    if (colors[rank] < 0) return it;
    for (int r = 0; r < nranks; r++) {
        if (colors[r] != colors[rank]) continue;
        int at = it.n++;
        /* Equal keys stay in the order of ranks. */
        for (; at > 0 && keys[it.members[at - 1]] > keys[r]; at--) it.members[at] = it.members[at - 1];
        it.members[at] = r;
    }
    EXPECT(clump_team_nranks(it.team) == it.n);
    it.me = clump_team_rank(it.team);
    for (int i = 0; i < it.n; i++) EXPECT(clump_team_member(it.team, i) == it.members[i]);
    EXPECT(it.members[it.me] == rank);
    return it;
}

static void values_move(const crowd *it, int round) {
    const int root = (int)(drawn((uint32_t)round) % (uint32_t)it->n);
    int64_t mine[2] = {given(rank, round), rank}, all[2 * MOST], to[2 * MOST], got[2] = {0, 0};
    memset(all, 0, sizeof all);
    OK(clump_team_all_gather(it->team, mine, sizeof mine, all));
    for (int i = 0; i < it->n; i++) EXPECT(all[2 * i] == given(it->members[i], round) && all[2 * i + 1] == it->members[i]);
    memset(all, 0, sizeof all);
    OK(clump_team_gather(it->team, root, mine, sizeof mine, all));
    for (int i = 0; i < it->n; i++) EXPECT(all[2 * i + 1] == (it->me == root ? it->members[i] : 0));
    for (int i = 0; i < 2 * it->n; i++) all[i] = it->me == root ? 100 * i + root : -1;
    OK(clump_team_scatter(it->team, root, all, got, sizeof got));
    EXPECT(got[0] == 200 * it->me + root && got[1] == 200 * it->me + 100 + root);
    memcpy(got, mine, sizeof got);
    OK(clump_team_broadcast(it->team, root, got, sizeof got));
    EXPECT(got[0] == given(it->members[root], round) && got[1] == it->members[root]);
    for (int i = 0; i < 2 * it->n; i++) all[i] = given(rank, round + i);
    OK(clump_team_all_to_all(it->team, all, to, sizeof got));
    for (int i = 0; i < 2 * it->n; i++) EXPECT(to[i] == given(it->members[i / 2], round + 2 * it->me + i % 2));
}

/* The number of bytes that rank `from` of the job gives to `to`: none to some. */
static size_t bytes_between(int from, int to) { return drawn((uint32_t)(from * 77 + to)) % 4 * 1500; }

static void bytes_of_any_number_move(const crowd *it) {
    size_t counts[MOST], got_counts[MOST], total = 0, expected = 0;
    for (int i = 0; i < it->n; i++) {
        total += counts[i] = bytes_between(rank, it->members[i]);
        expected += bytes_between(it->members[i], rank);
    }
    char *from = malloc(total + 1), *to = malloc(expected + 1), *next = from;
    for (int i = 0; i < it->n; next += counts[i++]) memset(next, 'a' + (rank + it->members[i]) % 26, counts[i]);
    OK(clump_team_all_to_all_v(it->team, from, counts, to, expected, got_counts));
    next = to;
    for (int i = 0; i < it->n; next += got_counts[i++]) {
        EXPECT(got_counts[i] == bytes_between(it->members[i], rank));
        for (size_t k = 0; k < got_counts[i]; k++) EXPECT(next[k] == 'a' + (rank + it->members[i]) % 26);
    }
    if (expected > 0) {
        FAILS(CLUMP_ERR_TOO_LONG, clump_team_all_to_all_v(it->team, from, counts, to, expected - 1, got_counts));
        EXPECT(strstr(clump_error_text(), "bytes") != NULL);
        EXPECT(got_counts[0] == bytes_between(it->members[0], rank));
    } else {
        OK(clump_team_all_to_all_v(it->team, from, counts, NULL, 0, got_counts));
    }
    /* In two phases: what was given was copied. */
    memset(to, 0, expected), memset(got_counts, 0, sizeof got_counts);
    clump_pending *begun = clump_team_all_to_all_v_start(it->team, from, counts, to, expected, got_counts);
    EXPECT(begun != NULL);
    memset(from, 0, total), memset(counts, 0, sizeof counts);
    OK(clump_team_barrier(it->team));
    OK(clump_pending_wait(begun, NULL));
    next = to;
    for (int i = 0; i < it->n; next += got_counts[i++]) {
        EXPECT(got_counts[i] == bytes_between(it->members[i], rank));
        for (size_t k = 0; k < got_counts[i]; k++) EXPECT(next[k] == 'a' + (rank + it->members[i]) % 26);
    }
    begun = clump_team_all_to_all_v_start(it->team, from, counts, NULL, 0, got_counts);
    EXPECT(begun != NULL);
    OK(clump_pending_wait(begun, NULL));
    EXPECT(got_counts[it->n - 1] == 0);
    size_t two[MOST] = {0};
    two[0] = 2;
    begun = clump_team_all_to_all_v_start(it->team, "ab", two, to, 1, got_counts);
    EXPECT(begun != NULL);
    if (it->me == 0) FAILS(CLUMP_ERR_TOO_LONG, clump_pending_wait(begun, NULL));
    else OK(clump_pending_wait(begun, NULL));
    EXPECT(got_counts[0] == (it->me == 0 ? 2 : 0));
    free(from), free(to);
}

static void values_are_combined(const crowd *it, int round) {
    const int root = (int)(drawn((uint32_t)round) % (uint32_t)it->n);
    int64_t mine = given(rank, round), got = 77, sum = 0, most = INT64_MIN, before = 77, through = 0;
    for (int i = 0; i < it->n; i++) {
        const int64_t value = given(it->members[i], round);
        if (i == it->me) before = i == 0 ? 77 : through;
        if (i <= it->me) through += value;
        sum += value;
        if (value > most) most = value;
    }
    OK(clump_team_all_reduce(it->team, &mine, &got, 1, CLUMP_I64, CLUMP_MAX));
    EXPECT(got == most);
    got = 77;
    OK(clump_team_reduce(it->team, root, &mine, &got, 1, CLUMP_I64, CLUMP_SUM));
    EXPECT(got == (it->me == root ? sum : 77));
    OK(clump_team_scan(it->team, &mine, &got, 1, CLUMP_I64, CLUMP_SUM));
    EXPECT(got == through);
    got = 77;
    OK(clump_team_exclusive_scan(it->team, &mine, &got, 1, CLUMP_I64, CLUMP_SUM));
    EXPECT(got == before);
    /* Sums of floating-point numbers have the same bits in both ways. */
    double reals[40], sums[40], later[40];
    for (int i = 0; i < 40; i++) reals[i] = (double)given(rank, i) / 3;
    clump_pending *begun = clump_team_all_reduce_start(it->team, reals, later, 40, CLUMP_F64, CLUMP_SUM);
    EXPECT(begun != NULL);
    OK(clump_team_all_reduce(it->team, reals, sums, 40, CLUMP_F64, CLUMP_SUM));
    OK(clump_pending_wait(begun, NULL));
    EXPECT(memcmp(sums, later, sizeof sums) == 0);
}

/* Begins one collective of each kind, does other things, and waits in another order. */
static void collectives_in_two_phases(const crowd *it, int round) {
    const int root = (int)(drawn((uint32_t)round) % (uint32_t)it->n);
    int64_t mine[3] = {given(rank, round), rank, 5}, all[3 * MOST], out[MOST], in[MOST], sums[3], copied[3];
    int64_t reduced = 77, through = 77, before = 77, gathered[3 * MOST], own = 77;
    memcpy(copied, mine, sizeof mine);
    for (int i = 0; i < it->n; i++) out[i] = 1000 * rank + it->members[i];
    gathered[0] = 77;
    clump_pending *begun[10] = {
        clump_team_barrier_start(it->team),
        clump_team_broadcast_start(it->team, root, copied, sizeof copied),
        clump_team_all_reduce_start(it->team, mine, sums, 3, CLUMP_I64, CLUMP_SUM),
        clump_team_all_gather_start(it->team, mine, sizeof mine, all),
        clump_team_all_to_all_start(it->team, out, in, sizeof *out),
        clump_team_reduce_start(it->team, root, mine, &reduced, 1, CLUMP_I64, CLUMP_SUM),
        clump_team_scan_start(it->team, mine, &through, 1, CLUMP_I64, CLUMP_SUM),
        clump_team_exclusive_scan_start(it->team, mine, &before, 1, CLUMP_I64, CLUMP_SUM),
        clump_team_gather_start(it->team, root, mine, sizeof mine, gathered),
        clump_team_scatter_start(it->team, root, out, &own, sizeof own),
    };
    for (int i = 0; i < 10; i++) EXPECT(begun[i] != NULL);
    /* What was given was copied. */
    memset(mine, 0, sizeof mine), memset(out, 0, sizeof out);
    values_are_combined(it, round + 1);
    clump_pending *dropped = clump_team_barrier_start(it->team);
    EXPECT(dropped != NULL);
    OK(clump_pending_drop(dropped));
    uint64_t word = 9;
    int done;
    for (int i = 0; i < 10; i++) {
        clump_pending *next = begun[(i + round) % 10];
        if (i % 2 == 0) {
            while ((done = clump_pending_test(next)) == 0) {}
            EXPECT(done == 1);
        }
        OK(clump_pending_wait(next, &word));
        FAILS(CLUMP_ERR_HANDLE, clump_pending_wait(next, &word));
        EXPECT(word == 0);
    }
    int64_t sum = 0, ranks = 0, lower = 0;
    for (int i = 0; i < it->n; i++) {
        if (i == it->me) lower = sum;
        sum += given(it->members[i], round), ranks += it->members[i];
    }
    EXPECT(reduced == (it->me == root ? sum : 77) && through == lower + given(rank, round));
    EXPECT(before == (it->me > 0 ? lower : 77) && own == 1000 * it->members[root] + rank);
    for (int i = 0; it->me == root && i < it->n; i++) EXPECT(gathered[3 * i] == given(it->members[i], round));
    EXPECT(it->me == root || gathered[0] == 77);
    EXPECT(sums[0] == sum && sums[1] == ranks && sums[2] == 5 * it->n);
    EXPECT(copied[0] == given(it->members[root], round) && copied[1] == it->members[root]);
    for (int i = 0; i < it->n; i++) EXPECT(all[3 * i] == given(it->members[i], round) && all[3 * i + 2] == 5);
    for (int i = 0; i < it->n; i++) EXPECT(in[i] == 1000 * it->members[i] + rank);
}

static void everything(const crowd *it, int round) {
    if (it->team == NULL) return;
    OK(clump_team_barrier(it->team));
    values_move(it, round);
    values_are_combined(it, round);
    bytes_of_any_number_move(it);
    collectives_in_two_phases(it, round);
}

/* Rows and columns, odd and even, backwards, teams of one, random ones; several at one time. */
static void splits(clump_team *world) {
    enum { KINDS = 8 };
    crowd teams[KINDS];
    const int width = nranks > 3 ? 2 : 1;
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t colors[MOST], keys[MOST];
        for (int r = 0; r < nranks; r++) {
            const uint32_t luck = drawn((uint32_t)(kind * 100 + r));
            const int64_t kinds[KINDS] = {r / width, r % width, r % 2, 7, r, luck % 3, (int64_t)(luck % 3) - 1,
                                          INT64_MAX};
            colors[r] = kinds[kind];
            keys[r] = kind == 3 ? -r : kind >= 5 ? (int64_t)(luck / 3 % 3) - 1 : 0;
        }
        teams[kind] = divided(world, colors, keys);
    }
    for (int kind = 0; kind < KINDS; kind++) everything(&teams[kind], kind);
    /* Under way at one time: those of row, column and all. */
    clump_team *at_once[3] = {teams[0].team, teams[1].team, world};
    int32_t one = 1, counts[3] = {0, 0, 0};
    clump_pending *begun[3];
    for (int i = 0; i < 3; i++)
        begun[i] = clump_team_all_reduce_start(at_once[i], &one, &counts[i], 1, CLUMP_I32, CLUMP_SUM);
    for (int i = 2; i >= 0; i--) {
        EXPECT(begun[i] != NULL);
        OK(clump_pending_wait(begun[i], NULL));
        EXPECT(counts[i] == clump_team_nranks(at_once[i]));
    }
    /* A team of a team; and one that is freed while its collective is under way. */
    clump_team *half = NULL;
    OK(clump_team_split(teams[2].team, teams[2].me % 2, 0, &half));
    EXPECT(clump_team_nranks(half) == (teams[2].n + (teams[2].me + 1) % 2) / 2);
    EXPECT(clump_team_member(half, clump_team_rank(half)) == rank);
    int32_t sum = 0;
    clump_pending *later = clump_team_all_reduce_start(half, &one, &sum, 1, CLUMP_I32, CLUMP_SUM);
    const int n = clump_team_nranks(half);
    OK(clump_team_free(half));
    FAILS(CLUMP_ERR_HANDLE, clump_team_nranks(half));
    OK(clump_pending_wait(later, NULL));
    EXPECT(sum == n);
    OK(clump_team_barrier(world));
    for (int kind = 0; kind < KINDS; kind++) OK(clump_team_free(teams[kind].team));
}

static clump_team *used;
static clump_pending *waited_for;
static int handled;

/* Makes the calls that wait for other ranks, which are refused in a handler. */
static void waits(clump_token *t, const uint64_t *words, int nwords, const void *payload, size_t bytes) {
    (void)t, (void)words, (void)nwords, (void)payload, (void)bytes;
    clump_team *part;
    int32_t x = 1;
    FAILS(CLUMP_ERR_IN_HANDLER, clump_team_barrier(used));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_team_split(used, 1, 1, &part));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_team_all_reduce(used, &x, &x, 1, CLUMP_I32, CLUMP_SUM));
    NULLS(CLUMP_ERR_IN_HANDLER, clump_team_barrier_start(used));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_pending_test(waited_for));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_pending_wait(waited_for, NULL));
    EXPECT(clump_team_rank(used) == rank);
    handled++;
}

static void calls_in_handlers(clump_team *world) {
    clump_ep *ep = clump_ep_open(cl, 3);
    OK(clump_ep_handler(ep, 1, waits));
    const int self = clump_ep_map(ep, clump_ep_name(ep), 3);
    used = world;
    waited_for = clump_team_barrier_start(world);
    OK(clump_request(ep, self, 1));
    while (handled == 0) OK(clump_poll(ep));
    OK(clump_pending_wait(waited_for, NULL));
    OK(clump_ep_close(ep));
}

static void misuse(clump_team *world) {
    int32_t x = 1, y[MOST];
    size_t bytes[MOST] = {0};
    clump_team *part;
    const int n = nranks;
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_barrier(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_member(world, n));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_member(world, -1));
    EXPECT(strstr(clump_error_text(), "-1 as a rank") != NULL);
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_split(world, 1, 1, NULL));
    EXPECT(strstr(clump_error_text(), "the place for the new team") != NULL);
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_split(NULL, 1, 1, &part));
    FAILS(CLUMP_ERR_HANDLE, clump_team_barrier((clump_team *)(void *)cl));
    FAILS(CLUMP_ERR_HANDLE, clump_barrier((clump_t *)(void *)world));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_world(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_broadcast(world, n, &x, sizeof x));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_broadcast(world, 0, NULL, sizeof x));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_gather(world, -1, &x, sizeof x, y));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_scatter(world, n, y, &x, sizeof x));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_all_gather(world, NULL, 4, y));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_all_to_all(world, y, NULL, 4));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_all_to_all_v(world, y, NULL, y, 4, bytes));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_all_to_all_v(world, y, bytes, y, 4, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_reduce(world, n, &x, &x, 1, CLUMP_I32, CLUMP_SUM));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_all_reduce(world, &x, &x, 1, (clump_type){0}, CLUMP_SUM));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_scan(world, &x, &x, 1, CLUMP_F32, CLUMP_XOR));
    FAILS(CLUMP_ERR_ARGUMENT, clump_team_exclusive_scan(world, NULL, &x, 1, CLUMP_I32, CLUMP_SUM));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_barrier_start(NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_broadcast_start(world, n, &x, sizeof x));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_broadcast_start(world, 0, NULL, sizeof x));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_reduce_start(world, &x, NULL, 1, CLUMP_I32, CLUMP_SUM));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_reduce_start(world, &x, y, 1, CLUMP_I32, (clump_op){9}));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_gather_start(world, &x, sizeof x, NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_gather_start(world, &x, SIZE_MAX, y));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_to_all_start(world, NULL, y, 4));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_reduce_start(world, n, &x, y, 1, CLUMP_I32, CLUMP_SUM));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_scan_start(world, NULL, y, 1, CLUMP_I32, CLUMP_SUM));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_exclusive_scan_start(world, NULL, y, 1, CLUMP_I32, CLUMP_SUM));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_gather_start(world, -1, &x, sizeof x, y));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_scatter_start(world, 0, y, NULL, sizeof x));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_to_all_v_start(world, y, NULL, y, 4, bytes));
    NULLS(CLUMP_ERR_ARGUMENT, clump_team_all_to_all_v_start(world, y, bytes, y, 4, NULL));
    /* All find out that they do not agree, and go on. */
    if (n > 1) FAILS(CLUMP_ERR_ARGUMENT, clump_team_all_gather(world, &x, rank == 0 ? 1 : 4, y));
    OK(clump_team_free(NULL));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    rank = clump_rank(cl), nranks = clump_nranks(cl);
    EXPECT(nranks <= MOST);
    clump_team *world = clump_team_world(cl), *again = clump_team_world(cl);
    EXPECT(world != NULL && clump_team_rank(world) == rank && clump_team_nranks(again) == nranks);
    OK(rank == 0 ? clump_barrier(cl) : clump_team_barrier(world));
    OK(clump_team_free(again));
    crowd all = {world, rank, nranks, {0}};
    for (int r = 0; r < nranks; r++) all.members[r] = r;
    everything(&all, 50);
    /* The job has it, too. */
    size_t four[MOST], got[MOST];
    int32_t to[MOST], from[MOST];
    for (int r = 0; r < nranks; r++) four[r] = 4, from[r] = 100 * rank + r;
    OK(clump_all_to_all_v(cl, from, four, to, sizeof to, got));
    for (int r = 0; r < nranks; r++) EXPECT(got[r] == 4 && to[r] == 100 * r + rank);
    splits(world);
    misuse(world);
    calls_in_handlers(world);
    splits(world);
    OK(clump_team_barrier(world));
    /* The team that is open is closed with the job. */
    OK(clump_finalize(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_team_barrier(world));
    printf("rank %d: teams are right\n", rank);
    return 0;
}
