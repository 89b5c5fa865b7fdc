/* A terminal at work: what it visits, what must be made before it, the reading of files, and host
 * tables of what it found. */
#ifndef TSR_FRAME_RUN_H
#define TSR_FRAME_RUN_H

#include "frame/lower/lower.h"

/* ---- terminals (bind.c) ------------------------------------------------------------------ */

/* One frame of a terminal. Visits are in an order in which parents come first. */
typedef struct tsr__visit {
  struct tsr__visit *next;
  tsr_frame *df;
  bool scalar; /* a frame of one row, wanted as scalars */
  bool made;   /* its rows are made by a terminal of their own */
  bool live;   /* something needs it */
  bool here;   /* it is bound in this terminal, not in one that makes rows */
  bool *need;
  bool *told;              /* of a file, by column: its texts are looked at and not kept */
  struct tsr__visit *from; /* of a filter: the file whose reader stands in for it */
  const struct tsr__pushdown
      *pushdown; /* of a file's rows, where columns without dropped rows will do */
  int64_t front; /* of a file: so many of its first rows will do, -1: all are needed */
  int64_t least; /* rows that there are at least (room.c) */
  const struct tsr__visit
      *head;             /* of a file: chooses by conditions from `front`; NULL: by number ... */
  int64_t wanted, reach; /* ... so many of them, looked for in so many rows at first */
  bool vain;             /* `front` held too few of them */
  struct tsr__visit *parent, *other, **part;
  tsr_array *mask; /* MASKS that are chosen by a run: which rows; NULL: all */
  int64_t skip;    /* TAIL: selected rows before it */
  tsr__bound bound;
} tsr__visit;

/* What a verb is to a terminal (verb_run.c); frame/chain/verbs.def has the words. */
struct tsr__made;
struct tsr__room;
/* Whether a mask can be bound: of nodes alone; once the rows before were counted; or not before a
 * terminal ran. */
typedef enum tsr__known { TSR__KNOWN, TSR__KNOWN_COUNTED, TSR__KNOWN_LATER } tsr__known;
typedef struct tsr__verb_run {
  /* What must run: makes the needed columns of a breaker's rows, in a stage whose top it is; `out`
   * stays empty where they are its source already. Of a mask: finds which rows it takes. */
  tsr_status (*make)(tsr__bind *bind, tsr__visit *v, struct tsr__made *out);
  /* Nodes only: sets the columns of `v->bound`, and what else of it is not as the parent's. */
  void (*bind)(tsr__bind *bind, tsr__visit *v);
  /* `ran`: a terminal on the frame did, so that what it counted may be counted again. */
  tsr__known (*known)(const tsr_frame *df, bool ran);
  int64_t (*least)(const tsr__visit *v);
  void (*room)(struct tsr__room *room, const tsr__visit *v);
} tsr__verb_run;

#define VERB(kind, rows, type, needs, origin, lies, estimate, make, bind, known, least, room, ...) \
  tsr_status tsr__make_##make(tsr__bind *bind, tsr__visit *v, struct tsr__made *out);              \
  void tsr__bind_##bind(tsr__bind *bind, tsr__visit *v);                                           \
  tsr__known tsr__known_##known(const tsr_frame *df, bool ran);                                    \
  int64_t tsr__least_##least(const tsr__visit *v);                                                 \
  void tsr__room_##room(struct tsr__room *room, const tsr__visit *v);
#include "frame/chain/verbs.def"
#undef VERB

const tsr__verb_run *tsr__verb_run_of(const tsr_frame *df);

/* Opens a terminal on a frame, called at `site` (NULL: as if at the frame's line); on failure the
 * error is recorded in the frame's home, and told to the other processes where it is shared. */
tsr_status tsr__bind_open(tsr__bind *bind, tsr_frame *df, const char *what, const char *site);
/* The same for who looks and evaluates nothing, by itself. */
tsr_status tsr__bind_look(tsr__bind *bind, tsr_frame *df, const char *what, const char *site);
/* Once all arguments were checked, before anything else: all processes begin the terminal, or none
 * does, as some process's error (bind->error) says. */
tsr_status tsr__bind_meet(tsr__bind *bind);
/* Closes it: hands its error over to its home and returns the status. */
tsr_status tsr__bind_close(tsr__bind *bind);
/* A stage of a terminal, with a scope of its own: what stands between the rows that were made and
 * those that are to be, or between them and the result. It hands its error over to the terminal. */
