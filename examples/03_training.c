/* Two layers that learn handwritten digits on eight devices, data parallel. */
#include <stdio.h>

#include <tessera.h>

static tsr_array *layer(tsr_array *p, tsr_array *x)
{
  return tsr_add(tsr_matmul(x, tsr_field(p, "w")), tsr_field(p, "b"));
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *hidden = tsr_relu(layer(tsr_field(in[0], "one"), in[1]));
  return tsr_mean(tsr_cross_entropy(layer(tsr_field(in[0], "two"), hidden), in[2]));
}

static tsr_array *new_layer(tsr_scope *s, uint64_t key, int64_t in, int64_t out, tsr_sharding on)
{
  tsr_array *w = tsr_initial(s, TSR_HE, TSR_INITIAL_NORMAL, .key = key, .shape = TSR_SHAPE(in, out),
                             .dtype = TSR_F32, .on = on);
  return tsr_tree(s, { "w", w }, { "b", tsr_full(s, 0, TSR_F32, TSR_SHAPE(out), on) });
}

int main(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_sharding rows = tsr_on(mesh, "data"), whole = tsr_on(mesh, "");
  tsr_scope *s = tsr_scope_open(rt);

  tsr_npz *file = tsr_load_npz(s, "examples/data/digits.npz"); /* 1,797 digits of 8 x 8 */
  tsr_array *x = tsr_reshape(tsr_npz_array(file, "image", rows), TSR_SHAPE(1797, 64));
  x = tsr_keep(s, tsr_div(tsr_cast(x, TSR_F32), 16));
  tsr_array *digits = tsr_keep(s, tsr_cast(tsr_npz_array(file, "label", rows), TSR_I32));

  tsr_array *model = tsr_tree(s, { "one", new_layer(s, 1, 64, 128, whole) },
                              { "two", new_layer(s, 2, 128, 10, whole) });
  tsr_array *kept = tsr_adam_state(model);
  tsr_function *slope = tsr_value_and_grad(tsr_function_make(s, loss));
  tsr_scope *step = tsr_scope_open(s); /* holds the arrays of one step */
  for (int i = 0; i <= 40; i++) {
    tsr_array *both = tsr_call(slope, model, x, digits);
    tsr_array *next = tsr_adam(model, tsr_item(both, 1), kept, .rate = TSR_OPERAND(0.01));
    tsr_array *all = tsr_tuple(step, next, tsr_item(both, 0));
    tsr_scope *after = tsr_scope_open(s);
    all = tsr_tree_keep(after, all); /* computes the whole tree at once */
    tsr_scope_close(step), step = after;
    model = tsr_field(all, "0.0"), kept = tsr_field(all, "0.1");
    if (i % 10 == 0)
      printf("step %2d: loss %s\n", i, tsr_text_of(tsr_round(tsr_item(all, 1), .decimals = 3)));
  }
  tsr_status status = tsr_scope_status(s);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
