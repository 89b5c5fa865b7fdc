/* Groups that lie over several parts: the loops of each part over rows, groups, codes and records.
 * relate/group_owners.h defines home and owner, and decides which part sends which of these to
 * which part. */
#ifndef TSR_KERNEL_GROUP_HOMES_H
#define TSR_KERNEL_GROUP_HOMES_H

#include "kernel/rows/columns.h"

/* The groups of all parts, as far as they are known. */
typedef struct tsr__group_homes {
  const tsr__parts *parts; /* the rows' parts */
  tsr__grouped local;      /* each part's own groups */
  tsr__grouped owned;      /* groups of keys that came, [owner] */
  tsr__index own;          /* the local groups that are at home, in order */
  /* If keys are codes and only records move, no owners are sought; each part knows the codes of
   * every part: bit of code c of part q: everyone[part][q * code_words + c / 64]. */
  bool coded;
  int64_t code_words;
  tsr__buffer **everyone; /* I64, [part] */
  int64_t *came;          /* keys that came to each owner */
  int64_t *counts;        /* keys from each part to each owner: [from * parts + to] */
  /* One value a local group, [part]: owner (u16), home (i32), number at home (i32), number at the
   * owner (i32), rows of the group on earlier parts (i64, if counted). */
  tsr__buffer **owner, **home, **number, **owned_as, **before;
  /* One value a group at its owner, [part]: home and number at home (i32). */
  tsr__buffer **owned_home, **owned_number;
} tsr__group_homes;

/* One buffer a part, of `parts->rows[p]` elements each. */
tsr_status tsr__buffers_of(tsr_runtime *rt, const tsr__parts *parts, tsr_dtype dtype,
                           tsr__buffer **out, tsr__error *error);

/* The same parts with other rows. */
static inline tsr__parts tsr__homes_lie(const tsr__group_homes *homes, const int64_t *rows)
{
  return (tsr__parts){ homes->parts->count, homes->parts->device, rows };
}

/* Runs fn(user, task, worker) for each task, which is a part's mostly. */
tsr_status tsr__homes_each(tsr_runtime *rt, int64_t tasks, tsr__task_fn fn, void *user,
                           tsr__error *error);

/* ---- homes by owners (group_homes.c) --------------------------------------------------------- */

/* Fills `local`: the groups of each part's rows by packed keys. If nearly all keys of several parts
 * differ, each row is a group of its own, and owners find equal keys. */
tsr_status tsr__homes_group(tsr_runtime *rt, tsr__group_homes *homes, const tsr__packed_keys *keys,
                            tsr__error *error);
/* The one group of no rows, which no keys give. */
tsr_status tsr__homes_of_nothing(tsr_runtime *rt, tsr__group_homes *homes, tsr__error *error);

/* Columns of keys on their way, [column * parts + part]: the words of a key, the group's number at
 * its sender (i32), and its rows there (i64) if they are counted. */
typedef struct tsr__homes_keys {
  tsr__group_homes *homes;
  const tsr__packed_keys *keys;
  bool counted;
  tsr__buffer **columns;
} tsr__homes_keys;
/* The key of each local group, from its first row, and its owner: fills `owner` and the columns,
 * all of which are there. */
tsr_status tsr__homes_send(tsr_runtime *rt, const tsr__homes_keys *ask, tsr__error *error);

/* The owners' answers, a value a key that came, [column * parts + owner]: the group's home, its
 * number there and at the owner (i32), and rows on earlier parts (i64) if counted. */
enum { TSR__HOMES_ANSWERS = 4 };
/* Finds the groups of the keys that came: fills `owned`, `owned_home`, `owned_number` and the
 * answers. Words of keys are given back as soon as they lie together. */
tsr_status tsr__homes_meet(tsr_runtime *rt, const tsr__homes_keys *came, tsr__buffer **answers,
                           tsr__error *error);

