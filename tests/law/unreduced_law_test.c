/* Arrays whose parts add up to the value: by a spec the first along some axes have it and the
 * others zeros; of a sum each device has what it added up, exactly.
 *
 * The law: whatever is placed so, left so, kept so from one program to the next and taken up again,
 * the values are those of unplaced data, bit for bit, and the bytes counted are those explained. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "partition/flow.h"
#include "support/dealt.h"
#include "support/law_fixture.h"
#include "support/topology_fixture.h"

enum { MOST = 4096 };

/* ---- the law ---- */

/* A random spec and, at times, a sum over axes that it does not cut by. */
static tsr_sharding some_sharding(test_rng *rng, const tsr_mesh *mesh, int rank)
{
  tsr_sharding on = law_sharding(rng, mesh, rank);
  unsigned used = on.mesh ? tsr__used_axes(&on) : 255;
  for (int a = 0; a < tsr_mesh_axis_count(mesh); a++)
    if (!(used >> a & 1) && test_range(rng, 0, 1)) on.unreduced |= (uint8_t)(1u << a);
  return on;
}

/* The same of both: operations that leave a sum as it is, and others. */
static void step(test_rng *rng, tsr_array *a[2])
{
  int which = (int)test_range(rng, 0, 9), rank = tsr_shape_of(a[0]).rank;
  tsr_shape shape = tsr_shape_of(a[0]);
  int dim = rank ? (int)test_range(rng, 0, rank - 1) : 0;
  for (int k = 0; k < 2; k++) {
    if (which == 0 && rank) a[k] = tsr_flip(a[k], TSR_DIMS(dim));
    if (which == 1 && rank == 2) a[k] = tsr_transpose(a[k], 1, 0);
    if (which == 2) a[k] = tsr_ravel(a[k]);
    if (which == 3) a[k] = tsr_mul(a[k], 2);
    if (which == 4) a[k] = tsr_neg(a[k]);
    if (which == 5 && rank && shape.dims[0] > 1)
      a[k] = tsr_slice(a[k], TSR_RANGE(1, shape.dims[0]));
    if (which == 6) a[k] = tsr_add(a[k], a[k]);
    if (which == 7 && rank) a[k] = tsr_sum(a[k], .dims = TSR_DIMS(dim));
    if (which == 8) a[k] = tsr_add(a[k], 1);
    if (which == 9 && rank == 2 && !tsr__dtype_is_real(tsr_dtype_of(a[k])))
      a[k] = tsr_matmul(tsr_transpose(a[k], 1, 0), a[k]);
  }
}

/* A sum along one dim, left on the first of the devices that have parts of it. */
static void leave_sum(test_rng *rng, const tsr_sharding *on, tsr_array *a[2])
{
  int dim = (int)test_range(rng, 0, 1);
  unsigned axes = on->mesh ? tsr__dim_axes(on, dim) : 0;
  for (int k = 0; k < 2; k++) a[k] = tsr_sum(a[k], .dims = TSR_DIMS(dim), .keep_dims = true);
  if (!axes) return;
  tsr_sharding left = tsr__partial_place(on, axes);
  left.unreduced = (uint8_t)axes;
  a[1] = tsr_constrain(a[1], left);
}

/* Devices that do not have the value of a sum have zeros; negated ones where that was asked for. */
static void check_zeros(tsr_array *a, uint64_t seed, const char *text)
{
  tsr_sharding on = tsr_sharding_of(a);
  size_t size = tsr_dtype_size(tsr_dtype_of(a));
  bool is_float = tsr__dtype_is_real(tsr_dtype_of(a));
  for (int p = 0; on.unreduced && !a->value->kept && p < tsr__positions(&on); p++) {
    tsr_box box;
    size_t count = 1;
    if (tsr__holds(&on, p)) continue;
    tsr__value_box(a->value, p, &box);
    for (int d = 0; d < tsr_shape_of(a).rank; d++) count *= (size_t)box.size[d];
    const unsigned char *bytes = tsr__value_map(a->value, p);
    if (!bytes) continue; /* another process's */
    for (size_t i = 0; i < count * size; i++)
      if (bytes[i] & (is_float && i % size == size - 1 ? 0x7f : 0xff))
        FAIL("seed %llu: device %d has a part of %s\n%s", (unsigned long long)seed, p,
             tsr_type_of(a), text);
    tsr__value_unmap(a->value, p);
  }
}

