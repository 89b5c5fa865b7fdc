/* Level 7: frames as chains of what was asked, and what a terminal makes of them.
 *
 *   read_csv -> filter -> assign -> agg        nodes of this room (tsr_frame), made at the calls
 *                                   |
 *                               terminal: which columns are needed? read them, then bind:
 *                                   v
 *   leaf, leaf -> gt -> div -> sum(.., mask)   nodes of graph/ (tsr_array) in a scope of its own
 *
 * A selection is a bool array beside the columns; filters are joined by `and` and rows stay where
 * they are, so filter + assign + agg is one program of one kernel. Nothing is compacted before
 * rows themselves are asked for.
 *
 * Frames that change which rows there are in which order (sort, join, group, concat, place) cut a
 * chain: they are *breakers*. A terminal makes a breaker's rows before it binds what follows: a
 * terminal of its own evaluates the needed columns of the parents and the keys, relate/ makes new
 * rows of them, and those stay with the breaker as a source (tsr__source), column by column: a later
 * terminal that needs more columns makes only these. Distinct and group head are no breakers: they
 * evaluate their keys and give a mask. */
#ifndef TSR_FRAME_PLAN_H
#define TSR_FRAME_PLAN_H

#include "execute/execute.h"
#include "frame/expr/expr.h"
#include "io/rows/reader.h"
#include "relate/relate.h"

/* ---- frames ------------------------------------------------------------------------------ */

enum tsr__frame_kind {
  TSR__FRAME_ARRAYS,
  TSR__FRAME_FILE,
  TSR__FRAME_TEXT, /* sources; TEXT adds a column to its parent */
  TSR__FRAME_FILTER,
  TSR__FRAME_ASSIGN,
  TSR__FRAME_SELECT,
  TSR__FRAME_HEAD,   /* rows `first` .. `first + count - 1` */
  TSR__FRAME_TAIL,   /* the last `count` */
  TSR__FRAME_SAMPLE, /* `sample` */
  TSR__FRAME_FIRSTS, /* the first `count` rows of each group of `keys`: distinct, group_head */
  TSR__FRAME_AGG,
  TSR__FRAME_GROUP, /* `keys`, then the items of `formula` */
  TSR__FRAME_ARITH, /* `op` (tsr__binary) with `other` or `number` */
  TSR__FRAME_REDUCE /* every column by `op` (tsr__agg) */,
  TSR__FRAME_SORT,     /* by `keys` and `order` */
  TSR__FRAME_INDEX,    /* column 0, `name`, numbers the rows */
  TSR__FRAME_JOIN,     /* parent and `other`; `join` */
  TSR__FRAME_CONCAT,   /* `part` */
  TSR__FRAME_PLACE,    /* rows where `to` says */
  TSR__FRAME_DESCRIBE, /* nine rows about each column, of a parent that has them as one */
  TSR__FRAME_KEEP,     /* rows as they are, made (tsr_frame_keep) */
};

/* A column as arrays. `valid` NULL: no nulls. `dict`: text, borrowed from its source. An aggregate
 * may instead say that it is null where `count` < `least`, and NaN where `real` (the count of
 * values that are no NaN) is 0: the host looks, and the program stays one kernel. */
typedef struct tsr__col {
  tsr_array *values, *valid;
  tsr_array *count, *real;
  int64_t least;
  const tsr__dict *dict;
  uint8_t type; /* tsr_coltype, or TSR__COL_NULL for a bare null */
} tsr__col;

/* Columns that a file's reader gave without the values of rows that some filters drop: see pushdown.c. They
 * are of use where those filters stand again; a file has one set of them, made when it is first
 * filtered, and what is asked of it in another way is read whole. */
typedef struct tsr__sift_key {
  const char *at;
  size_t length;
} tsr__sift_key;
typedef struct tsr__sifted {
  int count;
  tsr__sift_key *key; /* of the sieves */
  const char *words;  /* they, for explain */
  uint64_t **kept;    /* by part of the file's rows: a bit a row */
  int64_t rows;       /* that pass */
  tsr__col *col;      /* by column of the file */
} tsr__sifted;

