/* Inside array/ and transform/: what calls of products share. */
#ifndef TSR_ARRAY_PRODUCTS_ROOM_H
#define TSR_ARRAY_PRODUCTS_ROOM_H

#include "array/array_room.h"

/* A product by indices: see tsr__dot_attr. */
typedef struct tsr__contraction {
  const char *name; /* of the call */
  tsr_array *a, *b;
  tsr__dot_attr at;
  tsr_dtype dtype; /* asked for; 0: what both promote to */
  bool reproducible;
} tsr__contraction;

tsr_array *tsr__contract(const tsr__contraction *c, const char *site);

/* Products of elements of f64 that no rounding touches, as two summands each along a new dim 0. */
tsr_array *tsr__exact_terms(tsr_array *a, tsr_array *b, const char *site);
/* The exact sum of products of operands that have all their dims in common, converted to `in`,
 * rounded once to `out`; NULL: it is another product. */
tsr_array *tsr__exact_product(const tsr__contraction *c, tsr_dtype in, tsr_dtype out,
                              const char *site);

#endif
