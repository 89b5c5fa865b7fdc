/* The law of device routines: on random arrays of all thirteen dtypes, over random shapes, meshes
 * and specs, what they make has bit for bit the values of the naive evaluator, and the bytes that
 * explain predicts are the bytes counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { MOST = 16 };

enum { DTYPES = 13 };

typedef struct world {
  test_rng rng;
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *leaf[MOST], *made[MOST];
  cell *cells[MOST]; /* of leaves */
  int leaves, count;
} world;

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

/* An array of random values; `most` > 0: integers of -most .. most - 1. */
static tsr_array *draw_leaf(world *w, tsr_dtype dtype, tsr_shape shape, int64_t most)
{
  int64_t count = count_of(shape);
  cell *cells = calloc((size_t)count + 1, sizeof *cells);
  void *bytes = malloc((size_t)count * 8 + 8);
  bool few = draw(w, 0, 3) == 0; /* many equal ones */
  for (int64_t i = 0; i < count; i++) {
    cells[i] = naive_random(&w->rng, (int)dtype);
    if (most) cells[i].i = draw(w, -most, most - 1);
    else if (few && i) cells[i] = cells[draw(w, 0, i - 1)];
    naive_put(bytes, (int)dtype, i, cells[i]);
    if (most) cells[i] = naive_get(bytes, (int)dtype, i); /* what unsigned ones make of it */
  }
  tsr_array *a = tsr_put(w->s, bytes, dtype, shape, law_sharding(&w->rng, w->mesh, shape.rank));
  free(bytes);
  w->leaf[w->leaves] = a;
  w->cells[w->leaves++] = cells;
  return a;
}

static tsr_shape draw_shape(world *w, int least)
{
  static const int64_t sizes[] = { 0, 1, 2, 3, 5, 7, 8, 13, 17, 70 };
  tsr_shape shape = { .rank = (int)draw(w, least, 4) };
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = sizes[draw(w, draw(w, 0, 7) ? 1 : 0, shape.rank > 2 ? 6 : 9)];
  return shape;
}

static int draw_dim(world *w, int rank)
{
  return (int)draw(w, -rank, rank - 1);
}

/* A leaf, or what a kernel makes of one. */
static tsr_array *draw_input(world *w, tsr_dtype dtype, tsr_shape shape)
{
  tsr_array *x = draw_leaf(w, dtype, shape, 0);
  return dtype == TSR_BOOL || draw(w, 0, 2) ? x : tsr_neg(x);
}

static void make_prefixes(world *w)
{
  static tsr_array *(*const calls[])(const tsr_scan_args *,
                                     const char *) = { tsr_cumsum_at, tsr_cumprod_at, tsr_cummax_at,
                                                       tsr_cummin_at };
  tsr_shape shape = draw_shape(w, 1);
  int which = (int)draw(w, 0, 3);
  tsr_array *x = draw_input(w, fixture_dtype(draw(w, which > 1, DTYPES - 1)), shape);
  tsr_scan_args args = { .size = sizeof args, .x = x, .dim = draw_dim(w, shape.rank) };
  args.reverse = draw(w, 0, 1);
  w->made[w->count++] = calls[which](&args, TSR_HERE);
}

/* One of the results, or both; and what another routine makes of them. */
static void make_sort(world *w)
{
  tsr_shape shape = draw_shape(w, 1);
  tsr_array *x = draw_input(w, fixture_dtype(draw(w, 0, DTYPES - 1)), shape);
  int dim = draw_dim(w, shape.rank), which = (int)draw(w, 0, 3);
  bool down = draw(w, 0, 1);
  if (which != 1) w->made[w->count++] = tsr_sort(x, dim, .descending = down);
  if (which != 0) w->made[w->count++] = tsr_argsort(x, dim, .descending = down);
  tsr_array *last = w->made[w->count - 1];
  if (which == 3) w->made[w->count++] = tsr_cumsum(last, draw_dim(w, shape.rank));
}

