/* The law of arrays: a random graph of 1 to 12 operations, over random shapes, meshes and specs,
 * has bit for bit the values of the naive evaluator; and the bytes that explain predicts are the
 * bytes that the copy routine counts. Each failure prints its seed and the program. */
#include <stdio.h>

#include "oracle.h"
#include "support/law_fixture.h"
#include "tessera.h"

enum { MOST_NODES = 24 };

typedef struct pair {
  tsr_array *node;
  dense value;
} pair;

typedef struct world {
  test_rng rng;
  tsr_scope *scope;
  tsr_mesh *mesh;
  pair pairs[MOST_NODES];
  int count;
  tsr_shape base;
  tsr_sharding on; /* of leaves of its rank; none: random */
  bool rows;       /* reductions mostly give one element a row */
} world;

static int64_t draw(world *w, int64_t first, int64_t last)
{
  return test_range(&w->rng, first, last);
}

static double draw_float(world *w, bool hostile)
{
  static const double odd[] = {
    0.0, -0.0, INFINITY, -INFINITY, NAN, 1e308, -1e308, 5e-324, 1e-310
  };
  if (hostile && draw(w, 0, 9) == 0) return odd[draw(w, 0, 8)];
  if (hostile && draw(w, 0, 3) == 0) return test_any_f64(&w->rng);
  return (double)draw(w, -4096, 4096) / 1024;
}

static tsr_dtype draw_dtype(world *w)
{
  return (tsr_dtype)draw(w, TSR_BOOL, TSR_F64);
}

static void add_leaf(world *w)
{
  tsr_shape shape = w->base;
  for (int d = 0; d < shape.rank; d++)
    if (draw(w, 0, 4) == 0) shape.dims[d] = 1;
  int drop = draw(w, 0, 3) == 0 ? (int)draw(w, 0, shape.rank) : 0;
  for (int d = 0; d + drop < shape.rank; d++) shape.dims[d] = shape.dims[d + drop];
  shape.rank -= drop;
  for (int d = shape.rank; d < TSR_MAX_RANK; d++) shape.dims[d] = 0;
  dense v = dense_new(draw_dtype(w), shape);
  bool hostile = draw(w, 0, 1);
  for (int64_t k = 0; k < v.count; k++) {
    if (is_float(v.dtype)) dense_set(&v, k, draw_float(w, hostile), 0);
    else if (v.dtype == TSR_BOOL) v.i[k] = draw(w, 0, 1);
    else dense_set(&v, k, 0, hostile ? (int64_t)test_random(&w->rng) : draw(w, -50, 50));
  }
  void *bytes = malloc((size_t)v.count * 8 + 8);
  dense_store(&v, bytes);
  tsr_sharding on = w->on;
  if (!on.mesh || shape.rank < w->base.rank) on = law_sharding(&w->rng, w->mesh, shape.rank);
  tsr_array *node = tsr_put(w->scope, bytes, v.dtype, shape, on);
  free(bytes);
  w->pairs[w->count++] = (pair){ node, v };
}

static pair *pick(world *w)
{
  return &w->pairs[draw(w, 0, w->count - 1)];
}

static pair as_bool(pair p)
{
  if (p.value.dtype == TSR_BOOL) return p;
  return (pair){ tsr_cast(p.node, TSR_BOOL), dense_cast(p.value, TSR_BOOL) };
}

