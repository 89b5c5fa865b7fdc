/* Typed trees to array nodes, with the frame's own semantics.
 *
 *   a column is values + validity        x + y   values: add(x, y)   validity: and(vx, vy)
 *
 * A null's value is anything; whatever could fail on it (an overflow, an index out of a table) is
 * masked by validity. Bool expressions are lowered to "known to be true" and "known to be false",
 * which makes Kleene's logic plain and/or: known(a and b) = known(a) and known(b).
 *
 * Invariant: no node made here leaves the rows where they are, so all of it fuses.
 *
 *   low->in        the columns that it reads, as arrays          in->mask    rows that count
 *   low->guard     rows of the branch that is being lowered      NULL        all of them
 *   low->overflow  rows where something must not have happened, of the item at hand
 *
 * Nodes belong to the terminal's scope and go with it; errors are recorded there, so that nothing
 * here returns a status: what is made of an inert array is inert. */
#include "frame/lower/functions.h"

/* ---- nodes ------------------------------------------------------------------------------- */

/* Numbers are their dtype. Dates are days in i32, texts codes in i32, time stamps microseconds in
 * i64. */
tsr_dtype tsr__dtype_of_type(int type)
{
  if (tsr__dtype_known((tsr_dtype)type)) return (tsr_dtype)type;
  return type == TSR_COL_DATE || type == TSR_COL_TEXT ? TSR_I32 : TSR_I64;
}

tsr_array *tsr__op1(tsr__lower *low, tsr__op op, tsr_array *a)
{
  return tsr__make(low->scope, op, TSR__IN(a), &(tsr__ask){ 0 }, low->site);
}

tsr_array *tsr__op2(tsr__lower *low, tsr__op op, tsr_array *a, tsr_array *b)
{
  return tsr__make(low->scope, op, TSR__IN(a, b), &(tsr__ask){ 0 }, low->site);
}

tsr_array *tsr__const_i(tsr__lower *low, tsr_dtype dtype, int64_t value)
{
  return tsr__make_const(low->scope, dtype, (tsr__num){ .i = value }, low->site);
}

tsr_array *tsr__const_f(tsr__lower *low, tsr_dtype dtype, double value)
{
  return tsr__make_const(low->scope, dtype, (tsr__num){ .f = value }, low->site);
}

/* Whether an array is a number of the formula. Such a number is known while lowering, so what
 * depends on it can be left out of the program. */
static bool is_number(const tsr_array *a)
{
  bool number = tsr__is_leaf(a->op) && a->number_count > 0;
  return !a->inert && number && !a->value;
}

tsr_array *tsr__cast(tsr__lower *low, tsr_array *a, tsr_dtype dtype)
{
  if (a->inert || a->dtype == (uint8_t)dtype) return a;
  return tsr__make(low->scope, TSR__OP_CAST, TSR__IN(a), &(tsr__ask){ .dtype = dtype }, low->site);
}

tsr_array *tsr__where(tsr__lower *low, tsr_array *c, tsr_array *a, tsr_array *b)
{
  return tsr__make(low->scope, TSR__OP_WHERE, TSR__IN(c, a, b), &(tsr__ask){ 0 }, low->site);
}

static tsr_array * not(tsr__lower * low, tsr_array *a)
{
  return tsr__op1(low, TSR__OP_NOT, a);
}

tsr_array *tsr__both(tsr__lower *low, tsr_array *a, tsr_array *b)
{
  /* NULL is "no nulls": every row is valid, and nothing need be computed for it. */
  if (!a || !b) return a ? a : b;
  return a == b ? a : tsr__op2(low, TSR__OP_AND, a, b);
}

/* A bool array of all rows, true: it gives what is combined with it their layout. */
static tsr_array *all_rows(tsr__lower *low)
{
  /* Rows that lie ragged have a leaf of bools that are all true, kept with them for this. */
  if (low->in->ragged) return low->in->ragged->source->whole;
  tsr__ask ask = { .dtype = TSR_BOOL,
                   .shape = { 1, { low->in->rows } },
                   .sharding = low->in->sharding };
  tsr_array *yes = tsr__const_i(low, TSR_BOOL, 1);
  return tsr__make(low->scope, TSR__OP_FULL, TSR__IN(yes), &ask, low->site);
}

