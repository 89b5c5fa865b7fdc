/* The law of moved bytes: views, other shapes, permutes, exchanges, diagonals and traces send each
 * device the elements that it shows and does not hold, once, and no others.
 *
 * An array of the numbers 1, 2 .. goes through the same calls on one device. So each element of the
 * result says which of the array's it is, and 0 that it is none. */
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

enum { MOST = 4096, MOST_DEVICES = 8 };

/* A call with the numbers that were drawn for it. */
typedef struct call {
  int kind, dim, places;
  int64_t first, end, step, low, high;
  int source[MOST_DEVICES]; /* of a permute, by place */
  tsr_mesh *mesh;           /* NULL: on one device */
} call;

static tsr_array *sliced(const call *c, tsr_array *x)
{
  tsr_range ranges[2] = { TSR_ALL, TSR_ALL };
  ranges[c->dim] = (tsr_range){ c->first, c->end, c->step };
  return tsr_slice_at(x, ranges, 2, TSR_HERE);
}

static tsr_array *flipped(const call *c, tsr_array *x)
{
  return tsr_flip(x, tsr_dims_of(&c->dim, 1));
}

static tsr_array *rolled(const call *c, tsr_array *x)
{
  return tsr_roll(x, c->first, c->dim);
}

static tsr_array *padded(const call *c, tsr_array *x)
{
  tsr_pad_args pad = { .size = sizeof pad, .x = x };
  pad.low[c->dim] = c->low;
  pad.high[c->dim] = c->high;
  return tsr_pad_at(&pad, TSR_HERE);
}

static tsr_array *doubled(const call *c, tsr_array *x)
{
  return tsr_concat((tsr_array *[]){ x, x }, 2, c->dim);
}

static tsr_array *turned(const call *c, tsr_array *x)
{
  (void)c;
  return tsr_transpose(x);
}

/* [12, n] as [3, 4, n], and the like. */
static tsr_array *split(const call *c, tsr_array *x)
{
  tsr_shape shape = tsr_shape_of(x);
  int64_t rows = shape.dims[0], parts = c->places;
  while (rows % parts) parts--;
  return tsr_reshape(x, TSR_SHAPE(parts, rows / parts, shape.dims[1]));
}

static tsr_array *merged(const call *c, tsr_array *x)
{
  (void)c;
  return tsr_ravel(x);
}

static tsr_array *reshaped(const call *c, tsr_array *x)
{
  tsr_shape shape = tsr_shape_of(x);
  (void)c;
  return tsr_reshape(x, TSR_SHAPE(shape.dims[1], shape.dims[0]));
}

static tsr_array *diagonal(const call *c, tsr_array *x)
{
  return tsr_diag(x, c->low - c->high);
}

static tsr_array *by_letters(const call *c, tsr_array *x)
{
  (void)c;
  return tsr_einsum("ii->i", x);
}

/* ---- among places, which the rows of x are dealt to ---- */

static tsr_array *permute_here(tsr_scope *s, tsr_array *const *in, void *user)
{
  const call *c = user;
  tsr_pair pairs[MOST_DEVICES];
  tsr_permute_args args = { .size = sizeof args, .x = in[0], .axis = "x", .pairs = pairs };
  (void)s;
  for (int p = 0; p < c->places; p++)
    if (c->source[p] >= 0) pairs[args.count++] = (tsr_pair){ c->source[p], p };
  return tsr_ppermute_at(&args, TSR_HERE);
}

static tsr_array *exchange_here(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_all_to_all(in[0], "x", .split = 0, .dim = 0, .tiled = true);
}

static tsr_array *gather_here(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_all_gather(in[0], "x", .dim = 0, .tiled = true);
}

static tsr_array *among(const call *c, tsr_body_fn *body, tsr_array *x)
{
  return tsr_shard_map(c->mesh, body, (void *)(uintptr_t)c, .in = { x }, .in_specs = { "x" },
                       .out_specs = { body == gather_here ? "" : "x" });
}

static tsr_array *permuted(const call *c, tsr_array *x)
{
  tsr_array *part[MOST_DEVICES];
  int64_t rows = tsr_shape_of(x).dims[0] / c->places;
  if (c->mesh) return among(c, permute_here, x);
  for (int p = 0; p < c->places; p++) {
    int64_t from = c->source[p] < 0 ? 0 : c->source[p] * rows;
    part[p] = tsr_slice(x, TSR_RANGE(from, from + rows));
    if (c->source[p] < 0) part[p] = tsr_mul(part[p], 0);
  }
  return tsr_concat_at(part, c->places, 0, TSR_HERE);
}

/* Place p gets piece p of each. */
static tsr_array *exchanged(const call *c, tsr_array *x)
{
  tsr_shape shape = tsr_shape_of(x);
  if (c->mesh) return among(c, exchange_here, x);
  int64_t piece = shape.dims[0] / c->places / c->places;
  x = tsr_reshape(x, TSR_SHAPE(c->places, c->places, piece, shape.dims[1]));
  return tsr_reshape(tsr_swapaxes(x, 0, 1), shape);
}

