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
 * rows of them, and those stay with the breaker as a source (tsr__source), column by column: a
 * later terminal that needs more columns makes only these. Distinct and group head are no breakers:
 * they evaluate their keys and give a mask. */
#ifndef TSR_FRAME_CHAIN_H
#define TSR_FRAME_CHAIN_H

#include "execute/execute.h"
#include "frame/expr/expr.h"
#include "io/rows/reader.h"
#include "relate/relate.h"

/* ---- frames ------------------------------------------------------------------------------ */

/* HEAD: rows `first` .. `first + count - 1`; TAIL: the last `count`; FIRSTS: the first `count`
 * rows of each group of `keys` (distinct, group_head); GROUP: `keys`, then the items of
 * `formula`; ARITH: `op` (tsr__binary) with `other` or `number`; REDUCE: every column by `op`
 * (tsr__agg); SORT: by `keys` and `order`; INDEX: column 0, `name`, numbers the rows; JOIN:
 * parent and `other`; CONCAT: `part`; PLACE: rows where `to` says; DESCRIBE: nine rows about
 * each column, of a parent that has them as one; KEEP: rows as they are, made (tsr_frame_keep). */
enum tsr__frame_kind {
#define VERB(kind, ...) TSR__FRAME_##kind,
#include "frame/chain/verbs.def"
#undef VERB
  TSR__FRAME_KINDS
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

/* Columns that a file's reader gave without the values of rows that some filters drop: see
 * pushdown.c. They are of use where those filters stand again; a file has one set of them, made
 * when it is first filtered, and what is asked of it in another way is read whole. */
typedef struct tsr__pushdown_key {
  const char *at;
  size_t length;
} tsr__pushdown_key;
typedef struct tsr__pushed {
  int count;
  tsr__pushdown_key *key; /* of the predicates */
  const char *words;      /* they, for explain */
  uint64_t **kept;        /* by part of the file's rows: a bit a row */
  int64_t rows;           /* that pass */
  tsr_array *mask;        /* which, where texts were looked at and not kept; else NULL */
  tsr__col *col;          /* by column of the file */
} tsr__pushed;

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
  tsr__pushed *pushed;       /* files; NULL: none */
  struct tsr__source *front; /* files: their first rows, read without the rest; NULL: none */
  int64_t enough;            /* of a front: the most rows that may be asked of it */
  bool seen;                 /* files: a reading looked at all rows, and none was wrong */
  const char *path;
  tsr_array *whole, *index; /* NULL: the usual borders */
  int version;              /* the frame's when its rows were made */
} tsr__source;

/* What making a frame's rows took the last time: for explain. Bytes are those of the columns that
 * were carried, summed over devices, replicas counted once. */
typedef struct tsr__making {
  bool done;
  const char *path; /* static: how, "groups of rows" */
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
  bool shared;  /* its rows lie, or were to lie, where all processes take part */
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
  tsr__source *source;          /* sources; others: rows that a terminal made, for what follows */
  tsr_array *mask;              /* FIRSTS: the rows that are the first of their groups ... */
  int mask_version;             /* ... in this version of the frame */
  bool ran;                     /* a terminal evaluated it */
  const tsr_frame *settled_for; /* the last frame for which types below it were settled */
  uint64_t asked;               /* of a file, a hash of its options */
  uint64_t print;               /* of what was asked for (frame_lines.c); 0: not asked yet */
  tsr__making making;
};

/* ---- the table of verbs (verb_table.c) ------------------------------------------------------- */

typedef enum tsr__rows {
  TSR__ROWS_SOURCE,
  TSR__ROWS_KEEPS,
  TSR__ROWS_MAPS,
  TSR__ROWS_PAIRS,
  TSR__ROWS_NUMBERS,
  TSR__ROWS_MASKS,
  TSR__ROWS_MOVES,
  TSR__ROWS_MAKES,
  TSR__ROWS_ONE
} tsr__rows;

/* A column of a frame: the parent's `column` as it is; -1: made by `expr`, NULL: of none. */
typedef struct tsr__origin {
  int column;
  const tsr__expr *expr;
} tsr__origin;

/* How many rows a step has; not `counted`: that is likely. */
typedef struct tsr__amount {
  double rows;
  bool counted;
} tsr__amount;

/* What a verb is to a chain; verbs.def has the words. `parent` and `other` are the columns that are
 * needed of them; `from` are the rows of a frame's parents, in their order. */
