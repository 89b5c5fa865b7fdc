/* Learns handwritten digits on eight devices.
 *
 *   train_digits [EPOCHS]      default: $TESSERA_DEMO_EPOCHS, else 40
 *
 * The first network has two layers and is data parallel: each device holds the whole model and its
 * rows of a batch. The second has two convolutions and two layers, data and model parallel: pairs
 * of devices also shard the layers' weights. Both use the same step; only the specs differ, and the
 * collectives follow from the specs. The last part compares losses on several meshes, bit for bit
 * with .reproducible products, and prints the cost of these products.
 *
 * Batches come from a pipeline, in an order drawn anew for each epoch, each row on the device that
 * works on it. A step (loss, gradient, optimiser) is one function, traced once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tessera.h>

#include "demo/curve.h"

enum { IMAGES = 1797, HELD_OUT = 360, TRAINED = IMAGES - HELD_OUT, SIDE = 8, CLASSES = 10 };
enum { BATCH = 128, STEPS_AN_EPOCH = TRAINED / BATCH, MOST_EPOCHS = 1000 };

/* How a network is trained: the `user` of functions. */
typedef struct settings {
  bool windows;      /* convolutions before the layers */
  bool half;         /* products of bf16; weights stay f32 */
  bool reproducible; /* the same bits on any mesh */
  bool dropout;
  int epochs;
} settings;

/* ---- the network: plain functions of arrays -------------------------------------------------- */

static tsr_array *layer(const settings *how, tsr_array *p, tsr_array *x)
{
  tsr_array *w = tsr_field(p, "w");
  tsr_dtype dtype = how->half ? TSR_BF16 : TSR_F32;
  tsr_array *sum = tsr_matmul(x, w, .dtype = dtype, .reproducible = how->reproducible);
  return tsr_add(tsr_cast(sum, TSR_F32), tsr_field(p, "b"));
}

static tsr_array *window(const settings *how, tsr_array *p, tsr_array *x)
{
  tsr_dtype dtype = how->half ? TSR_BF16 : TSR_F32;
  tsr_array *sum = tsr_conv(x, tsr_field(p, "w"), .same = true, .dtype = dtype,
                            .reproducible = how->reproducible);
  return tsr_relu(tsr_add(tsr_cast(sum, TSR_F32), tsr_field(p, "b")));
}

/* Drops a fifth of the elements, or none without a key. Draws depend on the position in the whole
 * array, so each mesh drops the same elements. */
static tsr_array *dropped(tsr_scope *s, tsr_array *x, tsr_array *key)
{
  if (!key) return x;
  tsr_array *stays = tsr_bernoulli(s, 0.8, .keys = key, .shape = tsr_shape_of(x));
  return tsr_where(stays, tsr_div(x, 0.8), 0);
}

static tsr_array *scores_of(tsr_scope *s, const settings *how, tsr_array *model, tsr_array *x,
                            tsr_array *key)
{
  int64_t rows = tsr_shape_of(x).dims[0];
  if (how->windows) {
    x = window(how, tsr_field(model, "near"), x);
    x = tsr_max_pool(window(how, tsr_field(model, "far"), x), .window = { 2, 2 });
    x = tsr_reshape(x, TSR_SHAPE(rows, SIDE / 2 * SIDE / 2 * 32));
  } else x = tsr_reshape(x, TSR_SHAPE(rows, SIDE * SIDE));
  tsr_array *hidden = dropped(s, tsr_relu(layer(how, tsr_field(model, "one"), x)), key);
  return layer(how, tsr_field(model, "two"), hidden);
}

/* Arguments: model, images, digits, a key. */
static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  const settings *how = user;
  tsr_array *scores = scores_of(s, how, in[0], in[1], how->dropout ? in[3] : NULL);
  return tsr_mean(tsr_cross_entropy(scores, in[2]));
}

/* ---- one step -------------------------------------------------------------------------------- */

/* The `user` of step. */
typedef struct training {
  settings how;
  tsr_function *slope; /* the loss and its gradient */
} training;

