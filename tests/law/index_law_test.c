/* The law of indexing: on random arrays of all dtypes, over random shapes, indices, modes,
 * meshes and specs, what is taken and what is put are, bit for bit, those of a loop over elements,
 * and the bytes that explain predicts are the bytes counted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { MOST = 3 };

/* An array as users have it, and its elements. */
typedef struct given {
  tsr_array *a;
  tsr_dtype dtype;
  tsr_shape shape;
  cell *cells;
} given;

typedef struct world {
  test_rng rng;
  uint64_t seed;
  tsr_scope *s;
  tsr_mesh *mesh;
  given made[8];
  int count;
} world;

/* Which element of a table an index of each dim stands for; the outcome of one out of range. */
enum { FILLED = -1, REFUSED = -2 };

static int64_t draw(world *w, int64_t first, int64_t last)
{
  return test_range(&w->rng, first, last);
}

static int64_t count_of(tsr_shape shape)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  return count;
}

static given *put(world *w, given g)
{
  int64_t count = count_of(g.shape);
  char *bytes = calloc((size_t)count + 1, 8);
  for (int64_t i = 0; i < count; i++) naive_put(bytes, (int)g.dtype, i, g.cells[i]);
  g.a = tsr_put(w->s, bytes, g.dtype, g.shape, law_sharding(&w->rng, w->mesh, g.shape.rank));
  free(bytes);
  w->made[w->count] = g;
  return &w->made[w->count++];
}

static given *draw_array(world *w, tsr_dtype dtype, tsr_shape shape)
{
  int64_t count = count_of(shape);
  given g = { .dtype = dtype, .shape = shape, .cells = calloc((size_t)count + 1, sizeof(cell)) };
  for (int64_t i = 0; i < count; i++) g.cells[i] = naive_random(&w->rng, (int)dtype);
  return put(w, g);
}

/* Floats whose sums doubles hold. */
static given *draw_small(world *w, tsr_dtype dtype, tsr_shape shape)
{
  int64_t count = count_of(shape);
  given g = { .dtype = dtype, .shape = shape, .cells = calloc((size_t)count + 1, sizeof(cell)) };
  for (int64_t i = 0; i < count; i++) {
    g.cells[i] = naive_random(&w->rng, (int)dtype);
    if (naive_is_real((int)dtype)) g.cells[i].f = (double)draw(w, -200, 200) / 64;
  }
  return put(w, g);
}

/* Indices of a dim; some of them out of range where `wild`. */
static given *draw_indices(world *w, tsr_shape shape, int64_t size, bool wild)
{
  static const tsr_dtype dtypes[] = { TSR_I64, TSR_I32, TSR_I8, TSR_U8, TSR_U64 };
  int64_t count = count_of(shape);
  given g = { .dtype = dtypes[draw(w, 0, 4)],
              .shape = shape,
              .cells = calloc((size_t)count + 1, sizeof(cell)) };
  bool natural = g.dtype == TSR_U8 || g.dtype == TSR_U64;
  int64_t more = wild ? 3 : 0;
  for (int64_t i = 0; i < count; i++) {
    g.cells[i].i = draw(w, natural ? 0 : -size - more, size - 1 + more);
    if (wild && g.dtype == TSR_U64 && !draw(w, 0, 9)) g.cells[i].i = -1; /* 2^64 - 1 */
  }
  return put(w, g);
}

static tsr_shape draw_shape(world *w, int least, int most)
{
  static const int64_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 9, 33 };
  tsr_shape shape = { .rank = (int)draw(w, least, most) };
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = sizes[draw(w, draw(w, 0, 7) ? 1 : 0, shape.rank > 2 ? 5 : 8)];
  return shape;
}

/* At times of as many dims as leave room for those of an index. */
static tsr_shape draw_deep(world *w, int least, int most)
{
  return law_deep(&w->rng, draw_shape(w, least, most), TSR_MAX_RANK - 1);
}

/* Which place of a dim an index means. */
static int64_t place_of(const given *at, int64_t i, int64_t size, tsr_index_mode mode)
{
  int64_t index = at->cells[i].i;
  if (index < 0) index = at->dtype == TSR_U64 ? INT64_MAX : index + size;
  if (index >= 0 && index < size) return index;
  if (mode == TSR_INDEX_ERROR) return REFUSED;
  if (mode == TSR_INDEX_FILL) return FILLED;
  if (!size) return REFUSED;
  return index < 0 ? 0 : size - 1;
}

