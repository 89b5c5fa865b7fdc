/* Names and types of a tree against a schema.
 *
 * Rules, in short: arithmetic needs numbers (bool counts as i64); integers stay integers, but `/`
 * gives a float; integers meet, and floats, as arrays do, an integer and a float in one that holds
 * the integer, and a literal takes the width of the column it meets. Text compares with text,
 * dates with dates and times, and a text literal beside a date or time is read as one. `null` takes
 * any type. docs/EXPRESSIONS.md has the table.
 *
 * Invariant: a tree that was checked can be lowered without looking for errors again. */
#include "frame/expr/expr.h"

#include "io/text/datetime.h"
#include "topology/topology.h"

#include <math.h>
#include <stdio.h>

typedef struct checker {
  const tsr__formula *formula;
  const tsr__schema *schema;
  tsr__error *error;
  int context;
  bool in_agg;
  bool vacant;  /* some column holds nothing */
  bool untyped; /* such columns are nulls without a type */
} checker;

bool tsr__is_integer(int type)
{
  return tsr__dtype_integer((tsr_dtype)type);
}

bool tsr__is_float(int type)
{
  return tsr__dtype_is_real((tsr_dtype)type);
}

bool tsr__is_number(int type)
{
  return tsr__is_integer(type) || tsr__is_float(type);
}

/* A sum of bools counts, and a count is an i64. */
int tsr__sum_type(int type)
{
  if (tsr__is_float(type)) return type;
  return tsr__dtype_info_of((tsr_dtype)type)->kind == TSR__DTYPE_UINT ? TSR_COL_U64 : TSR_COL_I64;
}

/* f16 and bf16 average in f64, too: only f32 has a mean as narrow as itself. */
int tsr__mean_type(int type)
{
  return type == TSR_COL_F32 ? TSR_COL_F32 : TSR_COL_F64;
}

bool tsr__is_temporal(int type)
{
  return type == TSR_COL_DATE || type == TSR_COL_TIME;
}

static const char *type_name(int type)
{
  return type == TSR__COL_NULL ? "null" : tsr_coltype_name((tsr_coltype)type);
}

int tsr__schema_find(const tsr__schema *schema, const char *name)
{
  if (schema->names) return tsr__names_find(schema->names, name);
  /* Without a table for few names: to build one would cost more than to look. */
  for (int i = 0; i < schema->count; i++)
    if (!strcmp(schema->field[i].name, name)) return i;
  return -1;
}

void tsr__schema_hint(const tsr__schema *schema, const char *name, tsr__text *out)
{
  /* The nearest of the first 256 names: a hint, and a frame may have a million columns. */
  const char *names[256];
  int count = schema->count < 256 ? schema->count : 256, shown = 0;
  for (int i = 0; i < count; i++) names[i] = schema->field[i].name;
  int near = count ? tsr__text_nearest(name, names, count) : -1;
  tsr__text_add(out, "%s", schema->count ? "; columns: " : "; the frame has no columns");
  /* Who makes a message cuts this at some 500 bytes: 350 of columns leave the hint its place. */
  for (; shown < count && shown < 12 && out->length < 350; shown++)
    tsr__text_add(out, "%s%.40s", shown ? ", " : "", names[shown]);
  if (schema->count > shown) tsr__text_add(out, " and %d more", schema->count - shown);
  if (near >= 0) tsr__text_add(out, "; did you mean '%.60s'?", names[near]);
}

/* ---- errors ------------------------------------------------------------------------------ */

static tsr__place place_of(const checker *c, const tsr__expr *expr)
{
  return (tsr__place){ c->formula, expr->at, expr->span };
}

/* TSR_OK is never what tsr__caret returns, so this is `false` behind an error. */
#define WRONG(c, expr, ...) \
  (tsr__caret((c)->error, TSR_EDTYPE, place_of((c), (expr)), __VA_ARGS__) == TSR_OK)

static bool no_column(checker *c, const tsr__expr *expr)
{
  tsr__text hint;
  tsr__text_init(&hint, NULL);
  /* Who is used to other languages writes "JFK" for a text, which is a name here as in SQL. */
  if (c->formula->source[expr->at] == '"')
    tsr__text_add(&hint, "; \"...\" is a name, write a text as '...'");
  const char *word = tsr__hint_of_word(expr->text);
  if (word) tsr__text_add(&hint, "; %s", word);
  tsr__schema_hint(c->schema, expr->text, &hint);
  tsr__caret(c->error, TSR_ECOLUMN, place_of(c, expr), "no column '%.60s'%.500s", expr->text,
             tsr__text_get(&hint));
  tsr__text_free(&hint);
  return false;
}

