/* Relational primitives on columns that lie on devices: packed keys, sorting, gathering, grouping,
 * matching. relate/ decides which device gets which rows and which bytes travel; here every
 * function works on `parts` independent pieces of rows, one a device, cut into tasks for the
 * workers so that one large part keeps all cores busy as eight small ones do.
 *
 *   keys of any type     packed key (1..n words)      later steps know no dtypes
 *   origin 'JFK' -> 2    |10|0000101|...   64 bits    sort: words ascending
 *   day 5, null last                                   group, join: equal words
 *
 * Rows are numbered by uint32_t within a part: a part has fewer than 2^32 - 1 rows (checked by
 * tsr__pack_keys). Every index a function gives out is a row of a part. */
#ifndef TSR_KERNEL_COLUMNS_H
#define TSR_KERNEL_COLUMNS_H

#include "kernel/device/device.h"

/* The place of the highest bit that is set, counted from 1; of 0 it is 0. */
static inline int tsr__used_bits(uint64_t value)
{
  return value ? 64 - __builtin_clzll(value) : 0;
}

/* A column's piece on each part. `valid` NULL, or NULL for a part: no nulls there. */
typedef struct tsr__colparts {
  tsr_dtype dtype;
  tsr__buffer *const *values;
  tsr__buffer *const *valid;
} tsr__colparts;

/* The parts of a table: how many, their devices and numbers of rows. */
typedef struct tsr__parts {
  int count;
  const int *device;
  const int64_t *rows;
} tsr__parts;

/* Joins `found` of all processes, one after the other, if other processes have parts of the rows:
 * afterwards each process has the joined value. */
typedef void tsr__join_found(void *into, const void *other, size_t size);
typedef struct tsr__agreeing {
  tsr_status (*meet)(void *user, void *found, size_t size, tsr__join_found *join,
                     tsr__error *error);
  void *user;
} tsr__agreeing;

/* ---- packed keys (keys.c) ------------------------------------------------------------------ */

/* One key column. Order: integers, floats (-0 = 0; NaN above all numbers), bools, and texts by
 * `map`. Equal keys (nulls with nulls, NaN with NaN) pack to equal words. */
typedef struct tsr__key {
  bool descending, nulls_first;
  /* Text: code i means map[i] (a rank, or a code of another dictionary); negative: equal to
   * nothing. NULL: the code itself. */
  const int32_t *map;
  int64_t map_count;
  /* Found by tsr__keys_range, the same for all parts and tables. */
  int64_t least, most; /* integers, text after `map` */
  bool nullable, seen;
  uint8_t bits;
} tsr__key;

/* The key columns of one table: a column a key. */
typedef struct tsr__range_ask {
  const tsr__parts *parts;
  const tsr__colparts *columns;
  tsr__key *keys; /* in and out */
  int count;
} tsr__range_ask;

/* Widens the ranges of keys by the values of a table. Call it for each table whose keys must
 * compare (both sides of a join), then tsr__keys_settle once; then tsr__pack_keys for each
 * table. */
tsr_status tsr__keys_range(tsr_runtime *rt, const tsr__range_ask *ask, tsr__error *error);
/* Fills `bits`; returns the number of words a key takes (1 where everything fits 64 bits). A key
 * packed in one word lies in its low bits: *bits (may be NULL) says how many in all. */
int tsr__keys_settle(tsr__key *keys, int count, int *bits);

/* Packed keys of one table: word w of row r of part p is word[p][w * rows[p] + r]; the most
 * significant word is 0. `null` (bits; NULL: none): a key of the row is null or equal to nothing
 * (joins leave it out). Buffers are of the parts' devices. */
typedef struct tsr__packed_keys {
  int parts, words, bits;
  uint64_t **word;
  uint64_t **null;
  tsr__buffer **buffers; /* 2 * parts */
} tsr__packed_keys;

/* All words `word` of the keys of a part of `rows` rows; NULL of one without. */
static inline uint64_t *tsr__packed_words(const tsr__packed_keys *keys, int part, int word,
                                          int64_t rows)
{
  return rows ? keys->word[part] + word * rows : NULL;
}

typedef struct tsr__pack_ask {
  const tsr__parts *parts;
  const tsr__colparts *columns;
  const tsr__key *keys;
  int count;
  bool want_null;
} tsr__pack_ask;

/* Word `word` of all parts' keys as a column (bits where it is the number of words: the nulls),
 * which borrows: buffers of no memory of their own. */
typedef struct tsr__packed_word {
  const tsr__packed_keys *packed;
  const tsr__parts *parts;
  int word;
} tsr__packed_word;
tsr_status tsr__packed_column(tsr_runtime *rt, const tsr__packed_word *of, tsr__buffer **out,
                              tsr__error *error);
/* The words of keys that came as columns, [word * parts + part], and their nulls (NULL: none). */
typedef struct tsr__keys_came {
  const tsr__parts *parts;
  int words;
  tsr__buffer **columns, **nulls;
} tsr__keys_came;
/* Packed keys from the columns that came, whose memory they keep: words of one part are put one
 * after the other in its first column, the other columns are released. `word` and `null` of `out`
 * have room for all parts. */
