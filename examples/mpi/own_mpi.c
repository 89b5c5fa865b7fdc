/* A program that uses MPI itself, and Tessera beside it:
 *
 *   mpicc -o own_mpi own_mpi.c -ltessera && mpirun -n 4 ./own_mpi
 *
 * Tessera finds the processes by the program's MPI, with whatever launcher; between hosts their
 * bytes go by it, too. It needs MPI_THREAD_MULTIPLE, as a thread of its own answers the others
 * while the program computes, and does not end MPI: runtimes are closed before MPI_Finalize. */
#include <stdio.h>
#include <string.h>

#include <mpi.h>
#include <tessera.h>

enum { N = 1000 };

/* The same sum by both: of the numbers 0 to N - 1, each process having a share. */
static tsr_status sum_both(tsr_runtime *rt, double sums[2])
{
  double data[N], own = 0;
  int rank, count;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  for (int i = 0; i < N; i++) data[i] = i;
  for (int i = rank; i < N; i += count) own += data[i];
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *all = tsr_put(s, data, TSR_F64, TSR_SHAPE(N), tsr_on(tsr_mesh_default(rt, "x"), "x"));
  MPI_Allreduce(&own, &sums[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  tsr_status status = tsr_read_scalar(tsr_sum(all), &sums[1]);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

static int work(void)
{
  double sums[2] = { 0, 0 };
  tsr_runtime *rt = tsr_initialize("cpu:2");
  int code = tsr_runtime_status(rt) != TSR_OK;
  if (code) fprintf(stderr, "%s\n", tsr_runtime_message(rt));
  for (int i = 0; i < 10 && !code; i++) code = sum_both(rt, sums) != TSR_OK;
  if (!code)
    printf("process %d of %d: %g by MPI, %g by Tessera\n", tsr_process_index(rt),
           tsr_process_count(rt), sums[0], sums[1]);
  tsr_runtime_close(rt);
  return code;
}

int main(int argc, char **argv)
{
  int provided, code = 1;
  int wanted = argc > 1 && !strcmp(argv[1], "single") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  code = work();
  MPI_Finalize();
  return code;
}