/* Where rows come from: arrays, a file, or what an earlier terminal made. Rows that were made may
 * lie ragged (run-time counts a device): then `whole` is a bool array of them, all true, that
 * gives other arrays their layout, and `index` their numbers, made when first asked for. */
typedef struct tsr__source {
  int64_t rows; /* -1: not counted yet */
  tsr_sharding sharding;
  tsr__col *col;             /* values NULL: not read or made yet */
  tsr__dict **dicts;         /* owned references */
  int dict_count, dict_room; /* room 0: one a column */
  tsr__reader reader;        /* none: arrays */
  tsr__sifted *sifted;       /* files; NULL: none */
  struct tsr__source *front; /* files: their first rows, read without the rest; NULL: none */
  int64_t enough;            /* of a front: the most rows that may be asked of it */
  const char *path;
  tsr_array *whole, *index; /* NULL: the usual borders */
  int version;              /* the frame's when its rows were made */
} tsr__source;

/* What making a frame's rows took the last time: for explain. Bytes are those of the columns that
 * were carried, summed over devices, replicas counted once. */
typedef struct tsr__making {
  bool done;
  const char *path; /* static: how, "direct codes", "rows by key" */
  int64_t rows_in, bytes_in, other_rows, other_bytes, rows_out, bytes_out;
  tsr__rel_stats stats;
} tsr__making;

/* How a join was asked for. */
typedef struct tsr__join {
  uint8_t how; /* tsr_join_how */
  bool unique;
  const char *suffix;
  int key_count;
  tsr__expr **left, **right; /* keys, each pair of one type ... */
  uint8_t *type;             /* ... this one */
  int take_count;
  int *take; /* columns of `other` behind the parent's */
} tsr__join;

struct tsr_frame {
  tsr__node node;
  uint8_t kind, op;
  bool inert;
  bool one_row; /* made by agg or a whole-frame reduction, or of such a frame */
  int depth;    /* frames it stands on */
  int version, parent_version, other_version; /* schemas change when a file retypes a column */
  const char *what;                           /* the call: "tsr_frame_filter" */
  tsr_frame *parent, *other;
  tsr_frame **part; /* CONCAT: all parents, `parent` among them */
  int part_count;
  tsr__schema schema;
  tsr__formula formula; /* FILTER, ASSIGN, SELECT, AGG, GROUP */
  const char *name;     /* ASSIGN, TEXT, INDEX: the column made */
  tsr__expr *number;    /* ARITH with a number */
  int64_t first, count; /* HEAD; TAIL, FIRSTS: count; SORT: 0, or only the first `count` */
  tsr__keylist keys;    /* GROUP, FIRSTS, SORT */
  tsr__join *join;
  tsr_sharding to; /* PLACE; `even`: as they lie, at the usual borders */
  bool even;
  tsr_sample_opts sample;
  tsr__source *source; /* sources; others: rows that a terminal made, for what follows */
  tsr_array *mask;     /* FIRSTS: the rows that are the first of their groups ... */
  int mask_version;    /* ... in this version of the frame */
  bool ran;            /* a terminal evaluated it */
  tsr__making making;
};

/* Makes a frame node; an inert one where that fails. Never NULL. */
tsr_frame *tsr__frame_make(tsr_scope *scope, int kind, const char *what, const char *site);
tsr_frame *tsr__frame_inert(tsr_scope *scope, const char *site);
/* One that stands on an inert frame, of which there may be no scope; NULL is allowed. */
tsr_frame *tsr__frame_inert_like(const tsr_frame *df, const char *site);
/* The same for a call that takes several, one of which is inert or NULL; that one is missing is an error of
 * the others' scope. */
tsr_frame *tsr__frame_inert_among(tsr_frame *const *frames, int count, const char *what,
                                  const char *site);
/* Records an error and returns an inert frame. */
tsr_frame *tsr__frame_fail(tsr_frame *df, const tsr__error *error);
bool tsr__frame_usable(const tsr_frame *df);
/* Whether it was made of arrays: then it is evaluated as they are, and nothing is written to it. */
bool tsr__frame_is_source(const tsr_frame *df);
/* The message of an unusable frame. */
const char *tsr__frame_why(const tsr_frame *df);
tsr__source *tsr__source_new(tsr_scope *scope, int columns);

