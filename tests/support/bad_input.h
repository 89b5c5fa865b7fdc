/* What the tests of bad input share: calls that must fail, nodes that must be inert, silence. */
#ifndef TESTS_SUPPORT_BAD_INPUT_H
#define TESTS_SUPPORT_BAD_INPUT_H

#include "harness.h"
#include "tessera.h"

#define FAILS(call) CHECK((call) != TSR_OK)

void is_inert(tsr_array *array, const char *call);
/* Every terminal and question about an array without a value. */
void every_array_end_fails(tsr_array *a);
/* Runs a part in a process of its own whose output goes to a file, which must stay empty. */
void check_silent(void (*part)(void));

#endif
