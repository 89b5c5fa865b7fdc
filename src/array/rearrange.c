/* The calls that make views: ranges and dims as users write them become those of the array.
 *
 *   a[7:1:-2] of a dim of 10      start 7, step -2, size 3      what SLICE takes; step 0: all of it
 *
 * Equal views become equal nodes: whatever can be said in several ways is said in one (step 1 of
 * one element, no slice at all of a whole dim). */
#include "array/array_room.h"
#include "tessera/shape.h"

static int64_t between(int64_t value, int64_t low, int64_t high)
{
  return value < low ? low : value > high ? high : value;
}

/* What a range takes of a dim of `size`, as Python has it. */
static void take_range(tsr_range range, int64_t size, int d, tsr__slice_attr *out)
{
  int64_t step = range.step ? range.step : 1, first = range.start, stop = range.stop;
  bool back = step < 0, whole = back && stop == TSR_END;
  /* What is not touched stays zeros, which SLICE reads as "all": so a dim of unknown size can be
   * there. */
  if (step == 1 && first == 0 && stop == TSR_END) return; /* as it is, however large that is */
  out->step[d] = 1;
  if (size < 0) return; /* for tsr__make to refuse */
  /* Python counts negative ends from the end, and then moves what is outside to the border. */
  if (first < 0) first += size;
  if (stop < 0) stop += size;
  /* Backwards the end may lie before the first element, at -1. */
  first = between(first, back ? -1 : 0, back ? size - 1 : size);
  stop = whole ? -1 : between(stop, back ? -1 : 0, back ? size - 1 : size);
  /* Elements from the first one up to the end, which is not among them. */
  int64_t span = back ? first - stop : stop - first;
  /* The least step has no positive twin: 0 - step in 64 bits is right for it as well. */
  uint64_t stride = back ? 0 - (uint64_t)step : (uint64_t)step;
  if (span <= 0) return;
  out->start[d] = first;
  /* Rounded up: one for the first, one for each whole stride behind it. */
  out->size[d] = (int64_t)(((uint64_t)span - 1) / stride) + 1;
  /* A single element needs no step, and equal slices should be equal nodes. */
  if (out->size[d] > 1) out->step[d] = step;
  if (out->step[d] == 1 && out->size[d] == size) out->start[d] = out->step[d] = out->size[d] = 0;
}

static tsr_array *slice(tsr_array *a, const tsr__slice_attr *attr, const char *site)
{
  tsr__ask ask = { .attr = attr, .attr_bytes = sizeof *attr };
  return tsr__make(NULL, TSR__OP_SLICE, TSR__IN(a), &ask, site);
}

tsr_array *tsr_slice_at(tsr_array *a, const tsr_range *ranges, int count, const char *site)
{
  tsr__slice_attr attr = { .start = { 0 } };
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return slice(a, &attr, site);
  if (count < 0 || count > a->shape.rank || (count && !ranges)) {
    tsr__error_set(&error, TSR_EARG, "tsr_slice: %d ranges%s for %s; give at most %d, one per dim",
                   count, ranges ? "" : " that are NULL", tsr_type_of(a), a->shape.rank);
    return tsr__refused(a, &error, site);
  }
  for (int d = 0; d < count; d++) take_range(ranges[d], a->shape.dims[d], d, &attr);
  return slice(a, &attr, site);
}

tsr_array *tsr__part(tsr_array *a, int dim, tsr_range range, const char *site)
{
  /* Dims behind the last one named stay whole. */
  tsr_range ranges[TSR_MAX_RANK];
  if (!a || a->inert) return tsr_slice_at(a, NULL, 0, site);
  for (int d = 0; d < dim; d++) ranges[d] = TSR_ALL;
  ranges[dim] = range;
  return tsr_slice_at(a, ranges, dim + 1, site);
}

