/* Gradients at ties, ends, zeros and infinities are those of JAX (tests/golden/make_gradients.py),
 * on one device, and with the same bits on eight, which hold uneven parts of small arrays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { ARRAYS = 2, NUMBERS = 64 };

/* ---- the cases, by the names of the file ----------------------------------------------------- */

typedef struct edge {
  const char *name;
  tsr_array *(*make)(tsr_scope *s, tsr_array *const *in);
} edge;

/* struct ... asks for the semicolon. */
#define MADE(name, ...)                                             \
  static tsr_array *make_##name(tsr_scope *s, tsr_array *const *in) \
  {                                                                 \
    (void)s;                                                        \
    return __VA_ARGS__;                                             \
  }                                                                 \
  struct made_##name
#define ONE(name) MADE(name, tsr_##name(in[0]))
#define TWO(name) MADE(name, tsr_##name(in[0], in[1]))
/* A list of i64 where an array of it is wanted. */
#define LIST(...)                                   \
  tsr_put(s, ((int64_t[]){ __VA_ARGS__ }), TSR_I64, \
          TSR_SHAPE((int64_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))), anywhere)
#define TABLE(rows, columns, ...) tsr_reshape(LIST(__VA_ARGS__), TSR_SHAPE(rows, columns))

static const tsr_sharding anywhere;

ONE(neg);
ONE(abs);
ONE(sqrt);
ONE(cbrt);
ONE(exp);
ONE(exp2);
ONE(expm1);
ONE(log);
ONE(log1p);
ONE(log2);
ONE(log10);
ONE(tanh);
ONE(asinh);
ONE(acosh);
ONE(atanh);
ONE(sin);
ONE(cos);
ONE(tan);
ONE(asin);
ONE(acos);
ONE(atan);
ONE(sinh);
ONE(cosh);
ONE(erf);
ONE(erfc);
ONE(erfinv);
ONE(sigmoid);
ONE(lgamma);
ONE(digamma);
ONE(relu);
ONE(square);
ONE(gelu);
ONE(floor);
ONE(rint);
ONE(sign);
ONE(reciprocal);
MADE(cube, tsr_pow(in[0], 3));
MADE(to_zero, tsr_pow(in[0], 0));
MADE(to_half, tsr_pow(in[0], 0.5));
MADE(of_two, tsr_pow(tsr_full(s, 2, TSR_F64, TSR_SHAPE(1), anywhere), in[0]));
MADE(clip, tsr_clip(in[0], -1, 1));
MADE(safe_where, tsr_where(tsr_gt(in[0], 0), tsr_log(tsr_where(tsr_gt(in[0], 0), in[0], 1)), 0));
MADE(nan_where, tsr_where(tsr_gt(in[0], 0), tsr_sqrt(in[0]), 0));
MADE(stopped, tsr_mul(in[0], tsr_stop_gradient(in[0])));

