/* Optimisers, losses, rates and first values: against PyTorch (golden/train.txt, make_train.py),
 * and the same bits wherever a model lies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { STEPS = 4, NUMBERS = 7 }; /* of a model of f64[3] and f64[2,2] */

/* Numbers of a line of the golden file; returns how many. */
static int golden(const char *name, double *out, int room)
{
  char *text = test_read(test_file("golden/train.txt"), NULL), *state = NULL;
  size_t length = strlen(name);
  for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
    if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
    int count = 0;
    for (char *at = line + length; *at && count < room; count++) out[count] = strtod(at, &at);
    free(text);
    return count;
  }
  FAIL("golden/train.txt has no line %s", name);
}

static void close_to(const char *what, const double *found, const double *expected, int count)
{
  for (int i = 0; i < count; i++)
    if (!(fabs(found[i] - expected[i]) <= 1e-13 * (1 + fabs(expected[i]))))
      FAIL("%s, number %d: %.17g, expected %.17g", what, i, found[i], expected[i]);
}

static tsr_runtime *rt;
static tsr_scope *s;
static const tsr_sharding free_place;

static void open_world(void)
{
  rt = tsr_runtime_open("cpu:8", .threads = 2);
  s = tsr_scope_open(rt);
}

static void close_world(void)
{
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A tree of a model's form. */
static tsr_array *tree_of(const double *numbers)
{
  tsr_array *a = tsr_put(s, numbers, TSR_F64, TSR_SHAPE(3), free_place);
  tsr_array *b = tsr_put(s, numbers + 3, TSR_F64, TSR_SHAPE(2, 2), free_place);
  return tsr_tree(s, { "a", a }, { "more", tsr_tuple(s, b) });
}

static void read_tree(tsr_array *tree, double *out)
{
  CHECK_STATUS(tsr_read(tsr_field(tree, "a"), out, 3 * sizeof *out), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_field(tree, "more.0"), out + 3, 4 * sizeof *out), TSR_OK, s);
}

/* ---- optimisers ------------------------------------------------------------------------------ */

typedef tsr_array *step_fn(tsr_array *model, tsr_array *slope, tsr_array *kept);

static tsr_array *plain(tsr_array *model, tsr_array *slope, tsr_array *kept)
{
  return tsr_sgd(model, slope, kept, .rate = TSR_OPERAND(0.1));
}

static tsr_array *heavy(tsr_array *model, tsr_array *slope, tsr_array *kept)
{
  return tsr_sgd(model, slope, kept, .rate = TSR_OPERAND(0.1), .momentum = 0.9);
}

static tsr_array *nesterov(tsr_array *model, tsr_array *slope, tsr_array *kept)
{
  return tsr_sgd(model, slope, kept, .rate = TSR_OPERAND(0.05), .momentum = 0.8, .nesterov = true,
                 .decay = 0.01);
}

static tsr_array *adam(tsr_array *model, tsr_array *slope, tsr_array *kept)
{
  return tsr_adam(model, slope, kept, .rate = TSR_OPERAND(0.01));
}

static tsr_array *adam_betas(tsr_array *model, tsr_array *slope, tsr_array *kept)
{
  return tsr_adam(model, slope, kept, .rate = TSR_OPERAND(0.02), .beta1 = 0.8, .beta2 = 0.95,
                  .smooth = 1e-3);
}

static tsr_array *adamw(tsr_array *model, tsr_array *slope, tsr_array *kept)
{
  return tsr_adam(model, slope, kept, .rate = TSR_OPERAND(0.01), .decay = 0.1);
}