/* Computes the schema of a frame from those of its parents, and checks its expressions. */
tsr_status tsr__frame_type(tsr_frame *df, tsr__error *error);
/* Gives a schema of many columns an index of its names; whoever sets a schema otherwise calls it. */
tsr_status tsr__schema_index(tsr_frame *df, tsr__error *error);
/* Does so again if a parent's schema changed since. */
tsr_status tsr__frame_refresh(tsr_frame *df, tsr__error *error);
/* Marks the parents' columns that a frame's own needed columns are made of; NULL where there is no
 * such parent. */
void tsr__frame_needs(const tsr_frame *df, const bool *need, bool *parent, bool *other);
/* Checks that the rows of two frames are known to be the same, or that one of them is one row. */
tsr_status tsr__same_rows(const char *what, const tsr_frame *left, const tsr_frame *right,
                          tsr__error *error);
/* Where the rows of a result lie whose operands lie so (place.c); NULL and unplaced are one. */
const tsr_sharding *tsr__rows_meet(const tsr_sharding *a, const tsr_sharding *b);
/* The same for one part of a CONCAT. */
void tsr__part_needs(const tsr_frame *df, int part, const bool *need, bool *out);
/* The columns of a JOIN (join.c). */
tsr_status tsr__type_join(tsr_frame *df, tsr__error *error);
/* Checks a new column's name: no NULL, not empty, UTF-8. */
tsr_status tsr__check_name(const char *what, const char *name, tsr__error *error);
/* Whether a terminal makes the frame's rows before it binds what follows. */
bool tsr__frame_breaks(const tsr_frame *df);
/* Whether an AGG or GROUP asks for aggregates that only relate/ computes: median, first, ... */
bool tsr__frame_by_rows(const tsr_frame *df);
/* Whether rows of the frame's source are left out, by a mask. */
bool tsr__frame_masked(const tsr_frame *df);
/* A frame on another, inert where that is or where memory is short. */
tsr_frame *tsr__frame_begin(tsr_frame *parent, int kind, const char *what, const char *site);
/* Types a fresh frame; inert on an error. */
tsr_frame *tsr__frame_typed(tsr_frame *df);
/* What a frame is made of must live at least as long as the frame: `name` says whose. */
tsr_status tsr__check_owner(const tsr_scope *part, const tsr_scope *scope, const char *what,
                            const char *name, tsr__error *error);

/* ---- terminals (bind.c) ------------------------------------------------------------------ */

/* A frame bound to arrays. */
typedef struct tsr__bound {
  int64_t rows; /* of the source, before any selection; 1 for a scalar */
  bool scalar;  /* columns are rank 0 */
  const tsr_sharding *sharding;
  tsr_frame *ragged; /* the frame whose made rows lie ragged; NULL: the usual borders */
  tsr_array *mask;   /* NULL: all rows */
  int count;
  tsr__col *col; /* values NULL: not needed */
} tsr__bound;

/* Something that must not have happened: the first row where it did, checked after the run. */
typedef struct tsr__watch {
  struct tsr__watch *next;
  tsr_array *row; /* i64: the row, beyond the last if there is none; bool: whether */
  int64_t rows;
  const tsr_frame *frame, *from; /* whose check it is, and of whose rows */
  const tsr__expr *expr;
  bool late; /* `row` is a group: it stands among aggregates */
  bool cast; /* a value that `expr`, a cast, cannot take: one of `shown`; else an overflow */
  tsr_array *shown;
  const tsr__dict *dict;
  uint8_t shown_type;
} tsr__watch;

/* One frame of a terminal. Visits are in an order in which parents come first. */
typedef struct tsr__visit {
  struct tsr__visit *next;
  tsr_frame *df;
  bool scalar; /* a frame of one row, wanted as scalars */
  bool made;   /* its rows are made by a terminal of their own */
  bool live;   /* something needs it */
  bool here;   /* it is bound in this terminal, not in one that makes rows */
  bool *need;
  const struct tsr__sift *sift; /* of a file's rows, where columns without dropped rows will do */
  int64_t front; /* of a file: so many of its first rows will do, -1: all are needed */
  struct tsr__visit *parent, *other, **part;
  tsr__bound bound;
} tsr__visit;