/* A mask or an aggregate's argument must be as long as the rows: one number among them would
 * count once. */
tsr_array *tsr__spread(tsr__lower *low, tsr_array *a)
{
  if (a->inert || a->shape.rank > 0 || low->in->scalar) return a;
  tsr__ask ask = { .dtype = (tsr_dtype)a->dtype,
                   .shape = { 1, { low->in->rows } },
                   .sharding = low->in->sharding };
  if (is_number(a) && !low->in->ragged)
    return tsr__make(low->scope, TSR__OP_FULL, TSR__IN(a), &ask, low->site);
  /* FULL takes numbers only where they are known; a computed scalar broadcasts. */
  tsr_array *zero = tsr__dtype_is_real((tsr_dtype)a->dtype)
                        ? tsr__const_f(low, (tsr_dtype)a->dtype, 0)
                        : tsr__const_i(low, (tsr_dtype)a->dtype, 0);
  if (a->dtype == TSR_BOOL) return tsr__op2(low, TSR__OP_AND, a, all_rows(low));
  return tsr__where(low, all_rows(low), a, zero);
}

/* The numbers of rows that lie ragged, kept with them unless the frame is a source. A source may be
 * read by many threads, so nothing is written to it: its numbers are kept with the terminal. The
 * index of a frame's own rows outlives the terminal: it is of the frame's scope, as its rows
 * are. */
static tsr_array *rows_index(tsr_frame *df, tsr__lower *low)
{
  tsr__source *source = df->source;
  tsr__bind *bind = low->bind;
  if (source->index) return source->index;
  if (bind->index && bind->indexed == source) return bind->index;
  /* The numbers are written by the devices: no row of them passes the host. */
  tsr__value *value = tsr__value_like(source->whole->value, TSR_I64, &low->bind->error);
  if (!value) {
    tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s", low->bind->error.text);
    return tsr__make_inert(low->scope, low->site);
  }
  bool shared = tsr__frame_is_source(df);
  tsr_array *index = tsr__value_leaf(shared ? bind->scope : df->node.scope, value, df->node.site);
  if (index->inert) return index;
  if (!shared) return source->index = index;
  bind->indexed = source;
  return bind->index = index;
}

tsr_array *tsr__row_numbers(tsr__lower *low)
{
  if (low->in->ragged) return rows_index(low->in->ragged, low);
  tsr__ask ask = { .dtype = TSR_I64,
                   .shape = { 1, { low->in->rows } },
                   .sharding = low->in->sharding };
  return tsr__make(low->scope, TSR__OP_IOTA, TSR__IN_NONE, &ask, low->site);
}

/* ---- conversion -------------------------------------------------------------------------- */

/* A bare null has the value 0 of the type, which nobody sees, and the validity that it came
 * with. */
tsr__col tsr__convert(tsr__lower *low, tsr__col column, int type)
{
  column = tsr__settle(low, column);
  tsr_dtype dtype = tsr__dtype_of_type(type);
  if (column.type == TSR__COL_NULL) {
    bool real = tsr__dtype_is_real((tsr_dtype)dtype);
    column.values = real ? tsr__const_f(low, dtype, 0) : tsr__const_i(low, dtype, 0);
  } else if (column.type == TSR_COL_DATE && type == TSR_COL_TIME) {
    tsr_array *days = tsr__cast(low, column.values, TSR_I64);
    tsr_array *day = tsr__const_i(low, TSR_I64, INT64_C(86400000000));
    /* The product wraps where a day is too far away; the mark beside it says so. */
    column.values = tsr__op2(low, TSR__OP_MUL, days, day);
    tsr__note_overflow(low, tsr__op2(low, TSR__OP_MULOVF, days, day), column.valid);
  } else if (column.type != type) {
    column.values = tsr__cast(low, column.values, dtype);
  }
  column.type = (uint8_t)type;
  return column;
}

/* `count` and `real` wait here because most results go to the host as they are, which compares
 * for itself: only what is computed with further needs them as nodes. */