/* Says that an operand is of the wrong kind, and which cast (`type`, NULL: none) makes the right
 * one. */
static bool wrong_kind(checker *c, const tsr__expr *arg, const char *needs, const char *type,
                       const char *more)
{
  tsr__text hint;
  tsr__text_init(&hint, NULL);
  /* A cast of a text literal would only be another way to write what is wrong. */
  if (type && arg->kind != TSR__E_TEXT) {
    tsr__text_add(&hint, "; write cast(");
    tsr__expr_print(arg, &hint);
    tsr__text_add(&hint, ", '%s')", type);
  }
  tsr__caret(c->error, TSR_EDTYPE, place_of(c, arg), "%s, found %s%.300s%s", needs,
             type_name(arg->type), tsr__text_get(&hint), more);
  tsr__text_free(&hint);
  return false;
}

/* Checks that an operand is of a kind: `words` says which. */
static bool need(checker *c, const tsr__expr *arg, bool fits, const char *who, const char *words)
{
  char needs[100];
  if (fits) return true;
  /* Only casts that are surely meant are proposed: to text where text is needed, to f64 where a
   * text stands for a number. */
  bool null = arg->type == TSR__COL_NULL, text = !strcmp(words, "text");
  bool number = !text && strstr(words, "number") && arg->type == TSR_COL_TEXT;
  snprintf(needs, sizeof needs, "%s needs %s", who, words);
  return wrong_kind(c, arg, needs,
                    null     ? NULL
                    : text   ? "text"
                    : number ? "f64"
                             : NULL,
                    null ? "; to ask for nulls write 'is null'" : "");
}

/* ---- literals beside other types ------------------------------------------------------------ */

/* Reads a text literal as a date or time because of what it stands beside. The text stays in the
 * node: lowering reads `type` and `i`, printing reads the text. */
static bool temporal_literal(checker *c, tsr__expr *text, int type)
{
  int32_t days = 0;
  int64_t micros = 0;
  size_t length = (size_t)text->length;
  /* A date beside a date; beside a time a date is its first microsecond, as below. */
  if (type == TSR_COL_DATE && tsr__date_read(text->text, length, &days)) {
    text->i = days;
    text->type = TSR_COL_DATE;
    return true;
  }
  bool is_date = tsr__date_read(text->text, length, &days);
  if (!is_date && !tsr__time_read(text->text, length, &micros))
    return WRONG(c, text, "'%.40s' is not a %s; write %s", text->text,
                 type == TSR_COL_DATE ? "date" : "time",
                 type == TSR_COL_DATE ? "'2013-01-31'" : "'2013-01-31' or '2013-01-31T06:00:00Z'");
  text->i = is_date ? days * INT64_C(86400000000) : micros;
  text->type = TSR_COL_TIME;
  return true;
}

/* `x == ?` with C's `true` must mean the bool, as C has no bool that a macro could tell from an int
 * (before C23). */
bool tsr__bool_value(const tsr__expr *expr)
{
  return expr->param && expr->kind == TSR__E_INT && (expr->i == 0 || expr->i == 1);
}

void tsr__align_vacant(tsr__expr *a, tsr__expr *b)
{
  if (a->type == b->type) return;
  if (a->vacant) a->type = TSR__COL_NULL;
  else if (b->vacant) b->type = TSR__COL_NULL;
}

/* C's true and false arrive as the integers 1 and 0. */
static bool align_literals(checker *c, tsr__expr *a, tsr__expr *b)
{
  tsr__align_vacant(a, b);
  /* Types of literals are written into their nodes: lowering reads them and knows no neighbours. */
  if (a->type == TSR_COL_BOOL && tsr__bool_value(b)) b->type = TSR_COL_BOOL;
  if (b->type == TSR_COL_BOOL && tsr__bool_value(a)) a->type = TSR_COL_BOOL;
  if (tsr__is_temporal(a->type) && b->kind == TSR__E_TEXT) return temporal_literal(c, b, a->type);
  if (tsr__is_temporal(b->type) && a->kind == TSR__E_TEXT) return temporal_literal(c, a, b->type);
  return true;
}