/* One terminal at work. `scope` is its own and closed at its end; `home` is where its result belongs, its
 * error and its figures too: frames that were made of evaluated arrays are read by many threads. */
typedef struct tsr__bind {
  tsr_frame *top;
  tsr_scope *scope, *home;
  const char *what, *site;
  tsr__error error;
  tsr__visit *visits, **last;
  tsr__watch *watches;
  int watch_count;
  const tsr__source *indexed; /* a source that is not written to, whose rows have numbers here: */
  tsr_array *index;
  bool plan;  /* for explaining: visits all that the rows are made of, and makes none */
  bool inner; /* makes rows for another terminal, which made those of the breakers before */
} tsr__bind;

typedef struct tsr__lower tsr__lower;

/* Where a result of a frame belongs; NULL where the frame has no scope. */
tsr_scope *tsr__frame_home(const tsr_frame *df);
tsr_scope *tsr__frames_home(const tsr_frame *a, const tsr_frame *b);
/* Opens a terminal on a frame; on failure the error is recorded in the frame's home. */
tsr_status tsr__bind_open(tsr__bind *bind, tsr_frame *df, const char *what);
/* Closes it: hands its error over to its home and returns the status. */
tsr_status tsr__bind_close(tsr__bind *bind);
/* As both for a terminal inside another, whose error it hands over to. */
tsr_status tsr__bind_inner(tsr__bind *bind, tsr_frame *df, tsr__bind *outer);
tsr_status tsr__bind_end(tsr__bind *bind, tsr__bind *outer);
/* Binds a frame's needed columns (all for NULL), reading files first; as `rows`, or as it is:
 * one row then is rank 0. */
tsr_status tsr__bind_frame(tsr__bind *bind, tsr_frame *df, bool rows, const bool *need,
                           tsr__bound *out);
/* Runs roots (NULLs are skipped) and the checks. */
tsr_status tsr__bind_run(tsr__bind *bind, tsr_array **roots, int count);
/* Adds what making rows exchanged to the figures of the terminal. */
void tsr__bind_moved(tsr__bind *bind, const tsr__rel_stats *stats);
/* Makes the columns `need` of a breaker's rows, or of one row (materialize.c), and keeps them as its source:
 * those that are missing. The breakers before it were made. */
tsr_status tsr__make_rows(tsr__bind *outer, tsr_frame *df, const bool *need);
/* Whether all columns `need` are there. */
bool tsr__rows_ready(const tsr_frame *df, const bool *need);
/* The numbers of rows that lie ragged, kept with them unless the frame is a source. */
tsr_array *tsr__rows_index(tsr_frame *df, tsr__lower *low);
/* Lays a bound frame of values like `like` over `rows`, a frame of the terminal's own. */
tsr_status tsr__lay_rows(tsr__bind *bind, tsr_frame *rows, const tsr__value *like,
                         tsr__bound *bound);
/* Forgets rows of another version of the frame's schema. */
void tsr__rows_forget(tsr_frame *df);
/* The mask of a frame of kind FIRSTS for the rows of its bound parent. */
tsr_array *tsr__firsts_mask(tsr__bind *bind, tsr_frame *df, const tsr__bound *in);
/* The rows that a frame of kind SAMPLE keeps, of its bound parent's. */
tsr_array *tsr__sample_mask(tsr__lower *low, tsr_frame *df);
/* How many rows an evaluated mask takes, replicas counted once. */
int64_t tsr__mask_rows(const tsr__value *mask);

/* Columns of a frame with its selection applied, as values: what relate/ takes. Column i is
 * `ask[i]`: a column of the bound frame or a key. */
typedef struct tsr__carry {
  tsr__col *col; /* lowered */
  int count;
} tsr__carry;
/* Evaluates columns of `low->in`, leaving out rows that its mask does. */
tsr_status tsr__carry_rows(tsr__lower *low, const tsr__carry *carry, tsr__rel *out);
/* What a breaker's rows were made into: column i of `rel` is column `at[i]` of the frame. */
typedef struct tsr__made {
  tsr__rel rel;
  int *at;        /* -1: of no use any more */
  tsr__col *meta; /* by frame column: type and dictionary */
} tsr__made;
tsr_status tsr__made_room(tsr__bind *bind, int columns, tsr__made *made);
int64_t tsr__rel_bytes(const tsr__rel *rel);
/* A key column: what relate/ must know to order or match it. `map` lives in the terminal's scope. */
tsr_status tsr__rel_key_of(tsr__lower *low, const tsr__col *col, int column, tsr__rel_key *out);

