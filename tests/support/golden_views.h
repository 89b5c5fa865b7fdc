/* Goldens of one array each: lines that the scripts of tests/golden write and tests compare.
 *
 *   shape | calls | shape | elements     the operand is 0, 1, 2, ... in f64 */
#ifndef SUPPORT_GOLDEN_VIEWS_H
#define SUPPORT_GOLDEN_VIEWS_H

#include "tessera.h"

/* Makes the result of the calls; `on`: where what they make anew lies. May write to `calls`. */
typedef tsr_array *golden_view(tsr_scope *s, tsr_array *a, char *calls, tsr_sharding on);

/* Compares every element of every line, on one device and over the first dim of three. Returns how
 * many lines there are. */
int golden_views_check(const char *file, golden_view *apply);

#endif