/* Whether a literal takes the type of what it meets. Of integers only a number that stands there:
 * 100 + 100 beside an i8 is an i64, since its value is not computed here and might not fit. */
static bool follows(const tsr__expr *expr, int type)
{
  if (tsr__is_float(type)) return true;
  return expr->kind == TSR__E_INT && tsr__dtype_holds((tsr_dtype)type, expr->i);
}

/* An integer meets a float in that float if it holds all of the integers, else in a wider one. f16,
 * bf16 -> f32 -> f64: the first that holds as many bits as the integers have. i64 and u64 end at
 * f64 though it has 53: there is no wider one, and pandas and NumPy do the same. */
static int meet_columns(int x, int y)
{
  bool real = tsr__is_float(x);
  if (real == tsr__is_float(y)) return (int)tsr__promote((tsr_dtype)x, (tsr_dtype)y);
  int to = real ? x : y, whole = real ? y : x;
  int bits = tsr__dtype_info_of((tsr_dtype)whole)->precision;
  while (to != TSR_COL_F64 && tsr__dtype_info_of((tsr_dtype)to)->precision < bits)
    to = to == TSR_COL_F32 ? TSR_COL_F64 : TSR_COL_F32;
  return to;
}

/* The type of two operands that are numbers, bool or null. Bool counts as i64 beside a number. Null
 * has no type of its own and takes any. */
static int meet_numbers(const tsr__expr *a, const tsr__expr *b)
{
  if (a->type == TSR__COL_NULL) return b->type;
  if (b->type == TSR__COL_NULL) return a->type;
  int x = a->type == TSR_COL_BOOL ? TSR_COL_I64 : a->type;
  int y = b->type == TSR_COL_BOOL ? TSR_COL_I64 : b->type;
  /* One literal beside a column: the column decides, so that `delay + 1` stays as narrow as delay.
   * Two literals, or two columns, meet as equals. */
  if (a->weak && !b->weak && follows(a, y)) return y;
  if (b->weak && !a->weak && follows(b, x)) return x;
  return meet_columns(x, y);
}

int tsr__meet(const tsr__expr *a, const tsr__expr *b)
{
  bool number_a = tsr__is_number(a->type), number_b = tsr__is_number(b->type);
  bool null = a->type == TSR__COL_NULL || b->type == TSR__COL_NULL;
  if (null || (number_a && number_b)) return meet_numbers(a, b);
  if (a->type == b->type) return a->type;
  if (number_a && b->type == TSR_COL_BOOL) return meet_numbers(a, b);
  if (number_b && a->type == TSR_COL_BOOL) return meet_numbers(a, b);
  /* A date beside a time is its midnight, UTC. */
  if (tsr__is_temporal(a->type) && tsr__is_temporal(b->type)) return TSR_COL_TIME;
  return -1;
}

/* ---- operations -------------------------------------------------------------------------- */

static bool counts_as_number(const tsr__expr *expr)
{
  return tsr__is_number(expr->type) || expr->type == TSR_COL_BOOL || expr->type == TSR__COL_NULL;
}

/* The float type of a result computed from numbers. */
static int float_type(int type)
{
  return tsr__is_float(type) ? type : TSR_COL_F64;
}

/* day - day and time - time are integers, days and microseconds; so are what is added. The
 * difference of a date and a time is one of times, in microseconds.
 *
 *   date - date     i64, days          date + 3    date        3 + date    date
 *   time - date     i64, microseconds  time - 3    time        3 - date    no */
static bool check_moved(checker *c, tsr__expr *expr)
{
  tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  bool minus = expr->op == TSR__B_SUB;
  /* What holds nothing less a date may be a date. */
  if (minus && a->vacant && tsr__is_temporal(b->type)) a->type = b->type;
  if (minus && !align_literals(c, a, b)) return false;
  bool dates = tsr__is_temporal(a->type) && tsr__is_temporal(b->type);
  /* With two dates and a plus this is the second date, which is no integer: refused below. */
  const tsr__expr *number = tsr__is_temporal(a->type) ? b : a;
  bool steps = tsr__is_integer(number->type) || number->type == TSR__COL_NULL;
  /* What is moved keeps its type: a date plus days is a date. */
  expr->type = minus && dates ? TSR_COL_I64 : number == a ? b->type : a->type;
  if ((minus && dates) || (expr->op == TSR__B_ADD && steps) || (minus && steps && number == b))
    return true;
  return WRONG(c, expr,
               "'%s' does not take %s and %s; add integers to a date (days) or a time "
               "(microseconds), and subtract dates from dates or times from times",
               tsr__binary_name(expr->op), type_name(a->type), type_name(b->type));
}

