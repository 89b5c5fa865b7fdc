/* Functions of numbers and choices as array nodes.
 *
 *   least(a, b)     values   a where a is there and b is not, or a < b; else b (nulls skipped)
 *   round(x, 2)     rint(x * 100) / 100                        of numbers that have such digits
 *
 * Invariant: as in lower.c, all of it fuses, and what a null's value is does not matter. */
#include "frame/lower/functions.h"

static tsr_array *negated(tsr__lower *low, tsr_array *a)
{
  return tsr__op1(low, TSR__OP_NOT, a);
}

static tsr_array *number(tsr__lower *low, int type, double value)
{
  tsr_dtype dtype = tsr__dtype_of_type(type);
  return tsr__is_float(type) ? tsr__const_f(low, dtype, value)
                             : tsr__const_i(low, dtype, (int64_t)value);
}

/* ---- choices ----------------------------------------------------------------------------- */

/* `a` where `c`, else `b`; validity likewise.
 *
 *   c ? a : b    values   where(c, a, b)         valid   (c and a.valid) or (not c and b.valid) */
static tsr__col choose(tsr__lower *low, tsr_array *c, tsr__col a, tsr__col b)
{
  tsr__col out = { .type = a.type, .dict = a.dict };
  /* Bools are bits, which `where` does not choose: or of both sides, each masked. */
  tsr_array *other = a.valid || b.valid || a.type == TSR_COL_BOOL ? negated(low, c) : NULL;
  if (a.type == TSR_COL_BOOL)
    out.values =
        tsr__op2(low, TSR__OP_OR, tsr__both(low, c, a.values), tsr__both(low, other, b.values));
  else out.values = tsr__where(low, c, a.values, b.values);
  if (a.valid || b.valid)
    out.valid =
        tsr__op2(low, TSR__OP_OR, tsr__both(low, c, a.valid), tsr__both(low, other, b.valid));
  return out;
}

/* Lowers a branch that counts only where `guard` holds. Values of the other rows are computed all
 * the same, as of a mask, and chosen by nobody. */
static tsr__col branch(tsr__lower *low, const tsr__expr *expr, int type, tsr_array *guard)
{
  /* An overflow in a branch that a row does not take is none: checks are masked by the guard. */
  tsr_array *outer = low->guard;
  low->guard = tsr__both(low, outer, guard);
  tsr__col out = tsr__lower_as(low, expr, type);
  low->guard = outer;
  return out;
}

static tsr__col if_else(tsr__lower *low, const tsr__expr *expr)
{
  tsr_array *c = tsr__lower_known(low, expr->arg[0], true);
  tsr__col a = branch(low, expr->arg[1], expr->type, c);
  tsr__col b = branch(low, expr->arg[2], expr->type, negated(low, c));
  if (a.type == TSR_COL_TEXT && !tsr__text_pool(low, &a, &b)) return a;
  return choose(low, c, a, b);
}

static tsr__col coalesce(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col out = tsr__lower_as(low, expr->arg[0], expr->type);
  /* The first column without nulls ends it: nothing behind it can count. */
  for (int i = 1; i < expr->count && out.valid; i++) {
    tsr__col next = branch(low, expr->arg[i], expr->type, negated(low, out.valid));
    if (out.type == TSR_COL_TEXT && !tsr__text_pool(low, &out, &next)) return out;
    tsr_array *have = out.valid;
    /* Where it is chosen it is no null, so it counts as a column without any. */
    tsr__col first = out;
    first.valid = NULL;
    out = choose(low, have, first, next);
  }
  return out;
}

/* Whether `a` comes before `b`: NaN after all numbers. */
static tsr_array *before(tsr__lower *low, tsr__col a, tsr__col b)
{
  if (a.type == TSR_COL_BOOL) return tsr__op2(low, TSR__OP_AND, negated(low, a.values), b.values);
  tsr_array *less = tsr__op2(low, TSR__OP_LT, a.values, b.values);
  if (!tsr__is_float(a.type)) return less;
  tsr_array *nan = tsr__op2(low, TSR__OP_AND, tsr__op1(low, TSR__OP_ISNAN, b.values),
                            negated(low, tsr__op1(low, TSR__OP_ISNAN, a.values)));
  return tsr__op2(low, TSR__OP_OR, less, nan);
}

