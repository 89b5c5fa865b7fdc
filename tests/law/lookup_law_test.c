/* Tables that are cut along what is looked into, and updates that are cut: whoever has an entry
 * gives it to the others, and what devices make of their updates is joined.
 *
 * The law: whatever is taken or put, wherever table, indices and updates lie, on every mesh, the
 * values are those of unplaced data, bit for bit, and the bytes counted are those explained. Tables
 * and updates are larger than what is made of them, so that nobody gathers them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/topology_fixture.h"

enum { MOST = 1 << 15 };

typedef struct trial {
  test_rng *rng;
  tsr_scope *s;
  tsr_mesh *mesh;
} trial;

static int64_t draw(trial *t, int64_t first, int64_t last)
{
  return test_range(t->rng, first, last);
}

static int64_t count_of(tsr_shape shape)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  return count;
}

/* An array twice: unplaced, and somewhere. */
typedef struct pair {
  tsr_array *whole, *placed;
} pair;

static pair place(trial *t, tsr_array *a)
{
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, t->s);
  pair p = { a, tsr_reshard(a, law_sharding(t->rng, t->mesh, tsr_shape_of(a).rank)) };
  CHECK_STATUS(tsr_eval(&p.placed, 1), TSR_OK, t->s);
  return p;
}

/* Values that need more than a double, and at times all that floats have besides. */
static pair some(trial *t, tsr_dtype dtype, tsr_shape shape)
{
  static const double odd[] = { -0.0, 0.0, INFINITY, NAN };
  static double data[MOST];
  int64_t count = count_of(shape);
  bool wide = draw(t, 0, 1), all = !draw(t, 0, 3);
  CHECK(count <= MOST);
  for (int64_t i = 0; i < count; i++) {
    data[i] = wide ? test_any_f64(t->rng) * 1e-10 : (double)draw(t, 0, 100);
    if (all && !draw(t, 0, 9)) data[i] = odd[draw(t, 0, 3)];
  }
  return place(t, tsr_cast(tsr_put(t->s, data, TSR_F64, shape, (tsr_sharding){ 0 }), dtype));
}

static pair indices(trial *t, tsr_shape shape, int64_t size)
{
  static int64_t data[MOST];
  for (int64_t i = 0; i < count_of(shape); i++) data[i] = draw(t, -size, size - 1);
  return place(t, tsr_put(t->s, data, TSR_I64, shape, (tsr_sharding){ 0 }));
}

/* ---- taking ---- */

/* A table of rank 2 or 3 whose dim `dim` is long. */
static tsr_shape table_shape(trial *t, int dim, int rank)
{
  tsr_shape shape = { .rank = rank };
  for (int d = 0; d < rank; d++) shape.dims[d] = d == dim ? draw(t, 100, 500) : draw(t, 1, 5);
  return shape;
}

static pair taken(trial *t, tsr_dtype dtype)
{
  int dim = (int)draw(t, 0, 2);
  pair x = some(t, dtype, table_shape(t, dim, 3));
  tsr_shape at = { .rank = (int)draw(t, 0, 2), .dims = { draw(t, 0, 4), draw(t, 1, 4) } };
  pair i = indices(t, at, tsr_shape_of(x.whole).dims[dim]);
  return (pair){ tsr_take(x.whole, i.whole, dim), tsr_take(x.placed, i.placed, dim) };
}

static pair taken_along(trial *t, tsr_dtype dtype)
{
  int dim = (int)draw(t, 0, 2);
  tsr_shape shape = table_shape(t, dim, 3), at = shape;
  pair x = some(t, dtype, shape);
  at.dims[dim] = draw(t, 1, 6);
  pair i = indices(t, at, shape.dims[dim]);
  return (pair){ tsr_take_along_dim(x.whole, i.whole, dim),
                 tsr_take_along_dim(x.placed, i.placed, dim) };
}

static pair gathered(trial *t, tsr_dtype dtype)
{
  pair x = some(t, dtype, table_shape(t, (int)draw(t, 0, 1), 3));
  tsr_shape at = { .rank = 1, .dims = { draw(t, 0, 9) } };
  pair i = indices(t, at, tsr_shape_of(x.whole).dims[0]),
       j = indices(t, at, tsr_shape_of(x.whole).dims[1]);
  return (pair){ tsr_gather(x.whole, { i.whole, j.whole }),
                 tsr_gather(x.placed, { i.placed, j.placed }) };
}