tsr_array *tsr_flip_at(tsr_array *a, tsr_dims dims, const char *site)
{
  TSR__CALL(tsr__home(a), "flip");
  tsr__slice_attr attr = { .start = { 0 } };
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return slice(a, &attr, site);
  uint32_t bits = tsr__dims_or_all(dims, a->shape.rank);
  if (tsr__dims_once("tsr_flip", dims, a, &error)) return tsr__refused(a, &error, site);
  if (bits >> a->shape.rank) {
    tsr__error_set(&error, TSR_EARG, "tsr_flip: .dims names a dim that %s does not have; %s",
                   tsr_type_of(a), tsr__dims_text(a->shape.rank).text);
    return tsr__refused(a, &error, site);
  }
  /* From the last element to before the first. */
  for (int d = 0; d < a->shape.rank; d++)
    if (bits >> d & 1) take_range((tsr_range){ TSR_END, TSR_END, -1 }, a->shape.dims[d], d, &attr);
  return slice(a, &attr, site);
}

tsr_array *tsr_transpose_at(tsr_array *a, const int *dims, int count, const char *site)
{
  tsr__order_attr attr = { .dims = { 0 } };
  tsr__error error = { .status = TSR_OK };
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  if (!a || a->inert) return tsr__make(NULL, TSR__OP_TRANSPOSE, TSR__IN(a), &ask, site);
  int rank = a->shape.rank;
  if (count && (count != rank || !dims)) {
    tsr__error_set(&error, TSR_EARG,
                   "tsr_transpose: %d dims%s for %s; name each of its %d dims once", count,
                   dims ? "" : " that are NULL", tsr_type_of(a), rank);
    return tsr__refused(a, &error, site);
  }
  for (int d = 0; d < rank; d++) {
    /* Without a list all dims are turned round. */
    int from = count ? dims[d] < 0 ? dims[d] + rank : dims[d] : rank - 1 - d;
    if (from < 0 || from >= rank) {
      tsr__no_dim(&error, "transpose", dims[d], tsr_type_of(a), rank);
      return tsr__refused(a, &error, site);
    }
    attr.dims[d] = (uint8_t)from;
  }
  return tsr__make(NULL, TSR__OP_TRANSPOSE, TSR__IN(a), &ask, site);
}

tsr_array *tsr_broadcast_to_at(tsr_array *a, tsr_shape shape, const char *site)
{
  return tsr__make(NULL, TSR__OP_BROADCAST, TSR__IN(a), &(tsr__ask){ .shape = shape }, site);
}

/* ---- several operands ---- */

/* The number around a padded array takes its dtype, and is 0 where none is given. */
static tsr_array *border(tsr_array *x, tsr_operand value, const char *site)
{
  if (value.array) return value.array;
  if (value.number.kind == TSR_SCALAR_NONE) value.number = tsr_scalar_int(0);
  return tsr__number_node(tsr__home(x), value.number, (tsr_dtype)x->dtype, NULL, site);
}

/* A pad along one dim of more, so it is cut as before: whole rows lie on a device.
 *
 *   [n, 1] -> [n, step] -> n * step      a b, step 3, first 1:     . a . . b . */
tsr_array *tsr__spread_dim(const tsr_pad_args *from, int dim, int64_t step, int64_t first,
                           const char *site)
{
  tsr_shape apart = from->x->shape, whole = apart;
  tsr_pad_args pad = { .size = sizeof pad, .value = from->value };
  int64_t size = apart.dims[dim], before = 1, behind = 1;
  int at = dim + 1;
  if (apart.rank == TSR_MAX_RANK) { /* the dims in front are one */
    for (int d = 0; d < TSR_MAX_RANK; d++)
      *(d < dim ? &before : &behind) *= d == dim ? 1 : apart.dims[d];
    apart = (tsr_shape){ .rank = 4, .dims = { before, size, 1, behind } };
    at = 2;
  } else {
    apart.rank++;
    for (int d = apart.rank - 1; d > at; d--) apart.dims[d] = apart.dims[d - 1];
    apart.dims[at] = 1;
  }
  pad.low[at] = first;
  pad.high[at] = step - 1 - first;
  pad.x = tsr_reshape_at(from->x, apart, site);
  pad.x = tsr_pad_at(&pad, site);
  if (pad.x->inert) return pad.x;
  whole.dims[dim] = size * step;
  return tsr_reshape_at(pad.x, whole, site);
}

