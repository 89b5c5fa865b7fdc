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
  tsr__grouped local; /* each part's own groups */
  tsr__grouped owned; /* of the keys that came to each owner */
  tsr__index own;     /* the local groups that are at home, in order */
  bool records;       /* only what records need is wanted */
  /* Where keys are codes and only records move, owners are not sought; instead each part knows
   * which codes any part has: bit of code c of part q: everyone[part][q * code_words + c / 64]. */
  bool coded;
  int64_t code_words;
  tsr__buffer **everyone; /* I64, [part] */
  int64_t *came;          /* keys that came to each owner */
  int64_t *block;         /* holds `came` and all lists below */
  size_t size;
  int64_t *counts, *back; /* keys from each part to each owner; and transposed */
  /* Of each local group, [part]: its owner (u16), its home (i32), its number there (i32), its
   * number at the owner (i32), rows of it on earlier parts (i64, if counted). */
  tsr__buffer **owner, **home, **number, **owned_as, **before;
  /* Of each group at its owner, [part]: home and number there (i32). */
  tsr__buffer **owned_home, **owned_number;
} tsr__group_owners;

/* Groups the rows of a slice by packed keys (freed by the caller) and finds homes if there are
 * several parts. `counted`: fills `before`, also for one part. Free it in any case. */
tsr_status tsr__group_owners_find(tsr__group_owners *homes, const tsr__packed_keys *keys,
                                  bool counted);
/* Finds owners after all, for `coded` homes. */
tsr_status tsr__group_owners_seek(tsr__group_owners *homes, const tsr__packed_keys *keys,
                                  bool counted);
void tsr__group_owners_free(tsr__group_owners *homes);

/* Homes by what codes each part has (group_codes.c): fills `everyone` and `own`. */
tsr_status tsr__group_owners_by_code(tsr__group_owners *homes);
/* The codes that `part` knows part q to have. */
static inline const uint64_t *tsr__codes_of(const tsr__group_owners *homes, int64_t part, int q)
{
  const uint64_t *all = homes->everyone[part]->data;
  return all + q * homes->code_words;
}

/* One buffer a part of `rows[p]` elements each. */
tsr_status tsr__part_buffers(const tsr__group_owners *homes, tsr_dtype dtype, const int64_t *rows,
                             tsr__buffer **out);
/* Runs fn(user, part, worker) for each part. */
tsr_status tsr__each_part(const tsr__group_owners *homes, tsr__task_fn fn, void *user);

/* Columns of elements that lie as `from` says to other parts, and what came; `what` for the
 * stats. */
typedef struct tsr__sending {
  const char *what;
  const int64_t *from, *counts;
  const uint16_t *const *dest; /* as of an exchange */
  const tsr__index *order;
  int each; /* elements of a row, for the stats; 0: one */
  int count;
  const tsr__colparts *columns;
  tsr__buffer **values, **valid; /* out */
  int64_t *came;                 /* out */
} tsr__sending;
tsr_status tsr__send(const tsr__group_owners *homes, const tsr__sending *sending);

/* Joins the records of local groups at their homes (group_records.c): afterwards record i of a part
 * is that of its group own[i]. */
tsr_status tsr__join_records(const tsr__group_owners *homes, tsr__group_records *tallied);

#endif
