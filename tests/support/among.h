/* Runtimes of the processes of a TEST_PROCESSES test. */
#ifndef TESTS_AMONG_H
#define TESTS_AMONG_H

#include "tessera.h"

/* So many devices in each process; what it opens first is joined with what others open first. */
tsr_runtime *among_open(int devices);

#endif
