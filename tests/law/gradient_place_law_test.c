/* A gradient lies as what it is by: weights that are cut, and gathered for their layer, have
 * gradients that are cut alike, and what moves is the least. Layers one by one, checkpointed,
 * scanned over stacked weights; shardings explicit or not; on any mesh by any specs. LAW_SEED=n
 * tries one. */
#include <string.h>

#include "harness.h"
#include "support/law_fixture.h"
#include "tessera.h"

enum { MOST_LAYERS = 5 };

typedef enum form { PLAIN, AGAIN, SCANNED, SCANNED_AGAIN, FORMS } form;

static const char *const form_names[FORMS] = { "layers", "checkpoints", "a scan",
                                               "a scan of checkpoints" };

/* tanh(h w) so often: weights [width, width] as `cut` says, used as `used` says; examples [rows,
 * width], which lie as `examples` says in front of each layer. */
typedef struct stack {
  const tsr_mesh *mesh;
  tsr_sharding cut, used, examples;
  form form;
  int layers;
  int64_t rows, width;
  bool same_bits; /* its products have the same bits on any mesh */
} stack;

static bool scans(const stack *k)
{
  return k->form == SCANNED || k->form == SCANNED_AGAIN;
}

static tsr_array *layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  const stack *k = user;
  (void)s;
  tsr_array *w = tsr_constrain(in[1], k->used);
  return tsr_tanh(tsr_matmul(in[0], w, .reproducible = k->same_bits));
}

static tsr_array *one_layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  const stack *k = user;
  tsr_function *f = tsr_function_make(s, layer, .user = user);
  if (k->form == AGAIN || k->form == SCANNED_AGAIN) f = tsr_checkpoint(f);
  return tsr_constrain(tsr_call(f, in[0], in[1]), k->examples);
}

static tsr_array *turn(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_tuple(s, one_layer(s, in, user), tsr_num(s, 0));
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  const stack *k = user;
  tsr_array *h = in[1];
  if (scans(k)) return tsr_sum(tsr_item(tsr_scan(turn, user, h, .xs = in[0]), 0));
  for (int i = 0; i < k->layers; i++)
    h = one_layer(s, (tsr_array *[]){ h, tsr_item(in[0], i), NULL }, user);
  return tsr_sum(h);
}

static tsr_shape weights_shape(const stack *k)
{
  return scans(k) ? TSR_SHAPE(k->layers, k->width, k->width) : TSR_SHAPE(k->width, k->width);
}

/* ---- the least ------------------------------------------------------------------------------- */

static int64_t bytes_of(const tsr_figures *f, const char *kind)
{
  for (int k = 0; k < f->kind_count; k++)
    if (!strcmp(f->kinds[k].kind, kind)) return f->kinds[k].bytes;
  return 0;
}

/* Weights as types: a tuple, or one stack. */
static tsr_array *types_of(tsr_scope *s, const stack *k)
{
  tsr_array *w[MOST_LAYERS];
  for (int i = 0; i < k->layers; i++) w[i] = tsr_abstract(s, TSR_F32, weights_shape(k), k->cut);
  return scans(k) ? w[0] : tsr_tuple_at(s, w, k->layers, TSR_HERE);
}

/* Each device lacks all of the weights but its part, and as many parts of sums move. Weights are
 * gathered once where they stay, and twice where the way back starts from a stack or a checkpoint:
 * of checkpoints that nothing waits for the last may use what the way forward gathered. */
static void count_trial(uint64_t seed)
{
  static const char *const meshes[] = { "x=2", "x=4", "x=8" };
  static const char *const cuts[] = { "x", "-,x" }, *const stacked[] = { "-,x", "-,-,x" };
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  int size = (int)test_range(&rng, 0, 2), dim = (int)test_range(&rng, 0, 1);
  stack k = { .mesh = tsr_mesh_make(rt, meshes[size]),
              .form = (form)test_range(&rng, 0, FORMS - 1),
              .layers = (int)test_range(&rng, 1, MOST_LAYERS),
              .rows = 128,
              .width = 64 };
  k.cut = tsr_on(k.mesh, scans(&k) ? stacked[dim] : cuts[dim]);
  k.used = tsr_on(k.mesh, "");
  k.examples = tsr_on(k.mesh, "x");
  bool says = test_range(&rng, 0, 1);
  tsr_function *f = tsr_function_make(s, loss, .user = &k, .explicit_shardings = says);
  tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(k.rows, k.width), k.examples);
  tsr_compiled *c = tsr_compile(tsr_grad(f), types_of(s, &k), x);
  tsr_figures got = tsr_compiled_figures(c);
  int64_t devices = INT64_C(2) << size, all = k.layers * k.width * k.width * 4;
  int64_t once = all * (devices - 1), most = k.form == PLAIN ? once : 2 * once;
  int64_t gathered = bytes_of(&got, "all-gather"), scattered = bytes_of(&got, "reduce-scatter");
  bool least = gathered == most && scattered == once && got.result_bytes == all / devices;
  if (k.form == AGAIN) least = scattered == once && got.result_bytes == all / devices;
  if (!least)
    FAIL("seed %llu: %s: %lld bytes gathered, expected %lld; %lld scattered, expected %lld; %lld "
         "of results a device, expected %lld\n%s",
         (unsigned long long)seed, form_names[k.form], (long long)gathered, (long long)most,
         (long long)scattered, (long long)once, (long long)got.result_bytes,
         (long long)(all / devices), tsr_compiled_text(c));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(gathered_weights_and_their_gradients_move_the_least, 600)
{
  law_each_seed(1, test_quick() ? 10 : 60, count_trial);
}

