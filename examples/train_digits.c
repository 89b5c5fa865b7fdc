/* Learns handwritten digits: a network of two layers, data parallel on eight devices.
 *
 *   train_digits [STEPS]
 *
 * The model lies whole on every device and each device sees its rows of a batch; what the devices
 * find is added up by an all-reduce that nobody wrote. One step (loss, gradient, new model) is one
 * function, traced once. */
#include <stdio.h>
#include <stdlib.h>

#include <tessera.h>

enum { IMAGES = 1797, TRAINED = 1437, PIXELS = 64, HIDDEN = 128, CLASSES = 10, BATCH = 256 };

static tsr_array *layer(tsr_array *p, tsr_array *x)
{
  return tsr_add(tsr_matmul(x, tsr_field(p, "w")), tsr_field(p, "b"));
}

static tsr_array *scores_of(tsr_array *model, tsr_array *x)
{
  return layer(tsr_field(model, "two"), tsr_relu(layer(tsr_field(model, "one"), x)));
}

/* Of model, images and digits: the mean of minus the logarithm of what the true digit is given. */
static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *log = tsr_log_softmax(scores_of(in[0], in[1]), 1);
  tsr_array *truth = tsr_one_hot(in[2], CLASSES, TSR_F32);
  return tsr_neg(tsr_mean(tsr_sum(tsr_mul(log, truth), .dims = TSR_DIMS(1))));
}

static tsr_array *downhill(tsr_scope *s, tsr_array *const *leaves, void *user)
{
  (void)s, (void)user;
  return tsr_sub(leaves[0], tsr_mul(leaves[1], 0.3));
}

/* Of model, all images, all digits and which of them are the batch: the next model, and the loss.
 * `user` is the function of the loss and its gradient. */
static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_take(in[1], in[3], 0), *digits = tsr_take(in[2], in[3], 0);
  tsr_array *both = tsr_call(user, in[0], x, digits);
  tsr_array *model = tsr_tree_map(downhill, NULL, (tsr_array *[]){ in[0], tsr_item(both, 1) }, 2);
  return tsr_tuple(s, model, tsr_item(both, 0));
}

static tsr_array *new_layer(tsr_scope *s, uint64_t key, int64_t in, int64_t out, tsr_sharding on)
{
  tsr_array *w = tsr_uniform(s, .key = key, .shape = TSR_SHAPE(in, out), .dtype = TSR_F32,
                             .low = -0.15, .high = 0.15, .on = on);
  return tsr_tree(s, { "w", w }, { "b", tsr_full(s, 0, TSR_F32, TSR_SHAPE(out), on) });
}

/* The digits on every device, pixels from 0 to 1. */
typedef struct digits {
  tsr_array *image, *label;
} digits;

static digits read_digits(tsr_scope *s, tsr_sharding on)
{
  tsr_npz *file = tsr_load_npz(s, EXAMPLES_DATA "/digits.npz");
  tsr_array *image = tsr_cast(tsr_npz_array(file, "image", on), TSR_F32);
  image = tsr_div(tsr_reshape(image, TSR_SHAPE(IMAGES, PIXELS)), 16);
  return (digits){ image, tsr_npz_array(file, "label", on) };
}

/* The share of right answers among each fifth image, which was not trained with. */
static double accuracy(tsr_array *model, digits all)
{
  double share = 0;
  tsr_array *x = tsr_slice(all.image, TSR_STEPS(0, IMAGES, 5));
  tsr_array *truth = tsr_slice(all.label, TSR_STEPS(0, IMAGES, 5));
  tsr_array *guess = tsr_argmax(scores_of(model, x), .dims = TSR_DIMS(1));
  return tsr_read_scalar(tsr_mean(tsr_eq(guess, truth)), &share) ? 0 : share;
}

/* Which images are a batch: all but each fifth may be. Devices draw their part of it. */
static tsr_array *batch_of(tsr_scope *s, int step, tsr_mesh *mesh)
{
  tsr_array *drawn = tsr_randint(s, 0, TRAINED, .key = 3, .stream = (uint64_t)step,
                                 .shape = TSR_SHAPE(BATCH), .on = tsr_on(mesh, "data"));
  return tsr_add(tsr_add(drawn, tsr_floordiv(drawn, 4)), 1);
}

/* What a step leaves, in a scope that outlives it. */
static tsr_array *keep(tsr_scope *outer, tsr_array *tree)
{
  tsr_array *leaves[8];
  int count = tsr_tree_leaves(tree, leaves, 8);
  if (tsr_eval(leaves, count)) return tree;
  for (int i = 0; i < count; i++) leaves[i] = tsr_keep(outer, leaves[i]);
  return tsr_tree_like(tree, leaves, count);
}

/* 0 unless it learns. */
static double train(tsr_scope *s, tsr_mesh *mesh, int steps)
{
  double first = 0, now = 0;
  tsr_sharding whole = tsr_on(mesh, "");
  digits all = read_digits(s, whole);
  tsr_function *slope = tsr_value_and_grad(tsr_function_make(s, loss, .name = "loss"));
  tsr_function *one = tsr_function_make(s, step, .user = slope, .name = "step");
  tsr_array *model = tsr_tree(s, { "one", new_layer(s, 1, PIXELS, HIDDEN, whole) },
                              { "two", new_layer(s, 2, HIDDEN, CLASSES, whole) });
  for (int i = 0; i < steps && !tsr_scope_status(s); i++) {
    tsr_array *batch = batch_of(s, i, mesh);
    tsr_array *out = keep(s, tsr_call(one, model, all.image, all.label, batch));
    model = tsr_item(out, 0);
    if (tsr_read_scalar(tsr_item(out, 1), &now)) break;
    if (!i) first = now;
    if (i % 50 == 0 || i == steps - 1) printf("step %4d: loss %.4f\n", i, now);
  }
  printf("%.1f %% of %d other images are read right; traced %d times\n", 100 * accuracy(model, all),
         IMAGES - TRAINED, tsr_trace_count(one));
  if (tsr_scope_status(s)) fprintf(stderr, "%s\n", tsr_message(s));
  return tsr_scope_status(s) ? 0 : first - now;
}

int main(int argc, char **argv)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_scope *s = tsr_scope_open(rt);
  double learnt = train(s, mesh, argc > 1 ? atoi(argv[1]) : 200);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return learnt <= 0;
}
