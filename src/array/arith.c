/* Calls on elements: each is one row of the op table with its operands. Those that are alike are
 * in operations.c, which is generated.
 *
 * A number beside an array has no type of its own: it takes the array's, or one that holds both. It
 * becomes a node of rank 0 that every shape takes and that is a parameter of the run, not of the
 * plan. */
#include "array/array_room.h"

#include <math.h>
#include <stdio.h>

/* ---- numbers ---- */

tsr_operand tsr_operand_array(tsr_array *array)
{
  return (tsr_operand){ .array = array };
}

tsr_operand tsr_operand_bool(bool value)
{
  return (tsr_operand){ .number = tsr_scalar_bool(value) };
}

tsr_operand tsr_operand_int(long long value)
{
  return (tsr_operand){ .number = tsr_scalar_int(value) };
}

tsr_operand tsr_operand_uint(unsigned long long value)
{
  return (tsr_operand){ .number = tsr_scalar_uint(value) };
}

tsr_operand tsr_operand_float(double value)
{
  return (tsr_operand){ .number = tsr_scalar_float(value) };
}

/* "the integer 3", as messages have it. */
static void name_number(const tsr_scalar *number, char *out, size_t size)
{
  char text[32];
  switch (number->kind) {
  case TSR_SCALAR_BOOL: snprintf(out, size, "the bool %d", number->i != 0); return;
  case TSR_SCALAR_INT: snprintf(out, size, "the integer %lld", (long long)number->i); return;
  case TSR_SCALAR_UINT:
    snprintf(out, size, "the integer %llu", (unsigned long long)number->u);
    return;
  case TSR_SCALAR_FLOAT:
    tsr__text_f64(text, number->f);
    snprintf(out, size, "the float %s", text);
    return;
  case TSR_SCALAR_TEXT: snprintf(out, size, "a text"); return;
  case TSR_SCALAR_NONE: break;
  }
  snprintf(out, size, "a value without a kind");
}

/* A number as an integer of 64 bits; false where it is none. */
static bool whole_number(const tsr_scalar *number, int64_t *out)
{
  switch (number->kind) {
  case TSR_SCALAR_BOOL: *out = number->i != 0; return true;
  case TSR_SCALAR_INT: *out = number->i; return true;
  case TSR_SCALAR_FLOAT:
    /* Beyond 2^62 a float is no i64 for sure; below it is one exactly, since it is whole. */
    if (number->f != trunc(number->f) || fabs(number->f) > 0x1p62) return false;
    *out = (int64_t)number->f;
    return true;
  case TSR_SCALAR_UINT:
  case TSR_SCALAR_TEXT:
  case TSR_SCALAR_NONE: break;
  }
  return false;
}

tsr_array *tsr__number_node(tsr_scope *scope, tsr_scalar given, tsr_dtype dtype, const char *what,
                            const char *site)
{
  tsr_scalar number = tsr__scalar_signed(given);
  tsr__num value = { .i = 0 };
  bool fits = number.kind >= TSR_SCALAR_BOOL && number.kind <= TSR_SCALAR_FLOAT;
  /* Of u64 the bits are kept in the signed field; of all other integers the value itself must
   * fit. */
  if (number.kind == TSR_SCALAR_UINT && dtype == TSR_U64) value.i = (int64_t)number.u;
  else if (tsr__dtype_integer(dtype))
    fits = fits && whole_number(&number, &value.i) && tsr__dtype_holds(dtype, value.i);
  else if (dtype == TSR_BOOL) value.i = tsr__scalar_real(number) != 0;
  else value.f = tsr__scalar_real(number);
  if (fits) return tsr__make_const(scope, dtype, value, site);
  char text[64];
  name_number(&number, text, sizeof text);
  const char *call = what ? what : "", *colon = what ? ": " : "";
  /* The call's name is in front only where the scope does not say it already. */
  if (number.kind < TSR_SCALAR_BOOL || number.kind > TSR_SCALAR_FLOAT)
    tsr__fail(scope, site, TSR_EDTYPE, "%s%s%s is not a number; give a number", call, colon, text);
  else
    tsr__fail(scope, site, TSR_EDTYPE,
              "%s%s%s does not fit %s; give a number that fits, or cast the array first", call,
              colon, text, tsr_dtype_name(dtype));
  return tsr__make_inert(scope, site);
}