/* Sums of a few sizes up to this stay within 64 bits. */
#define MOST (INT64_MAX / 4)

static int64_t bounded(int64_t border)
{
  return border < -MOST ? -MOST : border > MOST ? MOST : border;
}

/* How many elements are left of a dim; what is beyond all sizes the pad refuses by itself. */
static int64_t left_of(const tsr_pad_args *args, int d)
{
  int64_t size = args->x->shape.dims[d], each = args->interior[d] + 1;
  if (size > 1) size = size - 1 > MOST / each ? MOST : (size - 1) * each + 1;
  return size + bounded(args->low[d]) + bounded(args->high[d]);
}

/* Told in the numbers that were given: the pad sees others. */
static tsr_status check_interior(const tsr_pad_args *args, tsr__error *error)
{
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int64_t count = args->interior[d];
    const char *type = tsr_type_of(args->x);
    if (!count) continue;
    if (d >= args->x->shape.rank)
      return tsr__error_set(error, TSR_EARG, "tsr_pad: .interior is set for dim %d of %s; %s", d,
                            type, tsr__dims_text(args->x->shape.rank).text);
    if (count < 0 || count > MOST)
      return tsr__error_set(error, TSR_EARG,
                            "tsr_pad: .interior is %lld for dim %d of %s, expected 0 or more, and "
                            "a result that fits 63 bits; take some elements with tsr_slice",
                            (long long)count, d, type);
    if (args->x->shape.dims[d] == TSR__DYNAMIC || left_of(args, d) >= 0) continue;
    return tsr__error_set(error, TSR_EARG,
                          "tsr_pad: .low %lld, .high %lld and .interior %lld for dim %d of %s "
                          "remove more elements than the dim has; remove fewer",
                          (long long)args->low[d], (long long)args->high[d], (long long)count, d,
                          type);
  }
  return TSR_OK;
}

/* What stands between elements is put there dim by dim; behind the last of a dim it is part of the
 * border, which is that much shorter:
 *
 *   a b c, interior 1, high 2      a . b . c .      and 1 more
 *
 * Rows whose number nobody knows are refused by the pad itself, if it has something to do. */
static void put_between(tsr_pad_args *args, tsr__pad_attr *attr, const char *site)
{
  for (int d = 0; d < args->x->shape.rank; d++) {
    int64_t count = args->interior[d], size = args->x->shape.dims[d];
    if (!count || (size >= 0 && size < 2)) continue;
    if (size == TSR__DYNAMIC) {
      attr->high[d] = count;
      return;
    }
    args->x = tsr__spread_dim(args, d, count + 1, 0, site);
    if (args->x->inert) return;
    attr->high[d] -= attr->high[d] < -MOST ? 0 : count;
  }
}

/* What stands around is an operand, so that another number runs the same plan. */
tsr_array *tsr_pad_at(const tsr_pad_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "pad");
  tsr_pad_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_pad", given, &args, sizeof args, &error);
  tsr_array *x = given ? given->x : NULL;
  bool usable = tsr__usable(x);
  if (usable && (status || check_interior(&args, &error))) return tsr__refused(x, &error, site);
  tsr__pad_attr attr;
  memcpy(attr.low, args.low, sizeof attr.low);
  memcpy(attr.high, args.high, sizeof attr.high);
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  tsr_array *value = usable ? border(x, args.value, site) : x;
  if (usable && !value->inert) {
    args.value = tsr_operand_array(value);
    put_between(&args, &attr, site);
    x = args.x;
  }
  return tsr__make(NULL, TSR__OP_PAD, TSR__IN(x, value), &ask, site);
}

/* Only NULL is looked for, which has no shape; all else is inference's. */
tsr_array *tsr_concat_at(tsr_array *const *arrays, int count, int dim, const char *site)
{
  tsr__operands in = { arrays, arrays && count > 0 ? count : 0 };
  const tsr_array *first = in.count ? arrays[0] : NULL;
  for (int i = 0; i < in.count; i++) {
    if (arrays[i]) continue;
    tsr_scope *scope = tsr__home_of(in);
    tsr__fail(scope, site, TSR_EARG, "tsr_concat: operand %d is NULL; give an array", i + 1);
    return tsr__make_inert(scope, site);
  }
  if (dim < 0 && first && !first->inert) dim += first->shape.rank;
  return tsr__make(NULL, TSR__OP_CONCAT, in, &(tsr__ask){ TSR__ATTR(tsr__dim_attr, .dim = dim) },
                   site);
}