static const struct {
  const char *name;
  step_fn *step;
  bool adam;
} optimizers[] = {
  { "sgd", plain, false }, { "sgd.momentum", heavy, false },   { "sgd.nesterov", nesterov, false },
  { "adam", adam, true },  { "adam.betas", adam_betas, true }, { "adamw", adamw, true }
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

TEST(optimisers_step_as_those_of_pytorch)
{
  open_world();
  for (int o = 0; o < OPTIMIZERS; o++) {
    double expected[STEPS * NUMBERS], slope[NUMBERS], found[NUMBERS];
    CHECK_I64(golden("first", found, NUMBERS), NUMBERS);
    CHECK_I64(golden(optimizers[o].name, expected, STEPS * NUMBERS), STEPS * NUMBERS);
    tsr_array *model = tree_of(found);
    tsr_array *kept = optimizers[o].adam ? tsr_adam_state(model) : tsr_sgd_state(model);
    for (int k = 0; k < STEPS; k++) {
      char name[16];
      snprintf(name, sizeof name, "slope.%d", k);
      golden(name, slope, NUMBERS);
      tsr_array *next = optimizers[o].step(model, tree_of(slope), kept);
      model = tsr_item(next, 0), kept = tsr_item(next, 1);
      read_tree(model, found);
      close_to(optimizers[o].name, found, expected + k * NUMBERS, NUMBERS);
    }
    int64_t made = 0;
    CHECK_STATUS(tsr_read_i64(tsr_field(kept, "step"), &made), TSR_OK, s);
    CHECK_I64(made, STEPS);
    CHECK_STR(tsr_tree_text(kept),
              optimizers[o].adam ? "(step: *, mean: (a: *, more: (*)), square: (a: *, more: (*)))"
                                 : "(step: *, velocity: (a: *, more: (*)))");
  }
  close_world();
}

/* Three steps of a model of so many rows that lies as a spec says; the bytes of all that comes of
 * them, in order. */
static size_t bytes_of_steps(int o, tsr_dtype dtype, tsr_sharding on, char *out)
{
  tsr_random_args draw = { .size = sizeof draw, .key = 3, .shape = TSR_SHAPE(5, 3), .on = on };
  tsr_array *w = tsr_cast(tsr_normal_at(s, &draw, TSR_HERE), dtype);
  tsr_array *model = tsr_tree(s, { "w", w }), *leaves[8];
  tsr_array *kept = optimizers[o].adam ? tsr_adam_state(model) : tsr_sgd_state(model);
  for (uint64_t k = 0; k < 3; k++) {
    draw.stream = k + 1;
    tsr_array *slope = tsr_cast(tsr_normal_at(s, &draw, TSR_HERE), dtype);
    tsr_array *next = optimizers[o].step(model, tsr_tree(s, { "w", slope }), kept);
    model = tsr_item(next, 0), kept = tsr_item(next, 1);
  }
  int count = tsr_tree_leaves(tsr_tuple(s, model, kept), leaves, 8);
  size_t size = 0;
  CHECK_I64(tsr_dtype_of(leaves[0]), dtype);
  for (int i = 0; i < count; i++) {
    size_t bytes = i == 1 ? 8 : 15 * tsr_dtype_size(tsr_dtype_of(leaves[i]));
    CHECK_STATUS(tsr_read(leaves[i], out + size, bytes), TSR_OK, s);
    size += bytes;
  }
  return size;
}

TEST(steps_have_the_same_bits_wherever_the_model_lies)
{
  static const tsr_dtype dtypes[] = { TSR_F32, TSR_F64, TSR_BF16, TSR_F16 };
  static const char *const specs[] = { "", "x", "y", "x,y", "-,x", "x+y" };
  open_world();
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  for (int o = 0; o < OPTIMIZERS; o++)
    for (int d = 0; d < 4; d++) {
      char one[600] = { 0 }, other[600] = { 0 };
      size_t size = bytes_of_steps(o, dtypes[d], free_place, one);
      for (int k = 0; k < 6; k++) {
        const char *spec = specs[k];
        CHECK_U64(bytes_of_steps(o, dtypes[d], tsr_on(mesh, spec), other), size);
        if (memcmp(one, other, size) != 0)
          FAIL("%s of %s on (%s): other bits", optimizers[o].name, tsr_dtype_name(dtypes[d]), spec);
      }
    }
  close_world();
}

TEST(a_step_lies_as_the_model_does)
{
  open_world();
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  tsr_sharding on = tsr_on(mesh, "x");
  tsr_array *w = tsr_uniform(s, .key = 1, .shape = TSR_SHAPE(8, 2), .on = on), *next;
  tsr_array *slope = tsr_uniform(s, .key = 2, .shape = TSR_SHAPE(8, 2), .on = tsr_on(mesh, "-,y"));
  CHECK_STATUS(tsr_eval((tsr_array *[]){ w, slope }, 2), TSR_OK, s);
  next = tsr_item(tsr_adam(w, slope, tsr_adam_state(w), .rate = TSR_OPERAND(0.1)), 0);
  CHECK_STATUS(tsr_wait(next), TSR_OK, s);
  tsr_sharding lies = tsr_sharding_of(next);
  CHECK(tsr_sharding_same(&lies, &on, TSR_SHAPE(8, 2)));
  close_world();
}

/* ---- gradients ------------------------------------------------------------------------------- */

TEST(gradients_are_clipped_as_by_pytorch)
{
  double slope[NUMBERS], expected[NUMBERS], found[NUMBERS], norm, limit;
  open_world();
  golden("slope.0", slope, NUMBERS);
  golden("clipped", expected, NUMBERS);
  golden("norm", &limit, 1);
  tsr_array *tree = tree_of(slope);
  CHECK_STATUS(tsr_read_scalar(tsr_global_norm(tree), &norm), TSR_OK, s);
  close_to("norm", &norm, &limit, 1);
  read_tree(tsr_clip_norm(tree, 0.5), found);
  for (int i = 0; i < NUMBERS; i++) /* PyTorch adds 1e-6 to the norm */
    if (!(fabs(found[i] - expected[i]) < 1e-6)) FAIL("clipped %d: %g", i, found[i]);
  CHECK_STATUS(tsr_read_scalar(tsr_global_norm(tsr_clip_norm(tree, 0.5)), &norm), TSR_OK, s);
  close_to("norm of what is clipped", &norm, &(double){ 0.5 }, 1);
  read_tree(tsr_clip_norm(tree, 100), found);
  close_to("not clipped", found, slope, NUMBERS);
  close_world();
}

TEST(a_norm_neither_overflows_nor_vanishes)
{
  open_world();
  double norm;
  tsr_array *large = tsr_full(s, 3e30, TSR_F32, TSR_SHAPE(4), free_place);
  CHECK_STATUS(tsr_read_scalar(tsr_global_norm(large), &norm), TSR_OK, s);
  CHECK_F32_BITS((float)norm, 6e30F);
  tsr_array *small = tsr_full(s, 3e-30, TSR_F32, TSR_SHAPE(4), free_place);
  CHECK_STATUS(tsr_read_scalar(tsr_global_norm(small), &norm), TSR_OK, s);
  CHECK_F32_BITS((float)norm, 6e-30F);
  close_world();
}

/* ---- losses ---------------------------------------------------------------------------------- */

enum { LINES = 4, CLASSES = 3 };

static tsr_array *mean_loss(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope;
  tsr_array *lines = tsr_cross_entropy(in[0], in[1], .smoothing = *(double *)user);
  return tsr_tuple(scope, tsr_mean(lines), lines);
}

static void check_loss(const char *name, tsr_array *scores, tsr_array *truth, double smoothing)
{
  double found[LINES * CLASSES], expected[LINES * CLASSES];
  char slope[64];
  snprintf(slope, sizeof slope, "%s.slope", name);
  tsr_function *f = tsr_function_make(s, mean_loss, .user = &smoothing);
  tsr_array *both = tsr_call(tsr_value_and_grad(f), scores, truth);
  CHECK_STATUS(tsr_read(tsr_field(both, "0.1"), found, LINES * sizeof *found), TSR_OK, s);
  CHECK_I64(golden(name, expected, LINES), LINES);
  close_to(name, found, expected, LINES);
  CHECK_STATUS(tsr_read(tsr_item(both, 1), found, sizeof found), TSR_OK, s);
  CHECK_I64(golden(slope, expected, LINES * CLASSES), LINES * CLASSES);
  close_to(slope, found, expected, LINES * CLASSES);
}

TEST(cross_entropy_and_its_gradient_are_those_of_pytorch)
{
  double numbers[LINES * CLASSES], shares[LINES * CLASSES];
  int32_t labels[LINES] = { 2, 0, 1, 2 };
  open_world();
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  golden("scores", numbers, LINES * CLASSES);
  golden("shares", shares, LINES * CLASSES);
  for (int k = 0; k < 3; k++) {
    tsr_sharding rows = k ? tsr_on(mesh, k == 1 ? "x" : "x,y") : free_place;
    tsr_array *scores = tsr_put(s, numbers, TSR_F64, TSR_SHAPE(LINES, CLASSES), rows);
    tsr_array *classes = tsr_put(s, labels, TSR_I32, TSR_SHAPE(LINES), free_place);
    tsr_array *likely = tsr_put(s, shares, TSR_F64, TSR_SHAPE(LINES, CLASSES), free_place);
    check_loss("loss.classes", scores, classes, 0);
    check_loss("loss.smoothed", scores, classes, 0.1);
    check_loss("loss.likely", scores, likely, 0);
    check_loss("loss.likely.smoothed", scores, likely, 0.2);
  }
  close_world();
}

TEST(lines_without_a_class_count_nothing)
{
  double numbers[LINES * CLASSES], found[LINES], slope[LINES * CLASSES], zero = 0;
  int32_t labels[LINES] = { -1, 0, 3, 2 };
  open_world();
  golden("scores", numbers, LINES * CLASSES);
  numbers[0] = -(double)INFINITY;
  tsr_array *scores = tsr_put(s, numbers, TSR_F64, TSR_SHAPE(LINES, CLASSES), free_place);
  tsr_array *classes = tsr_put(s, labels, TSR_I32, TSR_SHAPE(LINES), free_place);
  tsr_function *f = tsr_function_make(s, mean_loss, .user = &zero);
  tsr_array *both = tsr_call(tsr_value_and_grad(f), scores, classes);
  CHECK_STATUS(tsr_read(tsr_field(both, "0.1"), found, sizeof found), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_item(both, 1), slope, sizeof slope), TSR_OK, s);
  for (int i = 0; i < LINES; i++) {
    bool counts = labels[i] >= 0 && labels[i] < CLASSES;
    CHECK(counts == (found[i] > 0));
    for (int k = 0; k < CLASSES; k++) CHECK(counts == (fabs(slope[i * CLASSES + k]) > 0));
  }
  close_world();
}

