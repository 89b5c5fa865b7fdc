/* The law of device routines: on random arrays of all dtypes, over random shapes, meshes
 * and specs, what they make has bit for bit the values of the naive evaluator, and the bytes that
 * explain predicts are the bytes counted. */
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/law_world.h"
#include "support/topology_fixture.h"
#include "tessera.h"

typedef law_world world;

static int64_t draw(world *w, int64_t first, int64_t last)
{
  return law_draw(w, first, last);
}

static tsr_shape draw_shape(world *w, int least)
{
  return law_shape(w, least, 4);
}

static int draw_dim(world *w, int rank)
{
  return (int)draw(w, -rank, rank - 1);
}

/* A leaf, or what a kernel makes of one. */
static tsr_array *draw_input(world *w, tsr_dtype dtype, tsr_shape shape)
{
  tsr_array *x = law_leaf(w, dtype, shape, 0);
  return dtype == TSR_BOOL || draw(w, 0, 2) ? x : tsr_neg(x);
}

static void make_prefixes(world *w)
{
  static tsr_array *(*const calls[])(const tsr_scan_args *,
                                     const char *) = { tsr_cumsum_at, tsr_cumprod_at, tsr_cummax_at,
                                                       tsr_cummin_at };
  tsr_shape shape = draw_shape(w, 1);
  int which = (int)draw(w, 0, 3);
  tsr_array *x = draw_input(w, fixture_dtype(draw(w, which > 1, FIXTURE_DTYPES - 1)), shape);
  tsr_scan_args args = { .size = sizeof args, .x = x, .dim = draw_dim(w, shape.rank) };
  args.reverse = draw(w, 0, 1);
  w->made[w->count++] = calls[which](&args, TSR_HERE);
}

/* One of the results, or both; and what another routine makes of them. */
static void make_sort(world *w)
{
  tsr_shape shape = draw_shape(w, 1);
  tsr_array *x = draw_input(w, fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1)), shape);
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
    tsr_dtype dtype = fixture_dtype(draw(w, 1, FIXTURE_DTYPES - 1));
    keys[i] =
        tsr__dtype_integer(dtype) && i ? law_leaf(w, dtype, shape, 2) : draw_input(w, dtype, shape);
  }
  w->made[w->count++] = tsr_lexsort(keys, count, draw_dim(w, shape.rank));
}

static void make_top_k(world *w)
{
  tsr_shape shape = draw_shape(w, 1);
  tsr_array *x = draw_input(w, fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1)), shape);
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
  tsr_dtype dtype = fixture_dtype(draw(w, 1, FIXTURE_DTYPES - 1)),
            index = draw(w, 0, 1) ? TSR_I64 : TSR_I8;
  tsr_array *a = draw_input(w, dtype, shape), *at = law_leaf(w, index, places, size);
  tsr_array *b = law_leaf(w, draw(w, 0, 3) ? dtype : TSR_F64, updates, 0);
  w->made[w->count++] = tsr_scatter_add(a, at, b, draw(w, 0, 1) ? dim : dim - shape.rank);
}

/* Sums of rounded products depend on how what is contracted is cut. */
static bool draw_reproducible(world *w)
{
  w->whole = draw(w, 0, 1);
  return !w->whole || draw(w, 0, 1);
}

/* Small whole numbers, if sums of their products are to be exact; of types without a sign 0 and 1,
 * since what is below 0 there is large. */
static tsr_array *draw_operand(world *w, tsr_dtype dtype, tsr_shape shape)
{
  if (w->whole && tsr__dtype_info_of(dtype)->kind == TSR__DTYPE_UINT)
    return tsr_cast(law_leaf(w, TSR_BOOL, shape, 0), dtype);
  return w->whole && dtype != TSR_BOOL ? law_leaf(w, dtype, shape, 3) : draw_input(w, dtype, shape);
}

/* An operand as the product sees it, or one that is transposed to that. */
static tsr_array *draw_factor(world *w, tsr_dtype dtype, tsr_shape shape)
{
  int order[TSR_MAX_RANK], n = shape.rank;
  if (n < 2 || draw(w, 0, 2)) return draw_operand(w, dtype, shape);
  tsr_shape turned = shape;
  for (int d = 0; d < n; d++) turned.dims[d] = shape.dims[order[d] = (d + n - 1) % n];
  tsr_array *x = draw_operand(w, dtype, turned);
  for (int d = 0; d < n; d++) order[d] = (d + 1) % n;
  return tsr_transpose_at(x, order, n, TSR_HERE);
}

/* A wider dtype, or none. */
static tsr_dtype draw_asked(world *w)
{
  return draw(w, 0, 3) ? (tsr_dtype)0 : fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1));
}

