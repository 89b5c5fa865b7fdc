/* Filters handed to the reader of a file: rows that they drop need not be parsed in full.
 *
 *   read csv  ->  select, assign, filter ...  ->  what follows
 *                 all that is done to the file's rows goes through these: of a row that the filters
 *                 drop, only columns that are used up to the last of them are ever looked at
 *
 * The filter itself stays in the program; the reader only leaves out work whose result it masks.
 *
 * Invariant: a predicate drops no row that its filter keeps, nor one more than it does, and what a
 * filter, or anything before it, computes is computed of columns that are whole: an overflow in a
 * dropped row is found as ever. */
#include "frame/lower/functions.h"
#include "frame/run/run.h"

/* ---- constants ----------------------------------------------------------------------------- */

/* `at` is renewed at each frame that is stepped over: it translates columns of the frame at hand
 * to those of the file. */
typedef struct search {
  tsr__bind *bind;
  tsr__pushdown *pushdown;
  int *at; /* by column of the frame at hand: the file's column it is, -1: it is computed */
  int room;
} search;

/* What a predicate over texts asks. */
typedef struct asked {
  int op; /* tsr__binary, or -1 and `call`; -2: one of the list */
  const tsr__expr *call;
  int depth; /* functions within it: tsr__text_inner */
  bool negated;
  int count;
  const tsr__text_view *text;
} asked;

/* Called by the reader for texts, a different one at a time; it must not depend on anything but
 * its arguments. */
static bool passes(const void *user, tsr__text_span text, tsr__text *made)
{
  const asked *a = user;
  tsr__text_view at = { text.at, (int64_t)text.length };
  if (a->op == -1) return tsr__text_asks(a->call, a->depth, at, a->text[0], made);
  for (int i = 0; i < a->count; i++) {
    int order = tsr__text_order(at.at, at.length, a->text[i].at, a->text[i].length);
    if (a->op >= 0) return tsr__order_holds(a->op, order);
    if (order == 0) return !a->negated;
  }
  return a->negated;
}

/* Whether a literal of an expression is a number of the type in which it meets a column, and
 * which. A NaN is left to the filter. A date beside a time stamp is its midnight. */
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

/* Whether the reader's values of a column compare as the engine's do, in the type they meet in.
 * Other types are left to the filter. */
static bool comparable(int column, int type)
{
  if (column == TSR_COL_I32 || column == TSR_COL_I64)
    return tsr__is_integer(type) || type == TSR_COL_F64;
  return column == type && (type == TSR_COL_F64 || tsr__is_temporal(type));
}

/* A predicate's numbers out of literals arg[from] .. arg[to - 1] of an expression. */
static bool take_numbers(search *s, const tsr__expr *expr, const tsr__expr *column,
                         tsr__predicate *out)
{
  int from = expr->arg[0] == column, to = expr->kind == TSR__E_IN ? expr->count : from + 1;
  int64_t *whole = tsr__bind_room(s->bind, to - from, sizeof *whole);
  double *real = tsr__bind_room(s->bind, to - from, sizeof *real);
  if (!whole || !real) return false;
  for (int i = from; i < to; i++) {
    int type = tsr__meet(column, expr->arg[i]);
    bool wide = type == TSR_COL_F64;
    if (type < 0 || !comparable(column->type, type)) return false;
    /* A list that meets the column in two types is compared in two ways; the filter does it. */
    if (i > from && wide != out->real) return false;
    if (!constant(expr->arg[i], type, &whole[i - from], &real[i - from])) return false;
    out->real = wide;
  }
  out->count = to - from;
  out->whole = whole;
  out->reals = real;
  return true;
}

static bool take_texts(search *s, const tsr__expr *expr, int from, int to, tsr__predicate *out)
{
  asked *a = tsr__bind_room(s->bind, 1, sizeof *a);
  tsr__text_view *text = tsr__bind_room(s->bind, to - from, sizeof *text);
  if (!a || !text) return false;
  for (int i = from; i < to; i++) {
    const tsr__expr *literal = expr->arg[i];
    if (literal->kind != TSR__E_TEXT || literal->type != TSR_COL_TEXT) return false;
    text[i - from] = (tsr__text_view){ literal->text, literal->length };
  }
  *a = (asked){ .op = expr->kind == TSR__E_CALL ? -1 : -2,
                .call = expr,
                .negated = expr->negated,
                .count = to - from,
                .text = text };
  if (a->op == -1) (void)tsr__text_inner(expr, &a->depth);
  out->op = TSR__PREDICATE_TEXT;
  out->passes = passes;
  out->user = a;
  return true;
}

