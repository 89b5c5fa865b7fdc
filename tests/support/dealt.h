/* Tests that `tessera run` starts several times over, as one program of several processes. */
#ifndef TESTS_SUPPORT_DEALT_H
#define TESTS_SUPPORT_DEALT_H

#include <stdio.h>
#include <stdlib.h>

/* "cpu:3", or with the next number that can be dealt out to the processes that there are. */
typedef struct dealt_devices {
  int count;
  char text[16];
} dealt_devices;

static inline dealt_devices dealt(int count)
{
  const char *processes = getenv("TSR_PROCESS_COUNT");
  int n = processes ? atoi(processes) : 1;
  dealt_devices out = { .count = (count + n - 1) / n * n };
  snprintf(out.text, sizeof out.text, "cpu:%d", out.count);
  return out;
}

#endif
