/* Fusion: what shares a kernel, and random programs of all shapes against the evaluator by the
 * book, on 1 to 8 devices, with several threads. Runs at each ISA. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/kernel_fixture.h"
#include "support/naive_program.h"

/* ---- what shares a kernel ---- */

static int number_of_kernels(kernel_fixture *k)
{
  CHECK_STATUS(kernel_run(k), TSR_OK, NULL);
  return k->kernels;
}

static int masked(kernel_fixture *k, tsr__op op, int x, int mask)
{
  return kernel_op(k, op, x, mask, -1);
}

TEST(filter_and_aggregates_are_one_pass)
{
  enum { N = 5000 };
  static double revenue[N];
  static int64_t sessions[N];
  kernel_fixture k;
  test_rng rng = test_seeded(1);
  for (int i = 0; i < N; i++) {
    revenue[i] = test_uniform(&rng) * 100;
    sessions[i] = test_range(&rng, 0, 9);
  }
  kernel_open(&k, 4, NULL, 2);
  int r = kernel_leaf(&k, TSR_F64, TSR_SHAPE(N), true, revenue);
  int s = kernel_leaf(&k, TSR_I64, TSR_SHAPE(N), true, sessions);
  int mask = kernel_op(&k, TSR__OP_GT, r, kernel_number(&k, TSR_F64, 50), -1);
  int wide = kernel_node(&k, TSR__OP_CAST, TSR__LINKS(s), &(tsr__ask){ .dtype = TSR_F64 }, true);
  int each = kernel_op(&k, TSR__OP_DIV, r, wide, -1);
  kernel_root(&k, masked(&k, TSR__OP_SUM, r, mask));
  kernel_root(&k, masked(&k, TSR__OP_SUM, s, mask));
  kernel_root(&k, masked(&k, TSR__OP_MEAN, each, mask));
  kernel_root(&k, masked(&k, TSR__OP_MAX, each, mask));
  CHECK_I64(number_of_kernels(&k), 1);
  const tsr__kernel_io *io = tsr__kernel_io_of(k.schedule.steps[0].kernel);
  CHECK_I64(io->input_count, 2);
  CHECK_I64(io->output_count, 0);
  CHECK_I64(io->accum_count, 5); /* the mean has a count */
  CHECK_I64(k.schedule.step_count, 2);
  kernel_close(&k);
}

TEST(a_reduction_inside_takes_two_passes)
{
  double x[300] = { 1, 2, 3 };
  kernel_fixture k;
  kernel_open(&k, 2, NULL, 1);
  int leaf = kernel_leaf(&k, TSR_F64, TSR_SHAPE(300), true, x);
  int mean = kernel_op(&k, TSR__OP_MEAN, leaf, -1, -1);
  int shifted = kernel_op(&k, TSR__OP_ADD, mean, kernel_number(&k, TSR_F64, 1), -1);
  kernel_root(&k, kernel_op(&k, TSR__OP_DIV, leaf, shifted, -1));
  CHECK_I64(number_of_kernels(&k), 2); /* mean + 1 is computed inside the second */
  kernel_close(&k);
}

TEST(a_broadcast_operand_is_stored_first_and_its_partner_is_not)
{
  double x[64] = { 1 }, row[8] = { 2 };
  kernel_fixture k;
  kernel_open(&k, 1, NULL, 1);
  int a = kernel_leaf(&k, TSR_F64, TSR_SHAPE(8, 8), false, x);
  int b = kernel_leaf(&k, TSR_F64, TSR_SHAPE(8), false, row);
  int one = kernel_number(&k, TSR_F64, 1);
  int twice = kernel_op(&k, TSR__OP_ADD, a, a, -1);
  int bias = kernel_op(&k, TSR__OP_ADD, b, one, -1);
  kernel_root(&k, kernel_op(&k, TSR__OP_MUL, twice, bias, -1));
  CHECK_I64(number_of_kernels(&k), 2);
  CHECK(k.buffer[bias][0]);
  CHECK(!k.buffer[twice][0]);
  kernel_close(&k);
}

/* What one mask leaves of two columns has the same rows and shares a loop; what another mask leaves
 * does not, though no shape tells them apart. */