/* ---- conditions ---------------------------------------------------------------------------- */

static bool take_comparison(search *s, const tsr__expr *expr, const tsr__expr *column,
                            tsr__predicate *out)
{
  static const uint8_t turned[] = {
    TSR__B_EQ, TSR__B_NE, TSR__B_GT, TSR__B_GE, TSR__B_LT, TSR__B_LE
  };
  bool left = expr->arg[0] == column;
  int op = left ? expr->op : turned[expr->op - TSR__B_EQ];
  out->op = (tsr__predicate_op)(TSR__PREDICATE_EQ + (op - TSR__B_EQ));
  if (column->type != TSR_COL_TEXT) return take_numbers(s, expr, column, out);
  if (!take_texts(s, expr, left, left + 1, out)) return false;
  /* take_texts has set what a list asks; a comparison is one with an operator. */
  asked *a = (asked *)(uintptr_t)out->user;
  a->op = op;
  return true;
}

/* The column that a question about a text is asked of, perhaps of what functions without further
 * arguments make of it; NULL: it is another. */
static const tsr__expr *column_of_test(const tsr__expr *expr)
{
  int depth;
  const tsr__expr *inner = expr->arg[0];
  if (!tsr__is_text_test(expr->op)) return inner->kind == TSR__E_COLUMN ? inner : NULL;
  for (inner = tsr__text_inner(expr, &depth); depth > 0; depth--) {
    const tsr__expr *made = expr;
    for (int i = 0; i < depth; i++) made = made->arg[0];
    if (made->op != TSR__F_UPPER && made->op != TSR__F_LOWER && made->op != TSR__F_TRIM)
      return NULL;
  }
  return inner->kind == TSR__E_COLUMN ? inner : NULL;
}

/* The column that a condition on one column is about; NULL: it is another expression. `5 < a` is
 * about `a` as well: take_comparison turns it. */
static const tsr__expr *column_of(const tsr__expr *expr)
{
  bool two = expr->kind == TSR__E_BINARY && expr->op >= TSR__B_EQ;
  bool one = expr->kind == TSR__E_ISNULL || expr->kind == TSR__E_NOT || expr->kind == TSR__E_IN;
  if (expr->kind == TSR__E_COLUMN) return expr;
  if (expr->kind == TSR__E_CALL && expr->count) return column_of_test(expr);
  if ((one || two) && expr->count && expr->arg[0]->kind == TSR__E_COLUMN) return expr->arg[0];
  return two && expr->arg[1]->kind == TSR__E_COLUMN ? expr->arg[1] : NULL;
}

/* Whether the reader can judge a condition by a column. */
static bool take_condition(search *s, const tsr__expr *expr, const tsr__expr *column,
                           tsr__predicate *out)
{
  bool text = column->type == TSR_COL_TEXT;
  switch (expr->kind) {
  case TSR__E_COLUMN:
  case TSR__E_NOT:
    out->op = expr->kind == TSR__E_NOT ? TSR__PREDICATE_FALSE : TSR__PREDICATE_TRUE;
    return column->type == TSR_COL_BOOL;
  case TSR__E_ISNULL:
    out->op = expr->negated ? TSR__PREDICATE_NOT_NULL : TSR__PREDICATE_NULL;
    return true;
  case TSR__E_IN:
    out->op = expr->negated ? TSR__PREDICATE_NOT_IN : TSR__PREDICATE_IN;
    return text ? take_texts(s, expr, 1, expr->count, out) : take_numbers(s, expr, column, out);
  case TSR__E_CALL: return text && tsr__is_text_test(expr->op) && take_texts(s, expr, 1, 2, out);
  default: return take_comparison(s, expr, column, out);
  }
}

/* What tells two predicates apart: the file's column, and the condition with its constants bit by
 * bit. Two filters are equal if their names are: then columns that were read for one will do for
 * the other. Numbers stand in it by their bits. */
