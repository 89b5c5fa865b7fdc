/* What every collective must keep over processes: the bits, the bytes that travel and the refusals
 * of one process with as many devices. */
#ifndef TESTS_COLLECTIVE_LAWS_H
#define TESTS_COLLECTIVE_LAWS_H

#include <stdbool.h>

/* In a TEST_PROCESSES test, so many devices each: every collective, every element type, sizes 0,
 * odd ones and such as are combined in shares. `full`: more of them. */
void collective_laws_check(int devices, bool full);

#endif