/* Whether nothing before a visit is needed in this terminal: its rows were made. */
bool tsr__visit_is_there(const tsr__bind *bind, const tsr__visit *v);

/* Filters that a file's rows go through before all else that a terminal does with them (pushdown.c). */
enum { TSR__SIEVES = 16 };
typedef struct tsr__sift {
  int count;
  tsr__sieve sieve[TSR__SIEVES]; /* `target` is the file's column */
  tsr__sift_key key[TSR__SIEVES];
  const tsr__expr *expr[TSR__SIEVES];
  const tsr_frame *all; /* the last filter, where the sieves are all that filters ask; or NULL */
  bool *whole; /* by column: it is used up to the last filter, so dropped rows need theirs */
} tsr__sift;
/* In the terminal's scope; NULL with an error in `bind`. */
tsr__sift *tsr__sift_of(tsr__bind *bind, const tsr__visit *file);
/* Whether a row that passes the sieves of `sift` passes those of `sifted`. */
bool tsr__sift_holds(const tsr__sifted *sifted, const tsr__sift *sift);

/* How many of a file's first rows are all that a terminal needs: what a head chooses before any
 * condition does. -1: that is not known. */
int64_t tsr__front_of(const tsr__bind *bind, const tsr__visit *file);

/* Reads the columns of a visited file that are needed and not read yet (scan.c), of the rows that it
 * asks for. `front` becomes -1 where the file was read whole. A column whose values contradict its type
 * changes the frame's schema and version instead; then nothing was read. */
tsr_status tsr__scan_read(tsr__visit *file, tsr__error *error);
/* The rows of a visited file that was read. */
tsr__source *tsr__scan_source(const tsr__visit *file);
/* The part of its columns that a file's rows were read without dropped values, NULL: none. */
const tsr__sifted *tsr__scan_sifted(const tsr__visit *file);
/* A column of a file that was read: without what `sift` drops where that is all there is. Values NULL:
 * it was not. */
tsr__col tsr__scan_column(const tsr__source *source, int column, const tsr__sift *sift);
/* Copies an options struct, which begins with its size: a caller built with an older header gives fewer,
 * one built with a newer header must not have set what is not known. NULL: nothing. */
tsr_status tsr__take_opts(const char *what, const void *opts, void *own, size_t known,
                          tsr__error *error);
/* For calls that open files: the rows lie over the axes `rows` of a mesh (NULL: the defaults), and an
 * open file becomes the frame's source, which closes it (`reader.file` NULL: it failed to open). */
tsr_status tsr__scan_sharding(const tsr_frame *df, const tsr_mesh *mesh, const char *rows,
                              tsr_sharding *out, tsr__error *error);
tsr_status tsr__scan_take(tsr_frame *df, tsr__reader reader, const tsr_sharding *sharding,
                          tsr__error *error);
/* Adds to an error which values of the visited files gave columns another type. */
void tsr__scan_blame(const tsr__visit *visits, tsr__error *error);

/* ---- lowering (lower.c, lower_text.c, aggregate.c) ------------------------------------------ */

/* Aggregates that relate/ computed, by what they say. */
typedef struct tsr__leaves {
  const struct tsr__leaf *leaf;
  int count;
} tsr__leaves;

struct tsr__lower {
  tsr__bind *bind;
  tsr_scope *scope;
  const char *site;
  const tsr_frame *frame; /* whose expression it is */
  const tsr_frame *from;  /* whose rows it reads; NULL: those that `frame` stands on */
  const tsr__bound *in;   /* columns by the frame's parent's schema */
  tsr_array *codes;       /* group codes, with `groups`; NULL: not grouped */
  int64_t groups;
  bool of_rows;              /* a key or the argument of an aggregate; else what the frame makes */
  tsr_array *guard;          /* rows for which the branch being lowered counts; NULL: all */
  tsr_array *overflow;       /* where an integer left its range, in rows ... */
  tsr_array *late;           /* ... and among aggregates */
  const tsr__leaves *leaves; /* aggregates that are columns of `in` already; NULL: none */
  struct tsr__memo *memo;    /* what was lowered before */
  int memo_count, memo_room; /* room: 0 or a power of two */
};

