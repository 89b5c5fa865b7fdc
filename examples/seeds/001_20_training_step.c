/* Arrays, block 20: a data-parallel step of training, its logic filled in: a linear model, the mean
 * of squared errors, one step down the gradient. Each device sees its rows; what all of them give
 * the model, which is the same everywhere, is summed by the gradient. */
#include "check.h"
#include "inputs.h"

static tsr_array *cost(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = tsr_slice(in[1], TSR_ALL, { 0, 4, 1 });
  tsr_array *y = tsr_squeeze(tsr_slice(in[1], TSR_ALL, { 4, 5, 1 }), TSR_DIMS(1));
  return tsr_pmean(tsr_mean(tsr_square(tsr_sub(tsr_matmul(x, in[0]), y))), "devices");
}

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *both = tsr_call(tsr_value_and_grad(tsr_function_make(s, cost)), in[0], in[1]);
  tsr_array *model = tsr_sub(in[0], tsr_mul(tsr_item(both, 1), 0.125));
  return tsr_tuple(s, model, tsr_item(both, 0));
}

/* One all-reduce of both: the gradient's sum and the cost travel together. */
static void check_collectives(check *c, const tsr_scope *s)
{
  int ran = tsr_last_run(s).collectives;
  c->outputs++;
  if (ran > 1) check_fail(c, "%d collectives ran, expected one", ran);
}

int main(void)
{
  check c = check_open("001_20");
  static const float start[] = { 0.5f, -0.25f, 1, 0.75f };
  float rows[16 * 5];
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "devices=8");

  for (int i = 0; i < 16 * 5; i++) rows[i] = (float)(input_r(i) % 17 - 8) / 8;
  tsr_array *model = tsr_put(s, start, TSR_F32, TSR_SHAPE(4), tsr_on(mesh, ""));
  tsr_array *batch = tsr_put(s, rows, TSR_F32, TSR_SHAPE(16, 5), tsr_on(mesh, "devices"));
  tsr_array *out = tsr_shard_map(mesh, step, NULL, .in = { model, batch },
                                 .in_specs = { "", "devices" }, .out_specs = { "", "" });
  tsr_array *both[] = { tsr_item(out, 0), tsr_item(out, 1) };
  if (tsr_eval(both, 2)) check_fail(&c, "%s", tsr_message(s));
  check_collectives(&c, s);
  check_array(&c, "updated_model", both[0]);
  check_array(&c, "cost", both[1]);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
