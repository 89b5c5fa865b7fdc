/* Level 8: what stages share that make other records of records.
 *
 *   scan    all records of a source in order, a room of them at a time: once, when a stage is made
 *   room    some records of a source on the host, column by column
 *
 * Records that a stage makes (a batch of some, a window, a pack) are known by their number in it:
 * that is their id. */
#ifndef TSR_PIPELINE_STAGE_H
#define TSR_PIPELINE_STAGE_H

#include "pipeline/records.h"
#include "tessera/pipeline_stages.h"

enum { TSR__ROOM = 1 << 18 }; /* bytes of records that a stage works on at once, about */

/* Some columns of a source. */
typedef struct tsr__columns {
  uint64_t bit[TSR__MAX_COLUMNS / 64];
} tsr__columns;
static const tsr__columns tsr__all_columns = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };
static inline bool tsr__columns_have(const tsr__columns *columns, int column)
{
  return columns->bit[column / 64] >> column % 64 & 1;
}
static inline void tsr__columns_add(tsr__columns *columns, int column)
{
  columns->bit[column / 64] |= UINT64_C(1) << column % 64;
}
static inline bool tsr__columns_none(const tsr__columns *columns)
{
  uint64_t all = 0;
  for (int i = 0; i < TSR__MAX_COLUMNS / 64; i++) all |= columns->bit[i];
  return !all;
}
static inline tsr__columns tsr__columns_one(int column)
{
  tsr__columns one = { { 0 } };
  tsr__columns_add(&one, column);
  return one;
}

typedef struct tsr__room {
  tsr__heap *heap;
  char *data;
  size_t bytes;
  int64_t rows; /* at most TSR__BLOCK */
  tsr__cell cells[TSR__MAX_COLUMNS];
} tsr__room;

/* Room for records of some columns of a source: for `rows`, or as many as are well worked on at
 * once. */
tsr_status tsr__room_open(tsr__room *room, const tsr_source *source, tsr__columns columns,
                          int64_t rows, tsr__error *error);
void tsr__room_close(tsr__room *room);
/* Reads the records at[0 .. count) for who asks `ask`. */
tsr_status tsr__room_read(const tsr__room *room, const tsr_source *source, const tsr__ask_rows *ask,
                          const int64_t *at, tsr__error *error);

/* Is shown records first .. first + count - 1 of a source. */
typedef tsr_status tsr__scan_fn(void *user, const tsr__room *room, int64_t first, int64_t count,
                                tsr__error *error);
/* Is told of a record of a source that cannot be read: what stands for it. */
typedef void tsr__scan_bad_fn(void *user, int64_t record);
typedef struct tsr__scan {
  tsr_source *source; /* afterwards what the stage is to stand over */
  tsr__columns columns;
  const char *call, *what; /* in messages, and for the progress callback */
  tsr__scan_fn *fn;
  void *user;
  tsr__scan_bad_fn *bad;
} tsr__scan;

/* Shows every record, on the calling thread; the progress callback may cancel. Records that cannot
 * be read have their places all the same, and stay bad for whoever reads them, with the error that
 * there was: so it is the pipeline's .bad that says what becomes of them, and none is let through
 * that could be read the next time. */
tsr_status tsr__scan_all(tsr__scan *scan, tsr__error *error);

/* A record that is bad whatever lies below (stage_unread.c). */
typedef struct tsr__unread {
  int64_t record;
  tsr_status status;
  char *text; /* on the heap */
} tsr__unread;
typedef struct tsr__unread_list {
  tsr__heap *heap;
  tsr__unread *at; /* by record */
  size_t count, room;
} tsr__unread_list;
bool tsr__unread_add(tsr__unread_list *list, int64_t record, tsr_status status, const char *text);
void tsr__unread_free(tsr__unread_list *list);
/* The source without these, which it takes; itself where there are none. Inert on an error. */
tsr_source *tsr__unread_over(tsr_source *source, tsr__unread_list *list, const char *site);
/* The ids of the records that a scan shows. */
void tsr__scan_ids(const tsr_source *source, int64_t first, int64_t count, int64_t *ids);
/* Refuses a source whose order changes by epoch, for stages that look at it once. */
tsr_status tsr__scan_check(const tsr_source *source, tsr__error *error);

/* Room for `count` numbers, or the error. */
int64_t *tsr__numbers_new(tsr__heap *heap, int64_t count, tsr__error *error);
void tsr__numbers_free(tsr__heap *heap, int64_t *numbers, int64_t count);
/* The last of the ascending numbers start[0 .. count) that is not above `at`. */
int64_t tsr__numbers_find(const int64_t *start, int64_t count, int64_t at);

/* The field called so; -1 with the error set. */
int tsr__field_find(const tsr_source *source, const char *name, tsr__error *error);
/* The field of i64 that has the true length of a ragged one, "tokens_length" of "tokens"; -1: it
 * has none and is as long as its shape says. */
int tsr__length_find(const tsr_source *source, const char *name);

/* A number as an element of a dtype, where it has it; none: zero. */
bool tsr__element_of(tsr_scalar number, tsr_dtype dtype, char value[8]);
void tsr__element_text(tsr_dtype dtype, const char *value, char text[32]);

/* As tsr__records_refused, in the source's scope. */
tsr_source *tsr__stage_refused(tsr_source *source, const char *call, const tsr__error *error,
                               const char *site);
/* Ids of a stage whose records are its own. */
void tsr__stage_owns(tsr_source *stage);

#endif
