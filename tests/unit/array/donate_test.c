/* Arrays that are given up to what is made of them: their memory goes in the run, or is a result's;
 * who reads them afterwards, or waits to, is told both lines. */
#include "support/law_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1 << 16, LARGE = 1 << 23, MOST = 9000 };

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = tsr_runtime_open("cpu:4") };
  f.s = tsr_scope_open(f.rt);
  f.mesh = tsr_mesh_make(f.rt, "x=4");
  return f;
}

/* f32 0, 1, 2, ..., evaluated. */
static tsr_array *numbers(const fixture *f, int64_t count)
{
  tsr_array *x = tsr_iota(f->s, TSR_F32, TSR_SHAPE(count), 0, tsr_on(f->mesh, "x"));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, f->s);
  return x;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static tsr_array *elementwise(tsr_array *x)
{
  return tsr_add(tsr_mul(x, 3), 1);
}

static tsr_array *in_steps(tsr_array *x)
{
  return tsr_cumsum(tsr_roll(tsr_cumsum(x, 0), 1, 0), 0);
}

static tsr_array *exchanged(tsr_array *x)
{
  return tsr_add(x, tsr_flip(x, TSR_DIMS(0)));
}

/* The most bytes that device 0 held, in arrays of this size. */
static double peak_of(tsr_array *(*make)(tsr_array *x), int64_t count, bool donate, float *out)
{
  fixture f = open_fixture();
  tsr_array *x = numbers(&f, count), *y = make(x);
  if (donate) CHECK_STATUS(tsr_donate(x), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, f.s);
  tsr_memory memory = tsr_device_memory(f.rt, 0);
  CHECK_STATUS(tsr_read(y, out, (size_t)count * sizeof *out), TSR_OK, f.s);
  CHECK_I64(memory.now / (count * (int64_t)sizeof(float) / 4), donate ? 1 : 2);
  tsr_runtime_close(f.rt);
  return (double)memory.peak / (double)(count * (int64_t)sizeof(float) / 4);
}

TEST(peaks_drop)
{
  static const struct {
    tsr_array *(*make)(tsr_array *x);
    int64_t count;
    double kept, given;
  } rows[] = {
    { elementwise, MANY, 2, 1 },
    { elementwise, LARGE, 2, 1 },
    { in_steps, MANY, 3, 2 },
    { exchanged, MANY, 3, 2 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t bytes = (size_t)rows[i].count * sizeof(float);
    float *kept = malloc(bytes), *given = malloc(bytes);
    double without = peak_of(rows[i].make, rows[i].count, false, kept);
    double with = peak_of(rows[i].make, rows[i].count, true, given);
    if (floor(without) != rows[i].kept || floor(with) != rows[i].given)
      FAIL("row %zu: peaks of %g and %g arrays", i, without, with);
    CHECK_BYTES(given, kept, bytes);
    free(kept);
    free(given);
  }
}

/* One plan serves runs that take their operand over and runs that do not. */
TEST(plans_do_not_know_of_it)
{
  fixture f = open_fixture();
  float first[64], out[64];
  for (int i = 0; i < 4; i++) {
    tsr_array *x = numbers(&f, 64), *y = elementwise(x);
    if (i & 1) CHECK_STATUS(tsr_donate(x), TSR_OK, f.s);
    CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, f.s);
    if (i) CHECK(tsr_last_run(f.s).cached);
    if (!i) memcpy(first, out, sizeof out);
    CHECK_BYTES(out, first, sizeof out);
    if (!(i & 1)) CHECK_STATUS(tsr_read(x, out, sizeof out), TSR_OK, f.s);
    for (int k = 0; k < 64 && !(i & 1); k++) CHECK_F64_BITS(out[k], k);
  }
  tsr_runtime_close(f.rt);
}

/* What others hold too is not written to: a value kept elsewhere, and memory that is not ours. */
TEST(what_others_hold_stays)
{
  fixture f = open_fixture();
  float out[64], *data = aligned_alloc(64, 64 * sizeof(float));
  tsr_scope *inner = tsr_scope_open(f.s);
  tsr_array *x = numbers(&f, 64), *kept = tsr_keep(inner, x), *y = elementwise(x);
  CHECK_STATUS(tsr_donate(x), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, f.s);
  CHECK_STATUS(tsr_read(kept, out, sizeof out), TSR_OK, f.s);
  for (int k = 0; k < 64; k++) CHECK_F64_BITS(out[k], k);
  for (int k = 0; k < 64; k++) data[k] = (float)k;
  tsr_array *ours = tsr_adopt(f.s, data, TSR_F32, TSR_SHAPE(64));
  y = elementwise(ours);
  CHECK_STATUS(tsr_donate(ours), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, f.s);
  for (int k = 0; k < 64; k++) CHECK_F64_BITS(data[k], k);
  free(data);
  tsr_runtime_close(f.rt);
}