static void read_both(tsr_scope *s, tsr_array *a[2], uint64_t seed, const char *text)
{
  static double expected[MOST], found[MOST];
  tsr_shape shape = tsr_shape_of(a[0]);
  size_t bytes = tsr_dtype_size(tsr_dtype_of(a[0]));
  for (int d = 0; d < shape.rank; d++) bytes *= (size_t)shape.dims[d];
  CHECK(bytes <= sizeof expected);
  CHECK_STATUS(tsr_read(a[0], expected, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(a[1], found, bytes), TSR_OK, s);
  if (memcmp(expected, found, bytes))
    FAIL("seed %llu differs: %s\n%s", (unsigned long long)seed, tsr_type_of(a[1]), text);
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  static double data[MOST];
  char text[8192];
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  tsr_dtype dtype = fixture_dtype(test_range(&rng, 1, 12));
  tsr_shape shape = { .rank = 2, .dims = { test_range(&rng, 0, 9), test_range(&rng, 1, 8) } };
  for (int i = 0; i < shape.dims[0] * shape.dims[1]; i++)
    data[i] =
        tsr__dtype_is_real(dtype) ? test_any_f64(&rng) * 1e-10 : (double)test_range(&rng, 0, 9);
  tsr_array *x = tsr_cast(tsr_put(s, data, TSR_F64, shape, (tsr_sharding){ 0 }), dtype);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  if (test_range(&rng, 0, 3) == 0) x = tsr_iota(s, dtype, shape, 0, (tsr_sharding){ 0 });
  tsr_sharding on = some_sharding(&rng, mesh, 2);
  tsr_array *a[2] = { x, tsr_reshard(x, on) };
  if (test_range(&rng, 0, 1)) CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
  if (test_range(&rng, 0, 2) == 0) leave_sum(&rng, &on, a);
  for (int64_t k = test_range(&rng, 0, 3); k > 0; k--) {
    step(&rng, a);
    if (test_range(&rng, 0, 2)) continue;
    on = some_sharding(&rng, mesh, tsr_shape_of(a[1]).rank);
    a[1] = test_range(&rng, 0, 1) ? tsr_constrain(a[1], on) : tsr_reshard(a[1], on);
    if (test_range(&rng, 0, 2) == 0) CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
  }
  snprintf(text, sizeof text, "%s", tsr_explain(&a[1], 1));
  CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("seed %llu: %lld bytes counted, %lld explained\n%s", (unsigned long long)seed,
         (long long)stats.bytes_counted, (long long)stats.bytes_explained, text);
  bool stays = tsr_sharding_of(a[1]).unreduced;
  check_zeros(a[1], seed, text);
  read_both(s, a, seed, text);
  tsr_scope_close(s);
  return stays;
}

TEST_TIMEOUT(sums_that_wait_are_what_they_come_to, 300)
{
  law_each_seed_on_8(1, test_quick() ? 600 : 8000, 0.1, one_trial);
}

TEST(moves_of_sums_are_weighed_as_they_are_counted)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (uint64_t seed = 1; seed <= 2000; seed++) {
    test_rng rng = test_seeded(seed);
    const tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
    tsr_shape shape = TSR_SHAPE(test_range(&rng, 0, 9), test_range(&rng, 1, 8));
    tsr_sharding from = some_sharding(&rng, mesh, 2), to = some_sharding(&rng, mesh, 2);
    if (!from.mesh || !to.mesh) continue;
    from = tsr__sharding_canon(&from);
    to = tsr__sharding_canon(&to);
    CHECK_I64(tsr__move_crosses(&(tsr__reshard){ &from, &to, &shape, NULL, 0 }, TSR_F64).bytes,
              tsr__reshard_bytes(&from, &to, TSR_F64, &shape));
  }
  tsr_runtime_close(rt);
}

