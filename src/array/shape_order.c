/* Dims and elements in another order, made of transposes, flips and slices.
 *
 *   pad_like  wrap        | 0 1 2 | 0 1 2 | 0 1 2 |       segments: the array ...
 *             symmetric   | 2 1 0 | 0 1 2 | 2 1 0 |       ... and in turn the array turned
 *             reflect       2 1 | 0 1 | 2 1 | 0 1           ... without its last element */
#include "array/array_room.h"
#include "tessera/shape.h"

/* From 0 to 2, a b c d is b c a d: all others keep their order. */
tsr_array *tsr_moveaxis_at(tsr_array *a, int from, int to, const char *site)
{
  TSR__CALL(tsr__home(a), "moveaxis");
  tsr__error error = { .status = TSR_OK };
  int order[TSR_MAX_RANK];
  if (!a || a->inert) return tsr_transpose_at(a, NULL, 0, site);
  if (tsr__find_dim(a, &from, "tsr_moveaxis", &error) ||
      tsr__find_dim(a, &to, "tsr_moveaxis", &error))
    return tsr__refused(a, &error, site);
  for (int d = 0, next = 0; d < a->shape.rank; d++) {
    /* `next` runs through the dims but for the one that moves. */
    next += next == from;
    order[d] = d == to ? from : next++;
  }
  return tsr_transpose_at(a, order, a->shape.rank, site);
}

tsr_array *tsr__move_dim(tsr_array *a, int from, int to, const char *site)
{
  return from == to || a->inert ? a : tsr_moveaxis_at(a, from, to, site);
}

tsr_array *tsr_swapaxes_at(tsr_array *a, int one, int other, const char *site)
{
  TSR__CALL(tsr__home(a), "swapaxes");
  tsr__error error = { .status = TSR_OK };
  int order[TSR_MAX_RANK];
  if (!a || a->inert) return tsr_transpose_at(a, NULL, 0, site);
  if (tsr__find_dim(a, &one, "tsr_swapaxes", &error) ||
      tsr__find_dim(a, &other, "tsr_swapaxes", &error))
    return tsr__refused(a, &error, site);
  for (int d = 0; d < a->shape.rank; d++) order[d] = d == one ? other : d == other ? one : d;
  return tsr_transpose_at(a, order, a->shape.rank, site);
}

static tsr_array *flip_one(tsr_array *a, int dim, const char *site)
{
  return tsr_flip_at(a, (tsr_dims){ .bits = UINT32_C(1) << dim }, site);
}

/* A quarter turn is a flip and a swap of the two dims, which are views:
 *
 *    a b    flip dim 1    b a    swap    b d
 *    c d                  d c            a c */
tsr_array *tsr_rot90_at(tsr_array *a, int64_t times, int first, int second, const char *site)
{
  TSR__CALL(tsr__home(a), "rot90");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr_transpose_at(a, NULL, 0, site);
  if (tsr__find_dim(a, &first, "tsr_rot90", &error) ||
      tsr__find_dim(a, &second, "tsr_rot90", &error))
    return tsr__refused(a, &error, site);
  if (first == second) {
    tsr__error_set(&error, TSR_EARG,
                   "tsr_rot90: %s cannot be turned in the plane of dim %d with itself; name two "
                   "different dims",
                   tsr_type_of(a), first);
    return tsr__refused(a, &error, site);
  }
  /* Quarter turns; & 3 is right for negative numbers, too. */
  switch (times & 3) {
  case 0: return tsr_slice_at(a, NULL, 0, site);
  case 1: return tsr_swapaxes_at(flip_one(a, second, site), first, second, site);
  case 2: return flip_one(flip_one(a, first, site), second, site);
  default: return flip_one(tsr_swapaxes_at(a, first, second, site), second, site);
  }
}

/* ---- differences ---- */

static tsr_array *neighbours(tsr_array *a, int dim, const char *site)
{
  tsr_array *later = tsr__part(a, dim, TSR_RANGE(1, TSR_END), site);
  tsr_operand former = tsr_operand_array(tsr__part(a, dim, TSR_RANGE(0, -1), site));
  /* NumPy's: bools that differ from the one before. */
  if (!later->inert && later->dtype == TSR_BOOL) return tsr_ne_at(later, former, site);
  return tsr_sub_at(later, former, site);
}

tsr_array *tsr_diff_at(tsr_array *a, int times, int dim, const char *site)
{
  TSR__CALL(tsr__home(a), "diff");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr_slice_at(a, NULL, 0, site);
  if (tsr__find_dim(a, &dim, "tsr_diff", &error)) return tsr__refused(a, &error, site);
  if (times < 0) {
    tsr__error_set(&error, TSR_EARG,
                   "tsr_diff: the number of differences is %d for %s, expected 0 or more", times,
                   tsr_type_of(a));
    return tsr__refused(a, &error, site);
  }
  /* Nothing is left to take differences of where the dim is empty. */
  for (int i = 0; i < times && !a->inert && a->shape.dims[dim] != 0; i++)
    a = neighbours(a, dim, site);
  return a;
}

/* ---- borders of the array's own elements ---- */

