/* Recommendation, block 2: a mesh of 2 x 4 over devices that are listed. */
#include "check.h"

int main(void)
{
  check c = check_open("003_02");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  int devices[8];
  for (int i = 0; i < 8; i++) devices[i] = i;

  tsr_mesh_opts opts = { .size = sizeof opts,
                         .axis_count = 2,
                         .names = { "data", "model" },
                         .sizes = { 2, 4 }, /* 2 data parallel, 4 model parallel */
                         .devices = devices };
  check_mesh(&c, "mesh", tsr_mesh_make_with(rt, &opts), "data=2,model=4");

  opts.devices =
      NULL; /* the first ones in order: more than there are is an error with both counts */
  opts.sizes[1] = 5;
  const tsr_mesh *large = tsr_mesh_make_with(rt, &opts);
  c.outputs++;
  if (tsr_mesh_status(large) != TSR_EARG ||
      !strstr(tsr_mesh_message(large), "needs 10 devices; the runtime has 8"))
    check_fail(&c, "a mesh of 2 x 5: %s", tsr_mesh_message(large));

  tsr_runtime_close(rt);
  return check_close(&c);
}