/* ---- rates ----------------------------------------------------------------------------------- */

static double rate_at(int64_t step, int kind, int64_t warmup)
{
  double rate = -1;
  tsr_array *at = tsr_num(s, step);
  tsr_array *made = kind == 0 ? tsr_schedule(at, TSR_SCHEDULE_COSINE, .rate = 0.5,
                                             .steps = 10 + warmup, .end = 0.05, .warmup = warmup)
                    : kind == 1
                        ? tsr_schedule(at, TSR_SCHEDULE_STEPS, .rate = 0.5, .every = 3,
                                       .factor = 0.5, .warmup = warmup)
                        : tsr_schedule(at, TSR_SCHEDULE_CONSTANT, .rate = 0.5, .warmup = warmup);
  CHECK_STATUS(tsr_read_scalar(made, &rate), TSR_OK, s);
  return rate;
}

TEST(rates_are_those_of_pytorch_behind_a_warm_up)
{
  double expected[2][11];
  open_world();
  golden("rate.cosine", expected[0], 11);
  golden("rate.steps", expected[1], 11);
  for (int kind = 0; kind < 2; kind++)
    for (int64_t i = 0; i < 11; i++) {
      double now = rate_at(i, kind, 0), later = rate_at(i + 4, kind, 4);
      close_to("rate", &now, &expected[kind][i], 1);
      close_to("rate behind a warm-up", &later, &expected[kind][i], 1);
    }
  for (int kind = 0; kind < 3; kind++)
    for (int64_t i = 0; i < 4; i++) {
      double now = rate_at(i, kind, 4);
      close_to("warm-up", &now, &(double){ 0.125 * (double)i }, 1);
    }
  double end = rate_at(1000, 0, 0), constant = rate_at(1000, 2, 0);
  close_to("the end", &end, &(double){ 0.05 }, 1);
  close_to("constant", &constant, &(double){ 0.5 }, 1);
  close_world();
}