tsr_status tsr__stage_open(tsr__bind *stage, tsr_frame *df, tsr__bind *outer);
tsr_status tsr__stage_close(tsr__bind *stage, tsr__bind *outer);
/* Plans what a terminal on its top frame reads and needs, and reads it. */
tsr_status tsr__bind_plan(tsr__bind *bind);
/* Binds a frame's needed columns (all for NULL) in all three phases: plans, makes rows, binds; as
 * `rows`, or as it is: one row then is rank 0. */
tsr_status tsr__bind_frame(tsr__bind *bind, tsr_frame *df, bool rows, const bool *need,
                           tsr__bound *out);
/* The same in a stage: all rows that it stands on were made. */
tsr_status tsr__stage_frame(tsr__bind *stage, tsr_frame *df, bool rows, const bool *need,
                            tsr__bound *out);
/* Lowering that makes the same nodes anew each time. */
typedef tsr_status tsr__lowering(tsr__bind *bind, void *user);
/* Lowers, finds what was asked for (find_distinct.c), and lowers again until nothing is. */
tsr_status tsr__lower_until_known(tsr__bind *bind, tsr__lowering *lower, void *user);
/* Lowering of a visit's own expressions: over the columns of its parent. */
tsr__lower tsr__visit_lower(tsr__bind *bind, const tsr__visit *v);
/* After a run: TSR_EVALUE with the first row where something was noted (look_at_checks.c). */
tsr_status tsr__look_at_checks(tsr__bind *bind);
/* Runs roots (NULLs are skipped) and the checks. */
tsr_status tsr__bind_run(tsr__bind *bind, tsr_array **roots, int count);
/* Zeroed memory of a terminal's own; NULL with an error. */
void *tsr__bind_room(tsr__bind *bind, int64_t count, size_t element);
/* Adds what making rows exchanged to the figures of the terminal. */
void tsr__bind_moved(tsr__bind *bind, const tsr__rel_stats *stats);
/* Makes the needed columns of a breaker's rows, or of one row (materialize.c), and keeps them as
 * its source: those that are missing. The breakers before it were made. */
tsr_status tsr__materialize_rows(tsr__bind *outer, const tsr__visit *v);
/* Whether all columns `need` are there. */
bool tsr__rows_ready(const tsr_frame *df, const bool *need);
/* Lays a bound frame of values like `like` over `rows`, a frame of the terminal's own. */
tsr_status tsr__lay_rows(tsr__bind *bind, tsr_frame *rows, const tsr__value *like,
                         tsr__bound *bound);
/* Forgets rows of another version of the frame's schema. */
void tsr__rows_forget(tsr_frame *df);
/* The same buffers under the usual borders; takes over the reference. */
tsr__value *tsr__without_counts(tsr__value *value, tsr__error *error);
/* How many rows an evaluated mask takes, replicas counted once. */
tsr_status tsr__mask_rows(tsr__bind *bind, const tsr__value *mask, int64_t *out);

/* Columns of a frame with its selection applied, as values: what relate/ takes. Column i is
 * `ask[i]`: a column of the bound frame or a key. */
typedef struct tsr__carry {
  tsr__col *col; /* lowered */
  int count;
} tsr__carry;
/* Arrays of the same rows that were evaluated (NULL: none). Those of rows that nothing places may
 * have come to lie apart, on a mesh and on none: all lie alike afterwards. */
tsr_status tsr__bring_together(tsr__lower *low, tsr_array **roots, int count);
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

/* Whether nothing before a visit is needed in this terminal: its rows were made. */
bool tsr__visit_is_there(const tsr__bind *bind, const tsr__visit *v);

/* Filters that a file's rows go through before all else that a terminal does with them
 * (pushdown.c). */
enum { TSR__PREDICATES = 16 };
typedef struct tsr__pushdown {
  int count;
  tsr__predicate predicate[TSR__PREDICATES]; /* `target` is the file's column */
  tsr__pushdown_key key[TSR__PREDICATES];
  const tsr__expr *expr[TSR__PREDICATES];
  const tsr_frame
      *all;     /* the last filter, where the predicates are all that filters ask; or NULL */
  bool *whole;  /* by column: it is used up to the last filter, so dropped rows need theirs */
  bool *beside; /* by column: so it is by more than the filters */
} tsr__pushdown;
/* In the terminal's scope; NULL with an error in `bind`. */
tsr__pushdown *tsr__pushdown_of(tsr__bind *bind, const tsr__visit *file);
/* Lets what a file's reader says of its rows stand in for the filters that asked it, where all that
 * they ask is asked of the reader and some of it of texts. False: it does not. */