typedef struct tsr__verb {
  tsr__rows rows;
  tsr_status (*type)(tsr_frame *df, tsr__error *error);
  void (*needs)(const tsr_frame *df, const bool *need, bool *parent, bool *other);
  tsr__origin (*origin)(const tsr_frame *df, int column);
  const tsr_sharding *(*lies)(const tsr_frame *df);
  tsr__amount (*estimate)(const tsr_frame *df, const tsr__amount *const *from);
} tsr__verb;

#define VERB(kind, rows, type, needs, origin, lies, estimate, ...)                           \
  tsr_status tsr__type_##type(tsr_frame *df, tsr__error *error);                             \
  void tsr__needs_##needs(const tsr_frame *df, const bool *need, bool *parent, bool *other); \
  tsr__origin tsr__origin_##origin(const tsr_frame *df, int column);                         \
  const tsr_sharding *tsr__lies_##lies(const tsr_frame *df);                                 \
  tsr__amount tsr__estimate_##estimate(const tsr_frame *df, const tsr__amount *const *from);
#include "frame/chain/verbs.def"
#undef VERB

const tsr__verb *tsr__verb_of(const tsr_frame *df);
/* Whether a terminal makes the frame's rows before it binds what follows. */
bool tsr__frame_breaks(const tsr_frame *df);
/* Whether rows of the frame's source are left out, by a mask. */
bool tsr__frame_masked(const tsr_frame *df);
/* Whether a frame has as many rows as its parent, whatever they are. */
bool tsr__frame_same_count(const tsr_frame *df);
/* Whether the items of a frame are aggregates: AGG, GROUP; and whether some of them are such
 * that only relate/ computes: median, first, ... */
bool tsr__frame_aggregates(const tsr_frame *df);
bool tsr__frame_by_rows(const tsr_frame *df);
/* The columns before those of a frame's items: the keys of a GROUP. */
int tsr__frame_key_columns(const tsr_frame *df);
/* The column by which a frame adds to its parent's, or replaces one; -1: it does neither. */
int tsr__frame_added(const tsr_frame *df);
/* How many columns in front number rows, so that they are never made: 1 of an INDEX. */
int tsr__frame_numbers(const tsr_frame *df);
/* The frames that a frame stands on, in order: its parts, or its parent and the other one. */
int tsr__frame_parent_count(const tsr_frame *df);
tsr_frame *tsr__frame_parent(const tsr_frame *df, int at);

/* ---- what was asked for (frame_lines.c) ------------------------------------------------------ */

/* Of a frame and all that it stands on: equal where the calls that made them were; and the same as
 * lines of the frame `user`, as processes compare them. */
uint64_t tsr__frame_print(tsr_frame *df);
void tsr__frame_lines(const void *user, tsr__text *out);

/* Where a terminal begins on a frame that is shared: all processes meet, and who cannot go on says
 * so, with `own` (TSR_OK: it can). The status of all, with the first's error. */
tsr_status tsr__frame_meet(tsr_frame *df, const char *what, const char *site, tsr_status own,
                           tsr__error *error);
/* The same of who failed before, as its home says; returns the status. */
tsr_status tsr__frame_refuse(tsr_frame *df, const char *what, const char *site, tsr_status own);

/* ---- frames being made ----------------------------------------------------------------------- */

/* Makes a frame node; an inert one where that fails. Never NULL. */
tsr_frame *tsr__frame_make(tsr_scope *scope, int kind, const char *what, const char *site);
/* One that stands on an inert frame, of which there may be no scope; NULL is allowed. */
tsr_frame *tsr__frame_inert_like(const tsr_frame *df, const char *site);
/* Tells the terminal's scope why a frame is inert. `what`: "tsr_frame_collect". */
tsr_status tsr__frame_why_inert(const tsr_frame *df, const char *what, const char *site);
/* An array for one, with its reason. */
tsr_array *tsr__frame_inert_array(const tsr_frame *df, const char *site);
/* The same for a call that takes several, one of which is inert or NULL; that one is missing is an
 * error of the others' scope. */
tsr_frame *tsr__frame_inert_among(tsr_frame *const *frames, int count, const char *what,
                                  const char *site);
/* Records an error and returns an inert frame. */
tsr_frame *tsr__frame_fail(tsr_frame *df, const tsr__error *error);
bool tsr__frame_usable(const tsr_frame *df);
/* Whether it was made of arrays: then it is evaluated as they are, and nothing is written to it. */
bool tsr__frame_is_source(const tsr_frame *df);
/* The message of an unusable frame. */
const char *tsr__frame_why(const tsr_frame *df);
/* All columns of the parent as keys, whose order is nobody's (relations.c). */
tsr_status tsr__all_keys(tsr_frame *df, tsr__error *error);
tsr__source *tsr__source_new(tsr_scope *scope, int columns);
/* The values of a frame's source are in use by it until it goes. Called last in making it: of one
 * that failed nothing is in use. */