static bool add_binary(world *w)
{
  static const char ops[] = "+-*/mMenlLgG&|^qr";
  pair a = *pick(w), b = *pick(w);
  char op = ops[draw(w, 0, 16)];
  tsr_shape shape;
  if (!broadcast_shape(a.value.shape, b.value.shape, &shape)) return false;
  if (strchr("&|^", op)) {
    a = as_bool(a);
    b = as_bool(b);
  }
  bool both_bool = a.value.dtype == TSR_BOOL && b.value.dtype == TSR_BOOL;
  if (both_bool && strchr("+-*mMqr", op)) return false;
  if (strchr("qr", op) && is_float(dense_promote(a.value.dtype, b.value.dtype))) return false;
  tsr_operand r = tsr_operand_array(b.node);
  tsr_array *(*fn)(tsr_array *, tsr_operand, const char *) = op == '+'   ? tsr_add_at
                                                             : op == '-' ? tsr_sub_at
                                                             : op == '*' ? tsr_mul_at
                                                             : op == '/' ? tsr_div_at
                                                             : op == 'm' ? tsr_minimum_at
                                                             : op == 'M' ? tsr_maximum_at
                                                             : op == 'e' ? tsr_eq_at
                                                             : op == 'n' ? tsr_ne_at
                                                             : op == 'l' ? tsr_lt_at
                                                             : op == 'L' ? tsr_le_at
                                                             : op == 'g' ? tsr_gt_at
                                                             : op == 'G' ? tsr_ge_at
                                                             : op == '&' ? tsr_and_at
                                                             : op == '|' ? tsr_or_at
                                                             : op == 'q' ? tsr_floordiv_at
                                                             : op == 'r' ? tsr_mod_at
                                                                         : tsr_xor_at;
  w->pairs[w->count++] = (pair){ fn(a.node, r, TSR_HERE), dense_binary(op, a.value, b.value) };
  return true;
}

static bool add_number(world *w)
{
  pair a = *pick(w);
  if (a.value.dtype == TSR_BOOL) return false;
  bool natural = !is_float(a.value.dtype) && kind(a.value.dtype).is_unsigned;
  int64_t n = draw(w, natural ? 0 : -3, 3); /* a number must fit */
  dense number = dense_new(a.value.dtype, (tsr_shape){ .rank = 0 });
  dense_set(&number, 0, (double)n, n);
  bool times = draw(w, 0, 1);
  tsr_array *node = times ? tsr_mul(a.node, n) : tsr_add(a.node, n);
  w->pairs[w->count++] = (pair){ node, dense_binary(times ? '*' : '+', a.value, number) };
  return true;
}

static bool add_unary(world *w)
{
  pair a = *pick(w);
  switch (draw(w, 0, 4)) {
  case 0:
    if (a.value.dtype == TSR_BOOL) return false;
    w->pairs[w->count++] = (pair){ tsr_neg(a.node), dense_unary('-', a.value) };
    return true;
  case 1:
    if (a.value.dtype == TSR_BOOL) return false;
    w->pairs[w->count++] = (pair){ tsr_abs(a.node), dense_unary('a', a.value) };
    return true;
  case 2: w->pairs[w->count++] = (pair){ tsr_sqrt(a.node), dense_unary('s', a.value) }; return true;
  case 3:
    a = as_bool(a);
    w->pairs[w->count++] = (pair){ tsr_not(a.node), dense_unary('!', a.value) };
    return true;
  default: {
    tsr_dtype to = draw_dtype(w);
    w->pairs[w->count++] = (pair){ tsr_cast(a.node, to), dense_cast(a.value, to) };
    return true;
  }
  }
}

static bool add_where(world *w)
{
  pair c = as_bool(*pick(w)), a = *pick(w), b = *pick(w);
  tsr_shape ab, shape;
  if (!broadcast_shape(a.value.shape, b.value.shape, &ab) ||
      !broadcast_shape(c.value.shape, ab, &shape))
    return false;
  w->pairs[w->count++] =
      (pair){ tsr_where(c.node, a.node, b.node), dense_where(c.value, a.value, b.value) };
  return true;
}

/* var and std have a simple oracle only for multiples of 1/1024 of moderate size. */
static bool tame(const dense *v)
{
  for (int64_t k = 0; k < v->count; k++) {
    if (!is_float(v->dtype)) {
      big_int whole = whole_of(v->dtype, v->i[k]);
      if (whole > 1 << 30 || whole < -(1 << 30)) return false;
    } else if (isfinite(v->f[k]) &&
               (fabs(v->f[k]) > 0x1p19 || v->f[k] * 1024 != floor(v->f[k] * 1024))) {
      return false;
    }
  }
  return true;
}

