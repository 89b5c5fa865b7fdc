/* One job over and over, each time with another allocation that fails. */
#ifndef TESTS_SUPPORT_ALLOCATIONS_H
#define TESTS_SUPPORT_ALLOCATIONS_H

#include "harness.h"

/* Does the job once with enough memory (`fails` false), then with the first, the second ... of the
 * allocations failing that it asked for then, and checks that nothing is left behind. The job says
 * whether it was short of memory; returns how often it was. */
int64_t each_allocation_fails(const char *devices,
                              bool (*job)(tsr_runtime *rt, bool fails, const void *user),
                              const void *user);

#endif