/* ---- first values ---------------------------------------------------------------------------- */

static void check_initial(tsr_initial_rule rule, tsr_initial_law law, tsr_shape shape, double wide)
{
  tsr_array *x = tsr_initial(s, rule, law, .key = 5, .shape = shape, .dtype = TSR_F32);
  double mean, deviation, most;
  CHECK_STATUS(tsr_read_scalar(tsr_mean(x), &mean), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_std(x), &deviation), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_max(tsr_abs(x)), &most), TSR_OK, s);
  double end = law == TSR_INITIAL_UNIFORM     ? sqrt(3)
               : law == TSR_INITIAL_TRUNCATED ? 2 / 0.87962566103423978
                                              : 6;
  if (fabs(mean) > 0.03 * wide || fabs(deviation / wide - 1) > 0.02 || most > end * wide * 1.000001)
    FAIL("rule %d, law %d: mean %g, deviation %g, expected %g, most %g", rule, law, mean, deviation,
         wide, most);
  if (law == TSR_INITIAL_NORMAL ? most < 3.5 * wide : most < 0.99 * end * wide)
    FAIL("rule %d, law %d: most %g", rule, law, most);
}

TEST(first_values_are_as_wide_as_those_of_jax)
{
  open_world();
  for (int rule = TSR_GLOROT; rule <= TSR_LECUN; rule++)
    for (int law = TSR_INITIAL_UNIFORM; law <= TSR_INITIAL_TRUNCATED; law++) {
      double wide[3];
      golden("deviation.100x200", wide, 3);
      check_initial((tsr_initial_rule)rule, (tsr_initial_law)law, TSR_SHAPE(100, 200), wide[rule]);
      golden("deviation.3x3x40x50", wide, 3);
      check_initial((tsr_initial_rule)rule, (tsr_initial_law)law, TSR_SHAPE(3, 3, 40, 50),
                    wide[rule]);
    }
  close_world();
}

/* ---- trees that are kept --------------------------------------------------------------------- */

TEST(a_tree_outlives_the_scope_that_made_it)
{
  double numbers[NUMBERS], found[NUMBERS];
  open_world();
  golden("first", numbers, NUMBERS);
  tsr_scope *step = tsr_scope_open(s);
  tsr_array *made = tsr_put(step, numbers, TSR_F64, TSR_SHAPE(3), free_place);
  tsr_array *more = tsr_put(step, numbers + 3, TSR_F64, TSR_SHAPE(2, 2), free_place);
  tsr_array *tree =
      tsr_tree(step, { "a", tsr_mul(made, 2) }, { "more", tsr_tuple(step, tsr_mul(more, 2)) });
  tsr_array *kept = tsr_tree_keep(s, tree);
  CHECK_I64(tsr_last_run(step).programs, 1);
  tsr_scope_close(step);
  CHECK_STR(tsr_tree_text(kept), "(a: *, more: (*))");
  read_tree(kept, found);
  for (int i = 0; i < NUMBERS; i++) CHECK_F64_BITS(found[i], 2 * numbers[i]);
  close_world();
}