/* ---- putting ---- */

static pair scattered(trial *t, tsr_dtype dtype)
{
  tsr_scatter_how how = (tsr_scatter_how)draw(t, 0, 4);
  tsr_shape shape = { .rank = 2, .dims = { draw(t, 1, 9), draw(t, 1, 5) } };
  int dim = (int)draw(t, 0, 1);
  tsr_shape at = { .rank = 2, .dims = { draw(t, 1, 70), draw(t, 1, 40) } }, of = { .rank = 0 };
  pair x = some(t, dtype, shape), i = indices(t, at, shape.dims[dim]);
  for (int d = 0; d < 2; d++) {
    if (d != dim) of.dims[of.rank++] = shape.dims[d];
    for (int e = 0; d == dim && e < 2; e++) of.dims[of.rank++] = at.dims[e];
  }
  pair u = some(t, dtype, of);
  return (pair){ tsr_scatter(x.whole, i.whole, u.whole, dim, .how = how),
                 tsr_scatter(x.placed, i.placed, u.placed, dim, .how = how) };
}

static pair scattered_nd(trial *t, tsr_dtype dtype)
{
  tsr_scatter_how how = (tsr_scatter_how)draw(t, 0, 4);
  tsr_shape shape = { .rank = 3, .dims = { draw(t, 1, 4), draw(t, 1, 5), draw(t, 1, 3) } };
  tsr_shape at = { .rank = 1, .dims = { draw(t, 1, 900) } }, of = at;
  pair x = some(t, dtype, shape), i = indices(t, at, shape.dims[0]),
       j = indices(t, at, shape.dims[1]);
  of.dims[of.rank++] = shape.dims[2];
  pair u = some(t, dtype, of);
  return (pair){ tsr_scatter_nd(x.whole, u.whole, { i.whole, j.whole }, .how = how),
                 tsr_scatter_nd(x.placed, u.placed, { i.placed, j.placed }, .how = how) };
}

/* ---- the law ---- */

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  static pair (*const ways[])(trial *, tsr_dtype) = { taken, taken_along, gathered, scattered,
                                                      scattered_nd };
  static double expected[MOST], found[MOST];
  char text[8192];
  test_rng rng = test_seeded(seed);
  trial t = { .rng = &rng, .s = tsr_scope_open(rt) };
  t.mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  tsr_dtype dtype = fixture_dtype(test_range(&rng, 0, 12));
  pair p = ways[test_range(&rng, 0, 4)](&t, dtype);
  if (test_range(&rng, 0, 2) == 0)
    p.placed = tsr_constrain(p.placed, law_sharding(&rng, t.mesh, tsr_shape_of(p.placed).rank));
  snprintf(text, sizeof text, "%s", tsr_explain(&p.placed, 1));
  CHECK_STATUS(tsr_eval(&p.placed, 1), TSR_OK, t.s);
  tsr_run_stats stats = tsr_last_run(t.s);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("seed %llu: %lld bytes counted, %lld explained\n%s", (unsigned long long)seed,
         (long long)stats.bytes_counted, (long long)stats.bytes_explained, text);
  tsr_shape shape = tsr_shape_of(p.whole);
  size_t bytes = (size_t)count_of(shape) * tsr_dtype_size(tsr_dtype_of(p.whole));
  CHECK(bytes <= sizeof expected);
  CHECK_STATUS(tsr_read(p.whole, expected, bytes), TSR_OK, t.s);
  CHECK_STATUS(tsr_read(p.placed, found, bytes), TSR_OK, t.s);
  if (memcmp(expected, found, bytes))
    FAIL("seed %llu differs: %s\n%s", (unsigned long long)seed, tsr_type_of(p.placed), text);
  bool joins = strstr(text, "look-up") || strstr(text, "has updates");
  tsr_scope_close(t.s);
  return joins;
}

TEST_TIMEOUT(where_things_lie_does_not_show, 300)
{
  law_each_seed_on_8(1, test_quick() ? 600 : 8000, 0.2, one_trial);
}

/* ---- how many bytes ---- */

