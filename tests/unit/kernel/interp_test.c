/* Every operation and dtype against a scalar evaluator of its own: each length 0 to 300, operands
 * and results against unmapped pages, every instruction set in turn. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/kernel_fixture.h"
#include "support/naive_program.h"

static const char *const isas[] = { "baseline", "avx2", "avx512" };

/* ---- one operation ---- */

enum { MOST = 1400 };

typedef struct form {
  tsr__op op;
  int dtype;
  int count;       /* operands */
  unsigned scalar; /* bit i: operand i is a number */
} form;

/* The larger distance of a number from its neighbours of its dtype; of 0 and infinity none. */
static double ulp_of(int dtype, double x)
{
  double least = dtype == TSR_F64   ? 0x1p-1074
                 : dtype == TSR_F32 ? 0x1p-149
                 : dtype == TSR_F16 ? 0x1p-24
                                    : 0x1p-133;
  int exponent;
  if (!isfinite(x) || x == 0) return 0;
  frexp(x, &exponent);
  return fmax(ldexp(1, exponent - tsr__dtype_info_of((tsr_dtype)dtype)->precision), least);
}

static void check_form(const form *f, int64_t n, const char *isa, test_rng *rng)
{
  static char host[3][MOST * 8], found[MOST * 8];
  kernel_fixture k;
  int node[3] = { -1, -1, -1 };
  cell number[3];
  kernel_open(&k, 1, isa, 1);
  for (int o = 0; o < f->count; o++) {
    int dtype = f->op == TSR__OP_WHERE && o == 0 ? TSR_BOOL : f->dtype;
    for (int64_t i = 0; i < n; i++) {
      cell c = naive_random(rng, dtype);
      if (f->op == TSR__OP_POW && o == 1 && !naive_is_real(dtype)) c.i = test_range(rng, 0, 40);
      naive_put(host[o], dtype, i, c);
    }
    number[o] = naive_random(rng, dtype);
    if (f->op == TSR__OP_POW && !naive_is_real(dtype)) number[o].i = test_range(rng, 0, 20);
    if (!(f->scalar >> o & 1))
      node[o] = kernel_leaf(&k, (tsr_dtype)dtype, TSR_SHAPE(n), false, host[o]);
    else if (naive_is_real(dtype)) node[o] = kernel_number(&k, (tsr_dtype)dtype, number[o].f);
    else node[o] = kernel_integer(&k, (tsr_dtype)dtype, number[o].i);
  }
  int result = kernel_op(&k, f->op, node[0], node[1], node[2]);
  kernel_root(&k, result);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, result, found);
  int dtype = k.program.nodes[result].dtype;
  for (int64_t i = 0; i < n; i++) {
    cell in[3];
    for (int o = 0; o < f->count; o++)
      in[o] = f->scalar >> o & 1
                  ? number[o]
                  : naive_get(host[o], f->op == TSR__OP_WHERE && o == 0 ? TSR_BOOL : f->dtype, i);
    cell expected = naive_element(f->op, f->dtype, f->count, in), got = naive_get(found, dtype, i);
    /* Powers of floats are within 1 ULP, not rounded as they should be. */
    if (f->op == TSR__OP_POW && naive_is_real(dtype) &&
        fabs(got.f - expected.f) <= ulp_of(dtype, expected.f))
      continue;
    naive_check(tsr__ops[f->op].name, i, dtype, got, expected);
  }
  kernel_close(&k);
}

static void check_lengths(const form *f)
{
  test_rng rng = test_seeded((uint64_t)f->op * 100 + (uint64_t)f->dtype * 10 + f->scalar);
  static const int64_t odd[] = { 1023, 1024, 1025, 1399 };
  int64_t step = test_quick() ? 29 : f->scalar ? 7 : 1;
  for (int i = 0; i < 3; i++) {
    if (!kernel_has(isas[i])) continue;
    for (int64_t n = 1; n <= 300; n += step) check_form(f, n, isas[i], &rng);
    for (int l = 0; l < 4; l++) check_form(f, odd[l], isas[i], &rng);
  }
}

/* Whether a row is one instruction on two numbers of a type; integers have pow as one, too. */
static bool is_binary(int op, int dtype)
{
  const tsr__opinfo *row = &tsr__ops[op];
  bool real = naive_is_real(dtype), power = row->lowering == TSR__LOW_FORMULA;
  if (row->least != 2 || row->most != 2 || !row->aligned || row->looks_up) return false;
  if (row->lowering != TSR__LOW_TILE && !power) return false;
  switch ((enum tsr__want)row->wants) {
  case TSR__WANT_NUMBER: return dtype != TSR_BOOL;
  case TSR__WANT_FLOAT: return real && !power;
  case TSR__WANT_BITS: return !real;
  case TSR__WANT_INTEGER: return !real && dtype != TSR_BOOL;
  default: return false;
  }
}

static void check_binary(int first, int last)
{
  for (int op = 0; op < TSR__OPS; op++)
    for (int dtype = first; dtype <= last; dtype++)
      for (unsigned scalar = 0; scalar < 3 && is_binary(op, dtype); scalar++)
        check_lengths(&(form){ (tsr__op)op, dtype, 2, scalar });
}