/* An expression as a column. Never fails visibly: errors are in the scope. */
tsr__col tsr__lower_expr(tsr__lower *low, const tsr__expr *expr);
/* As tsr__lower_expr, converted to a type, with `count` and `real` settled. */
tsr__col tsr__lower_as(tsr__lower *low, const tsr__expr *expr, int type);
/* A key, which is of rows whatever the frame makes of them, converted to a type, with its checks. */
tsr__col tsr__lower_key(tsr__lower *low, const tsr__expr *expr, int type);
/* Where a bool expression is known to be `truth`. */
tsr_array *tsr__lower_known(tsr__lower *low, const tsr__expr *expr, bool truth);
/* Makes the checks for what the expression of an item could break. */
void tsr__lower_finish(tsr__lower *low, const tsr__expr *expr);
tsr__col tsr__lower_agg(tsr__lower *low, const tsr__expr *expr);
/* One aggregate `op` of a lowered column; `column.values` NULL: count(). */
tsr__col tsr__aggregate(tsr__lower *low, int op, tsr__col column);
tsr__col tsr__convert(tsr__lower *low, tsr__col column, int type);
/* An aggregate's `count` and `real` turned into `valid` and values. */
tsr__col tsr__settle(tsr__lower *low, tsr__col column);
/* Adds a place where an integer may leave its range. */
void tsr__note_overflow(tsr__lower *low, tsr_array *where, tsr_array *valid);
/* Adds a place where a cast cannot take what stands in `from`. */
void tsr__note_cast(tsr__lower *low, const tsr__expr *expr, tsr_array *where, tsr__col from);
/* After a run: TSR_EVALUE with the first row where something was noted. */
tsr_status tsr__look_at_watches(tsr__bind *bind);
/* The overflow-checked + - * of integers of one type. */
tsr__col tsr__lower_integer(tsr__lower *low, int op, tsr__col a, tsr__col b);
/* A whole-frame arithmetic of two columns. */
tsr__col tsr__lower_pair(tsr__lower *low, int op, tsr__col a, tsr__col b);

tsr__col tsr__text_literal(tsr__lower *low, const tsr__expr *expr);
tsr__col tsr__text_compare(tsr__lower *low, const tsr__expr *expr);
tsr__col tsr__text_in(tsr__lower *low, const tsr__expr *expr);
/* Puts a text column's dictionary in order, so that codes compare as texts do. */
void tsr__text_rank(tsr__lower *low, tsr__col *a);
/* Whether a loop over rows or distinct texts is to end at step `i`: the scope failed, or the progress
 * callback, asked every few thousand steps and at each below 0, cancelled, which is recorded there. */
bool tsr__lower_stops(tsr__lower *low, int64_t i);
/* Records in the scope that it was cancelled. */
void tsr__lower_cancelled(tsr__lower *low);
/* Gives two text columns one dictionary. */
bool tsr__text_unify(tsr__lower *low, tsr__col *a, tsr__col *b);
/* The same for columns of several frames, each lowered by its own. */
tsr_status tsr__text_unify_all(tsr__lower **low, tsr__col **col, int count);
/* The rank of each code among the texts of a dictionary, in the terminal's scope; NULL out of memory
 * or cancelled, which is recorded. */
const int32_t *tsr__text_ranks(tsr__lower *low, const tsr__dict *dict);
/* For each code of `from` the code of the same text in `to`, or -1. */
const int32_t *tsr__text_map(tsr__lower *low, const tsr__dict *from, const tsr__dict *to);

