/* All-gather, broadcast and all-reduce, and their misuse. */
#include "expect.h"

#define REDUCED(type, number, values, op, expected)                                                          \
    do {                                                                                                     \
        type from_[2] = {values, values}, to_[2] = {0};                                                      \
        OK(clump_all_reduce(cl, from_, to_, 2, number, op));                                                 \
        EXPECT(to_[0] == (type)(expected) && to_[1] == (type)(expected));                                    \
        OK(clump_all_reduce(cl, from_, from_, 2, number, op));                                               \
        EXPECT(from_[0] == (type)(expected));                                                                \
    } while (0)

#define INTEGER(type, number)                                                                                \
    do {                                                                                                     \
        NUMBER(type, number);                                                                                \
        REDUCED(type, number, (type)(rank + 4), CLUMP_AND, and_all);                                         \
        REDUCED(type, number, (type)(rank + 4), CLUMP_OR, or_all);                                           \
        REDUCED(type, number, (type)(rank + 4), CLUMP_XOR, xor_all);                                         \
    } while (0)
#define NUMBER(type, number)                                                                                 \
    do {                                                                                                     \
        REDUCED(type, number, (type)(rank + 1), CLUMP_SUM, n * (n + 1) / 2);                                 \
        REDUCED(type, number, (type)(rank + 1), CLUMP_PRODUCT, product);                                     \
        REDUCED(type, number, (type)(rank + 1), CLUMP_MIN, 1);                                               \
        REDUCED(type, number, (type)(rank + 1), CLUMP_MAX, n);                                               \
    } while (0)

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    int rank = clump_rank(cl), n = clump_nranks(cl), product = 1, and_all = -1, or_all = 0, xor_all = 0;
    for (int r = 0; r < n; r++) product *= r + 1, and_all &= r + 4, or_all |= r + 4, xor_all ^= r + 4;
    INTEGER(uint8_t, CLUMP_U8);
    INTEGER(uint16_t, CLUMP_U16);
    INTEGER(uint32_t, CLUMP_U32);
    INTEGER(uint64_t, CLUMP_U64);
    INTEGER(int8_t, CLUMP_I8);
    INTEGER(int16_t, CLUMP_I16);
    INTEGER(int32_t, CLUMP_I32);
    INTEGER(int64_t, CLUMP_I64);
    NUMBER(float, CLUMP_F32);
    NUMBER(double, CLUMP_F64);
    double x = 1, y = 0;
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, &x, &y, 1, CLUMP_F64, CLUMP_AND));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, &x, &y, 1, CLUMP_U64, (clump_op){8}));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, &x, &y, 1, (clump_type){11}, CLUMP_SUM));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, NULL, &y, 1, CLUMP_U8, CLUMP_SUM));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, &x, NULL, 1, CLUMP_U8, CLUMP_SUM));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, &x, &y, SIZE_MAX, CLUMP_U64, CLUMP_SUM));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(NULL, &x, &y, 1, CLUMP_U64, CLUMP_SUM));
    OK(clump_all_reduce(cl, NULL, NULL, 0, CLUMP_U64, CLUMP_SUM));

    struct { int rank; char name[20]; } mine = {rank, "me"}, *all = calloc((size_t)n, sizeof mine);
    OK(clump_all_gather(cl, &mine, sizeof mine, all));
    for (int r = 0; r < n; r++) EXPECT(all[r].rank == r && strcmp(all[r].name, "me") == 0);
    OK(clump_all_gather(cl, NULL, 0, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather(cl, NULL, 1, all));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather(cl, &mine, 1, NULL));
    if (n > 1) FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather(cl, &mine, rank == 0 ? 3 : 4, all));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather_u64(cl, 1, NULL));
    /* In place: a rank's contribution is in the result buffer. */
    uint32_t *placed = calloc((size_t)n, sizeof *placed);
    placed[rank] = (uint32_t)rank + 7;
    OK(clump_all_gather(cl, &placed[rank], sizeof *placed, placed));
    for (int r = 0; r < n; r++) EXPECT(placed[r] == (uint32_t)r + 7);
    OK(clump_gather(cl, n - 1, &placed[rank], sizeof *placed, placed));
    OK(clump_scatter(cl, 0, placed, placed, sizeof *placed));
    EXPECT(placed[0] == (uint32_t)rank + 7);
    for (int r = 0; r < n; r++) placed[r] = (uint32_t)(1000 * rank + r);
    OK(clump_all_to_all(cl, placed, placed, sizeof *placed));
    for (int r = 0; r < n; r++) EXPECT(placed[r] == (uint32_t)(1000 * r + rank));
    free(placed);
    /* All find out that they do not agree, and go on. */
    char *from = calloc((size_t)n, 4096), *to = calloc((size_t)n, 4096);
    if (n > 1) FAILS(CLUMP_ERR_ARGUMENT, clump_all_to_all(cl, from, to, rank == 0 ? 1 : 4096));
    if (n > 1) FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather(cl, from, rank == 0 ? 0 : 8, to));
    if (n > 1) FAILS(CLUMP_ERR_ARGUMENT, clump_all_reduce(cl, from, to, rank == 0 ? 0 : 8, CLUMP_U8, CLUMP_SUM));
    /* A rank with wrong arguments takes part: no rank waits for it, and the next call is that of all. */
    int wrong = rank == n - 1, got[4];
    got[0] = clump_gather(cl, n - 1, from, 9, wrong ? NULL : to);
    got[1] = clump_scatter(cl, n - 1, wrong ? NULL : from, to, 9);
    got[2] = clump_broadcast(cl, wrong ? n : 0, from, 9);
    got[3] = clump_all_to_all_v(cl, from, NULL, to, 4096, NULL);
    EXPECT(clump_error_took_part() == 1);
    for (int i = 0; i < 4; i++) EXPECT(wrong ? got[i] == CLUMP_ERR_ARGUMENT : got[i] == 0 || got[i] == CLUMP_ERR_ARGUMENT);
    OK(clump_barrier(cl));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather(cl, from, 8, wrong ? NULL : to));
    EXPECT(clump_error_took_part() == 1);
    /* The same with collectives that are begun. */
    clump_team *team = clump_team_world(cl);
    EXPECT(team != NULL);
    for (int i = 0; i < 5; i++) {
        clump_pending *begun = i == 0   ? clump_team_gather_start(team, n - 1, from, 9, wrong ? NULL : to)
                               : i == 1 ? clump_team_scatter_start(team, n - 1, wrong ? NULL : from, to, 9)
                               : i == 2 ? clump_team_broadcast_start(team, wrong ? n : 0, from, 9)
                               : i == 3 ? clump_team_all_gather_start(team, from, 9, wrong ? NULL : to)
                                        : clump_team_all_reduce_start(team, wrong ? NULL : from, to, 9, CLUMP_U8, CLUMP_SUM);
        EXPECT((begun == NULL) == wrong);
        if (wrong) EXPECT(clump_error_took_part() == 1);
        int end = wrong ? 0 : clump_pending_wait(begun, NULL);
        EXPECT(end == 0 || end == CLUMP_ERR_ARGUMENT);
        OK(clump_team_barrier(team));
    }
    OK(clump_team_free(team));
    free(from), free(to);
    free(all);
    uint64_t *words = calloc((size_t)n, 8);
    OK(clump_all_gather_u64(cl, (uint64_t)rank * 3, words));
    for (int r = 0; r < n; r++) EXPECT(words[r] == (uint64_t)r * 3);
    free(words);
    char text[100000];
    memset(text, rank == n - 1 ? 'x' : 0, sizeof text);
    OK(clump_broadcast(cl, n - 1, text, sizeof text));
    for (size_t i = 0; i < sizeof text; i++) EXPECT(text[i] == 'x');
    FAILS(CLUMP_ERR_ARGUMENT, clump_broadcast(cl, n, text, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_broadcast(cl, -1, text, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_broadcast(cl, 0, NULL, 1));
    OK(clump_barrier(cl));
    OK(clump_finalize(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_broadcast(cl, 0, text, 1));
    printf("rank %d: collectives are right\n", rank);
    return 0;
}
