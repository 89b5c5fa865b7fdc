/* The job of transformer.8dev: the step of examples/transformer.c, its model after a few steps. The
 * peer (peers/decoder.py) begins with the same first values, text and places of windows, which it
 * reads from a file, and makes as many steps: so their losses show gradients and optimiser, too. */
#include "training.h"

#include "../examples/demo/decoder.h"

enum { FIRST_STEPS = 8, TEXT = 400000, ALL_STEPS = 400, MOST_LEAVES = 128 };

/* Signs by a formula in which one says something of the next. */
static tsr_array *text_of(tsr_scope *s, tsr_sharding on)
{
  static int32_t sign[TEXT];
  uint32_t mixed = 1;
  for (int i = 1; i < TEXT; i++) {
    mixed = mixed * 1664525u + 1013904223u;
    sign[i] = (sign[i - 1] * 5 + (int32_t)(mixed >> 30)) % SIGNS;
  }
  return tsr_put(s, sign, TSR_I32, TSR_SHAPE(TEXT), on);
}

/* The model's arrays in order, as "0", "1", ..., the text, and windows' starts by step. */
static void save(const training_job *j, const char *path)
{
  tsr_array *leaves[MOST_LEAVES], *starts[FIRST_STEPS + 1];
  char names[MOST_LEAVES][16];
  tsr_npz_item items[MOST_LEAVES + 2];
  int count = tsr_tree_leaves(j->in[0], leaves, MOST_LEAVES);
  for (int i = 0; i < count; i++) {
    snprintf(names[i], sizeof names[i], "%d", i);
    items[i] = (tsr_npz_item){ names[i], leaves[i] };
  }
  for (int i = 0; i <= FIRST_STEPS; i++) starts[i] = starts_of(j->s, tsr_num(j->s, i), j->in[2]);
  items[count] = (tsr_npz_item){ "text", j->in[2] };
  items[count + 1] = (tsr_npz_item){ "starts", tsr_stack(starts, FIRST_STEPS + 1, 0) };
  /* A failure is the scope's. */
  (void)!tsr_save_npz_with(j->s, path, items, count + 2, TSR_HERE);
}

training_job bench_decoder_job(const char *path)
{
  static training t;
  training_job j = { .rt = tsr_runtime_open("cpu:8", .threads = 2) };
  tsr_scope *s = j.s = tsr_scope_open(j.rt);
  tsr_mesh *mesh = tsr_mesh_make(j.rt, "data=4,model=2");
  t = (training){ .mesh = mesh, .steps = ALL_STEPS };
  t.slope = tsr_value_and_grad(tsr_function_make(s, loss, .user = mesh, .name = "loss"));
  j.step = tsr_function_make(s, step, .user = &t, .name = "step");
  j.in[0] = new_model(s, mesh);
  j.in[1] = tsr_adam_state(j.in[0]);
  j.in[2] = text_of(s, tsr_on(mesh, ""));
  save(&j, path);
  for (int i = 0; i < FIRST_STEPS; i++) {
    tsr_array *next = tsr_call(j.step, j.in[0], j.in[1], j.in[2]);
    j.in[0] = tsr_tree_keep(s, tsr_item(next, 0));
    j.in[1] = tsr_tree_keep(s, tsr_item(next, 1));
  }
  return j;
}