TEST_TIMEOUT(operations_of_two_integers, 900)
{
  check_binary(TSR_BOOL, TSR_U64);
}

TEST_TIMEOUT(operations_of_two_floats, 900)
{
  check_binary(TSR_F16, TSR_F64);
}

TEST(not_turns_bits)
{
  for (int dtype = TSR_BOOL; dtype <= TSR_U64; dtype += 3)
    check_lengths(&(form){ TSR__OP_NOT, dtype, 1, 0 });
}

/* Whether a row is one instruction on numbers: of floats alone, or of integers too. */
static bool is_unary(int op, int dtype)
{
  const tsr__opinfo *row = &tsr__ops[op];
  bool one = row->least == 1 && row->most == 1 && row->lowering == TSR__LOW_TILE;
  bool number = row->wants == TSR__WANT_NUMBER && dtype != TSR_BOOL;
  bool real = row->wants == TSR__WANT_FLOAT || row->wants == TSR__WANT_ROUNDED;
  return one && row->aligned && (number || (real && naive_is_real(dtype)));
}

TEST_TIMEOUT(operations_of_one_operand, 200)
{
  for (int op = 0; op < TSR__OPS; op++) TSR__FOR_DTYPES(dtype)
  if (is_unary(op, dtype)) check_lengths(&(form){ (tsr__op)op, dtype, 1, 0 });
}

TEST_TIMEOUT(where_chooses, 200)
{
  TSR__FOR_DTYPES(dtype)
  for (unsigned scalar = 0; scalar < 8; scalar += scalar ? 2 : 2)
    check_lengths(&(form){ TSR__OP_WHERE, dtype, 3, scalar & 6 });
}

static void check_cast(int from, int to, int64_t n, const char *isa, test_rng *rng)
{
  static char host[MOST * 8], found[MOST * 8];
  kernel_fixture k;
  kernel_open(&k, 1, isa, 1);
  for (int64_t i = 0; i < n; i++) naive_put(host, from, i, naive_random(rng, from));
  int x = kernel_leaf(&k, (tsr_dtype)from, TSR_SHAPE(n), false, host);
  int y =
      kernel_node(&k, TSR__OP_CAST, TSR__LINKS(x), &(tsr__ask){ .dtype = (tsr_dtype)to }, false);
  kernel_root(&k, y);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, y, found);
  for (int64_t i = 0; i < n; i++)
    naive_check("cast", i, to, naive_get(found, to, i),
                naive_cast(from, to, naive_get(host, from, i)));
  kernel_close(&k);
}

TEST_TIMEOUT(casts_between_all_dtypes, 200)
{
  test_rng rng = test_seeded(17);
  int64_t few = test_quick() ? 9 : 70;
  TSR__FOR_DTYPES(from)
  TSR__FOR_DTYPES(to)
  for (int i = 0; i < 3; i++)
    for (int64_t n = 1; n <= 300 && kernel_has(isas[i]); n += n < few ? 1 : 19)
      check_cast(from, to, n, isas[i], &rng);
}

/* Smallest and largest of the elements that a mask takes, beside the same one by one. */
static void check_extreme(tsr__op op, int dtype, int64_t n, const char *isa, test_rng *rng)
{
  static char x[MOST * 8], mask[MOST], found[8];
  bool largest = op == TSR__OP_MAX, any = false, masked = test_range(rng, 0, 4) > 0;
  uint64_t one_in = (uint64_t)test_range(rng, 1, 9), odd = (uint64_t)test_range(rng, 0, 3);
  cell want = { 0 };
  for (int64_t i = 0; i < n; i++) {
    cell c = naive_random(rng, dtype);
    if (odd && naive_is_real(dtype) && !(c.f == c.f)) c.f = -0.0;
    naive_put(x, dtype, i, c);
    c = naive_get(x, dtype, i);
    mask[i] = test_range(rng, 0, (int64_t)one_in) == 0;
    if (masked && !mask[i]) continue;
    cell two[2] = { want, c };
    want = any ? naive_element(largest ? TSR__OP_MAXIMUM : TSR__OP_MINIMUM, dtype, 2, two) : c;
    any = true;
  }
  if (!any) return;
  kernel_fixture k;
  kernel_open(&k, 1, isa, 1);
  int leaf = kernel_leaf(&k, (tsr_dtype)dtype, TSR_SHAPE(n), false, x);
  int bits = kernel_leaf(&k, TSR_BOOL, TSR_SHAPE(n), false, mask);
  int best = kernel_op(&k, op, leaf, masked ? bits : -1, -1);
  kernel_root(&k, best);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, best, found);
  naive_check(tsr__ops[op].name, n, dtype, naive_get(found, dtype, 0), want);
  kernel_close(&k);
}