TEST(rows_known_at_run_time_share_a_loop_by_their_mask)
{
  double x[64] = { 1 };
  bool flags[64] = { true };
  kernel_fixture k;
  kernel_open(&k, 2, NULL, 1);
  int a = kernel_leaf(&k, TSR_F64, TSR_SHAPE(64), true, x);
  int b = kernel_leaf(&k, TSR_F64, TSR_SHAPE(64), true, x);
  int one = kernel_leaf(&k, TSR_BOOL, TSR_SHAPE(64), true, flags);
  int two = kernel_leaf(&k, TSR_BOOL, TSR_SHAPE(64), true, flags);
  const int pairs[3][2] = { { a, one }, { b, one }, { a, two } };
  for (int i = 0; i < 3; i++) {
    int rows = kernel_node(&k, TSR__OP_COMPACT, TSR__LINKS(pairs[i][0], pairs[i][1]),
                           &(tsr__ask){ .dtype = 0 }, true);
    CHECK_I64(k.program.nodes[rows].dims[0], TSR__DYNAMIC);
    kernel_root(&k, kernel_op(&k, TSR__OP_NEG, rows, -1, -1));
  }
  CHECK_STATUS(tsr__fuse(&k.program, &k.rt->heap, &k.schedule, &k.error), TSR_OK, NULL);
  int kernels = 0, compacts = 0, outputs = 0;
  for (int i = 0; i < k.schedule.step_count; i++) {
    const tsr__step *step = &k.schedule.steps[i];
    compacts += step->kind == TSR__STEP_COMPACT;
    if (step->kind != TSR__STEP_KERNEL) continue;
    kernels++;
    outputs += tsr__kernel_io_of(step->kernel)->output_count;
    CHECK_I64(compacts, 3); /* all come first */
  }
  CHECK_I64(compacts, 3);
  CHECK_I64(kernels, 2);
  CHECK_I64(outputs, 3);
  kernel_close(&k);
}

/* What a kernel reads and writes: one, of so many inputs and outputs. */
static void check_one_kernel(kernel_fixture *k, int inputs, int outputs)
{
  CHECK_I64(number_of_kernels(k), 1);
  CHECK_I64(k->schedule.step_count, 1);
  const tsr__kernel_io *io = tsr__kernel_io_of(k->schedule.steps[0].kernel);
  CHECK_I64(io->input_count, inputs);
  CHECK_I64(io->output_count, outputs);
}

TEST(views_are_read_in_place)
{
  double x[60], y[20], out[20];
  kernel_fixture k;
  for (int i = 0; i < 60; i++) x[i] = i;
  for (int i = 0; i < 20; i++) y[i] = 100 * i;
  kernel_open(&k, 1, NULL, 1);
  int a = kernel_leaf(&k, TSR_F64, TSR_SHAPE(6, 10), false, x);
  int b = kernel_leaf(&k, TSR_F64, TSR_SHAPE(10, 2), false, y);
  tsr__ask rows = { TSR__ATTR(tsr__slice_attr, .start = { 5 }, .step = { -3 }, .size = { 2 }) };
  tsr__ask order = { TSR__ATTR(tsr__order_attr, .dims = { 1, 0 }) };
  int part = kernel_node(&k, TSR__OP_SLICE, TSR__LINKS(a), &rows, false);
  int turned = kernel_node(&k, TSR__OP_TRANSPOSE, TSR__LINKS(part), &order, false);
  int sum = kernel_op(&k, TSR__OP_ADD, turned, b, -1);
  kernel_root(&k, sum);
  check_one_kernel(&k, 2, 1);
  CHECK(!k.buffer[part][0] && !k.buffer[turned][0]);
  kernel_read(&k, sum, out);
  for (int i = 0; i < 10; i++)
    for (int j = 0; j < 2; j++)
      CHECK_F64_BITS(out[2 * i + j], x[(5 - 3 * j) * 10 + i] + y[2 * i + j]);
  kernel_close(&k);
}