tsr__col tsr__settle(tsr__lower *low, tsr__col column)
{
  if (column.count) {
    tsr_array *enough =
        tsr__op2(low, TSR__OP_GE, column.count, tsr__const_i(low, TSR_I64, column.least));
    column.valid = tsr__both(low, column.valid, enough);
  }
  if (column.real) {
    tsr_array *some = tsr__op2(low, TSR__OP_GT, column.real, tsr__const_i(low, TSR_I64, 0));
    tsr_array *nan = tsr__const_f(low, (tsr_dtype)column.values->dtype, (double)__builtin_nanf(""));
    column.values = tsr__where(low, some, column.values, nan);
  }
  /* The smallest of no text is no code of the dictionary. */
  if (column.count && column.type == TSR_COL_TEXT)
    column.values = tsr__where(low, column.valid, column.values, tsr__const_i(low, TSR_I32, 0));
  column.count = column.real = NULL;
  return column;
}

/* A literal as a constant of a type. Integers of a text are within i64 by their check, so a literal
 * fits the type that it met. */
static tsr__col literal(tsr__lower *low, const tsr__expr *expr, int type)
{
  tsr__col out = { .type = (uint8_t)type };
  tsr_dtype dtype = tsr__dtype_of_type(type);
  bool whole = expr->kind != TSR__E_FLOAT;
  if (expr->type == TSR_COL_DATE && type == TSR_COL_TIME)
    out.values = tsr__const_i(low, dtype, expr->i * INT64_C(86400000000));
  else if (tsr__dtype_is_real((tsr_dtype)dtype))
    out.values = tsr__const_f(low, dtype, whole ? (double)expr->i : expr->f);
  else out.values = tsr__const_i(low, dtype, expr->i);
  return out;
}

/* A literal becomes a constant of the wanted type at once, so that 0.1 in f32 is rounded once and
 * x > 1 casts nothing. */
tsr__col tsr__lower_as(tsr__lower *low, const tsr__expr *expr, int type)
{
  bool number = expr->kind == TSR__E_INT || expr->kind == TSR__E_FLOAT || expr->kind == TSR__E_BOOL;
  bool temporal = expr->kind == TSR__E_TEXT && tsr__is_temporal(expr->type);
  if (type == TSR__COL_NULL) type = TSR_COL_I64;
  if (number || temporal) return literal(low, expr, type);
  return tsr__convert(low, tsr__lower_expr(low, expr), type);
}

/* ---- arithmetic -------------------------------------------------------------------------- */

static const uint16_t integer_ops[] = { TSR__OP_ADD, TSR__OP_SUB, TSR__OP_MUL };

/* Of types that are computed in a wider one, which holds every result: those that change when
 * they are wrapped leave the range. i8 * i8 is exact in i32; cast back and forth it is itself, or
 * it left its range. */
static tsr__col narrow_integer(tsr__lower *low, int op, tsr__col a, tsr__col b)
{
  tsr_dtype dtype = tsr__dtype_of_type(a.type);
  tsr_dtype wide = (tsr_dtype)tsr__dtype_info_of(dtype)->computes;
  tsr__col out = { .type = a.type, .valid = tsr__both(low, a.valid, b.valid) };
  tsr_array *exact = tsr__op2(low, (tsr__op)integer_ops[op], tsr__cast(low, a.values, wide),
                              tsr__cast(low, b.values, wide));
  out.values = tsr__cast(low, exact, dtype);
  tsr_array *back = tsr__cast(low, out.values, wide);
  tsr__note_overflow(low, tsr__op2(low, TSR__OP_NE, exact, back), out.valid);
  return out;
}

tsr__col tsr__lower_integer(tsr__lower *low, int op, tsr__col a, tsr__col b)
{
  static const uint16_t leaves[] = { TSR__OP_ADDOVF, TSR__OP_SUBOVF, TSR__OP_MULOVF };
  tsr__col out = { .type = a.type, .valid = tsr__both(low, a.valid, b.valid) };
  /* Types below 32 bits are computed in a wider one. */
  if (tsr_dtype_size(tsr__dtype_of_type(a.type)) < 4) return narrow_integer(low, op, a, b);
  out.values = tsr__op2(low, (tsr__op)integer_ops[op], a.values, b.values);
  tsr__note_overflow(low, tsr__op2(low, (tsr__op)leaves[op], a.values, b.values), out.valid);
  return out;
}

