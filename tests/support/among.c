#include "support/among.h"

#include <stdio.h>

#include "harness.h"

tsr_runtime *among_open(int devices)
{
  static int round;
  char text[16], name[32], address[400];
  snprintf(text, sizeof text, "cpu:%d", devices);
  snprintf(name, sizeof name, "socket.%d", ++round);
  snprintf(address, sizeof address, "unix:%s", test_tmp(name));
  tsr_runtime *rt =
      tsr_initialize(text, .coordinator = address, .process_count = test_process_count(),
                     .process_index = test_process(), .start_timeout = 30);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  return rt;
}