static void make_matrices(world *w)
{
  static const int64_t sizes[] = { 0, 1, 2, 5, 6, 7, 8, 9, 25, 140 };
  /* Many batches of one. */
  bool deep = !draw(w, 0, 9);
  int most = deep ? TSR_MAX_RANK : 4;
  tsr_shape left = { .rank = (int)draw(w, 1, most) };
  for (int d = 0; d < left.rank; d++)
    left.dims[d] = d < left.rank - 2 ? deep ? draw(w, 0, 9) < 9 ? 1 : 2 : draw(w, 0, 3)
                                     : sizes[draw(w, draw(w, 0, 7) ? 1 : 0, 9)];
  tsr_shape right = { .rank = (int)draw(w, 1, most) };
  for (int d = 0; d < right.rank - 2; d++) {
    int l = d - (right.rank - left.rank);
    int64_t other = l >= 0 && l < left.rank - 2 ? left.dims[l] : deep ? 1 : draw(w, 0, 3);
    right.dims[d] = draw(w, 0, 2) ? other : 1;
  }
  right.dims[right.rank - 1] = sizes[draw(w, draw(w, 0, 7) ? 1 : 0, 9)];
  right.dims[right.rank > 1 ? right.rank - 2 : 0] = left.dims[left.rank - 1];
  tsr_dtype dtype = fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1));
  bool leaves = draw_reproducible(w);
  tsr_array *a = draw_factor(w, dtype, left);
  tsr_array *b = draw_factor(w, draw(w, 0, 3) ? dtype : TSR_F32, right);
  w->made[w->count++] = tsr_matmul(a, b, .dtype = draw_asked(w), .reproducible = leaves);
}

static void make_conv(world *w)
{
  int spatial = (int)draw(w, 1, 3);
  int64_t groups = draw(w, 1, 2);
  tsr_shape x = { .rank = spatial + 2 }, kernel = { .rank = spatial + 2 };
  tsr_conv_args conv = { .size = sizeof conv, .groups = groups, .same = draw(w, 0, 3) == 0 };
  conv.reproducible = draw_reproducible(w);
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
  tsr_dtype dtype = fixture_dtype(draw(w, 1, FIXTURE_DTYPES - 1));
  conv.x = draw_operand(w, dtype, x);
  conv.kernel = draw_factor(w, draw(w, 0, 3) ? dtype : TSR_F32, kernel);
  w->made[w->count++] = tsr_conv_at(&conv, TSR_HERE);
}

/* A convolution is a product, too. */
static void make_matmul(world *w)
{
  if (draw(w, 0, 2)) make_matrices(w);
  else make_conv(w);
}

enum { LETTERS = TSR_MAX_RANK, USUAL = 6 };

/* Letters of a term, of the first so many, some of them twice, and their sizes. */
static tsr_shape draw_term(world *w, int letters, const int64_t *sizes, char *text)
{
  tsr_shape shape = { .rank = (int)draw(w, 0, letters == USUAL ? 4 : letters) };
  for (int d = 0; d < shape.rank; d++) {
    int64_t letter = draw(w, 0, letters - 1);
    shape.dims[d] = sizes[letter];
    *text++ = (char)('a' + letter);
  }
  *text = '\0';
  return shape;
}

static void make_einsum(world *w)
{
  int64_t sizes[LETTERS];
  char text[128] = "", terms[128] = "";
  tsr_array *arrays[3];
  int letters = draw(w, 0, 7) ? USUAL : LETTERS;
  int count = (int)draw(w, 1, 3);
  tsr_dtype dtype = fixture_dtype(draw(w, 0, FIXTURE_DTYPES - 1));
  bool leaves = draw_reproducible(w);
  for (int i = 0; i < letters; i++)
    sizes[i] = letters == USUAL ? draw(w, draw(w, 0, 9) ? 1 : 0, 5) : i < 4 ? draw(w, 1, 2) : 1;
  for (int i = 0; i < count; i++) {
    char *end = text + strlen(text);
    arrays[i] = draw_factor(w, dtype, draw_term(w, letters, sizes, end));
    strcat(terms, end);
    strcat(text, i < count - 1 ? "," : "->");
  }
  for (int64_t left = draw(w, 0, letters == USUAL ? 4 : letters); left > 0 && *terms; left--) {
    char letter[2] = { terms[draw(w, 0, (int64_t)strlen(terms) - 1)], 0 };
    if (!strchr(strchr(text, '>'), letter[0])) strcat(text, letter);
  }
  w->made[w->count++] =
      tsr_einsum_with(text, arrays, count, .dtype = draw_asked(w), .reproducible = leaves);
}

/* What a kernel makes of a result. */
static void use_result(world *w)
{
  tsr_array *x = w->made[w->count - 1];
  tsr_dtype dtype = tsr_dtype_of(x);
  if (dtype == TSR_BOOL || draw(w, 0, 3)) return;
  w->made[w->count - 1] = draw(w, 0, 1) ? tsr_neg(x) : tsr_sum(tsr_add(x, x));
}

static void one_program(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=1",     "x=2",     "x=3",        "x=8",
                                        "x=2,y=2", "x=4,y=2", "x=2,y=2,z=2" };
  static void (*const makers[])(world *) = { make_prefixes,   make_sort,   make_lexsort,
                                             make_top_k,      make_matmul, make_einsum,
                                             make_scatter_add };
  enum { MAKERS = sizeof makers / sizeof *makers };
  world w = { .rng = test_seeded(seed), .seed = seed, .s = tsr_scope_open(rt) };
  w.mesh = tsr_mesh_make(rt, meshes[draw(&w, 0, 6)]);
  for (int64_t n = draw(&w, 1, 2); n > 0; n--) {
    int before = w.count;
    makers[draw(&w, 0, MAKERS - 1)](&w);
    if (w.count > before) use_result(&w);
  }
  law_check(&w);
}

TEST_TIMEOUT(any_routine_on_any_mesh_equals_the_naive_evaluator, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t programs = test_quick() ? 1500 : 20000, first = only ? strtoull(only, NULL, 10) : 1;
  for (uint64_t seed = first; seed <= (only ? first : programs); seed++)
    if (only || test_share(seed)) one_program(rt, seed);
  tsr_runtime_close(rt);
}
