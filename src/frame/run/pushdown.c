/* Filters handed to the reader of a file: rows that they drop need not be parsed in full.
 *
 *   read csv  ->  select, assign, filter ...  ->  what follows
 *                 all that is done to the file's rows goes through these: of a row that the filters
 *                 drop, only columns that are used up to the last of them are ever looked at
 *
 * The filter itself stays in the program; the reader only leaves out work whose result it masks.
 *
 * Invariant: a sieve drops no row that its filter keeps, nor one more than it does, and what a filter,
 * or anything before it, computes is computed of columns that are whole: an overflow in a dropped row is
 * found as ever. */
#include "frame/lower/functions.h"
#include "frame/run/run.h"

/* ---- constants ----------------------------------------------------------------------------- */

typedef struct sifting {
  tsr__bind *bind;
  tsr__sift *sift;
  int *at; /* by column of the frame at hand: the file's column it is, -1: it is computed */
  int room;
} sifting;

static void *room(tsr__bind *bind, int count, size_t element)
{
  void *out = tsr__arena_new(&bind->scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  return out;
}

/* What a sieve over texts asks. */
typedef struct asked {
  int op; /* tsr__binary, or -1 and `fn`; -2: one of the list */
  int fn;
  bool negated;
  int count;
  const tsr__bytes *text;
} asked;

static bool passes(const void *user, const char *text, size_t length)
{
  const asked *a = user;
  tsr__bytes at = { text, (int64_t)length };
  if (a->op == -1) return tsr__text_test(a->fn, at, a->text[0]);
  for (int i = 0; i < a->count; i++) {
    int order = tsr__text_order(at.at, at.length, a->text[i].at, a->text[i].length);
    if (a->op >= 0) return tsr__order_holds(a->op, order);
    if (order == 0) return !a->negated;
  }
  return a->negated;
}

/* Whether a literal of an expression is a number of the type in which it meets a column, and which. */
static bool constant(const tsr__expr *expr, int type, int64_t *whole, double *real)
{
  bool temporal = expr->kind == TSR__E_TEXT && tsr__is_temporal(expr->type);
  *whole = expr->i;
  *real = expr->kind == TSR__E_FLOAT ? expr->f : (double)expr->i;
  if (type == TSR_COL_F64)
    return (expr->kind == TSR__E_INT || expr->kind == TSR__E_FLOAT) && *real == *real;
  if (tsr__is_integer(type)) return expr->kind == TSR__E_INT;
  if (expr->type == TSR_COL_DATE && type == TSR_COL_TIME)
    return temporal && !__builtin_mul_overflow(expr->i, INT64_C(86400000000), whole);
  return temporal && expr->type == type;
}

/* Whether the reader's values of a column compare as the engine's do, in the type they meet in. */
static bool comparable(int column, int type)
{
  if (tsr__is_integer(column)) return tsr__is_integer(type) || type == TSR_COL_F64;
  return column == type && (type == TSR_COL_F64 || tsr__is_temporal(type));
}

/* A sieve's numbers out of literals arg[from] .. arg[to - 1] of an expression. */
static bool take_numbers(sifting *s, const tsr__expr *expr, const tsr__expr *column,
                         tsr__sieve *out)
{
  int from = expr->arg[0] == column, to = expr->kind == TSR__E_IN ? expr->count : from + 1;
  int64_t *whole = room(s->bind, to - from, sizeof *whole);
  double *real = room(s->bind, to - from, sizeof *real);
  if (!whole || !real) return false;
  for (int i = from; i < to; i++) {
    int type = tsr__meet(column, expr->arg[i]);
    bool wide = type == TSR_COL_F64;
    if (type < 0 || !comparable(column->type, type)) return false;
    if (i > from && wide != out->real) return false;
    if (!constant(expr->arg[i], type, &whole[i - from], &real[i - from])) return false;
    out->real = wide;
  }
  out->count = to - from;
  out->whole = whole;
  out->reals = real;
  return true;
}

static bool take_texts(sifting *s, const tsr__expr *expr, int from, int to, tsr__sieve *out)
{
  asked *a = room(s->bind, 1, sizeof *a);
  tsr__bytes *text = room(s->bind, to - from, sizeof *text);
  if (!a || !text) return false;
  for (int i = from; i < to; i++) {
    const tsr__expr *literal = expr->arg[i];
    if (literal->kind != TSR__E_TEXT || literal->type != TSR_COL_TEXT) return false;
    text[i - from] = (tsr__bytes){ literal->text, literal->length };
  }
  *a = (asked){ .op = expr->kind == TSR__E_CALL ? -1 : -2,
                .fn = expr->op,
                .negated = expr->negated,
                .count = to - from,
                .text = text };
  out->op = TSR__SIEVE_TEXT;
  out->passes = passes;
  out->user = a;
  return true;
}

/* ---- conditions ---------------------------------------------------------------------------- */

static bool take_comparison(sifting *s, const tsr__expr *expr, const tsr__expr *column,
                            tsr__sieve *out)
{
  static const uint8_t turned[] = {
    TSR__B_EQ, TSR__B_NE, TSR__B_GT, TSR__B_GE, TSR__B_LT, TSR__B_LE
  };
  bool left = expr->arg[0] == column;
  int op = left ? expr->op : turned[expr->op - TSR__B_EQ];
  out->op = (tsr__sieve_op)(TSR__SIEVE_EQ + (op - TSR__B_EQ));
  if (column->type != TSR_COL_TEXT) return take_numbers(s, expr, column, out);
  if (!take_texts(s, expr, left, left + 1, out)) return false;
  asked *a = (asked *)(uintptr_t)out->user;
  a->op = op;
  return true;
}

/* The column that a condition on one column is about; NULL: it is another expression. */
static const tsr__expr *column_of(const tsr__expr *expr)
{
  bool two = expr->kind == TSR__E_BINARY && expr->op >= TSR__B_EQ;
  bool one = expr->kind == TSR__E_ISNULL || expr->kind == TSR__E_NOT || expr->kind == TSR__E_IN ||
             expr->kind == TSR__E_CALL;
  if (expr->kind == TSR__E_COLUMN) return expr;
  if ((one || two) && expr->count && expr->arg[0]->kind == TSR__E_COLUMN) return expr->arg[0];
  return two && expr->arg[1]->kind == TSR__E_COLUMN ? expr->arg[1] : NULL;
}

/* Whether the reader can judge a condition by a column. */
static bool take_condition(sifting *s, const tsr__expr *expr, const tsr__expr *column,
                           tsr__sieve *out)
{
  bool text = column->type == TSR_COL_TEXT;
  switch (expr->kind) {
  case TSR__E_COLUMN:
  case TSR__E_NOT:
    out->op = expr->kind == TSR__E_NOT ? TSR__SIEVE_FALSE : TSR__SIEVE_TRUE;
    return column->type == TSR_COL_BOOL;
  case TSR__E_ISNULL: out->op = expr->negated ? TSR__SIEVE_NOT_NULL : TSR__SIEVE_NULL; return true;
  case TSR__E_IN:
    out->op = expr->negated ? TSR__SIEVE_NOT_IN : TSR__SIEVE_IN;
    return text ? take_texts(s, expr, 1, expr->count, out) : take_numbers(s, expr, column, out);
  case TSR__E_CALL: return text && tsr__is_text_test(expr->op) && take_texts(s, expr, 1, 2, out);
  default: return take_comparison(s, expr, column, out);
  }
}

/* What tells two sieves apart: the file's column, and the condition with its constants bit by bit. */
static bool name_sieve(sifting *s, const tsr__expr *expr, tsr__sift *sift)
{
  const tsr__sieve *sieve = &sift->sieve[sift->count];
  const asked *a = sieve->user;
  tsr__text key;
  tsr__text_init(&key, &s->bind->scope->rt->heap);
  tsr__text_add(&key, "%d %d %d %d", sieve->target, (int)sieve->op, sieve->real, sieve->count);
  if (a) tsr__text_add(&key, " %d %d %d %d", a->op, a->fn, a->negated, a->count);
  for (int i = 0; i < sieve->count; i++) {
    uint64_t bits;
    memcpy(&bits, sieve->real ? (const void *)&sieve->reals[i] : (const void *)&sieve->whole[i], 8);
    tsr__text_add(&key, " %llx", (unsigned long long)bits);
  }
  for (int i = 0; a && i < a->count; i++) {
    tsr__text_add(&key, " %lld:", (long long)a->text[i].length);
    tsr__text_put(&key, a->text[i].at, (size_t)a->text[i].length);
  }
  char *bytes = room(s->bind, (int)key.length + 1, 1);
  bool fine = bytes && !key.failed;
  if (fine) memcpy(bytes, tsr__text_get(&key), key.length);
  sift->key[sift->count] = (tsr__sift_key){ bytes, key.length };
  tsr__text_free(&key);
  sift->expr[sift->count] = expr;
  return fine;
}

/* Adds the sieves of a filter: those of its conditions, joined by `and`, that can be judged. False:
 * there are others. */
static bool take_conditions(sifting *s, const tsr__expr *expr)
{
  tsr__sift *sift = s->sift;
  if (expr->kind == TSR__E_AND) {
    bool left = take_conditions(s, expr->arg[0]);
    return take_conditions(s, expr->arg[1]) && left;
  }
  const tsr__expr *column = column_of(expr);
  if (sift->count == TSR__SIEVES || !column || s->at[column->column] < 0) return false;
  tsr__sieve *sieve = &sift->sieve[sift->count];
  *sieve = (tsr__sieve){ .target = s->at[column->column] };
  if (!take_condition(s, expr, column, sieve) || !name_sieve(s, expr, sift)) return false;
  sift->count++;
  return true;
}

/* ---- the frames between -------------------------------------------------------------------- */

/* Marks the file's columns that an expression reads. */
static void mark_used(const sifting *s, const tsr__expr *expr, bool *used)
{
  if (expr->kind == TSR__E_COLUMN && s->at[expr->column] >= 0) used[s->at[expr->column]] = true;
  for (int i = 0; i < expr->count; i++) mark_used(s, expr->arg[i], used);
}

/* The only frame that uses a visit's rows in this terminal; NULL: there are several, or none. */
static const tsr__visit *only_user(const tsr__bind *bind, const tsr__visit *of)
{
  const tsr__visit *found = NULL;
  for (const tsr__visit *v = bind->visits; v; v = v->next) {
    if (!v->live || tsr__visit_is_there(bind, v)) continue;
    bool uses = v->parent == of, other = v->other == of;
    for (int i = 0; v->part && i < v->df->part_count; i++) other = other || v->part[i] == of;
    if (other || (uses && found)) return NULL;
    if (uses) found = v;
  }
  return found;
}

/* Steps over one frame; false where rows or columns do not simply go on. */
static bool step_over(sifting *s, const tsr__visit *v, bool *used)
{
  const tsr_frame *df = v->df;
  const tsr__formula *formula = &df->formula;
  int count = df->schema.count;
  if (v->made) return false;
  switch (df->kind) {
  case TSR__FRAME_FILTER: mark_used(s, formula->item[0].expr, used); return true;
  case TSR__FRAME_SELECT:
  case TSR__FRAME_ASSIGN:
  case TSR__FRAME_INDEX: break;
  default: return false;
  }
  int *at = room(s->bind, count, sizeof *at);
  if (!at) return false;
  int made = df->kind == TSR__FRAME_ASSIGN ? tsr__schema_find(&df->schema, df->name) : -1;
  for (int i = 0; i < count; i++) {
    const tsr__expr *expr = df->kind == TSR__FRAME_SELECT ? formula->item[i].expr
                            : i == made                   ? formula->item[0].expr
                                                          : NULL;
    if (df->kind == TSR__FRAME_INDEX) at[i] = i ? s->at[i - 1] : -1;
    else if (!expr) at[i] = s->at[i];
    else at[i] = expr->kind == TSR__E_COLUMN ? s->at[expr->column] : -1;
    if (expr && at[i] < 0 && v->need[i]) mark_used(s, expr, used);
  }
  s->at = at;
  return true;
}

tsr__sift *tsr__sift_of(tsr__bind *bind, const tsr__visit *file)
{
  int columns = file->df->schema.count;
  tsr__sift *sift = room(bind, 1, sizeof *sift);
  bool *used = room(bind, columns, sizeof *used);
  sifting s = { .bind = bind, .sift = sift, .at = room(bind, columns, sizeof *s.at) };
  if (!sift || !used || !s.at) return NULL;
  sift->whole = room(bind, columns, sizeof *sift->whole);
  if (!sift->whole) return NULL;
  bool all = true;
  for (int i = 0; i < columns; i++) s.at[i] = i;
  for (const tsr__visit *v = only_user(bind, file); v; v = only_user(bind, v)) {
    int before = sift->count;
    if (v->df->kind == TSR__FRAME_FILTER && !v->made) {
      all = take_conditions(&s, v->df->formula.item[0].expr) && all;
      sift->all = all ? v->df : NULL;
    }
    if (!step_over(&s, v, used)) break;
    if (sift->count > before) memcpy(sift->whole, used, (size_t)columns * sizeof *used);
  }
  return bind->error.status ? NULL : sift;
}

/* Where few rows pass, all are read in the end: beyond REACH_MOST that is begun at once, and where memory is
 * limited, since what was read for nothing is held beside them. */
enum { REACH = 1 << 14, REACH_MOST = 1 << 20 };

int64_t tsr__front_of(const tsr__bind *bind, tsr__visit *file)
{
  int64_t end;
  bool filtered = false, tight = bind->scope->rt->opts.memory_limit > 0;
  file->head = NULL;
  for (const tsr__visit *v = only_user(bind, file); v && !v->made; v = only_user(bind, v)) {
    switch (v->df->kind) {
    case TSR__FRAME_HEAD:
      if (__builtin_add_overflow(v->df->first, v->df->count, &end)) return -1;
      if (!filtered) return end;
      if (file->reach < end) file->reach = end;
      if (file->reach < REACH) file->reach = REACH;
      file->head = v;
      file->wanted = end;
      return tight || file->reach > REACH_MOST ? -1 : file->reach;
    case TSR__FRAME_FILTER: filtered = true; break;
    case TSR__FRAME_SELECT:
    case TSR__FRAME_ASSIGN:
    case TSR__FRAME_INDEX: break;
    default: return -1;
    }
  }
  return -1;
}

bool tsr__sift_holds(const tsr__sifted *sifted, const tsr__sift *sift)
{
  for (int k = 0; k < sifted->count; k++) {
    bool found = false;
    for (int i = 0; i < sift->count && !found; i++)
      found = sift->key[i].length == sifted->key[k].length &&
              memcmp(sift->key[i].at, sifted->key[k].at, sift->key[i].length) == 0;
    if (!found) return false;
  }
  return true;
}