/* A pad, and a slice of it with a part of the border, beside a concat: all read at once. */
TEST(pieces_of_a_view_are_read_by_one_kernel)
{
  double x[6] = { 1, 2, 3, 4, 5, 6 }, y[3] = { 10, 20, 30 }, out[6];
  kernel_fixture k;
  kernel_open(&k, 1, NULL, 1);
  int a = kernel_leaf(&k, TSR_F64, TSR_SHAPE(6), false, x);
  int b = kernel_leaf(&k, TSR_F64, TSR_SHAPE(3), false, y);
  tsr__ask borders = { TSR__ATTR(tsr__pad_attr, .low = { 2 }, .high = { 1 }) };
  tsr__ask some = { TSR__ATTR(tsr__slice_attr, .start = { 1 }, .step = { 1 }, .size = { 6 }) };
  tsr__ask along = { TSR__ATTR(tsr__dim_attr, .dim = 0) };
  int padded =
      kernel_node(&k, TSR__OP_PAD, TSR__LINKS(a, kernel_number(&k, TSR_F64, -1)), &borders, false);
  int part = kernel_node(&k, TSR__OP_SLICE, TSR__LINKS(padded), &some, false);
  int twice = kernel_node(&k, TSR__OP_CONCAT, TSR__LINKS(b, b), &along, false);
  int sum = kernel_op(&k, TSR__OP_ADD, part, twice, -1);
  kernel_root(&k, sum);
  check_one_kernel(&k, 2, 1);
  kernel_read(&k, sum, out);
  for (int i = 0; i < 6; i++) CHECK_F64_BITS(out[i], (i ? x[i - 1] : -1) + y[i % 3]);
  kernel_close(&k);
}

/* What is computed and then viewed is stored once; the view of it, and one that broadcasts, are
 * not. */
TEST(what_is_viewed_is_stored_and_the_view_is_not)
{
  double x[12] = { 1, 2, 3, 4 };
  kernel_fixture k;
  kernel_open(&k, 1, NULL, 1);
  int a = kernel_leaf(&k, TSR_F64, TSR_SHAPE(3, 4), false, x);
  tsr__ask row = { TSR__ATTR(tsr__slice_attr, .start = { 1 }, .step = { 1 }, .size = { 1 }) };
  int twice = kernel_op(&k, TSR__OP_ADD, a, a, -1);
  int one = kernel_node(&k, TSR__OP_SLICE, TSR__LINKS(twice), &row, false);
  kernel_root(&k, kernel_op(&k, TSR__OP_MUL, a, one, -1));
  CHECK_I64(number_of_kernels(&k), 2);
  CHECK(k.buffer[twice][0]);
  CHECK(!k.buffer[one][0]);
  kernel_close(&k);
}

/* ---- random programs ---- */

enum { SHAPES = 7, NODES = 60 };

typedef struct maker {
  kernel_fixture k;
  test_rng rng;
  tsr_shape base;
  int shape_of[FIXTURE_NODES]; /* which of the shapes below */
  cell *value[FIXTURE_NODES];
  int nodes[NODES], count;
} maker;

/* 0: all dims; 1: the first is 1; 2: the last is 1; 3: without the first; 4: all 1; 5: scalar;
 * 6: something else, which only reductions may use. */
static tsr_shape shape_at(const maker *m, int which)
{
  tsr_shape s = m->base;
  if (which == 1) s.dims[0] = 1;
  if (which == 2) s.dims[s.rank - 1] = 1;
  if (which == 4)
    for (int d = 0; d < s.rank; d++) s.dims[d] = 1;
  if (which == 3) {
    for (int d = 1; d < s.rank; d++) s.dims[d - 1] = s.dims[d];
    s.dims[--s.rank] = 0;
  }
  if (which == 5) s = TSR_SCALAR;
  return s;
}

static int which_shape(const maker *m, const tsr__gnode *g)
{
  for (int w = 0; w < 6; w++) {
    tsr_shape s = shape_at(m, w);
    if (s.rank == g->rank && !memcmp(s.dims, g->dims, (size_t)g->rank * sizeof g->dims[0]))
      return w;
  }
  return 6;
}

/* Sharded: the first dim is the base's. */
static bool sharded(int which, int rank)
{
  return which == 0 || (which == 2 && rank > 1);
}

static bool node_sharded(const maker *m, int node)
{
  const tsr__gnode *g = &m->k.program.nodes[node];
  return tsr__dim_axes(&m->k.program.shardings[g->sharding], 0) != 0;
}