MADE(max_rows, tsr_max(in[0], .dims = TSR_DIMS(1)));
MADE(min_all, tsr_min(in[0]));
MADE(max_zeros, tsr_max(in[0]));
MADE(max_masked, tsr_max(in[0], .dims = TSR_DIMS(1), .where = tsr_lt(in[0], 5)));
MADE(mean_masked, tsr_mean(in[0], .dims = TSR_DIMS(0), .where = tsr_lt(in[0], 3)));
MADE(prod_rows, tsr_prod(in[0], .dims = TSR_DIMS(1)));
MADE(prod_all, tsr_prod(in[0]));
MADE(cumsum, tsr_cumsum(in[0], 0));
MADE(cumprod, tsr_cumprod(in[0], 1));
MADE(cumsum_back, tsr_cumsum(in[0], 1, .reverse = true));
MADE(cumprod_back, tsr_cumprod(in[0], 0, .reverse = true));
MADE(cummax, tsr_cummax(in[0], 1));
MADE(cummin, tsr_cummin(in[0], 0, .reverse = true));
MADE(sort, tsr_sort(in[0], 1));
MADE(sort_down, tsr_sort(in[0], 1, .descending = true));
MADE(top_k, tsr_top_k(in[0], 2, 1));
MADE(median, tsr_median(in[0], .dims = TSR_DIMS(1)));
MADE(var, tsr_var(in[0], .dims = TSR_DIMS(0)));
MADE(var_less, tsr_var(in[0], .dims = TSR_DIMS(1), .ddof = 1));
MADE(std, tsr_std(in[0], .dims = TSR_DIMS(0)));
MADE(std_flat, tsr_std(in[0], .dims = TSR_DIMS(1)));
MADE(mean, tsr_mean(in[0]));
MADE(sum_squares, tsr_sum(tsr_square(in[0]), .dims = TSR_DIMS(1)));
MADE(norm, tsr_sqrt(tsr_sum(tsr_mul(in[0], in[0]), .dims = TSR_DIMS(1))));
MADE(softmax, tsr_softmax(in[0], 0));
MADE(log_softmax, tsr_log_softmax(in[0], 1));
MADE(logsumexp, tsr_logsumexp(in[0], .dims = TSR_DIMS(0)));
MADE(doubled, tsr_take(in[0], LIST(0, 2, 2, 1, 2)));
MADE(outside, tsr_take(in[0], LIST(7, 0, 0, 3), .mode = TSR_INDEX_CLAMP));
MADE(filled, tsr_take(in[0], LIST(7, 0, -1), .mode = TSR_INDEX_FILL));
MADE(taken, tsr_take(in[0], TABLE(2, 2, 1, 1, 0, 3), 1));
MADE(along, tsr_take_along_dim(in[0], TABLE(3, 2, 2, 2, 0, 3, 1, 1), 1));
MADE(gathered, tsr_gather(in[0], { LIST(0, 2, 0), LIST(1, 3, 1) }));
MADE(window, tsr_dynamic_slice(in[0], LIST(1, 2), TSR_SHAPE(2, 2)));
MADE(window_end, tsr_dynamic_slice(in[0], LIST(2, 3), TSR_SHAPE(2, 2)));
MADE(steps, tsr_slice(in[0], TSR_STEPS(TSR_END, TSR_END, -2), TSR_STEPS(1, 4, 2)));
MADE(rolled, tsr_roll(in[0], 3, 1));
MADE(padded, tsr_pad(in[0], .low = { 1 }, .high = { 0, 2 }));
#define ONE_OF(a) \
  TSR_OPERAND(tsr_reshape(tsr_slice(a, TSR_RANGE(1, 2), TSR_RANGE(2, 3)), TSR_SCALAR))
MADE(padded_cut, tsr_pad(in[0], .low = { 1, -1 }, .high = { -1, 2 }, .value = ONE_OF(in[0])));
MADE(padded_between, tsr_pad(in[0], .low = { -2, 1 }, .high = { 1, -1 }, .interior = { 1, 2 },
                             .value = ONE_OF(in[0])));
MADE(tiled, tsr_tile(in[0], 2, 1));
MADE(repeated, tsr_repeat(in[0], 3, 0));
MADE(trace, tsr_trace(in[0]));
MADE(lower, tsr_tril(in[0], 0));
MADE(diff, tsr_diff(in[0], 1, 1));
MADE(joined, tsr_concat(((tsr_array *[]){ in[0], tsr_mul(in[0], in[0]) }), 2, 0));
MADE(max_pool, tsr_reduce_window(in[0], TSR_WINDOW_MAX, .window = { 2, 2 }, .stride = { 2, 1 }));
MADE(max_pool_wide, tsr_reduce_window(in[0], TSR_WINDOW_MAX, .window = { 3, 3 }, .low = { 1, 1 },
                                      .high = { 1, 1 }));
MADE(min_pool, tsr_reduce_window(in[0], TSR_WINDOW_MIN, .window = { 1, 3 }, .stride = { 1, 2 }));
MADE(sum_pool, tsr_reduce_window(in[0], TSR_WINDOW_SUM, .window = { 2, 2 }, .stride = { 2, 1 }));
MADE(cast, tsr_mul(tsr_cast(tsr_cast(in[0], TSR_F32), TSR_F64), 3));
MADE(whole, tsr_mul(in[0], tsr_cast(in[0], TSR_I32)));