static bool check_arithmetic(checker *c, tsr__expr *expr)
{
  tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  const char *name = tsr__binary_name(expr->op);
  char needs[40];
  tsr__align_vacant(a, b);
  /* Only + and - know dates: the two first of the enumeration. */
  if (expr->op <= TSR__B_SUB && (tsr__is_temporal(a->type) || tsr__is_temporal(b->type)))
    return check_moved(c, expr);
  for (int i = 0; i < 2; i++) {
    const tsr__expr *arg = expr->arg[i];
    bool text = arg->type == TSR_COL_TEXT;
    snprintf(needs, sizeof needs, "'%s' needs numbers", name);
    if (text || tsr__is_temporal(arg->type))
      return wrong_kind(c, arg, needs, text ? "f64" : NULL,
                        text && expr->op == TSR__B_ADD ? "; join texts with concat" : "");
    if (!need(c, arg, counts_as_number(arg), name, "numbers")) return false;
  }
  /* Beside a null the type of the other operand counts, and the result is null throughout. */
  int type = meet_numbers(a, b);
  /* null + bool is a number, as bool + bool is; null + null must have some type. */
  if (type == TSR_COL_BOOL || type == TSR__COL_NULL) type = TSR_COL_I64;
  /* Powers of integers stay integers only where that is known of all rows: a literal exponent that
   * is not negative. 64 is past what any base but 0, 1 and -1 has a power for in i64. */
  bool whole_power = tsr__is_integer(type) && b->kind == TSR__E_INT && b->i >= 0 && b->i < 64;
  if (expr->op == TSR__B_DIV || (expr->op == TSR__B_POW && !whole_power)) type = float_type(type);
  expr->type = (uint8_t)type;
  return true;
}

static bool check_comparison(checker *c, tsr__expr *expr)
{
  tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  const char *name = tsr__binary_name(expr->op);
  /* SQL's three values: x == null is null for every row, which nobody wants to ask. A column that
   * happens to be all null is no mistake. */
  for (int i = 0; i < 2; i++)
    if (expr->arg[i]->kind == TSR__E_NULL)
      return WRONG(c, expr->arg[i],
                   "comparing with null is always null; write 'is null' or "
                   "'is not null'");
  if (!align_literals(c, a, b)) return false;
  int type = tsr__meet(a, b);
  /* tsr__meet lets a bool count beside a number, as arithmetic needs it; to compare the two is more
   * likely a mistake. `?` that are 0 or 1 became bools above. */
  bool mixed = (a->type == TSR_COL_BOOL) != (b->type == TSR_COL_BOOL);
  if (type < 0 || (mixed && a->type != TSR__COL_NULL && b->type != TSR__COL_NULL))
    return WRONG(c, expr, "'%s' cannot compare %s with %s", name, type_name(a->type),
                 type_name(b->type));
  if (type == TSR_COL_BOOL && expr->op > TSR__B_NE)
    return WRONG(c, expr, "'%s' has no meaning for bool; use == or !=", name);
  expr->type = TSR_COL_BOOL;
  return true;
}

static bool check_in(checker *c, tsr__expr *expr)
{
  tsr__expr *a = expr->arg[0];
  for (int i = 1; i < expr->count; i++) {
    tsr__expr *b = expr->arg[i];
    if (b->kind == TSR__E_NULL)
      return WRONG(c, b, "null in a list matches nothing; write 'or ... is null'");
    /* Lists are looked up, so they hold values only; a text that was computed (lower('A')) is a
     * value, but not one that stands there. */
    if (!b->weak || (b->type == TSR_COL_TEXT && b->kind != TSR__E_TEXT))
      return WRONG(c, b, "the list after 'in' holds values only, no columns; write == and or");
    if (!align_literals(c, a, b)) return false;
    bool mixed = (a->type == TSR_COL_BOOL) != (b->type == TSR_COL_BOOL);
    if (tsr__meet(a, b) < 0 || (mixed && a->type != TSR__COL_NULL))
      return WRONG(c, b, "'in' cannot compare %s with %s", type_name(a->type), type_name(b->type));
  }
  expr->type = TSR_COL_BOOL;
  return true;
}

