/* Gradients by central differences, of every row of the table of operations that has a rule: over
 * random shapes, on every mesh of the law, and of the gradients too; and the same bits on all of
 * these. Rows of floats alone are drawn as their columns TRIES say; rows that need more than that
 * are written down here. A row with a rule that nothing draws fails by its name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/array_room.h"
#include "harness.h"
#include "support/gradient_check.h"
#include "support/law_fixture.h"
#include "support/row_columns.h"
#include "tessera.h"

/* One row: what is computed of up to three arrays of one shape. */
typedef struct row {
  const char *name;
  tsr_array *(*make)(tsr_array *const *in); /* NULL: operation `op`, its values where TRIES says */
  int count;
  double least, most; /* of values */
  tsr__op op;
} row;

/* struct ... asks for the semicolon. */
#define MADE(name, ...)                               \
  static tsr_array *make_##name(tsr_array *const *in) \
  {                                                   \
    return __VA_ARGS__;                               \
  }                                                   \
  struct made_##name
#define ONE(name) MADE(name, tsr_##name(in[0]))

/* Each row's elements of the next ones, and one of them twice. */
static tsr_array *fetch_rows(tsr_array *x)
{
  int64_t rows = tsr_shape_of(x).dims[0], all = rows * tsr_shape_of(x).dims[1];
  tsr_array *at = tsr_iota(tsr__home(x), TSR_I64, TSR_SHAPE(rows, 3), 0, (tsr_sharding){ 0 });
  at = tsr_mod(tsr_mul(at, 5), all);
  return tsr__make(NULL, TSR__OP_FETCH, TSR__IN(x, at),
                   &(tsr__ask){ TSR__ATTR(tsr__span_attr, .more = 1) }, TSR_HERE);
}

ONE(digamma);
ONE(relu);
MADE(square, tsr_pow(in[0], 2));
MADE(cube, tsr_pow(in[0], 3));
MADE(where, tsr_where(tsr_gt(in[0], in[1]), tsr_mul(in[1], in[0]), in[2]));
MADE(turned, tsr_transpose(tsr_slice(in[0], TSR_STEPS(TSR_END, TSR_END, -1))));
MADE(steps, tsr_mul(tsr_slice(in[0], TSR_STEPS(1, TSR_END, 2), TSR_STEPS(TSR_END, 0, -2)), 3));
MADE(shifted, tsr_roll(in[0], 1, 0));
MADE(picked, tsr__pick_dim(in[0], 1, (const int32_t[]){ 1, -1, 0, 1 }, 4, TSR_HERE));
MADE(diagonal, tsr_square(tsr_diag(in[0], 1)));
MADE(padded, tsr_pad(in[0], .low = { 1 }, .high = { 0, 2 }, .value = TSR_OPERAND(tsr_max(in[1]))));
MADE(cut, tsr_pad(in[0], .low = { -1, 1 }, .high = { 2, -1 }, .interior = { 1, 1 },
                  .value = TSR_OPERAND(tsr_max(in[1]))));