TWO(minimum);
TWO(maximum);
TWO(add);
TWO(mul);
TWO(div);
TWO(pow);
TWO(atan2);
TWO(hypot);
TWO(copysign);
TWO(mod);
TWO(fmod);
TWO(logaddexp);
MADE(where, tsr_where(tsr_gt(in[0], in[1]), tsr_mul(in[0], in[1]), in[1]));
MADE(row_and_column,
     tsr_mul(tsr_expand_dims(in[0], TSR_DIMS(1)), tsr_expand_dims(in[1], TSR_DIMS(0))));
MADE(biased, tsr_add(in[0], in[1]));
MADE(matmul, tsr_matmul(in[0], in[1], .reproducible = true));
MADE(by_vector, tsr_matmul(in[0], in[1], .reproducible = true));
MADE(einsum, tsr_einsum("ij,ik->kij", in[0], in[1]));
MADE(put, tsr_scatter(in[0], LIST(2, 0), in[1], 0));
MADE(added, tsr_scatter_add(in[0], LIST(1, 1, 0), in[1], 0));
MADE(dropped,
     tsr_scatter(in[0], LIST(1, 9, 0), in[1], 0, .how = TSR_SCATTER_ADD, .mode = TSR_INDEX_DROP));
MADE(multiplied, tsr_scatter(in[0], LIST(1, 0), in[1], 0, .how = TSR_SCATTER_MUL));
MADE(best, tsr_scatter(in[0], LIST(1, 0, 2), in[1], 0, .how = TSR_SCATTER_MAX));
MADE(best_twice, tsr_scatter(in[0], LIST(1, 1, 0), in[1], 0, .how = TSR_SCATTER_MAX));
MADE(written, tsr_dynamic_update_slice(in[0], in[1], LIST(1, 3)));
MADE(conv, tsr_conv(in[0], in[1], .stride = { 2, 1 }, .low = { 1, 0 }, .high = { 0, 1 },
                    .reproducible = true));
MADE(conv_holes, tsr_conv(in[0], in[1], .dilation = { 2, 1 }, .reproducible = true));
MADE(fma, tsr_fma(in[0], in[1], in[0]));
MADE(prod_again, tsr_prod(in[0]));
MADE(cumprod_again, tsr_cumprod(in[0], 0));
MADE(norm_again, tsr_sqrt(tsr_sum(tsr_mul(in[0], in[0]))));
MADE(sort_again, tsr_square(tsr_sort(in[0], 0)));
MADE(pow_again, tsr_exp2(tsr_mul(in[0], in[0])));

#define ROW(name)      \
  {                    \
#name, make_##name \
  }
/* "x_again" is the gradient of x, once more. */
#define AGAIN(name)             \
  {                             \
#name "_again", make_##name \
  }
