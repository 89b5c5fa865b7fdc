/* Windows: convolutions are products along windows (tsr__dot_attr), reductions of windows are made
 * of slices.
 *
 *   reduce_window of size 5      twos = x op x[1:]                      the sizes double, what is
 *                                fours = twos op twos[2:]               left is added at the end,
 *                                fives = fours op x[4:]                 dim after dim
 *
 * Strides are taken by the last slices, so that what no window shows is not computed there. */
#include "tessera/windows.h"

#include <math.h>
#include <stdio.h>

#include "array/products_room.h"
#include "tessera/indexing.h"
#include "tessera/shape.h"

enum { SPATIAL = 3 };

static int64_t or_one(int64_t n)
{
  return n ? n : 1;
}

static tsr_array *fail(tsr_array *x, tsr_status status, const char *what, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  char type[160];
  tsr_type_text((tsr_dtype)x->dtype, x->shape, NULL, type, sizeof type);
  tsr__error_set(&error, status, "%s; found %s", what, type);
  return tsr__refused(x, &error, site);
}

/* Numbers that a call was given by dim; 0 stands for the usual one. */
typedef struct asked {
  const char *name; /* of the field */
  const int64_t *of;
  int64_t least, most;
  /* The text behind the semicolon of the message: what to do instead. */
  const char *way_out;
} asked;

#define STRIDES(a, usual)                      \
  {                                            \
    "stride", (a)->stride, 1, INT64_MAX, usual \
  }
#define BORDERS(a)                                              \
  { "low", (a)->low, 0, INT64_MAX, "slice the array instead" }, \
  {                                                             \
    "high", (a)->high, 0, INT64_MAX, "slice the array instead"  \
  }

/* Names the first number that cannot be. `kinds` end with one without a name. */
static tsr_status check_asked(const char *call, tsr_array *x, int dims, const asked *kinds,
                              tsr__error *error)
{
  char upto[32] = " or more";
  for (const asked *k = kinds; k->name; k++)
    for (int i = 0; i < dims; i++) {
      int64_t n = k->of[i];
      /* 0 is a field that was left out. */
      if (!n || (n >= k->least && n <= k->most)) continue;
      /* An end is named only where there is one. */
      if (k->most < INT64_MAX) snprintf(upto, sizeof upto, " to %lld", (long long)k->most);
      return tsr__error_set(error, TSR_EARG, "%s: .%s[%d] of %s is %lld, expected %lld%s; %s", call,
                            k->name, i, tsr_type_of(x), (long long)n, (long long)k->least, upto,
                            k->way_out);
    }
  return TSR_OK;
}

/* x within borders of a number. */
static tsr_array *bordered(tsr_array *x, const int64_t *low, const int64_t *high, tsr_operand value,
                           const char *site)
{
  tsr_pad_args pad = { .size = sizeof pad, .x = x, .value = value };
  /* No node where nothing is bordered. */
  bool any = false;
  for (int d = 0; d < x->shape.rank; d++) {
    pad.low[d] = low[d];
    pad.high[d] = high[d];
    any |= low[d] || high[d];
  }
  return any ? tsr_pad_at(&pad, site) : x;
}