/* Arguments: model, optimiser state, images and digits of a batch. Returns the next model and
 * optimiser state, and the loss. */
static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const training *t = user;
  tsr_array *done = tsr_field(in[1], "step"), *key = tsr_random_fold_in(tsr_random_key(s, 7), done);
  tsr_array *both = tsr_call(t->slope, in[0], in[2], in[3], key);
  tsr_array *rate = tsr_schedule(done, TSR_SCHEDULE_COSINE, .rate = 1e-2, .warmup = 10,
                                 .steps = t->how.epochs * STEPS_AN_EPOCH);
  tsr_array *next = tsr_adam(in[0], tsr_item(both, 1), in[1], .rate = TSR_OPERAND(rate));
  return tsr_tuple(s, tsr_item(next, 0), tsr_item(next, 1), tsr_item(both, 0));
}

/* ---- data and first values ------------------------------------------------------------------- */

/* Converts a batch of the file: pixels to floats from 0 to 1, labels to i32. */
static tsr_array *prepare(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *image = tsr_cast(tsr_field(in[0], "image"), TSR_F32);
  int64_t rows = tsr_shape_of(image).dims[0];
  return tsr_tree(s, { "image", tsr_div(tsr_reshape(image, TSR_SHAPE(rows, SIDE, SIDE, 1)), 16) },
                  { "label", tsr_cast(tsr_field(in[0], "label"), TSR_I32) });
}

/* The training digits, all but each fifth, shuffled anew in each epoch; `rows` shards a batch. */
static tsr_pipeline *trained_digits(tsr_source *all, tsr_function *f, tsr_sharding rows)
{
  tsr_source *part[4];
  for (int i = 0; i < 4; i++) part[i] = tsr_source_slice(all, TSR_STEPS(i + 1, TSR_END, 5));
  return tsr_pipeline_open(tsr_source_concat(part[0], part[1], part[2], part[3]),
                           .batch_size = BATCH, .shuffle = true, .seed = 3, .epochs = -1,
                           .remainder = TSR_DROP, .on = rows, .map = f);
}

/* The test digits: each fifth one. */
static tsr_pipeline *other_digits(tsr_source *all, tsr_function *f, tsr_sharding rows)
{
  return tsr_pipeline_open(tsr_source_slice(all, TSR_STEPS(0, TSR_END, 5)), .batch_size = BATCH,
                           .remainder = TSR_PAD_AND_MASK, .on = rows, .map = f);
}

static tsr_array *weights(tsr_scope *s, uint64_t key, tsr_shape shape, const tsr_sharding on[2])
{
  tsr_array *w = tsr_initial(s, TSR_HE, TSR_INITIAL_TRUNCATED, .key = key, .shape = shape,
                             .dtype = TSR_F32, .on = on[0]);
  tsr_array *b = tsr_full(s, 0, TSR_F32, TSR_SHAPE(shape.dims[shape.rank - 1]), on[1]);
  return tsr_tree(s, { "w", w }, { "b", b });
}

/* A mesh axis "model" shards columns of the first layer and rows of the second, so no collective
 * runs between the layers. */
