/* Trees where arrays are expected: they stand for the arrays in them. */
#include <string.h>

#include "harness.h"
#include "tessera.h"

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *a, *b, *tree;
} world;

/* (double: 2 a, (sum: the sum of a, b)) of a = 1 2 3. */
static world open_world(void)
{
  static const float data[] = { 1, 2, 3 };
  world w = { .rt = tsr_runtime_open("cpu:2") };
  w.s = tsr_scope_open(w.rt);
  tsr_sharding on = tsr_on(tsr_mesh_make(w.rt, "x=2"), "x");
  w.a = tsr_put(w.s, data, TSR_F32, TSR_SHAPE(3), on);
  w.b = tsr_add(w.a, 1);
  w.tree =
      tsr_tree(w.s, { "double", tsr_mul(w.a, 2) }, { "rest", tsr_tuple(w.s, tsr_sum(w.a), w.b) });
  return w;
}

static void close_world(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

static double sum_of(world *w, const char *path)
{
  double out = -1;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_field(w->tree, path)), &out), TSR_OK, NULL);
  return out;
}

TEST(a_tree_is_one_program)
{
  world w = open_world();
  CHECK_STATUS(tsr_eval(&w.tree, 1), TSR_OK, NULL);
  tsr_run_stats stats = tsr_last_run(w.s);
  CHECK_I64(stats.programs, 1);
  CHECK_I64(stats.kernels, 1);
  CHECK(sum_of(&w, "double") == 12 && sum_of(&w, "rest.0") == 6 && sum_of(&w, "rest.1") == 9);
  close_world(&w);
}

TEST(trees_are_started_and_waited_for)
{
  world w = open_world();
  CHECK_STATUS(tsr_start(&w.tree, 1), TSR_OK, NULL);
  CHECK_STATUS(tsr_wait(w.tree), TSR_OK, NULL);
  CHECK(sum_of(&w, "rest.1") == 9);
  close_world(&w);
}

TEST(an_explained_tree_is_its_arrays_explained)
{
  world w = open_world();
  tsr_array *list[3];
  CHECK_I64(tsr_tree_leaves(w.tree, list, 3), 3);
  const char *of_list = tsr_explain(list, 3);
  CHECK_STR(tsr_explain(&w.tree, 1), of_list);
  CHECK(strstr(of_list, "kernel 1 over"));
  close_world(&w);
}

TEST(what_is_deleted_or_given_up_is_all_of_a_tree)
{
  world w = open_world();
  float out[3];
  CHECK_STATUS(tsr_eval(&w.tree, 1), TSR_OK, NULL);
  CHECK_STATUS(tsr_donate(w.tree), TSR_OK, NULL);
  CHECK_STATUS(tsr_read(w.b, out, sizeof out), TSR_ESTATE, NULL);
  CHECK(strstr(tsr_message(w.s), "donated by tsr_donate"));
  tsr_scope_clear(w.s);
  CHECK_STATUS(tsr_donate(w.tree), TSR_ESTATE, NULL);
  tsr_delete(w.tree);
  close_world(&w);
  w = open_world();
  CHECK_STATUS(tsr_eval(&w.tree, 1), TSR_OK, NULL);
  tsr_delete(w.tree);
  CHECK_STATUS(tsr_read(w.b, out, sizeof out), TSR_ESTATE, NULL);
  CHECK(strstr(tsr_message(w.s), "deleted by tsr_delete"));
  CHECK_STATUS(tsr_read(w.a, out, sizeof out), TSR_OK, NULL);
  close_world(&w);
}

TEST(what_stands_beside_a_tree_is_looked_at)
{
  world w = open_world();
  tsr_array *list[] = { w.tree, NULL };
  CHECK_STATUS(tsr_eval_at(list, 2, TSR_HERE), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(w.s), "array 1 is NULL");
  tsr_scope_clear(w.s);
  list[1] = tsr_add(w.a, tsr_tuple_at(w.s, NULL, 0, TSR_HERE));
  CHECK_STATUS(tsr_eval_at(list, 2, TSR_HERE), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(w.s), "tsr_add: operand 2 is a tree of 0");
  CHECK_STATUS(tsr_wait(tsr_tuple_at(w.s, NULL, 0, TSR_HERE)), TSR_OK, NULL);
  close_world(&w);
}

/* ---- paths in errors ------------------------------------------------------------------------- */

static tsr_array *same(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return in[0];
}

static tsr_array *first_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_field(in[0], "layer.w"));
}

static tsr_array *model_of(tsr_scope *s, tsr_array *w, tsr_array *b)
{
  return tsr_tree(s, { "layer", tsr_tree(s, { "w", w }, { "b", b }) });
}

static tsr_array *narrow_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *b = tsr_field(in[0], "layer.b");
  (void)user;
  return tsr_tuple(s, model_of(s, tsr_field(in[0], "layer.w"), tsr_cast(b, TSR_F32)), b);
}

static tsr_array *pairs(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *b = tsr_field(in[0], "layer.b");
  (void)user;
  return model_of(s, tsr_field(in[0], "layer.w"), tsr_cast(b, TSR_F32));
}

static void check_said(world *w, tsr_array *a, const char *text)
{
  CHECK(tsr_is_inert(a));
  CHECK_STR_HAS(tsr_message(w->s), text);
  tsr_scope_clear(w->s);
}

TEST(errors_name_the_path_of_an_array)
{
  world w = open_world();
  tsr_mesh *mesh = tsr_mesh_make(w.rt, "x=2");
  tsr_array *f4 = tsr_arange(w.s, 0, 4, .dtype = TSR_F64), *f3 = tsr_arange(w.s, .stop = 3);
  tsr_array *good = model_of(w.s, f4, f4), *odd = model_of(w.s, f4, f3);
  tsr_array *whole = model_of(w.s, f4, tsr_cast(f4, TSR_I32)), *kept = tsr_sgd_state(good);
  tsr_function *f = tsr_function_make(w.s, same), *g = tsr_function_make(w.s, first_sum);
  check_said(&w, tsr_call(tsr_grad(g), whole), "tsr_grad: array layer.b of argument 0 of ");
  check_said(&w, tsr_call(tsr_vjp(f), good, odd), "array 0.layer.b of the cotangent is f64[3]");
  check_said(&w, tsr_call(tsr_jvp(f), good, f4), "the tangent has 1 arrays, expected 2");
  check_said(&w, tsr_call(tsr_vmap(f), odd), "3 elements along dim 0 of argument 0.layer.b, which");
  check_said(&w, tsr_shard_map(mesh, same, NULL, .in = { good, odd }, .in_specs = { "x", "x" }),
             "tsr_shard_map: argument 1.layer.b is f64[3], and its dim 0 is sharded into 2");
  check_said(&w, tsr_scan(narrow_step, NULL, good, .length = 2), "the carry layer.b begins as");
  check_said(&w, tsr_scan(narrow_step, NULL, good, .xs = odd), "array layer.b of .xs is f64[3]");
  check_said(&w, tsr_associative_scan(pairs, NULL, good),
             "array layer.b of the result of combine is f");
  check_said(&w, tsr_compiled_call(tsr_compile(f, good), odd), "array 0.layer.b of the arguments");
  check_said(&w, tsr_sgd(good, odd, kept, .rate = TSR_OPERAND(1)), "array layer.b of the gradient");
  check_said(&w, tsr_clip_norm(whole, 1), "tsr_clip_norm: array layer.b of the tree is i32[4]");
  close_world(&w);
}