static void unravel(tsr_shape shape, int64_t i, int64_t *index)
{
  for (int d = shape.rank - 1; d >= 0; d--) {
    index[d] = i % shape.dims[d];
    i /= shape.dims[d];
  }
}

static int64_t ravel(tsr_shape shape, const int64_t *index)
{
  int64_t at = 0;
  for (int d = 0; d < shape.rank; d++) at = at * shape.dims[d] + index[d];
  return at;
}

/* Which element of `at`, broadcast to some dims, those are. */
static int64_t spread_at(const given *at, const int64_t *index, int rank)
{
  int64_t i = 0;
  for (int d = 0; d < at->shape.rank; d++)
    i = i * at->shape.dims[d] + (at->shape.dims[d] == 1 ? 0 : index[rank - at->shape.rank + d]);
  return i;
}

/* How an array is looked into: dims dim .. dim + many - 1 at arrays of indices, whose dims `span`
 * stand in their place. */
typedef struct looking {
  const given *x, *at[MOST];
  int dim, many;
  tsr_shape span, found;
  tsr_index_mode mode;
} looking;

/* The element of x that element i of what is found comes of. */
static int64_t source_of(const looking *l, int64_t i)
{
  int64_t index[TSR_MAX_RANK], from[TSR_MAX_RANK];
  bool filled = false;
  unravel(l->found, i, index);
  for (int d = 0; d < l->dim; d++) from[d] = index[d];
  for (int k = 0; k < l->many; k++) {
    int64_t place = place_of(l->at[k], spread_at(l->at[k], index + l->dim, l->span.rank),
                             l->x->shape.dims[l->dim + k], l->mode);
    if (place == REFUSED) return REFUSED;
    filled = filled || place == FILLED;
    from[l->dim + k] = place;
  }
  for (int d = l->dim + l->many; d < l->x->shape.rank; d++)
    from[d] = index[d - l->many + l->span.rank];
  return filled ? FILLED : ravel(l->x->shape, from);
}

/* Each index that is given is checked, though nothing may be taken or put by it. */
static bool is_refused(const looking *l)
{
  for (int k = 0; k < l->many && l->mode == TSR_INDEX_ERROR; k++)
    for (int64_t i = 0; i < count_of(l->at[k]->shape); i++)
      if (place_of(l->at[k], i, l->x->shape.dims[l->dim + k], l->mode) == REFUSED) return true;
  return false;
}

static void find_shape(looking *l)
{
  const tsr_shape *x = &l->x->shape;
  l->found.rank = 0;
  for (int d = 0; d < l->dim; d++) l->found.dims[l->found.rank++] = x->dims[d];
  for (int d = 0; d < l->span.rank; d++) l->found.dims[l->found.rank++] = l->span.dims[d];
  for (int d = l->dim + l->many; d < x->rank; d++) l->found.dims[l->found.rank++] = x->dims[d];
}

/* Reads what a call made: `expected`, or where that is NULL an error of the run. */
static void check(world *w, tsr_array *a, tsr_dtype dtype, tsr_shape shape, const cell *expected)
{
  int64_t count = count_of(shape);
  size_t bytes = (size_t)count * tsr_dtype_size(dtype);
  char *out = calloc((size_t)count + 1, 8), what[96];
  snprintf(what, sizeof what, "seed %llu", (unsigned long long)w->seed);
  if (tsr_scope_status(w->s)) FAIL("%s: %s", what, tsr_message(w->s));
  if (!expected) {
    if (tsr_read(a, out, bytes) != TSR_EVALUE) FAIL("%s: no error: %s", what, tsr_type_of(a));
    CHECK_STR_HAS(tsr_message(w->s), "out of range, expected");
    free(out);
    return;
  }
  if (tsr_dtype_of(a) != dtype || tsr_shape_of(a).rank != shape.rank)
    FAIL("%s: %s, expected %s of rank %d", what, tsr_type_of(a), tsr_dtype_name(dtype), shape.rank);
  for (int d = 0; d < shape.rank; d++)
    if (tsr_shape_of(a).dims[d] != shape.dims[d]) FAIL("%s: %s", what, tsr_type_of(a));
  tsr_status status = tsr_read(a, out, bytes);
  if (status) FAIL("%s: %s", what, tsr_message(w->s));
  for (int64_t i = 0; i < count; i++)
    naive_check(what, i, (int)dtype, naive_get(out, (int)dtype, i), expected[i]);
  tsr_run_stats stats = tsr_last_run(w->s);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("%s: %lld bytes counted, %lld explained", what, (long long)stats.bytes_counted,
         (long long)stats.bytes_explained);
  free(out);
}