/* // and % of integers: null where the divisor is 0; the least one divided by -1 does not fit. A
 * divisor that is a number of the formula tells at once what must be looked at: of x // 2 nothing.
 * 0 stays a divisor in the values, where the operation gives something; validity hides it. */
static tsr__col divide(tsr__lower *low, int op, tsr__col a, tsr__col b)
{
  tsr_dtype dtype = tsr__dtype_of_type(a.type);
  tsr__col out = { .type = a.type, .valid = tsr__both(low, a.valid, b.valid) };
  tsr_array *zero = tsr__const_i(low, dtype, 0);
  bool known = is_number(b.values);
  if (!known || b.values->numbers[0].i == 0)
    out.valid = tsr__both(low, out.valid, tsr__op2(low, TSR__OP_NE, b.values, zero));
  out.values = tsr__op2(low, op == TSR__B_MOD ? TSR__OP_MOD : TSR__OP_FLOORDIV, a.values, b.values);
  int64_t least = tsr__dtype_least(dtype);
  if (op == TSR__B_MOD || !least || (known && b.values->numbers[0].i != -1)) return out;
  tsr_array *lowest = tsr__op2(low, TSR__OP_EQ, a.values, tsr__const_i(low, dtype, least));
  tsr_array *minus = tsr__op2(low, TSR__OP_EQ, b.values, tsr__const_i(low, dtype, -1));
  tsr__note_overflow(low, tsr__both(low, lowest, minus), out.valid);
  return out;
}

/* base ** exponent by squaring, every product checked. `started`: the first factor is taken, not
 * multiplied by 1, which would be one more check. */
static tsr__col whole_power(tsr__lower *low, tsr__col base, int64_t exponent)
{
  tsr__col out = { .type = base.type };
  bool started = false;
  out.values = tsr__const_i(low, tsr__dtype_of_type(base.type), 1);
  out.valid = base.valid;
  /* Exponents are literals below 64: at most six squarings. */
  while (exponent) {
    if (exponent & 1) out = started ? tsr__lower_integer(low, TSR__B_MUL, out, base) : base;
    started = started || (exponent & 1);
    exponent >>= 1;
    if (exponent) base = tsr__lower_integer(low, TSR__B_MUL, base, base);
  }
  return out;
}

tsr__col tsr__lower_pair(tsr__lower *low, int op, tsr__col a, tsr__col b)
{
  static const uint16_t ops[] = { TSR__OP_ADD,      TSR__OP_SUB, TSR__OP_MUL, TSR__OP_DIV,
                                  TSR__OP_FLOORDIV, TSR__OP_MOD, TSR__OP_POW };
  if (tsr__is_integer(a.type) && op <= TSR__B_MUL) return tsr__lower_integer(low, op, a, b);
  if (tsr__is_integer(a.type) && (op == TSR__B_FLOORDIV || op == TSR__B_MOD))
    return divide(low, op, a, b);
  return (tsr__col){ .type = a.type,
                     .valid = tsr__both(low, a.valid, b.valid),
                     .values = tsr__op2(low, (tsr__op)ops[op], a.values, b.values) };
}

/* A literal 1 that the text holds: one given for `?` may be another the next time. The plan must
 * not depend on what a `?` holds: values of parameters are no part of its key. */
static bool is_one(const tsr__expr *expr)
{
  if (expr->param) return false;
  return expr->kind == TSR__E_INT ? expr->i == 1 : expr->kind == TSR__E_FLOAT && expr->f == 1;
}

/* x * 1, 1 * x and x / 1 are x in the type of the result, -0 and NaN included: a common way to ask
 * for that type. */
static tsr__col arithmetic(tsr__lower *low, const tsr__expr *expr)
{
  if (tsr__is_temporal(expr->arg[0]->type) || tsr__is_temporal(expr->arg[1]->type))
    return tsr__lower_moved(low, expr);
  const tsr__expr *b = expr->arg[1];
  tsr__col left = tsr__lower_as(low, expr->arg[0], expr->type);
  if ((expr->op == TSR__B_MUL || expr->op == TSR__B_DIV) && is_one(b)) return left;
  if (expr->op == TSR__B_MUL && is_one(expr->arg[0])) return tsr__lower_as(low, b, expr->type);
  if (expr->op == TSR__B_POW && tsr__is_integer(expr->type)) return whole_power(low, left, b->i);
  return tsr__lower_pair(low, expr->op, left, tsr__lower_as(low, b, expr->type));
}