static tsr_array *gathered(const call *c, tsr_array *x)
{
  return c->mesh ? among(c, gather_here, x) : x;
}

/* `places`: rows lie along the axis x, and the result where the call leaves it. */
static const struct {
  const char *name;
  tsr_array *(*make)(const call *c, tsr_array *x);
  bool places;
} kinds[] = {
  { "slice", sliced, false },        { "flip", flipped, false },
  { "roll", rolled, false },         { "pad", padded, false },
  { "concat", doubled, false },      { "transpose", turned, false },
  { "split", split, false },         { "ravel", merged, false },
  { "reshape", reshaped, false },    { "diag", diagonal, false },
  { "einsum", by_letters, false },   { "ppermute", permuted, true },
  { "all_to_all", exchanged, true }, { "all_gather", gathered, true },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Rows that cannot yet move the least: how many times it they move, and why. */
static const struct {
  const char *name, *why;
  double factor;
} more[] = {
  { "ravel", "the first of dims that become one gets the axes of all, then its borders move", 10 },
  { "reshape", "likewise", 10 },
};
enum { MORE = sizeof more / sizeof *more, MOST_MORE = 5 };
_Static_assert(MORE <= MOST_MORE, "a law with more exceptions is none");

static double factor_of(const char *name)
{
  for (int i = 0; i < MORE; i++)
    if (!strcmp(more[i].name, name)) return more[i].factor;
  return 1;
}

/* ---- the least ---- */

typedef struct trial {
  uint64_t seed;
  tsr_scope *s;
  call call;
  tsr_dtype dtype;
  tsr_shape shape;
  tsr_sharding from;
  int64_t count, source[MOST]; /* elements of the result, and which each is: 0 none */
} trial;

static bool holds(const tsr_box *box, const tsr_shape *shape, int64_t at)
{
  for (int d = shape->rank - 1; d >= 0; at /= shape->dims[d--]) {
    int64_t i = at % shape->dims[d] - box->start[d];
    if (i < 0 || i >= box->size[d]) return false;
  }
  return true;
}

/* Elements that devices show and do not hold, each once a device. */
static int64_t lacking(const trial *t, const tsr_shape *shape, const tsr_sharding *to)
{
  static bool seen[MOST];
  int64_t count = 0;
  for (int p = 0; p < tsr_mesh_device_count(t->from.mesh); p++) {
    tsr_box have, show;
    CHECK_I64(tsr_shard_box(&t->from, t->shape, p, &have), TSR_OK);
    CHECK_I64(tsr_shard_box(to, *shape, p, &show), TSR_OK);
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < t->count; i++) {
      int64_t from = t->source[i] - 1;
      if (from < 0 || seen[from] || !holds(&show, shape, i)) continue;
      seen[from] = true;
      count += !holds(&have, &t->shape, from);
    }
  }
  return count;
}

/* ---- trials ---- */

static call draw_call(test_rng *rng, const trial *t, int kind, tsr_mesh *mesh)
{
  call c = { .kind = kind, .dim = (int)test_range(rng, 0, 1) };
  int64_t size = t->shape.dims[c.dim];
  c.places = kinds[kind].places ? (int)tsr_mesh_axis_size(mesh, "x") : (int)test_range(rng, 1, 8);
  c.first = test_range(rng, 0, size);
  c.end = test_range(rng, c.first, size);
  c.step = test_range(rng, 1, 3);
  c.low = test_range(rng, -2, 5);
  c.high = test_range(rng, -2, 5);
  for (int p = 0; p < c.places && kinds[kind].places; p++) {
    int k = (int)test_range(rng, 0, p);
    c.source[p] = c.source[k];
    c.source[k] = p;
  }
  for (int p = 0; p < c.places && test_range(rng, 0, 1); p++)
    if (!test_range(rng, 0, 3)) c.source[p] = -1;
  return c;
}

static tsr_array *numbers(const trial *t)
{
  tsr_array *line = tsr_iota(t->s, TSR_I64, TSR_SHAPE(t->shape.dims[0] * t->shape.dims[1]), 0,
                             (tsr_sharding){ 0 });
  return tsr_cast(tsr_reshape(tsr_add(line, 1), t->shape), t->dtype);
}

static void read_numbers(trial *t, tsr_array *y, int64_t *out)
{
  tsr_shape shape = tsr_shape_of(y);
  t->count = 1;
  for (int d = 0; d < shape.rank; d++) t->count *= shape.dims[d];
  CHECK(t->count <= MOST);
  CHECK_STATUS(tsr_read(tsr_cast(y, TSR_I64), out, (size_t)t->count * sizeof *out), TSR_OK, t->s);
}