/* ---- taking ---- */

/* What stands where an index is out of range by default. */
static cell default_fill(tsr_dtype dtype)
{
  static const int64_t ends[] = {
    [TSR_BOOL] = 1,         [TSR_I8] = INT8_MIN,    [TSR_I16] = INT16_MIN,
    [TSR_I32] = INT32_MIN,  [TSR_I64] = INT64_MIN,  [TSR_U8] = UINT8_MAX,
    [TSR_U16] = UINT16_MAX, [TSR_U32] = UINT32_MAX, [TSR_U64] = -1
  };
  if (naive_is_real((int)dtype)) return (cell){ .f = (double)NAN };
  return (cell){ .i = ends[dtype] };
}

static void check_taken(world *w, tsr_array *a, const looking *l, bool one)
{
  int64_t count = count_of(l->found);
  cell *expected = calloc((size_t)count + 1, sizeof *expected), fill = default_fill(l->x->dtype);
  if (one) fill = naive_is_real((int)l->x->dtype) ? (cell){ .f = 1 } : (cell){ .i = 1 };
  bool refused = is_refused(l);
  for (int64_t i = 0; i < count; i++) {
    int64_t from = source_of(l, i);
    refused = refused || from == REFUSED;
    expected[i] = from >= 0 ? l->x->cells[from] : fill;
  }
  check(w, a, l->x->dtype, l->found, refused ? NULL : expected);
  free(expected);
}

static tsr_operand fill_one(bool one)
{
  return one ? tsr_operand_int(1) : (tsr_operand){ 0 };
}

static void take(world *w)
{
  looking l = { .many = 1, .mode = (tsr_index_mode)draw(w, 0, 2) };
  const given *x = draw_array(w, fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1)), draw_deep(w, 1, 4));
  bool wild = l.mode != TSR_INDEX_ERROR || !draw(w, 0, 5), one = draw(w, 0, 1);
  l.dim = (int)draw(w, 0, x->shape.rank - 1);
  l.span = draw_shape(w, 0, x->shape.rank < 4 ? 2 : 1);
  if (!wild && !x->shape.dims[l.dim]) return;
  l.x = x;
  l.at[0] = draw_indices(w, l.span, x->shape.dims[l.dim], wild);
  find_shape(&l);
  int dim = draw(w, 0, 1) ? l.dim : l.dim - x->shape.rank;
  check_taken(w, tsr_take(x->a, l.at[0]->a, dim, .mode = l.mode, .fill = fill_one(one)), &l, one);
}

/* In a line of its own each element has its index, and the other dims broadcast. */
static void take_along(world *w)
{
  tsr_index_mode mode = (tsr_index_mode)draw(w, 0, 2);
  tsr_shape of_x = draw_deep(w, 1, 3), of_at = of_x, out = of_x;
  int dim = (int)draw(w, 0, of_x.rank - 1);
  bool wild = mode != TSR_INDEX_ERROR || !draw(w, 0, 5), one = draw(w, 0, 1);
  of_at.dims[dim] = draw(w, 0, 9);
  for (int d = 0; d < of_x.rank; d++) {
    int which = d == dim ? 3 : (int)draw(w, 0, 4);
    if (which == 0) of_x.dims[d] = 1;
    if (which == 1) of_at.dims[d] = 1;
  }
  out.dims[dim] = of_at.dims[dim];
  if (!wild && !of_x.dims[dim]) return;
  given x = *draw_array(w, fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1)), of_x);
  given at = *draw_indices(w, of_at, of_x.dims[dim], wild);
  int64_t count = count_of(out), index[TSR_MAX_RANK];
  cell *expected = calloc((size_t)count + 1, sizeof *expected), fill = default_fill(x.dtype);
  bool refused = false;
  if (one) fill = naive_is_real((int)x.dtype) ? (cell){ .f = 1 } : (cell){ .i = 1 };
  for (int64_t i = 0; i < count; i++) {
    unravel(out, i, index);
    int64_t place = place_of(&at, spread_at(&at, index, out.rank), of_x.dims[dim], mode);
    refused = refused || place == REFUSED;
    index[dim] = place;
    for (int d = 0; d < of_x.rank; d++)
      if (d != dim && of_x.dims[d] == 1) index[d] = 0;
    expected[i] = place >= 0 ? x.cells[ravel(of_x, index)] : fill;
  }
  tsr_array *a = tsr_take_along_dim(x.a, at.a, draw(w, 0, 1) ? dim : dim - of_x.rank, .mode = mode,
                                    .fill = fill_one(one));
  check(w, a, x.dtype, out, refused ? NULL : expected);
  free(expected);
}

