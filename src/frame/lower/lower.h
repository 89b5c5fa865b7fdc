/* What an expression of a frame becomes: nodes of graph/ over the rows that a frame is bound to.
 * Lowering runs nothing: what must be found by a run first is asked for (ask_distinct.c), and when
 * it was found the same is lowered again.
 *
 *   a > 0 and b is null    ->    gt(leaf, 0), not(valid) -> and */
#ifndef TSR_FRAME_LOWER_H
#define TSR_FRAME_LOWER_H

#include "frame/chain/chain.h"

/* ---- what is lowered, and where to ----------------------------------------------------------- */

typedef struct tsr__lower tsr__lower;

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
typedef struct tsr__run_check {
  struct tsr__run_check *next;
  tsr_array *row; /* i64: the row, beyond the last if there is none; bool: whether */
  int64_t rows;
  const tsr_frame *frame, *from; /* whose check it is, and of whose rows */
  const tsr__expr *expr;
  bool late; /* `row` is a group: it stands among aggregates */
  bool cast; /* a value that `expr`, a cast, cannot take: one of `shown`; else an overflow */
  tsr_array *shown;
  const tsr__dict *dict;
  uint8_t shown_type;
} tsr__run_check;

/* One terminal at work. `scope` is its own and closed at its end; `home` is where its result
 * belongs, its error and its figures too: frames that were made of evaluated arrays are read by
 * many threads. */
typedef struct tsr__bind {
  tsr_frame *top;
  tsr_scope *scope, *home;
  const char *what, *site;
  tsr__error error;
  struct tsr__visit *visits, **last;
  tsr__run_check *checks;
  int check_count;
  struct tsr__distinct *distinct; /* what lowering asked for, and was found since ... */
  bool asked;                     /* ... but for some, without which nodes are no good yet */
  const tsr__source *indexed; /* a source that is not written to, whose rows have numbers here: */
  tsr_array *index;
  bool plan;             /* for explaining: visits all that the rows are made of, and makes none */
  bool stage;            /* of another terminal, which made the rows that it stands on */
  tsr__peers_task task;  /* of several processes: what all of them must have been asked for */
  int64_t through_host;  /* bytes that were copied to and from the host before */
  int64_t between_kinds; /* the same between devices of different kinds */
} tsr__bind;

/* ---- lowering (lower.c, lower_text.c, aggregate.c) ------------------------------------------ */

/* An aggregate that relate/ computes. */
struct tsr__group_leaf {
  const tsr__expr *expr;
  const char *text; /* by which equal ones are found */
  int at;           /* of the grouped columns */
  uint8_t type;
  const tsr__dict *dict;
};

/* Aggregates that relate/ computed, by what they say. */
typedef struct tsr__leaves {
  const struct tsr__group_leaf *leaf;
  int count;
} tsr__leaves;

struct tsr__lower {
  tsr__bind *bind;
  tsr_scope *scope;
  const char *site;
  const tsr_frame *frame;    /* whose expression it is */
  const tsr_frame *from;     /* whose rows it reads; NULL: those that `frame` stands on */
  const tsr__bound *in;      /* columns by the frame's parent's schema */
  int64_t groups;            /* that aggregates were computed of; 0: none */
  bool of_rows;              /* a key or the argument of an aggregate; else what the frame makes */
  tsr_array *guard;          /* rows for which the branch being lowered counts; NULL: all */
  tsr_array *overflow;       /* where an integer left its range, in rows ... */
  tsr_array *late;           /* ... and among aggregates */
  const tsr__leaves *leaves; /* aggregates that are columns of `in` already; NULL: none */
  struct tsr__memo *memo;    /* what was lowered before ... */
  int memo_room;
  tsr__table memos; /* ... as the memo's numbers, by expression and guard */
};

