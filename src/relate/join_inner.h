/* Inside relate/: one join at work. */
#ifndef TSR_RELATE_JOIN_INNER_H
#define TSR_RELATE_JOIN_INNER_H

#include "relate/relate_inner.h"

typedef struct tsr__join_work {
  const tsr__rel_join_ask *ask;
  tsr_runtime *rt;
  tsr__arena arena; /* whatever is small and lives as long as the join */
  tsr__error *error;
  tsr__rel_stats *stats;
  bool pairs;     /* right rows are part of the result */
  bool repeats;   /* a left row met two right rows */
  bool hashed;    /* a table was not direct */
  bool nulls;     /* a key may be null */
  tsr__rel right; /* the right columns that are needed: keys, then those taken */
  tsr__key *left_keys, *right_keys;
  int words; /* of a packed key */
  tsr__draft draft;
} tsr__join_work;

/* Right columns to take from: of a table, or what came back from the owners of keys. */
typedef struct tsr__join_from {
  const tsr__parts *parts;
  const tsr__colparts *columns; /* one for each taken column */
} tsr__join_from;

/* Zeroed memory of the join's arena; NULL with the error set. */
void *tsr__join_small(tsr__join_work *join, size_t size);
tsr_status tsr__join_room(tsr__join_work *join, int device, int64_t bytes);
/* Packs the keys of both sides of a slice. */
tsr_status tsr__join_pack(tsr__join_work *join, const tsr__view *left, const tsr__view *right,
                          tsr__packed_keys packed[2]);
/* Makes the result's rows of a slice from matches. */
tsr_status tsr__join_emit(tsr__join_work *join, const tsr__view *left, tsr__matched *matched,
                          const tsr__join_from *right);
/* Joins one slice by sending keys to owners (join_exchange.c). */
tsr_status tsr__join_exchange(tsr__join_work *join, const tsr__view *left, const tsr__view *right);

#endif
