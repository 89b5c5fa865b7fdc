/* Quick reference, block 1: counting devices, and sharding only where there are two or more. */
#include "check.h"

int main(void)
{
  static const char *const devices[] = { "cpu:1", "cpu:2", "cpu:8" };
  check c = check_open("004_01");
  int64_t use_sharding[3];
  for (int i = 0; i < 3; i++) {
    tsr_runtime *rt = tsr_runtime_open(devices[i]);
    char line[64];
    use_sharding[i] = tsr_device_count(rt) >= 2;
    snprintf(line, sizeof line, "Device count: %d", tsr_device_count(rt));
    printf("Devices: %s\n", devices[i]);
    if (i == 1) check_print(&c, "printed_cpu2", 1, line);
    if (i == 2) check_print(&c, "printed_cpu8", 1, line);
    tsr_runtime_close(rt);
  }
  check_ints(&c, "use_sharding", use_sharding, 3);
  return check_close(&c);
}