/* Elements first, first + step, ... of a dim, `count` of them. */
static tsr_array *sliced(tsr_array *x, int dim, int64_t first, int64_t step, int64_t count,
                         const char *site)
{
  tsr_range ranges[TSR_MAX_RANK];
  for (int d = 0; d < x->shape.rank; d++) ranges[d] = (tsr_range){ 0, TSR_END, 1 };
  /* A range of no elements begins and ends at one place. */
  ranges[dim] = (tsr_range){ first, count ? first + (count - 1) * step + 1 : first, step };
  return tsr_slice_at(x, ranges, x->shape.rank, site);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* n - 1 zeros between the elements of a dim: each place looks where it comes from. */
static tsr_array *spaced(tsr_array *x, int dim, int64_t n, const char *site)
{
  int64_t size = x->shape.dims[dim];
  if (n == 1 || size < 2 || x->inert) return x;
  tsr_scope *scope = tsr__home(x);
  tsr_shape shape = x->shape;
  /* The last element has no zeros behind it. */
  shape.dims[dim] = (size - 1) * n + 1;
  tsr_shape line = { .rank = 1, .dims = { shape.dims[dim] } };
  tsr_sharding anywhere = { 0 };
  tsr_array *from = tsr_iota_at(scope, TSR_I64, line, 0, anywhere, site);
  tsr_array *at = tsr_iota_at(scope, TSR_I64, shape, dim, anywhere, site);
  tsr_take_args take = { .size = sizeof take, .x = x, .dim = dim };
  /* The element left of each place; those between are then zeros. Taking and choosing, no product:
   * 0 times NaN or infinity would not be 0. */
  take.indices = tsr_floordiv_at(from, tsr_operand_int(n), site);
  tsr_array *taken = tsr_take_at(&take, site);
  tsr_array *there = tsr_eq_at(tsr_mod_at(at, tsr_operand_int(n), site), tsr_operand_int(0), site);
  tsr_array *zero =
      tsr__number_node(scope, tsr_scalar_int(0), (tsr_dtype)x->dtype, "tsr_conv", site);
  return tsr_where_at(there, tsr_operand_array(taken), tsr_operand_array(zero), site);
}

/* Whether operand and kernel have shapes that go together; the text, or NULL. */
static const char *wrong_shapes(const tsr_conv_args *a)
{
  const tsr_shape *x = &a->x->shape, *k = &a->kernel->shape;
  if (x->rank < 3 || x->rank > SPATIAL + 2 || k->rank != x->rank)
    return "expected [batch, 1 to 3 spatial dims, channels] and a kernel of as many dims";
  int64_t in = x->dims[x->rank - 1], out = k->dims[k->rank - 1], groups = a->groups;
  /* Channels go in equal groups; a kernel sees those of its own group. */
  if (groups < 1 || in % groups || out % groups || k->dims[k->rank - 2] != in / groups)
    return "expected a kernel of [spatial dims, channels in / groups, channels out], both channels "
           "multiples of the groups";
  return NULL;
}

/* What a call says, made whole: nothing is 0 but borders. */
static tsr_status complete_conv(tsr_conv_args *a, tsr__error *error)
{
  const asked kinds[] = { STRIDES(a, "leave it out for 1"),
                          { "dilation", a->dilation, 1, INT32_MAX, "leave it out for 1" },
                          { "input_dilation", a->input_dilation, 1, INT32_MAX,
                            "leave it out for 1" },
                          BORDERS(a),
                          { 0 } };
  a->groups = or_one(a->groups);
  const char *wrong = wrong_shapes(a);
  if (wrong)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_conv: %s; found %s and a kernel %s with %lld groups", wrong,
                          tsr_type_of(a->x), tsr_type_of(a->kernel), (long long)a->groups);
  int spatial = a->x->shape.rank - 2;
  if (check_asked("tsr_conv", a->x, spatial, kinds, error)) return error->status;
  for (int i = 0; i < spatial; i++) {
    a->stride[i] = or_one(a->stride[i]);
    a->dilation[i] = or_one(a->dilation[i]);
    a->input_dilation[i] = or_one(a->input_dilation[i]);
  }
  return TSR_OK;
}

/* Borders that keep ceil(size / stride) windows. The window of a dilated kernel is (n - 1) dilation
 * + 1 long. Of an odd border the larger half is behind, as XLA's SAME has it. */
static void keep_size(tsr_conv_args *a, int i, int64_t size)
{
  int64_t window = (a->kernel->shape.dims[i] - 1) * a->dilation[i] + 1;
  int64_t windows = (size + a->stride[i] - 1) / a->stride[i];
  int64_t need = (windows - 1) * a->stride[i] + window - size;
  /* What all windows reach beyond the array. */
  a->low[i] = need > 0 ? need / 2 : 0;
  a->high[i] = need > 0 ? need - need / 2 : 0;
}