/* One element along the dim, `count` times. */
static tsr_array *border_of(tsr_array *x, int dim, int64_t at, int64_t count, const char *site)
{
  tsr_array *one = tsr__part(x, dim, TSR_RANGE(at, at + 1), site);
  tsr_shape shape = x->shape;
  shape.dims[dim] = count;
  return tsr_broadcast_to_at(one, shape, site);
}

/* The elements at low <= index < high of an endless row of segments, which are the array along the
 * dim and, in between, the array turned; `length`: how much of it a segment has. */
typedef struct segments {
  tsr_array *x;
  int dim;
  int64_t length;
  bool turns;
} segments;

/* Of segment m the part within the range; its elements are m * length and following. Of 0 1 2
 * wrapped from -4 on, segment -2 gives its last element, and -1 and 0 give all of theirs. */
static tsr_array *segment(const segments *s, int64_t m, int64_t low, int64_t high, const char *site)
{
  int64_t from = m * s->length, first = low > from ? low - from : 0;
  int64_t end = high < from + s->length ? high - from : s->length;
  tsr_array *x = s->turns && m % 2 ? flip_one(s->x, s->dim, site) : s->x;
  return tsr__part(x, s->dim, TSR_RANGE(first, end), site);
}

static tsr_array *repeated(const segments *s, int64_t low, int64_t high, const char *site)
{
  /* Rounded down, for the borders lie at negative numbers. Segment m begins at m * length. */
  int64_t first = low / s->length - (low % s->length < 0), last = (high - 1) / s->length;
  tsr__heap *heap = &s->x->node.scope->rt->heap;
  size_t count = (size_t)(last - first) + 1, bytes = count * sizeof(tsr_array *);
  tsr_array **parts = count <= INT32_MAX ? tsr__new(heap, bytes) : NULL;
  if (!parts) {
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_ENOMEM,
                   "tsr_pad_like: no memory for %zu pieces of the border; give smaller borders",
                   count);
    return tsr__refused(s->x, &error, site);
  }
  for (size_t i = 0; i < count; i++) parts[i] = segment(s, first + (int64_t)i, low, high, site);
  tsr_array *out = tsr_concat_at(parts, (int)count, s->dim, site);
  tsr__del(heap, parts, bytes);
  return out;
}

static tsr_array *pad_dim(const tsr_pad_args *args, tsr_array *x, int dim, tsr_pad_mode mode,
                          const char *site)
{
  int64_t low = args->low[dim], high = args->high[dim], size = x->shape.dims[dim];
  segments s = { x, dim, size, mode != TSR_PAD_WRAP };
  /* A reflection does not show the border twice, so a segment is one shorter than the array. */
  if (mode == TSR_PAD_REFLECT) s.length--;
  /* A dim of one element has no segment to reflect: its element is the border. Copies of one
   * element are a broadcast, others a row of segments. */
  if (mode != TSR_PAD_EDGE && s.length > 0) return repeated(&s, -low, size + high, site);
  tsr_array *const parts[] = { border_of(x, dim, 0, low, site), x,
                               border_of(x, dim, size - 1, high, site) };
  return tsr_concat_at(parts, 3, dim, site);
}

static tsr_status check_borders(const tsr_pad_args *args, int mode, tsr__error *error)
{
  const tsr_array *x = args->x;
  if (mode < TSR_PAD_EDGE || mode > TSR_PAD_SYMMETRIC)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_pad_like: mode %d, expected a value of tsr_pad_mode", mode);
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    if (args->interior[d])
      return tsr__error_set(error, TSR_EARG,
                            "tsr_pad_like: .interior is %lld for dim %d, expected 0, as no element "
                            "can be repeated there; use tsr_pad with a number",
                            (long long)args->interior[d], d);
    if (!args->low[d] && !args->high[d]) continue;
    /* Sums of both and the size stay within 64 bits. */
    const int64_t most = INT64_MAX / 4;
    bool there = d < x->shape.rank, good = args->low[d] >= 0 && args->high[d] >= 0;
    if (!there || !good || args->low[d] > most || args->high[d] > most)
      return tsr__error_set(error, TSR_EARG,
                            "tsr_pad_like: %lld elements before and %lld after dim %d of %s: %s",
                            (long long)args->low[d], (long long)args->high[d], d,
                            tsr_type_of(args->x),
                            there ? "expected 0 or more, and a result that fits 63 bits"
                                  : "the array has no such dim; name one of its dims");
    if (!x->shape.dims[d])
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_pad_like: dim %d of %s has no element to repeat in its border; "
                            "use tsr_pad with a number",
                            d, tsr_type_of(args->x));
  }
  return TSR_OK;
}

tsr_array *tsr_pad_like_at(const tsr_pad_args *given, tsr_pad_mode mode, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "pad_like");
  tsr_pad_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_array *x = given ? given->x : NULL;
  if (!x || x->inert) return tsr_slice_at(x, NULL, 0, site);
  if (tsr__take_opts("tsr_pad_like", given, &args, sizeof args, &error) ||
      check_borders(&args, (int)mode, &error))
    return tsr__refused(x, &error, site);
  /* Dim after dim: corners are made of borders. */
  for (int d = 0; d < args.x->shape.rank && !x->inert; d++)
    if (args.low[d] || args.high[d]) x = pad_dim(&args, x, d, mode, site);
  return x;
}