TEST_TIMEOUT(extremes_of_chosen_elements, 200)
{
  test_rng rng = test_seeded(18);
  int64_t few = test_quick() ? 20 : 200;
  TSR__FOR_DTYPES(dtype)
  for (int i = dtype == TSR_BOOL ? 3 : 0; i < 3; i++)
    for (int64_t n = 1; n <= 1399 && kernel_has(isas[i]); n += n < few ? 1 : 109) {
      check_extreme(TSR__OP_MIN, dtype, n, isas[i], &rng);
      check_extreme(TSR__OP_MAX, dtype, n, isas[i], &rng);
    }
}

/* Where the first of the smallest or largest stands, over each set of dims of an array that lies
 * unevenly on devices; ties, NaN and zeros of both signs are many. */
static void check_places(int dtype, int devices, const char *isa, test_rng *rng)
{
  static char host[MOST * 8], found[MOST * 8];
  static const double few[] = { 0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 2 };
  tsr_shape shape =
      TSR_SHAPE(test_range(rng, 1, 9), test_range(rng, 1, 11), test_range(rng, 1, 13));
  int64_t n = tsr__shape_count(&shape);
  bool masked = test_range(rng, 0, 1), ties = test_range(rng, 0, 3);
  static char mask[MOST];
  for (int64_t i = 0; i < n; i++) {
    cell c = naive_random(rng, dtype);
    if (ties && naive_is_real(dtype)) c.f = few[test_range(rng, 0, test_range(rng, 0, 7))];
    else if (ties) c.i = test_range(rng, 0, dtype == TSR_BOOL ? 1 : 3);
    naive_put(host, dtype, i, c);
    mask[i] = test_range(rng, 0, 3) == 0;
  }
  kernel_fixture k;
  kernel_open(&k, devices, isa, 1);
  int x = kernel_leaf(&k, (tsr_dtype)dtype, shape, true, host);
  int bits = masked ? kernel_leaf(&k, TSR_BOOL, shape, true, mask) : -1, root[16];
  cell *value[FIXTURE_NODES] = { 0 };
  for (int r = 0; r < 14; r++) {
    uint32_t dims = (uint32_t)(r % 7 + 1);
    tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = dims, .keep = (uint16_t)(r % 2)) };
    root[r] =
        kernel_node(&k, r < 7 ? TSR__OP_ARGMIN : TSR__OP_ARGMAX, TSR__LINKS(x, bits), &ask, true);
    kernel_root(&k, root[r]);
  }
  value[x] = calloc((size_t)n, sizeof(cell));
  if (masked) value[bits] = calloc((size_t)n, sizeof(cell));
  for (int64_t i = 0; i < n; i++) value[x][i] = naive_get(host, dtype, i);
  for (int64_t i = 0; i < n && masked; i++) value[bits][i] = naive_get(mask, TSR_BOOL, i);
  naive_program(&k.program, value);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  for (int r = 0; r < 14; r++) {
    tsr_shape out = tsr__gnode_shape(&k.program.nodes[root[r]]);
    kernel_read(&k, root[r], found);
    for (int64_t i = 0; i < tsr__shape_count(&out); i++)
      naive_check(r < 7 ? "argmin" : "argmax", i, TSR_I64, naive_get(found, TSR_I64, i),
                  value[root[r]][i]);
  }
  for (int node = 0; node < k.program.node_count; node++) free(value[node]);
  kernel_close(&k);
}

TEST_TIMEOUT(places_are_those_of_the_whole_array, 200)
{
  test_rng rng = test_seeded(19);
  int rounds = test_quick() ? 6 : 40;
  TSR__FOR_DTYPES(dtype)
  for (int i = 0; i < 3; i++)
    for (int round = 0; round < rounds && kernel_has(isas[i]); round++)
      check_places(dtype, (int)test_range(&rng, 1, 8), isas[i], &rng);
}

/* Results of many bytes take another way to memory: past the caches, where it is aligned. */
TEST(large_results_arrive_whole)
{
  enum { N = 4500001 };
  double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  float *z = malloc(N * sizeof *z);
  CHECK(x && y && z);
  for (int i = 0; i < N; i++) x[i] = i;
  for (int devices = 1; devices <= 3; devices++) {
    kernel_fixture k;
    kernel_open(&k, devices, NULL, 2);
    int leaf = kernel_leaf(&k, TSR_F64, TSR_SHAPE(N), true, x);
    int twice = kernel_op(&k, TSR__OP_ADD, leaf, leaf, -1);
    int more = kernel_op(&k, TSR__OP_ADD, twice, kernel_number(&k, TSR_F64, 1), -1);
    int narrow = kernel_node(&k, TSR__OP_CAST, TSR__LINKS(more), &(tsr__ask){ .dtype = TSR_F32 },
                             devices > 1);
    kernel_root(&k, twice);
    kernel_root(&k, narrow);
    CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
    kernel_read(&k, twice, y);
    kernel_read(&k, narrow, z);
    for (int i = 0; i < N; i++)
      if (y[i] != 2 * x[i] || z[i] != (float)(2 * x[i] + 1))
        FAIL("element %d is %g, %g", i, y[i], (double)z[i]);
    kernel_close(&k);
  }
  free(x);
  free(y);
  free(z);
}