/* Answers that came back, in the `order` in which keys were sent. */
typedef struct tsr__homes_told {
  tsr__group_homes *homes;
  const tsr__index *order;
  bool counted;
  tsr__buffer **answers;
} tsr__homes_told;
/* Puts them where the groups are: fills `home`, `number`, `owned_as`, `before` and `own`. */
tsr_status tsr__homes_settle(tsr_runtime *rt, const tsr__homes_told *told, tsr__error *error);

/* ---- homes by codes (group_homes_code.c) ---------------------------------------------------- */

/* Which codes each part has, a bit each, in `mine` [part]; `order` lists all of its words once for
 * each part. */
tsr_status tsr__homes_codes(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **mine,
                            tsr__index *order, tsr__error *error);
/* Fills `own` from `everyone`; nothing reads `mine` afterwards. */
tsr_status tsr__homes_by_code(tsr_runtime *rt, tsr__group_homes *homes, tsr__buffer **mine,
                              tsr__error *error);

/* ---- rows and results of groups at their owners (group_homes_rows.c) ------------------------- */

/* Fills, for each row, its group's owner (u16) and number there (i32); buffers of all rows. */
tsr_status tsr__homes_route(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **owner,
                            tsr__buffer **number, tsr__error *error);
/* Rows that came to the owners of their groups, and the aggregates that are asked for. */
typedef struct tsr__homes_rows {
  const tsr__group_homes *homes;
  const tsr__parts *parts; /* the rows' parts */
  tsr__buffer **number;    /* [owner]: each row's group (i32) */
  const tsr__colparts *columns;
  const tsr__group_agg *aggs;
  int count;
} tsr__homes_rows;
/* Does the work of tsr__aggregate_groups for groups at their owners. */
tsr_status tsr__homes_aggregate(tsr_runtime *rt, const tsr__homes_rows *ask, tsr__buffer **values,
                                tsr__buffer **valid, tsr__error *error);
/* The part that each group at its owner is sent to (u16); buffers of all owned groups. */
tsr_status tsr__homes_dest(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **dest,
                           tsr__error *error);
/* The order that sorts results that came home by group: `number` [part] has their groups (i32). */
tsr_status tsr__homes_order(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **number,
                            tsr__index *order, tsr__error *error);

/* ---- rows of groups at home (group_homes_rows.c) --------------------------------------------- */

/* The first rows of the groups that are at home. */
tsr_status tsr__homes_first(tsr_runtime *rt, const tsr__group_homes *homes, tsr__index *first,
                            tsr__error *error);
/* A bit a row in `bits` [part]: whether it is among the first `most` of its group over all parts.
 * `before` is counted down. */
tsr_status tsr__homes_keep(tsr_runtime *rt, tsr__group_homes *homes, int64_t most,
                           tsr__buffer **bits, tsr__error *error);

/* ---- records that leave for home (group_leaving.c) ------------------------------------------- */

/* Records lie by destination and whole, `words` each. Numbers (i32) of groups at home go with them,
 * but for codes: both ends take those in order of the codes they share. Lists are [part] and
 * [from * parts + to]. */
typedef struct tsr__leaving {
  const tsr__group_homes *homes;
  tsr__group_records *records;
  int words;
  tsr__buffer **sent_number, **sent, **came_number, **came;
  int64_t *counts, *word_counts; /* records, and their words */
  int64_t *rows, *row_words;     /* that came */
  int64_t shares;                /* ranges of a part's groups: workers join them side by side */
} tsr__leaving;
/* Counts the records that leave: fills `counts`, which are 0. */
tsr_status tsr__leaving_count(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error);
/* Fills the buffers that are sent. */
tsr_status tsr__leaving_take(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error);
/* Joins the records that came: record i of a part is then that of its group own[i]. */
tsr_status tsr__leaving_join(tsr_runtime *rt, tsr__leaving *leaving, tsr__error *error);

#endif
