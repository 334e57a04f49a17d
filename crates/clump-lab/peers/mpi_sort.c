/* What `clump lab applications` runs on an MPI: sorts of uniform 32-bit keys, `radix` by two digits
 * of 16 bits, `sample` by splitters and a local sort, both with all-to-all-v. Keys are drawn before
 * the clock starts and checked after it stops. Prints "seconds X" and "wrong N".
 * Usage: mpi_sort radix|sample KEYS */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 1 << 16, OVERSAMPLE = 128 };

static int rank, ranks;
static int *out_counts, *out_begins, *in_counts, *in_begins;

static void *memory(size_t bytes) {
  void *got = malloc(bytes ? bytes : 1);
  if (!got) {
    fprintf(stderr, "no memory for %zu bytes\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return got;
}

static uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/* First key of a rank, of equal blocks. */
static uint64_t first_of(uint64_t keys, int of) {
  uint64_t block = (keys + ranks - 1) / ranks;
  return block * of < keys ? block * of : keys;
}

static void sort_by_digit(const uint32_t *from, uint32_t *to, size_t n, int shift, int bits) {
  size_t *next = memory(sizeof *next << bits);
  memset(next, 0, sizeof *next << bits);
  uint32_t mask = (1u << bits) - 1;
  for (size_t i = 0; i < n; i++) next[from[i] >> shift & mask]++;
  size_t sum = 0;
  for (size_t d = 0; d <= mask; d++) {
    size_t count = next[d];
    next[d] = sum;
    sum += count;
  }
  for (size_t i = 0; i < n; i++) to[next[from[i] >> shift & mask]++] = from[i];
  free(next);
}

/* Sends `out`, which lies in order of its targets, whose counts are in `out_counts`; returns the
 * keys that came, in order of their senders. */
static uint32_t *deal(const uint32_t *out, size_t *n) {
  MPI_Alltoall(out_counts, 1, MPI_INT, in_counts, 1, MPI_INT, MPI_COMM_WORLD);
  size_t came = 0;
  for (int r = 0, sent = 0; r < ranks; r++) {
    out_begins[r] = sent;
    in_begins[r] = (int)came;
    sent += out_counts[r];
    came += in_counts[r];
  }
  uint32_t *in = memory(came * sizeof *in);
  MPI_Alltoallv(out, out_counts, out_begins, MPI_UINT32_T, in, in_counts, in_begins, MPI_UINT32_T,
                MPI_COMM_WORLD);
  *n = came;
  return in;
}

/* One pass: keys go to the ranks of their places, and there into order. */
static uint32_t *pass(uint32_t *keys, size_t *n, uint64_t total, int shift) {
  uint64_t *counts = memory(DIGITS * sizeof *counts), *before = memory(DIGITS * sizeof *before);
  uint64_t *all = memory(DIGITS * sizeof *all);
  memset(counts, 0, DIGITS * sizeof *counts);
  memset(before, 0, DIGITS * sizeof *before);
  for (size_t i = 0; i < *n; i++) counts[keys[i] >> shift & (DIGITS - 1)]++;
  MPI_Exscan(counts, before, DIGITS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) memset(before, 0, DIGITS * sizeof *before);
  MPI_Allreduce(counts, all, DIGITS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  uint32_t *ordered = memory(*n * sizeof *ordered);
  sort_by_digit(keys, ordered, *n, shift, 16);
  memset(out_counts, 0, ranks * sizeof *out_counts);
  uint64_t block = (total + ranks - 1) / ranks, begin = 0;
  for (int d = 0; d < DIGITS; d++) {
    /* The keys of a digit have places in a row, which may be of several ranks. */
    uint64_t place = begin + before[d], end = place + counts[d];
    while (place < end) {
      uint64_t owner = place / block, next = (owner + 1) * block;
      uint64_t here = (end < next ? end : next) - place;
      out_counts[owner] += (int)here;
      place += here;
    }
    begin += all[d];
  }
  free(keys);
  uint32_t *came = deal(ordered, n);
  free(ordered);
  uint32_t *sorted = memory(*n * sizeof *sorted);
  sort_by_digit(came, sorted, *n, shift, 16);
  free(came);
  free(counts);
  free(before);
  free(all);
  return sorted;
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static uint32_t *sample_sort(uint32_t *keys, size_t *n) {
  uint32_t drawn[OVERSAMPLE], *all = memory(sizeof drawn * ranks);
  for (int i = 0; i < OVERSAMPLE; i++) {
    drawn[i] = *n ? keys[mixed(i + 77 * rank) % *n] : UINT32_MAX;
  }
  MPI_Gather(drawn, OVERSAMPLE, MPI_UINT32_T, all, OVERSAMPLE, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  uint32_t *splitters = memory(ranks * sizeof *splitters);
  if (rank == 0) {
    qsort(all, (size_t)ranks * OVERSAMPLE, sizeof *all, ascending);
    for (int r = 1; r < ranks; r++) splitters[r - 1] = all[r * OVERSAMPLE];
  }
  MPI_Bcast(splitters, ranks - 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  memset(out_counts, 0, ranks * sizeof *out_counts);
  int *owners = memory(*n * sizeof *owners);
  for (size_t i = 0; i < *n; i++) {
    int low = 0, high = ranks - 1;
    while (low < high) {
      int middle = (low + high) / 2;
      if (keys[i] < splitters[middle]) high = middle;
      else low = middle + 1;
    }
    owners[i] = low;
    out_counts[low]++;
  }
  size_t *next = memory(ranks * sizeof *next);
  for (int r = 0, sum = 0; r < ranks; r++) {
    next[r] = sum;
    sum += out_counts[r];
  }
  uint32_t *out = memory(*n * sizeof *out);
  for (size_t i = 0; i < *n; i++) out[next[owners[i]]++] = keys[i];
  free(keys);
  free(owners);
  free(next);
  free(all);
  free(splitters);
  uint32_t *came = deal(out, n), *other = memory(*n * sizeof *other);
  free(out);
  sort_by_digit(came, other, *n, 0, 11);
  sort_by_digit(other, came, *n, 11, 11);
  sort_by_digit(came, other, *n, 22, 10);
  free(came);
  return other;
}

/* Keys in the wrong order, at this rank and against the rank before it, and lost ones. */
static uint64_t wrong_keys(const uint32_t *sorted, size_t n, uint64_t sum, uint64_t total) {
  uint64_t wrong = 0, held[2] = {0, n}, all[2];
  for (size_t i = 0; i < n; i++) {
    held[0] += mixed(sorted[i]);
    wrong += i > 0 && sorted[i - 1] > sorted[i];
  }
  uint32_t last = n ? sorted[n - 1] : 0, *lasts = memory(ranks * sizeof *lasts);
  MPI_Allgather(&last, 1, MPI_UINT32_T, lasts, 1, MPI_UINT32_T, MPI_COMM_WORLD);
  for (int r = 0; r < rank; r++) wrong += n > 0 && lasts[r] > sorted[0];
  free(lasts);
  MPI_Allreduce(held, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return wrong + (rank == 0 && (all[0] != sum || all[1] != total));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3 || (strcmp(argv[1], "radix") && strcmp(argv[1], "sample"))) {
    fprintf(stderr, "usage: mpi_sort radix|sample KEYS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  uint64_t total = strtoull(argv[2], NULL, 10);
  out_counts = memory(ranks * sizeof *out_counts);
  out_begins = memory(ranks * sizeof *out_begins);
  in_counts = memory(ranks * sizeof *in_counts);
  in_begins = memory(ranks * sizeof *in_begins);
  uint64_t begin = first_of(total, rank), mine = 0, sum = 0;
  size_t n = first_of(total, rank + 1) - begin;
  uint32_t *keys = memory(n * sizeof *keys);
  for (size_t i = 0; i < n; i++) {
    keys[i] = (uint32_t)mixed(begin + i);
    mine += mixed(keys[i]);
  }
  MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  if (argv[1][0] == 'r') {
    keys = pass(keys, &n, total, 0);
    keys = pass(keys, &n, total, 16);
  } else {
    keys = sample_sort(keys, &n);
  }
  double own = MPI_Wtime() - start, seconds = 0;
  MPI_Reduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  uint64_t here = wrong_keys(keys, n, sum, total), wrong = 0;
  MPI_Reduce(&here, &wrong, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("seconds %.9f\nwrong %llu\n", seconds, (unsigned long long)wrong);
  MPI_Finalize();
  return 0;
}
