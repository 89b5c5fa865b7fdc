/* The program of mlp_program.h. Rows of pictures lie over the axis "data", the model on each
 * device. */
#include "support/mlp_program.h"

void mlp_draw(mlp_pictures *out)
{
  uint32_t state = 12345;
  for (int i = 0; i < MLP_IMAGES; i++) {
    int digit = i * 7 % MLP_CLASSES;
    out->digits[i] = digit;
    for (int p = 0; p < MLP_PIXELS; p++) {
      state = state * 1664525 + 1013904223;
      int pattern = (p * (digit + 3) + digit * digit) % 17;
      out->pixels[i * MLP_PIXELS + p] =
          (float)pattern / 17 + (float)(state >> 8) / (1 << 24) - 0.5F;
    }
  }
}

static tsr_array *layer(tsr_array *of, tsr_array *x)
{
  return tsr_add(tsr_matmul(x, tsr_field(of, "w")), tsr_field(of, "b"));
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *hidden = tsr_relu(layer(tsr_field(in[0], "one"), in[1]));
  return tsr_mean(tsr_cross_entropy(layer(tsr_field(in[0], "two"), hidden), in[2]));
}

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *both = tsr_call(user, in[0], in[2], in[3]);
  tsr_array *next = tsr_adam(in[0], tsr_item(both, 1), in[1], .rate = TSR_OPERAND(1e-2));
  return tsr_tuple(s, tsr_item(next, 0), tsr_item(next, 1), tsr_item(both, 0));
}

static tsr_array *new_layer(tsr_scope *s, uint64_t key, tsr_shape shape, tsr_sharding on)
{
  tsr_array *w = tsr_initial(s, TSR_HE, TSR_INITIAL_TRUNCATED, .key = key, .shape = shape,
                             .dtype = TSR_F32, .on = on);
  return tsr_tree(s, { "w", w }, { "b", tsr_full(s, 0, TSR_F32, TSR_SHAPE(shape.dims[1]), on) });
}

static tsr_status read_model(tsr_array *model, float *out)
{
  static const char *const parts[] = { "one.w", "one.b", "two.w", "two.b" };
  static const size_t counts[] = { MLP_PIXELS * MLP_HIDDEN, MLP_HIDDEN, MLP_HIDDEN * MLP_CLASSES,
                                   MLP_CLASSES };
  tsr_status status = TSR_OK;
  for (int i = 0; i < 4 && !status; out += counts[i++])
    status = tsr_read(tsr_field(model, parts[i]), out, counts[i] * sizeof *out);
  return status;
}

tsr_status mlp_train(tsr_runtime *rt, const tsr_mesh *mesh, mlp_trained *out)
{
  static mlp_pictures pictures;
  mlp_draw(&pictures);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(mesh, "data"), whole = tsr_on(mesh, "");
  tsr_array *x = tsr_put(s, pictures.pixels, TSR_F32, TSR_SHAPE(MLP_IMAGES, MLP_PIXELS), rows);
  tsr_array *digits = tsr_put(s, pictures.digits, TSR_I32, TSR_SHAPE(MLP_IMAGES), rows);
  tsr_array *model =
      tsr_tree(s, { "one", new_layer(s, 1, TSR_SHAPE(MLP_PIXELS, MLP_HIDDEN), whole) },
               { "two", new_layer(s, 2, TSR_SHAPE(MLP_HIDDEN, MLP_CLASSES), whole) });
  tsr_array *kept = tsr_adam_state(model);
  tsr_function *slope = tsr_value_and_grad(tsr_function_make(s, loss));
  tsr_function *f = tsr_function_make(s, step, .user = slope);
  tsr_status status = TSR_OK;
  for (int i = 0; i < MLP_STEPS && !status; i++) {
    double value = 0;
    tsr_array *next = tsr_call(f, model, kept, x, digits);
    model = tsr_item(next, 0), kept = tsr_item(next, 1);
    status = tsr_read_scalar(tsr_item(next, 2), &value);
    out->loss[i] = (float)value;
  }
  if (!status) status = read_model(model, out->weights);
  tsr_scope_close(s);
  return status;
}