/* ---- where they lie, and their bits ---------------------------------------------------------- */

enum { MOST_ELEMENTS = MOST_LAYERS * 36 };

/* Gradients by weights of a seed, placed or not; the weights come first in `out`, then as many
 * gradients, whose number is returned. */
static int gradients_of(tsr_scope *s, uint64_t seed, const stack *k, bool placed, tsr_array **out)
{
  int count = scans(k) ? 1 : k->layers;
  tsr_shape shape = weights_shape(k), rows = TSR_SHAPE(k->rows, k->width);
  tsr_sharding none = { 0 };
  for (int i = 0; i < count; i++)
    out[i] = tsr_uniform(s, .key = seed * 8 + (uint64_t)i, .shape = shape, .dtype = TSR_F64,
                         .on = placed ? k->cut : none);
  tsr_array *x = tsr_uniform(s, .key = seed * 8 + 7, .shape = rows, .dtype = TSR_F64,
                             .on = placed ? k->examples : none);
  CHECK_STATUS(tsr_eval(out, count), TSR_OK, s);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_function *f = tsr_function_make(s, loss, .user = (void *)(uintptr_t)k);
  tsr_array *in = scans(k) ? out[0] : tsr_tuple_at(s, out, count, TSR_HERE);
  tsr_array *slopes = tsr_item(tsr_call(tsr_value_and_grad(f), in, x), 1);
  for (int i = 0; i < count; i++) out[count + i] = scans(k) ? slopes : tsr_item(slopes, i);
  if (tsr_eval(out + count, count)) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(s));
  return count;
}

static void lying_trial(uint64_t seed)
{
  test_rng rng = test_seeded(seed + 700);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  stack k = { .mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]),
              .form = (form)test_range(&rng, 0, FORMS - 1),
              .layers = (int)test_range(&rng, 1, MOST_LAYERS),
              .rows = test_range(&rng, 1, 9),
              .width = test_range(&rng, 1, 6),
              .same_bits = true };
  k.cut = law_sharding(&rng, k.mesh, weights_shape(&k).rank);
  k.used = law_sharding(&rng, k.mesh, 2);
  k.examples = law_sharding(&rng, k.mesh, 2);
  if (!k.used.mesh) k.used = tsr_on(k.mesh, "");
  if (!k.examples.mesh) k.examples = tsr_on(k.mesh, "x");
  tsr_array *placed[2 * MOST_LAYERS], *whole[2 * MOST_LAYERS];
  int count = gradients_of(s, seed, &k, true, placed);
  gradients_of(s, seed, &k, false, whole);
  for (int i = 0; i < count; i++) {
    tsr_sharding want = tsr_sharding_of(placed[i]), got = tsr_sharding_of(placed[count + i]);
    double one[MOST_ELEMENTS], other[MOST_ELEMENTS];
    size_t bytes = (size_t)(k.width * k.width * (scans(&k) ? k.layers : 1)) * sizeof *one;
    if (want.mesh && !tsr_sharding_same(&want, &got, weights_shape(&k)))
      FAIL("seed %llu: %s: the gradient by %s is %s", (unsigned long long)seed, form_names[k.form],
           tsr_type_of(placed[i]), tsr_type_of(placed[count + i]));
    CHECK_STATUS(tsr_read(placed[count + i], one, bytes), TSR_OK, s);
    CHECK_STATUS(tsr_read(whole[count + i], other, bytes), TSR_OK, s);
    if (memcmp(one, other, bytes) != 0)
      FAIL("seed %llu: %s: the gradient by %s has other bits than without a mesh",
           (unsigned long long)seed, form_names[k.form], tsr_type_of(placed[i]));
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(gradients_of_any_layers_lie_as_the_weights, 600)
{
  law_each_seed(1, test_quick() ? 20 : 200, lying_trial);
}

/* ---- between gradients and what is made of them ---------------------------------------------- */

static tsr_array *product_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  const tsr_mesh *mesh = user;
  (void)s;
  tsr_array *w = mesh ? tsr_constrain(in[0], tsr_on(mesh, "")) : in[0];
  return tsr_sum(tsr_square(tsr_matmul(in[1], w)));
}

/* In: weights, the state of Adam, examples. `user`: the gradient. */
static tsr_array *adam_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *slope = tsr_call(user, in[0], in[2]);
  return tsr_adam(in[0], slope, in[1], .rate = TSR_OPERAND(0.01));
}

static void check_moved(tsr_compiled *c, int64_t gathered, int64_t scattered)
{
  tsr_figures got = tsr_compiled_figures(c);
  if (bytes_of(&got, "all-gather") == gathered && bytes_of(&got, "reduce-scatter") == scattered)
    return;
  FAIL("expected %lld bytes gathered and %lld scattered:\n%s", (long long)gathered,
       (long long)scattered, tsr_compiled_text(c));
}