static int keep(maker *m, int node)
{
  int which = which_shape(m, &m->k.program.nodes[node]);
  /* What is sharded, or is not, where others of its shape are otherwise cannot meet them. */
  if (m->k.mesh && node_sharded(m, node) != sharded(which, m->base.rank)) which = 6;
  m->shape_of[node] = which;
  if (m->count < NODES) m->nodes[m->count++] = node;
  return node;
}

static void random_leaf(maker *m)
{
  int which = (int)test_range(&m->rng, 0, 5);
  if (test_range(&m->rng, 0, 1)) which = 0;
  int dtype = (int)fixture_dtype(test_range(&m->rng, 0, 99));
  tsr_shape shape = shape_at(m, which);
  int64_t count = tsr__shape_count(&shape);
  char *host = malloc((size_t)count * 8 + 8);
  cell *value = malloc(((size_t)count + 1) * sizeof *value);
  CHECK(host && value);
  bool tame = test_range(&m->rng, 0, 2) > 0;
  for (int64_t i = 0; i < count; i++) {
    value[i] = naive_random(&m->rng, dtype);
    cell small = { .f = (double)test_range(&m->rng, -5000, 5000) / 16 };
    if (tame && naive_is_real(dtype)) value[i] = naive_cast(TSR_F64, dtype, small);
    naive_put(host, dtype, i, value[i]);
  }
  int node = kernel_leaf(&m->k, (tsr_dtype)dtype, shape, sharded(which, m->base.rank), host);
  free(host);
  m->value[node] = value;
  keep(m, node);
}

static int pick(maker *m)
{
  return m->nodes[test_range(&m->rng, 0, m->count - 1)];
}

static int dtype_at(const maker *m, int node)
{
  return m->k.program.nodes[node].dtype;
}

static int cast_to(maker *m, int node, int dtype)
{
  if (dtype_at(m, node) == dtype) return node;
  return kernel_node(&m->k, TSR__OP_CAST, TSR__LINKS(node),
                     &(tsr__ask){ .dtype = (tsr_dtype)dtype }, node_sharded(m, node));
}

static void random_binary(maker *m)
{
  static const tsr__op ops[] = { TSR__OP_ADD,     TSR__OP_SUB, TSR__OP_MUL, TSR__OP_MINIMUM,
                                 TSR__OP_MAXIMUM, TSR__OP_LT,  TSR__OP_GE,  TSR__OP_EQ };
  int a = pick(m), b = pick(m), dtype = dtype_at(m, a);
  if (m->shape_of[a] == 6 || m->shape_of[b] == 6) return;
  if (dtype == TSR_BOOL) {
    static const tsr__op logic[] = { TSR__OP_AND, TSR__OP_OR, TSR__OP_XOR };
    keep(m, kernel_op(&m->k, logic[test_range(&m->rng, 0, 2)], a, cast_to(m, b, TSR_BOOL), -1));
    return;
  }
  b = test_range(&m->rng, 0, 3) ? cast_to(m, b, dtype)
      : naive_is_real(dtype)    ? kernel_number(&m->k, (tsr_dtype)dtype, 1.5)
                                : kernel_integer(&m->k, (tsr_dtype)dtype, 3);
  if (test_range(&m->rng, 0, 3) == 0) {
    int swap = a;
    a = b;
    b = swap;
  }
  keep(m, kernel_op(&m->k, ops[test_range(&m->rng, 0, 7)], a, b, -1));
}

static void random_unary(maker *m)
{
  int a = pick(m);
  int dtype = (int)fixture_dtype(test_range(&m->rng, 0, 99));
  if (m->shape_of[a] == 6) return;
  if (test_range(&m->rng, 0, 1)) keep(m, cast_to(m, a, dtype));
  else if (dtype_at(m, a) == TSR_BOOL) keep(m, kernel_op(&m->k, TSR__OP_NOT, a, -1, -1));
  else keep(m, kernel_op(&m->k, TSR__OP_NEG, a, -1, -1));
}

static void random_where(maker *m)
{
  int a = pick(m), b = pick(m), c = pick(m);
  if (m->shape_of[a] == 6 || m->shape_of[b] == 6 || m->shape_of[c] == 6) return;
  keep(m,
       kernel_op(&m->k, TSR__OP_WHERE, cast_to(m, c, TSR_BOOL), a, cast_to(m, b, dtype_at(m, a))));
}

