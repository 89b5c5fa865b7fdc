/* Inside array/: what calls of products share. */
#ifndef TSR_ARRAY_PRODUCTS_ROOM_H
#define TSR_ARRAY_PRODUCTS_ROOM_H

#include "array/array_room.h"

/* A product by indices: see tsr__dot_attr. */
typedef struct tsr__contraction {
  const char *name; /* of the call */
  tsr_array *a, *b;
  tsr__dot_attr at;
  tsr_dtype dtype; /* asked for; 0: what both promote to */
} tsr__contraction;

tsr_array *tsr__contract(const tsr__contraction *c, const char *site);

#endif