/* ---- picking ---- */

tsr_array *tsr__pick_dim(tsr_array *a, int dim, const int32_t *picks, int64_t count,
                         const char *site)
{
  if (a->inert) return a;
  tsr_scope *scope = tsr__home(a);
  bool same = count == a->shape.dims[dim], gaps = false;
  for (int64_t i = 0; i < count; i++) {
    same &= picks[i] == i;
    gaps |= picks[i] < 0;
  }
  if (same) return a;
  bool fits = count < INT32_MAX / 8; /* as the attributes of a program do */
  tsr__pick_attr *attr = fits ? tsr__arena_new(&scope->arena, tsr__pick_bytes(count)) : NULL;
  if (!attr) {
    tsr__fail(scope, site, TSR_ENOMEM, "no memory for a table of %lld elements", (long long)count);
    return tsr__make_inert(scope, site);
  }
  attr->dim = dim;
  memcpy(attr->picks, picks, (size_t)count * sizeof *picks);
  tsr__ask ask = { .attr = attr, .attr_bytes = tsr__pick_bytes(count) };
  tsr_array *zero =
      gaps ? tsr__make_const(scope, (tsr_dtype)a->dtype, (tsr__num){ 0 }, site) : NULL;
  return tsr__make(NULL, TSR__OP_PICK, TSR__IN(a, zero), &ask, site);
}

/* ---- diagonals ---- */

/* A view like the others: devices that show elements of it and lack them get those alone, however
 * the matrix is cut. A diagonal outside of the matrix is the empty one at its edge:
 *
 *   3 x 4     offset 1: elements (0,1) (1,2) (2,3)     offset 4 and more, -3 and less: none */
tsr_array *tsr__diagonal(tsr_array *a, int dim, int64_t offset, const char *site)
{
  if (a->inert) return a;
  int64_t rows = a->shape.dims[dim], columns = a->shape.dims[dim + 1];
  if (offset < -rows) offset = -rows;
  if (offset > columns) offset = columns;
  tsr__ask ask = { TSR__ATTR(tsr__diagonal_attr, .dim = dim, .offset = offset) };
  return tsr__make(NULL, TSR__OP_DIAGONAL, TSR__IN(a), &ask, site);
}

/* ---- rolling ---- */

/* Both operands of the node are the array: elements come of the one or the other. */
static tsr_array *roll_one(tsr_array *a, int64_t shift, int dim, const char *site)
{
  int64_t size = a->shape.dims[dim];
  /* The remainder has the sign of the shift; one turn more makes it positive. */
  if (size > 0) shift = shift % size + (shift % size < 0 ? size : 0);
  tsr__ask ask = { TSR__ATTR(tsr__roll_attr, .dim = dim, .count = size > 0 ? shift : 0) };
  return tsr__make(NULL, TSR__OP_ROLL, TSR__IN(a, a), &ask, site);
}

tsr_array *tsr_roll_at(tsr_array *a, const int64_t *shifts, const int *dims, int count,
                       const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr__make(NULL, TSR__OP_ROLL, TSR__IN(a, a), &(tsr__ask){ 0 }, site);
  if (count < 0 || (count && (!shifts || !dims))) {
    tsr__error_set(&error, TSR_EARG, "tsr_roll: %d shifts%s for %s; give as many dims as shifts",
                   count, shifts && dims ? "" : " or dims that are NULL", tsr_type_of(a));
    return tsr__refused(a, &error, site);
  }
  /* One dim after the other: each is a view of the one before. */
  for (int i = 0; i < count; i++) {
    int dim = dims[i];
    if (tsr__find_dim(a, &dim, "tsr_roll", &error)) return tsr__refused(a, &error, site);
    a = roll_one(a, shifts[i], dim, site);
  }
  return a;
}
