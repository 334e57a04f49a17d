/* What `clump lab collectives` runs on an MPI: one collective at several sizes, one line each
 * ("operation bytes ns"). Arguments: operation, slices, sizes. A slice is a loop of calls, whose root
 * goes around, and a barrier; its length is that of clump's side. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static char *from, *to;

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void call(const char *operation, int bytes, int root) {
  int words = bytes / 8;
  MPI_Comm all = MPI_COMM_WORLD;
  if (!strcmp(operation, "barrier")) MPI_Barrier(all);
  if (!strcmp(operation, "broadcast")) MPI_Bcast(from, words, MPI_DOUBLE, root, all);
  if (!strcmp(operation, "reduce")) MPI_Reduce(from, to, words, MPI_DOUBLE, MPI_SUM, root, all);
  if (!strcmp(operation, "all-reduce")) MPI_Allreduce(from, to, words, MPI_DOUBLE, MPI_SUM, all);
  if (!strcmp(operation, "scan")) MPI_Scan(from, to, words, MPI_DOUBLE, MPI_SUM, all);
  if (!strcmp(operation, "gather")) MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, root, all);
  if (!strcmp(operation, "all-gather")) MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all);
  if (!strcmp(operation, "scatter")) MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, root, all);
  if (!strcmp(operation, "all-to-all")) MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all);
}

static double calls(const char *operation, int bytes, int count) {
  double start = MPI_Wtime();
  for (int i = 0; i < count; i++) call(operation, bytes, i % ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  return (MPI_Wtime() - start) / count;
}

static void measure(const char *operation, int bytes, int slices, double slice) {
  double samples[64];
  calls(operation, bytes, 1);
  double once = calls(operation, bytes, 2);
  int count = (int)(slice / once);
  if (count < 1) count = 1;
  if (count > 2000) count = 2000;
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int s = 0; s < slices; s++) samples[s] = calls(operation, bytes, count);
  qsort(samples, slices, sizeof *samples, ascending);
  if (rank == 0) {
    printf("%s %d %.1f\n", operation, bytes, samples[slices / 2] * 1e9);
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 5) return 2;
  int slices = atoi(argv[2]);
  double slice = atof(argv[3]) * 1e-9;
  if (slices < 1 || slices > 64) return 2;
  size_t most = 8;
  for (int i = 4; i < argc; i++)
    if ((size_t)atoi(argv[i]) > most) most = atoi(argv[i]);
  from = calloc(ranks, most);
  to = calloc(ranks, most);
  if (!from || !to) return 3;
  for (int i = 4; i < argc; i++) measure(argv[1], atoi(argv[i]), slices, slice);
  free(from);
  free(to);
  MPI_Finalize();
  return 0;
}