tsr_dtype tsr__dtype_of_type(int type);
tsr_array *tsr__op1(tsr__lower *low, tsr__op op, tsr_array *a);
tsr_array *tsr__op2(tsr__lower *low, tsr__op op, tsr_array *a, tsr_array *b);
tsr_array *tsr__cast(tsr__lower *low, tsr_array *a, tsr_dtype dtype);
tsr_array *tsr__where(tsr__lower *low, tsr_array *c, tsr_array *a, tsr_array *b);
tsr_array *tsr__const_i(tsr__lower *low, tsr_dtype dtype, int64_t value);
tsr_array *tsr__const_f(tsr__lower *low, tsr_dtype dtype, double value);
/* `and` where NULL stands for true. */
tsr_array *tsr__both(tsr__lower *low, tsr_array *a, tsr_array *b);
/* An array spread over all rows of the bound frame. */
tsr_array *tsr__spread(tsr__lower *low, tsr_array *a);
/* The numbers of the bound frame's rows, from 0. */
tsr_array *tsr__row_numbers(tsr__lower *low);
/* A host array as a leaf, whole on every device of the frame's mesh. */
tsr_array *tsr__table_leaf(tsr__lower *low, tsr_dtype dtype, const void *data, int64_t count);

/* ---- dictionaries -------------------------------------------------------------------------- */

const char *tsr__dict_get(const tsr__dict *dict, int64_t code, int64_t *length);
/* Gives a reference to a scope, which lets go of it at its end. NULL where the dictionary is, or out of
 * memory: then the reference is gone. */
const tsr__dict *tsr__dict_in(tsr_scope *scope, tsr__dict *dict);
/* The same for one that was made for the terminal at work; where it could not be, an error says whether
 * its `progress` (NULL: nobody asked) was cancelled. */
const tsr__dict *tsr__lower_dict(tsr__lower *low, tsr__dict *made, const tsr__progress *progress);
int32_t tsr__dict_find(const tsr__dict *dict, const char *text, int64_t length);
/* Compares by bytes, as strcmp. */
int tsr__text_order(const char *a, int64_t a_length, const char *b, int64_t b_length);

/* Codes and validity of texts (NULL is a null); the dictionary is by first appearance. NULL out of
 * memory. */
tsr__dict *tsr__texts_encode(tsr_runtime *rt, const char *const *texts, int64_t count,
                             int32_t *codes, uint8_t *valid);

/* ---- descriptions (verbs.c makes the frames, describe.c the rows) ------------------------------ */

enum { TSR__STATISTICS = 8 };

/* An aggregate of a description: the row of its result, and whether it has a meaning for columns
 * that are no numbers. */
typedef struct tsr__statistic {
  uint8_t agg, row;
  bool any;
  double share; /* of a quantile */
} tsr__statistic;
extern const tsr__statistic tsr__statistics[TSR__STATISTICS];
bool tsr__describes(int statistic, int type);
tsr_status tsr__type_describe(tsr_frame *df, tsr__error *error);
void tsr__describe_needs(const tsr_frame *df, const bool *need, bool *parent);
tsr_status tsr__describe_rows(tsr__bind *bind, const bool *need);

/* ---- explaining (frame_explain.c, estimate.c) ------------------------------------------------------ */

/* The share of rows for which a bool expression is likely to hold: 0 .. 1. */
double tsr__estimate_share(const tsr__expr *expr);
/* How many groups the keys of a frame are likely to make of so many rows. */
double tsr__estimate_groups(const tsr_frame *df, double rows);

/* Keeps for explain what a terminal found, unless the frame is a source, which knows and which others
 * may read: the rows of a frame, and those that came to it where a
 * count() in its table tells. */
void tsr__note_rows(tsr_frame *df, const tsr_table *table, const bool *need, int64_t rows);
/* Keeps a count of a frame's rows. */
void tsr__note_count(tsr_frame *df, int64_t rows);

/* ---- host tables (table.c) ------------------------------------------------------------------ */

typedef struct tsr__table_column {
  const char *name;
  uint8_t type;
  const tsr__dict *dict;
  void *values;   /* by dtype, bool as bytes */
  uint8_t *valid; /* bytes; NULL: no nulls */
  size_t bytes, valid_bytes;
} tsr__table_column;

struct tsr_table {
  tsr__node node;
  int64_t rows;
  int count;
  tsr__table_column *column;
};

