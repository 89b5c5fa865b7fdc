/* Matrices by their diagonals, and numbers in even steps: made of indices and comparisons.
 *
 *   k = 1      . x . .        row + k == column       below it: row + k > column
 *              . . x .
 *              . . . x */
#include "array/array_room.h"
#include "tessera/shape.h"

#include <math.h>

/* ---- diagonals ---- */

/* The index along a dim of a matrix. */
static tsr_array *indices_along(tsr_scope *scope, tsr_shape shape, int dim, const tsr_sharding *on,
                                const char *site)
{
  tsr_sharding at = on ? *on : (tsr_sharding){ .mesh = NULL };
  return tsr_iota_at(scope, TSR_I64, shape, dim, at, site);
}

/* Rows moved by `k`: where they equal a column is diagonal `k`. */
static tsr_array *rows_at(tsr_scope *scope, tsr_shape shape, int64_t k, const tsr_sharding *on,
                          const char *site)
{
  /* Far beyond any matrix; a sum with an index cannot overflow then. */
  const int64_t most = INT64_MAX / 4;
  k = k > most ? most : k < -most ? -most : k;
  return tsr_add_at(indices_along(scope, shape, 0, on, site), tsr_operand_int(k), site);
}

/* A zero of an array's dtype. */
static tsr_operand zero_of(tsr_array *a, const char *site)
{
  return tsr_operand_array(
      tsr__number_node(tsr__home(a), tsr_scalar_int(0), (tsr_dtype)a->dtype, "tsr_diag", site));
}

/* Zeros on one side of a diagonal. */
static tsr_array *keep_side(tsr_array *a, int64_t k, bool lower, const char *what, const char *site)
{
  TSR__CALL(tsr__home(a), what + strlen("tsr_"));
  /* An operand that cannot be used goes to an operation that says so. */
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr_slice_at(a, NULL, 0, site);
  int rank = a->shape.rank;
  if (rank < 2) {
    tsr__error_set(&error, TSR_EARG, "%s: %s is not a matrix; give an array of two dims or more",
                   what, tsr_type_of(a));
    return tsr__refused(a, &error, site);
  }
  tsr_scope *scope = tsr__home(a);
  /* A column and a row of indices broadcast to the matrix: nothing of its size is made for them. */
  tsr_shape rows = { .rank = 2, .dims = { a->shape.dims[rank - 2], 1 } };
  tsr_shape columns = { .rank = 2, .dims = { 1, a->shape.dims[rank - 1] } };
  tsr_array *row = rows_at(scope, rows, k, NULL, site);
  tsr_operand column = tsr_operand_array(indices_along(scope, columns, 1, NULL, site));
  tsr_array *kept = (lower ? tsr_ge_at : tsr_le_at)(row, column, site);
  return tsr_where_at(kept, tsr_operand_array(a), zero_of(a, site), site);
}

tsr_array *tsr_tril_at(tsr_array *a, int64_t k, const char *site)
{
  return keep_side(a, k, true, "tsr_tril", site);
}

tsr_array *tsr_triu_at(tsr_array *a, int64_t k, const char *site)
{
  return keep_side(a, k, false, "tsr_triu", site);
}

/* A column of elements, padded to its place, where columns are on the diagonal. Of a b and k = 1
 * the column is a b 0, and rows 0 and 1 have their element one further right. */
static tsr_array *matrix_of(tsr_array *a, int64_t k, const char *site)
{
  tsr_pad_args args = { .size = sizeof args, .x = a };
  tsr_shape shape = { .rank = 2 };
  /* -INT64_MIN is none: padding by the largest number is refused for its size. */
  if (k < 0) args.low[0] = k == INT64_MIN ? INT64_MAX : -k;
  else args.high[0] = k;
  /* As a column it broadcasts to the matrix; only the diagonal is taken of it. */
  tsr_array *column = tsr_expand_dims_at(tsr_pad_at(&args, site), (tsr_dims){ .bits = 2 }, site);
  if (column->inert) return column;
  shape.dims[0] = shape.dims[1] = column->shape.dims[0];
  tsr_scope *scope = tsr__home(a);
  tsr_operand at = tsr_operand_array(indices_along(scope, shape, 1, NULL, site));
  tsr_array *on = tsr_eq_at(rows_at(scope, shape, k, NULL, site), at, site);
  return tsr_where_at(on, tsr_operand_array(column), zero_of(a, site), site);
}

tsr_array *tsr_diag_at(tsr_array *a, int64_t k, const char *site)
{
  TSR__CALL(tsr__home(a), "diag");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr_slice_at(a, NULL, 0, site);
  if (a->shape.rank == 1) return matrix_of(a, k, site);
  if (a->shape.rank == 2 && tsr__shape_count(&a->shape) >= 0) return tsr__diagonal(a, 0, k, site);
  tsr__error_set(&error, TSR_EARG, "tsr_diag: %s, expected one dim or two", tsr_type_of(a));
  return tsr__refused(a, &error, site);
}