/* By keys of several dtypes, most of which have few values. */
static void make_lexsort(world *w)
{
  tsr_shape shape = draw_shape(w, 1);
  tsr_array *keys[3];
  int count = (int)draw(w, 1, 3);
  for (int i = 0; i < count; i++) {
    tsr_dtype dtype = fixture_dtype(draw(w, 1, DTYPES - 1));
    keys[i] = tsr__dtype_integer(dtype) && i ? draw_leaf(w, dtype, shape, 2)
                                             : draw_input(w, dtype, shape);
  }
  w->made[w->count++] = tsr_lexsort(keys, count, draw_dim(w, shape.rank));
}

static void make_top_k(world *w)
{
  tsr_shape shape = draw_shape(w, 1);
  tsr_array *x = draw_input(w, fixture_dtype(draw(w, 0, DTYPES - 1)), shape);
  int dim = draw_dim(w, shape.rank), which = (int)draw(w, 0, 2);
  int64_t count = draw(w, 0, shape.dims[dim < 0 ? dim + shape.rank : dim]);
  if (which != 1) w->made[w->count++] = tsr_top_k(x, count, dim);
  if (which != 0) w->made[w->count++] = tsr_arg_top_k(x, count, dim);
}

static void make_scatter_add(world *w)
{
  tsr_shape shape = draw_shape(w, 1), places = { .rank = (int)draw(w, 0, shape.rank < 4 ? 2 : 1) };
  int dim = (int)draw(w, 0, shape.rank - 1);
  int64_t size = shape.dims[dim];
  for (int d = 0; d < places.rank; d++) places.dims[d] = size ? draw(w, 0, 9) : 0;
  if (!size && !places.rank) return;
  tsr_shape updates = { .rank = shape.rank - 1 + places.rank };
  for (int d = 0; d < updates.rank; d++)
    updates.dims[d] = d < dim                 ? shape.dims[d]
                      : d < dim + places.rank ? places.dims[d - dim]
                                              : shape.dims[d - places.rank + 1];
  tsr_dtype dtype = fixture_dtype(draw(w, 1, DTYPES - 1)), index = draw(w, 0, 1) ? TSR_I64 : TSR_I8;
  tsr_array *a = draw_input(w, dtype, shape), *at = draw_leaf(w, index, places, size);
  tsr_array *b = draw_leaf(w, draw(w, 0, 3) ? dtype : TSR_F64, updates, 0);
  w->made[w->count++] = tsr_scatter_add(a, at, b, draw(w, 0, 1) ? dim : dim - shape.rank);
}

/* An operand as the product sees it, or one that is transposed to that. */
static tsr_array *draw_factor(world *w, tsr_dtype dtype, tsr_shape shape)
{
  int order[TSR_MAX_RANK], n = shape.rank;
  if (n < 2 || draw(w, 0, 2)) return draw_input(w, dtype, shape);
  tsr_shape turned = shape;
  for (int d = 0; d < n; d++) turned.dims[d] = shape.dims[order[d] = (d + n - 1) % n];
  tsr_array *x = draw_input(w, dtype, turned);
  for (int d = 0; d < n; d++) order[d] = (d + 1) % n;
  return tsr_transpose_at(x, order, n, TSR_HERE);
}

/* A wider dtype, or none. */
static tsr_dtype draw_asked(world *w)
{
  return draw(w, 0, 3) ? (tsr_dtype)0 : fixture_dtype(draw(w, 0, DTYPES - 1));
}