/* A table of a frame's columns with room for `rows`; NULL out of memory. Owned by the scope. */
tsr_table *tsr__table_new(tsr_scope *scope, const tsr_frame *df, int64_t rows);
/* Gives a table's rows back before its scope closes: it has none afterwards. */
void tsr__table_empty(tsr_table *table);
/* Has a text column's codes mean the texts of a dictionary, which the table's scope holds; false out of
 * memory. */
bool tsr__table_hold(tsr_table *table, int column, const tsr__dict *dict);
/* Copies an evaluated column in. TSR_ENOMEM, TSR_ECANCELLED. */
tsr_status tsr__table_fill(tsr_table *table, int column, const tsr__col *col, tsr__error *error);
/* A table of the first and last rows of another, sharing its texts. */
tsr_table *tsr__table_ends(const tsr_table *table, int64_t head, int64_t tail);
/* Adds a value as text; "null" for a null. */
void tsr__table_print(const tsr_table *table, int64_t row, int column, tsr__text *out);

/* Which rows a table takes: the first `head` and the last `tail`; -1 both: all. */
typedef struct tsr__window {
  int64_t head, tail;
  int64_t total; /* out: rows there are */
} tsr__window;
tsr_status tsr__collect(tsr_frame *df, tsr__window *window, tsr_table **out);
/* Counts the rows of a frame. */
tsr_status tsr__count_rows(tsr__bind *bind, tsr_frame *df, int64_t *out);
/* Evaluates all rows where they lie: every column's values, and `valid` where there are nulls, are
 * arrays of rank 1 with values, of the same rows on each device. */
tsr_status tsr__collect_shards(tsr__bind *bind, tsr__bound *out);
/* Draws a table (print_table.c). */
void tsr__boxtable(const tsr_table *table, const tsr__window *window, const tsr_show_opts *opts,
                   tsr__text *out);
/* Evaluates the rows that are to be shown and draws them (NULL: as tsr_frame_text); `text` is the
 * caller's to free after success. */
tsr_status tsr__frame_draw(tsr_frame *df, const tsr_show_opts *opts, tsr__text *text);
/* Adds text on one line, cut to `width` columns; what would steer a terminal is blank. */
void tsr__text_clip(tsr__text *out, const char *text, size_t length, int width);
/* The shape of the plan of a frame's columns (tests). */
tsr_status tsr__frame_plan_shape(tsr_frame *df, tsr__plan_shape *out);
/* Hands a text over to the frame's home and frees it; on failure the home's message. */
const char *tsr__frame_say(tsr_frame *df, tsr__text *text);

/* Runs all arrays of columns as one program, and one more array unless NULL. */
tsr_status tsr__run_columns(tsr__bind *bind, const tsr__col *col, int count, tsr_array *more);

/* Collects the rows of a frame (collect.c) in a terminal that is open; the table is of its home. */
tsr_status tsr__collect_rows(tsr__bind *bind, tsr__window *window, tsr_table **out);

/* Groups by direct codes (group.c), of the top frame of kind GROUP: the arrays of its columns by code,
 * and the first row of each code; `first` NULL: its keys have no codes, or too many. */
typedef struct tsr__groups {
  const struct key *keys;
  const bool *need;
  tsr__col *col;
  tsr_array *first;
} tsr__groups;
tsr_status tsr__bind_groups(tsr__bind *bind, const bool *need, tsr__lower *low, tsr__groups *out);
/* Evaluates them into a table of the terminal's scope; `*out` stays NULL where there are no codes. */
tsr_status tsr__collect_groups(tsr__bind *bind, const bool *need, tsr__lower *low, tsr_table **out);
/* Makes the rows of a GROUP, or of an AGG by rows, through relate/ (group_rows.c). */
tsr_status tsr__group_rows_of(tsr__bind *bind, const bool *need, tsr__made *out);
/* The column of an aggregate that relate/ computed. */
tsr__col tsr__leaf_column(tsr__lower *low, const tsr__expr *expr);
/* Makes the rows of a JOIN (join.c). */
tsr_status tsr__join_rows(tsr__bind *bind, const bool *need, tsr__made *out);
/* The lowered items of an AGG or REDUCE frame over rows. */
tsr_status tsr__bind_aggregates(tsr__lower *low, const tsr_frame *df, const bool *need,
                                tsr__col *out);

#endif
