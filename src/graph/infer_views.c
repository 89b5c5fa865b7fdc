/* Shapes of views, whose elements are those of their operands at other indices.
 *
 *   slice      [10]    first 2, step 3, size 3    -> [3]
 *   diagonal   [A, m, n, B]                       -> [A, least of m and n, B]
 *   concat     [A, m, B] and [A, n, B]            -> [A, m + n, B]
 *
 * A call has turned the ranges and negative dims of users into numbers; these are checked here. */
#include "graph/infer_inner.h"

/* Views map indices by constants; with a size that is not known neither an end nor a border can
 * be one. */
static tsr_status unknown_rows(tsr__op op, const tsr__type *x, int dim, tsr__error *error)
{
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "tsr_%s: the size of dim %d of %s is known only at run time; evaluate the "
                        "array and rebalance its rows first",
                        tsr__ops[op].name, dim, text_of(x).text);
}

/* Starts of operand 0's dims, as operand 1. */
static tsr_status check_starts(tsr__op op, tsr__types in, tsr__error *error)
{
  const tsr__type *x = &in.at[0], *starts = &in.at[1];
  if (starts->rank == 1 && starts->dims[0] == x->rank) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: the starts are %s, expected %d along one dim: one per dim of %s",
                        tsr__ops[op].name, text_of(starts).text, x->rank, text_of(x).text);
}

/* The calls have turned Python's ranges into start, step and size; here they are only checked,
 * and without a sum that could overflow:
 *
 *   first = 2, step = 3, size = 3, dim of 10      . . X . . X . . X .
 *   most = 10 - 1 - 2 = 7, and 7 / 3 = 2 more elements fit after the first */
tsr_status tsr__shape_slice(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                            tsr__error *error)
{
  const tsr__slice_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  tsr_shape shape = shape_of(x);
  for (int d = 0; d < x->rank; d++) {
    int64_t step = attr->step[d], first = attr->start[d], size = attr->size[d];
    if (!step) continue;
    if (shape.dims[d] == TSR__DYNAMIC) return unknown_rows(op, x, d, error);
    int64_t most = step < 0 ? first : shape.dims[d] - 1 - first; /* how far it can go */
    /* -INT64_MIN is no number; such a step can show one element at most. */
    bool inside =
        first >= 0 && most >= 0 && size >= 0 &&
        (size <= 1 || (step != INT64_MIN && most / (step < 0 ? -step : step) >= size - 1));
    if (size && (!inside || first >= shape.dims[d]))
      return tsr__error_set(error, TSR_EARG,
                            "tsr_%s: %lld elements from %lld in steps of %lld along dim %d of %s; "
                            "all of them must lie inside",
                            tsr__ops[op].name, (long long)size, (long long)first, (long long)step,
                            d, text_of(x).text);
    shape.dims[d] = size;
  }
  *out = shape;
  return TSR_OK;
}

tsr_status tsr__shape_dynamic_slice(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                                    tsr__error *error)
{
  if (check_starts(op, in, error)) return error->status;
  return tsr__shape_slice(op, in, ask, out, error);
}

tsr_status tsr__shape_order(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                            tsr__error *error)
{
  const tsr__order_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  tsr_shape shape = { .rank = x->rank };
  /* As many dims as there are, none twice: so all are there, and no second pass is needed. */
  unsigned seen = 0;
  for (int d = 0; d < x->rank; d++) {
    int from = attr->dims[d];
    if (from >= x->rank || seen >> from & 1)
      return tsr__error_set(error, TSR_EARG,
                            "tsr_%s: dim %d of the result is dim %d of %s%s; name each of "
                            "its %d dims once",
                            tsr__ops[op].name, d, from, text_of(x).text,
                            from < x->rank ? " again" : "", x->rank);
    seen |= 1u << from;
    shape.dims[d] = dim_of(x, from);
    /* Rows of unknown number lie along dim 0, and nothing else may be there. */
    if (d && shape.dims[d] == TSR__DYNAMIC) return unknown_rows(op, x, from, error);
  }
  *out = shape;
  return TSR_OK;
}

/* Broadcasting to a shape, as NumPy's broadcast_to: aligned at the last dim, ones become any
 * size. Fewer dims than the operand has are refused by the test of `more` below. */
