/* Any bytes as a program of calls on arrays, with any arguments: never a crash; what is refused is
 * inert and has a message; what is taken has the same type, and the same bits or the same error at
 * the run, on one device and on a mesh.
 *
 * Bytes: dtypes and shapes of three arrays, where they lie, then a call after the other: which, of
 * which arrays, and numbers. */
#include "fuzz.h"
#include "tessera.h"

enum { LEAVES = 3, CALLS = 10, MOST = 4096 };

typedef struct world {
  fuzz_bytes bytes;
  tsr_scope *s;
  const tsr_mesh *mesh; /* NULL: one device */
  tsr_array *made[LEAVES + CALLS];
  int count;
} world;

static uint8_t byte(world *w)
{
  return fuzz_byte(&w->bytes);
}

/* Mostly small, sometimes at the end of what there is. */
static int64_t number(world *w)
{
  static const int64_t ends[] = {
    INT64_MIN, INT64_MAX, INT64_MAX / 8, INT64_C(1) << 32, 100, -100
  };
  int8_t b = (int8_t)byte(w);
  return b > 120 ? ends[b % 6] : b % 8;
}

static tsr_array *pick(world *w)
{
  return w->made[byte(w) % w->count];
}

static tsr_sharding place(world *w)
{
  static const char *const specs[] = { "x", "y", "x+y", "-,x", "y,x", "-", "x,y", "y+x" };
  uint8_t which = byte(w);
  if (!w->mesh || which % 9 == 8) return (tsr_sharding){ .mesh = NULL };
  return tsr_on(w->mesh, specs[which % 8]);
}

static tsr_shape shape_of(world *w)
{
  tsr_shape shape = { .rank = byte(w) % 4 };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = number(w);
  return shape;
}

static bool is_small(tsr_shape shape)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) {
    if (shape.dims[d] < 0 || shape.dims[d] > MOST) return false;
    count *= shape.dims[d];
  }
  return count <= MOST;
}

static tsr_dtype dtype_of(world *w)
{
  return (tsr_dtype)(byte(w) % (TSR_F64 + 2));
}