/* An expression as a column. Never fails visibly: errors are in the scope. */
tsr__col tsr__lower_expr(tsr__lower *low, const tsr__expr *expr);
/* As tsr__lower_expr, converted to a type, with `count` and `real` settled. */
tsr__col tsr__lower_as(tsr__lower *low, const tsr__expr *expr, int type);
/* What is of rows whatever the frame makes of them, converted to a type, with its checks. */
tsr__col tsr__lower_row(tsr__lower *low, const tsr__expr *expr, int type);
/* The same of a key that goes by codes: equal texts have equal ones. */
tsr__col tsr__lower_key(tsr__lower *low, const tsr__expr *expr, int type);
/* A key of integers as u64; a negative one is null. */
tsr__col tsr__lower_natural(tsr__lower *low, const tsr__expr *expr);
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
/* The overflow-checked + - * of integers of one type. */
tsr__col tsr__lower_integer(tsr__lower *low, int op, tsr__col a, tsr__col b);
/* A whole-frame arithmetic of two columns. */
tsr__col tsr__lower_pair(tsr__lower *low, int op, tsr__col a, tsr__col b);

tsr__col tsr__text_literal(tsr__lower *low, const tsr__expr *expr);
tsr__col tsr__text_compare(tsr__lower *low, const tsr__expr *expr);
tsr__col tsr__text_in(tsr__lower *low, const tsr__expr *expr);
/* Gives equal texts of a column equal codes, which columns whose texts may repeat in their
 * dictionaries need not have; nothing for other types. False with an error in the scope. */
bool tsr__text_distinct(tsr__lower *low, tsr__col *a);
/* Puts a text column's dictionary in order, so that codes compare as texts do. */
void tsr__text_rank(tsr__lower *low, tsr__col *a);
/* Whether a loop over rows or distinct texts is to end at step `i`: the scope failed, or the
 * progress callback, asked every few thousand steps and at each below 0, cancelled, which is
 * recorded there. */
bool tsr__lower_stops(tsr__lower *low, int64_t i);
/* Records in the scope that it was cancelled. */
void tsr__lower_cancelled(tsr__lower *low);
/* Gives two text columns one dictionary, in order if they had two. */
bool tsr__text_unify(tsr__lower *low, tsr__col *a, tsr__col *b);
/* Makes the codes of two text columns, each of a dictionary, compare with each other as their texts
 * do: all comparisons, or with `equal` only == and !=. They are codes of nothing then. */
bool tsr__text_meet(tsr__lower *low, tsr__col *a, tsr__col *b, bool equal);
/* Gives them one list of texts, as cheaply as there is one. */
bool tsr__text_pool(tsr__lower *low, tsr__col *a, tsr__col *b);
/* The same for columns of several frames, each lowered by its own. */
tsr_status tsr__text_unify_all(tsr__lower **low, tsr__col **col, int count);
/* The rank of each code among the texts of a list, one for equal texts, in the terminal's scope;
 * NULL out of memory or cancelled, which is recorded (text_sort.c). */
const int32_t *tsr__text_ranks(tsr__lower *low, const tsr__dict *dict);
/* For each code of `from` the code of the same text in `to`, which has no repeats, or -1. */
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

/* What an aggregate is found by; NULL: out of memory. */
const char *tsr__leaf_text(tsr_scope *scope, const tsr__expr *expr);
/* The one of `count` that has a text; NULL: none. */
const struct tsr__group_leaf *tsr__leaf_find(const struct tsr__group_leaf *leaf, int count,
                                             const char *text);
/* The lowered items of an AGG or REDUCE frame over rows. */
tsr_status tsr__bind_aggregates(tsr__lower *low, const tsr_frame *df, const bool *need,
                                tsr__col *out);

/* A value as an array of a scope. */
tsr_array *tsr__value_leaf(tsr_scope *scope, tsr__value *value, const char *site);
/* A value of the rows of another: bools that are all true, or row numbers. */
tsr__value *tsr__value_like(const tsr__value *like, tsr_dtype dtype, tsr__error *error);

/* ---- dictionaries -------------------------------------------------------------------------- */

/* Gives a reference to a scope, which lets go of it at its end. NULL where the dictionary is, or
 * out of memory: then the reference is gone. */
const tsr__dict *tsr__dict_in(tsr_scope *scope, tsr__dict *dict);
/* The same for one that was made for the terminal at work; where it could not be, an error says
 * whether its `progress` (NULL: nobody asked) was cancelled. */
const tsr__dict *tsr__lower_dict(tsr__lower *low, tsr__dict *made, const tsr__progress *progress);
/* Compares by bytes, as strcmp. */
int tsr__text_order(const char *a, int64_t a_length, const char *b, int64_t b_length);

#endif