tsr_status tsr__shape_broadcast(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                                tsr__error *error)
{
  const tsr__type *x = &in.at[0];
  tsr__error wrong = { .status = TSR_OK };
  if (tsr__shape_check(&ask->shape, &wrong)) return name_error(op, &wrong, error);
  tsr__type to = { .dtype = x->dtype, .rank = (uint8_t)ask->shape.rank, .dims = ask->shape.dims };
  int more = to.rank - x->rank;
  for (int d = 0; d < x->rank; d++) {
    if (dim_of(x, d) == TSR__DYNAMIC) return unknown_rows(op, x, d, error);
    if (more >= 0 && (x->dims[d] == 1 || x->dims[d] == to.dims[d + more])) continue;
    return tsr__error_set(error, TSR_ESHAPE,
                          "tsr_%s: %s cannot be broadcast to %s; aligned at the last dim, its dims "
                          "must be equal or 1",
                          tsr__ops[op].name, text_of(x).text, text_of(&to).text);
  }
  *out = ask->shape;
  return TSR_OK;
}

tsr_status tsr__shape_reshape(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                              tsr__error *error)
{
  const tsr__type *x = &in.at[0];
  /* A -1 for one of the dims was filled in by the call. */
  tsr_shape from = shape_of(x);
  tsr__error inner = { .status = TSR_OK };
  if (tsr__shape_check(&ask->shape, &inner)) return name_error(op, &inner, error);
  for (int d = 0; d < x->rank; d++)
    if (from.dims[d] == TSR__DYNAMIC) return unknown_rows(op, x, d, error);
  tsr__type to = { .dtype = x->dtype, .rank = (uint8_t)ask->shape.rank, .dims = ask->shape.dims };
  int64_t count = tsr__shape_count(&from), asked = tsr__shape_count(&ask->shape);
  /* Only the counts must agree: elements keep their order, whatever the dims are. */
  if (count != asked)
    return tsr__error_set(error, TSR_ESHAPE,
                          "tsr_%s: %s has %lld elements and %s has %lld; give dims with that many "
                          "elements, or -1 for one of the dims",
                          tsr__ops[op].name, text_of(x).text, (long long)count, text_of(&to).text,
                          (long long)asked);
  *out = ask->shape;
  return TSR_OK;
}

tsr_status tsr__shape_roll(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  const tsr__roll_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  bool fits = same_shape(x, &in.at[1]) && attr->dim >= 0 && attr->dim < x->rank;
  if (fits && dim_of(x, (int)attr->dim) == TSR__DYNAMIC)
    return unknown_rows(op, x, (int)attr->dim, error);
  /* Shifts were taken modulo the size by the call; of an empty dim only 0 is left. */
  fits = fits && attr->count >= 0 && (attr->count < x->dims[attr->dim] || !attr->count);
  if (!fits)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_%s: %s cannot be shifted by %lld along dim %lld; give a dim of the "
                          "array, and a shift below its size",
                          tsr__ops[op].name, text_of(x).text, (long long)attr->count,
                          (long long)attr->dim);
  *out = shape_of(x);
  return TSR_OK;
}

tsr_status tsr__shape_diagonal(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                               tsr__error *error)
{
  const tsr__diagonal_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  int d = (int)attr->dim;
  bool fits = attr->dim >= 0 && attr->dim + 1 < x->rank;
  if (fits && dim_of(x, d) == TSR__DYNAMIC) return unknown_rows(op, x, d, error);
  if (!fits || attr->offset < -x->dims[d] || attr->offset > x->dims[d + 1])
    return tsr__error_set(error, TSR_EARG,
                          "tsr_%s: %s has no diagonal %lld from dim %lld on; give one within it",
                          tsr__ops[op].name, text_of(x).text, (long long)attr->offset,
                          (long long)attr->dim);
  *out = (tsr_shape){ .rank = x->rank - 1 };
  for (int k = 0; k < out->rank; k++) out->dims[k] = dim_of(x, k < d ? k : k + 1);
  out->dims[d] = tsr__diagonal_length(attr, x->dims[d], x->dims[d + 1]);
  return TSR_OK;
}