/* least and greatest: of the values that are not null. */
static tsr__col extreme(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col out = tsr__lower_as(low, expr->arg[0], expr->type);
  for (int i = 1; i < expr->count; i++) {
    tsr__col next = tsr__lower_as(low, expr->arg[i], expr->type);
    bool ordered = out.dict != next.dict; /* unified below; else codes go by appearance */
    if (out.type == TSR_COL_TEXT && !tsr__text_unify(low, &out, &next)) return out;
    if (out.type == TSR_COL_TEXT && !ordered) {
      tsr__text_rank(low, &out);
      tsr__text_rank(low, &next);
      next.dict = out.dict;
    }
    bool least = expr->op == TSR__F_LEAST;
    /* Strictly before: of equal values the earlier operand stays. */
    tsr_array *other = least ? before(low, next, out) : before(low, out, next);
    tsr__col a = out, b = next;
    if (a.valid && b.valid) other = tsr__op2(low, TSR__OP_AND, other, b.valid);
    /* Where `a` is null the other one counts, null or not. */
    if (a.valid) other = tsr__op2(low, TSR__OP_OR, other, negated(low, a.valid));
    if (!a.valid && b.valid) other = tsr__op2(low, TSR__OP_AND, other, b.valid);
    tsr_array *some = a.valid && b.valid ? tsr__op2(low, TSR__OP_OR, a.valid, b.valid) : NULL;
    a.valid = b.valid = NULL;
    out = choose(low, other, b, a);
    out.valid = some;
  }
  return out;
}

/* ---- numbers ----------------------------------------------------------------------------- */

static tsr__col absolute(tsr__lower *low, tsr__col a)
{
  if (tsr__is_integer(a.type)) {
    tsr_dtype dtype = tsr__dtype_of_type(a.type);
    if (!tsr__dtype_least(dtype)) return a; /* unsigned */
    /* The least number has no positive counterpart. */
    tsr_array *least = tsr__const_i(low, dtype, tsr__dtype_least(dtype));
    tsr__note_overflow(low, tsr__op2(low, TSR__OP_EQ, a.values, least), a.valid);
  }
  a.values = tsr__op1(low, TSR__OP_ABS, a.values);
  return a;
}

static tsr__col is_nan(tsr__lower *low, const tsr__expr *arg)
{
  tsr__col a = tsr__settle(low, tsr__lower_expr(low, arg));
  bool real = tsr__is_float(a.type);
  return (tsr__col){ .type = TSR_COL_BOOL,
                     .valid = a.valid,
                     .values = real ? tsr__op1(low, TSR__OP_ISNAN, a.values)
                                    : tsr__const_i(low, TSR_BOOL, 0) };
}

/* 1, -1, or the zero or NaN itself. */
static tsr__col sign(tsr__lower *low, tsr__col a)
{
  tsr_array *zero = number(low, a.type, 0);
  tsr_array *rest = a.values;
  /* Unsigned numbers are not below 0. */
  if (tsr__is_float(a.type) || tsr__dtype_least(tsr__dtype_of_type(a.type)))
    rest = tsr__where(low, tsr__op2(low, TSR__OP_LT, a.values, zero), number(low, a.type, -1),
                      a.values);
  a.values =
      tsr__where(low, tsr__op2(low, TSR__OP_GT, a.values, zero), number(low, a.type, 1), rest);
  return a;
}

static double ten_to(int64_t digits)
{
  /* Exact up to 10^22, the last power of ten that is a double. */
  double power = 1;
  while (digits-- > 0) power *= 10;
  return power;
}

/* rint(x * 10^d) / 10^d, in f64; numbers beyond 2^52 have no digits behind the point, and what is
 * no number stays. */
static tsr__col round_real(tsr__lower *low, tsr__col a, int64_t digits)
{
  tsr_dtype dtype = tsr__dtype_of_type(a.type);
  tsr_array *x = tsr__cast(low, a.values, TSR_F64);
  bool up = digits >= 0;
  tsr_array *scale = tsr__const_f(low, TSR_F64, ten_to(up ? digits : -digits));
  tsr_array *scaled = tsr__op2(low, up ? TSR__OP_MUL : TSR__OP_DIV, x, scale);
  tsr_array *near = tsr__op1(low, TSR__OP_RINT, scaled);
  near = tsr__op2(low, up ? TSR__OP_DIV : TSR__OP_MUL, near, scale);
  if (up) {
    tsr_array *small = tsr__op2(low, TSR__OP_LT, tsr__op1(low, TSR__OP_ABS, x),
                                tsr__const_f(low, TSR_F64, 0x1p52));
    near = tsr__where(low, small, near, x);
  }
  a.values = tsr__cast(low, near, dtype);
  return a;
}