/* The last dim as groups and what one has. */
static tsr_array *in_groups(tsr_array *x, int64_t groups, const char *site)
{
  return groups == 1 ? x : tsr__split_dim(x, x->shape.rank - 1, groups, site);
}

/* x [batch, places, groups, channels], kernel [places, channels, groups, features]: groups are one
 * more index that runs in all three. Indices of the contraction, spatial dims s = 1 .. n:
 *
 *    x        batch   places (window s)   group   channels
 *    kernel           s                           channels   group  features
 *    result   batch   places                                 group  features */
static tsr_array *convolve(const tsr_conv_args *a, tsr_array *x, tsr_array *kernel,
                           const char *site)
{
  /* Numbers of indices: 1 .. spatial are the kernel's places, the others follow. */
  int spatial = x->shape.rank - 2, grouped = a->groups > 1;
  uint8_t channels = (uint8_t)(spatial + 1), batch = (uint8_t)(spatial + 2);
  uint8_t features = (uint8_t)(spatial + 3), group = (uint8_t)(spatial + 4);
  uint8_t places = (uint8_t)(spatial + 4 + grouped); /* of windows, one a spatial dim */
  tsr__contraction c = { .name = "tsr_conv", .dtype = a->dtype, .reproducible = a->reproducible };
  c.a = in_groups(x, a->groups, site);
  c.b = in_groups(kernel, a->groups, site);
  c.at.left[0] = c.at.out[0] = batch;
  for (int i = 0; i < spatial; i++) {
    c.at.window[i + 1] = c.at.right[i] = (uint8_t)(i + 1);
    c.at.left[i + 1] = c.at.out[i + 1] = (uint8_t)(places + i);
    c.at.stride[i + 1] = a->stride[i];
    c.at.dilation[i + 1] = a->dilation[i];
  }
  if (grouped) c.at.left[spatial + 1] = c.at.right[spatial + 1] = c.at.out[spatial + 1] = group;
  /* Channels are contracted: the result has none. */
  c.at.left[spatial + 1 + grouped] = c.at.right[spatial] = channels;
  c.at.right[spatial + 1 + grouped] = c.at.out[spatial + 1 + grouped] = features;
  tsr_array *out = tsr__contract(&c, site);
  /* Groups and their features were one dim in the kernel, and are one again. */
  return grouped ? tsr__join_dims(out, spatial + 1, site) : out;
}

tsr_array *tsr_conv_at(const tsr_conv_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "conv");
  tsr_conv_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_conv", given, &args, sizeof args, &error);
  if (status && given) args.x = given->x, args.kernel = given->kernel;
  tsr_array *x = args.x, *kernel = args.kernel;
  /* Which of the two is wrong, and how, the product says. */
  if (!x || !kernel || x->inert || kernel->inert)
    return tsr__contract(&(tsr__contraction){ .name = "tsr_conv", .a = x, .b = kernel }, site);
  if (status || complete_conv(&args, &error))
    return tsr__refused_of(TSR__IN(x, kernel), &error, site);
  int64_t low[TSR_MAX_RANK] = { 0 }, high[TSR_MAX_RANK] = { 0 };
  int spatial = x->shape.rank - 2;
  for (int i = 0; i < spatial; i++) {
    x = spaced(x, i + 1, args.input_dilation[i], site);
    /* Of the size after dilation: that is what windows move over. */
    if (args.same) keep_size(&args, i, x->shape.dims[i + 1]);
    low[i + 1] = args.low[i];
    high[i + 1] = args.high[i];
  }
  x = bordered(x, low, high, tsr_operand_int(0), site);
  if (x->inert) return x; /* it has no dims */
  return convolve(&args, x, kernel, site);
}

/* ---- reductions of windows ------------------------------------------------------------------- */

static bool is_extreme(tsr_window_op op)
{
  return op == TSR_WINDOW_MAX || op == TSR_WINDOW_MIN;
}