static tsr_array *new_model(tsr_scope *s, tsr_mesh *mesh, const settings *how)
{
  bool cut = tsr_mesh_axis_size(mesh, "model") > 1;
  int64_t inputs = how->windows ? SIDE / 2 * SIDE / 2 * 32 : SIDE * SIDE, hidden = 256;
  tsr_sharding whole[2] = { tsr_on(mesh, ""), tsr_on(mesh, "") };
  tsr_sharding columns[2] = { tsr_on(mesh, cut ? "-,model" : ""),
                              tsr_on(mesh, cut ? "model" : "") };
  tsr_sharding rows[2] = { tsr_on(mesh, cut ? "model" : ""), tsr_on(mesh, "") };
  tsr_array *one = weights(s, 1, TSR_SHAPE(inputs, hidden), columns);
  tsr_array *two = weights(s, 2, TSR_SHAPE(hidden, CLASSES), rows);
  if (!how->windows) return tsr_tree(s, { "one", one }, { "two", two });
  return tsr_tree(s, { "near", weights(s, 3, TSR_SHAPE(3, 3, 1, 16), whole) },
                  { "far", weights(s, 4, TSR_SHAPE(3, 3, 16, 32), whole) }, { "one", one },
                  { "two", two });
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* The share of right answers. Padding rows of the last batch are masked and do not count. */
static double accuracy(tsr_scope *s, const settings *how, tsr_array *model, tsr_pipeline *digits)
{
  double share = 0;
  tsr_scope *here = tsr_scope_open(s);
  tsr_array *known = tsr_metric_start(here);
  for (tsr_batch *b; (b = tsr_pipeline_next(digits)); tsr_batch_release(b)) {
    known = tsr_tree_keep(tsr_batch_scope(b), known);
    tsr_scope_close(here), here = tsr_scope_open(s);
    tsr_array *scores =
        scores_of(tsr_batch_scope(b), how, model, tsr_batch_field(b, "image"), NULL);
    tsr_array *right = tsr_eq(tsr_argmax(scores, .dims = TSR_DIMS(1)), tsr_batch_field(b, "label"));
    known = tsr_tree_keep(here, tsr_metric_add(known, right, .where = tsr_batch_mask(b)));
  }
  if (tsr_pipeline_close(digits)) return 0;
  return tsr_read_scalar(tsr_metric_of(known, TSR_METRIC_MEAN), &share) ? 0 : share;
}

/* The results of training. */
typedef struct outcome {
  double losses[MOST_EPOCHS * STEPS_AN_EPOCH], share, seconds;
  int steps, traced;
  tsr_run_stats ran; /* one step */
} outcome;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs one step on a batch and returns the next model and optimiser state, in `s`. Donates `state`,
 * whose memory the results reuse. */
static tsr_array *advance(tsr_scope *s, tsr_function *one, tsr_array *state, tsr_batch *b,
                          outcome *out)
{
  tsr_array *next = tsr_call(one, tsr_item(state, 0), tsr_item(state, 1),
                             tsr_batch_field(b, "image"), tsr_batch_field(b, "label"));
  if (tsr_donate(state)) return NULL;
  next = tsr_tree_keep(s, next);
  out->ran = tsr_last_run(tsr_batch_scope(b));
  if (tsr_read_scalar(tsr_item(next, 2), &out->losses[out->steps++])) return NULL;
  return tsr_tuple(s, tsr_item(next, 0), tsr_item(next, 1));
}

/* Trains for `steps` steps on a mesh with `axes`. Returns false after printing an error. */
static bool train(const char *devices, const char *axes, settings how, int steps, outcome *out)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  tsr_scope *s = tsr_scope_open(rt);
  double begin = now();
  training t = { .how = how };
  t.slope = tsr_value_and_grad(tsr_function_make(s, loss, .user = &t.how, .name = "loss"));
  tsr_function *one = tsr_function_make(s, step, .user = &t, .name = "step");
  tsr_function *ready = tsr_function_make(s, prepare, .name = "prepare");
  tsr_array *model = new_model(s, mesh, &how);
  tsr_array *state = tsr_tuple(s, model, tsr_adam_state(model));
  tsr_source *all = tsr_source_npz(s, EXAMPLES_DATA "/digits.npz");
  tsr_pipeline *digits = trained_digits(all, ready, tsr_on(mesh, "data"));
  tsr_scope *here = tsr_scope_open(s);
  out->steps = 0;
  for (tsr_batch *b; state && out->steps < steps && (b = tsr_pipeline_next(digits));) {
    state = tsr_tree_keep(tsr_batch_scope(b), state); /* moves the state into the batch's scope */
    tsr_scope_close(here), here = tsr_scope_open(s);
    state = advance(here, one, state, b, out);
    tsr_batch_release(b);
    if (state)
      bar_draw(how.windows ? "convolutions" : "layers", out->steps, steps,
               out->losses[out->steps - 1]);
  }
  tsr_status status = tsr_pipeline_close(digits);
  tsr_pipeline *others = other_digits(all, ready, tsr_on(mesh, "data"));
  out->share = state ? accuracy(s, &how, tsr_item(state, 0), others) : 0;
  out->seconds = now() - begin;
  out->traced = tsr_trace_count(one);
  if (!status) status = tsr_scope_status(s);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status == TSR_OK;
}