MADE(joined, tsr_concat(((tsr_array *[]){ in[0], tsr_exp(in[1]), in[0] }), 3, 1));
MADE(reshaped, tsr_ravel(in[0]));
MADE(widened, tsr_add(in[0], tsr_sum(in[1], .dims = TSR_DIMS(0))));
MADE(narrow, tsr_mul(tsr_slice(in[0], TSR_ALL, TSR_RANGE(0, 1)), in[1]));
MADE(sum, tsr_mul(in[0], tsr_sum(in[1], .dims = TSR_DIMS(0), .keep_dims = true)));
MADE(mean, tsr_mul(tsr_mean(in[0]), tsr_mean(in[1], .dims = TSR_DIMS(1))));
MADE(masked, tsr_mean(in[0], .where = tsr_gt(in[1], 1)));
MADE(var, tsr_var(in[0], .dims = TSR_DIMS(0)));
MADE(std, tsr_std(in[0]));
MADE(prod, tsr_prod(in[0], .dims = TSR_DIMS(0)));
MADE(prods, tsr_prod(in[0], .where = tsr_gt(in[1], 1)));
MADE(max, tsr_max(in[0], .dims = TSR_DIMS(1)));
MADE(min, tsr_min(in[0]));
MADE(matmul, tsr_matmul(in[0], tsr_transpose(in[1])));
MADE(gram, tsr_matmul(tsr_transpose(in[0]), in[1], .reproducible = true));
MADE(vdot, tsr_vdot(in[0], in[1]));
MADE(outer, tsr_einsum("ij,ik->kij", in[0], in[1]));
MADE(softmax, tsr_log_softmax(in[0], 1));
MADE(cumsum, tsr_cumsum(in[0], 0));
MADE(cumprod, tsr_cumprod(in[0], 0));
MADE(cumprod_back, tsr_cumprod(in[0], 1, .reverse = true));
MADE(cummax, tsr_cummax(in[0], 0));
MADE(cummin, tsr_cummin(in[0], 1));
MADE(sort, tsr_sort(in[0], 1));
MADE(top_k, tsr_top_k(in[0], 1, 0));
MADE(take, tsr_take(in[0], tsr_argmax(in[1], .dims = TSR_DIMS(0)), 1, .mode = TSR_INDEX_CLAMP));
MADE(fetched, fetch_rows(in[0]));
MADE(along, tsr_take_along_dim(in[0], tsr_argsort(in[1], 0), 0));

MADE(full, tsr_mul(in[0], tsr_full(tsr__home(in[0]), tsr_max(in[1]), TSR_F64, tsr_shape_of(in[0]),
                                   (tsr_sharding){ 0 })));
MADE(placed, tsr_constrain(tsr_square(in[0]), (tsr_sharding){ 0 }));
MADE(like,
     tsr__make(NULL, TSR__OP_LIKE, TSR__IN(tsr_square(in[0]), in[1]), &(tsr__ask){ 0 }, TSR_HERE));
MADE(moved, tsr_mul(tsr_reshard(in[0], (tsr_sharding){ 0 }), in[1]));

/* The place of the largest element, of two dims. */
static tsr_array *start_of(tsr_array *a)
{
  tsr_array *at[2] = { tsr_argmax(tsr_max(a, .dims = TSR_DIMS(1))),
                       tsr_argmax(tsr_max(a, .dims = TSR_DIMS(0))) };
  return tsr_stack(at, 2, 0);
}
MADE(cut_out, tsr_dynamic_slice(in[0], start_of(in[1]), TSR_SHAPE(2, 1)));
MADE(written, tsr_dynamic_update_slice(in[0], tsr_slice(in[1], TSR_RANGE(0, 1), TSR_RANGE(0, 2)),
                                       start_of(in[1])));

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[1], tsr_add(tsr_mul(in[1], 0.5), 1));
}

static tsr_array *sine(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(in[0]);
}

static tsr_array *product(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_square(in[0]), in[1]);
}

/* Its rule, as the table would give it. */
static tsr_array *product_rule(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *by_x = tsr_mul(tsr_mul(in[0], in[1]), 2);
  (void)user;
  return tsr_tuple(s, tsr_mul(in[3], by_x), tsr_mul(in[3], tsr_square(in[0])));
}

static tsr_status not_looked_at(const tsr_seen *seen, void *user)
{
  (void)seen, (void)user;
  return TSR_OK;
}

MADE(repeated, tsr_fori(0, 3, step, NULL, in[0]));
MADE(chosen, tsr_cond(tsr_gt(tsr_sum(in[1]), 0), sine, product, NULL, in[0], in[1]));
MADE(ruled, tsr_call(tsr_custom_vjp(tsr_function_make(tsr__home(in[0]), product),
                                    .backward = product_rule),
                     in[0], in[1]));
MADE(shown, tsr_square(tsr_callback(in[0], not_looked_at)));

static tsr_array *make_gather(tsr_array *const *in)
{
  tsr_array *rows = tsr_argmax(in[1], .dims = TSR_DIMS(1));
  tsr_array *columns = tsr_argmax(in[0], .dims = TSR_DIMS(1));
  return tsr_gather(in[0], { tsr_minimum(rows, tsr_shape_of(in[0]).dims[0] - 1), columns });
}