static bool name_predicate(search *s, const tsr__expr *expr, tsr__pushdown *pushdown)
{
  const tsr__predicate *predicate = &pushdown->predicate[pushdown->count];
  const asked *a = predicate->user;
  const tsr__expr *call = a ? a->call : NULL;
  tsr__text key;
  tsr__text_init(&key, &s->bind->scope->rt->heap);
  tsr__text_add(&key, "%d %d %d %d", predicate->target, (int)predicate->op, predicate->real,
                predicate->count);
  if (a) tsr__text_add(&key, " %d %d %d", a->op, a->negated, a->count);
  for (int i = 0; a && a->op == -1 && i <= a->depth; i++, call = call->arg[0])
    tsr__text_add(&key, " f%d", call->op);
  for (int i = 0; i < predicate->count; i++) {
    uint64_t bits;
    memcpy(&bits,
           predicate->real ? (const void *)&predicate->reals[i]
                           : (const void *)&predicate->whole[i],
           8);
    tsr__text_add(&key, " %llx", (unsigned long long)bits);
  }
  for (int i = 0; a && i < a->count; i++) {
    tsr__text_add(&key, " %lld:", (long long)a->text[i].length);
    tsr__text_put(&key, a->text[i].at, (size_t)a->text[i].length);
  }
  char *bytes = tsr__bind_room(s->bind, (int)key.length + 1, 1);
  bool fine = bytes && !key.failed;
  if (fine) memcpy(bytes, tsr__text_get(&key), key.length);
  pushdown->key[pushdown->count] = (tsr__pushdown_key){ bytes, key.length };
  tsr__text_free(&key);
  pushdown->expr[pushdown->count] = expr;
  return fine;
}

/* Adds the predicates of a filter: those of its conditions, joined by `and`, that can be judged.
 * False: there are others. Both sides of an `and` are looked at even if the first cannot be
 * judged: dropping by the second alone is right too, just less. */
static bool take_conditions(search *s, const tsr__expr *expr)
{
  tsr__pushdown *pushdown = s->pushdown;
  if (expr->kind == TSR__E_AND) {
    bool left = take_conditions(s, expr->arg[0]);
    return take_conditions(s, expr->arg[1]) && left;
  }
  const tsr__expr *column = column_of(expr);
  /* A condition on a computed column is judged by its filter. */
  if (pushdown->count == TSR__PREDICATES || !column || s->at[column->column] < 0) return false;
  tsr__predicate *predicate = &pushdown->predicate[pushdown->count];
  *predicate = (tsr__predicate){ .target = s->at[column->column] };
  if (!take_condition(s, expr, column, predicate) || !name_predicate(s, expr, pushdown))
    return false;
  pushdown->count++;
  return true;
}

/* ---- the frames between -------------------------------------------------------------------- */

/* Marks the file's columns that an expression reads. */
static void mark_used(const search *s, const tsr__expr *expr, bool *used)
{
  if (expr->kind == TSR__E_COLUMN && s->at[expr->column] >= 0) used[s->at[expr->column]] = true;
  for (int i = 0; i < expr->count; i++) mark_used(s, expr->arg[i], used);
}

/* The only frame that uses a visit's rows in this terminal; NULL: there are several, or none.
 * With two users a row that one drops may be kept by the other. */
static tsr__visit *only_user(const tsr__bind *bind, const tsr__visit *of)
{
  tsr__visit *found = NULL;
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    if (!v->live || tsr__visit_is_there(bind, v)) continue;
    bool uses = v->parent == of, other = v->other == of;
    for (int i = 0; v->part && i < v->df->part_count; i++) other = other || v->part[i] == of;
    if (other || (uses && found)) return NULL;
    if (uses) found = v;
  }
  return found;
}

/* Whether rows simply go on through a frame, each column traced to the file. Row numbers go on
 * too: a dropped row keeps its number. */
static bool goes_on(const tsr__visit *v)
{
  tsr__rows rows = tsr__verb_of(v->df)->rows;
  return !v->made && (rows == TSR__ROWS_MAPS || rows == TSR__ROWS_NUMBERS);
}

/* Columns that are used by filters, and by what else there is. */
typedef struct used_columns {
  bool *filters, *others;
} used_columns;

/* Steps over one frame; false where rows or columns do not simply go on. */
static bool step_over(search *s, const tsr__visit *v, const used_columns *used)
{
  const tsr_frame *df = v->df;
  int count = df->schema.count;
  if (df->kind == TSR__FRAME_FILTER && !v->made) {
    mark_used(s, df->formula.item[0].expr, used->filters);
    return true;
  }
  int *at = goes_on(v) ? tsr__bind_room(s->bind, count, sizeof *at) : NULL;
  if (!at) return false;
  for (int i = 0; i < count; i++) {
    tsr__origin from = tsr__verb_of(df)->origin(df, i);
    at[i] = from.column >= 0 ? s->at[from.column] : -1;
    /* A computed column reads its operands of all rows, dropped ones as well, since it was
     * written before the filter: they must be whole. */
    if (from.expr && at[i] < 0 && v->need[i]) mark_used(s, from.expr, used->others);
  }
  s->at = at;
  return true;
}

