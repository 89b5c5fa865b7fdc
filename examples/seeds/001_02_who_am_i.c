/* Arrays, block 2: the number of this process, how many there are, and whose the devices are; one
 * process of eight devices, or two of four under `tessera run -n 2`. */
#include "check.h"

int main(void)
{
  check c = check_open("001_02");
  tsr_runtime *rt = tsr_runtime_open("cpu:8"); /* of all processes together */
  tsr_scope *s = tsr_scope_open(rt);
  int count = tsr_process_count(rt);
  const int32_t mine[] = { tsr_process_index(rt), count, tsr_device_count(rt),
                           tsr_local_device_count(rt) };
  tsr_array *own = tsr_put(s, mine, TSR_I32, TSR_SHAPE(4), (tsr_sharding){ .mesh = NULL });

  if (count == 1) check_array(&c, "one.index_count_devices_local", own);
  else check_array(&c, "two.index_count_devices_local", tsr_process_gather(own));
  /* Devices are numbered one process after the other. */
  for (int d = 0; d < tsr_device_count(rt); d++)
    if (tsr_device_process(rt, d) != d / mine[3]) check_fail(&c, "device %d is another's", d);
  for (int i = 0; i < mine[3]; i++)
    if (tsr_local_device(rt, i) != mine[0] * mine[3] + i) check_fail(&c, "own device %d", i);

  tsr_runtime_close(rt);
  return check_close(&c);
}