/* A row for each row, some twice. */
static tsr_array *places_of(tsr_array *a)
{
  int64_t size = tsr_shape_of(a).dims[0];
  tsr_array *order = tsr_mod(tsr_argsort(a, 0), size / 2 + 1);
  return tsr_reshape(tsr_slice(order, TSR_ALL, TSR_RANGE(0, 1)), TSR_SHAPE(size));
}

#define SCATTERED(name, kind) \
  MADE(name, tsr_scatter(in[0], places_of(in[2]), in[1], 0, .how = TSR_SCATTER_##kind))
SCATTERED(put, SET);
SCATTERED(put_sum, ADD);
SCATTERED(put_product, MUL);
SCATTERED(put_max, MAX);
SCATTERED(put_min, MIN);

#define ROW(name, count, least, most)                    \
  {                                                      \
#name, make_##name, count, least, most, TSR__OP_LEAF \
  }
static const row by_hand[] = {
  ROW(digamma, 1, 0.7, 4), ROW(relu, 1, 0.5, 2),       ROW(square, 1, -2, 2),
  ROW(cube, 1, -2, 2),     ROW(where, 3, -2, 2),       ROW(turned, 1, -2, 2),
  ROW(steps, 1, -2, 2),    ROW(shifted, 1, -2, 2),     ROW(picked, 1, -2, 2),
  ROW(diagonal, 1, -2, 2), ROW(padded, 2, -2, 2),      ROW(cut, 2, -2, 2),
  ROW(joined, 2, -2, 2),   ROW(reshaped, 1, -2, 2),    ROW(widened, 2, -2, 2),
  ROW(narrow, 2, -2, 2),   ROW(sum, 2, -2, 2),         ROW(mean, 2, -2, 2),
  ROW(masked, 2, 0, 3),    ROW(var, 1, -2, 2),         ROW(std, 1, -2, 2),
  ROW(prod, 1, -2, 2),     ROW(prods, 2, 0.5, 1.5),    ROW(max, 1, -2, 2),
  ROW(min, 1, -2, 2),      ROW(matmul, 2, -2, 2),      ROW(gram, 2, -2, 2),
  ROW(vdot, 2, -2, 2),     ROW(outer, 2, -2, 2),       ROW(softmax, 1, -2, 2),
  ROW(cumsum, 1, -2, 2),   ROW(cumprod, 1, -2, 2),     ROW(cumprod_back, 1, -2, 2),
  ROW(cummax, 1, -2, 2),   ROW(cummin, 1, -2, 2),      ROW(sort, 1, -2, 2),
  ROW(top_k, 1, -2, 2),    ROW(take, 2, -2, 2),        ROW(fetched, 1, -2, 2),
  ROW(along, 2, -2, 2),    ROW(gather, 2, -2, 2),      ROW(put, 3, -2, 2),
  ROW(put_sum, 3, -2, 2),  ROW(put_product, 3, -2, 2), ROW(put_max, 3, -2, 2),
  ROW(put_min, 3, -2, 2),  ROW(full, 2, -2, 2),        ROW(placed, 1, -2, 2),
  ROW(like, 2, -2, 2),     ROW(moved, 2, -2, 2),       ROW(cut_out, 2, -2, 2),
  ROW(written, 2, -2, 2),  ROW(repeated, 1, -2, 2),    ROW(chosen, 2, -2, 2),
  ROW(ruled, 2, -2, 2),    ROW(shown, 1, -2, 2),
};

enum { BY_HAND = sizeof by_hand / sizeof *by_hand, MOST = 3 };

/* All rows: those of the table that say where, then those above. */
static const row *row_at(int which)
{
  static row of_table;
  for (int op = 0; op < TSR__OPS; op++) {
    if (!row_has_range(op) || which--) continue;
    of_table = (row){ tsr__ops[op].name, NULL, tsr__ops[op].least, 0, 0, (tsr__op)op };
    CHECK(of_table.count <= MOST);
    return &of_table;
  }
  return which < BY_HAND ? &by_hand[which] : NULL;
}

static tsr_array *made_of(const row *r, tsr_array *const *in)
{
  if (r->make) return r->make(in);
  return tsr__make(NULL, r->op, (tsr__operands){ in, r->count }, &(tsr__ask){ 0 }, TSR_HERE);
}

static tsr_array *row_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const row *r = user;
  (void)s;
  return tsr_mul(made_of(r, in), 1.5);
}

/* Distinct values of the range, so that no ties and no steps are near. */
static tsr_array *drawn(tsr_scope *s, test_rng *rng, const row *r, int operand, tsr_shape shape,
                        tsr_sharding on)
{
  double data[64];
  int count = (int)(shape.dims[0] * shape.dims[1]);
  row_range range = r->make ? (row_range){ r->least, r->most } : row_range_of((int)r->op, operand);
  for (int i = 0; i < count; i++) data[i] = row_draw((int)r->op, range, rng, i, count);
  for (int i = count - 1; i > 0; i--) {
    int k = (int)test_range(rng, 0, i);
    double swapped = data[i];
    data[i] = data[k], data[k] = swapped;
  }
  return tsr_put(s, data, TSR_F64, shape, on);
}

/* The same number for a row whatever stands in the table around it. */
static uint64_t number_of(const row *r)
{
  uint64_t out = 7;
  for (const char *c = r->name; *c; c++) out = out * 31 + (uint64_t)*c;
  return out % 1000;
}

/* One row on arrays that lie at random on a mesh, or anywhere. */
static tsr_shape draw_row(tsr_scope *s, const tsr_mesh *mesh, const row *r, uint64_t seed,
                          tsr_array **in)
{
  test_rng rng = test_seeded(seed * 1000 + number_of(r)), places = test_seeded(seed);
  tsr_shape shape = TSR_SHAPE(test_range(&rng, 2, 5), test_range(&rng, 2, 5));
  for (int i = 0; i < r->count; i++) {
    tsr_sharding on = mesh ? law_sharding(&places, mesh, 2) : (tsr_sharding){ 0 };
    in[i] = drawn(s, &rng, r, i, shape, on);
  }
  return shape;
}

static void check_row(tsr_runtime *rt, const tsr_mesh *mesh, const row *r, uint64_t seed)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *in[MOST];
  draw_row(s, mesh, r, seed, in);
  gradient_check(
      &(gradient_case){ r->name, s, row_body, (void *)(uintptr_t)r, in, r->count, 2, 2e-6, seed });
  tsr_scope_close(s);
}

