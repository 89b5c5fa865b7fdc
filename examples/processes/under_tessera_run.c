/* A program that knows nothing of processes, in one or in several:
 *
 *   ./under_tessera_run
 *   tessera run -n 4 ./under_tessera_run
 *
 * Its eight devices are dealt out to the processes, and it prints the same. */
#include <stdio.h>

#include <tessera.h>

int main(void)
{
  double mean = 0, most = 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  tsr_array *a = tsr_iota(s, TSR_F32, TSR_SHAPE(1000, 100), 0, tsr_on(mesh, "x,y"));
  tsr_array *b = tsr_sqrt(tsr_add(a, 1));
  tsr_status status = tsr_read_scalar(tsr_mean(b), &mean);
  if (!status) status = tsr_read_scalar(tsr_max(b), &most);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  else printf("mean %.6f, most %.6f\n", mean, most);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