tsr__pushdown *tsr__pushdown_of(tsr__bind *bind, const tsr__visit *file)
{
  int columns = file->df->schema.count;
  tsr__pushdown *pushdown = tsr__bind_room(bind, 1, sizeof *pushdown);
  used_columns used = { tsr__bind_room(bind, columns, sizeof(bool)),
                        tsr__bind_room(bind, columns, sizeof(bool)) };
  search s = { .bind = bind,
               .pushdown = pushdown,
               .at = tsr__bind_room(bind, columns, sizeof *s.at) };
  if (!pushdown || !used.filters || !used.others || !s.at) return NULL;
  pushdown->whole = tsr__bind_room(bind, columns, sizeof *pushdown->whole);
  pushdown->beside = tsr__bind_room(bind, columns, sizeof *pushdown->beside);
  if (!pushdown->whole || !pushdown->beside) return NULL;
  bool all = true;
  for (int i = 0; i < columns; i++) s.at[i] = i;
  for (const tsr__visit *v = only_user(bind, file); v; v = only_user(bind, v)) {
    int before = pushdown->count;
    if (v->df->kind == TSR__FRAME_FILTER && !v->made) {
      all = take_conditions(&s, v->df->formula.item[0].expr) && all;
      /* As long as every condition so far is judged by the reader, its count is the filter's
       * count. */
      pushdown->all = all ? v->df : NULL;
    }
    if (!step_over(&s, v, &used)) break;
    /* Whole are those used up to the last filter that gave predicates; what is used behind it
     * never sees a dropped row. */
    for (int i = 0; i < columns && pushdown->count > before; i++) {
      pushdown->beside[i] = used.others[i];
      pushdown->whole[i] = used.filters[i] || used.others[i];
    }
  }
  return bind->error.status ? NULL : pushdown;
}

/* Whether a file's columns let its reader judge what is pushed down, or it did so before and said
 * which rows passed. */
static bool can_tell(const tsr__source *source, const tsr__pushdown *pushdown)
{
  const tsr__pushed *pushed = source->pushed;
  if (pushed)
    return pushed->mask && pushed->count == pushdown->count &&
           tsr__pushdown_holds(pushed, pushdown);
  for (int k = 0; k < pushdown->count; k++)
    if (source->col[pushdown->predicate[k].target].values) return false;
  return true;
}

bool tsr__pushdown_tells(tsr__bind *bind, tsr__visit *file)
{
  const tsr__pushdown *pushdown = file->pushdown;
  const tsr__source *source = file->df->source;
  bool texts = false;
  for (int k = 0; k < pushdown->count; k++)
    texts |= file->df->schema.field[pushdown->predicate[k].target].type == TSR_COL_TEXT;
  if (!pushdown->all || !texts || file->front >= 0) return false;
  if (!can_tell(source, pushdown)) return false;
  for (tsr__visit *v = only_user(bind, file); v; v = only_user(bind, v)) {
    if (v->df->kind == TSR__FRAME_FILTER) v->from = file;
    if (v->df == pushdown->all) break;
  }
  return true;
}

/* Where few rows pass, all are read in the end: beyond REACH_MOST that is begun at once. */
enum { REACH = 1 << 14, REACH_MOST = 1 << 20 };

int64_t tsr__front_of(const tsr__bind *bind, tsr__visit *file)
{
  int64_t end;
  bool filtered = false;
  file->head = NULL;
  if (!file->df->source->reader.ops->front) return -1;
  for (const tsr__visit *v = only_user(bind, file); v && !v->made; v = only_user(bind, v)) {
    if (v->df->kind == TSR__FRAME_HEAD) {
      if (__builtin_add_overflow(v->df->first, v->df->count, &end)) return -1;
      /* Nothing left out so far: the first rows of the file are the first rows. */
      if (!filtered) return end;
      if (file->reach < end) file->reach = end;
      if (file->reach < REACH) file->reach = REACH;
      file->head = v;
      file->wanted = end;
      return file->reach > REACH_MOST ? -1 : file->reach;
    }
    bool filter = v->df->kind == TSR__FRAME_FILTER;
    if (!filter && !goes_on(v)) return -1;
    filtered = filtered || filter;
  }
  return -1;
}

bool tsr__pushdown_holds(const tsr__pushed *pushed, const tsr__pushdown *pushdown)
{
  for (int k = 0; k < pushed->count; k++) {
    bool found = false;
    for (int i = 0; i < pushdown->count && !found; i++)
      found = pushdown->key[i].length == pushed->key[k].length &&
              memcmp(pushdown->key[i].at, pushed->key[k].at, pushdown->key[i].length) == 0;
    if (!found) return false;
  }
  return true;
}