/* clang-format off */
static const edge edges[] = {
  ROW(neg), ROW(abs), ROW(sqrt), ROW(cbrt), ROW(exp), ROW(exp2), ROW(expm1), ROW(log), ROW(log1p),
  ROW(log2), ROW(log10), ROW(tanh), ROW(asinh), ROW(acosh), ROW(atanh), ROW(sin), ROW(cos),
  ROW(tan), ROW(asin), ROW(acos), ROW(atan), ROW(sinh), ROW(cosh), ROW(erf), ROW(erfc),
  ROW(erfinv), ROW(sigmoid), ROW(lgamma), ROW(digamma), ROW(relu), ROW(square), ROW(gelu),
  ROW(floor), ROW(rint), ROW(sign), ROW(reciprocal), ROW(cube), ROW(to_zero), ROW(to_half),
  ROW(of_two), ROW(clip), ROW(safe_where), ROW(nan_where), ROW(stopped), ROW(max_rows),
  ROW(min_all), ROW(max_zeros), ROW(max_masked), ROW(mean_masked), ROW(prod_rows), ROW(prod_all),
  ROW(cumsum), ROW(cumprod), ROW(cumsum_back), ROW(cumprod_back), ROW(cummax), ROW(cummin),
  ROW(sort), ROW(sort_down), ROW(top_k), ROW(median), ROW(var), ROW(var_less), ROW(std),
  ROW(std_flat), ROW(mean), ROW(sum_squares), ROW(norm), ROW(softmax), ROW(log_softmax),
  ROW(logsumexp), ROW(doubled), ROW(outside), ROW(filled), ROW(taken), ROW(along), ROW(gathered),
  ROW(window), ROW(window_end), ROW(steps), ROW(rolled), ROW(padded), ROW(tiled), ROW(repeated),
  ROW(padded_cut), ROW(padded_between),
  ROW(trace), ROW(lower), ROW(diff), ROW(joined), ROW(max_pool), ROW(max_pool_wide),
  ROW(min_pool), ROW(sum_pool), ROW(cast), ROW(whole), ROW(minimum), ROW(maximum), ROW(add),
  ROW(mul), ROW(div), ROW(pow), ROW(atan2), ROW(hypot), ROW(copysign), ROW(mod), ROW(fmod),
  ROW(logaddexp), ROW(where), ROW(row_and_column), ROW(biased), ROW(matmul), ROW(by_vector),
  ROW(einsum), ROW(put), ROW(added), ROW(dropped), ROW(multiplied), ROW(best), ROW(best_twice),
  ROW(written), ROW(conv), ROW(conv_holes), ROW(fma), AGAIN(tanh), AGAIN(sigmoid), AGAIN(gelu),
  AGAIN(sin), AGAIN(cube), AGAIN(erf), AGAIN(lgamma), AGAIN(softmax), AGAIN(var), AGAIN(relu),
  ROW(norm_again), ROW(cumprod_again), ROW(prod_again), ROW(sort_again), ROW(pow_again),
};
/* clang-format on */
#undef ROW
#undef AGAIN
#undef LIST
#undef TABLE

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct numbers {
  tsr_shape shape;
  int count;
  double at[NUMBERS];
} numbers;

typedef struct golden {
  char name[32];
  int count;
  numbers in[ARRAYS], due, to[ARRAYS];
} golden;

/* "DIMS NUMBERS" */
static numbers parse(char *text)
{
  numbers n = { .count = 0 };
  char *values = strchr(text, ' ');
  for (char *at = text; *text != '-' && at < values; at += *at == 'x')
    n.shape.dims[n.shape.rank++] = strtoll(at, &at, 10);
  for (char *at = values; *at; n.count++) {
    CHECK(n.count < NUMBERS);
    n.at[n.count] = strtod(at, &at);
  }
  return n;
}

/* Calls `check` with each case of the file; returns how many there are. */
static int each_golden(void (*check)(const golden *g, void *user), void *user)
{
  char *text = test_read(test_file("golden/gradients.txt"), NULL), *rest = NULL;
  golden g = { .count = 0 };
  int cases = 0, to = 0;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    if (!strncmp(line, "case ", 5)) {
      if (cases++) check(&g, user);
      g = (golden){ .count = 0 }, to = 0;
      snprintf(g.name, sizeof g.name, "%s", line + 5);
    } else if (!strncmp(line, "in ", 3)) {
      g.in[g.count++] = parse(line + 3);
    } else if (!strncmp(line, "due ", 4)) {
      g.due = parse(line + 4);
    } else if (!strncmp(line, "to ", 3)) {
      g.to[to++] = parse(line + 3);
    }
  }
  check(&g, user);
  free(text);
  return cases;
}

/* ---- running --------------------------------------------------------------------------------- */

static tsr_array *edge_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  return ((const edge *)user)->make(s, in);
}

/* The result weighed as what is due to those of the file, and added up. */
static tsr_array *weighed_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *out = edge_body(s, in, user);
  tsr_shape shape = tsr_shape_of(out), line = { .rank = 1, .dims = { 1 } };
  for (int d = 0; d < shape.rank; d++) line.dims[0] *= shape.dims[d];
  tsr_array *at = tsr_iota(s, TSR_F64, line, 0, anywhere);
  at = tsr_reshape(tsr_mul(tsr_add(tsr_mod(at, 7), 1), 0.25), shape);
  return tsr_sum(tsr_mul(out, at));
}

static const edge *edge_of(const char *name)
{
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
    if (!strcmp(edges[i].name, name)) return &edges[i];
  FAIL("no case %s", name);
}

static tsr_array *put(tsr_scope *s, const numbers *n, const tsr_mesh *mesh)
{
  tsr_sharding on = n->shape.rank ? tsr_on(mesh, "x") : anywhere;
  return tsr_put(s, n->at, TSR_F64, n->shape, on);
}