static void check_rows(const char *axes, uint64_t seed)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  const row *r;
  for (int i = 0; (r = row_at(i)); i++) check_row(rt, mesh, r, seed);
  tsr_runtime_close(rt);
}

/* Marks what stands on the ways of floats from operands to a result; false: no way leads there. */
static bool mark_ways(const tsr_array *a, const row *r, tsr_array *const *in, bool *drawn_ops)
{
  bool leads = false;
  for (int i = 0; i < r->count; i++)
    if (a == in[i]) return true;
  for (int i = 0; i < a->in_count; i++)
    if (a->in[i] && mark_ways(a->in[i], r, in, drawn_ops)) leads = true;
  if (!leads || (!a->extras && !tsr__dtype_is_real((tsr_dtype)a->dtype))) return false;
  drawn_ops[a->op] = true;
  for (int i = 0; a->extras && i < a->extras->region_count; i++) {
    const tsr__program *inside = &a->extras->regions[i]->program;
    for (int n = 0; n < inside->node_count; n++) drawn_ops[inside->nodes[n].op] = true;
  }
  return true;
}

/* A row that is traced, and what is seen in its trace. */
typedef struct tracing {
  const row *r;
  bool *drawn_ops;
} tracing;

static tsr_array *traced_row(tsr_scope *s, tsr_array *const *in, void *user)
{
  const tracing *t = user;
  (void)s;
  tsr_array *made = made_of(t->r, in);
  mark_ways(made, t->r, in, t->drawn_ops);
  return made;
}

/* Of rows that are made of floats alone nothing but a column is needed. */
static bool is_of_floats(int op)
{
  const tsr__opinfo *info = &tsr__ops[op];
  bool element = info->lowering == TSR__LOW_TILE || info->lowering == TSR__LOW_FORMULA;
  return element && info->aligned && !info->looks_up && info->wants != TSR__WANT_CHOICE &&
         info->dtype_rule != TSR__DT_ATTR;
}

