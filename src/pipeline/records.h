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

enum {
  TSR__BLOCK = 256,      /* records that are asked for at once, at most */
  TSR__DEEPEST = 128,    /* sources one over the other: each reads by the one below, on one stack */
  TSR__MAX_COLUMNS = 256 /* of a source; a call names TSR_MAX_FIELDS at most */
};

typedef struct tsr__column {
  const char *name;
  tsr_dtype dtype;
  tsr_shape shape; /* of a record */
  size_t bytes;    /* of a record, bool as bytes */
} tsr__column;

/* Characters of names that any reader of names takes as they are: those of trees, and of fields
 * that files name. Fields that a program names have any. */
static inline bool tsr__name_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}
/* Puts '_' in the place of others. */
void tsr__name_clean(char *name);
/* Whether a name is another one as it stands, or with '_' in the place of others. */
bool tsr__name_meant(const char *name, const char *own);
/* The same whatever the size of ASCII's letters. */
bool tsr__name_meant_any_case(const char *name, const char *own);

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

/* What each kind of stage took of some blocks, without those below it. */
enum { TSR__METER_STAGES = 24 };
typedef struct tsr__metered {
  const char *kind;
  int64_t busy, records; /* nanoseconds */
} tsr__metered;
/* Records that several branches of a merge ask for, while one block of it is read. */
typedef struct tsr__once tsr__once;
typedef struct tsr__meter {
  int64_t inside; /* nanoseconds of the stages below the one that runs */
  int count;
  tsr__metered stage[TSR__METER_STAGES];
} tsr__meter;
void tsr__meter_stage(tsr__meter *meter, const char *kind, int64_t busy, int64_t records);

/* A question: record at[i] of an epoch goes to place[i] of each cell; no places: to place i. */
typedef struct tsr__ask_rows {
  int64_t epoch;
  const int64_t *at;
  const int64_t *place;
  int64_t count; /* at most TSR__BLOCK */
  const tsr__cell *cells;
  const tsr_pipeline *pipeline; /* who asks; NULL: nobody that could be closed meanwhile */
  struct tsr__where *where;     /* what the asking thread tells of itself; NULL: nobody wants it */
  tsr__meter *meter;            /* of a block that is timed */
  tsr__progress *progress;      /* of a program that waits for the answer; NULL: none does */
  int worker;                   /* whom it is asked as */
  tsr__once *once;              /* NULL: nobody keeps what is read below */
  bool partial; /* of ragged fields that are lent no more is read than their lengths say */
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
  /* Where a field of some records lies in memory, to be read there instead of copied; false: it
   * does not, or not all of it. NULL: never. */
  bool (*lend)(const tsr_source *source, int column, const tsr__ask_rows *ask, const char **to);
  /* The file of a record, and what tells it apart there. NULL: it lies in none. */
  void (*where)(const tsr_source *source, int64_t record, tsr__text *out);
} tsr__records_ops;

/* A batch that a source deals: records first .. first + records - 1 of it, where a whole one would
 * have `size`. What wraps goes on with records home .. home + around - 1, over and over. */
typedef struct tsr__deal {
  int64_t first, records, size, home, around;
} tsr__deal;

/* Records of about one length, and the batches that they are dealt out in. */
typedef struct tsr__bucket {
  int64_t bound, size;   /* the longest, and records of a batch */
  int64_t records, used; /* and elements of the field in all of them */
} tsr__bucket;

/* A source that says itself which of its records come together: batch by batch other numbers of
 * them, and batches in an order that is not the one of positions. The first `whole` of `all` are
 * full; only those that are left over at the end may not be. */
typedef struct tsr__dealer tsr__dealer;
struct tsr__dealer {
  const tsr_source *source; /* that has these positions */
  void (*deal)(const tsr__dealer *dealer, int64_t epoch, int64_t batch, tsr__deal *out);
  int64_t whole, all, least, most; /* batches; records of one that is full */
  const tsr__bucket *buckets;
  int bucket_count;
  const char *field; /* whose lengths decided */
};