/* Signed integers beside u64: a negative one is below all, others compare as u64. Their common
 * type is f64, in which 2^53 and 2^53 + 1 are equal: so they are compared as integers. */
static tsr__col compare_natural(tsr__lower *low, int op, const tsr__expr *x, const tsr__expr *y)
{
  static const uint16_t ops[] = { TSR__OP_EQ, TSR__OP_NE, TSR__OP_LT,
                                  TSR__OP_LE, TSR__OP_GT, TSR__OP_GE };
  static const uint8_t turned[] = {
    TSR__B_EQ, TSR__B_NE, TSR__B_GT, TSR__B_GE, TSR__B_LT, TSR__B_LE
  };
  if (x->type == TSR_COL_U64) return compare_natural(low, turned[op - TSR__B_EQ], y, x);
  tsr__col a = tsr__lower_as(low, x, TSR_COL_I64), b = tsr__lower_as(low, y, TSR_COL_U64);
  tsr_array *minus = tsr__op2(low, TSR__OP_LT, a.values, tsr__const_i(low, TSR_I64, 0));
  tsr_array *as_is =
      tsr__op2(low, (tsr__op)ops[op - TSR__B_EQ], tsr__cast(low, a.values, TSR_U64), b.values);
  bool below = op == TSR__B_NE || op == TSR__B_LT || op == TSR__B_LE;
  return (tsr__col){ .type = TSR_COL_BOOL,
                     .valid = tsr__both(low, a.valid, b.valid),
                     .values = below ? tsr__op2(low, TSR__OP_OR, minus, as_is)
                                     : tsr__op2(low, TSR__OP_AND, not(low, minus), as_is) };
}

static tsr__col compare(tsr__lower *low, const tsr__expr *expr)
{
  static const uint16_t ops[] = { TSR__OP_EQ, TSR__OP_NE, TSR__OP_LT,
                                  TSR__OP_LE, TSR__OP_GT, TSR__OP_GE };
  const tsr__expr *a = expr->arg[0], *b = expr->arg[1];
  if (a->type == TSR_COL_TEXT && b->type == TSR_COL_TEXT) return tsr__text_compare(low, expr);
  int type = tsr__meet(a, b);
  if (tsr__is_float(type) && tsr__is_integer(a->type) && tsr__is_integer(b->type))
    return compare_natural(low, expr->op, a, b);
  tsr__col left = tsr__lower_as(low, a, type), right = tsr__lower_as(low, b, type);
  return (tsr__col){ .type = TSR_COL_BOOL,
                     .valid = tsr__both(low, left.valid, right.valid),
                     .values = tsr__op2(low, (tsr__op)ops[expr->op - TSR__B_EQ], left.values,
                                        right.values) };
}

/* 0 - x is checked as any subtraction: the least integer has no opposite. */
static tsr__col negate(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col a = tsr__lower_as(low, expr->arg[0], expr->type);
  if (tsr__is_integer(a.type)) {
    tsr__col zero = { .type = a.type };
    zero.values = tsr__const_i(low, tsr__dtype_of_type(a.type), 0);
    return tsr__lower_integer(low, TSR__B_SUB, zero, a);
  }
  a.values = tsr__op1(low, TSR__OP_NEG, a.values);
  return a;
}

/* ---- logic ------------------------------------------------------------------------------- */

/* Whether a bool expression can be null for the columns at hand. Of and, or and not: what cannot be
 * null in any part cannot be null as a whole, and needs no second half. It lowers the leaves to
 * know, and the memo has them when they are asked for. */
static bool nullable(tsr__lower *low, const tsr__expr *expr)
{
  if (expr->kind == TSR__E_NOT || expr->kind == TSR__E_AND || expr->kind == TSR__E_OR) {
    for (int i = 0; i < expr->count; i++)
      if (nullable(low, expr->arg[i])) return true;
    return false;
  }
  tsr__col column = tsr__lower_expr(low, expr);
  return column.valid || column.count;
}