static void random_source(maker *m)
{
  int which = (int)test_range(&m->rng, 0, 5), rank = shape_at(m, which).rank;
  int dtype = TSR_BOOL;
  while (dtype == TSR_BOOL) dtype = (int)fixture_dtype(test_range(&m->rng, 0, 99));
  tsr__ask ask = { .dtype = (tsr_dtype)dtype, .shape = shape_at(m, which) };
  if (rank > 0 && test_range(&m->rng, 0, 1)) {
    tsr__dim_attr along = { .dim = test_range(&m->rng, 0, rank - 1) };
    ask.attr = &along;
    ask.attr_bytes = sizeof along;
    keep(m, kernel_node(&m->k, TSR__OP_IOTA, TSR__LINKS_NONE, &ask, sharded(which, m->base.rank)));
    return;
  }
  int number = naive_is_real(dtype) ? kernel_number(&m->k, (tsr_dtype)dtype, -2.25)
                                    : kernel_integer(&m->k, (tsr_dtype)dtype, 7);
  keep(m, kernel_node(&m->k, TSR__OP_FULL, TSR__LINKS(number), &ask, sharded(which, m->base.rank)));
}

static void random_reduction(maker *m)
{
  static const tsr__op ops[] = { TSR__OP_SUM, TSR__OP_MEAN,  TSR__OP_VAR,    TSR__OP_STD,
                                 TSR__OP_MIN, TSR__OP_MAX,   TSR__OP_PROD,   TSR__OP_ANY,
                                 TSR__OP_ALL, TSR__OP_COUNT, TSR__OP_ARGMIN, TSR__OP_ARGMAX };
  int a = pick(m), mask = -1, codes = -1;
  tsr__op op = ops[test_range(&m->rng, 0, 11)];
  const tsr__gnode *g = &m->k.program.nodes[a];
  tsr__ask ask = { .dtype = op == TSR__OP_COUNT ? TSR_I64 : 0 };
  if (g->rank == 0) return;
  bool real = naive_is_real(g->dtype), in_order = op == TSR__OP_PROD && real;
  if (in_order && m->k.positions > 1) return; /* may depend on the mesh */
  if (op == TSR__OP_ANY || op == TSR__OP_ALL || op == TSR__OP_COUNT) a = cast_to(m, a, TSR_BOOL);
  else if (op == TSR__OP_MIN || op == TSR__OP_MAX)
    a = g->dtype == TSR_BOOL ? cast_to(m, a, TSR_I32) : a;
  else if (!real && op != TSR__OP_ARGMIN && op != TSR__OP_ARGMAX) a = cast_to(m, a, TSR_I64);
  g = &m->k.program.nodes[a];
  int rank = g->rank;
  tsr__reduce_attr attr;
  attr.dims = (uint32_t)test_range(&m->rng, 1, (1 << rank) - 1);
  attr.keep = (uint16_t)test_range(&m->rng, 0, 1);
  attr.checked = 0;
  attr.ddof = test_range(&m->rng, 0, 1);
  attr.groups = 0;
  ask.attr = &attr;
  ask.attr_bytes = sizeof attr;
  if (test_range(&m->rng, 0, 1)) {
    int other = pick(m);
    const tsr__gnode *o = &m->k.program.nodes[other];
    if (o->rank == g->rank && !memcmp(o->dims, g->dims, sizeof g->dims))
      mask = cast_to(m, other, TSR_BOOL);
  }
  if (which_shape(m, &m->k.program.nodes[a]) == 0 && test_range(&m->rng, 0, 3) == 0) {
    int at = kernel_node(&m->k, TSR__OP_IOTA, TSR__LINKS_NONE,
                         &(tsr__ask){ .dtype = TSR_I64,
                                      .shape = m->base,
                                      TSR__ATTR(tsr__dim_attr, .dim = m->base.rank - 1) },
                         true);
    codes = kernel_op(&m->k, TSR__OP_MOD, at, kernel_integer(&m->k, TSR_I64, 5), -1);
    attr.groups = 5;
    attr.keep = 0;
    attr.dims = (1u << rank) - 1;
  }
  bool split = node_sharded(m, a);
  int node = kernel_node(&m->k, op, TSR__LINKS(a, mask, codes), &ask, split);
  if (!in_order) keep(m, node);
}