static void make_matrices(world *w)
{
  static const int64_t sizes[] = { 0, 1, 2, 5, 6, 7, 8, 9, 25, 40 };
  tsr_shape left = { .rank = (int)draw(w, 1, 4) };
  for (int d = 0; d < left.rank; d++)
    left.dims[d] = d < left.rank - 2 ? draw(w, 0, 3) : sizes[draw(w, draw(w, 0, 7) ? 1 : 0, 9)];
  tsr_shape right = { .rank = (int)draw(w, 1, 4) };
  for (int d = 0; d < right.rank - 2; d++) {
    int l = d - (right.rank - left.rank);
    int64_t other = l >= 0 && l < left.rank - 2 ? left.dims[l] : draw(w, 0, 3);
    right.dims[d] = draw(w, 0, 2) ? other : 1;
  }
  right.dims[right.rank - 1] = sizes[draw(w, draw(w, 0, 7) ? 1 : 0, 9)];
  right.dims[right.rank > 1 ? right.rank - 2 : 0] = left.dims[left.rank - 1];
  tsr_dtype dtype = fixture_dtype(draw(w, 0, DTYPES - 1));
  tsr_array *a = draw_factor(w, dtype, left);
  tsr_array *b = draw_factor(w, draw(w, 0, 3) ? dtype : TSR_F32, right);
  w->made[w->count++] = tsr_matmul(a, b, .dtype = draw_asked(w));
}

static void make_conv(world *w)
{
  int spatial = (int)draw(w, 1, 3);
  int64_t groups = draw(w, 1, 2);
  tsr_shape x = { .rank = spatial + 2 }, kernel = { .rank = spatial + 2 };
  tsr_conv_args conv = { .size = sizeof conv, .groups = groups, .same = draw(w, 0, 3) == 0 };
  x.dims[0] = draw(w, 0, 3);
  for (int i = 0; i < spatial; i++) {
    x.dims[i + 1] = draw(w, draw(w, 0, 7) ? 1 : 0, spatial > 1 ? 4 : 9);
    kernel.dims[i] = draw(w, 1, 3);
    conv.stride[i] = draw(w, 0, 3);
    conv.dilation[i] = draw(w, 0, 2);
    conv.low[i] = draw(w, 0, 2);
    conv.high[i] = draw(w, 0, 2);
  }
  kernel.dims[spatial] = draw(w, 1, 3);
  kernel.dims[spatial + 1] = groups * draw(w, 1, 3);
  x.dims[spatial + 1] = groups * kernel.dims[spatial];
  tsr_dtype dtype = fixture_dtype(draw(w, 1, DTYPES - 1));
  conv.x = draw_input(w, dtype, x);
  conv.kernel = draw_factor(w, draw(w, 0, 3) ? dtype : TSR_F32, kernel);
  w->made[w->count++] = tsr_conv_at(&conv, TSR_HERE);
}

/* A convolution is a product, too. */
static void make_matmul(world *w)
{
  if (draw(w, 0, 2)) make_matrices(w);
  else make_conv(w);
}

/* Letters of a term, some of them twice, and their sizes. */
static tsr_shape draw_term(world *w, const int64_t *sizes, char *text)
{
  tsr_shape shape = { .rank = (int)draw(w, 0, 4) };
  for (int d = 0; d < shape.rank; d++) {
    int64_t letter = draw(w, 0, 5);
    shape.dims[d] = sizes[letter];
    *text++ = (char)('a' + letter);
  }
  *text = '\0';
  return shape;
}

static void make_einsum(world *w)
{
  int64_t sizes[6];
  char text[64] = "", terms[64] = "";
  tsr_array *arrays[3];
  int count = (int)draw(w, 1, 3);
  tsr_dtype dtype = fixture_dtype(draw(w, 0, DTYPES - 1));
  for (int i = 0; i < 6; i++) sizes[i] = draw(w, draw(w, 0, 9) ? 1 : 0, 5);
  for (int i = 0; i < count; i++) {
    char *end = text + strlen(text);
    arrays[i] = draw_factor(w, dtype, draw_term(w, sizes, end));
    strcat(terms, end);
    strcat(text, i < count - 1 ? "," : "->");
  }
  for (int64_t left = draw(w, 0, 4); left > 0 && *terms; left--) {
    char letter[2] = { terms[draw(w, 0, (int64_t)strlen(terms) - 1)], 0 };
    if (!strchr(strchr(text, '>'), letter[0])) strcat(text, letter);
  }
  w->made[w->count++] = tsr_einsum_with(text, arrays, count, .dtype = draw_asked(w));
}