/* Small numbers of any dtype. */
static void add_leaf(world *w)
{
  static int64_t data[64];
  tsr_shape shape = { .rank = byte(w) % 4 };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = byte(w) % 5;
  for (int i = 0; i < 64; i++) data[i] = i * 7 % 11 - 3;
  tsr_dtype dtype = (tsr_dtype)(TSR_BOOL + byte(w) % TSR_F64);
  tsr_sharding on = place(w);
  tsr_array *a = tsr_put(w->s, data, TSR_I64, shape, on);
  if (tsr_is_inert(a)) {
    fuzz_message(tsr_message(w->s), 1 << 12);
    tsr_scope_clear(w->s);
    a = tsr_put(w->s, data, TSR_I64, shape, (tsr_sharding){ .mesh = NULL });
  }
  w->made[w->count++] = tsr_cast(a, dtype);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static tsr_array *one(world *w)
{
  static tsr_array *(*const calls[])(tsr_array *, const char *) = {
    tsr_neg_at, tsr_abs_at,   tsr_sqrt_at, tsr_exp_at,   tsr_not_at,  tsr_isnan_at,
    tsr_sin_at, tsr_floor_at, tsr_sign_at, tsr_ravel_at, tsr_relu_at, tsr_popcount_at,
  };
  return calls[byte(w) % 12](pick(w), TSR_HERE);
}

static tsr_array *two(world *w)
{
  static tsr_array *(*const calls[])(tsr_array *, tsr_operand, const char *) = {
    tsr_add_at,        tsr_sub_at,       tsr_mul_at,  tsr_div_at,   tsr_floordiv_at, tsr_mod_at,
    tsr_pow_at,        tsr_maximum_at,   tsr_eq_at,   tsr_lt_at,    tsr_and_at,      tsr_xor_at,
    tsr_left_shift_at, tsr_nextafter_at, tsr_fmin_at, tsr_hypot_at,
  };
  uint8_t which = byte(w);
  tsr_array *a = pick(w);
  tsr_operand b = which & 0x80 ? tsr_operand_int(number(w)) : tsr_operand_array(pick(w));
  return calls[which % 16](a, b, TSR_HERE);
}

static tsr_array *reduced(world *w)
{
  static tsr_array *(*const calls[])(const tsr_reduce_args *, const char *) = {
    tsr_sum_at, tsr_mean_at, tsr_var_at,   tsr_std_at, tsr_min_at,  tsr_max_at,       tsr_argmin_at,
    tsr_any_at, tsr_all_at,  tsr_count_at, tsr_ptp_at, tsr_norm_at, tsr_logsumexp_at,
  };
  uint8_t which = byte(w), how = byte(w);
  tsr_reduce_args args = { .size = sizeof args, .x = pick(w), .keep_dims = how & 1 };
  args.dims = tsr_dims_of((int[]){ (int)number(w), (int)number(w) }, (how >> 1 & 3) % 3);
  if (how & 8) args.where = pick(w);
  args.skip_nan = how & 16;
  if (how & 32) args.dtype = dtype_of(w);
  if (how & 64) args.initial = tsr_operand_int(number(w));
  return calls[which % 13](&args, TSR_HERE);
}

static tsr_array *viewed(world *w)
{
  tsr_array *a = pick(w);
  /* A slice looks at as many as the array has dims, whatever that number is. */
  tsr_range ranges[TSR_MAX_RANK] = { { number(w), number(w), number(w) },
                                     { number(w), number(w), number(w) } };
  int dims[3] = { (int)number(w), (int)number(w), (int)number(w) };
  tsr_pad_args pad = { .size = sizeof pad, .x = a, .low = { number(w) }, .high = { number(w) } };
  switch (byte(w) % 14) {
  case 0: return tsr_slice_at(a, ranges, dims[0], TSR_HERE);
  case 1: return tsr_transpose_at(a, dims, (int)number(w) & 3, TSR_HERE);
  case 2: return tsr_flip(a, tsr_dims_of(dims, 2));
  case 3: return tsr_broadcast_to(a, shape_of(w));
  case 4: return tsr_reshape(a, shape_of(w));
  case 5: return tsr_pad_at(&pad, TSR_HERE);
  case 6: return tsr_pad_like_at(&pad, (tsr_pad_mode)dims[0], TSR_HERE);
  case 7: return tsr_roll(a, number(w), dims[0]);
  case 8: return tsr_concat((tsr_array *[]){ a, pick(w) }, 2, dims[0]);
  case 9: return tsr_repeat(a, number(w), dims[0]);
  case 10: return tsr_tile(a, number(w), number(w));
  case 11: return tsr_diff(a, dims[1], dims[0]);
  case 12: return tsr_expand_dims(a, tsr_dims_of(dims, 2));
  default: return tsr_stack((tsr_array *[]){ a, pick(w) }, 2, dims[0]);
  }
}

static tsr_array *looked_up(world *w)
{
  tsr_array *a = pick(w), *b = pick(w);
  tsr_index_mode mode = (tsr_index_mode)(byte(w) % 4);
  int dim = (int)number(w);
  switch (byte(w) % 10) {
  case 0: return tsr_take(a, b, dim, .mode = mode);
  case 1: return tsr_take_along_dim(a, b, dim, .mode = mode);
  case 2: return tsr_gather(a, { b, pick(w) }, .mode = mode);
  case 3: return tsr_scatter(a, b, pick(w), dim, .mode = mode, .how = TSR_SCATTER_ADD);
  case 4: return tsr_scatter_nd(a, 3, { b }, .mode = mode, .how = (tsr_scatter_how)number(w));
  case 5: return tsr_dynamic_slice(a, b, shape_of(w));
  case 6: return tsr_one_hot(a, number(w), dtype_of(w));
  case 7: return tsr_unique(a, .count = number(w)).values;
  case 8: return tsr_searchsorted(a, b, dim & 1);
  default: return tsr_where(a, b, pick(w));
  }
}

static tsr_array *along(world *w)
{
  tsr_array *a = pick(w);
  int dim = (int)number(w);
  switch (byte(w) % 9) {
  case 0: return tsr_sort(a, dim, .descending = byte(w) & 1);
  case 1: return tsr_argsort(a, dim);
  case 2: return tsr_cumsum(a, dim, .reverse = byte(w) & 1);
  case 3: return tsr_cummax(a, dim);
  case 4: return tsr_top_k(a, number(w), dim);
  case 5: return tsr_softmax(a, dim);
  case 6: return tsr_lexsort((tsr_array *[]){ a, pick(w) }, 2, dim);
  case 7: return tsr_median(a, .dims = tsr_dims_of(&dim, 1));
  default: return tsr_matmul(tsr_cast(a, TSR_I32), tsr_cast(pick(w), TSR_I64));
  }
}

static tsr_array *placed(world *w)
{
  tsr_array *a = pick(w);
  tsr_dtype dtype = dtype_of(w);
  tsr_sharding on = place(w);
  uint8_t which = byte(w) % 4;
  if (which == 0) return tsr_cast(a, dtype);
  if (which == 3) {
    tsr_shape shape = shape_of(w);
    return tsr_iota(w->s, dtype, shape, (int)number(w), (tsr_sharding){ .mesh = NULL });
  }
  if (!w->mesh) return a;
  tsr_array *out = which == 1 ? tsr_reshard(a, on) : tsr_constrain(a, on);
  if (!tsr_is_inert(out)) return out;
  fuzz_message(tsr_message(w->s), 1 << 12); /* more dims than it has: its values stay */
  tsr_scope_clear(w->s);
  return a;
}

/* ---- a program, twice ------------------------------------------------------------------------ */

static void build(world *w)
{
  static tsr_array *(*const kinds[])(world *) = { one,    two,       two,   reduced,
                                                  viewed, looked_up, along, placed };
  for (int i = 0; i < LEAVES; i++) add_leaf(w);
  for (int i = 0; i < CALLS && w->bytes.at < w->bytes.end; i++) {
    tsr_array *a = kinds[byte(w) % 8](w);
    REQUIRE(tsr_is_inert(a) == (tsr_scope_status(w->s) != TSR_OK));
    if (tsr_is_inert(a)) fuzz_message(tsr_message(w->s), 1 << 12);
    else if (is_small(tsr_shape_of(a))) w->made[w->count++] = a;
    tsr_scope_clear(w->s);
  }
}

/* Whether element `at` is the same of both, or NaN of both: its bits are not told. */
static bool same_element(tsr_dtype dtype, const char *a, const char *b, size_t at)
{
  static const uint64_t infinity[] = {
    [TSR_F16] = 0x7c00, [TSR_BF16] = 0x7f80, [TSR_F32] = 0x7f800000, [TSR_F64] = 0x7ff0000000000000
  };
  size_t size = tsr_dtype_size(dtype);
  uint64_t x = 0, y = 0, sign = UINT64_C(1) << (8 * size - 1);
  memcpy(&x, a + at * size, size);
  memcpy(&y, b + at * size, size);
  if (x == y || dtype < TSR_F16) return x == y;
  return (x & ~sign) > infinity[dtype] && (y & ~sign) > infinity[dtype];
}

static void same(tsr_array *a, tsr_array *b)
{
  static char left[MOST * 8], right[MOST * 8];
  tsr_shape shape = tsr_shape_of(a), other = tsr_shape_of(b);
  REQUIRE(tsr_dtype_of(a) == tsr_dtype_of(b) && shape.rank == other.rank);
  size_t count = 1;
  for (int d = 0; d < shape.rank; d++) {
    REQUIRE(shape.dims[d] == other.dims[d]);
    count *= (size_t)shape.dims[d];
  }
  size_t bytes = count * tsr_dtype_size(tsr_dtype_of(a));
  tsr_status status = tsr_read(a, left, bytes);
  REQUIRE(tsr_read(b, right, bytes) == status);
  for (size_t at = 0; !status && at < count; at++)
    REQUIRE(same_element(tsr_dtype_of(a), left, right, at));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size > 1 << 10) return 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:6", .threads = 1);
  world w[2];
  for (int i = 0; i < 2; i++) {
    w[i] = (world){ .bytes = { data, data + size }, .s = tsr_scope_open(rt) };
    if (i) w[i].mesh = tsr_mesh_make(rt, "x=3,y=2");
    build(&w[i]);
  }
  REQUIRE(w[0].count == w[1].count);
  for (int i = 0; i < w[0].count; i++) same(w[0].made[i], w[1].made[i]);
  tsr_runtime_close(rt);
  return 0;
}
