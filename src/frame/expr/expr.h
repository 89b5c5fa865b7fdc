/* Column expressions: text -> tokens -> tree -> typed tree. Lowering to array nodes is lower.c's.
 *
 *   "revenue / sessions > ?", 2        BINARY >
 *                                     /        \
 *                              BINARY /         INT 2 (was ?)
 *                              /      \
 *                     COLUMN revenue  COLUMN sessions
 *
 * A tree lives in an arena and keeps, for each node, where in the text it stands, so that errors
 * found later (types, a column gone) still point there. Nothing here knows arrays or devices. */
#ifndef TSR_FRAME_EXPR_H
#define TSR_FRAME_EXPR_H

#include "base/base.h"
#include "io/text/datetime.h"
#include "tessera/frame.h"

/* The type of a bare `null`, before it meets another operand. */
enum { TSR__COL_NULL = 0 };

enum tsr__kind {
  TSR__E_INT,
  TSR__E_FLOAT,
  TSR__E_BOOL,
  TSR__E_NULL,
  TSR__E_TEXT, /* literals */
  TSR__E_COLUMN,
  TSR__E_NEG,
  TSR__E_NOT,
  TSR__E_BINARY, /* arithmetic and comparisons: `op` */
  TSR__E_AND,
  TSR__E_OR,
  TSR__E_ISNULL, /* `negated`: is not null */
  TSR__E_IN,     /* arg[0] in (arg[1], ...); `negated`: not in */
  TSR__E_CALL,   /* `op` is a tsr__fn */
  TSR__E_AGG     /* `op` is a tsr__agg; no argument: count() */
};

enum tsr__binary {
  TSR__B_ADD,
  TSR__B_SUB,
  TSR__B_MUL,
  TSR__B_DIV,
  TSR__B_FLOORDIV,
  TSR__B_MOD,
  TSR__B_POW,
  TSR__B_EQ,
  TSR__B_NE,
  TSR__B_LT,
  TSR__B_LE,
  TSR__B_GT,
  TSR__B_GE
};

enum tsr__fn {
#define FN(id, name, least, most, sort) TSR__F_##id,
#define AGG(id, name, least, most)
#include "frame/expr/functions.def"
#undef FN
#undef AGG
  TSR__FNS
};

enum tsr__fn_sort {
  TSR__FS_SAME,
  TSR__FS_REAL,
  TSR__FS_TRUTH,
  TSR__FS_CHOICE,
  TSR__FS_CAST,
  TSR__FS_TEXT,
  TSR__FS_DATE,
  TSR__FS_SUGAR
};

/* What date_trunc cuts to. */
enum tsr__unit {
  TSR__U_YEAR,
  TSR__U_QUARTER,
  TSR__U_MONTH,
  TSR__U_WEEK,
  TSR__U_DAY,
  TSR__U_HOUR,
  TSR__U_MINUTE,
  TSR__U_SECOND,
  TSR__UNITS
};

enum tsr__agg {
#define FN(id, name, least, most, sort)
#define AGG(id, name, least, most) TSR__A_##id,
#include "frame/expr/functions.def"
#undef FN
#undef AGG
  TSR__AGGS
};

typedef struct tsr__expr tsr__expr;

struct tsr__expr {
  uint8_t kind, op;
  bool negated;
  bool param;       /* a literal that came in by `?` */
  int at, span;     /* where in the text */
  int depth;        /* 1 + that of the deepest argument */
  int size;         /* nodes to walk: those that two others share count twice */
  int64_t i;        /* INT, BOOL; TEXT that became a date or time: its days, microseconds */
  double f;         /* FLOAT */
  const char *text; /* TEXT, COLUMN: unquoted, NUL-terminated */
  int length;       /* of text, which may hold NULs */
  int count;
  tsr__expr **arg;
  /* filled in by tsr__check */
  uint8_t type;    /* tsr_coltype, or TSR__COL_NULL */
  uint8_t unit;    /* date_trunc: its tsr__unit */
  bool weak;       /* made of literals only: takes the width of what it meets */
  bool aggregated; /* holds an aggregate */
  bool bare;       /* reads a column outside any aggregate */
  bool vacant;     /* a column that holds nothing, or one of its values; `type` is what it is taken
                      for, NULL: any */
  int column;      /* COLUMN: its number in the schema */
};

/* One item of a list: `name = expression` or an expression alone. */
typedef struct tsr__item {
  const char *name; /* given, or made of the text: never NULL */
  bool named;       /* given */
  int at, span;     /* of the name, or of the expression */
  tsr__expr *expr;
  tsr__expr *left; /* of a pair, `left = expr`; one that stands alone is there twice */
} tsr__item;

/* A parsed text. `what` is the call it was given to: "tsr_frame_filter". */
typedef struct tsr__formula {
  const char *what;
  const char *source; /* NUL-terminated */
  int length;
  int count;
  tsr__item *item;
} tsr__formula;

typedef struct tsr__field {
  const char *name;
  uint8_t type; /* tsr_coltype */
  bool vacant;  /* nothing but nulls, or no rows: the type is a guess, what it meets gives one */
} tsr__field;

/* Names and what numbers they have, found by hash, so that frames of very many columns do not
 * look at all of them for each. Zero but for the arena of its table. */
typedef struct tsr__names {
  tsr__table table; /* in an arena; its numbers are places in `list` */
  struct tsr__named *list;
  int room, count;
  bool failed; /* out of memory: it knows nothing more */
} tsr__names;

/* The number a name was added with, -1 if it was not. */
int tsr__names_find(const tsr__names *names, const char *name);
/* Adds a name, borrowed, that is not there yet. */
void tsr__names_add(tsr__names *names, const char *name, int number);