/* Five rows of a table of 400, to the three of four devices that have them not. */
TEST(a_large_table_is_not_gathered)
{
  enum { ROWS = 400, WIDTH = 8 };
  static double data[ROWS][WIDTH];
  static const int64_t at[5] = { 399, 0, -2, 17, 200 };
  double found[5][WIDTH];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < ROWS * WIDTH; i++) data[i / WIDTH][i % WIDTH] = i;
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(ROWS, WIDTH), tsr_on(mesh, "x,-"));
  tsr_array *i = tsr_put(s, at, TSR_I64, TSR_SHAPE(5), tsr_on(mesh, "-"));
  tsr_array *rows = tsr_take(x, i, 0);
  const char *text = tsr_explain(&rows, 1);
  CHECK_STR_HAS(text, "look-up over x=4: 960 bytes"); /* 3 * 5 * 8 * 8 */
  CHECK_STR_HAS(text, "looks up elements of %0");
  CHECK_STATUS(tsr_read(rows, found, sizeof found), TSR_OK, s);
  for (int r = 0; r < 5; r++)
    CHECK_BYTES(found[r], data[at[r] < 0 ? at[r] + ROWS : at[r]], sizeof found[r]);
  CHECK_I64(tsr_last_run(s).bytes_counted, 960);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The first index that is none is told as it is where the table lies whole. */
TEST(indices_of_a_cut_table_are_checked)
{
  static const int64_t at[4] = { 1, 400, -401, 3 };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_array *x = tsr_full(s, 1, TSR_F32, TSR_SHAPE(400, 2), tsr_on(mesh, "x,-"));
  tsr_array *i = tsr_put(s, at, TSR_I64, TSR_SHAPE(4), tsr_on(mesh, "-"));
  tsr_array *rows = tsr_take(tsr_reshard(x, tsr_on(mesh, "x,-")), i, 0);
  CHECK_STR_HAS(tsr_explain(&rows, 1), "look-up over x=4");
  CHECK_I64(tsr_eval(&rows, 1), TSR_EVALUE);
  CHECK_STR_HAS(tsr_message(s), "tsr_take: index 400 at position 2 of the result is out of range, "
                                "expected -400 to 399");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Many updates of few places: partials of these cross, and results come back. */
TEST(many_updates_are_not_gathered)
{
  enum { COUNT = 4096, PLACES = 16 };
  static const struct {
    tsr_scatter_how how;
    int64_t bytes;
  } rows[] = { { TSR_SCATTER_ADD, 3 * PLACES * (24 + 8) },
               { TSR_SCATTER_MAX, 3 * PLACES * (8 + 8) },
               { TSR_SCATTER_SET, 3 * PLACES * (8 + 8 + 8) } };
  static double data[COUNT];
  static int64_t at[COUNT];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < COUNT; i++) data[i] = i;
  for (int i = 0; i < COUNT; i++) at[i] = i * 7 % PLACES;
  for (int k = 0; k < 3; k++) {
    tsr_scope *s = tsr_scope_open(rt);
    double expected[PLACES] = { 0 }, found[PLACES];
    tsr_array *x = tsr_put(s, expected, TSR_F64, TSR_SHAPE(PLACES), tsr_on(mesh, "-"));
    tsr_array *u = tsr_put(s, data, TSR_F64, TSR_SHAPE(COUNT), tsr_on(mesh, "x"));
    tsr_array *i = tsr_put(s, at, TSR_I64, TSR_SHAPE(COUNT), tsr_on(mesh, "x"));
    tsr_array *y = tsr_scatter(x, i, u, 0, .how = rows[k].how);
    CHECK_STR_HAS(tsr_explain(&y, 1), "all-reduce over x=4");
    CHECK_STATUS(tsr_read(y, found, sizeof found), TSR_OK, s);
    for (int j = 0; j < COUNT; j++)
      expected[at[j]] = rows[k].how == TSR_SCATTER_ADD ? expected[at[j]] + data[j] : data[j];
    CHECK_BYTES(found, expected, sizeof found); /* values ascend: the last is the largest */
    CHECK_I64(tsr_last_run(s).bytes_counted, rows[k].bytes);
    CHECK_I64(tsr_last_run(s).bytes_explained, rows[k].bytes);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