static void random_lookup(maker *m)
{
  static const tsr_dtype computed[] = { TSR_I32, TSR_I64, TSR_U32, TSR_U64, TSR_F32, TSR_F64 };
  int64_t table[40];
  cell *value = malloc(41 * sizeof *value);
  tsr_dtype dtype = computed[test_range(&m->rng, 0, 5)];
  int count = test_range(&m->rng, 0, 1) ? 5 : 40, a = pick(m);
  if (m->shape_of[a] == 6) {
    free(value);
    return;
  }
  for (int i = 0; i < count; i++) {
    int below = dtype == TSR_U32 || dtype == TSR_U64 ? 0 : 20;
    naive_put(table, (int)dtype, i, naive_cast(TSR_I64, (int)dtype, (cell){ .i = i * 3 - below }));
    value[i] = naive_get(table, (int)dtype, i);
  }
  if (dtype == TSR_U64) naive_put(table, TSR_U64, count - 1, value[count - 1] = (cell){ .i = -5 });
  int t = kernel_leaf(&m->k, dtype, TSR_SHAPE(count), false, table);
  m->value[t] = value;
  int found = kernel_op(&m->k, TSR__OP_SEARCH, t, cast_to(m, a, (int)dtype), -1);
  int at = kernel_op(&m->k, TSR__OP_MOD, found, kernel_integer(&m->k, TSR_I64, count), -1);
  if (test_range(&m->rng, 0, 1))
    at = kernel_op(&m->k, TSR__OP_SUB, at, kernel_integer(&m->k, TSR_I64, count), -1);
  keep(m, found);
  keep(m, kernel_op(&m->k, TSR__OP_TAKE, t, at, -1));
}

/* A slice or a transpose that leaves dim 0 alone where that is sharded; now and then cast, so that
 * something computed lies between two views. */
static void random_view(maker *m)
{
  int a = pick(m);
  const tsr__gnode g = m->k.program.nodes[a];
  bool split = m->k.mesh && node_sharded(m, a);
  tsr__slice_attr slice = { .start = { 0 } };
  tsr__order_attr order = { .dims = { 0, 1, 2, 3, 4, 5, 6, 7 } };
  if (g.rank == 0) return;
  for (int d = split; d < g.rank; d++) {
    int other = (int)test_range(&m->rng, d, g.rank - 1);
    uint8_t swap = order.dims[d];
    order.dims[d] = order.dims[other];
    order.dims[other] = swap;
    int64_t kind = test_range(&m->rng, 0, 3), size = g.dims[d];
    if (kind == 0) continue;
    int64_t step = kind == 1 ? 1 : test_range(&m->rng, 1, 4), first = test_range(&m->rng, 0, size);
    bool back = test_range(&m->rng, 0, 1);
    slice.step[d] = back ? -step : step;
    slice.size[d] = (size - first + step - 1) / step;
    slice.start[d] = !slice.size[d] ? 0 : back ? size - 1 - first : first;
    if (test_range(&m->rng, 0, 2) == 0) { /* turned, whole */
      slice.step[d] = -1;
      slice.size[d] = size;
      slice.start[d] = size ? size - 1 : 0;
    }
  }
  bool turned = test_range(&m->rng, 0, 1);
  tsr__ask ask = { .attr = turned ? (void *)&order : (void *)&slice,
                   .attr_bytes = turned ? sizeof order : sizeof slice };
  a = keep(m, kernel_node(&m->k, turned ? TSR__OP_TRANSPOSE : TSR__OP_SLICE, TSR__LINKS(a), &ask,
                          split));
  if (test_range(&m->rng, 0, 2) == 0)
    keep(m, cast_to(m, a, (int)fixture_dtype(test_range(&m->rng, 0, 99))));
}