/* Of equal extremes the first of a window has the gradient, as in JAX. */
static tsr_array *extreme(tsr__op op, tsr_array *a, tsr_array *b, const char *site)
{
  tsr__ask first = { TSR__ATTR(tsr__tie_attr, .first = 1) }, none = { 0 };
  return tsr__make(NULL, op, TSR__IN(a, b), tsr__of_floats(a) ? &first : &none, site);
}

static tsr_array *both(tsr_window_op op, tsr_array *a, tsr_array *b, const char *site)
{
  tsr_operand second = tsr_operand_array(b);
  switch (op) {
  case TSR_WINDOW_MAX: return extreme(TSR__OP_MAXIMUM, a, b, site);
  case TSR_WINDOW_MIN: return extreme(TSR__OP_MINIMUM, a, b, site);
  case TSR_WINDOW_PROD: return tsr_mul_at(a, second, site);
  default: return tsr_add_at(a, second, site);
  }
}

/* Which windows are made along a dim: so many, so far apart. */
typedef struct walk {
  int dim;
  int64_t step, count;
} walk;

/* Windows of n elements along a dim, `dilation` apart: halves, joined, and the odd one. */
static tsr_array *along(const tsr_window_args *a, tsr_array *x, int64_t n, walk w, const char *site)
{
  int64_t dilation = a->dilation[w.dim], half = 1;
  /* A window of one element is that element. */
  if (n == 1) return sliced(x, w.dim, 0, w.step, w.count, site);
  /* By doubling: n elements take about log2(n) operations instead of n - 1. Order does not matter
   * to the extremes, and sums go on in f64. */
  while (half * 2 <= n / 2) half *= 2; /* the largest power of two that fits twice */
  tsr_array *halves = x;
  for (int64_t size = 1; size < half; size *= 2) {
    /* Behind the last element that has a partner nothing is to be made. */
    int64_t left = halves->shape.dims[w.dim] - size * dilation;
    halves = both(a->op, sliced(halves, w.dim, 0, 1, left, site),
                  sliced(halves, w.dim, size * dilation, 1, left, site), site);
  }
  tsr_array *out = both(a->op, sliced(halves, w.dim, 0, w.step, w.count, site),
                        sliced(halves, w.dim, half * dilation, w.step, w.count, site), site);
  int64_t rest = n - 2 * half;
  if (!rest || out->inert) return out;
  /* What the two halves leave over stands behind both. */
  int64_t skip = 2 * half * dilation;
  tsr_array *behind = sliced(x, w.dim, skip, 1, x->shape.dims[w.dim] - skip, site);
  return both(a->op, out, along(a, behind, rest, w, site), site);
}

/* What changes nothing beside other elements. */
static tsr_operand neutral(tsr_window_op op, tsr_dtype dtype)
{
  bool real = tsr__dtype_is_real(dtype),
       natural = tsr__dtype_info_of(dtype)->kind == TSR__DTYPE_UINT;
  int bits = (int)tsr_dtype_size(dtype) * 8;
  /* -0 + x is x for all x, -0 too; 0 + -0 would be 0. */
  if (op == TSR_WINDOW_SUM) return real ? tsr_operand_float(-0.0) : tsr_operand_int(0);
  if (op == TSR_WINDOW_PROD) return tsr_operand_int(1);
  bool largest = op == TSR_WINDOW_MIN;
  if (real) return tsr_operand_float(largest ? (double)INFINITY : -(double)INFINITY);
  if (dtype == TSR_BOOL) return tsr_operand_bool(largest);
  if (natural) return tsr_operand_uint(largest ? UINT64_MAX >> (64 - bits) : 0);
  return tsr_operand_int(largest ? INT64_MAX >> (64 - bits) : INT64_MIN >> (64 - bits));
}

