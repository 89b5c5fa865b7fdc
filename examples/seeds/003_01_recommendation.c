/* Distributed, block 1: which devices there are, and what a pipeline over them is best opened with.
 * The function that the block calls never existed; this one does, and measures with a source. */
#include "check.h"
#include "inputs.h"

int main(void)
{
  check c = check_open("003_01");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_placement placement = tsr_placement_of(rt, NULL);
  printf("Devices: %s:%d\n", placement.kind, placement.device_count);
  printf("Recommended: %s, rows over '%s', %lld records a device\n", placement.mesh, placement.spec,
         (long long)placement.best);
  int64_t table[3] = { placement.least, placement.best, placement.critical };
  check_ints(&c, "cpu_batch_min_optimal_critical", table, 3);
  if (strcmp(placement.mesh, "data=8") != 0) check_fail(&c, "the mesh is %s", placement.mesh);

  placement = tsr_placement_of(rt, input_images(s, 1024, TSR_SHAPE(32, 32, 3)));
  if (placement.measured < 1 || placement.bytes != placement.measured * (32 * 32 * 3 + 1) * 4)
    check_fail(&c, "measured %lld records, %lld bytes", (long long)placement.measured,
               (long long)placement.bytes);
  printf("Measured: %lld records a device, %lld bytes there\n", (long long)placement.measured,
         (long long)placement.bytes);
  if (tsr_scope_status(s)) check_fail(&c, "%s", tsr_message(s));
  tsr_runtime_close(rt);
  return check_close(&c);
}