enum { SIDE = 64, MATRIX = SIDE * SIDE * 4 };

/* Weights that are whole, or cut by less than the state: the gradient goes on as the state is cut,
 * and the weights alone are gathered. */
TEST(a_state_that_is_cut_further_takes_a_gradient_as_its_sums_meet)
{
  static const struct {
    const char *axes, *weights, *state;
    int64_t bytes; /* gathered, and scattered */
  } rows[] = { { "x=8", "", "x", INT64_C(7) * MATRIX },
               { "x=8", "x", "x", 0 },
               { "x=4,y=2", "-,y", "x,y", INT64_C(3) * MATRIX } };
  for (int i = 0; i < 3; i++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:8");
    tsr_scope *s = tsr_scope_open(rt);
    const tsr_mesh *mesh = tsr_mesh_make(rt, rows[i].axes);
    tsr_shape square = TSR_SHAPE(SIDE, SIDE);
    tsr_array *w = tsr_abstract(s, TSR_F32, square, tsr_on(mesh, rows[i].weights));
    tsr_array *kept = tsr_abstract(s, TSR_F32, square, tsr_on(mesh, rows[i].state));
    tsr_array *count = tsr_abstract(s, TSR_I64, TSR_SCALAR, (tsr_sharding){ 0 });
    tsr_array *state = tsr_tree(s, { "step", count }, { "mean", kept }, { "square", kept });
    tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(2 * SIDE, SIDE), tsr_on(mesh, "x"));
    bool gathers = !strcmp(rows[i].weights, "x");
    void *user = gathers ? (void *)(uintptr_t)mesh : NULL;
    tsr_function *slope = tsr_grad(tsr_function_make(s, product_loss, .user = user));
    tsr_function *f = tsr_function_make(s, adam_step, .user = slope);
    int64_t bytes = gathers ? INT64_C(7) * MATRIX : rows[i].bytes;
    check_moved(tsr_compile(f, w, state, x), bytes, bytes);
    tsr_runtime_close(rt);
  }
}

static tsr_array *said(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  const tsr_mesh *mesh = tsr_sharding_of(in[0]).mesh;
  return tsr_constrain(tsr_call(user, in[0], in[1]), tsr_on(mesh, "-,x"));
}

TEST(a_sharding_that_a_user_states_holds)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=8");
  tsr_array *w = tsr_abstract(s, TSR_F32, TSR_SHAPE(SIDE, SIDE), tsr_on(mesh, "x"));
  tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(2 * SIDE, SIDE), tsr_on(mesh, "x"));
  tsr_function *f = tsr_function_make(s, product_loss);
  tsr_compiled *c = tsr_compile(tsr_function_make(s, said, .user = tsr_grad(f)), w, x);
  check_moved(c, INT64_C(7) * MATRIX, INT64_C(7) * MATRIX);
  CHECK_I64(tsr_compiled_figures(c).bytes_moved, INT64_C(2 * 7) * MATRIX);
  tsr_runtime_close(rt);
}

/* Carry: the gradients so far. `user`: the gradient. */
static tsr_array *one_batch(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_tuple(s, tsr_add(in[0], tsr_call(user, in[2], in[1])), tsr_num(s, 0));
}

static tsr_array *summed_slopes(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *none = tsr_full(s, 0, TSR_F32, TSR_SHAPE(SIDE, SIDE), (tsr_sharding){ 0 });
  return tsr_item(tsr_scan(one_batch, user, none, .xs = in[1], .with = in[0]), 0);
}

/* Carry: the weights. */
static tsr_array *one_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *slope = tsr_call(user, in[0], in[1]);
  return tsr_tuple(s, tsr_sub(in[0], tsr_mul(slope, 0.1)), tsr_num(s, 0));
}

static tsr_array *trained(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_item(tsr_scan(one_step, user, in[0], .xs = in[1]), 0);
}

/* Batch by batch a layer is gathered and its gradient scattered, and their sum has a part on each
 * device. */
TEST(gradients_of_batches_add_up_where_the_weights_lie)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=8");
  tsr_array *w = tsr_abstract(s, TSR_F32, TSR_SHAPE(SIDE, SIDE), tsr_on(mesh, "x"));
  tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(3, 2 * SIDE, SIDE), tsr_on(mesh, "-,x"));
  tsr_function *f = tsr_function_make(s, product_loss, .user = (void *)(uintptr_t)mesh);
  tsr_body_fn *const bodies[] = { summed_slopes, trained };
  for (int i = 0; i < 2; i++) {
    tsr_function *all = tsr_function_make(s, bodies[i], .user = tsr_grad(f));
    tsr_compiled *c = tsr_compile(all, w, x);
    check_moved(c, INT64_C(3 * 7) * MATRIX, INT64_C(3 * 7) * MATRIX);
    CHECK_I64(tsr_compiled_figures(c).result_bytes, MATRIX / 8);
  }
  tsr_runtime_close(rt);
}