TEST(every_row_with_a_rule_is_drawn)
{
  bool drawn_ops[TSR__OPS] = { false };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const row *r;
  for (int i = 0; (r = row_at(i)); i++) {
    tsr_array *in[MOST];
    draw_row(s, NULL, r, 1, in);
    tracing t = { r, drawn_ops };
    tsr_call_at(tsr_function_make(s, traced_row, .user = &t), in, r->count, TSR_HERE);
    if (tsr_scope_status(s)) FAIL("%s: %s", r->name, tsr_message(s));
  }
  for (int op = 0; op < TSR__OPS; op++) {
    if (!row_has_slope(op) || row_columns_of[op].untried) continue;
    if (is_of_floats(op) && !row_has_range(op))
      FAIL("%s has the gradient rule %s and no TRIES: its row must say where floats are drawn",
           tsr__ops[op].name, row_columns_of[op].rule);
    if (!drawn_ops[op])
      FAIL("%s has the gradient rule %s, which no row of this test draws", tsr__ops[op].name,
           row_columns_of[op].rule);
  }
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(gradients_of_rows_are_central_differences_on_one_device, 300)
{
  for (uint64_t seed = 0; seed < (test_quick() ? 1 : 4); seed++) check_rows("x=1", seed);
}

TEST_TIMEOUT(gradients_of_rows_are_central_differences_on_meshes, 300)
{
  for (int m = 0; m < LAW_MESHES; m++)
    if (!test_quick() || m == 5) check_rows(law_meshes[m], 11 + (uint64_t)m);
}

/* ---- the same bits everywhere ---------------------------------------------------------------- */

/* Products that do not say .reproducible depend on the mesh, and so does prod. */
static bool has_bits(const row *r)
{
  const char *const none[] = { "matmul", "outer", "prod", "prods" };
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if (!strcmp(r->name, none[i])) return false;
  return true;
}

static tsr_array *summed_row(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *out = row_body(s, in, user);
  return tsr_sum(tsr_mul(out, tsr_cos(out)));
}

static tsr_array *summed_alone(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(row_body(s, in, user));
}

/* A row's gradients by all its arrays, on a mesh or on one device. */
static void find_slopes(tsr_runtime *rt, const tsr_mesh *mesh, const row *r, uint64_t seed,
                        double *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *in[MOST], *leaves[MOST];
  tsr_shape shape = draw_row(s, mesh, r, seed, in);
  int count = r->count;
  size_t each = (size_t)(shape.dims[0] * shape.dims[1]);
  tsr_function *f = tsr_function_make(s, summed_row, .user = (void *)(uintptr_t)r);
  tsr_function *g = tsr_grad(f, .wrt = { .bits = (1u << count) - 1 });
  tsr_tree_leaves(tsr_call_at(g, in, count, TSR_HERE), leaves, MOST);
  for (int i = 0; i < count; i++)
    CHECK_STATUS(tsr_read(leaves[i], out + each * (size_t)i, each * sizeof *out), TSR_OK, s);
  tsr_scope_close(s);
}

static void compare_rows(tsr_runtime *rt, const char *axes, uint64_t seed)
{
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  const row *r;
  for (int i = 0; (r = row_at(i)); i++) {
    double one[25 * MOST] = { 0 }, many[25 * MOST] = { 0 };
    if (!has_bits(r)) continue;
    find_slopes(rt, NULL, r, seed, one);
    find_slopes(rt, mesh, r, seed, many);
    if (memcmp(one, many, sizeof one) != 0) FAIL("%s on %s, seed %d", r->name, axes, (int)seed);
  }
}

TEST_TIMEOUT(gradients_of_rows_have_the_same_bits_on_every_mesh, 300)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  for (int m = 0; m < LAW_MESHES; m++)
    if (!test_quick() || m % 3 == 0) compare_rows(rt, law_meshes[m], 31 + (uint64_t)m);
  tsr_runtime_close(rt);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static tsr_array *conv_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_conv_args args = *(const tsr_conv_args *)user;
  (void)s;
  args.x = in[0];
  args.kernel = in[1];
  return tsr_conv_at(&args, TSR_HERE);
}