/* Indices of the leading dims of x, which broadcast to `span`. */
static void draw_leading(world *w, looking *l, bool wild)
{
  l->many = (int)draw(w, 1, l->x->shape.rank < MOST ? l->x->shape.rank : MOST);
  l->span = draw_shape(w, 0, 2);
  for (int k = 0; k < l->many; k++) {
    tsr_shape shape = l->span;
    if (k && shape.rank && !draw(w, 0, 2)) shape.dims[draw(w, 0, shape.rank - 1)] = 1;
    if (k && shape.rank == 2 && !draw(w, 0, 2))
      shape = (tsr_shape){ .rank = 1, .dims = { shape.dims[1] } };
    l->at[k] = draw_indices(w, shape, l->x->shape.dims[k], wild);
  }
  find_shape(l);
}

static bool has_places(const given *x, int many)
{
  for (int d = 0; d < many; d++)
    if (!x->shape.dims[d]) return false;
  return true;
}

static void gather(world *w)
{
  looking l = { .mode = (tsr_index_mode)draw(w, 0, 2) };
  bool wild = l.mode != TSR_INDEX_ERROR || !draw(w, 0, 5), one = draw(w, 0, 1);
  l.x = draw_array(w, fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1)), draw_deep(w, 1, 4));
  if (!wild && !has_places(l.x, MOST < l.x->shape.rank ? MOST : l.x->shape.rank)) return;
  draw_leading(w, &l, wild);
  tsr_gather_args args = {
    .size = sizeof args, .x = l.x->a, .mode = l.mode, .fill = fill_one(one)
  };
  for (int k = 0; k < l.many; k++) args.at[k] = l.at[k]->a;
  check_taken(w, tsr_gather_at(&args, TSR_HERE), &l, one);
}

/* ---- putting ---- */

/* What is there and one more: sums of floats are of values that doubles hold. */
static cell joined(tsr_scatter_how how, tsr_dtype dtype, cell now, cell x)
{
  bool real = naive_is_real((int)dtype), truth = dtype == TSR_BOOL;
  const cell in[2] = { now, x };
  switch (how) {
  case TSR_SCATTER_SET: return x;
  case TSR_SCATTER_ADD:
    if (truth) return (cell){ .i = now.i | x.i };
    return real ? (cell){ .f = now.f + x.f } : naive_element(TSR__OP_ADD, (int)dtype, 2, in);
  case TSR_SCATTER_MUL:
    if (truth) return (cell){ .i = now.i & x.i };
    return real ? (cell){ .f = now.f * x.f } : naive_element(TSR__OP_MUL, (int)dtype, 2, in);
  case TSR_SCATTER_MIN:
    if (truth) return (cell){ .i = now.i & x.i };
    return naive_element(TSR__OP_MINIMUM, (int)dtype, 2, in);
  default:
    if (truth) return (cell){ .i = now.i | x.i };
    return naive_element(TSR__OP_MAXIMUM, (int)dtype, 2, in);
  }
}