/* A bool matrix of the comparison, cast: nothing is looked up. */
tsr_array *tsr_eye_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape, int64_t k,
                      tsr_sharding sharding, const char *site)
{
  TSR__CALL(scope, "eye");
  if (tsr__check_planned(scope, "tsr_eye", dtype, &shape, &sharding, site))
    return tsr__make_inert(scope, site);
  if (shape.rank != 2) {
    tsr__fail(scope, site, TSR_EARG,
              "tsr_eye: the shape has %d dims, expected two: rows and columns", shape.rank);
    return tsr__make_inert(scope, site);
  }
  tsr_operand column = tsr_operand_array(indices_along(scope, shape, 1, &sharding, site));
  tsr_array *on = tsr_eq_at(rows_at(scope, shape, k, &sharding, site), column, site);
  return tsr__placed_on(tsr_cast_at(on, dtype, site), &sharding, site);
}

/* ---- ranges ---- */

/* Takes the arguments of a range; records an error. */
static tsr_status take_steps(tsr_scope *scope, const char *what, const tsr_steps_args *given,
                             tsr_steps_args *args, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__scope_usable(scope, what, site);
  if (status) return status;
  if (!given)
    return tsr__fail(scope, site, TSR_EARG, "%s: its arguments are NULL; give them", what);
  if (tsr__take_opts(what, given, args, sizeof *args, &error))
    return tsr__fail_error(scope, site, &error);
  if (!args->dtype) args->dtype = TSR_F64;
  if (args->dtype == TSR_BOOL)
    return tsr__fail(scope, site, TSR_EDTYPE, "%s: .dtype is bool, expected a dtype of numbers",
                     what);
  if (isfinite(args->start) && isfinite(args->stop) && isfinite(args->step)) return TSR_OK;
  return tsr__fail(scope, site, TSR_EARG,
                   "%s: a bound or step is not a finite number; give finite numbers", what);
}

/* start + i * step in f64; of integers rounded down at the end. */
static tsr_array *steps(tsr_scope *scope, const tsr_steps_args *args, tsr_array **index,
                        const char *site)
{
  /* In f64 whatever is asked for, so that all dtypes have the same steps. */
  tsr_shape shape = { .rank = 1, .dims = { args->count } };
  *index = tsr_iota_at(scope, TSR_F64, shape, 0, args->on, site);
  tsr_array *far = tsr_mul_at(*index, tsr_operand_float(args->step), site);
  return tsr_add_at(far, tsr_operand_float(args->start), site);
}

static tsr_array *finished(tsr_array *a, const tsr_steps_args *args, const char *site)
{
  if (tsr__dtype_integer(args->dtype)) a = tsr_floor_at(a, site);
  return tsr__placed_on(tsr_cast_at(a, args->dtype, site), &args->on, site);
}

tsr_array *tsr_arange_at(tsr_scope *scope, const tsr_steps_args *given, const char *site)
{
  TSR__CALL(scope, "arange");
  tsr_steps_args args = { .size = sizeof args };
  tsr_array *index;
  if (take_steps(scope, "tsr_arange", given, &args, site)) return tsr__make_inert(scope, site);
  /* tsr_arange(s, 4) has no end: NumPy would take its number for it. */
  if (args.start > 0 && args.stop == 0 && args.step == 0) {
    tsr__fail(scope, site, TSR_EARG,
              "tsr_arange: .start is %lld, but there is no .stop; write tsr_arange(s, .stop = "
              "%lld), or give both",
              (long long)args.start, (long long)args.start);
    return tsr__make_inert(scope, site);
  }
  if (args.step == 0) args.step = 1;
  /* A range that ends before it begins is empty. */
  double count = ceil((args.stop - args.start) / args.step);
  if (!(count < 0x1p53)) {
    tsr__fail(scope, site, TSR_EARG,
              "tsr_arange: the range has more than 2^53 steps; give a larger .step");
    return tsr__make_inert(scope, site);
  }
  args.count = count > 0 ? (int64_t)count : 0;
  return finished(steps(scope, &args, &index, site), &args, site);
}

tsr_array *tsr_linspace_at(tsr_scope *scope, const tsr_steps_args *given, const char *site)
{
  TSR__CALL(scope, "linspace");
  tsr_steps_args args = { .size = sizeof args };
  tsr_array *index;
  if (take_steps(scope, "tsr_linspace", given, &args, site)) return tsr__make_inert(scope, site);
  if (args.count < 0) {
    tsr__fail(scope, site, TSR_EARG, "tsr_linspace: %lld numbers, expected 0 or more",
              (long long)args.count);
    return tsr__make_inert(scope, site);
  }
  /* The end is drawn to exactly, not by steps: rounding could pass it by. */
  int64_t between = args.open ? args.count : args.count - 1;
  args.step = between > 0 ? (args.stop - args.start) / (double)between : 0;
  tsr_array *x = steps(scope, &args, &index, site);
  if (!args.open && args.count > 1) {
    tsr_array *inner = tsr_lt_at(index, tsr_operand_float((double)between), site);
    x = tsr_where_at(inner, tsr_operand_array(x), tsr_operand_float(args.stop), site);
  }
  return finished(x, &args, site);
}