static bool check_logic(checker *c, tsr__expr *expr)
{
  const char *name = expr->kind == TSR__E_NOT   ? "'not'"
                     : expr->kind == TSR__E_AND ? "'and'"
                                                : "'or'";
  for (int i = 0; i < expr->count; i++) {
    const tsr__expr *arg = expr->arg[i];
    /* A null literal is bool here: it is SQL's third truth value. */
    bool fits = arg->type == TSR_COL_BOOL || arg->type == TSR__COL_NULL;
    if (!need(c, arg, fits, name, "bool")) return false;
  }
  expr->type = TSR_COL_BOOL;
  return true;
}

/* if(c, a, b) and coalesce(a, b, ...): the choices from `first` on meet in one type. Pairs first: a
 * text that is to be a date must be one before any two types meet, wherever in the list the date
 * stands. Costs the square of the choices, of which people write few. */
static bool check_choices(checker *c, tsr__expr *expr, int first)
{
  tsr__expr all = { .type = TSR__COL_NULL, .weak = true };
  for (int i = first; i < expr->count; i++) {
    tsr__expr *arg = expr->arg[i];
    for (int k = first; k < expr->count; k++)
      if (!align_literals(c, arg, expr->arg[k])) return false;
  }
  for (int i = first; i < expr->count; i++) {
    tsr__expr *arg = expr->arg[i];
    int type = i == first ? arg->type : tsr__meet(&all, arg);
    if (type < 0 || ((arg->type == TSR_COL_BOOL) != (all.type == TSR_COL_BOOL) && i > first &&
                     arg->type != TSR__COL_NULL && all.type != TSR__COL_NULL))
      return WRONG(c, arg, "%s cannot choose between %s and %s", tsr__fn_name(expr->op),
                   type_name(all.type), type_name(arg->type));
    bool weak = all.weak && arg->weak;
    if (i == first || all.type == TSR__COL_NULL) all = *arg;
    all.type = (uint8_t)type;
    all.weak = weak;
  }
  /* Literals that stand before the first column have met no column's type, and `all` asked for the
   * first of them whether it fits: each is asked once more, so that their places do not matter. */
  for (int i = first; i < expr->count && !all.weak; i++)
    if (expr->arg[i]->weak) all.type = (uint8_t)tsr__meet(&all, expr->arg[i]);
  expr->type = all.type;
  return true;
}

/* if(c, a, b), coalesce(a, b, ...), least and greatest. */
static bool check_choice(checker *c, tsr__expr *expr)
{
  const tsr__expr *a = expr->arg[0];
  bool fits = a->type == TSR_COL_BOOL || a->type == TSR__COL_NULL;
  /* least and greatest are choices as well: they give one of their operands, unchanged. */
  if (expr->op != TSR__F_IF) return check_choices(c, expr, 0);
  if (!need(c, a, fits, tsr__fn_name(expr->op), "a bool as its first argument")) return false;
  return check_choices(c, expr, 1);
}

/* A literal that chooses among names: 'i64', 'month'. Gives its number, or -1 with the error. */
static int check_word(checker *c, const tsr__expr *arg, const char *const *names, int count)
{
  int found = arg->kind == TSR__E_TEXT && arg->text ? tsr__name_in(names, count, arg->text) : -1;
  if (found >= 0) return found;
  tsr__text list;
  tsr__text_init(&list, NULL);
  for (int i = 0; i < count; i++) tsr__text_add(&list, "%s'%s'", i ? ", " : "", names[i]);
  tsr__caret(c->error, TSR_EDTYPE, place_of(c, arg), "expected one of %s here",
             tsr__text_get(&list));
  tsr__text_free(&list);
  return -1;
}