static tsr_array *numbers(tsr_scope *s, tsr_shape shape, double phase)
{
  tsr_shape flat = { .rank = 1, .dims = { 1 } };
  for (int d = 0; d < shape.rank; d++) flat.dims[0] *= shape.dims[d];
  tsr_array *at = tsr_iota(s, TSR_F64, flat, 0, (tsr_sharding){ 0 });
  return tsr_reshape(tsr_sin(tsr_add(tsr_mul(at, 1.3), phase)), shape);
}

TEST_TIMEOUT(gradients_of_convolutions_are_central_differences, 300)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 2);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  test_rng rng = test_seeded(3);
  for (uint64_t seed = 0; seed < (test_quick() ? 6 : 30); seed++) {
    tsr_scope *s = tsr_scope_open(rt);
    int64_t groups = test_range(&rng, 1, 2);
    tsr_conv_args args = { .size = sizeof args, .groups = groups, .reproducible = seed % 2 };
    for (int i = 0; i < 2; i++) {
      args.stride[i] = test_range(&rng, 1, 3);
      args.dilation[i] = test_range(&rng, 1, 2);
      args.low[i] = test_range(&rng, 0, 2);
      args.high[i] = test_range(&rng, 0, 2);
    }
    tsr_shape x = TSR_SHAPE(2, test_range(&rng, 4, 8), test_range(&rng, 4, 8), 2 * groups);
    tsr_shape kernel = TSR_SHAPE(test_range(&rng, 1, 3), test_range(&rng, 1, 3), 2, 2 * groups);
    tsr_array *in[] = { tsr_reshard(numbers(s, x, 0.1), law_sharding(&rng, mesh, 4)),
                        tsr_reshard(numbers(s, kernel, 0.7), law_sharding(&rng, mesh, 4)) };
    gradient_check(&(gradient_case){ "conv", s, conv_body, &args, in, 2, 2, 2e-6, seed });
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- products by letters --------------------------------------------------------------------- */

enum { LETTERS = 16, USUAL = 4, TERMS = 3 };

/* Up to three operands of up to four dims, at times of all that there may be, letters among them
 * twice and thrice, and a result that has some of them, each once. */
typedef struct letters {
  char text[96];
  tsr_shape shape[TERMS];
  int count;
} letters;

static letters draw_letters(test_rng *rng)
{
  letters out = { .count = (int)test_range(rng, 1, TERMS) };
  int64_t size[LETTERS];
  bool used[LETTERS] = { false };
  size_t at = 0;
  int most = test_range(rng, 0, 7) ? USUAL : LETTERS;
  for (int i = 0; i < LETTERS; i++)
    size[i] = i < USUAL ? test_range(rng, 1, most == USUAL ? 3 : 2) : 1;
  for (int t = 0; t < out.count; t++) {
    if (t) out.text[at++] = ',';
    out.shape[t].rank = (int)test_range(rng, most == USUAL ? 0 : USUAL, most);
    for (int d = 0; d < out.shape[t].rank; d++) {
      int letter = (int)test_range(rng, 0, most - 1);
      used[letter] = true;
      out.shape[t].dims[d] = size[letter];
      out.text[at++] = (char)('i' + letter);
    }
  }
  memcpy(out.text + at, "->", 2), at += 2;
  for (int i = 0, turn = (int)test_range(rng, 0, 3); i < most; i++) {
    int letter = (i + turn) % most;
    if (used[letter] && test_range(rng, 0, 1)) out.text[at++] = (char)('i' + letter);
  }
  return out;
}

static tsr_array *letters_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const letters *l = user;
  (void)s;
  return tsr_einsum_at(&(tsr_einsum_args){ .size = sizeof(tsr_einsum_args),
                                           .text = l->text,
                                           .arrays = in,
                                           .count = l->count },
                       TSR_HERE);
}

static bool one_einsum(tsr_runtime *rt, uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  letters l = draw_letters(&rng);
  tsr_array *in[TERMS + 1] = { NULL };
  for (int t = 0; t < l.count; t++)
    in[t] = tsr_reshard(numbers(s, l.shape[t], 0.4 + t), law_sharding(&rng, mesh, l.shape[t].rank));
  gradient_check(&(gradient_case){ l.text, s, letters_body, &l, in, l.count, 2, 2e-6, seed });
  tsr_scope_close(s);
  return true;
}