/* ---- sums stay exact ---- */

/* Of all sizes that the dtype has, with their negations among them, so that what is left of a sum
 * is far below what was added; at times what is no number. */
static double some_value(test_rng *rng, tsr_dtype dtype, double before)
{
  static const double odd[] = { 0, -0.0, 1, -1, INFINITY, -INFINITY, NAN };
  int least = dtype == TSR_F64 ? -1074 : dtype == TSR_F16 ? -24 : -149;
  int most = dtype == TSR_F64 ? 1023 : dtype == TSR_F16 ? 15 : 127;
  if (!tsr__dtype_is_real(dtype)) return (double)test_range(rng, 0, 9);
  if (test_range(rng, 0, 2) == 0) return -before;
  if (test_range(rng, 0, 7) == 0) return odd[test_range(rng, 0, test_range(rng, 0, 9) ? 3 : 6)];
  return ldexp(test_uniform(rng) - 0.5, (int)test_range(rng, least, most));
}

/* The same of both, of what a sum may stay unreduced under. */
static void keep_step(test_rng *rng, tsr_array *a[2])
{
  int which = (int)test_range(rng, 0, 7), rank = tsr_shape_of(a[0]).rank;
  tsr_shape shape = tsr_shape_of(a[0]);
  int dim = rank ? (int)test_range(rng, 0, rank - 1) : 0, power = (int)test_range(rng, -40, 40);
  for (int k = 0; k < 2; k++) {
    if (which == 6) a[k] = tsr_neg(a[k]);
    if (which == 7 && tsr__dtype_is_real(tsr_dtype_of(a[k]))) a[k] = tsr_mul(a[k], ldexp(1, power));
    if (which == 7) a[k] = tsr_mul(a[k], 2);
    if (which == 0 && rank) a[k] = tsr_flip(a[k], TSR_DIMS(dim));
    if (which == 1 && rank > 1) a[k] = tsr_moveaxis(a[k], 0, rank - 1);
    if (which == 2) a[k] = tsr_ravel(a[k]);
    if (which == 3 && rank && shape.dims[0] > 2)
      a[k] = tsr_slice(a[k], TSR_STEPS(1, shape.dims[0], 2));
    if (which == 4 && rank) a[k] = tsr_expand_dims(a[k], TSR_DIMS(dim));
    if (which == 5) a[k] = tsr_slice(a[k], TSR_ALL);
  }
}