/* ---- who reads it ---------------------------------------------------------------------------- */

TEST(readers_that_wait_are_an_error)
{
  fixture f = open_fixture();
  tsr_array *x = numbers(&f, 8), *y[2] = { tsr_add(x, 1), tsr_mul(x, x) };
  CHECK_STATUS(tsr_donate_at(x, "a.c:7"), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(y, 1), TSR_ESTATE, f.s);
  CHECK_STR_HAS(tsr_message(f.s), "donated by tsr_donate at a.c:7 is read by 3 waiting operations, "
                                  "but this program computes only 1 of them; evaluate all of them");
  tsr_scope_clear(f.s);
  CHECK_STATUS(tsr_start(y + 1, 1), TSR_ESTATE, f.s);
  tsr_scope_clear(f.s);
  CHECK_STATUS(tsr_eval(y, 2), TSR_OK, f.s);
  float out[8];
  CHECK_STATUS(tsr_read(y[1], out, sizeof out), TSR_OK, f.s);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(out[i], i * i);
  tsr_runtime_close(f.rt);
}

static void check_gone(fixture *f, const char *text)
{
  CHECK_I64(tsr_scope_status(f->s), TSR_ESTATE);
  CHECK_STR_HAS(tsr_message(f->s), text);
  tsr_scope_clear(f->s);
}

TEST(later_uses_name_both_lines)
{
  fixture f = open_fixture();
  float out[8];
  tsr_array *x = numbers(&f, 8), *between = tsr_add(x, 1), *y = tsr_mul(between, 2);
  CHECK_STATUS(tsr_donate_at(x, "a.c:7"), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, f.s);
  CHECK_STATUS(tsr_read_at(x, out, sizeof out, "a.c:9"), TSR_ESTATE, f.s);
  check_gone(
      &f,
      "a.c:9: TSR_ESTATE: tsr_read: f32[8]@(x) was donated by tsr_donate at a.c:7; use it before");
  CHECK(tsr_is_inert(tsr_neg_at(x, "a.c:10")));
  check_gone(&f, "a.c:10: TSR_ESTATE: tsr_neg: operand 1, made at ");
  CHECK_STATUS(tsr_read_at(between, out, sizeof out, "a.c:11"), TSR_ESTATE, f.s);
  check_gone(&f, "was donated by tsr_donate at a.c:7; use it before");
  CHECK_STATUS(tsr_donate_at(x, "a.c:12"), TSR_ESTATE, f.s);
  check_gone(&f, "a.c:12: TSR_ESTATE: tsr_donate: f32[8]@(x) was donated by tsr_donate at a.c:7");
  CHECK_STATUS(tsr_donate(NULL), TSR_EARG, NULL);
  tsr_runtime_close(f.rt);
}

/* Nobody reads it: it is gone at once. Not yet computed: it is computed where it is needed. Under
 * way: whoever reads it waits. */
TEST(at_any_time)
{
  fixture f = open_fixture();
  float out[8];
  tsr_array *x = numbers(&f, 8);
  CHECK_STATUS(tsr_donate(x), TSR_OK, f.s);
  CHECK_I64(tsr_device_memory(f.rt, 0).now, 0);
  tsr_array *lazy = tsr_add(numbers(&f, 8), 1), *y = tsr_mul(lazy, 2);
  CHECK_STATUS(tsr_donate(lazy), TSR_OK, f.s);
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, f.s);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(out[i], 2 * (i + 1));
  tsr_array *running = tsr_add(numbers(&f, 8), 1);
  CHECK_STATUS(tsr_start(&running, 1), TSR_OK, f.s);
  y = tsr_mul(running, 2);
  CHECK_STATUS(tsr_donate(running), TSR_OK, f.s);
  CHECK_STATUS(tsr_start(&y, 1), TSR_OK, f.s);
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, f.s);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(out[i], 2 * (i + 1));
  CHECK_STATUS(tsr_wait(running), TSR_ESTATE, f.s);
  tsr_runtime_close(f.rt);
}

/* ---- the same bits --------------------------------------------------------------------------- */

static tsr_array *draw_one(test_rng *rng, tsr_array *a, tsr_array *b)
{
  int last = tsr_shape_of(a).rank - 1;
  switch (test_range(rng, 0, 7)) {
  case 0: return tsr_add(a, b);
  case 1: return tsr_mul(a, tsr_flip(b, TSR_DIMS(-1)));
  case 2: return tsr_sub(a, tsr_sum(b));
  case 3: return tsr_roll(a, test_range(rng, -3, 3), (int)test_range(rng, 0, last));
  case 4: return tsr_cumsum(a, (int)test_range(rng, 0, last));
  case 5: return tsr_where(tsr_gt(a, b), b, 7);
  case 6: return tsr_neg(a);
  default: return tsr_maximum(b, a);
  }
}