tsr_status tsr__shape_pick(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                           tsr__error *error)
{
  const tsr__pick_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  bool fits = attr->dim >= 0 && attr->dim < x->rank && (in.count < 2 || !in.at[1].rank);
  if (fits && dim_of(x, (int)attr->dim) == TSR__DYNAMIC)
    return unknown_rows(op, x, (int)attr->dim, error);
  int64_t last = -1, table = (int64_t)ask->attr_bytes - (int64_t)sizeof *attr;
  int64_t count = ask->attr ? table / (int64_t)sizeof *attr->picks : 0;
  bool gaps = false;
  for (int64_t i = 0; i < count && fits; i++) {
    last = attr->picks[i] > last ? attr->picks[i] : last;
    gaps |= attr->picks[i] < 0;
  }
  fits = fits && last < x->dims[attr->dim] && (!gaps || in.count == 2);
  if (!fits)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_%s: %lld elements up to %lld of %s cannot be picked along dim %lld; "
                          "give a dim of the array, elements of the dim, and a number for gaps",
                          tsr__ops[op].name, (long long)count, (long long)last, text_of(x).text,
                          (long long)attr->dim);
  *out = shape_of(x);
  out->dims[attr->dim] = count;
  return TSR_OK;
}

tsr_status tsr__shape_update(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  (void)ask;
  const tsr__type *x = &in.at[0], *update = &in.at[2];
  if (check_starts(op, in, error)) return error->status;
  /* Where the box begins is known at the run, and clamped then so that it lies inside. So its
   * size is all that can be wrong here. */
  bool fits = update->rank == x->rank;
  for (int d = 0; fits && d < x->rank; d++) fits = update->dims[d] <= x->dims[d];
  if (!fits)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "tsr_%s: %s cannot be written into %s; give an update of as many dims, none of them larger",
        tsr__ops[op].name, text_of(update).text, text_of(x).text);
  *out = shape_of(x);
  return TSR_OK;
}

/* A sum of sizes; one beyond all sizes where it is too large, for check_size to refuse. Borders
 * may be as large as an int64_t, and two of them would wrap to a small sum. */
static int64_t longer(int64_t size, int64_t more)
{
  return more > 0 && size > INT64_MAX - more ? INT64_MAX : size + more;
}

tsr_status tsr__shape_pad(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                          tsr__error *error)
{
  const tsr__pad_attr *attr = asked_attr(op, ask);
  const tsr__type *x = &in.at[0];
  tsr_shape shape = shape_of(x);
  if (in.at[1].rank)
    return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: the padding value is %s, expected one number",
                          tsr__ops[op].name, text_of(&in.at[1]).text);
  /* All dims that an attribute can have, not only the operand's: a border along one that is not
   * there would be lost in silence. */
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int64_t low = attr->low[d], high = attr->high[d];
    if (!low && !high) continue;
    if (d >= x->rank)
      return tsr__error_set(error, TSR_EARG, "tsr_%s: a border is set for dim %d of %s; %s",
                            tsr__ops[op].name, d, text_of(x).text, tsr__dims_text(x->rank).text);
    if (shape.dims[d] == TSR__DYNAMIC) return unknown_rows(op, x, d, error);
    /* So that a border can be turned round, as gradients do, and added to any size. */
    const int64_t least = -(INT64_MAX / 4);
    if (low >= least && high >= least) shape.dims[d] = longer(longer(shape.dims[d], low), high);
    if (low < least || high < least || shape.dims[d] < 0)
      return tsr__error_set(error, TSR_EARG,
                            "tsr_%s: borders of %lld before and %lld after dim %d of %s remove "
                            "more elements than the dim has; remove fewer",
                            tsr__ops[op].name, (long long)low, (long long)high, d, text_of(x).text);
  }
  *out = shape;
  return TSR_OK;
}

tsr_status tsr__shape_concat(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  const tsr__dim_attr *attr = asked_attr(op, ask);
  const tsr__type *first = &in.at[0];
  tsr_shape shape = shape_of(first);
  if (attr->dim < 0 || attr->dim >= first->rank) return no_such_dim(op, first, attr->dim, error);
  /* One size differs, all others are operand 1's. Numbers are given by their place from 1 on, as
   * users count. */
  int dim = (int)attr->dim;
  for (int i = 0; i < in.count; i++) {
    const tsr__type *x = &in.at[i];
    bool fits = x->rank == first->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == dim || dim_of(x, d) == shape.dims[d];
    if (!fits)
      return tsr__error_set(
          error, TSR_ESHAPE,
          "tsr_%s: operand %d is %s, expected the dims of operand 1, %s, except for dim %d",
          tsr__ops[op].name, i + 1, text_of(x).text, text_of(first).text, dim);
    if (dim_of(x, dim) == TSR__DYNAMIC) return unknown_rows(op, x, dim, error);
    if (i) shape.dims[dim] = longer(shape.dims[dim], dim_of(x, dim));
  }
  *out = shape;
  return TSR_OK;
}