/* The dtype a number takes beside an array: integers follow every number dtype; a float makes
 * integers f64; a bool follows everything; an integer or float beside bools is i64 or f64. */
static tsr_dtype weak_dtype(tsr_scalar_kind kind, tsr_dtype beside)
{
  if (kind == TSR_SCALAR_BOOL) return beside;
  if (kind != TSR_SCALAR_FLOAT) return beside == TSR_BOOL ? TSR_I64 : beside;
  return tsr__dtype_of_functions(beside);
}

/* Whether an operand is an array, be it NULL, and no number. */
static bool is_array(tsr_operand operand)
{
  return operand.array || operand.number.kind == TSR_SCALAR_NONE;
}

tsr_array *tsr__operand_node(tsr_scope *scope, tsr_array *beside, tsr_operand operand,
                             const char *site)
{
  if (is_array(operand)) return operand.array;
  /* There is an error already: what stands beside an inert array is inert. */
  if (!beside || beside->inert) return beside;
  tsr_dtype dtype = weak_dtype(operand.number.kind, (tsr_dtype)beside->dtype);
  return tsr__number_node(scope, operand.number, dtype, NULL, site);
}

tsr_array *tsr__strong_number(tsr_scope *scope, tsr_scalar value, const char *site)
{
  value = tsr__scalar_signed(value);
  /* What has no array beside it has the widest dtype of its kind. */
  tsr_dtype dtype = value.kind == TSR_SCALAR_FLOAT  ? TSR_F64
                    : value.kind == TSR_SCALAR_UINT ? TSR_U64
                    : value.kind == TSR_SCALAR_BOOL ? TSR_BOOL
                                                    : TSR_I64;
  return tsr__number_node(scope, value, dtype, "tsr_num", site);
}

tsr_array *tsr_num_at(tsr_scope *scope, tsr_scalar value, const char *site)
{
  tsr_array *number = tsr__strong_number(scope, value, site);
  if (!number->inert) number->weak = true;
  return number;
}

/* ---- one, two and three operands ---- */

static tsr_scope *home_of(tsr_array *a, tsr_operand b)
{
  return tsr__home_of(TSR__IN(a, b.array));
}

/* NULL for the scope: the result lives where results of its operand belong. */
tsr_array *tsr__unary(tsr__op op, tsr_array *a, const char *site)
{
  return tsr__make(NULL, op, TSR__IN(a), &(tsr__ask){ 0 }, site);
}

/* 0 and 1 beside bools: C11's false and true are ints. They are meant as bools where the operation
 * is one of truth and the other operand is bool. */
static bool means_bool(tsr__op op, const tsr_array *a, tsr_operand b)
{
  bool logic = tsr__ops[op].dtype_rule == TSR__DT_BOOL || tsr__ops[op].wants == TSR__WANT_BITS;
  return logic && a && !a->inert && a->dtype == TSR_BOOL && b.number.kind == TSR_SCALAR_INT &&
         (b.number.i == 0 || b.number.i == 1);
}

/* The operand beside `a` of a call. */
static tsr_array *beside(tsr_scope *scope, const char *call, tsr_array *a, tsr_operand b,
                         const char *site)
{
  TSR__CALL(scope, call);
  return tsr__operand_node(scope, a, b, site);
}

tsr_array *tsr__binary(tsr__op op, tsr_array *a, tsr_operand b, const char *site)
{
  if (means_bool(op, a, b)) b = tsr_operand_bool(b.number.i);
  tsr_scope *scope = home_of(a, b);
  tsr_array *right = beside(scope, tsr__ops[op].name, a, b, site);
  return tsr__make(scope, op, TSR__IN(a, right), &(tsr__ask){ 0 }, site);
}