static void check_put(world *w, tsr_array *a, const looking *l, tsr_scatter_how how,
                      const given *updates)
{
  int64_t count = count_of(l->x->shape), index[TSR_MAX_RANK];
  cell *expected = calloc((size_t)count + 1, sizeof *expected);
  memcpy(expected, l->x->cells, (size_t)count * sizeof *expected);
  bool refused = is_refused(l);
  for (int64_t i = 0; i < count_of(l->found); i++) {
    int64_t to = source_of(l, i);
    refused = refused || to == REFUSED;
    if (to < 0) continue;
    unravel(l->found, i, index);
    cell x = updates->cells[spread_at(updates, index, l->found.rank)];
    expected[to] = joined(how, l->x->dtype, expected[to], x);
  }
  for (int64_t i = 0; i < count && naive_is_real((int)l->x->dtype); i++)
    expected[i] = naive_cast(TSR_F64, (int)l->x->dtype, expected[i]);
  check(w, a, l->x->dtype, l->x->shape, refused ? NULL : expected);
  free(expected);
}

/* What comes to the places, at times fewer elements than those. */
static given *draw_updates(world *w, const looking *l, tsr_scatter_how how)
{
  tsr_shape shape = l->found;
  if (shape.rank && !draw(w, 0, 3)) shape.dims[draw(w, 0, shape.rank - 1)] = 1;
  if (!draw(w, 0, 7)) shape.rank = 0;
  return how == TSR_SCATTER_ADD ? draw_small(w, l->x->dtype, shape)
                                : draw_array(w, l->x->dtype, shape);
}

static const given *draw_target(world *w, tsr_scatter_how how)
{
  tsr_dtype dtype = fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1));
  tsr_shape shape = draw_deep(w, 1, 3);
  return how == TSR_SCATTER_ADD ? draw_small(w, dtype, shape) : draw_array(w, dtype, shape);
}

static void scatter(world *w)
{
  tsr_scatter_how how = (tsr_scatter_how)draw(w, 0, 4);
  looking l = { .many = 1, .mode = (tsr_index_mode)draw(w, 0, 2) };
  bool wild = l.mode != TSR_INDEX_ERROR || !draw(w, 0, 5);
  l.x = draw_target(w, how);
  l.dim = (int)draw(w, 0, l.x->shape.rank - 1);
  l.span = draw_shape(w, 0, 2);
  if (!has_places(l.x, l.x->shape.rank)) return; /* below, what nobody reads is not refused */
  l.at[0] = draw_indices(w, l.span, l.x->shape.dims[l.dim], wild);
  find_shape(&l);
  const given *u = draw_updates(w, &l, how);
  check_put(w, tsr_scatter(l.x->a, l.at[0]->a, u->a, l.dim, .how = how, .mode = l.mode), &l, how,
            u);
}

static void scatter_nd(world *w)
{
  tsr_scatter_how how = (tsr_scatter_how)draw(w, 0, 4);
  looking l = { .mode = (tsr_index_mode)draw(w, 0, 2) };
  l.x = draw_target(w, how);
  if (!has_places(l.x, l.x->shape.rank)) return;
  draw_leading(w, &l, l.mode != TSR_INDEX_ERROR || !draw(w, 0, 5));
  const given *u = draw_updates(w, &l, how);
  tsr_scatter_nd_args args = {
    .size = sizeof args, .x = l.x->a, .updates = TSR_OPERAND(u->a), .how = how, .mode = l.mode
  };
  for (int k = 0; k < l.many; k++) args.at[k] = l.at[k]->a;
  check_put(w, tsr_scatter_nd_at(&args, TSR_HERE), &l, how, u);
}

/* ---- the whole ---- */

static void one_trial(tsr_runtime *rt, uint64_t seed)
{
  static void (*const trials[])(world *) = { take, take_along, gather, scatter, scatter_nd };
  world w = { .rng = test_seeded(seed), .seed = seed, .s = tsr_scope_open(rt) };
  w.mesh = tsr_mesh_make(rt, law_meshes[draw(&w, 0, LAW_MESHES - 1)]);
  trials[draw(&w, 0, 4)](&w);
  for (int i = 0; i < w.count; i++) free(w.made[i].cells);
  tsr_scope_close(w.s);
}

TEST_TIMEOUT(any_index_on_any_mesh_is_that_of_a_loop, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t trials = test_quick() ? 3000 : 20000, first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : trials); seed++)
    if (only || test_share(seed)) one_trial(rt, seed);
  tsr_runtime_close(rt);
}
