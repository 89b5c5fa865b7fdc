/* Level 8: sources of records, as rows of a table of functions.
 *
 *   npz(a.npz) ---- slice ---- shuffle ---- map ----> pipeline
 *      leaf         orders: position to position   rows: made of other rows
 *
 * A source is immutable once made and read by many threads at once. It is asked for the records at
 * some positions of an epoch, and each one puts them where the cells say: nobody in between holds a
 * record but who changes it. */
#ifndef TSR_PIPELINE_RECORDS_H
#define TSR_PIPELINE_RECORDS_H

#include "base/base.h"
#include "graph/graph.h"
#include "tessera/pipeline.h"

enum { TSR__BLOCK = 256 }; /* records that are asked for at once, at most */

typedef struct tsr__column {
  const char *name;
  tsr_dtype dtype;
  tsr_shape shape; /* of a record */
  size_t bytes;    /* of a record, bool as bytes */
} tsr__column;

/* Characters of names of fields. */
static inline bool tsr__name_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/* Where the records of a field go, `stride` bytes from one to the next; NULL data: nobody asks. */
typedef struct tsr__cell {
  char *data;
  size_t stride;
} tsr__cell;

/* The function of the user's that a thread is in, and of which record. */
typedef struct tsr__where {
  _Atomic(const char *) name; /* NULL: in none */
  _Atomic int64_t record;
} tsr__where;

/* A question: record at[i] of an epoch goes to place[i] of each cell; no places: to place i. */
typedef struct tsr__ask_rows {
  int64_t epoch;
  const int64_t *at;
  const int64_t *place;
  int64_t count; /* at most TSR__BLOCK */
  const tsr__cell *cells;
  const tsr_pipeline *pipeline; /* who asks; NULL: nobody that could be closed meanwhile */
  struct tsr__where *where;     /* what the asking thread tells of itself; NULL: nobody wants it */
} tsr__ask_rows;

typedef struct tsr__records_ops {
  const char *kind;
  tsr_status (*read)(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error);
  /* The positions that records have in the leaf that holds them; `to` may be `at`. NULL: as they
   * are. */
  void (*ids)(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
              int64_t *to);
  /* What tells it from others of its kind: "seed=7". */
  void (*about)(const tsr_source *source, tsr__text *out);
  void (*release)(tsr_source *source); /* what it holds beside its arena; NULL: nothing */
} tsr__records_ops;

struct tsr_source {
  tsr__node node;
  const tsr__records_ops *ops;
  bool inert;
  bool by_epoch; /* which record a position is depends on the epoch */
  int64_t count;
  int64_t extent;         /* ids are below it */
  const tsr_source *leaf; /* the one that all records lie in; NULL: there are several */
  int column_count, child_count;
  tsr__column *columns;
  tsr_source **children;
  char *text; /* of tsr_source_text, once asked for */
};

/* Whether a source can be read. */
static inline bool tsr__records_usable(const tsr_source *source)
{
  return source && !source->inert;
}

static inline int64_t tsr__place_of(const tsr__ask_rows *ask, int64_t i)
{
  return ask->place ? ask->place[i] : i;
}

static inline char *tsr__cell_of(const tsr__ask_rows *ask, int column, int64_t i)
{
  return ask->cells[column].data + (size_t)tsr__place_of(ask, i) * ask->cells[column].stride;
}

/* A source of `size` bytes with copies of columns and children, or an inert one with the error
 * recorded. A scope that is none gives a constant, inert one. */
typedef struct tsr__records_make {
  const char *call; /* "tsr_source_slice", in messages */
  const char *site;
  const tsr__records_ops *ops;
  size_t size;
  int64_t count;
  const tsr__column *columns;
  int column_count;
  tsr_source *const *children;
  int child_count;
} tsr__records_make;
tsr_source *tsr__records_new(tsr_scope *scope, const tsr__records_make *make);
/* An inert source that records an error, if there is one. */
tsr_source *tsr__records_refused(tsr_scope *scope, const char *site, const char *call,
                                 const tsr__error *error);
/* The scope where something made of sources belongs; NULL where one of them cannot be used. */
tsr_scope *tsr__records_scope(tsr_source *const *sources, int count);

/* Checks name, dtype and shape of a column and sets its bytes. */
tsr_status tsr__column_check(tsr__column *column, tsr__error *error);
/* Columns of fields up to the first without a name; 0 with the error set. */
int tsr__columns_of(const tsr_record_field *fields, tsr__column *columns, tsr__error *error);
int tsr__column_find(const tsr__column *columns, int count, const char *name);
/* Whether two sources have the same columns in the same order; the error says what differs. */
tsr_status tsr__columns_same(const tsr_source *a, const tsr_source *b, tsr__error *error);
/* "image u8[8,8]". */
void tsr__column_text(const tsr__column *column, tsr__text *out);

/* Reads by the child, ids by the child. */
tsr_status tsr__records_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error);
void tsr__records_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to);
/* The whole text, appended. */
void tsr__records_about(const tsr_source *source, tsr__text *out);

#endif
