/* Under Open MPI, whose mpirun says who each process is:
 *
 *   mpirun -n 4 ./under_openmpi                                     Open MPI 4
 *   mpirun -n 4 -x TSR_COORDINATOR=127.0.0.1:7000 ./under_openmpi   Open MPI 5
 *
 * (as root with --allow-run-as-root, on few cores with --oversubscribe; with several hosts also
 * -x TSR_SECRET). No process calls MPI. Each measures something, and all know what all measured. */
#include <math.h>
#include <stdio.h>

#include <tessera.h>

enum { SAMPLES = 5 };

static tsr_status measure(tsr_scope *s, tsr_runtime *rt)
{
  double mine[SAMPLES], mean = 0, spread = 0;
  for (int i = 0; i < SAMPLES; i++) mine[i] = sin(SAMPLES * tsr_process_index(rt) + i);
  tsr_array *own = tsr_put(s, mine, TSR_F64, TSR_SHAPE(SAMPLES), (tsr_sharding){ .mesh = NULL });
  tsr_array *all = tsr_process_gather(own); /* f64[processes, SAMPLES] */
  tsr_status status = tsr_read_scalar(tsr_mean(all), &mean);
  if (!status) status = tsr_read_scalar(tsr_std(all), &spread);
  if (!status && tsr_process_index(rt) == 0)
    printf("%d processes: mean %.6f, deviation %.6f\n", tsr_process_count(rt), mean, spread);
  return status;
}

int main(void)
{
  tsr_runtime *rt = tsr_initialize("cpu:2");
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 1;
  }
  tsr_scope *s = tsr_scope_open(rt);
  tsr_status status = measure(s, rt);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
