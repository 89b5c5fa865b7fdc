/* Inside relate/: where groups that lie over several parts belong. */
#ifndef TSR_RELATE_GROUP_OWNERS_H
#define TSR_RELATE_GROUP_OWNERS_H

#include "relate/relate_inner.h"

/* The groups of a slice. A group's home is the part where its first row lies; its owner, chosen by
 * the hash of its key, is who found that out. */
typedef struct tsr__group_owners {
  tsr_runtime *rt;
  tsr__error *error;
  tsr__rel_stats *stats;
  const tsr__view *view;
  int parts;
  tsr__group_homes homes;
  bool records;  /* only what records need is wanted */
  int64_t *back; /* homes.counts transposed */
  void *block;   /* holds all lists */
  size_t size;
} tsr__group_owners;

/* Groups the rows of a slice by packed keys (freed by the caller) and finds homes if there are
 * several parts. `counted`: fills `before`. Free it in any case. */
tsr_status tsr__group_owners_find(tsr__group_owners *owners, const tsr__packed_keys *keys,
                                  bool counted);
/* Finds owners after all, for `coded` homes. */
tsr_status tsr__group_owners_seek(tsr__group_owners *owners, const tsr__packed_keys *keys,
                                  bool counted);
void tsr__group_owners_free(tsr__group_owners *owners);

/* Homes by what codes each part has (group_codes.c): fills `everyone` and `own`. */
tsr_status tsr__group_owners_by_code(tsr__group_owners *owners);

/* One buffer a part of `rows[p]` elements each. */
tsr_status tsr__part_buffers(const tsr__group_owners *owners, tsr_dtype dtype, const int64_t *rows,
                             tsr__buffer **out);

/* Columns of elements that lie as `from` says to other parts, and what came; `what` for the
 * stats. */
typedef struct tsr__sending {
  const char *what;
  const int64_t *from;
  int64_t *counts;          /* as of an exchange */
  tsr__buffer *const *dest; /* as of an exchange */
  const tsr__index *order;
  int each; /* elements of a row, for the stats; 0: one */
  int count;
  const tsr__colparts *columns;
  tsr__buffer **values, **valid; /* out */
  int64_t *came;                 /* out */
} tsr__sending;
tsr_status tsr__send(const tsr__group_owners *owners, const tsr__sending *sending);

/* Joins the records of local groups at their homes (group_records.c): afterwards record i of a part
 * is that of its group own[i]. */
tsr_status tsr__join_records(const tsr__group_owners *owners, tsr__group_records *tallied);

#endif