bool tsr__pushdown_tells(tsr__bind *bind, tsr__visit *file);
/* Whether a row that passes the predicates of `pushdown` passes those of `pushed`. */
bool tsr__pushdown_holds(const tsr__pushed *pushed, const tsr__pushdown *pushdown);

/* How many of a file's first rows are all that a terminal needs: what a head chooses; behind
 * conditions as many as the visit's `reach` says, until they are seen to be too few. -1: that is
 * not known. */
int64_t tsr__front_of(const tsr__bind *bind, tsr__visit *file);

/* Reads the columns of a visited file that are needed and not read yet (scan.c), of the rows that
 * it asks for. `front` becomes -1 where the file was read whole. A column whose values contradict
 * its type changes the frame's schema and version instead; then nothing was read. `moved` counts
 * what replicas get. */
tsr_status tsr__scan_read(tsr__visit *file, tsr__traffic *moved, tsr__error *error);
/* Counts the rows of a file that were not counted yet. */
tsr_status tsr__scan_count(tsr_frame *df, tsr__error *error);
/* Whether what a terminal will take of the devices at least has room there: TSR_ENOMEM, in its one
 * message (room.c). Once files are read more is known. */
tsr_status tsr__room_check(tsr__bind *bind);
/* Lets go of the first rows of a file; what nodes were made of stays with these. */
void tsr__scan_forget_front(tsr_frame *df);
/* The rows of a visit that has some of its own: of a file those that were read. */
tsr__source *tsr__scan_source(const tsr__visit *v);
/* The part of its columns that a file's rows were read without dropped values, NULL: none. */
const tsr__pushed *tsr__scan_pushed(const tsr__visit *file);
/* A column of a file that was read: whole, or else without the values of rows that `pushdown`
 * drops. Values NULL: the column was not read. */
tsr__col tsr__scan_column(const tsr__source *source, int column, const tsr__pushdown *pushdown);
/* Adds to an error which values of the visited files gave columns another type. */
void tsr__scan_blame(const tsr__visit *visits, tsr__error *error);

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
  bool apart; /* its rows lay over several processes, all of which have it now */
  int count;
  tsr__table_column *column;
};

/* A table of a frame's columns with room for `rows`; NULL out of memory. Owned by the scope. */
tsr_table *tsr__table_new(tsr_scope *scope, const tsr_frame *df, int64_t rows);
/* Gives a table's rows back before its scope closes: it has none afterwards. */
void tsr__table_empty(tsr_table *table);
/* Has a text column's codes mean the texts of a dictionary, which the table's scope holds; false
 * out of memory. */
bool tsr__table_hold(tsr_table *table, int column, const tsr__dict *dict);
/* Copies an evaluated column in. TSR_ENOMEM, TSR_ECANCELLED. */
tsr_status tsr__table_fill(tsr_table *table, int column, const tsr__col *col, tsr__error *error);
/* Adds a value as text; "null" for a null. */
void tsr__table_print(const tsr_table *table, int64_t row, int column, tsr__text *out);

/* Whether an expression is count() of all rows. */
bool tsr__counts_rows(const tsr__expr *expr);
/* Keeps for explain what a terminal found, unless the frame is a source, which knows and which
 * others may read: the rows of a frame, and those that came to it where a
 * count() in its table tells. */
void tsr__note_rows(tsr_frame *df, const tsr_table *table, int64_t rows);
/* Which rows a table takes: the first `head` and the last `tail`; -1 both: all. */
typedef struct tsr__window {
  int64_t head, tail;
  int64_t total; /* out: rows there are */
} tsr__window;
tsr_status tsr__collect(tsr_frame *df, tsr__window *window, tsr_table **out, const char *site);
/* Counts the rows of a bound frame. */
tsr_status tsr__count_rows(tsr__bind *bind, const tsr__bound *bound, int64_t *out);
/* Evaluates all rows where they lie: every column's values, and `valid` where there are nulls, are
 * arrays of rank 1 with values, of the same rows on each device. Types that others lack come as
 * wider ones: tsr__shard_type. `distinct`: texts are those of dictionaries, for who goes by codes.
 */
tsr_status tsr__collect_shards(tsr__bind *bind, bool distinct, tsr__bound *out);
int tsr__shard_type(int type);

#endif