struct tsr_source {
  tsr__node node;
  const tsr__records_ops *ops;
  bool inert;
  bool blocking; /* some of its functions wait for something else than processors */
  bool by_epoch; /* which record a position is depends on the epoch */
  bool streams;  /* records come in order only, and `count`, which nobody knows, is 0 */
  int64_t count;
  bool drawn;             /* what its fields are depends on the epoch as well */
  int64_t extent;         /* ids are below it */
  const tsr_source *leaf; /* the one that all records lie in; NULL: there are several */
  int column_count, child_count;
  int depth; /* sources one over the other, itself included */
  tsr__column *columns;
  tsr_source **children;
  const int64_t *files; /* where each of its files begins, and the end; NULL: it has none */
  int64_t file_count;
  /* The stage that orders the records by length, as this one has its positions: `fit` says how long
   * the field fit_column of records first .. is there at most. NULL: none does. */
  const tsr_source *fitted;
  int64_t (*fit)(const tsr_source *source, int64_t epoch, int64_t first, int64_t count);
  int fit_column;
  const tsr__dealer *dealer; /* NULL: whoever reads it says how many records a batch has */
  char *text;                /* of tsr_source_text, once asked for */
};

/* Whether a source can be read. */
static inline bool tsr__records_usable(const tsr_source *source)
{
  return source && !source->inert;
}