TEST_TIMEOUT(gradients_of_products_by_letters_are_central_differences, 300)
{
  law_each_seed_on_8(1, test_quick() ? 40 : 300, 0.5, one_einsum);
}

/* ---- narrow floats --------------------------------------------------------------------------- */

/* What a row gives, its gradient, and how that changes along an array as large. */
typedef struct thrice {
  double at[3][64];
  int count[3];
} thrice;

static void thrice_of(tsr_scope *s, const row *r, tsr_array *const *in, thrice *out)
{
  tsr_function *f = tsr_function_make(s, summed_alone, .user = (void *)(uintptr_t)r);
  tsr_array *args[2 * MOST + 1] = { NULL };
  for (int i = 0; i < r->count; i++) args[i] = in[i];
  args[r->count] = tsr_roll(in[0], 1, 0); /* along x itself some have none */
  tsr_array *made[3] = { row_body(s, in, (void *)(uintptr_t)r),
                         tsr_call_at(tsr_grad(f), in, r->count, TSR_HERE),
                         tsr_call_at(tsr_hvp(f), args, r->count + 1, TSR_HERE) };
  for (int k = 0; k < 3; k++) {
    tsr_array *flat = tsr_ravel(tsr_cast(made[k], TSR_F64));
    out->count[k] = (int)tsr_shape_of(flat).dims[0];
    CHECK(out->count[k] <= 64);
    CHECK_STATUS(tsr_read(flat, out->at[k], (size_t)out->count[k] * sizeof(double)), TSR_OK, s);
  }
}

static double largest(const double *a, int count)
{
  double most = 0;
  for (int i = 0; i < count; i++) most = fmax(most, isnan(a[i]) ? (double)INFINITY : fabs(a[i]));
  return most;
}

/* Where the value, the gradient and the second derivative of f64 fit a narrow float with room,
 * those of that fit as well, and are about the same, from sizes where squares do not. */
static void check_narrow(tsr_runtime *rt, const row *r, tsr_dtype dtype, double scale)
{
  static const char *const names[] = { "value", "gradient", "second derivative" };
  double limit = dtype == TSR_F16 ? 65504 : 0x1.fp127, least = dtype == TSR_F16 ? 1e-3 : 1e-30;
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(7);
  tsr_array *in[MOST], *wide[MOST];
  thrice found, want;
  for (int i = 0; i < r->count; i++) {
    tsr_array *x = drawn(s, &rng, r, i, TSR_SHAPE(3, 3), (tsr_sharding){ 0 });
    in[i] = tsr_cast(tsr_mul(x, scale), dtype);
    wide[i] = tsr_cast(in[i], TSR_F64);
  }
  thrice_of(s, r, wide, &want);
  thrice_of(s, r, in, &found);
  for (int k = 0; k < 3; k++) {
    double most = largest(want.at[k], want.count[k]);
    if (!(most < limit / 8)) break;
    for (int i = 0; i < want.count[k]; i++) {
      double off = fabs(found.at[k][i] - want.at[k][i]);
      if (!(off <= 0.2 * most + least))
        FAIL("%s of %s at %g: the %s is %g, that of f64 %g", r->name, tsr_dtype_name(dtype), scale,
             names[k], found.at[k][i], want.at[k][i]);
    }
  }
  tsr_scope_close(s);
}

/* Of these a rounded operand is another place: steps, and sums of what cancels. */
static bool jumps(const row *r)
{
  return row_columns_of[r->op].jumps || !strcmp(r->name, "put_product");
}

TEST_TIMEOUT(second_derivatives_fit_the_floats_that_hold_them, 300)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  const row *r;
  for (int i = 0; (r = row_at(i)); i++) {
    if (jumps(r)) continue;
    for (double scale = 1; scale < 10000; scale *= 10) check_narrow(rt, r, TSR_F16, scale);
    for (double scale = 1; scale < 1e30; scale *= 1e6) {
      check_narrow(rt, r, TSR_F32, scale);
      check_narrow(rt, r, TSR_BF16, scale);
    }
  }
  tsr_runtime_close(rt);
}