static bool add_reduction(world *w)
{
  static const char ops[] = "SSSAAVDmMyYcPiI";
  pair a = *pick(w);
  char op = ops[draw(w, 0, 14)];
  int rank = a.value.shape.rank;
  uint32_t all = rank ? (1u << rank) - 1 : 0;
  uint32_t dims = draw(w, 0, 2) ? (uint32_t)test_random(&w->rng) & all : 0;
  if (!dims) dims = all;
  if (w->rows && rank > 1 && draw(w, 0, 2)) dims = all & ~1u;
  if (op == 'P' && (is_float(a.value.dtype))) return false;
  if (strchr("VD", op) && !tame(&a.value)) return false;
  bool masked = draw(w, 0, 3) == 0;
  if (strchr("mMiI", op) && !masked && a.value.count == 0) return false;
  pair m = { 0 };
  if (masked) {
    m = as_bool(*pick(w));
    tsr_shape shape;
    if (!broadcast_shape(m.value.shape, a.value.shape, &shape) ||
        memcmp(&shape, &a.value.shape, sizeof shape) != 0)
      masked = false;
  }
  if (strchr("mMiI", op) && !masked && a.value.count == 0) return false;
  tsr_reduce_args args = { .size = sizeof args,
                           .x = a.node,
                           .dims = { .bits = dims },
                           .keep_dims = draw(w, 0, 2) == 0,
                           .where = masked ? m.node : NULL,
                           .ddof = draw(w, 0, 1) };
  tsr_array *(*fn)(const tsr_reduce_args *, const char *) = op == 'S'   ? tsr_sum_at
                                                            : op == 'P' ? tsr_prod_at
                                                            : op == 'A' ? tsr_mean_at
                                                            : op == 'V' ? tsr_var_at
                                                            : op == 'D' ? tsr_std_at
                                                            : op == 'm' ? tsr_min_at
                                                            : op == 'M' ? tsr_max_at
                                                            : op == 'y' ? tsr_any_at
                                                            : op == 'Y' ? tsr_all_at
                                                            : op == 'i' ? tsr_argmin_at
                                                            : op == 'I' ? tsr_argmax_at
                                                                        : tsr_count_at;
  args.skip_nan = draw(w, 0, 3) == 0;
  dense numbers = dense_new(TSR_BOOL, a.value.shape);
  for (int64_t k = 0; k < numbers.count; k++)
    numbers.i[k] = (!masked || m.value.i[broadcast_index(m.value.shape, a.value.shape, k)]) &&
                   !(args.skip_nan && isnan(a.value.f[k]));
  if (strchr("mMiI", op) && a.value.count == 0) args.skip_nan = false;
  dense v = dense_reduce(op, a.value, dims, args.keep_dims, args.ddof, &numbers);
  w->pairs[w->count++] = (pair){ fn(&args, TSR_HERE), v };
  return true;
}

static bool add_take(world *w)
{
  pair a = *pick(w);
  if (a.value.shape.rank == 0) return false;
  int dim = (int)draw(w, 0, a.value.shape.rank - 1);
  int64_t size = a.value.shape.dims[dim];
  if (size == 0) return false;
  int64_t n = draw(w, 0, 9);
  dense at = dense_new(TSR_I64, (tsr_shape){ .rank = 1, .dims = { n } });
  for (int64_t k = 0; k < n; k++) at.i[k] = draw(w, -size, size - 1);
  tsr_array *indices =
      tsr_put(w->scope, at.i, TSR_I64, at.shape, law_sharding(&w->rng, w->mesh, 1));
  tsr_shape shape = a.value.shape;
  shape.dims[dim] = n;
  dense r = dense_new(a.value.dtype, shape);
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.rank; d++) inner *= shape.dims[d];
  for (int64_t k = 0; k < r.count; k++) {
    int64_t i = k % inner, j = k / inner % n, o = k / inner / n;
    int64_t from = at.i[j] < 0 ? at.i[j] + size : at.i[j];
    r.f[k] = a.value.f[(o * size + from) * inner + i];
    r.i[k] = a.value.i[(o * size + from) * inner + i];
  }
  w->pairs[w->count++] = (pair){ tsr_take(a.node, indices, dim), r };
  return true;
}

