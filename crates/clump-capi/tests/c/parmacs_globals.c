/* Globals that are stored in while workers run, as programs for threads do: one by a worker, one by
 * main, one by all. Other ranks do not see that. */
#include <clump/parmacs.h>

MAIN_ENV

static struct {
    BARDEC(all)
    LOCKDEC(lock)
    int next, saw;
} * gl;
int view, finished_rounds, of_each_rank[100], workers, untouched = 5;

static void work(void) {
    int me;
    LOCK(gl->lock)
    me = gl->next++;
    UNLOCK(gl->lock)
    of_each_rank[50] = me + 1;
    if (me == 1) view = 7;
    BARRIER(gl->all, workers)
    LOCK(gl->lock)
    gl->saw += view == 7;
    UNLOCK(gl->lock)
}

/* A stream and a table that main alone has. */
static FILE *out;
static int *table;
static void wait_for_main(void) { BARRIER(gl->all, 2) }
static void use_table(void) { fprintf(out, "%d\n", table[1000]); }

int main(int argc, char **argv) {
    int worker;
    MAIN_INITENV()
    if (strcmp(argv[1], "private") == 0) {
        out = fopen("/dev/null", "w");
        table = malloc(64 << 20);
        table[1000] = 5;
        CREATE(use_table)
        WAIT_FOR_END(1)
        MAIN_END
    }
    if (strcmp(argv[1], "leaves") == 0) {
        gl = G_MALLOC(sizeof *gl);
        BARINIT(gl->all, 2)
        CREATE(wait_for_main)
        return 0;
    }
    workers = atoi(argv[argc - 1]);
    gl = G_MALLOC(sizeof *gl);
    LOCKINIT(gl->lock)
    BARINIT(gl->all, workers)
    for (worker = 1; worker < workers; worker++) CREATE(work)
    finished_rounds = 1;
    work();
    WAIT_FOR_END(workers)
    printf("%d of %d saw it\n", gl->saw, workers);
    MAIN_END
}