/* Tens, hundreds, ...: what lies half way goes to the even one. Computed in i64; u64 in itself. */
static tsr__col round_integer(tsr__lower *low, tsr__col a, int64_t digits)
{
  int type = a.type;
  tsr_dtype dtype = type == TSR_COL_U64 ? TSR_U64 : TSR_I64;
  if (digits >= 0) return a;
  a = tsr__convert(low, a, (int)dtype);
  /* At most 10^18, which i64 holds. */
  int64_t step = (int64_t)ten_to(-digits);
  tsr_array *size = tsr__const_i(low, dtype, step), *half = tsr__const_i(low, dtype, step / 2);
  /* Rounded down, of negative numbers too: the rest is 0 .. step - 1. */
  tsr_array *rest = tsr__op2(low, TSR__OP_MOD, a.values, size);
  tsr_array *steps = tsr__op2(low, TSR__OP_FLOORDIV, a.values, size);
  tsr_array *odd = tsr__op2(low, TSR__OP_MOD, steps, tsr__const_i(low, dtype, 2));
  odd = tsr__op2(low, TSR__OP_EQ, odd, tsr__const_i(low, dtype, 1));
  tsr_array *up = tsr__op2(low, TSR__OP_OR, tsr__op2(low, TSR__OP_GT, rest, half),
                           tsr__both(low, tsr__op2(low, TSR__OP_EQ, rest, half), odd));
  tsr__col move = { .type = (uint8_t)dtype };
  if (dtype == TSR_U64) { /* down, then up: nothing is negative */
    a.values = tsr__op2(low, TSR__OP_SUB, a.values, rest);
    move.values = tsr__where(low, up, size, tsr__const_i(low, dtype, 0));
  } else {
    tsr_array *more = tsr__op2(low, TSR__OP_SUB, size, rest);
    move.values = tsr__where(low, up, more, tsr__op1(low, TSR__OP_NEG, rest));
  }
  /* A step up may leave the type: added with the check that an addition in a formula has. */
  tsr__col out = tsr__lower_integer(low, TSR__B_ADD, a, move);
  return type == (int)dtype ? out : tsr__to_narrow(low, out, type);
}

static tsr__col of_number(tsr__lower *low, const tsr__expr *expr)
{
  static const uint16_t ops[TSR__FNS] = {
    [TSR__F_SQRT] = TSR__OP_SQRT,  [TSR__F_EXP] = TSR__OP_EXP,     [TSR__F_LOG] = TSR__OP_LOG,
    [TSR__F_LOG2] = TSR__OP_LOG2,  [TSR__F_LOG10] = TSR__OP_LOG10, [TSR__F_SIN] = TSR__OP_SIN,
    [TSR__F_COS] = TSR__OP_COS,    [TSR__F_TAN] = TSR__OP_TAN,     [TSR__F_TANH] = TSR__OP_TANH,
    [TSR__F_ROUND] = TSR__OP_RINT, [TSR__F_FLOOR] = TSR__OP_FLOOR, [TSR__F_CEIL] = TSR__OP_CEIL,
  };
  tsr__col a = tsr__lower_as(low, expr->arg[0], expr->type);
  bool whole = tsr__is_integer(a.type);
  if (expr->op == TSR__F_ABS) return absolute(low, a);
  if (expr->op == TSR__F_SIGN) return sign(low, a);
  if (expr->count == 2)
    return whole ? round_integer(low, a, expr->arg[1]->i) : round_real(low, a, expr->arg[1]->i);
  if (whole) return a; /* rounded already */
  a.values = tsr__op1(low, (tsr__op)ops[expr->op], a.values);
  return a;
}

tsr__col tsr__lower_call(tsr__lower *low, const tsr__expr *expr)
{
  switch (tsr__fn_sort(expr->op)) {
  case TSR__FS_CAST: return tsr__lower_cast(low, expr);
  case TSR__FS_TEXT: return tsr__lower_text_fn(low, expr);
  case TSR__FS_DATE: return tsr__lower_date_fn(low, expr);
  case TSR__FS_TRUTH: return is_nan(low, expr->arg[0]);
  case TSR__FS_CHOICE:
    if (expr->op == TSR__F_IF) return if_else(low, expr);
    return expr->op == TSR__F_COALESCE ? coalesce(low, expr) : extreme(low, expr);
  default: return of_number(low, expr);
  }
}