/* Borders of a number, or the array beside itself and others of its shape. */
static void random_pieces(maker *m)
{
  int a = pick(m), number, in[4] = { a, a, a, a };
  const tsr__gnode g = m->k.program.nodes[a];
  bool split = m->k.mesh && node_sharded(m, a);
  if (g.rank <= split) return;
  if (test_range(&m->rng, 0, 1)) {
    tsr__pad_attr pad = { .low = { 0 } };
    for (int d = split; d < g.rank; d++) {
      pad.low[d] = test_range(&m->rng, 0, 3);
      pad.high[d] = test_range(&m->rng, 0, 3);
    }
    number = naive_is_real(g.dtype) ? kernel_number(&m->k, (tsr_dtype)g.dtype, -1.5)
                                    : kernel_integer(&m->k, (tsr_dtype)g.dtype, 1);
    tsr__ask ask = { .attr = &pad, .attr_bytes = sizeof pad };
    keep(m, kernel_node(&m->k, TSR__OP_PAD, TSR__LINKS(a, number), &ask, split));
    return;
  }
  int count = (int)test_range(&m->rng, 1, 4);
  for (int i = 0; i < count; i++) {
    int b = pick(m);
    const tsr__gnode *o = &m->k.program.nodes[b];
    if (o->rank == g.rank && !memcmp(o->dims, g.dims, sizeof g.dims) &&
        (!m->k.mesh || node_sharded(m, b) == split))
      in[i] = cast_to(m, b, g.dtype);
  }
  tsr__dim_attr along = { .dim = test_range(&m->rng, split, g.rank - 1) };
  tsr__ask ask = { .attr = &along, .attr_bytes = sizeof along };
  keep(m, kernel_node(&m->k, TSR__OP_CONCAT, (tsr__links){ in, count }, &ask, split));
}

static void make_program(maker *m, int size)
{
  for (int i = 0; i < 3; i++) random_leaf(m);
  for (int i = 0; i < size; i++) {
    switch (test_range(&m->rng, 0, 14)) {
    case 0: random_leaf(m); break;
    case 1: random_unary(m); break;
    case 2: random_where(m); break;
    case 3: random_source(m); break;
    case 4: random_lookup(m); break;
    case 5:
    case 6: random_reduction(m); break;
    case 7:
    case 8:
    case 9: random_view(m); break;
    case 10:
    case 11: random_pieces(m); break;
    default: random_binary(m);
    }
  }
  for (int i = 0; i < m->count; i++)
    if (i == m->count - 1 || test_range(&m->rng, 0, 2) == 0) kernel_root(&m->k, m->nodes[i]);
}

static void check_roots(maker *m)
{
  for (int n = 0; n < m->k.program.node_count; n++) {
    const tsr__gnode *g = &m->k.program.nodes[n];
    if (!(g->flags & TSR__ROOT) || !m->value[n]) continue;
    int64_t count = 1;
    for (int d = 0; d < g->rank; d++) count *= g->dims[d];
    char *found = malloc((size_t)count * 8 + 8);
    CHECK(found);
    kernel_read(&m->k, n, found);
    for (int64_t i = 0; i < count; i++)
      naive_check(tsr__ops[g->op].name, i, g->dtype, naive_get(found, g->dtype, i), m->value[n][i]);
    free(found);
  }
}

static void print_program(const maker *m)
{
  tsr__text text;
  tsr__text_init(&text, NULL);
  tsr__program_print(&m->k.program, &text);
  for (int i = 0; i < m->k.schedule.step_count; i++) {
    tsr__text_add(&text, "step %d\n", m->k.schedule.steps[i].kind);
    if (m->k.schedule.steps[i].kernel) tsr__kernel_print(m->k.schedule.steps[i].kernel, &text);
  }
  fprintf(stderr, "%s\n", tsr__text_get(&text));
  tsr__text_free(&text);
}

/* Rows longer than a block of lines, of odd lengths: turned, then bools of it, a border around it
 * and the far end of it first. */