/* Three leaves, some given up; results are those of leaves that stay. */
static void run_one(uint64_t seed, bool donate, int64_t *out, size_t bytes)
{
  test_rng rng = test_seeded(seed);
  law_mesh at = law_open(&rng);
  tsr_scope *s = tsr_scope_open(at.rt);
  int64_t rows = test_range(&rng, 1, 90);
  tsr_shape shape = TSR_SHAPE(rows, test_range(&rng, 1, MOST / rows)); /* some of several tiles */
  tsr_array *made[16], *roots[3];
  for (int i = 0; i < 3; i++) {
    made[i] = tsr_add(tsr_iota(s, TSR_I64, shape, 0, law_sharding(&rng, at.mesh, 2)), i);
    CHECK_STATUS(tsr_eval(&made[i], 1), TSR_OK, s);
  }
  for (int i = 3; i < 16; i++)
    made[i] = draw_one(&rng, made[test_range(&rng, 0, i - 1)], made[test_range(&rng, 0, i - 1)]);
  tsr_array *all = made[15];
  for (int i = 3; i < 15; i++) all = tsr_add(all, made[i]); /* so that nobody waits */
  for (int i = 0; i < 3; i++) roots[i] = i ? made[12 + i] : all;
  for (int i = 0; i < 3 && donate; i++)
    if (seed >> i & 1) CHECK_STATUS(tsr_donate(made[i]), TSR_OK, s);
  CHECK_STATUS(tsr_eval(roots, 3), TSR_OK, s);
  size_t part = (size_t)(shape.dims[0] * shape.dims[1]) * sizeof *out;
  CHECK(3 * part <= bytes);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tsr_read(roots[i], (char *)out + (size_t)i * part, part), TSR_OK, s);
  tsr_runtime_close(at.rt);
}

TEST(what_is_given_up_shows_in_no_bit)
{
  static int64_t kept[3 * MOST], given[3 * MOST];
  for (uint64_t seed = 1; seed <= (test_quick() ? 50 : 300); seed++) {
    run_one(seed, false, kept, sizeof kept);
    run_one(seed, true, given, sizeof given);
    if (memcmp(kept, given, sizeof kept)) FAIL("seed %llu", (unsigned long long)seed);
  }
}

/* ---- calls that are made of others ----------------------------------------------------------- */

static tsr_array *places(tsr_scope *s)
{
  return tsr_iota(s, TSR_I64, TSR_SHAPE(3), 0, (tsr_sharding){ 0 });
}

#define MADE(name, formula)                          \
  static tsr_array *name(tsr_scope *s, tsr_array *x) \
  {                                                  \
    (void)s;                                         \
    return formula;                                  \
  }
