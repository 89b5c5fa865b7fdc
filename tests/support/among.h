/* Runtimes of the processes of a TEST_PROCESSES test. */
#ifndef TESTS_AMONG_H
#define TESTS_AMONG_H

#include "harness.h"
#include "tessera.h"

/* A test whose body runs in two processes, and in four. */
#define AMONG_2_AND_4(name, body) \
  TEST_PROCESSES(name##_of_2, 2)  \
  {                               \
    body();                       \
  }                               \
  TEST_PROCESSES(name##_of_4, 4)  \
  {                               \
    body();                       \
  }

/* So many devices in each process; what it opens first is joined with what others open first. */
tsr_runtime *among_open(int devices);
/* With TEST_HOSTS=2 the processes of a test are as if on two hosts, the first half on one: this one
 * is number `index` of `count`. */
void among_hosts(int index, int count);
/* Engines are those of this build; skips the test where there is none. */
void among_plugins(void);

#endif