/* A slice of every other dim, or the dims in another order, or turned. */
static bool add_view(world *w)
{
  pair a = *pick(w);
  int rank = a.value.shape.rank, order[TSR_MAX_RANK] = { 0 }, first = (int)draw(w, 0, 2);
  int64_t kind = draw(w, 0, 2), step[TSR_MAX_RANK];
  tsr_range ranges[TSR_MAX_RANK];
  tsr_shape shape = a.value.shape;
  if (!rank) return false;
  for (int d = 0; d < rank; d++) {
    order[d] = kind == 1 ? (d + first) % rank : d;
    int64_t size = a.value.shape.dims[order[d]], from = kind ? 0 : draw(w, 0, size);
    step[d] = kind == 0 ? draw(w, 1, 2) : kind == 1 ? 1 : -1;
    ranges[d] = TSR_STEPS(kind == 2 ? TSR_END : from, TSR_END, step[d]);
    shape.dims[d] = kind == 0 ? (size - from + step[d] - 1) / step[d] : size;
  }
  dense r = dense_new(a.value.dtype, shape);
  for (int64_t k = 0; k < r.count; k++) {
    int64_t index[TSR_MAX_RANK], at = 0, rest = k;
    for (int d = rank - 1; d >= 0; d--) {
      int64_t start = kind == 2 ? shape.dims[d] - 1 : ranges[d].start;
      index[order[d]] = start + step[d] * (rest % shape.dims[d]);
      rest /= shape.dims[d];
    }
    for (int d = 0; d < rank; d++) at = at * a.value.shape.dims[d] + index[d];
    r.f[k] = a.value.f[at];
    r.i[k] = a.value.i[at];
  }
  tsr_array *node = kind == 1 ? tsr_transpose_at(a.node, order, rank, TSR_HERE)
                              : tsr_slice_at(a.node, ranges, rank, TSR_HERE);
  w->pairs[w->count++] = (pair){ node, r };
  return true;
}

static bool add_line(world *w)
{
  pair a = *pick(w);
  int rank = a.value.shape.rank, dim = rank ? (int)draw(w, 0, rank - 1) : 0;
  if (!rank || a.value.shape.dims[dim] > 100) return false;
  pair made = { 0 };
  switch (draw(w, 0, 2)) {
  case 0: made = (pair){ tsr_cumsum(a.node, dim), dense_cumsum(a.value, dim) }; break;
  case 1: made = (pair){ tsr_sort(a.node, dim), dense_sort(a.value, dim, false) }; break;
  default: made = (pair){ tsr_argsort(a.node, dim - rank), dense_sort(a.value, dim, true) };
  }
  w->pairs[w->count++] = made;
  return true;
}

static bool add_placing(world *w)
{
  pair a = *pick(w);
  tsr_sharding s = law_sharding(&w->rng, w->mesh, a.value.shape.rank);
  tsr_array *node = draw(w, 0, 1) ? tsr_reshard(a.node, s) : tsr_constrain(a.node, s);
  w->pairs[w->count++] = (pair){ node, a.value };
  return true;
}

static bool add_iota(world *w)
{
  if (w->base.rank == 0) return false;
  int dim = (int)draw(w, 0, w->base.rank - 1);
  tsr_dtype dtype = draw_dtype(w);
  if (dtype == TSR_BOOL) return false;
  dense v = dense_new(dtype, w->base);
  int64_t stride = 1;
  for (int d = dim + 1; d < w->base.rank; d++) stride *= w->base.dims[d];
  for (int64_t k = 0; k < v.count; k++)
    dense_set(&v, k, (double)(k / stride % w->base.dims[dim]), k / stride % w->base.dims[dim]);
  w->pairs[w->count++] =
      (pair){ tsr_iota(w->scope, dtype, w->base, dim, law_sharding(&w->rng, w->mesh, w->base.rank)),
              v };
  return true;
}