static bool show(const char *axes, settings how, double least)
{
  static outcome out;
  int steps = how.epochs * STEPS_AN_EPOCH;
  if (!train("cpu:8", axes, how, steps, &out)) return false;
  printf("%s on %s%s: the loss of %d steps, traced %d times\n\n",
         how.windows ? "two convolutions and two layers" : "two layers", axes,
         how.half ? ", products of bf16" : "", steps, out.traced);
  curve_draw(out.losses, out.steps);
  printf("\n%.1f %% of %d other digits are read right; %.1f s, and a step moves %lld bytes in %d "
         "collectives\n\n",
         100 * out.share, HELD_OUT, out.seconds, (long long)out.ran.bytes_counted,
         out.ran.collectives);
  fflush(stdout);
  return out.share >= least;
}

enum { MESHES = 5 };
static const char *const meshes[MESHES][2] = { { "cpu:1", "data=1" },
                                               { "cpu:2", "data=2" },
                                               { "cpu:4", "data=4" },
                                               { "cpu:8", "data=8" },
                                               { "cpu:8", "data=4,model=2" } };

/* Index of the first mesh with a device for each process of the job. */
static int least_mesh(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  int processes = tsr_process_count(rt), at = 0;
  while (1 << at < processes) at++;
  tsr_runtime_close(rt);
  return at;
}

/* Runs the first steps on all meshes, with .reproducible products and without, and prints their
 * cost and how far the losses differ without. */
static bool compare(settings how)
{
  static outcome first[2], other[2];
  enum { STEPS = 22 };
  bool same = true;
  double most = 0;
  int least = least_mesh();
  for (int i = least; i < MESHES; i++) {
    outcome *out = i > least ? other : first;
    for (int k = 0; k < 2; k++) {
      how.reproducible = k == 0;
      if (!train(meshes[i][0], meshes[i][1], how, STEPS, &out[k])) return false;
    }
    double last = out[1].losses[STEPS - 1], was = first[1].losses[STEPS - 1],
           apart = fabs(last - was) / (1 + was);
    same = same && !memcmp(out->losses, first->losses, STEPS * sizeof *first->losses);
    most = apart > most ? apart : most;
    printf("%-15s loss of step %d: %a in %3.0f ms; without %3.0f ms, %.0e from the first\n",
           meshes[i][1], STEPS, out->losses[STEPS - 1], 1e3 * out[0].seconds, 1e3 * out[1].seconds,
           apart);
  }
  printf("with .reproducible products %s; without, they agree within 1e-6%s\n",
         same ? "all losses have the same bits" : "BITS DIFFER", most < 1e-6 ? "" : ": NOT TRUE");
  return same && most < 1e-6;
}

int main(int argc, char **argv)
{
  const char *asked = argc > 1 ? argv[1] : getenv("TESSERA_DEMO_EPOCHS");
  int epochs = asked ? atoi(asked) : 40;
  if (epochs < 1 || epochs > MOST_EPOCHS) return fprintf(stderr, "train_digits [EPOCHS]\n"), 2;
  double least = epochs < 40 ? 0.2 : 0.97;
  settings plain = { .dropout = true, .epochs = epochs };
  settings windows = { .dropout = true, .windows = true, .half = true, .epochs = epochs / 3 + 1 };
  bool good = show("data=8", plain, least) && show("data=4,model=2", windows, least);
  return good && compare(plain) ? 0 : 1;
}