tsr_status tsr__packed_came(tsr_runtime *rt, const tsr__keys_came *came, tsr__packed_keys *out,
                            tsr__error *error);

tsr_status tsr__pack_keys(tsr_runtime *rt, const tsr__pack_ask *ask, tsr__packed_keys *out,
                          tsr__error *error);
void tsr__packed_free(tsr_runtime *rt, tsr__packed_keys *packed);

/* ---- index vectors (gather.c) ---------------------------------------------------------------- */

/* An index vector a part: row numbers of another part's or table's rows. */
typedef struct tsr__index {
  int parts;
  int64_t *rows; /* how many */
  uint32_t **at; /* NULL for a part: 0, 1, 2, ... */
  tsr__buffer **buffers;
} tsr__index;

tsr_status tsr__index_new(tsr_runtime *rt, const tsr__parts *parts, tsr__index *out,
                          tsr__error *error);
void tsr__index_free(tsr_runtime *rt, tsr__index *index);

/* out[i] = from[index[i]] for one column on every part: `values` and `valid` (each `parts` long,
 * filled with fresh buffers; `valid` stays NULL for a part that needs none) belong to the caller.
 * TSR__NO_ROW gives a null. Bool values and validity are bits. */
typedef struct tsr__gather {
  const tsr__parts *parts; /* the index's devices; rows = index->rows */
  const tsr__index *index;
  const tsr__colparts *from;
  bool may_miss; /* TSR__NO_ROW occurs: the result has validity */
} tsr__gather;

tsr_status tsr__gather_column(tsr_runtime *rt, const tsr__gather *ask, tsr__buffer **values,
                              tsr__buffer **valid, tsr__error *error);

/* ---- sorting (sort.c) ----------------------------------------------------------------------- */

/* The order of each part's rows by their packed keys, stable. */
tsr_status tsr__sort_rows(tsr_runtime *rt, const tsr__parts *parts, const tsr__packed_keys *keys,
                          tsr__index *out, tsr__error *error);

/* Device bytes that sorting a part of `rows` rows by keys of `words` words takes, the index
 * included; more only where a sample misleads. */
int64_t tsr__sort_need(int64_t rows, int words);

/* Rows that include the first `count` in order of key, part and row, ascending in each part: all
 * rows with equal first words, else hardly more than `count`. If more than `most` over all parts,
 * `out->rows` stays NULL (sort_top.c). */
typedef struct tsr__top_ask {
  const tsr__parts *parts;
  const tsr__packed_keys *keys;
  int64_t count, most;
} tsr__top_ask;
tsr_status tsr__top_rows(tsr_runtime *rt, const tsr__top_ask *ask, tsr__index *out,
                         tsr__error *error);

/* Rows of all parts, by which others are dealt out: a record a row, the words of its key, its part
 * and its number there. Records of several samples of one table are a sample of it. */
typedef struct tsr__sort_sample {
  int words;
  int64_t count;
  uint64_t *place; /* [count * (words + 2)], on the heap */
  size_t bytes;    /* that it has */
} tsr__sort_sample;

/* `total`: the table's rows; `parts` may hold some of them. */
typedef struct tsr__sample_ask {
  const tsr__parts *parts;
  const tsr__packed_keys *keys;
  int64_t total;
} tsr__sample_ask;

tsr_status tsr__sort_sample_rows(tsr_runtime *rt, const tsr__sample_ask *ask, tsr__sort_sample *out,
                                 tsr__error *error);
size_t tsr__sort_sample_bytes(int words); /* bytes a record */
void tsr__sort_sample_free(tsr_runtime *rt, tsr__sort_sample *sample);

/* Which part each row goes to so that parts hold nearly even runs of all parts' rows in order of
 * key, part and row (sort_split.c). */
typedef struct tsr__sort_split {
  int parts;
  tsr__buffer **dest; /* u16, [part] */
} tsr__sort_split;

typedef struct tsr__split_ask {
  const tsr__parts *parts;
  const tsr__packed_keys *keys;
  const tsr__sort_sample *sample;
} tsr__split_ask;

tsr_status tsr__sort_split_rows(tsr_runtime *rt, const tsr__split_ask *ask, tsr__sort_split *out,
                                tsr__error *error);
void tsr__sort_split_free(tsr_runtime *rt, tsr__sort_split *split);

/* ---- routes of rows (route.c) ---------------------------------------------------------------- */

typedef struct tsr__routes {
  const tsr__parts *parts;
  tsr__buffer *const *dest; /* u16, [part]: the part that each row goes to */
  tsr__index *order;        /* out: freed by the caller; NULL: not wanted */
  int64_t *counts;          /* out: counts[from * parts + to] */
} tsr__routes;

/* Stable partition of each part's rows by destination: fills counts and order. */
tsr_status tsr__route_rows(tsr_runtime *rt, const tsr__routes *routes, tsr__error *error);

/* ---- grouping (group_number.c, group_aggregate.c) -------------------------------------------- */