typedef struct tsr__schema {
  int count;
  const tsr__field *field;
  const tsr__names *names; /* NULL: few enough to be looked at one by one */
} tsr__schema;

/* ---- tokens (lex.c) -------------------------------------------------------------------- */

enum tsr__token_kind {
  TSR__T_END,
  TSR__T_INT,
  TSR__T_FLOAT,
  TSR__T_TEXT,
  TSR__T_NAME,
  TSR__T_QUOTED /* "name" */,
  TSR__T_WORD /* a keyword */,
  TSR__T_SYMBOL
};

typedef struct tsr__token {
  uint8_t kind;
  int at, span;
  uint64_t i;       /* INT: at most 2^63 */
  double f;         /* FLOAT */
  const char *text; /* unquoted TEXT, NAME, QUOTED (arena); else in the source, not ended */
  int length;
} tsr__token;

typedef struct tsr__lexer {
  const tsr__formula *formula;
  tsr__arena *arena;
  tsr__error *error;
  int at;
  tsr__token token; /* the current one */
} tsr__lexer;

/* Reads the next token into `lexer->token`; false on an error, which it records. */
bool tsr__lex(tsr__lexer *lexer);
/* Whether a name can be written without quotes. */
bool tsr__plain_name(const char *name);
/* Whether bytes are UTF-8 without NULs or other control characters. */
bool tsr__good_text(const char *text, size_t length);

/* A part of a text: [at, at + span). */
typedef struct tsr__place {
  const tsr__formula *formula;
  int at, span;
} tsr__place;

/* Records an error with the line of the text and a caret under the place. Returns the status. */
tsr_status tsr__caret(tsr__error *error, tsr_status status, tsr__place place, const char *format,
                      ...) TSR_PRINTF(4, 5);

/* ---- parsing (parse.c, parse_items.c) ------------------------------------------------------- */

/* Parses one expression (`list` false) or a list of items. The text is copied to the arena. */
typedef struct tsr__parse_ask {
  const char *what;
  const tsr_formula *formula;
  bool list;
} tsr__parse_ask;
tsr_status tsr__parse(const tsr__parse_ask *ask, tsr__arena *arena, tsr__formula *out,
                      tsr__error *error);

/* How a key orders: "delay desc nulls first". */
typedef struct tsr__order {
  bool given; /* something of it stands there */
  bool descending, nulls_first;
} tsr__order;

/* Keys: items, and how each orders. */
typedef struct tsr__keylist {
  tsr__formula formula;
  tsr__order *order; /* one an item */
} tsr__keylist;

/* Parses keys: items, each followed by `asc` or `desc` and by `nulls first` or `nulls last`,
 * all of which may be left out. */
tsr_status tsr__parse_keys(const char *what, const char *text, tsr__arena *arena, tsr__keylist *out,
                           tsr__error *error);
/* Parses pairs of expressions, "a, b = c + 1", as items without names. */
tsr_status tsr__parse_pairs(const char *what, const char *text, tsr__arena *arena,
                            tsr__formula *out, tsr__error *error);

const char *tsr__fn_name(int fn);
int tsr__fn_sort(int fn);
const char *tsr__agg_name(int agg);
/* The number of a name among `count`, or -1. */
int tsr__name_in(const char *const *names, int count, const char *name);
/* Whether an aggregate needs the rows of a group together (a median does, a sum does not). */
bool tsr__agg_needs_rows(int agg);
const char *tsr__binary_name(int op);

/* Adds an expression as text: one spelling for equal trees, `?` replaced by its value. */
void tsr__expr_print(const tsr__expr *expr, tsr__text *out);

/* What a word of other languages is here, as a part of a message; NULL: nothing comes to mind. */
const char *tsr__hint_of_word(const char *word);

/* ---- types (check.c) --------------------------------------------------------------------- */

enum tsr__context { TSR__IN_ROW, TSR__IN_AGG };

/* Resolves names against a schema and gives every node its type. IN_ROW: aggregates are an error;
 * IN_AGG: columns outside aggregates are. A vacant column is of any type that is asked for. May be
 * called again with another schema. */
tsr_status tsr__check(const tsr__formula *formula, tsr__expr *expr, const tsr__schema *schema,
                      int context, tsr__error *error);
/* The number of a column, -1 if there is none. */
int tsr__schema_find(const tsr__schema *schema, const char *name);
/* Words about a name that is not there: "; did you mean 'x'?" and the columns there are. */
void tsr__schema_hint(const tsr__schema *schema, const char *name, tsr__text *out);

/* Two columns that meet: a vacant one becomes null and takes the other's type. */
void tsr__align_vacant(tsr__expr *a, tsr__expr *b);
/* Whether a `?` was given C's true or false, which are integers: beside a bool it is one. */
bool tsr__bool_value(const tsr__expr *expr);
bool tsr__is_integer(int type);
bool tsr__is_float(int type);
bool tsr__is_number(int type);
/* The type of a sum: i64, u64 of unsigned integers, of floats their own; of means, deviations and
 * quantiles: f64, f32 of f32. */
int tsr__sum_type(int type);
int tsr__mean_type(int type);
bool tsr__is_temporal(int type);
/* The type two columns meet in, or -1: numbers widen (with f32 integers become f64), a date
 * becomes a time, null becomes the other. */
int tsr__meet(const tsr__expr *a, const tsr__expr *b);

/* Adds text on one line, cut to `width` columns; what would steer a terminal is blank. */
void tsr__text_clip(tsr__text *out, const char *text, size_t length, int width);

#endif