/* Draws are the same wherever they lie: those of one device stand for the oracle's. */
static bool add_uniform(world *w)
{
  tsr_random_args args = { .size = sizeof args,
                           .key = (uint64_t)draw(w, 0, 99),
                           .keyed = true,
                           .stream = (uint64_t)draw(w, 0, 3),
                           .dtype = draw(w, 0, 1) ? TSR_F64 : TSR_F32,
                           .shape = w->base };
  dense v = dense_new(args.dtype, w->base);
  size_t bytes = (size_t)v.count * tsr_dtype_size(v.dtype);
  void *out = malloc(bytes + 8);
  CHECK_STATUS(tsr_read(tsr_uniform_at(w->scope, &args, TSR_HERE), out, bytes), TSR_OK, w->scope);
  for (int64_t k = 0; k < v.count; k++) dense_load(v.dtype, out, k, &v.f[k], &v.i[k]);
  free(out);
  args.on = law_sharding(&w->rng, w->mesh, w->base.rank);
  w->pairs[w->count++] = (pair){ tsr_uniform_at(w->scope, &args, TSR_HERE), v };
  return true;
}

static void add_operation(world *w)
{
  bool (*const kinds[])(world *) = { add_binary, add_binary,  add_binary,    add_number,
                                     add_unary,  add_where,   add_reduction, add_reduction,
                                     add_take,   add_placing, add_iota,      add_uniform,
                                     add_view,   add_view,    add_line };
  for (int tries = 0; tries < 50; tries++)
    if (kinds[draw(w, 0, 14)](w)) return;
}

static void check_pair(world *w, pair *p, uint64_t seed)
{
  void *out = malloc((size_t)p->value.count * 8 + 8);
  size_t bytes = (size_t)p->value.count * tsr_dtype_size(p->value.dtype);
  tsr_status status = tsr_read(p->node, out, bytes);
  if (status) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(w->scope));
  CHECK(tsr_dtype_of(p->node) == p->value.dtype);
  int64_t at = dense_differs(&p->value, out);
  if (at >= 0) {
    double found = 0;
    int64_t whole = 0;
    dense_load(p->value.dtype, out, at, &found, &whole);
    if (!is_float(p->value.dtype)) found = (double)whole;
    FAIL("seed %llu: %s element %lld is %.17g, expected %.17g", (unsigned long long)seed,
         tsr_type_of(p->node), (long long)at, found,
         is_float(p->value.dtype) ? p->value.f[at] : (double)p->value.i[at]);
  }
  free(out);
}

/* Evaluates some of what was made as one program, and checks all of it. */
static void check_world(world *w, tsr_array *const *roots, int count, uint64_t seed)
{
  for (int i = 0; getenv("LAW_SHOW") && i < w->count; i++)
    fprintf(stderr, "seed %llu, %d\n%s", (unsigned long long)seed, i, tsr_dump(w->pairs[i].node));
  tsr_status status = tsr_eval(roots, count);
  if (status) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(w->scope));
  tsr_run_stats stats = tsr_last_run(w->scope);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("seed %llu: %lld bytes counted, %lld explained, %lld escaped", (unsigned long long)seed,
         (long long)stats.bytes_counted, (long long)stats.bytes_explained,
         (long long)stats.bytes_escaped);
  for (int i = 0; i < w->count; i++) check_pair(w, &w->pairs[i], seed);
  tsr_scope_close(w->scope);
  test_kept_free();
}

static void one_graph(tsr_runtime *rt, uint64_t seed)
{
  static const int64_t sizes[] = { 0, 1, 2, 3, 5, 7, 8, 13, 17, 40 };
  world w = { .rng = test_seeded(seed) };
  w.scope = tsr_scope_open(rt);
  w.mesh = tsr_mesh_make(rt, law_meshes[draw(&w, 0, LAW_MESHES - 1)]);
  w.base.rank = (int)draw(&w, 0, 3);
  for (int d = 0; d < w.base.rank; d++) w.base.dims[d] = sizes[draw(&w, draw(&w, 0, 3) ? 1 : 0, 9)];
  w.base = law_deep(&w.rng, w.base, TSR_MAX_RANK);
  if (draw(&w, 0, 15) == 0) w.base = (tsr_shape){ .rank = 1, .dims = { draw(&w, 1000, 9000) } };
  if (draw(&w, 0, 79) == 0) w.base = law_large(&w.rng, 1, 3);
  for (int64_t leaves = draw(&w, 1, 3); leaves > 0; leaves--) add_leaf(&w);
  for (int64_t ops = draw(&w, 1, 12); ops > 0; ops--) add_operation(&w);
  if (tsr_scope_status(w.scope))
    FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(w.scope));
  tsr_array *roots[3];
  int count = (int)draw(&w, 1, 3);
  for (int r = 0; r < count; r++)
    roots[r] = w.pairs[r ? draw(&w, 0, w.count - 1) : w.count - 1].node;
  check_world(&w, roots, count, seed);
}

