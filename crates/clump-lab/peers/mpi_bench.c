/* What `clump lab compare` runs on an MPI: the same games, one result a line ("name [bytes] value").
 * With two ranks: round trip, one-way rate, bandwidth by size and barrier; with more: barrier only.
 * Every figure is the median over slices of a few milliseconds, as on our side. With "--ring" first,
 * also streams from places of a ring that the sender writes into places of one whose receiver sums
 * every byte: what is not written stays in the receiver's cache, and never travels. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 15, WINDOW = 64, ACK = 1, DATA = 2 };
enum { SLICE_BYTES = 64 << 20, RING_BYTES = 16 << 20 };

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

static volatile unsigned long total;

static void sum(const char *data, size_t length) {
  const unsigned long *words = (const unsigned long *)data;
  unsigned long sums[4] = {0};
  for (size_t i = 0; i + 4 <= length / 8; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += words[i + k];
  total += sums[0] + sums[1] + sums[2] + sums[3];
}

/* Seconds of a slice of messages through a ring, of which each place is read before it is used again. */
static double ring_slice(char *ring, size_t bytes, int slots) {
  MPI_Request requests[WINDOW];
  int count = SLICE_BYTES / bytes;
  double start = MPI_Wtime();
  for (int at = 0; at < count + slots; at++) {
    int slot = at % slots;
    char *place = ring + slot * bytes;
    if (at >= slots) {
      MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
      if (rank == 1) sum(place, bytes);
    }
    if (at < count && rank == 0) {
      memset(place, at, bytes);
      MPI_Isend(place, bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &requests[slot]);
    }
    if (at < count && rank == 1)
      MPI_Irecv(place, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &requests[slot]);
  }
  char ack = 0;
  if (rank == 0)
    MPI_Recv(&ack, 1, MPI_BYTE, 1, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(&ack, 1, MPI_BYTE, 0, ACK, MPI_COMM_WORLD);
  return MPI_Wtime() - start;
}

static void rings(int argc, char **argv) {
  double samples[SLICES];
  char *ring = malloc(RING_BYTES);
  memset(ring, 7, RING_BYTES);
  for (int i = 1; i < argc; i++) {
    size_t bytes = atoi(argv[i]);
    if (bytes == 0 || bytes > RING_BYTES / 4) continue;
    int slots = RING_BYTES / bytes > WINDOW ? WINDOW : (int)(RING_BYTES / bytes);
    ring_slice(ring, bytes, slots);
    for (int s = 0; s < SLICES; s++)
      samples[s] = SLICE_BYTES / bytes * bytes / ring_slice(ring, bytes, slots);
    if (rank == 0) printf("ring %zu %.0f\n", bytes, median(samples, SLICES));
  }
  free(ring);
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
  if (ranks == 2 && argc > 1 && strcmp(argv[1], "--ring") == 0) rings(argc, argv);
  barrier();
  MPI_Finalize();
  return 0;
}