/*    known(not x, true)  = known(x, false)
 *    known(x and y, true) = both known true        known(x and y, false) = one of them known false
 *    of a column: values and valid, or not values and valid */
tsr_array *tsr__lower_known(tsr__lower *low, const tsr__expr *expr, bool truth)
{
  if (expr->kind == TSR__E_NOT) return tsr__lower_known(low, expr->arg[0], !truth);
  if (expr->kind == TSR__E_AND || expr->kind == TSR__E_OR) {
    bool all = (expr->kind == TSR__E_AND) == truth;
    tsr_array *a = tsr__lower_known(low, expr->arg[0], truth);
    tsr_array *b = tsr__lower_known(low, expr->arg[1], truth);
    return tsr__op2(low, all ? TSR__OP_AND : TSR__OP_OR, a, b);
  }
  tsr__col column = tsr__lower_as(low, expr, TSR_COL_BOOL);
  return tsr__both(low, truth ? column.values : not(low, column.values), column.valid);
}

/*   a      b       known true   known false     value   valid
 *   true   null    -            -               false   false
 *   false  null    -            yes             false   true
 *   true   true    yes          -               true    true        of `a and b` */
static tsr__col logic(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col out = { .type = TSR_COL_BOOL };
  /* Valid is where it is known to be true or known to be false; the value elsewhere is false, and
   * does not matter. */
  out.values = tsr__lower_known(low, expr, true);
  if (nullable(low, expr))
    out.valid = tsr__op2(low, TSR__OP_OR, out.values, tsr__lower_known(low, expr, false));
  return out;
}

static tsr__col is_null(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col a = tsr__settle(low, tsr__lower_expr(low, expr->arg[0]));
  tsr__col out = { .type = TSR_COL_BOOL };
  if (!a.valid) out.values = tsr__const_i(low, TSR_BOOL, expr->negated);
  else out.values = expr->negated ? a.valid : not(low, a.valid);
  return out;
}

/* The type is found for each literal: of 1 and 2.5 in one list the first is compared as an
 * integer. */
static tsr__col in_list(tsr__lower *low, const tsr__expr *expr)
{
  const tsr__expr *a = expr->arg[0];
  tsr__col out = { .type = TSR_COL_BOOL };
  if (a->type == TSR_COL_TEXT) return tsr__text_in(low, expr);
  tsr__col left = tsr__settle(low, tsr__lower_expr(low, a));
  for (int i = 1; i < expr->count; i++) {
    int type = tsr__meet(a, expr->arg[i]);
    tsr__col one = tsr__lower_as(low, expr->arg[i], type);
    tsr__col same = tsr__convert(low, left, type);
    tsr_array *hit = tsr__op2(low, TSR__OP_EQ, same.values, one.values);
    out.valid = tsr__both(low, same.valid, one.valid);
    out.values = out.values ? tsr__op2(low, TSR__OP_OR, out.values, hit) : hit;
  }
  if (expr->negated) out.values = not(low, out.values);
  return out;
}

/* ---- the walk ------------------------------------------------------------------------------ */

/* What was lowered serves all who ask for the same place in the tree: operands of two comparisons,
 * and logic, which asks for its terms as true and as false. Under another guard the checks are
 * others. */
struct tsr__memo {
  const tsr__expr *expr;
  const tsr_array *guard;
  tsr__col col;
};

static uint64_t hash_of(const tsr__lower *low, const tsr__expr *expr)
{
  const void *key[2] = { expr, low->guard };
  return tsr__hash(key, sizeof key, 0);
}

static const tsr__col *remembered(const tsr__lower *low, const tsr__expr *expr)
{
  int32_t at;
  TSR_FOR_HASHED (&low->memos, hash_of(low, expr), at) {
    const struct tsr__memo *memo = &low->memo[at];
    if (memo->expr == expr && memo->guard == low->guard) return &memo->col;
  }
  return NULL;
}

/* Keeps a column; without memory, which the scope records, it is lowered again. The old list stays
 * in the arena of the terminal, as all that is made here. */