/* What a kernel makes of a result. */
static void use_result(world *w)
{
  tsr_array *x = w->made[w->count - 1];
  tsr_dtype dtype = tsr_dtype_of(x);
  if (dtype == TSR_BOOL || draw(w, 0, 3)) return;
  w->made[w->count - 1] = draw(w, 0, 1) ? tsr_neg(x) : tsr_sum(tsr_add(x, x));
}

static cell **evaluate(world *w, tsr__program *program)
{
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(program, &w->s->rt->heap);
  if (tsr__program_trace(program, w->made, w->count, &error)) FAIL("%s", error.text);
  cell **value = calloc((size_t)program->node_count + 1, sizeof *value);
  for (int n = 0; n < program->node_count; n++)
    for (int i = 0; i < w->leaves; i++) {
      if (program->arrays[n] != w->leaf[i]) continue;
      value[n] = w->cells[i];
      w->cells[i] = NULL;
    }
  naive_program(program, value);
  return value;
}

static void compare(world *w, tsr_array *a, const cell *expected, uint64_t seed)
{
  char what[160];
  int64_t count = count_of(tsr_shape_of(a));
  size_t size = tsr_dtype_size(tsr_dtype_of(a));
  void *out = malloc((size_t)count * size + 8);
  snprintf(what, sizeof what, "seed %llu: %s", (unsigned long long)seed, tsr_type_of(a));
  CHECK_STATUS(tsr_read(a, out, (size_t)count * size), TSR_OK, w->s);
  CHECK(expected != NULL);
  int dtype = (int)tsr_dtype_of(a);
  for (int64_t i = 0; i < count; i++)
    naive_check(what, i, dtype, naive_get(out, dtype, i), expected[i]);
  free(out);
}

static void one_program(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=1",     "x=2",     "x=3",        "x=8",
                                        "x=2,y=2", "x=4,y=2", "x=2,y=2,z=2" };
  static void (*const makers[])(world *) = { make_prefixes,   make_sort,   make_lexsort,
                                             make_top_k,      make_matmul, make_einsum,
                                             make_scatter_add };
  enum { MAKERS = sizeof makers / sizeof *makers };
  world w = { .rng = test_seeded(seed), .s = tsr_scope_open(rt) };
  tsr__program program;
  w.mesh = tsr_mesh_make(rt, meshes[draw(&w, 0, 6)]);
  for (int64_t n = draw(&w, 1, 2); n > 0; n--) {
    int before = w.count;
    makers[draw(&w, 0, MAKERS - 1)](&w);
    if (w.count > before) use_result(&w);
  }
  if (tsr_scope_status(w.s)) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(w.s));
  cell **value = evaluate(&w, &program);
  int32_t node[MOST];
  for (int i = 0; i < w.count; i++) node[i] = (int32_t)w.made[i]->mark - 1;
  if (tsr_eval(w.made, w.count)) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(w.s));
  tsr_run_stats stats = tsr_last_run(w.s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
  for (int i = 0; i < w.count; i++) compare(&w, w.made[i], value[node[i]], seed);
  for (int n = 0; n < program.node_count; n++) free(value[n]);
  for (int i = 0; i < w.leaves; i++) free(w.cells[i]);
  free(value);
  tsr__program_free(&program);
  tsr_scope_close(w.s);
}

TEST_TIMEOUT(any_routine_on_any_mesh_equals_the_naive_evaluator, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t programs = test_quick() ? 1500 : 20000, first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : programs); seed++) one_program(rt, seed);
  tsr_runtime_close(rt);
}
