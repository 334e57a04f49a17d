/* What `clump lab applications` runs on an MPI with FFTW: a forward transform of a cube of complex
 * numbers, the result left where the last transforms were, as clump's application leaves it. The
 * plan is made, and the numbers are written, before the clock starts; Parseval's sum is checked
 * after it stops. Prints "seconds X" and "wrong N". Usage: mpi_fft SIDE */
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double squares(const fftw_complex *at, ptrdiff_t n) {
  double own = 0, all = 0;
  for (ptrdiff_t i = 0; i < n; i++) own += at[i][0] * at[i][0] + at[i][1] * at[i][1];
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  fftw_mpi_init();
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ptrdiff_t side = argc == 2 ? atol(argv[1]) : 0;
  if (side < 1) {
    fprintf(stderr, "usage: mpi_fft SIDE\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  ptrdiff_t n0, first0, n1, first1;
  ptrdiff_t room = fftw_mpi_local_size_3d_transposed(side, side, side, MPI_COMM_WORLD, &n0, &first0,
                                                     &n1, &first1);
  fftw_complex *at = fftw_alloc_complex(room);
  fftw_plan plan = at ? fftw_mpi_plan_dft_3d(side, side, side, at, at, MPI_COMM_WORLD, FFTW_FORWARD,
                                             FFTW_MEASURE | FFTW_MPI_TRANSPOSED_OUT)
                      : NULL;
  if (!plan) {
    fprintf(stderr, "no memory or no plan\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (ptrdiff_t i = 0; i < n0 * side * side; i++) {
    double place = (double)(i + first0 * side * side);
    at[i][0] = sin(place * 0.7);
    at[i][1] = cos(place * 1.3);
  }
  double before = squares(at, n0 * side * side);
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  fftw_execute(plan);
  double own = MPI_Wtime() - start, seconds = 0;
  MPI_Reduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  double after = squares(at, n1 * side * side) / ((double)side * side * side);
  if (rank == 0) printf("seconds %.9f\nwrong %d\n", seconds, !(fabs(after / before - 1) < 1e-12));
  fftw_destroy_plan(plan);
  fftw_free(at);
  MPI_Finalize();
  return 0;
}