/* What comes to the arrays of a case on a mesh of one axis. */
static void find(const golden *g, const tsr_mesh *mesh, tsr_runtime *rt, numbers *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  const edge *e = edge_of(g->name);
  bool again = strstr(g->name, "_again");
  tsr_array *in[ARRAYS + 1];
  tsr_dims all = { .bits = (1u << g->count) - 1 };
  for (int i = 0; i < g->count; i++) in[i] = put(s, &g->in[i], mesh);
  in[g->count] = put(s, &g->due, mesh);
  tsr_function *f = tsr_function_make(s, again ? weighed_body : edge_body, .user = (void *)e);
  f = tsr_vjp(again ? tsr_grad(f) : f, .wrt = all);
  tsr_array *to = tsr_item(tsr_call_at(f, in, g->count + 1, TSR_HERE), 1);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  for (int i = 0; i < g->count; i++) {
    tsr_array *a = g->count > 1 ? tsr_item(to, i) : to;
    out[i].count = g->to[i].count;
    CHECK_STATUS(tsr_read(a, out[i].at, (size_t)out[i].count * sizeof(double)), TSR_OK, s);
  }
  tsr_scope_close(s);
}

/* Where we differ, and why (docs/NUMERICS.md). */
typedef struct difference {
  const char *name;
  int element;
  double ours;
} difference;

static const difference differences[] = {
  /* Between the slopes of both sides, so that no penalty moves what is 0. */
  { "abs", 5, 0 },
  { "abs", 6, 0 },
  { "hypot", 3, 0 },
  /* NaN stays in what it came to. */
  { "abs", 13, NAN },
  { "relu", 13, 1.75 },
  /* An exponent of 0 is flat, whether it is a number or an array. */
  { "pow", 4, 0 },
};

static double expected_of(const golden *g, int i, int k)
{
  for (size_t d = 0; d < sizeof differences / sizeof *differences; d++)
    if (!strcmp(differences[d].name, g->name) && differences[d].element == k &&
        (i == 0 || !strcmp(g->name, "hypot")))
      return differences[d].ours;
  return g->to[i].at[k];
}

static bool same(double found, double expected)
{
  if (isnan(expected) || isinf(expected)) return isnan(expected) ? isnan(found) : found == expected;
  return fabs(found - expected) <= 4e-14 * (1 + fabs(expected));
}

static void on_one(const golden *g, void *user)
{
  tsr_runtime *rt = user;
  numbers found[ARRAYS];
  find(g, tsr_mesh_make(rt, "x=1"), rt, found);
  for (int i = 0; i < g->count; i++)
    for (int k = 0; k < g->to[i].count; k++)
      if (!same(found[i].at[k], expected_of(g, i, k)))
        FAIL("%s, array %d, element %d: %.17g, in JAX %.17g", g->name, i, k, found[i].at[k],
             g->to[i].at[k]);
}

static void on_eight(const golden *g, void *user)
{
  tsr_runtime *rt = user;
  numbers one[ARRAYS], eight[ARRAYS];
  find(g, tsr_mesh_make(rt, "x=1"), rt, one);
  find(g, tsr_mesh_make(rt, "x=8"), rt, eight);
  for (int i = 0; i < g->count; i++)
    for (int k = 0; k < g->to[i].count; k++)
      if (memcmp(&one[i].at[k], &eight[i].at[k], sizeof(double)) != 0 &&
          !(isnan(one[i].at[k]) && isnan(eight[i].at[k]))) /* of a NaN the sign says nothing */
        FAIL("%s, array %d, element %d: %.17g on one device, %.17g on eight", g->name, i, k,
             one[i].at[k], eight[i].at[k]);
}

static void check_all(void (*check)(const golden *g, void *user))
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  CHECK_I64(each_golden(check, rt), (int64_t)(sizeof edges / sizeof *edges));
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(gradients_at_edges_are_those_of_jax, 120)
{
  check_all(on_one);
}

TEST_TIMEOUT(gradients_at_edges_have_the_same_bits_on_eight_devices, 120)
{
  check_all(on_eight);
}