static void remember(tsr__lower *low, const tsr__expr *expr, tsr__col col)
{
  int count = low->memos.count;
  if (count == low->memo_room) {
    int room = low->memo_room ? 2 * low->memo_room : 16;
    struct tsr__memo *wider = tsr__lower_room(low, room, sizeof *wider);
    if (!wider) return;
    if (count) memcpy(wider, low->memo, (size_t)count * sizeof *wider);
    low->memo = wider;
    low->memo_room = room;
  }
  low->memos.arena = &low->scope->arena;
  low->memo[count] = (struct tsr__memo){ expr, low->guard, col };
  if (!tsr__table_add(&low->memos, hash_of(low, expr), count))
    tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
}

/* What holds nothing may be taken for something of another type than it has. */
static tsr__col taken(tsr__lower *low, const tsr__expr *expr, tsr__col out)
{
  return expr->vacant && expr->type != out.type ? tsr__all_null(low, expr->type) : out;
}

static tsr__col lower(tsr__lower *low, const tsr__expr *expr)
{
  switch (expr->kind) {
  case TSR__E_COLUMN: return taken(low, expr, low->in->col[expr->column]);
  case TSR__E_NULL: return tsr__all_null(low, TSR__COL_NULL);
  case TSR__E_TEXT:
    if (expr->type == TSR_COL_TEXT) return tsr__text_literal(low, expr);
    return literal(low, expr, expr->type);
  case TSR__E_NEG: return negate(low, expr);
  case TSR__E_BINARY: return expr->op >= TSR__B_EQ ? compare(low, expr) : arithmetic(low, expr);
  case TSR__E_NOT:
  case TSR__E_AND:
  case TSR__E_OR: return logic(low, expr);
  case TSR__E_ISNULL: return is_null(low, expr);
  case TSR__E_IN: return in_list(low, expr);
  case TSR__E_CALL: return tsr__lower_call(low, expr);
  case TSR__E_AGG: return taken(low, expr, tsr__lower_agg(low, expr));
  default: return literal(low, expr, expr->type);
  }
}

tsr__col tsr__lower_expr(tsr__lower *low, const tsr__expr *expr)
{
  /* Leaves cost nothing to lower again. */
  if (!expr->count) return lower(low, expr);
  const tsr__col *found = remembered(low, expr);
  if (found) return *found;
  tsr__col out = lower(low, expr);
  remember(low, expr, out);
  return out;
}

/* ---- long loops ------------------------------------------------------------------------------ */

enum { ASK_AFTER = 1 << 12 }; /* steps between two questions */

void tsr__lower_cancelled(tsr__lower *low)
{
  tsr__cancelled(&low->bind->error, low->bind->what);
  tsr__fail_error(low->scope, low->site, &low->bind->error);
}

bool tsr__lower_stops(tsr__lower *low, int64_t i)
{
  if (i >= 0 && i % ASK_AFTER != ASK_AFTER - 1) return false;
  /* An error before ends the loop too: what it makes is not read. */
  if (tsr_scope_status(low->scope)) return true;
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  if (!tsr__progress_stops(&progress, 0)) return false;
  tsr__lower_cancelled(low);
  return true;
}

/* ---- rows that lie ragged -------------------------------------------------------------------- */

tsr_array *tsr__value_leaf(tsr_scope *scope, tsr__value *value, const char *site)
{
  return tsr__make_leaf(scope, (tsr_dtype)value->dtype, &value->shape, &value->sharding, value,
                        site);
}

/* A value of the rows of another: bools that are all true, or row numbers. The caller owns it, or
 * gives it to a leaf. */
tsr__value *tsr__value_like(const tsr__value *like, tsr_dtype dtype, tsr__error *error)
{
  const tsr__device_ops *ops = tsr__devices_of(like->rt)->ops;
  tsr__layout layout = { dtype, &like->shape, &like->sharding, like->rows };
  tsr__value *value = tsr__value_new(like->rt, &layout, error);
  for (int p = 0; value && p < value->part_count; p++) {
    tsr_box box;
    tsr__value_box(value, p, &box);
    if (!value->parts[p]) continue;
    if (dtype == TSR_BOOL) ops->fill(value->parts[p], 0xff);
    else ops->number(value->parts[p], box.start[0], box.size[0]);
  }
  return value;
}