static void check_bytes(trial *t, tsr_array *y)
{
  static int64_t found[MOST];
  tsr_shape shape = tsr_shape_of(y);
  const char *name = kinds[t->call.kind].name;
  char text[2048];
  snprintf(text, sizeof text, "%s", tsr_explain(&y, 1));
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, t->s);
  tsr_run_stats stats = tsr_last_run(t->s);
  tsr_sharding to = tsr_sharding_of(y);
  int64_t least = lacking(t, &shape, &to) * (int64_t)tsr_dtype_size(t->dtype);
  if ((double)stats.bytes_counted > factor_of(name) * (double)least ||
      stats.bytes_counted != stats.bytes_explained)
    FAIL("seed %llu: %s of %s gives %s: %lld bytes counted, %lld explained, the least are %lld\n%s",
         (unsigned long long)t->seed, name, tsr_type_of(numbers(t)), tsr_type_of(y),
         (long long)stats.bytes_counted, (long long)stats.bytes_explained, (long long)least, text);
  read_numbers(t, y, found);
  for (int64_t i = 0; i < t->count; i++)
    if (found[i] != t->source[i])
      FAIL("seed %llu: %s has %lld at %lld, expected %lld", (unsigned long long)t->seed, name,
           (long long)found[i], (long long)i, (long long)t->source[i]);
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  static const tsr_dtype dtypes[] = { TSR_F64, TSR_F32, TSR_I32, TSR_I16 };
  static const char *const meshes[] = { "x=8", "x=2,y=4", "x=4,y=2", "x=2", "x=3,y=2" };
  static trial t;
  test_rng rng = test_seeded(seed);
  tsr_mesh *mesh = tsr_mesh_make(rt, meshes[test_range(&rng, 0, 4)]);
  int kind = (int)test_range(&rng, 0, KINDS - 1), places = (int)tsr_mesh_axis_size(mesh, "x");
  t = (trial){ .seed = seed, .s = tsr_scope_open(rt), .dtype = dtypes[test_range(&rng, 0, 3)] };
  t.shape = TSR_SHAPE(test_range(&rng, 4, 24), test_range(&rng, 4, 24));
  if (kinds[kind].make == by_letters) t.shape.dims[1] = t.shape.dims[0];
  if (kinds[kind].places) t.shape.dims[0] = places * places * test_range(&rng, 1, 2);
  t.from = kinds[kind].places ? tsr_on(mesh, "x") : law_placed(&rng, mesh, 2);
  t.call = draw_call(&rng, &t, kind, mesh);
  tsr_array *x = numbers(&t);
  read_numbers(&t, kinds[kind].make(&t.call, x), t.source);
  x = tsr_reshard(x, t.from);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, t.s);
  t.call.mesh = kinds[kind].places ? mesh : NULL;
  check_bytes(&t, kinds[kind].make(&t.call, x));
  tsr_scope_close(t.s);
  return true;
}

TEST_TIMEOUT(devices_get_what_they_show_and_lack, 900)
{
  law_each_seed_on_8(1, test_quick() ? 1000 : 20000, 0, one_trial);
}

/* A trace sends the partial sums of its devices, as a sum of all does, and of elements what the
 * diagonal alone would. */
static bool one_trace(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=8", "x=2,y=4", "x=3,y=2" };
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, meshes[test_range(&rng, 0, 2)]);
  int64_t rows = test_range(&rng, 1, 40), columns = test_range(&rng, 1, 40), want = 0, got = 0;
  int64_t offset = test_range(&rng, -5, 5), moved[3];
  tsr_array *x =
      tsr_reshape(tsr_iota(s, TSR_I64, TSR_SHAPE(rows * columns), 0, (tsr_sharding){ 0 }),
                  TSR_SHAPE(rows, columns));
  for (int64_t r = 0; r < rows; r++)
    if (r + offset >= 0 && r + offset < columns) want += r * columns + r + offset;
  x = tsr_reshard(x, law_placed(&rng, mesh, 2));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_array *made[] = { tsr_trace(x, .offset = offset), tsr_sum(x), tsr_diag(x, offset) };
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tsr_eval(&made[i], 1), TSR_OK, s);
    moved[i] = tsr_last_run(s).bytes_counted;
  }
  CHECK_STATUS(tsr_read(made[0], &got, sizeof got), TSR_OK, s);
  CHECK_I64(got, want);
  if (moved[0] > moved[1] + moved[2])
    FAIL("seed %llu: trace %lld of %s moves %lld bytes, a sum %lld and the diagonal %lld",
         (unsigned long long)seed, (long long)offset, tsr_type_of(x), (long long)moved[0],
         (long long)moved[1], (long long)moved[2]);
  tsr_scope_close(s);
  return true;
}

TEST(traces_send_partial_sums)
{
  law_each_seed_on_8(1, test_quick() ? 100 : 1000, 0, one_trace);
}
