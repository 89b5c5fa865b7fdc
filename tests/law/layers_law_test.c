/* The law of layers: a network whose weights lie sharded and are whole only for their layer takes
 * the memory of four whole layers, however deep it is. The peak of a plan is at most its arguments
 * and results, the activations that the backward pass keeps, and four layers; the bits are those of
 * one device. Layers here take enough memory not to wait as short values do. */
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

enum { MOST_LAYERS = 64, KINDS = 4, SHAPES = 5 };
enum { SHORT = 32 << 10 }; /* bytes that may be gathered early, for company */

typedef struct network {
  const tsr_mesh *mesh; /* NULL: one device */
  int layers, kind, shown;
  bool checkpoint;
} network;

static tsr_sharding place(const network *n, const char *spec)
{
  return n->mesh ? tsr_on(n->mesh, spec) : (tsr_sharding){ 0 };
}

static tsr_array *whole(const network *n, tsr_array *w)
{
  return n->mesh ? tsr_constrain(w, tsr_on(n->mesh, "")) : w;
}

/* As a layer may read its weights: as they are, transposed, of another type, scaled, or by a
 * formula that reads them twice. */
static tsr_array *shown(const network *n, tsr_array *w)
{
  switch (n->shown) {
  case 1: return tsr_transpose(w);
  case 2: return tsr_cast(w, TSR_F32);
  case 3: return tsr_mul(w, 0.5f);
  case 4: return tsr_sub(tsr_mul(w, 3.0f), tsr_neg(w));
  default: return w;
  }
}

static tsr_array *active(const network *n, tsr_array *h)
{
  switch (n->kind) {
  case 1: return tsr_sigmoid(h);
  case 2: return h;
  case 3: return tsr_mul(tsr_tanh(h), 2.0f);
  default: return tsr_tanh(h);
  }
}

static tsr_array *one_layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  const network *n = user;
  tsr_array *h = active(n, tsr_matmul(in[0], shown(n, whole(n, in[1]))));
  (void)s;
  return n->mesh ? tsr_constrain(h, tsr_on(n->mesh, "x")) : h;
}

static tsr_array *all_layers(tsr_scope *s, tsr_array *const *in, void *user)
{
  network *n = user;
  tsr_function *f = tsr_function_make(s, one_layer, .user = user);
  if (n->checkpoint) f = tsr_checkpoint(f);
  tsr_array *h = in[1];
  for (int i = 0; i < n->layers; i++) h = tsr_call(f, h, tsr_item(in[0], i));
  return tsr_mean(tsr_mul(h, h));
}

/* Weights and a batch, by a seed. */
typedef struct given {
  tsr_array *weights, *batch;
} given;

static given draw_given(tsr_scope *s, const network *n, int size, int rows, const char *spec)
{
  tsr_array *w[MOST_LAYERS];
  tsr_dtype dtype = n->shown == 2 ? TSR_BF16 : TSR_F32;
  for (int i = 0; i < n->layers; i++) {
    w[i] = tsr_normal(s, .key = (uint64_t)i + 1, .shape = TSR_SHAPE(size, size), .dtype = TSR_F32,
                      .on = place(n, spec));
    w[i] = tsr_cast(tsr_mul(w[i], 0.05f), dtype);
  }
  given g = { tsr_tuple_at(s, w, n->layers, TSR_HERE),
              tsr_normal(s, .key = 99, .shape = TSR_SHAPE(rows, size), .dtype = TSR_F32,
                         .on = place(n, "x")) };
  CHECK_STATUS(tsr_eval(w, n->layers), TSR_OK, s);
  CHECK_STATUS(tsr_eval(&g.batch, 1), TSR_OK, s);
  return g;
}

static tsr_function *function_of(tsr_scope *s, network *n, bool back)
{
  tsr_function *f = tsr_function_make(s, all_layers, .user = n);
  return back ? tsr_grad(f) : f;
}

/* How many arrays as large as an activation the plan may hold: those that the backward pass keeps,
 * and some at work. Products alone go back through all layers before the gradients of weights. */
static int64_t activations(const network *n, bool back)
{
  return (back ? n->layers * (n->kind == 2 ? 2 : 1) : 0) + 4;
}

static void compare_first(tsr_scope *s, tsr_array *found, tsr_array *expected, bool back, int size)
{
  int64_t count = back ? (int64_t)size * size : 1;
  size_t bytes = (size_t)count * tsr_dtype_size(tsr_dtype_of(back ? tsr_item(found, 0) : found));
  char *a = malloc(bytes), *b = malloc(bytes);
  CHECK_STATUS(tsr_read(back ? tsr_item(found, 0) : found, a, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(back ? tsr_item(expected, 0) : expected, b, bytes), TSR_OK, s);
  CHECK_BYTES(a, b, bytes);
  free(a);
  free(b);
}

static void layers_trial(uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  int devices = 1 << test_range(&rng, 1, 3), size = (int)test_range(&rng, 16, 20) * 8;
  int rows = devices * (int)test_range(&rng, 2, 12);
  bool back = test_range(&rng, 0, 2);
  char kind[16];
  snprintf(kind, sizeof kind, "cpu:%d", devices);
  tsr_runtime *rt = tsr_runtime_open(kind), *one = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt), *alone = tsr_scope_open(one);
  network n = { .mesh = tsr_mesh_default(rt, "x"),
                .layers = (int)test_range(&rng, 3, 24),
                .kind = (int)test_range(&rng, 0, KINDS - 1),
                .shown = (int)test_range(&rng, 0, SHAPES - 1),
                .checkpoint = !test_range(&rng, 0, 3) };
  network twin = n;
  twin.mesh = NULL;
  given g = draw_given(s, &n, size, rows, test_range(&rng, 0, 1) ? "x" : "-,x");
  given h = draw_given(alone, &twin, size, rows, "");
  tsr_function *f = function_of(s, &n, back);
  tsr_compiled *plan = tsr_compile(f, g.weights, g.batch);
  tsr_figures said = tsr_compiled_figures(plan);
  int64_t layer = (int64_t)size * size * 4, activation = (int64_t)rows / devices * size * 4;
  /* Gradients of products alone travel together, some at a time, and are whole together. */
  int64_t most = said.argument_bytes + said.result_bytes + (n.kind == 2 ? 10 : 4) * layer;
  most += activations(&n, back) * activation + SHORT;
  if (said.peak_bytes > most)
    FAIL("seed %llu: %d layers of %lld bytes (%d, %d%s%s) need %lld, not %lld",
         (unsigned long long)seed, n.layers, (long long)layer, n.kind, n.shown,
         back ? ", back" : "", n.checkpoint ? ", checkpoint" : "", (long long)said.peak_bytes,
         (long long)most);
  bool again = strstr(tsr_compiled_text(plan), "again,");
  if (!n.checkpoint) CHECK(again == (back && n.layers > 4));
  tsr_array *found = tsr_call(f, g.weights, g.batch);
  tsr_array *expected = tsr_call(function_of(alone, &twin, back), h.weights, h.batch);
  tsr_array *leaf = back ? tsr_item(found, 0) : found;
  CHECK_STATUS(tsr_eval(&leaf, 1), TSR_OK, s);
  compare_first(s, found, expected, back, size);
  tsr_runtime_close(rt);
  tsr_runtime_close(one);
}

TEST_TIMEOUT(a_network_needs_the_memory_of_four_whole_layers, 300)
{
  law_each_seed(1, test_quick() ? 12 : 400, layers_trial);
}
