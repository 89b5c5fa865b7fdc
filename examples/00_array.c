/* An array on eight devices: computes (2x + 1) / mean(x), explains its sum and reads the sum. */
#include <stdio.h>

#include <tessera.h>

int main(void)
{
  float data[64];
  double total = 0;
  for (int i = 0; i < 64; i++) data[i] = (float)i;

  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr_scope *s = tsr_scope_open(rt);

  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(8, 8), tsr_on(mesh, "x,y"));
  tsr_array *z = tsr_div(tsr_add(tsr_mul(x, 2), 1), tsr_mean(x));
  tsr_array *sum = tsr_sum(z);

  printf("%s\n\n%s\n", tsr_type_of(z), tsr_explain(&sum, 1));
  tsr_status status = tsr_read_scalar(sum, &total);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  else printf("sums to %g\n", total);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