/* What a value cannot become (try_cast: null) is found row by row; which types can at all, here. */
static bool check_cast(checker *c, tsr__expr *expr)
{
  /* In the order in which the message lists them. */
  static const uint8_t types[] = { TSR_COL_BOOL, TSR_COL_I8,   TSR_COL_I16,  TSR_COL_I32,
                                   TSR_COL_I64,  TSR_COL_U8,   TSR_COL_U16,  TSR_COL_U32,
                                   TSR_COL_U64,  TSR_COL_F16,  TSR_COL_BF16, TSR_COL_F32,
                                   TSR_COL_F64,  TSR_COL_DATE, TSR_COL_TIME, TSR_COL_TEXT };
  enum { TYPES = sizeof types };
  const char *names[TYPES];
  for (int i = 0; i < TYPES; i++) names[i] = tsr_coltype_name((tsr_coltype)types[i]);
  int from = expr->arg[0]->type, at = check_word(c, expr->arg[1], names, TYPES);
  if (at < 0) return false;
  int to = types[at];
  expr->type = (uint8_t)to;
  /* Who writes a type wants this type: the result no longer takes that of its neighbours. */
  expr->weak = false;
  bool day = tsr__is_temporal(to);
  /* Texts are read and written as anything. Numbers and bools become each other. A date or time
   * becomes a number that counts its days or microseconds, but never a truth value. */
  bool fits = from == to || from == TSR__COL_NULL || from == TSR_COL_TEXT || to == TSR_COL_TEXT ||
              (!tsr__is_temporal(from) && !day) || (day && tsr__is_integer(from)) ||
              (tsr__is_temporal(from) && to != TSR_COL_BOOL);
  if (fits) return true;
  return WRONG(c, expr, "a %s cannot be cast to a %s", type_name(from), type_name(to));
}

/* The functions of text take texts first, then literals. */
static bool check_text(checker *c, tsr__expr *expr)
{
  const char *name = tsr__fn_name(expr->op);
  int texts = expr->op == TSR__F_CONCAT ? expr->count : 1;
  bool test =
      expr->op == TSR__F_CONTAINS || expr->op == TSR__F_STARTS_WITH || expr->op == TSR__F_ENDS_WITH;
  if (test) texts = 2;
  for (int i = 0; i < expr->count; i++) {
    const tsr__expr *arg = expr->arg[i];
    if (i < texts) {
      /* The others must be literals: what a function of text asks is asked once of each distinct
       * text (lower_text.c), so it cannot differ by row. */
      bool fits = arg->type == TSR_COL_TEXT || arg->type == TSR__COL_NULL;
      if (!need(c, arg, fits, name, "text")) return false;
    } else if (expr->op == TSR__F_SLICE) {
      if (arg->kind != TSR__E_INT || (i == 2 && arg->i < 0))
        return WRONG(c, arg,
                     "slice takes whole numbers as its start and length: slice(x, start, length)");
    } else if (arg->kind != TSR__E_TEXT || (i == 1 && !arg->length)) {
      /* An empty text stands between all letters; what the replacement would mean is not clear. */
      return WRONG(c, arg,
                   "replace takes texts in quotes as its second and third argument, the second one "
                   "not empty");
    }
  }
  expr->type = expr->op == TSR__F_LENGTH ? TSR_COL_I64 : test ? TSR_COL_BOOL : TSR_COL_TEXT;
  return true;
}

/* Of months and weeks of null: null, of the type they would have. */
static bool check_date(checker *c, tsr__expr *expr)
{
  static const char *const units[TSR__UNITS] = { "year", "quarter", "month",  "week",
                                                 "day",  "hour",    "minute", "second" };
  const char *name = tsr__fn_name(expr->op);
  const tsr__expr *x = expr->arg[expr->count - 1];
  bool fits = tsr__is_temporal(x->type) || x->type == TSR__COL_NULL;
  bool clock = expr->op == TSR__F_HOUR || expr->op == TSR__F_MINUTE || expr->op == TSR__F_SECOND;
  expr->type = expr->op == TSR__F_DATE ? TSR_COL_DATE : TSR_COL_I64;
  if (expr->op == TSR__F_DATE_TRUNC) {
    int unit = check_word(c, expr->arg[0], units, TSR__UNITS);
    if (unit < 0) return false;
    expr->unit = (uint8_t)unit;
    expr->type = x->type ? x->type : TSR_COL_DATE;
    /* Units are sorted: those past the day need a clock, which a date has not. */
    clock = unit > TSR__U_DAY;
  }
  if (clock) return need(c, x, fits && x->type != TSR_COL_DATE, name, "a time");
  return need(c, x, fits, name, "a date or a time");
}