/* Nothing moves for a sum that is left unreduced, whoever evaluates it, until it is placed. */
static bool exact_trial(tsr_runtime *rt, uint64_t seed)
{
  static double data[MOST];
  char text[8192] = "";
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 1, LAW_MESHES - 1)]);
  tsr_dtype dtype = fixture_dtype(test_range(&rng, 1, 12));
  tsr_shape shape = { .rank = 3 };
  int64_t count = 1;
  for (int d = 0; d < 3; d++) count *= shape.dims[d] = test_range(&rng, d == 0 ? 0 : 1, 8);
  for (int64_t i = 0; i < count; i++)
    data[i] = some_value(&rng, dtype, i ? data[test_range(&rng, 0, i - 1)] : 0);
  tsr_array *x = tsr_cast(tsr_put(s, data, TSR_F64, shape, (tsr_sharding){ 0 }), dtype);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_sharding on = law_sharding(&rng, mesh, 3);
  tsr_array *a[2] = { x, tsr_reshard(x, on) };
  CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
  int dim = (int)test_range(&rng, 0, 2);
  unsigned axes = on.mesh ? tsr__dim_axes(&on, dim) : 0;
  for (int k = 0; k < 2; k++) a[k] = tsr_sum(a[k], .dims = TSR_DIMS(dim));
  if (axes) {
    tsr_sharding left = tsr__partial_place(&on, axes);
    for (int d = dim; d < TSR_MAX_RANK; d++) left.first[d] = left.first[d + 1];
    left.rank = 2;
    left.unreduced = (uint8_t)axes;
    a[1] = tsr_constrain(a[1], left);
    CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
    /* Of few elements it may be cheaper to bring these together. */
    CHECK(a[1]->value->kept || tsr__shape_count(&shape) < 100);
    if (a[1]->value->kept) CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  }
  for (int64_t k = test_range(&rng, 0, 4); k > 0; k--) {
    keep_step(&rng, a);
    if (test_range(&rng, 0, 1)) CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
  }
  if (test_range(&rng, 0, 1)) CHECK_STATUS(tsr_eval(&a[1], 1), TSR_OK, s);
  bool kept = a[1]->value && a[1]->value->kept;
  for (int times = 0; times < 2; times++) { /* what is kept is there for others, too */
    tsr_array *b[2] = { a[0], a[1] };
    if (test_range(&rng, 0, 2)) {
      on = some_sharding(&rng, mesh, tsr_shape_of(b[1]).rank);
      b[1] = tsr_constrain(b[1], on);
    } else if (test_range(&rng, 0, 1)) {
      step(&rng, b);
    }
    snprintf(text, sizeof text, "%s", tsr_explain(&b[1], 1));
    CHECK_STATUS(tsr_eval(&b[1], 1), TSR_OK, s);
    tsr_run_stats stats = tsr_last_run(s);
    if (b[1] != a[1] && stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
      FAIL("seed %llu: %lld bytes counted, %lld explained\n%s", (unsigned long long)seed,
           (long long)stats.bytes_counted, (long long)stats.bytes_explained, text);
    read_both(s, b, seed, text);
  }
  tsr_scope_close(s);
  return kept;
}

TEST_TIMEOUT(sums_keep_their_accumulators, 300)
{
  law_each_seed_on_8(1, test_quick() ? 400 : 6000, 0.15, exact_trial);
}

/* ---- where the value is ---- */