MADE(made_round, tsr_round(x, .decimals = -1))
MADE(made_clip, tsr_clip(x, 0, 1))
MADE(made_softplus, tsr_softplus(x))
MADE(made_nan_to_num, tsr_nan_to_num(x))
MADE(made_allclose, tsr_allclose(x, x))
MADE(made_equal, tsr_array_equal(x, x))
MADE(made_ptp, tsr_ptp(x, .dims = TSR_DIMS(1)))
MADE(made_norm, tsr_norm(x))
MADE(made_rows_norm, tsr_norm(x, .dims = TSR_DIMS(1), .where = tsr_gt(x, 0)))
MADE(made_logsumexp, tsr_logsumexp(x))
MADE(made_softmax, tsr_softmax(x, 1))
MADE(made_average, tsr_average(x, .weights = tsr_abs(x)))
MADE(made_quantile, tsr_quantile(x, .q = 0.3, .skip_nan = true))
MADE(made_median, tsr_median(x, .dims = TSR_DIMS(0)))
MADE(made_cov, tsr_cov(x))
MADE(made_std, tsr_std(x, .dims = TSR_DIMS(0)))
MADE(made_initial, tsr_max(x, .initial = TSR_OPERAND(2), .skip_nan = true))
MADE(made_unique, tsr_unique(tsr_ravel(x), .count = 9).values)
MADE(made_compress, tsr_compress(tsr_ravel(x), tsr_gt(tsr_ravel(x), 0), 5))
MADE(made_digits, tsr_digitize(x, tsr_sort(tsr_ravel(x), 0), false))
MADE(made_interp, tsr_interp(x, tsr_sort(tsr_ravel(x), 0), tsr_ravel(x)))
MADE(made_bincount, tsr_bincount(tsr_cast(tsr_abs(tsr_ravel(x)), TSR_I64), 9, tsr_ravel(x)))
MADE(made_diff, tsr_diff(x, 2, 0))
MADE(made_trace, tsr_trace(x))
MADE(made_diag, tsr_diag(tsr_ravel(x), 1))
MADE(made_tile, tsr_tile(x, 2, 2))
MADE(made_border, tsr_pad_like(TSR_PAD_REFLECT, x, .low = { 1, 1 }, .high = { 1, 1 }))
MADE(made_take, tsr_take(x, places(s), 0, .mode = TSR_INDEX_FILL))
MADE(made_along, tsr_take_along_dim(x, tsr_argsort(x, 0), 0))
MADE(made_scatter, tsr_scatter(x, places(s), 9.0, 0, .how = TSR_SCATTER_ADD))
MADE(made_einsum, tsr_einsum("ii->i", x))
MADE(made_outer, tsr_outer(x, x))
MADE(made_window, tsr_reduce_window(x, .op = TSR_WINDOW_MAX, .window = { 2, 2 }))
MADE(made_shuffle, tsr_shuffle(x, 0, .key = 1))
MADE(made_categorical, tsr_categorical(x, 0, .key = 1))
MADE(made_gamma, tsr_gamma(s, tsr_abs(x), .key = 1))
MADE(made_entropy, tsr_cross_entropy(x, x, .smoothing = 0.1))
MADE(made_short, tsr_clip_norm(tsr_tuple(s, x, x), 1))
MADE(made_metric, tsr_metric_add(tsr_metric_start(s), x, .where = tsr_gt(x, 0)))
MADE(made_adam, tsr_adam(x, tsr_neg(x), tsr_adam_state(x), .rate = TSR_OPERAND(0.1), .decay = 0.1))
MADE(made_sgd, tsr_sgd(x, tsr_neg(x), tsr_sgd_state(x), .rate = TSR_OPERAND(0.1)))
MADE(made_fast, tsr_sgd(x, tsr_neg(x), tsr_sgd_state(x), .rate = TSR_OPERAND(0.1), .momentum = 0.9,
                        .nesterov = true, .decay = 0.1))

/* They make nothing of an array that their result has no need of: it would be a reader that waits
 * until the scope closes, and an array that is given up may have none. */
TEST(calls_leave_no_readers_behind)
{
  static tsr_array *(*const calls[])(tsr_scope * s, tsr_array * x) = {
    made_round,    made_clip,   made_softplus,  made_nan_to_num, made_allclose,    made_equal,
    made_ptp,      made_norm,   made_rows_norm, made_logsumexp,  made_softmax,     made_average,
    made_quantile, made_median, made_cov,       made_std,        made_initial,     made_unique,
    made_compress, made_digits, made_interp,    made_bincount,   made_diff,        made_trace,
    made_diag,     made_tile,   made_border,    made_take,       made_along,       made_scatter,
    made_einsum,   made_outer,  made_window,    made_shuffle,    made_categorical, made_gamma,
    made_entropy,  made_short,  made_metric,    made_adam,       made_sgd,         made_fast
  };
  fixture f = open_fixture();
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    tsr_scope *s = tsr_scope_open(f.s);
    tsr_array *x = tsr_keep(s, tsr_normal(s, .key = 1, .dtype = i & 1 ? TSR_F32 : TSR_F64,
                                          .shape = TSR_SHAPE(8, 8), .on = tsr_on(f.mesh, "x")));
    tsr_array *y = calls[i](s, x);
    CHECK_STATUS(tsr_donate(x), TSR_OK, s);
    if (tsr_eval(&y, 1)) FAIL("call %zu: %s", i, tsr_message(s));
    tsr_scope_close(s);
  }
  tsr_runtime_close(f.rt);
}

/* A state that an optimiser has no use for all of is given up with the rest. */
TEST(states_are_given_up_whole)
{
  fixture f = open_fixture();
  for (int how = 0; how < 3; how++) {
    tsr_array *w = numbers(&f, 64), *slope = tsr_neg(w);
    tsr_array *kept = tsr_tree_keep(f.s, how == 2 ? tsr_adam_state(w) : tsr_sgd_state(w)), *next;
    if (how == 2) next = tsr_adam(w, slope, kept, .rate = TSR_OPERAND(0.1));
    else next = tsr_sgd(w, slope, kept, .rate = TSR_OPERAND(0.1), .momentum = how ? 0.9 : 0);
    CHECK_STATUS(tsr_donate(tsr_tuple(f.s, w, kept)), TSR_OK, f.s);
    CHECK_STATUS(tsr_eval(&next, 1), TSR_OK, f.s);
  }
  tsr_runtime_close(f.rt);
}