/* Numbers to numbers. round takes how many digits behind the point. */
static bool check_number(checker *c, tsr__expr *expr)
{
  const tsr__expr *a = expr->arg[0];
  const char *name = tsr__fn_name(expr->op);
  int sort = tsr__fn_sort(expr->op);
  bool null = a->type == TSR__COL_NULL;
  /* is_nan of an integer or bool is an honest false. */
  bool fits = tsr__is_number(a->type) || null || (sort == TSR__FS_TRUTH && counts_as_number(a));
  if (!need(c, a, fits, name, "a number")) return false;
  if (expr->count == 2) {
    const tsr__expr *digits = expr->arg[1];
    /* Past 18 digits 10^n is no i64. */
    if (digits->kind != TSR__E_INT || digits->i < -18 || digits->i > 18)
      return WRONG(c, digits, "round takes a whole number as its number of digits, -18 to 18");
  }
  expr->type = sort == TSR__FS_TRUTH           ? TSR_COL_BOOL
               : sort == TSR__FS_SAME && !null ? a->type
                                               : (uint8_t)float_type(a->type);
  return true;
}

static bool check_call(checker *c, tsr__expr *expr)
{
  switch (tsr__fn_sort(expr->op)) {
  case TSR__FS_CHOICE: return check_choice(c, expr);
  case TSR__FS_CAST: return check_cast(c, expr);
  case TSR__FS_TEXT: return check_text(c, expr);
  case TSR__FS_DATE: return check_date(c, expr);
  default: return check_number(c, expr);
  }
}

/* The share of quantile(x, share). */
static bool check_share(checker *c, const tsr__expr *share)
{
  /* One number for all rows, known before there are any. */
  double q = share->kind == TSR__E_INT ? (double)share->i : share->f;
  bool number = share->kind == TSR__E_INT || share->kind == TSR__E_FLOAT;
  if (number && q >= 0 && q <= 1) return true;
  return WRONG(c, share, "quantile needs a number from 0 to 1 as its second argument");
}

static bool check_agg(checker *c, tsr__expr *expr)
{
  const char *name = tsr__agg_name(expr->op);
  int type = expr->count ? expr->arg[0]->type : TSR_COL_I64;
  bool fits;
  switch (expr->op) {
  case TSR__A_COUNT: expr->type = TSR_COL_I64; return true;
  case TSR__A_ANY:
  case TSR__A_ALL:
    expr->type = TSR_COL_BOOL;
    fits = type == TSR_COL_BOOL || type == TSR__COL_NULL;
    return need(c, expr->arg[0], fits, name, "a bool");
  case TSR__A_NUNIQUE:
  case TSR__A_FIRST:
  case TSR__A_LAST:
  case TSR__A_MIN:
  case TSR__A_MAX:
    /* These work on any order, so on texts and dates, too: they give a value that was there. */
    expr->vacant = expr->arg[0]->vacant && expr->op != TSR__A_NUNIQUE;
    if (type == TSR__COL_NULL && expr->arg[0]->vacant) type = TSR_COL_I64;
    expr->type = (uint8_t)(expr->op == TSR__A_NUNIQUE ? TSR_COL_I64 : type);
    return need(c, expr->arg[0], type != TSR__COL_NULL, name, "a typed value");
  case TSR__A_CORR:
    expr->type = TSR_COL_F64;
    /* The second operand; the first one is checked with all others at the end. */
    if (!need(c, expr->arg[1], counts_as_number(expr->arg[1]), name, "numbers")) return false;
    break;
  case TSR__A_QUANTILE:
    if (!check_share(c, expr->arg[1])) return false;
    expr->type = (uint8_t)tsr__mean_type(type);
    break;
  case TSR__A_SUM: expr->type = (uint8_t)tsr__sum_type(type); break;
  default: expr->type = (uint8_t)tsr__mean_type(type);
  }
  return need(c, expr->arg[0], counts_as_number(expr->arg[0]), name, "a number");
}

/* ---- the walk ------------------------------------------------------------------------------ */

/* The schema is the parent's, and `column` its number there: a tree is good for one version of
 * it. */