/* What is asked of dims that the array has not. */
static tsr_status check_beyond(const tsr_window_args *a, tsr__error *error)
{
  int rank = a->x->shape.rank;
  for (int d = rank; d < TSR_MAX_RANK; d++)
    if (a->window[d] > 1 || a->window[d] < 0 || a->low[d] || a->high[d])
      return tsr__error_set(error, TSR_EARG,
                            "tsr_reduce_window: windows or borders are set for dim %d of %s, an "
                            "array of %d dims; leave them out",
                            d, tsr_type_of(a->x), rank);
  return TSR_OK;
}

/* Fields that are 0 become 1, so that nobody behind has to ask. */
static tsr_status complete_windows(tsr_window_args *a, tsr__error *error)
{
  const asked kinds[] = { { "window", a->window, 1, INT64_MAX, "leave it out for 1" },
                          STRIDES(a, "leave it out for 1"),
                          { "dilation", a->dilation, 1, INT64_MAX, "leave it out for 1" },
                          BORDERS(a),
                          { 0 } };
  int rank = a->x->shape.rank;
  if (a->op < TSR_WINDOW_SUM || a->op > TSR_WINDOW_PROD)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_reduce_window: .op is %d, expected a value of tsr_window_op",
                          (int)a->op);
  if (check_asked("tsr_reduce_window", a->x, rank, kinds, error) || check_beyond(a, error))
    return error->status;
  for (int d = 0; d < rank; d++) {
    a->window[d] = or_one(a->window[d]);
    a->stride[d] = or_one(a->stride[d]);
    a->dilation[d] = or_one(a->dilation[d]);
    if (a->x->shape.dims[d] < 0)
      return tsr__error_set(error, TSR_EARG,
                            "tsr_reduce_window: the array is %s, expected sizes that are known "
                            "before the run; rebalance its rows",
                            tsr_type_of(a->x));
  }
  return TSR_OK;
}

tsr_array *tsr_reduce_window_at(const tsr_window_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "reduce_window");
  tsr_window_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_reduce_window", given, &args, sizeof args, &error);
  tsr_array *x = args.x = given ? given->x : NULL;
  if (!x || x->inert) return tsr_neg_at(x, site);
  if (status || complete_windows(&args, &error)) return tsr__refused(x, &error, site);
  tsr_dtype dtype = (tsr_dtype)x->dtype;
  bool adds = args.op == TSR_WINDOW_SUM || args.op == TSR_WINDOW_PROD;
  if (adds && dtype == TSR_BOOL)
    return fail(
        x, TSR_EDTYPE,
        "tsr_reduce_window: bools cannot be added or multiplied; convert the array with tsr_cast",
        site);
  /* Borders first, and in the dtype of x, which says what the neutral element is. */
  tsr_array *y = bordered(x, args.low, args.high, neutral(args.op, dtype), site);
  /* Sums of f32 and less are then rounded once at the end, whatever the windows' order. */
  if (adds && tsr__dtype_rounds(dtype)) y = tsr_cast_at(y, TSR_F64, site);
  for (int i = 0; i < x->shape.rank && !y->inert; i++) {
    /* The last dim first, so that the first of equal extremes is the first in C order. */
    int d = is_extreme(args.op) ? x->shape.rank - 1 - i : i;
    int64_t size = y->shape.dims[d], window = args.window[d];
    /* Divided, not multiplied: a window times a dilation may be beyond 64 bits. */
    bool fits = size && window - 1 <= (size - 1) / args.dilation[d];
    int64_t room = fits ? size - 1 - (window - 1) * args.dilation[d] : 0;
    walk w = { d, args.stride[d], fits ? room / args.stride[d] + 1 : 0 };
    if (window == 1 && w.step == 1) continue;
    /* A window that is larger than the array stands nowhere: a dim of size 0. */
    y = fits ? along(&args, y, window, w, site) : sliced(y, d, 0, 1, 0, site);
  }
  return tsr_cast_at(y, dtype, site);
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* A pool's arguments and the windows of a reduction that they make. */
typedef struct pool {
  tsr_pool_args args;
  tsr_window_args windows;
} pool;