/* Groups of equal keys of each part. `group[p][r]` numbers the groups of part p from 0 in order of
 * their first row; `first` holds each group's first row, `count` their number. If keys of several
 * parts have few bits, number[p][key] is a key's group or TSR__NO_ROW; else `number` is NULL. */
typedef struct tsr__grouped {
  int parts, bits; /* bits a key */
  int64_t steps;   /* that tables took beyond the slots where keys belong */
  int64_t *count;
  uint32_t **group, **number;
  tsr__index first;
  tsr__buffer **buffers, **tables; /* memory of `group` and `number` */
} tsr__grouped;

tsr_status tsr__group_rows(tsr_runtime *rt, const tsr__parts *parts, const tsr__packed_keys *keys,
                           tsr__grouped *out, tsr__error *error);
void tsr__grouped_free(tsr_runtime *rt, tsr__grouped *grouped);

enum tsr__group_op {
  TSR__GROUP_COUNT, /* rows, or values that are not null */
  TSR__GROUP_SUM,   /* integers and bools: i64, u64 of unsigned ones, leaving it is TSR_EVALUE;
                     floats: their dtype, exact */
  TSR__GROUP_MEAN,
  TSR__GROUP_VAR,
  TSR__GROUP_STD, /* ddof 1 */
  TSR__GROUP_MIN,
  TSR__GROUP_MAX,
  TSR__GROUP_ANY,
  TSR__GROUP_ALL,
  TSR__GROUP_FIRST,
  TSR__GROUP_LAST,     /* the last row's value, null if that is null */
  TSR__GROUP_QUANTILE, /* linear between neighbours, as pandas; median: 0.5 */
  TSR__GROUP_NUNIQUE,  /* nulls do not count */
  TSR__GROUP_CORR      /* two columns with equal nulls: both bools and integers (u64 only
                          with itself), both f64, or an integer and f64 */
};

/* One aggregate of a column (column -1: of rows). Results have the frame's types: mean, var, std,
 * quantile are f64, f32 of f32; corr f64; nulls are skipped; no values give: sum and counts 0, any
 * false, all true, the rest null. NaN: see the frames' direct groups (docs/NUMERICS.md). */
typedef struct tsr__group_agg {
  uint8_t op;
  int column, other; /* other: corr */
  double q;
  const int32_t *map; /* min, max of text: ranks by code */
  int64_t map_count;
} tsr__group_agg;

/* The dtype of an aggregate of a column of `dtype`. */
tsr_dtype tsr__group_dtype(int op, tsr_dtype dtype);

typedef struct tsr__aggregate_ask {
  const tsr__parts *parts;
  const tsr__grouped *groups;
  const tsr__colparts *columns;
  const tsr__group_agg *aggs;
  int count;
  const tsr__agreeing *agree; /* joins records with other processes'; NULL: no others */
} tsr__aggregate_ask;

/* All aggregates of all groups: values[a * parts + p] and valid[...] (NULL where nothing is
 * null). */
tsr_status tsr__aggregate_groups(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                 tsr__buffer **values, tsr__buffer **valid, tsr__error *error);

/* Aggregates in the making: a record of words for each group of each part, exact and joined in any
 * order, so that parts may group their rows first and join their records afterwards. */
typedef struct tsr__group_records tsr__group_records;

/* *out is NULL where records cannot hold the aggregates: last rows, quantiles, distinct values,
 * sums of floats very far apart. Free *out before the memory that `ask` points to. */
tsr_status tsr__group_record_groups(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                    tsr__group_records **out, tsr__error *error);
void tsr__tallied_free(tsr__group_records *tallied);       /* NULL is allowed */
int tsr__tallied_words(const tsr__group_records *tallied); /* words a record */
uint64_t *tsr__tallied_records(const tsr__group_records *tallied, int part);
/* Records of any parts, each for a group; those of groups first .. end - 1 are joined. */
typedef struct tsr__joining {
  const uint32_t *group;
  const uint64_t *record;
  int64_t count;
  uint64_t first, end;
} tsr__joining;
void tsr__tallied_join(tsr__group_records *tallied, int part, const tsr__joining *from);
/* Does the work of tsr__aggregate_groups for records, and reads counts and first rows of `groups`:
 * group g has record g of its part. */
tsr_status tsr__tallied_read(tsr__group_records *tallied, const tsr__grouped *groups,
                             tsr__buffer **values, tsr__buffer **valid, tsr__error *error);

/* ---- matching (match.c) ---------------------------------------------------------------------- */

enum tsr__match_how { TSR__MATCH_INNER, TSR__MATCH_LEFT, TSR__MATCH_SEMI, TSR__MATCH_ANTI };

/* Each part's pairs of rows with equal keys in order of the left rows, and for one left row
 * in order of the right ones. LEFT keeps unmatched rows with TSR__NO_ROW; SEMI and ANTI give left
 * rows only. Rows with null keys match nothing. */
typedef struct tsr__match_ask {
  const tsr__parts *left_parts, *right_parts;
  const tsr__packed_keys *left, *right;
  int how;
} tsr__match_ask;

#endif