void tsr__source_use(tsr_frame *df);

/* Where a result of a frame belongs; NULL where the frame has no scope. */
tsr_scope *tsr__frame_home(const tsr_frame *df);
tsr_scope *tsr__frames_home(const tsr_frame *a, const tsr_frame *b);
/* Hands a text over to the frame's home and frees it; on failure the home's message. */
const char *tsr__frame_say(tsr_frame *df, tsr__text *text);
/* The same to `to`, with a status. */
tsr_status tsr__frame_give(tsr_frame *df, tsr__text *text, const char **to, const char *site);
/* Where `what` is asked to write a text to must be somewhere; TSR_OK for unusable frames too. */
tsr_status tsr__frame_check_out(tsr_frame *df, const char *const *out, const char *what,
                                const char *site);

/* Computes the schema of a frame from those of its parents, and checks its expressions. */
tsr_status tsr__frame_type(tsr_frame *df, tsr__error *error);
/* Gives a schema of many columns an index of its names; whoever sets a schema otherwise calls
 * it. */
tsr_status tsr__schema_index(tsr_frame *df, tsr__error *error);
/* Does so again if a parent's schema changed since. */
tsr_status tsr__frame_refresh(tsr_frame *df, tsr__error *error);
/* tsr__frame_type of a new frame. Where types do not fit, the files below are read for theirs,
 * which may be a sample's: a query holds by what a file has, and not by what of it was looked at.
 * */
tsr_status tsr__frame_type_settled(tsr_frame *df, tsr__error *error);
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
/* Checks a new column's name: no NULL, not empty, UTF-8. */
tsr_status tsr__check_name(const char *what, const char *name, tsr__error *error);
/* A frame on another, inert where that is or where memory is short. */
tsr_frame *tsr__frame_begin(tsr_frame *parent, int kind, const char *what, const char *site);
/* Types a fresh frame; inert on an error. */
tsr_frame *tsr__frame_typed(tsr_frame *df);
/* What a frame is made of must live at least as long as the frame: `name` says whose. */
tsr_status tsr__check_owner(const tsr_scope *part, const tsr_scope *scope, const char *what,
                            const char *name, tsr__error *error);

/* ---- descriptions (verbs.c makes the frames, describe.c the rows) ---------------------------- */

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
/* Whether a column of a type is described in numbers; how many aggregates that takes. */
bool tsr__describes_number(int type);
int tsr__describe_items(int type);
/* The columns that are described. */
const tsr__schema *tsr__described(const tsr_frame *df);

/* ---- explaining (frame_explain.c, estimate.c) ------------------------------------------------ */

/* Keeps a count of a frame's rows. */
void tsr__note_count(tsr_frame *df, int64_t rows);

/* ---- opening sources (source.c) -------------------------------------------------------------- */

/* Takes a file's columns, as its reader says them now, for the frame's schema. */
tsr_status tsr__file_schema(tsr_frame *df, tsr__error *error);
/* For calls that open files: the rows lie as `on` says (zero: over all devices), and an
 * open file becomes the frame's source, which closes it (`reader.file` NULL: it failed to open). */
tsr_status tsr__scan_sharding(const tsr_frame *df, const tsr_sharding *on, tsr_sharding *out,
                              tsr__error *error);
/* Over several processes: a step of reading that all of them take together (source_together.c). It
 * begins here; `status` of the end is this process's, and what is returned that of all. */
bool tsr__source_apart(const tsr_frame *df, const tsr_sharding *sharding);
tsr_status tsr__source_enter(const tsr_frame *df, tsr__error *error);
tsr_status tsr__source_leave(const tsr_frame *df, tsr_status status, tsr__error *error);
/* Whether all processes have the same file open, as far as can be told without reading it;
 * `rows` -1: not counted. */
tsr_status tsr__source_same(const tsr_frame *df, const tsr__reader *reader, int64_t rows,
                            tsr__error *error);
tsr_status tsr__scan_take(tsr_frame *df, tsr__reader reader, const tsr_sharding *sharding,
                          tsr__error *error);

/* Codes and validity of texts (NULL is a null); the dictionary is by first appearance. NULL out of
 * memory. */
tsr__dict *tsr__texts_encode(tsr_runtime *rt, const char *const *texts, int64_t count,
                             int32_t *codes, uint8_t *valid);

#endif