/* What the kernels of its runtime run with. */
static inline const char *tsr__records_isa(const tsr_source *source)
{
  return source->node.scope->rt->isa;
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
/* The same of what may stand over a stream: record i of it is made of record i below alone. */
tsr_source *tsr__records_in_order(tsr_scope *scope, const tsr__records_make *make);
/* A stage of one source that has as many records, with the same columns. */
tsr_source *tsr__records_over(tsr_source *source, const char *call, const tsr__records_ops *ops,
                              size_t size, const char *site);
/* Of a stage with the same record at each position: what else holds of its positions. */
void tsr__records_follow(tsr_source *made, const tsr_source *source);
/* An inert source that records an error, if there is one. */
tsr_source *tsr__records_refused(tsr_scope *scope, const char *site, const char *call,
                                 const tsr__error *error);
/* The scope where something made of sources belongs; NULL where one of them cannot be used. */
tsr_scope *tsr__records_scope(tsr_source *const *sources, int count);

/* Checks name, dtype and shape of a column and sets its bytes. */
tsr_status tsr__column_check(tsr__column *column, tsr__error *error);
/* Columns of fields up to the first without a name; 0 with the error set. */
int tsr__columns_of(const tsr_record_field *fields, tsr__column *columns, tsr__error *error);
/* Takes the first dim off an array's shape: the number of records, which `records` has already
 * where it is not -1. TSR_ESHAPE. */
tsr_status tsr__column_records(tsr__column *column, int64_t *records, tsr__error *error);

/* Names of a list, "a, b=c": blanks about them are left out, and one in double quotes has any
 * characters, with two for a quote. `as` is what stands behind '=' where lists rename, else
 * NULL. */
typedef struct tsr__name_list {
  const char *name[TSR__MAX_COLUMNS], *as[TSR__MAX_COLUMNS];
  int count;
} tsr__name_list;
tsr_status tsr__name_list_read(tsr__arena *arena, const char *list, bool renames,
                               tsr__name_list *out, tsr__error *error);
/* The place of a name in a list; -1: it is not there. */
int tsr__name_list_find(const tsr__name_list *names, const char *name);

/* Names that were met where another one was not, for what is said of it. */
enum { TSR__KNOWN = 32, TSR__KNOWN_NAME = 64, TSR__HINT = 240 };
typedef struct tsr__known {
  char name[TSR__KNOWN][TSR__KNOWN_NAME];
  int count;
  bool more;
} tsr__known;
void tsr__known_add(tsr__known *known, const char *name, size_t length);
/* "; did you mean 'a'?", else "; there are a, b" */
const char *tsr__known_hint(const tsr__known *known, const char *name, char out[TSR__HINT]);

/* Which of the arrays that files have are fields: those of a list, or all. */
typedef struct tsr__chosen {
  tsr__arena *arena;
  tsr__name_list list;
  bool met[TSR__MAX_COLUMNS]; /* of the list */
  tsr__known known;
} tsr__chosen;
/* `names` is as tsr_source_select has it; NULL: all. */
tsr_status tsr__chosen_open(tsr__chosen *chosen, tsr__arena *arena, const char *names,
                            tsr__error *error);
/* What the field of an array is called, in the arena: as it is asked for, and of all with '_' for
 * what only some names have; "" where nobody wants it. NULL: no memory. */
const char *tsr__chosen_name(tsr__chosen *chosen, const char *name, size_t length);
/* Whether all of the list were met. TSR_EPARSE. */
tsr_status tsr__chosen_check(const tsr__chosen *chosen, tsr__error *error);

int tsr__column_find(const tsr__column *columns, int count, const char *name);
/* Ragged fields are dense: `longest` elements (1 at least) with zeros behind those that a record
 * has, and how many it has beside them, as the column NAME_length of i64. `column` has the name,
 * the dtype and the shape of an element; two columns come of it. TSR_ENOMEM and those of
 * tsr__column_check. */
tsr_status tsr__ragged_columns(tsr__arena *arena, tsr__column *column, int64_t longest,
                               tsr__error *error);
/* Where records with such a field are read from, and the option that says how long it is. */
tsr_status tsr__ragged_check(const char *path, int64_t longest, tsr__error *error);
/* A record's ragged field, of which `used` bytes are there: zeros behind them, and its length in
 * elements. `column` is the field's, its length's is the next. */
void tsr__ragged_end(const tsr_source *source, const tsr__ask_rows *ask, int column, int64_t i,
                     int64_t used);
/* Columns of fields that were asked for, each with that of its lengths behind it where it is
 * ragged: the first of its dims says then how many elements it has at most. */
typedef struct tsr__asked {
  tsr__column columns[TSR__MAX_COLUMNS];
  bool ragged[TSR__MAX_COLUMNS];
  int count;
} tsr__asked;
/* All of `fields`, of which those of the list `ragged` are (NULL: none). */
tsr_status tsr__asked_all(tsr__asked *made, tsr__arena *arena, const tsr_record_field *fields,
                          const char *ragged, tsr__error *error);
/* What of such fields was met in some record. */
typedef struct tsr__met {
  bool field[TSR__MAX_COLUMNS]; /* by column */
  tsr__known known;             /* of all names there are */
} tsr__met;
/* Looks into a record; what cannot be read has no fields. */
typedef tsr_status tsr__met_fn(const tsr_source *source, int64_t record, tsr__met *met,
                               tsr__error *error);
/* Refuses a field that no record has: where zeros stand for what lacks, a name that is wrong would
 * be nothing but zeros. Records are looked into until each field was met. */
tsr_status tsr__met_check(const tsr_source *source, const bool *ragged, tsr__met_fn *look,
                          tsr__error *error);
/* Whether two sources have the same columns in the same order; the error says what differs. */
tsr_status tsr__columns_same(const tsr_source *a, const tsr_source *b, tsr__error *error);
/* "image u8[8,8]". */
void tsr__column_text(const tsr__column *column, tsr__text *out);

/* Whether nobody wants the answer any more: the pipeline is being closed, or the program cancelled
 * what it waits for. Asked between records that may take long. */
bool tsr__records_stop(const tsr__ask_rows *ask);

/* Whether an error says something of a record: neither lack of memory nor an end does. */
bool tsr__records_bad(const tsr__error *error);
/* Adds where a record lies, by its id, if it lies in a file: "; it is train/cat/1.jpg". */
void tsr__records_where(const tsr_source *source, int64_t id, tsr__text *out);

/* As tsr__records_read of the source whose records are kept (stage_merge.c). */
tsr_status tsr__once_read(tsr__once *once, const tsr__ask_rows *ask, tsr__error *error);
const tsr_source *tsr__once_source(const tsr__once *once);

/* Reads by the child, ids by the child. */
tsr_status tsr__records_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error);
void tsr__records_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to);
/* As the row's `lend`, for at most TSR__BLOCK records. */
bool tsr__records_lend(const tsr_source *source, int column, const tsr__ask_rows *ask,
                       const char **to);
/* Asks for the memory of a record that will be read, a page of it at most: of a large one in the
 * second cache, as it is all of the first. Records of positions in any order are asked for so many
 * before they are read. */
enum { TSR__LINE = 64, TSR__SMALL = 512, TSR__TOUCHED = 4096 };
static inline int64_t tsr__ahead(size_t bytes)
{
  return bytes > TSR__SMALL ? 2 : 8;
}
/* Called, it would be left out: GCC 12 takes a function that only asks for memory for one that does
 * nothing. */
__attribute__((always_inline)) static inline void tsr__touch(const char *data, size_t bytes)
{
  size_t end = bytes < TSR__TOUCHED ? bytes : TSR__TOUCHED;
  if (bytes <= TSR__SMALL)
    for (size_t b = 0; b < end; b += TSR__LINE) __builtin_prefetch(data + b);
  else
    for (size_t b = 0; b < end; b += TSR__LINE) __builtin_prefetch(data + b, 0, 2);
}
/* The whole text, appended. */
void tsr__records_about(const tsr_source *source, tsr__text *out);

#endif
