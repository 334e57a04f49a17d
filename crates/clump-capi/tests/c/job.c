/* Joining, finalizing, ranks and nodes, and their misuse. */
#include "expect.h"

int main(int argc, char **argv) {
    EXPECT(clump_abi() == CLUMP_ABI && clump_version()[0] == '0');
    EXPECT(clump_error() == CLUMP_OK && clump_error_text()[0] == '\0' && clump_error_depth() == 0);
    EXPECT(clump_error_cause(0) == NULL && clump_error_cause(-1) == NULL);
    FAILS(CLUMP_ERR_ARGUMENT, clump_rank(NULL));
    EXPECT(clump_error_depth() == 1 && strcmp(clump_error_cause(0), clump_error_text()) == 0);
    NULLS(CLUMP_ERR_VERSION, clump_init_abi(CLUMP_ABI + 1, &argc, &argv));

    EXPECT(strcmp(clump_strerror(CLUMP_OK), clump_strerror(CLUMP_ERR_BUSY)) != 0);
    EXPECT(clump_strerror(12345) != NULL);

    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    int rank = clump_rank(cl), nranks = clump_nranks(cl), node = clump_node(cl), nnodes = clump_nnodes(cl);
    EXPECT(rank >= 0 && rank < nranks && node >= 0 && node < nnodes);
    EXPECT(clump_node_of(cl, rank) == node && clump_node_of(cl, 0) == 0);
    FAILS(CLUMP_ERR_ARGUMENT, clump_node_of(cl, nranks));
    FAILS(CLUMP_ERR_ARGUMENT, clump_node_of(cl, -1));
    NULLS(CLUMP_ERR_ALREADY, clump_init(NULL, NULL));
    uint64_t before = clump_wall_ns();
    OK(clump_barrier(cl));
    EXPECT(clump_wall_ns() >= before);

    /* Without virtual time costs do nothing, and every execution of a region is one. */
    before = clump_now_ns(cl);
    OK(clump_cost(cl, 1000000000000));
    for (int execution = 0; execution < 3; execution++) {
        EXPECT(clump_sample_begin(cl, "region", 1) == 1);
        FAILS(CLUMP_ERR_BUSY, clump_sample_begin(cl, "region", 1));
        OK(clump_sample_end(cl, "region"));
        FAILS(CLUMP_ERR_ARGUMENT, clump_sample_end(cl, "region"));
    }
    FAILS(CLUMP_ERR_ARGUMENT, clump_sample_begin(cl, "region", 0));
    FAILS(CLUMP_ERR_ARGUMENT, clump_sample_begin(cl, NULL, 1));
    EXPECT(clump_now_ns(cl) >= before && clump_now_ns(cl) - before < 1000000000000);
    EXPECT(clump_now_ns(NULL) == 0);

    /* Messages between nodes take 5 ms each way. Between two entries of a rank others have heard of
     * the first, and it of their second. */
    FAILS(CLUMP_ERR_SETTING, clump_emulate(cl, "speed=+5us"));
    FAILS(CLUMP_ERR_ARGUMENT, clump_emulate(cl, NULL));
    OK(clump_emulate(cl, "L=+5ms,scope=net"));
    before = clump_wall_ns();
    OK(clump_barrier(cl));
    OK(clump_barrier(cl));
    EXPECT(nnodes == 1 || clump_wall_ns() - before >= 5000000);
    OK(clump_emulate(cl, ""));

    int local = 0;
    FAILS(CLUMP_ERR_HANDLE, clump_rank((clump_t *)&local));
    FAILS(CLUMP_ERR_HANDLE, clump_rank((clump_t *)((char *)cl + 1)));
    FAILS(CLUMP_ERR_HANDLE, clump_barrier((clump_t *)((char *)cl + 64)));
    FAILS(CLUMP_ERR_HANDLE, clump_barrier((clump_t *)(uintptr_t)8));

    printf("rank %d of %d on node %d of %d\n", rank, nranks, node, nnodes);
    OK(clump_finalize(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_rank(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_barrier(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_finalize(cl));
    NULLS(CLUMP_ERR_ALREADY, clump_init(NULL, NULL));
    return 0;
}
