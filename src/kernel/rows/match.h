/* Inside kernel/ and relate/: matching in steps, for callers that do not need every index vector.
 *
 *   right keys  ->  a table a part  ->  match[left row] = its first right row, and then its chain
 *
 * A left row's further matches hang on the first one's link in order of the right rows. */
#ifndef TSR_KERNEL_MATCH_H
#define TSR_KERNEL_MATCH_H

#include "kernel/rows/columns.h"
#include "kernel/rows/key_hash.h"

/* A run of one part's rows: a task, with the finds of its passes. */
typedef struct tsr__match_piece {
  int part;
  bool several, misses; /* a left row with two matches or more; with none */
  int64_t begin, end;
  uint64_t least, most; /* right keys that are not null */
  int64_t count;        /* left: result rows; right: keys that are null */
  int64_t at;           /* place of the first result row in the part */
} tsr__match_piece;

/* One part's table of right rows. Direct: head[key - least]; otherwise slots by hash. */
typedef struct tsr__match_slot {
  uint64_t key; /* the word, or a hash of several */
  uint32_t row, unused;
} tsr__match_slot;

/* A right row in the chain of its key: the next such row, and how many the chain has from here
 * on. */
typedef struct tsr__match_link {
  uint32_t next, length;
} tsr__match_link;

typedef struct tsr__match_table {
  int device, words, ranges;
  bool direct;
  int64_t left_rows, right_rows;
  const uint64_t *left, *left_null, *right, *right_null;
  uint64_t least, span; /* direct: keys least .. least + span - 1 */
  uint32_t *head;       /* span + 1: the last is for keys outside */
  tsr__match_slot *slot;
  int slot_bits, range_bits; /* 2^slot_bits slots in 2^range_bits ranges that are filled apart */
  tsr__match_link *link;     /* [right row] */
  bool chained, full;
  tsr__key_seed seed;
  tsr__buffer *memory[3]; /* head or slot, links, match */
} tsr__match_table;

typedef struct tsr__matched {
  tsr_runtime *rt;
  int parts, how;
  bool direct;   /* every part's table is */
  bool repeats;  /* a left row met two right rows or more */
  bool misses;   /* a left row met none */
  int64_t need;  /* bytes of the device with most */
  int64_t steps; /* that filling the tables took beyond the slots where keys belong */
  tsr__match_table *table;
  uint32_t **match; /* [part][left row]: its first right row, or TSR__NO_ROW */
  int64_t *rows;    /* [part]: rows of the result */
  tsr__match_piece *left, *right;
  int64_t left_count, right_count, left_room; /* left_room: pieces that `left` has room for */
} tsr__matched;

/* Builds the tables and finds each left row's first match. On failure nothing is held. */
tsr_status tsr__match_find(tsr_runtime *rt, const tsr__match_ask *ask, tsr__matched *out,
                           tsr__error *error);
/* The result's left rows; a part whose left rows stay as they are gets no vector (at NULL). */
tsr_status tsr__match_left(const tsr__matched *matched, tsr__index *out, tsr__error *error);
/* The result's right rows, of an inner or left join. May take matched->match over. */
tsr_status tsr__match_right(tsr__matched *matched, tsr__index *out, tsr__error *error);
void tsr__match_free(tsr__matched *matched);
/* Whether every part's left rows give one row or none, so that tsr__match_keep does without an
 * index. */
bool tsr__match_keeps(const tsr__matched *matched);
/* A left column without nulls and no bools, of the rows that stay; fresh buffers, or the column's
 * own (one more reference) where all stay. */
tsr_status tsr__match_keep(const tsr__matched *matched, const tsr__colparts *from,
                           tsr__buffer **values, tsr__error *error);

/* ---- keys that meet on other devices (match_away.c) ---- */

/* The least and most key of right rows without nulls, least above most if no key is there, and the
 * number of rows. Keys of several words have no extent: any may meet another. */
typedef struct tsr__match_extent {
  uint64_t least, most;
  int64_t rows;
} tsr__match_extent;
typedef struct tsr__extent_ask {
  const tsr__parts *parts;
  const tsr__packed_keys *packed;
} tsr__extent_ask;
tsr_status tsr__match_extent_of(tsr_runtime *rt, const tsr__extent_ask *ask, tsr__match_extent *out,
                                tsr__error *error);

/* Which part each row's key is sent to: parts own shares of the keys' range where right keys lie
 * close together, of their hashes otherwise. A row that can match nothing stays where it is. */
typedef struct tsr__match_owners {
  const tsr__parts *parts[2]; /* left, right */
  const tsr__packed_keys *packed[2];
  const struct tsr__match_extent *extent; /* all right rows */
  tsr__buffer *const *dest[2];            /* u16, [part]: filled */
} tsr__match_owners;
tsr_status tsr__match_owners_of(tsr_runtime *rt, const tsr__match_owners *ask, tsr__error *error);

/* The owners' answer to the left rows that came: TSR_BOOL, whether there is a match, or TSR_I32,
 * how many right rows. `came[home * parts + owner]` rows lie in order of their homes; `counts[owner
 * * parts + home]` gets the number of right rows that go back. */
typedef struct tsr__match_answer {
  const tsr__matched *matched;
  const int64_t *came;
  tsr_dtype dtype;
  tsr__buffer *const *answers;
  int64_t *counts;
} tsr__match_answer;
tsr_status tsr__match_answers(const tsr__match_answer *ask, tsr__error *error);

/* Matches made of answers: answer i of a part is about its row order[i], and the right rows that
 * came back lie in order of the answers. */
typedef struct tsr__match_home {
  const tsr__parts *parts;
  const tsr__index *order;
  tsr_dtype dtype;
  tsr__buffer *const *answers;
  int how;
} tsr__match_home;
tsr_status tsr__match_at_home(tsr_runtime *rt, const tsr__match_home *ask, tsr__matched *out,
                              tsr__error *error);

/* Fails with TSR_ENOMEM if a device's limit does not allow `bytes` more. */
tsr_status tsr__match_room(tsr_runtime *rt, int device, int64_t bytes, tsr__error *error);

/* ---- inside matching ---- */

/* A matched without tables, its left rows cut into pieces. On failure tsr__match_free takes it. */
tsr_status tsr__match_open(tsr_runtime *rt, const tsr__parts *left, int how, tsr__matched *out,
                           tsr__error *error);
/* Memory of a part: 0 table, 1 links, 2 match[]. */
tsr_status tsr__match_take(tsr__matched *matched, int part, int which, int64_t bytes,
                           tsr__error *error);
/* Counts a piece's results from match[] and links; then numbers all. */
void tsr__match_count(const tsr__matched *matched, tsr__match_piece *piece);
tsr_status tsr__match_number(tsr__matched *matched, tsr__error *error);

/* ---- match_table.c ---- */

/* Chooses each table's kind, from the ranges that a pass over right keys finds. */
tsr_status tsr__match_choose(tsr__matched *matched, tsr__error *error);
int64_t tsr__match_table_bytes(const tsr__match_table *table);
/* Fills the tables, whose memory is there. */
tsr_status tsr__match_build(tsr__matched *matched, tsr__error *error);
/* match[] of the left rows begin .. end - 1. */
void tsr__match_probe(const tsr__match_table *table, int64_t begin, int64_t end, uint32_t *match);

#endif