static void turned_program(int dtype, int64_t rows, int64_t columns)
{
  static maker m;
  memset(&m, 0, sizeof m);
  m.rng = test_seeded((uint64_t)(rows * columns + dtype));
  m.base = TSR_SHAPE(rows, columns);
  kernel_open(&m.k, 1, NULL, 2);
  char *host = malloc((size_t)(rows * columns) * 8);
  cell *value = malloc((size_t)(rows * columns) * sizeof *value);
  CHECK(host && value);
  for (int64_t i = 0; i < rows * columns; i++) {
    value[i] = naive_cast(TSR_I64, dtype, (cell){ .i = test_range(&m.rng, 0, 3) });
    naive_put(host, dtype, i, value[i]);
  }
  int a = kernel_leaf(&m.k, (tsr_dtype)dtype, m.base, false, host);
  m.value[a] = value;
  free(host);
  tsr__ask order = { TSR__ATTR(tsr__order_attr, .dims = { 1, 0 }) };
  tsr__ask border = { TSR__ATTR(tsr__pad_attr, .low = { 1, 3 }, .high = { 2, 70 }) };
  tsr__ask back = { TSR__ATTR(tsr__slice_attr, .start = { columns - 1, rows - 2 },
                              .step = { -1, -1 }, .size = { columns, rows - 3 }) };
  int turned = kernel_node(&m.k, TSR__OP_TRANSPOSE, TSR__LINKS(a), &order, false);
  int number = naive_is_real(dtype) ? kernel_number(&m.k, (tsr_dtype)dtype, 9)
                                    : kernel_integer(&m.k, (tsr_dtype)dtype, 1);
  kernel_root(&m.k, cast_to(&m, turned, TSR_BOOL));
  kernel_root(&m.k, kernel_node(&m.k, TSR__OP_PAD, TSR__LINKS(turned, number), &border, false));
  kernel_root(&m.k, kernel_node(&m.k, TSR__OP_SLICE, TSR__LINKS(turned), &back, false));
  naive_program(&m.k.program, m.value);
  CHECK_STATUS(kernel_run(&m.k), TSR_OK, NULL);
  check_roots(&m);
  for (int n = 0; n < FIXTURE_NODES; n++) free(m.value[n]);
  kernel_close(&m.k);
}

TEST(long_rows_are_turned_block_by_block)
{
  static const int64_t shapes[][2] = { { 1500, 70 }, { 1025, 300 }, { 2017, 261 }, { 64, 65 } };
  static const int dtypes[] = { TSR_I8, TSR_BF16, TSR_F32, TSR_F64, TSR_BOOL };
  for (int s = 0; s < 4; s++)
    for (int d = 0; d < 5; d++) turned_program(dtypes[d], shapes[s][0], shapes[s][1]);
}

static void random_program(uint64_t seed, const char *isa)
{
  static const int64_t firsts[] = { 2, 3, 7, 64, 129, 1000, 1025, 3000, 20000 };
  static const int64_t inners[] = { 1, 2, 3, 5, 8, 63, 130 };
  static maker m;
  memset(&m, 0, sizeof m);
  m.rng = test_seeded(seed);
  m.base.rank = (int)test_range(&m.rng, 1, 3);
  m.base.dims[0] = firsts[test_range(&m.rng, 0, m.base.rank > 2 ? 4 : m.base.rank > 1 ? 6 : 8)];
  for (int d = 1; d < m.base.rank; d++) m.base.dims[d] = inners[test_range(&m.rng, 0, 6)];
  int devices = (int)test_range(&m.rng, 1, 8);
  kernel_open(&m.k, devices, isa, (int)test_range(&m.rng, 1, 3));
  make_program(&m, (int)test_range(&m.rng, 1, 14));
  naive_program(&m.k.program, m.value);
  if (getenv("SHOW")) {
    tsr__fuse(&m.k.program, &m.k.rt->heap, &m.k.schedule, &m.k.error);
    print_program(&m);
    tsr__schedule_free(&m.k.schedule);
  }
  CHECK_STATUS(kernel_run(&m.k), TSR_OK, NULL);
  check_roots(&m);
  for (int n = 0; n < FIXTURE_NODES; n++) free(m.value[n]);
  kernel_close(&m.k);
}

TEST_TIMEOUT(random_programs, 300)
{
  const char *one = getenv("SEED");
  uint64_t first = one ? strtoull(one, NULL, 10) : 0, last = one            ? first + 1
                                                             : test_quick() ? 300
                                                                            : 1500;
  for (uint64_t seed = first; seed < last; seed++) {
    if (getenv("VERBOSE")) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    if (one || test_share(seed)) random_program(seed, NULL);
  }
}