static tsr_status take_pool(const char *name, pool *p, tsr__error *error)
{
  const tsr_pool_args *a = &p->args;
  tsr_window_args *w = &p->windows;
  const asked kinds[] = { { "window", a->window, 1, INT64_MAX, "leave it out for 1" },
                          STRIDES(a, "leave it out for the window's"),
                          BORDERS(a),
                          { 0 } };
  int rank = a->x->shape.rank;
  if (rank < 3 || rank > SPATIAL + 2)
    return tsr__error_set(error, TSR_ESHAPE,
                          "%s: the array is %s, expected [batch, 1 to 3 spatial dims, channels]; "
                          "use tsr_reduce_window",
                          name, tsr_type_of(a->x));
  if (check_asked(name, a->x, rank - 2, kinds, error)) return error->status;
  for (int i = 0; i < rank - 2; i++) {
    w->window[i + 1] = or_one(a->window[i]);
    /* Pools move by their windows if nothing else is said; a reduction by 1. */
    w->stride[i + 1] = a->stride[i] ? a->stride[i] : w->window[i + 1];
    w->low[i + 1] = a->low[i];
    w->high[i + 1] = a->high[i];
  }
  return TSR_OK;
}

/* Reads the arguments of a pool; false: `failed` is its result. */
static bool open_pool(const char *name, const tsr_pool_args *given, pool *out, const char *site,
                      tsr_array **failed)
{
  tsr__error error = { .status = TSR_OK };
  out->args = (tsr_pool_args){ .size = sizeof out->args };
  tsr_status status = tsr__take_opts(name, given, &out->args, sizeof out->args, &error);
  tsr_array *x = out->args.x = given ? given->x : NULL;
  out->windows = (tsr_window_args){ .size = sizeof out->windows, .x = x };
  if (!x || x->inert) *failed = tsr_neg_at(x, site);
  else if (status || take_pool(name, out, &error)) *failed = tsr__refused(x, &error, site);
  else return true;
  return false;
}

tsr_array *tsr_max_pool_at(const tsr_pool_args *args, const char *site)
{
  TSR__CALL(tsr__home(args ? args->x : NULL), "max_pool");
  pool p;
  tsr_array *failed;
  if (!open_pool("tsr_max_pool", args, &p, site, &failed)) return failed;
  p.windows.op = TSR_WINDOW_MAX;
  return tsr_reduce_window_at(&p.windows, site);
}

/* Borders are made in the dtype of x, so that what is wrong with them is said of that. */
tsr_array *tsr_avg_pool_at(const tsr_pool_args *args, const char *site)
{
  TSR__CALL(tsr__home(args ? args->x : NULL), "avg_pool");
  pool p;
  tsr_array *failed;
  double count = 1;
  if (!open_pool("tsr_avg_pool", args, &p, site, &failed)) return failed;
  tsr_array *x = p.windows.x;
  tsr_dtype dtype = tsr__dtype_of_functions((tsr_dtype)x->dtype);
  tsr_window_args within = p.windows;
  within.x =
      bordered(x, within.low, within.high, neutral(TSR_WINDOW_SUM, (tsr_dtype)x->dtype), site);
  within.x = tsr_cast_at(within.x, TSR_F64, site);
  /* They are made already. */
  memset(within.low, 0, sizeof within.low);
  memset(within.high, 0, sizeof within.high);
  tsr_array *sum = tsr_reduce_window_at(&within, site);
  for (int d = 0; d < TSR_MAX_RANK; d++) count *= (double)or_one(p.windows.window[d]);
  tsr_operand divisor = tsr_operand_float(count);
  /* Only what lies in the array counts: as many ones as each window shows of it. */
  if (p.args.inside) {
    p.windows.x =
        tsr_full_at(tsr__home(x), tsr_operand_int(1), TSR_F64, x->shape, (tsr_sharding){ 0 }, site);
    divisor = tsr_operand_array(tsr_reduce_window_at(&p.windows, site));
  }
  return tsr_cast_at(tsr_div_at(sum, divisor, site), dtype, site);
}
