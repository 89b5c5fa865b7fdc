/* Processes that are started by hand, each told who it is:
 *
 *   ./by_hand 127.0.0.1:7000 2 0 & ./by_hand 127.0.0.1:7000 2 1; wait
 *
 * On several hosts all of them need the same TSR_SECRET. Without arguments the process is alone, or
 * variables say who it is: TSR_COORDINATOR, TSR_PROCESS_COUNT, TSR_PROCESS_INDEX. */
#include <stdio.h>
#include <stdlib.h>

#include <tessera.h>

/* Each process has four rows of the array; their sum is known everywhere. */
static tsr_status sum_of_rows(tsr_scope *s, tsr_runtime *rt, double *sum)
{
  float rows[4 * 3];
  int me = tsr_process_index(rt);
  for (int i = 0; i < 12; i++) rows[i] = (float)(12 * me + i);
  tsr_array *all = tsr_from_process_data(s, rows, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 3),
                                         .on = tsr_on(tsr_mesh_default(rt, "data"), "data"));
  return tsr_read_scalar(tsr_sum(all), sum);
}

int main(int argc, char **argv)
{
  bool told = argc == 4;
  tsr_runtime *rt = tsr_initialize("cpu:2", .coordinator = told ? argv[1] : NULL,
                                   .process_count = told ? atoi(argv[2]) : 0,
                                   .process_index = told ? atoi(argv[3]) : 0);
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 1;
  }
  tsr_scope *s = tsr_scope_open(rt);
  double sum = 0, rows = 12.0 * tsr_process_count(rt);
  tsr_status status = sum_of_rows(s, rt, &sum);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  else printf("process %d of %d: %g\n", tsr_process_index(rt), tsr_process_count(rt), sum);
  tsr_runtime_close(rt);
  return status || sum != rows * (rows - 1) / 2;
}
