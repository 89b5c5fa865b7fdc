#include "support/among.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "support/tool_fixture.h"

void among_plugins(void)
{
  char path[1024], file[1100];
  tool_build_path(path, sizeof path);
  size_t end = strlen(path);
  snprintf(path + end, sizeof path - end, "/lib");
  snprintf(file, sizeof file, "%s/tessera_ucx.so", path);
  if (access(file, R_OK)) SKIP("the engine ucx is not built: libucx-dev is not installed");
  setenv("TSR_PLUGIN_PATH", path, 1);
}

void among_hosts(int index, int count)
{
  const char *hosts = getenv("TEST_HOSTS");
  char name[32];
  snprintf(name, sizeof name, "host%d", hosts ? index * atoi(hosts) / count : 0);
  if (!hosts) return;
  setenv("TSR_HOST", name, 1);
  if (!getenv("TSR_PLUGIN_PATH")) among_plugins();
}

tsr_runtime *among_open(int devices)
{
  static int round;
  char text[16], name[32], address[400];
  snprintf(text, sizeof text, "cpu:%d", devices);
  snprintf(name, sizeof name, "socket.%d", ++round);
  snprintf(address, sizeof address, "unix:%s", test_tmp(name));
  among_hosts(test_process(), test_process_count());
  tsr_runtime *rt =
      tsr_initialize(text, .coordinator = address, .process_count = test_process_count(),
                     .process_index = test_process(), .start_timeout = 30);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  return rt;
}