/* JAX's row: four numbers that are everywhere become a sum over two devices. */
TEST(the_first_has_the_value_and_the_others_zeros)
{
  static const int32_t zeros[4], numbers[4] = { 0, 1, 2, 3 };
  if (dealt(2).count != 2) SKIP("two devices cannot be dealt out to these processes");
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  for (int way = 0; way < 3; way++) {
    int32_t found[4];
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = tsr_put(s, numbers, TSR_I32, TSR_SHAPE(4), tsr_on(mesh, way ? "-" : "-;sum(x)"));
    if (way == 1) a = tsr_reshard(a, tsr_on(mesh, "-;sum(x)"));
    if (way == 2) a = tsr_constrain(a, tsr_on(mesh, "-;sum(x)"));
    CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
    CHECK_STR(tsr_type_of(a), "i32[4]@(-;sum(x))");
    for (int p = 0; p < 2; p++) {
      const void *part = tsr__value_map(a->value, p);
      if (!part) continue; /* another process's */
      CHECK_BYTES(part, p ? zeros : numbers, sizeof zeros);
      tsr__value_unmap(a->value, p);
    }
    CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, s);
    CHECK_BYTES(found, numbers, sizeof found);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* Only partials of what is sliced meet; what scales waits until then. */
TEST(a_sum_that_waits_is_sent_back_when_it_is_needed)
{
  static double data[64][64];
  double found[8];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < 64 * 64; i++) data[i / 64][i % 64] = i;
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(64, 64), tsr_on(mesh, "x,-"));
  tsr_array *sum = tsr_constrain(tsr_sum(a, .dims = TSR_DIMS(0)), tsr_on(mesh, "-;sum(x)"));
  tsr_array *few = tsr_mul(tsr_slice(sum, TSR_RANGE(0, 8)), 2);
  tsr_array *more = tsr_add(few, 1);
  const char *text = tsr_explain(&more, 1);
  CHECK_STR_HAS(text, "all-reduce over x=4: 768 bytes"); /* 3 * 8 * (24 + 8) */
  CHECK(!strstr(text, "broadcast"));
  CHECK_STATUS(tsr_read(more, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(found[i], 2 * (64.0 * i + 64 * 2016) + 1);
  CHECK_I64(tsr_last_run(s).bytes_counted - tsr_last_run(s).bytes_escaped, 768);
  CHECK_STATUS(tsr_eval(&few, 1), TSR_OK, s);
  CHECK_STR(tsr_type_of(few), "f64[8]@(-;sum(x))");
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  tsr_array *half = tsr_mul(tsr_flip(few, TSR_DIMS(0)), 0.5);
  CHECK_STATUS(tsr_eval(&half, 1), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  CHECK_STATUS(tsr_read(half, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(found[7 - i], 64.0 * i + 64 * 2016);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_array *left_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_constrain(tsr_sum(in[0], .dims = TSR_DIMS(0)), tsr_on(user, "-;sum(x)"));
}

/* What a function returns may be kept as well, and is there for the next call and for who looks. */
TEST(a_sum_stays_from_call_to_call)
{
  double data[12], found[3];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < 12; i++) data[i] = i / 3 % 2 ? i : i < 3 ? 1e300 : -1e300;
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(4, 3), tsr_on(mesh, "x,-"));
  tsr_function *f = tsr_function_make(s, left_of, .user = mesh);
  tsr_array *sum = tsr_call(f, x);
  CHECK_STATUS(tsr_eval(&sum, 1), TSR_OK, s);
  CHECK(sum->value->kept);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  tsr_array *twice = tsr_mul(sum, 2);
  CHECK_STATUS(tsr_start(&twice, 1), TSR_OK, s);
  CHECK_STATUS(tsr_wait(twice), TSR_OK, s);
  CHECK(twice->value->kept);
  for (int times = 0; times < 2; times++) { /* the second time there are elements */
    CHECK_STATUS(tsr_read(twice, found, sizeof found), TSR_OK, s);
    for (int i = 0; i < 3; i++) CHECK_F64_BITS(found[i], 2.0 * (3 + i + 9 + i));
  }
  CHECK(!twice->value->kept && sum->value->kept);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_array *plus_outer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(in[0], *(tsr_array **)user);
}

/* What waits to be multiplied is so once, whoever reads the sum, and whenever. */
TEST(a_body_captures_a_sum_that_waits)
{
  double data[12], found[3];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < 12; i++) data[i] = i;
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(4, 3), tsr_on(mesh, "x,-"));
  tsr_array *sum = tsr_constrain(tsr_sum(x, .dims = TSR_DIMS(0)), tsr_on(mesh, "-;sum(x)"));
  tsr_array *twice = tsr_mul(sum, 2);
  CHECK_STATUS(tsr_eval(&twice, 1), TSR_OK, s);
  CHECK(twice->value->kept);
  tsr_array *zero = tsr_put(s, (double[3]){ 0 }, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  tsr_function *f = tsr_function_make(s, plus_outer, .user = &twice);
  for (int times = 0; times < 3; times++) {
    tsr_array *out = tsr_call(f, zero);
    CHECK_STATUS(tsr_read(out, found, sizeof found), TSR_OK, s);
    for (int i = 0; i < 3; i++) CHECK_F64_BITS(found[i], 2.0 * (18 + 4 * i));
    if (times == 1) CHECK_STATUS(tsr_read(twice, found, sizeof found), TSR_OK, s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(what_cannot_be_a_sum_says_so)
{
  static const bool bools[4];
  if (dealt(2).count != 2) SKIP("two devices cannot be dealt out to these processes");
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_sharding on = tsr_on(mesh, "-;sum(x)");
  for (int way = 0; way < 3; way++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = tsr_put(s, bools, TSR_BOOL, TSR_SHAPE(4), way ? tsr_on(mesh, "-") : on);
    if (way == 1) tsr_constrain(a, on);
    if (way == 2) tsr_full(s, 1, TSR_F32, TSR_SHAPE(4), on);
    CHECK_I64(tsr_scope_status(s), way == 2 ? TSR_EUNSUPPORTED : TSR_EDTYPE);
    CHECK_STR_HAS(tsr_message(s),
                  way == 2 ? "leave ';sum' out" : "but bools have no sums; leave ';sum'");
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