/* What was given to tsr_num. */
static tsr_operand literal_of(const tsr_array *number)
{
  const tsr__num *value = number->numbers;
  switch (tsr__dtype_info_of((tsr_dtype)number->dtype)->kind) {
  case TSR__DTYPE_BOOL: return tsr_operand_bool(value->i != 0);
  case TSR__DTYPE_INT: return tsr_operand_int(value->i);
  case TSR__DTYPE_UINT: return tsr_operand_uint((uint64_t)value->i);
  default: return tsr_operand_float(value->f);
  }
}

tsr_array *tsr__settled(tsr_array *a, tsr_array *beside, const char *site)
{
  if (!tsr__usable(a) || !a->weak || a->deleted || !tsr__usable(beside) || beside->weak) return a;
  return tsr__operand_node(tsr__home_of(TSR__IN(a, beside)), beside, literal_of(a), site);
}

tsr_array *tsr__left_node(tsr_operand a, tsr__operands beside, const char *site)
{
  if (is_array(a)) return a.array;
  tsr_scope *scope = tsr__home_of(beside);
  /* What stands beside an inert array is inert. */
  for (int i = 0; i < beside.count; i++)
    if (beside.at[i] && beside.at[i]->inert) return beside.at[i];
  return tsr_num_at(scope, a.number, site);
}

tsr_array *tsr_binary_at(tsr_binary_fn *call, tsr_operand a, tsr_operand b, const char *site)
{
  if (!call) return tsr__make_of_null("tsr_binary", "operation", site);
  return call(tsr__left_node(a, TSR__IN(b.array), site), b, site);
}

tsr_array *tsr_cast_at(tsr_array *a, tsr_dtype dtype, const char *site)
{
  /* Nothing to do: not even a node. A number of the user's becomes one of that dtype. */
  if (a && !a->inert && a->dtype == dtype && !a->weak) return a;
  if (a && !a->inert && a->dtype == dtype && !a->deleted)
    return tsr__make_const(tsr__home(a), dtype, a->numbers[0], site);
  return tsr__make(NULL, TSR__OP_CAST, TSR__IN(a), &(tsr__ask){ .dtype = dtype }, site);
}

tsr_array *tsr_where_at(tsr_array *condition, tsr_operand a, tsr_operand b, const char *site)
{
  tsr_array *left = a.array, *right = b.array;
  tsr_scope *scope = tsr__home_of(TSR__IN(condition, left, right));
  /* One array at least gives a number its dtype; of two numbers each has its own, and they are
   * promoted as two arrays would be. */
  if (is_array(a)) {
    right = beside(scope, "where", left, b, site);
  } else if (is_array(b)) {
    left = beside(scope, "where", right, a, site);
  } else {
    left = tsr_num_at(scope, a.number, site);
    right = tsr_num_at(scope, b.number, site);
  }
  return tsr__make(scope, TSR__OP_WHERE, TSR__IN(condition, left, right), &(tsr__ask){ 0 }, site);
}

/* ---- placing ---- */

tsr_array *tsr__reshard_for(tsr_array *a, tsr_sharding to, tsr__why why, const char *site)
{
  const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = why), .sharding = &to };
  return tsr__make(NULL, TSR__OP_RESHARD, TSR__IN(a), &ask, site);
}

tsr_array *tsr__constrain_for(tsr_array *a, tsr_sharding to, tsr__why why, const char *site)
{
  /* `opens`: dims that the spec leaves open are the planner's. */
  const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = why), .sharding = &to, .opens = true };
  return tsr__make(NULL, TSR__OP_CONSTRAIN, TSR__IN(a), &ask, site);
}

tsr_array *tsr_reshard_at(tsr_array *a, tsr_sharding sharding, const char *site)
{
  return tsr__reshard_for(a, sharding, TSR__WHY_ASKED, site);
}

tsr_array *tsr_constrain_at(tsr_array *a, tsr_sharding sharding, const char *site)
{
  return tsr__constrain_for(a, sharding, TSR__WHY_CONSTRAINED, site);
}