static bool check_column(checker *c, tsr__expr *expr)
{
  expr->column = tsr__schema_find(c->schema, expr->text);
  if (expr->column < 0) return no_column(c, expr);
  expr->type = c->schema->field[expr->column].type;
  expr->vacant = c->schema->field[expr->column].vacant;
  if (expr->vacant && c->untyped) expr->type = TSR__COL_NULL;
  c->vacant |= expr->vacant;
  expr->weak = false;
  expr->bare = !c->in_agg;
  if (c->context == TSR__IN_AGG && !c->in_agg)
    return WRONG(c, expr,
                 "column '%.60s' stands outside of an aggregate; write for instance sum(%.60s)",
                 expr->text, expr->text);
  return true;
}

/* An aggregate among values: to be made, or the name of a column that was made so. "sum(x)" may be
 * a column: results of an aggregation are called by their text. */
static bool out_of_place(checker *c, const tsr__expr *expr)
{
  char name[100];
  snprintf(name, sizeof name, "%.*s", expr->span, c->formula->source + expr->at);
  if (tsr__schema_find(c->schema, name) >= 0)
    return WRONG(c, expr, "write the column of this name as \"%s\"", name);
  return WRONG(c, expr, "%s(...) reduces rows and cannot stand here; aggregate with tsr_frame_agg",
               tsr__agg_name(expr->op));
}

static bool check(checker *c, tsr__expr *expr);

/* Depth first, so that an operation finds its operands' types; and from the left, so that of
 * several errors the first in the text is told. */
static bool check_args(checker *c, tsr__expr *expr)
{
  bool agg = expr->kind == TSR__E_AGG;
  /* Values of `?` and literals are weak, and so is what is made of nothing else; columns and
   * aggregates are not, see check_column. */
  expr->weak = !agg;
  expr->bare = expr->vacant = false;
  expr->aggregated = agg;
  if (agg && c->in_agg) return WRONG(c, expr, "an aggregate cannot stand in another aggregate");
  /* In rows: a filter or an assign has one value a row, an aggregate one a frame. */
  if (agg && c->context == TSR__IN_ROW) return out_of_place(c, expr);
  c->in_agg = c->in_agg || agg;
  for (int i = 0; i < expr->count; i++) {
    tsr__expr *arg = expr->arg[i];
    if (!check(c, arg)) return false;
    expr->weak = expr->weak && arg->weak;
    expr->bare = expr->bare || arg->bare;
    expr->aggregated = expr->aggregated || arg->aggregated;
  }
  /* It was false before: aggregates do not nest. */
  if (agg) c->in_agg = false;
  return true;
}

static bool check(checker *c, tsr__expr *expr)
{
  if (expr->kind == TSR__E_COLUMN) return check_column(c, expr);
  if (!check_args(c, expr)) return false;
  /* A tree may hold a node twice (parse.c: again), which is then checked twice, with the same
   * result. */
  switch (expr->kind) {
  case TSR__E_INT: expr->type = TSR_COL_I64; return true;
  case TSR__E_FLOAT: expr->type = TSR_COL_F64; return true;
  case TSR__E_BOOL: expr->type = TSR_COL_BOOL; return true;
  case TSR__E_NULL: expr->type = TSR__COL_NULL; return true;
  case TSR__E_TEXT: expr->type = TSR_COL_TEXT; return true;
  case TSR__E_NEG:
    if (!need(c, expr->arg[0], tsr__is_number(expr->arg[0]->type), "'-'", "a number")) return false;
    expr->type = expr->arg[0]->type;
    return true;
  case TSR__E_BINARY:
    return expr->op >= TSR__B_EQ ? check_comparison(c, expr) : check_arithmetic(c, expr);
  case TSR__E_ISNULL: expr->type = TSR_COL_BOOL; return true;
  case TSR__E_IN: return check_in(c, expr);
  case TSR__E_CALL: return check_call(c, expr);
  case TSR__E_AGG: return check_agg(c, expr);
  default: return check_logic(c, expr);
  }
}

tsr_status tsr__check(const tsr__formula *formula, tsr__expr *expr, const tsr__schema *schema,
                      int context, tsr__error *error)
{
  checker c = { formula, schema, error, context, false, false, false };
  if (check(&c, expr)) return TSR_OK;
  if (!c.vacant) return error->status;
  /* The guessed type of a column that holds nothing does not fit: then it is a null. */
  tsr__error unused = { 0 };
  c = (checker){ formula, schema, &unused, context, false, false, true };
  if (!check(&c, expr)) return error->status;
  *error = (tsr__error){ 0 };
  return TSR_OK;
}
