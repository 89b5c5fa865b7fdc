/* What an explanation says of lines, held against the sources: each is a line of the tests and none
 * of the library, and "was asked for" is said of lines that ask for a place. */
#ifndef TESTS_SUPPORT_TOLD_H
#define TESTS_SUPPORT_TOLD_H

#include "harness.h"
#include "tessera.h"

/* The text with each fold and indent as one blank; the caller's. */
char *told_unfold(const char *text);
/* `name`: what was explained, for the failure. */
void told_check(const char *text, const char *name);
/* The explanation of an array or a tree, checked; borrowed from its scope. NULL of what cannot be
 * explained: nothing is traced then. */
const char *told_of(tsr_array *a, const char *name);

#endif