/* Several reductions of one array, by dims of any kind, in one pass: of one that is cut into tasks,
 * and of which devices hold nothing where a short dim is cut over many. */
static void one_pass(tsr_runtime *rt, uint64_t seed)
{
  world w = { .rng = test_seeded(seed) };
  tsr_array *roots[MOST_NODES];
  w.scope = tsr_scope_open(rt);
  w.mesh = tsr_mesh_make(rt, law_meshes[draw(&w, 0, 2) ? 4 : draw(&w, 0, LAW_MESHES - 1)]);
  w.base = law_large(&w.rng, 2, 4);
  w.rows = true;
  int few = 0;
  while (few < w.base.rank && w.base.dims[few] > 3) few++;
  const char *dims[TSR_MAX_RANK] = { NULL };
  if (few < w.base.rank) dims[few] = "x";
  if (draw(&w, 0, 3)) w.on = tsr_on_dims(w.mesh, w.base.rank, dims);
  do w.count = 0, add_leaf(&w);
  while (w.pairs[0].value.shape.rank < w.base.rank);
  int first = w.count;
  for (int64_t more = draw(&w, 2, 4); more > 0 && w.count < MOST_NODES - 1;) {
    int before = w.count;
    if (!add_reduction(&w)) continue;
    bool whole = w.pairs[before].value.count > 1 || draw(&w, 0, 3) == 0;
    more -= whole;
    if (!whole) w.count = before; /* numbers come of themselves too often */
  }
  for (int i = first; i < w.count; i++) roots[i - first] = w.pairs[i].node;
  check_world(&w, roots, w.count - first, seed);
}

TEST_TIMEOUT(any_graph_on_any_mesh_equals_the_naive_evaluator, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  const char *only = getenv("LAW_SEED");
  if (only) {
    one_graph(rt, strtoull(only, NULL, 10));
  } else {
    uint64_t graphs = test_quick() ? 1500 : 14000;
    for (uint64_t seed = 1; seed <= graphs; seed++)
      if (test_share(seed)) one_graph(rt, seed);
  }
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(reductions_of_one_pass_equal_the_naive_evaluator, 600)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  const char *only = getenv("LAW_SEED");
  uint64_t first = only ? strtoull(only, NULL, 10) : 1, count = only ? 1 : test_quick() ? 60 : 800;
  for (uint64_t seed = first; seed < first + count; seed++)
    if (only || test_share(seed)) one_pass(rt, seed);
  tsr_runtime_close(rt);
}

TEST(the_same_graph_has_the_same_bits_on_every_mesh)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  double expected[3] = { 0 };
  test_rng rng = test_seeded(7);
  enum { N = 5000 };
  double *x = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++) x[i] = test_any_f64(&rng) * 1e-10;
  for (int m = 0; m < 8; m++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[m]);
    tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(N), tsr_on(mesh, "x"));
    double found[3];
    CHECK_STATUS(tsr_read_scalar(tsr_sum(a), &found[0]), TSR_OK, s);
    CHECK_STATUS(tsr_read_scalar(tsr_mean(a), &found[1]), TSR_OK, s);
    CHECK_STATUS(tsr_read_scalar(tsr_std(a), &found[2]), TSR_OK, s);
    for (int k = 0; k < 3; k++) {
      if (m == 0) expected[k] = found[k];
      CHECK_F64_BITS(found[k], expected[k]);
    }
    tsr_scope_close(s);
  }
  free(x);
  tsr_runtime_close(rt);
}
