/* Transfers between accounts under locks of accounts, in shared virtual memory: most are between
 * accounts of the same rank, whose locks are entered again without messages.
 *
 *   clump-cc -O2 svm_bank.c -o svm_bank && clump run -n 4 --nodes 2 ./svm_bank
 */
#include <clump/svm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ACCOUNTS = 64, START = 1000 };

typedef struct {
    svm_lock lock[ACCOUNTS];
    long money[ACCOUNTS];
} bank;

int main(int argc, char **argv) {
    clump_t *cl = svm_init(&argc, &argv, 1);
    if (cl == NULL) return fprintf(stderr, "%s\n", clump_error_text()), 1;
    int transfers = argc > 1 ? atoi(argv[1]) : 300, me = svm_proc_id(cl), all = svm_nprocs(cl);
    bank *b = svm_alloc_once(cl, sizeof *b);
    long total = 0;
    if (me == 0)
        for (int at = 0; at < ACCOUNTS; at++) {
            svm_lock_init(&b->lock[at]);
            b->money[at] = START;
        }
    svm_barrier(cl);
    uint64_t random = 88172645463325252ull + (uint64_t)me;
    for (int at = 0; at < transfers; at++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        /* One in ten goes to any account. */
        int own = ACCOUNTS / all, from = me * own + (int)(random % (unsigned)own);
        int to = random / 64 % 10 ? me * own + (int)(random / 1024 % (unsigned)own)
                                  : (int)(random / 1024 % ACCOUNTS);
        if (from == to) continue;
        int first = from < to ? from : to, second = from < to ? to : from;
        svm_lock_acquire(&b->lock[first]);
        svm_lock_acquire(&b->lock[second]);
        long sum = (long)(random / 65536 % 50);
        b->money[from] -= sum;
        b->money[to] += sum;
        svm_lock_release(&b->lock[second]);
        svm_lock_release(&b->lock[first]);
    }
    svm_barrier(cl);
    for (int at = 0; at < ACCOUNTS; at++) total += b->money[at];
    if (me == 0)
        printf("%d ranks, %d transfers each: %s\n", all, transfers,
               total == ACCOUNTS * START ? "no money lost" : "MONEY LOST");
    svm_barrier(cl);
    clump_finalize(cl);
    return total != ACCOUNTS * START;
}
