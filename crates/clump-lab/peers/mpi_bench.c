/* What `clump lab compare` runs on an MPI: the same games, one result a line ("name [bytes] value").
 * With two ranks: round trip, one-way rate, bandwidth by size and barrier; with more: barrier only.
 * Every figure is the median over slices of a few milliseconds, as on our side. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 15, WINDOW = 64, ACK = 1, DATA = 2 };

static int rank, ranks;

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *samples, int n) {
  qsort(samples, n, sizeof *samples, ascending);
  return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

/* Seconds per round trip of `bytes`. */
static double round_trip(char *buffer, int bytes, int rounds) {
  double start = MPI_Wtime();
  for (int i = 0; i < rounds; i++) {
    if (rank == 0) {
      MPI_Send(buffer, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
      MPI_Recv(buffer, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(buffer, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(buffer, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
  }
  return (MPI_Wtime() - start) / rounds;
}

/* Seconds per message of a stream: windows of non-blocking sends, one acknowledgement at the end. */
static double stream(char *buffer, int bytes, int windows, int window) {
  MPI_Request requests[WINDOW];
  MPI_Status statuses[WINDOW];
  double start = MPI_Wtime();
  for (int w = 0; w < windows; w++) {
    for (int i = 0; i < window; i++) {
      if (rank == 0)
        MPI_Isend(buffer, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &requests[i]);
      else
        MPI_Irecv(buffer, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, statuses);
  }
  char ack = 0;
  if (rank == 0)
    MPI_Recv(&ack, 1, MPI_BYTE, 1, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(&ack, 1, MPI_BYTE, 0, ACK, MPI_COMM_WORLD);
  return (MPI_Wtime() - start) / ((double)windows * window);
}

static double barriers(int count) {
  double start = MPI_Wtime();
  for (int i = 0; i < count; i++) MPI_Barrier(MPI_COMM_WORLD);
  return (MPI_Wtime() - start) / count;
}

static void barrier(void) {
  double samples[SLICES];
  barriers(3);
  /* Ranks without a core of their own may take 100 ms a barrier: let one decide how many to make. */
  double once = barriers(1);
  int count = (int)(0.005 / once);
  if (count < 1) count = 1;
  if (count > 5000) count = 5000;
  int slices = once * count > 0.02 ? 5 : SLICES;
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&slices, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int s = 0; s < slices; s++) samples[s] = barriers(count);
  if (rank == 0) printf("barrier_ns %.1f\n", median(samples, slices) * 1e9);
}

static void pair(int argc, char **argv) {
  double samples[SLICES];
  int most = 8;
  for (int i = 1; i < argc; i++)
    if (atoi(argv[i]) > most) most = atoi(argv[i]);
  char *buffer = malloc(most);
  memset(buffer, 7, most);

  round_trip(buffer, 8, 1000);
  for (int s = 0; s < SLICES; s++) samples[s] = round_trip(buffer, 8, 3000);
  if (rank == 0) printf("round_trip_ns %.1f\n", median(samples, SLICES) * 1e9);

  stream(buffer, 8, 50, WINDOW);
  for (int s = 0; s < SLICES; s++) samples[s] = 1 / stream(buffer, 8, 300, WINDOW);
  if (rank == 0) printf("rate_per_s %.0f\n", median(samples, SLICES));

  for (int i = 1; i < argc; i++) {
    int bytes = atoi(argv[i]);
    if (bytes <= 0) continue;
    int count = (4 << 20) / bytes;
    if (count < 1) count = 1;
    if (count > 1024) count = 1024;
    int window = count < WINDOW ? count : WINDOW;
    stream(buffer, bytes, 1, window);
    for (int s = 0; s < SLICES; s++) samples[s] = bytes / stream(buffer, bytes, count / window, window);
    if (rank == 0) printf("bandwidth %d %.0f\n", bytes, median(samples, SLICES));
  }
  free(buffer);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 2) pair(argc, argv);
  barrier();
  MPI_Finalize();
  return 0;
}
