/* Functions saved as text and loaded: the same text again, the same bits, and what is refused. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"
#include "topology/topology.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = tsr_runtime_open("cpu:4", .threads = 2) };
  f.s = tsr_scope_open(f.rt);
  f.mesh = tsr_mesh_make(f.rt, "x=2,y=2");
  return f;
}

/* The text of f for one argument; of what it reads as the same text, and the same bits of call. */
static const char *check_saved(const fixture *x, tsr_function *f, tsr_array *in)
{
  const char *text = "", *again = "";
  CHECK_STATUS(tsr_function_text_into(f, &text, in), TSR_OK, x->s);
  tsr_function *g = tsr_function_from_text(x->s, text);
  CHECK_STATUS(tsr_scope_status(x->s), TSR_OK, x->s);
  CHECK_STATUS(tsr_function_text_into(g, &again, in), TSR_OK, x->s);
  if (strcmp(text, again)) FAIL("saved:\n%s\nagain:\n%s", text, again);
  tsr_array *roots[2] = { tsr_call(f, in), tsr_call(g, in) }, *leaves[2][8];
  int count = tsr_tree_leaves(roots[0], leaves[0], 8);
  CHECK_I64(tsr_tree_leaves(roots[1], leaves[1], 8), count);
  for (int i = 0; i < count; i++) {
    static char bytes[2][4096];
    tsr_shape shape = tsr_shape_of(leaves[0][i]);
    size_t size = tsr_dtype_size(tsr_dtype_of(leaves[0][i]));
    for (int d = 0; d < shape.rank; d++) size *= (size_t)shape.dims[d];
    for (int k = 0; k < 2; k++) CHECK_STATUS(tsr_read(leaves[k][i], bytes[k], size), TSR_OK, x->s);
    CHECK(!memcmp(bytes[0], bytes[1], size));
  }
  return text;
}

static void check_message(tsr_scope *s, tsr_status status, const char *text)
{
  CHECK_I64(tsr_scope_status(s), status);
  if (!strstr(tsr_message(s), text)) FAIL("no \"%s\" in %s", text, tsr_message(s));
  tsr_scope_clear(s);
}

static tsr_array *matrix(const fixture *x, tsr_dtype dtype)
{
  tsr_array *a = tsr_iota(x->s, TSR_F64, TSR_SHAPE(8, 4), 0, tsr_on(x->mesh, "x"));
  return tsr_cast(
      tsr_div(tsr_add(a, tsr_iota(x->s, TSR_F64, TSR_SHAPE(4), 0, tsr_on(x->mesh, "y"))), 7),
      dtype);
}

static tsr_array *layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *hidden = tsr_tanh(tsr_matmul(tsr_field(in[0], "x"), tsr_field(in[0], "more.w")));
  return tsr_tuple(s, tsr_mean(tsr_square(tsr_add(hidden, (tsr_array *)user))),
                   tsr_constrain(hidden, tsr_on(tsr_sharding_of((tsr_array *)user).mesh, "y,x")));
}

TEST(trees_constraints_and_arrays_from_outside)
{
  fixture x = open_fixture();
  tsr_array *outer = tsr_reshard(tsr_exp(matrix(&x, TSR_F64)), tsr_on(x.mesh, "x"));
  CHECK_STATUS(tsr_eval(&outer, 1), TSR_OK, x.s);
  tsr_array *w = tsr_sum(tsr_cos(matrix(&x, TSR_F64)), .dims = TSR_DIMS(0), .keep_dims = true);
  tsr_array *in = tsr_reshard(matrix(&x, TSR_F64), tsr_on(x.mesh, "x"));
  CHECK_STATUS(tsr_eval(&in, 1), TSR_OK, x.s);
  tsr_array *model =
      tsr_tree(x.s, { "x", in }, { "more", tsr_tree(x.s, { "w", tsr_mul(tsr_transpose(w), w) }) });
  tsr_function *f = tsr_function_make(x.s, layer, .user = outer, .name = "a \"layer\"");
  const char *text = check_saved(&x, f, model);
  static const char *const has[] = { "tessera function 1\nname \"a \\x22layer\\x22\"\n",
                                     "arguments \"(x: *, more: (w: *));\"\nresult \"(*, *)\"",
                                     "mesh 0 \"x=2,y=2\"",
                                     "argument 0 f64[8,4]@0\"(x",
                                     "data 2 f64[8,4]@0\"(x,-)\" 0x1p+0 0x1.",
                                     "= constrain(",
                                     "saved_test.c:" };
  for (size_t i = 0; i < sizeof has / sizeof *has; i++)
    if (!strstr(text, has[i])) FAIL("no %s in\n%s", has[i], text);
  tsr_runtime_close(x.rt);
}

/* The text has the speeds of the mesh, and gives that mesh back. */
TEST(speeds_of_axes_are_saved)
{
  fixture x = open_fixture();
  x.mesh = tsr_mesh_make(x.rt, "x=2@25e9,y=2@900e9");
  tsr_array *outer = tsr_reshard(tsr_exp(matrix(&x, TSR_F64)), tsr_on(x.mesh, "x"));
  CHECK_STATUS(tsr_eval(&outer, 1), TSR_OK, x.s);
  tsr_array *w = tsr_sum(tsr_cos(matrix(&x, TSR_F64)), .dims = TSR_DIMS(0), .keep_dims = true);
  tsr_array *model = tsr_tree(x.s, { "x", outer },
                              { "more", tsr_tree(x.s, { "w", tsr_mul(tsr_transpose(w), w) }) });
  const char *text = check_saved(&x, tsr_function_make(x.s, layer, .user = outer), model);
  if (!strstr(text, "mesh 0 \"x=2@25e9,y=2@900e9\"\n")) FAIL("no speeds in\n%s", text);
  tsr_array *result = tsr_call(tsr_function_from_text(x.s, text), model);
  CHECK_STATUS(tsr_eval(&result, 1), TSR_OK, x.s);
  CHECK(tsr_sharding_of(tsr_item(result, 1)).mesh == x.mesh);
  tsr_runtime_close(x.rt);
}

static tsr_array *all_values(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *sum = tsr_cast(tsr_sum(in[0]), tsr_dtype_of((tsr_array *)user));
  bool truths = tsr_dtype_of(user) == TSR_BOOL;
  return truths ? tsr_logical_xor((tsr_array *)user, sum) : tsr_add((tsr_array *)user, sum);
}

static tsr_array *consts(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *a = tsr_mul(tsr_add(in[0], 0.1), -5e-324);
  return tsr_where(tsr_gt(in[0], 3), tsr_max(a), tsr_sub(a, INFINITY));
}

TEST(every_dtype_and_every_kind_of_number)
{
  fixture x = open_fixture();
  static const double data[] = { 0, -0.0, 1, -1, 0.5, 3, INFINITY, -INFINITY, NAN, 100 };
  TSR__FOR_DTYPES(d)
  {
    tsr_array *wide = tsr_put(x.s, data, TSR_F64, TSR_SHAPE(10), (tsr_sharding){ 0 });
    bool floats = d == TSR_F64 || d == TSR_F32 || d == TSR_F16 || d == TSR_BF16;
    if (!floats) wide = tsr_abs(tsr_where(tsr_isfinite(wide), wide, 7));
    tsr_array *outer = d == TSR_BOOL ? tsr_gt(wide, 0.7) : tsr_cast(wide, (tsr_dtype)d);
    if (d == TSR_BOOL) outer = tsr_logical_not(outer);
    CHECK_STATUS(tsr_eval(&outer, 1), TSR_OK, x.s);
    const char *text =
        check_saved(&x, tsr_function_make(x.s, all_values, .user = outer), matrix(&x, TSR_F32));
    char has[64];
    snprintf(has, sizeof has, "\ndata 1 %s[10] ", tsr_dtype_name((tsr_dtype)d));
    if (!strstr(text, has)) FAIL("no %s in\n%s", has, text);
    if (d == TSR_BOOL) CHECK(strstr(text, "[10] 1 1 0 0 1 0 0 0 0 0 "));
  }
  static const double ends[] = { DBL_MIN,       5e-324,  DBL_MAX,
                                 -DBL_TRUE_MIN, 1.0 / 3, 0x1.fffffffffffffp-1023 };
  tsr_array *outer = tsr_put(x.s, ends, TSR_F64, TSR_SHAPE(6), (tsr_sharding){ 0 });
  check_saved(&x, tsr_function_make(x.s, all_values, .user = outer), matrix(&x, TSR_F32));
  check_saved(&x, tsr_function_make(x.s, consts), matrix(&x, TSR_F64));
  check_saved(&x, tsr_function_make(x.s, consts), matrix(&x, TSR_F32));
  tsr_runtime_close(x.rt);
}

static tsr_array *inner(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(tsr_mul(in[0], 0.25));
}

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_tuple(s, tsr_call(user, in[0]), tsr_sum(in[0]));
}

static tsr_array *goes_on(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_max(in[0]), 9);
}

static tsr_array *grow(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_mul(in[0], 2), 1);
}

static tsr_array *shrink(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_div(in[0], 3);
}

static tsr_array *grow_numbered(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[1], tsr_cast(in[0], tsr_dtype_of(in[1])));
}

static tsr_array *loops(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *out = tsr_scan(step, user, tsr_call(user, in[0]), .length = 4);
  tsr_array *counted = tsr_fori(2, 5, grow_numbered, NULL, tsr_item(out, 0));
  tsr_array *x = tsr_while(goes_on, grow, NULL, counted);
  return tsr_cond(tsr_gt(tsr_sum(x), 0), shrink, grow, NULL, tsr_call(user, x));
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *noise = tsr_uniform(s, .key = 7, .shape = TSR_SHAPE(8, 4));
  return tsr_mean(tsr_mul(tsr_call(user, in[0]), tsr_cast(noise, tsr_dtype_of(in[0]))));
}

TEST(calls_loops_choices_draws_and_gradients)
{
  fixture x = open_fixture();
  tsr_function *f = tsr_function_make(x.s, inner, .name = "inner");
  const char *text = check_saved(&x, tsr_function_make(x.s, loops, .user = f), matrix(&x, TSR_F64));
  CHECK(strstr(text, "= scan(") && strstr(text, "= while(") && strstr(text, "= switch("));
  tsr_function *l = tsr_function_make(x.s, loss, .user = f);
  check_saved(&x, l, matrix(&x, TSR_F32));
  check_saved(&x, tsr_grad(l), matrix(&x, TSR_F64));
  check_saved(&x, tsr_value_and_grad(l), matrix(&x, TSR_F32));
  check_saved(&x, tsr_checkpoint(f), matrix(&x, TSR_F32));
  /* What is loaded is differentiated as what was saved. */
  CHECK_STATUS(tsr_function_text_into(l, &text, matrix(&x, TSR_F64)), TSR_OK, x.s);
  tsr_function *g = tsr_function_from_text(x.s, text);
  double a[32], b[32];
  CHECK_STATUS(tsr_read(tsr_call(tsr_grad(l), matrix(&x, TSR_F64)), a, sizeof a), TSR_OK, x.s);
  CHECK_STATUS(tsr_read(tsr_call(tsr_grad(g), matrix(&x, TSR_F64)), b, sizeof b), TSR_OK, x.s);
  CHECK(!memcmp(a, b, sizeof a));
  tsr_runtime_close(x.rt);
}

TEST(files_on_another_runtime)
{
  fixture x = open_fixture();
  char path[2][512];
  double a[32], b[32];
  tsr_function *f = tsr_function_make(x.s, inner);
  CHECK_STATUS(tsr_read(tsr_call(f, matrix(&x, TSR_F64)), a, sizeof a), TSR_OK, x.s);
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], "%s", test_tmp(i ? "f.tsr.gz" : "f.tsr"));
    CHECK_STATUS(tsr_function_save(f, path[i], matrix(&x, TSR_F64)), TSR_OK, x.s);
  }
  tsr_runtime_close(x.rt);
  x = open_fixture();
  for (int i = 0; i < 2; i++) {
    tsr_function *g = tsr_function_load(x.s, path[i]);
    CHECK_STATUS(tsr_read(tsr_call(g, matrix(&x, TSR_F64)), b, sizeof b), TSR_OK, x.s);
    CHECK(!memcmp(a, b, sizeof a));
    unlink(path[i]);
  }
  CHECK(tsr_is_inert(tsr_call(tsr_function_load(x.s, path[0]), matrix(&x, TSR_F64))));
  CHECK_I64(tsr_scope_status(x.s), TSR_EIO);
  tsr_runtime_close(x.rt);
}

/* Rows and columns, with a mesh in what it calls and in what it loops over. */
static tsr_array *product(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *rows = tsr_call(user, in[0]);
  tsr_array *sum = tsr_add(tsr_matmul(rows, tsr_field(in[1], "w")), tsr_field(in[1], "b"));
  return tsr_tuple(s, tsr_tanh(sum), tsr_scan(step, user, in[0], .length = 3));
}

/* Not where the planner would put it. */
static tsr_array *on_rows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_constrain(tsr_sin(in[0]), tsr_on(tsr_sharding_of(in[0]).mesh, "-,x+y"));
}

static tsr_array *placed_model(const fixture *x, tsr_mesh *mesh, const char *w, const char *b)
{
  tsr_array *weights = tsr_iota(x->s, TSR_F64, TSR_SHAPE(4, 6), 1, (tsr_sharding){ 0 });
  tsr_array *bias = tsr_iota(x->s, TSR_F64, TSR_SHAPE(6), 0, (tsr_sharding){ 0 });
  if (w) weights = tsr_reshard(weights, tsr_on(mesh, w));
  if (b) bias = tsr_reshard(bias, tsr_on(mesh, b));
  tsr_array *both[] = { weights, bias };
  CHECK_STATUS(tsr_eval(both, 2), TSR_OK, x->s);
  return tsr_tree(x->s, { "w", weights }, { "b", bias });
}

static tsr_array *rows_of(const fixture *x)
{
  tsr_array *in = tsr_reshard(matrix(x, TSR_F64), tsr_on(x->mesh, "x"));
  CHECK_STATUS(tsr_eval(&in, 1), TSR_OK, x->s);
  return in;
}

/* A function saved for an input (x,-), weights (-,y) and a bias that lies nowhere. */
static const char *placed_text(const fixture *x)
{
  const char *text = "";
  tsr_function *rows = tsr_function_make(x->s, on_rows);
  tsr_function *f = tsr_function_make(x->s, product, .user = rows, .name = "product");
  tsr_array *model = placed_model(x, x->mesh, "-,y", NULL);
  CHECK_STATUS(tsr_function_text_into(f, &text, rows_of(x), model), TSR_OK, x->s);
  CHECK(strstr(text, "argument 0 f64[8,4]@0\"(x,-)\"\nargument 1 f64[4,6]@0\"(-,y)\"\n"
                     "argument 2 f64[6]\n"));
  return text;
}

/* What a call of a text comes to and moves, with its input in a place. */
static void check_placed(const fixture *x, const char *text, tsr_sharding at, double out[80])
{
  tsr_function *g = tsr_function_from_text(x->s, text);
  tsr_array *in = matrix(x, TSR_F64);
  if (at.mesh) in = tsr_reshard(in, at);
  CHECK_STATUS(tsr_eval(&in, 1), TSR_OK, x->s);
  tsr_array *result = tsr_call(g, in, placed_model(x, NULL, NULL, NULL));
  tsr_array *first = tsr_item(result, 0), *second = tsr_item(tsr_item(result, 1), 0);
  CHECK_STATUS(tsr_read(first, out, 48 * sizeof *out), TSR_OK, x->s);
  CHECK_STATUS(tsr_read(second, out + 48, 32 * sizeof *out), TSR_OK, x->s);
  const tsr_mesh *mesh = at.mesh && !tsr_mesh_is_abstract(at.mesh) ? at.mesh : x->mesh;
  CHECK_STR(tsr_type_of(first), "f64[8,6]@(x+y,-)");
  CHECK(tsr_sharding_of(first).mesh == mesh && tsr_sharding_of(second).mesh == mesh);
}

TEST(arguments_are_put_where_the_saved_ones_lay)
{
  fixture x = open_fixture();
  const char *text = placed_text(&x);
  double lain[80], out[80];
  tsr_function *rows = tsr_function_make(x.s, on_rows);
  tsr_function *saved = tsr_function_make(x.s, product, .user = rows, .name = "product");
  tsr_mesh_opts opts = { .size = sizeof opts,
                         .axis_count = 2,
                         .names = { "x", "y" },
                         .sizes = { 2, 2 },
                         .devices = (int[]){ 3, 1, 0, 2 } };
  tsr_mesh *turned = tsr_mesh_make_with(x.rt, &opts);
  CHECK(turned != x.mesh);
  check_placed(&x, text, tsr_on(x.mesh, "x"), lain);
  const tsr_sharding places[] = {
    { 0 }, tsr_on(x.mesh, "-,x+y"), tsr_on(x.mesh, ""), tsr_on(turned, "x"), tsr_on(turned, "y,x")
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    check_placed(&x, text, places[i], out);
    CHECK(!memcmp(out, lain, sizeof out));
  }
  /* Here and on the other devices it is the program that was saved, with nothing left behind. */
  tsr_figures figures[3];
  for (int i = 0; i < 3; i++) {
    tsr_mesh *mesh = i == 2 ? turned : x.mesh;
    tsr_function *f = i ? tsr_function_from_text(x.s, text) : saved;
    tsr_array *in = tsr_abstract(x.s, TSR_F64, TSR_SHAPE(8, 4), tsr_on(mesh, "x"));
    tsr_array *model = placed_model(&x, mesh, "-,y", NULL);
    figures[i] = tsr_compiled_figures(tsr_compile(f, in, model));
    CHECK_STATUS(tsr_scope_status(x.s), TSR_OK, x.s);
    CHECK(figures[i].flops > 0 && !memcmp(figures, figures + i, sizeof *figures));
  }
  /* Where arguments lie as they did nothing is put, and the text is the same again. */
  const char *again = "";
  tsr_function *g = tsr_function_from_text(x.s, text);
  tsr_array *in = rows_of(&x), *model = placed_model(&x, x.mesh, "-,y", NULL);
  CHECK_STATUS(tsr_function_text_into(g, &again, in, model), TSR_OK, x.s);
  CHECK_STR(again, text);
  /* What was saved for an array that lay nowhere takes it as it lies. */
  tsr_array *nowhere = tsr_iota(x.s, TSR_F64, TSR_SHAPE(8, 4), 0, (tsr_sharding){ 0 });
  tsr_function *f = tsr_function_make(x.s, inner);
  CHECK_STATUS(tsr_function_text_into(f, &text, nowhere), TSR_OK, x.s);
  tsr_array *as_it_lies = tsr_call(tsr_function_from_text(x.s, text), in);
  CHECK_STATUS(tsr_eval(&as_it_lies, 1), TSR_OK, x.s);
  CHECK_STR(tsr_type_of(as_it_lies), "f64[8,4]@(x,-)");
  tsr_runtime_close(x.rt);
}

TEST(arguments_on_other_axes_are_refused)
{
  fixture x = open_fixture();
  tsr_function *g = tsr_function_from_text(x.s, placed_text(&x));
  tsr_array *model = placed_model(&x, NULL, NULL, NULL);
  static const char *const others[] = { "x=4", "y=2,x=2", "x=2,z=2", "x=2,y=1" };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    tsr_array *in = tsr_reshard(matrix(&x, TSR_F64), tsr_on(tsr_mesh_make(x.rt, others[i]), ""));
    CHECK(tsr_is_inert(tsr_call(g, in, model)));
    char says[128];
    snprintf(says, sizeof says,
             "array 0 of the arguments lies on the mesh %s, but product was "
             "saved for x=2,y=2",
             others[i]);
    check_message(x.s, TSR_EAXIS, says);
  }
  tsr_array *good[] = { tsr_item(tsr_call(g, matrix(&x, TSR_F64), model), 0) };
  CHECK_STATUS(tsr_eval(good, 1), TSR_OK, x.s);
  tsr_runtime_close(x.rt);
}

/* What the placed text is planned to be, on a runtime of so many devices. */
static tsr_figures planned(const char *devices, const char *text, const char *mesh)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_function *g = tsr_function_from_text(s, text);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_mesh *sizes = tsr_mesh_abstract(rt, mesh);
  tsr_array *in = tsr_abstract(s, TSR_F64, TSR_SHAPE(8, 4), tsr_on(sizes, "x"));
  tsr_array *w = tsr_abstract(s, TSR_F64, TSR_SHAPE(4, 6), tsr_on(sizes, "-,y"));
  tsr_array *b = tsr_abstract(s, TSR_F64, TSR_SHAPE(6), (tsr_sharding){ 0 });
  tsr_array *model = tsr_tree(s, { "w", w }, { "b", b });
  tsr_figures figures = tsr_compiled_figures(tsr_compile(g, in, model));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_array *first = tsr_item(tsr_call(g, in, model), 0);
  CHECK_I64(tsr_eval(&first, 1), TSR_ESTATE);
  tsr_runtime_close(rt);
  return figures;
}

TEST(on_sizes_without_devices_a_function_is_planned_all_the_same)
{
  fixture x = open_fixture();
  const char *text = placed_text(&x);
  tsr_function *g = tsr_function_from_text(x.s, text);
  tsr_array *in = rows_of(&x), *model = placed_model(&x, x.mesh, "-,y", NULL);
  tsr_figures here = tsr_compiled_figures(tsr_compile(g, in, model));
  CHECK(here.flops > 0 && here.peak_bytes > 0);
  tsr_figures sizes = planned("cpu:4", text, "x=2,y=2"), few = planned("cpu:1", text, "x=2,y=2");
  CHECK(!memcmp(&here, &sizes, sizeof here) && !memcmp(&here, &few, sizeof here));
  /* Too few devices for the mesh, and data that lies nowhere: it is told when something runs. */
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  in = tsr_iota(s, TSR_F64, TSR_SHAPE(8, 4), 0, (tsr_sharding){ 0 });
  tsr_array *w = tsr_iota(s, TSR_F64, TSR_SHAPE(4, 6), 0, (tsr_sharding){ 0 });
  tsr_array *b = tsr_iota(s, TSR_F64, TSR_SHAPE(6), 0, (tsr_sharding){ 0 });
  tsr_array *made =
      tsr_call(tsr_function_from_text(s, text), in, tsr_tree(s, { "w", w }, { "b", b }));
  made = tsr_item(made, 0);
  CHECK_I64(tsr_eval(&made, 1), TSR_EAXIS);
  check_message(s, TSR_EAXIS,
                "mesh x=2,y=2 of 4 devices, the mesh of a loaded function, but the runtime has 1; "
                "open the runtime with 4 or more");
  tsr_runtime_close(rt);
  tsr_runtime_close(x.rt);
}

/* The parameters of a function come from a checkpoint by the types of its arguments, on the saved
 * mesh where there is one, else where there are devices; and whatever then cannot be called says
 * what the function takes. */
TEST(arguments_come_from_a_checkpoint_on_any_number_of_devices)
{
  static const char *const devices[] = { "cpu:4", "cpu:8", "cpu:1", "cpu:3" };
  fixture x = open_fixture();
  const char *text = placed_text(&x), *path = test_tmp("ckpt");
  tsr_array *model = placed_model(&x, x.mesh, "-,y", NULL), *in = rows_of(&x);
  double expected[24], found[24], first = 0, again = 0;
  CHECK_STATUS(tsr_checkpoint_save(x.s, path, model), TSR_OK, x.s);
  CHECK_STATUS(tsr_read(tsr_field(model, "w"), expected, sizeof expected), TSR_OK, x.s);
  tsr_array *out = tsr_item(tsr_call(tsr_function_from_text(x.s, text), in, model), 0);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(out), &first), TSR_OK, x.s);
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    tsr_runtime *rt = tsr_runtime_open(devices[i]);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_function *g = tsr_function_from_text(s, text);
    tsr_array *like[2];
    CHECK_I64(tsr_function_arguments(g, like, 2), 2);
    tsr_array *back = tsr_checkpoint_restore(tsr_checkpoint_open(s, path), like[1]);
    CHECK_STR(tsr_message(s), "");
    CHECK_STATUS(tsr_read(tsr_field(back, "w"), found, sizeof found), TSR_OK, s);
    CHECK(!memcmp(found, expected, sizeof found));
    /* By the axes that there are, where a mesh is named. */
    tsr_mesh *line = tsr_mesh_default(rt, "y");
    tsr_array *cut = tsr_checkpoint_restore(tsr_checkpoint_open(s, path), like[1], .mesh = line);
    CHECK_STATUS(tsr_read(tsr_field(cut, "w"), found, sizeof found), TSR_OK, s);
    CHECK(!memcmp(found, expected, sizeof found));
    if (i == 3) CHECK_STR(tsr_type_of(tsr_field(cut, "w")), "f64[4,6]@(-,y)");
    fixture y = { rt, s, i < 2 ? tsr_mesh_make(rt, "x=2,y=2") : NULL };
    tsr_array *rows =
        i < 2 ? rows_of(&y) : tsr_iota(s, TSR_F64, TSR_SHAPE(8, 4), 0, (tsr_sharding){ 0 });
    tsr_array *made = tsr_item(tsr_call(g, rows, back), 0);
    tsr_status status = tsr_read_scalar(tsr_sum(made), &again);
    if (i < 2) CHECK_STATUS(status, TSR_OK, s);
    if (i < 2) CHECK(again == first);
    if (i >= 2) check_message(s, TSR_EAXIS, "mesh x=2,y=2 of 4 devices");
    rows = tsr_iota(s, TSR_F64, TSR_SHAPE(6, 4), 0, (tsr_sharding){ 0 });
    CHECK(tsr_is_inert(tsr_call(g, rows, back)));
    check_message(s, TSR_EARG, "the function takes f64[8,4]@(x,-), f64[4,6]@(-,y)");
    rows = tsr_iota(s, TSR_F64, TSR_SHAPE(8, 4), 0, tsr_on(line, "-"));
    CHECK(tsr_is_inert(tsr_call(g, rows, back)));
    check_message(s, TSR_EAXIS, " on mesh x=2,y=2 of 4 devices");
    tsr_runtime_close(rt);
  }
  tsr_runtime_close(x.rt);
}

static tsr_array *with_data(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(tsr_mul(in[0], (tsr_array *)user), 1);
}

/* The text that a text comes to when it is loaded and saved again for what it was saved for. */
static void check_again(const char *devices, const char *text)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_scope *s = tsr_scope_open(rt);
  const char *again = "";
  tsr_array *arguments[4];
  tsr_function *f = tsr_function_from_text(s, text);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  int count =
      tsr_function_arguments_at(f, arguments, 4, "in.c:1"); /* the line of the argument's node */
  CHECK_STATUS(tsr_function_text_into_at(f, &again, arguments, count, TSR_HERE), TSR_OK, s);
  if (strcmp(text, again)) FAIL("on %s:\n%s\nagain:\n%s", devices, text, again);
  tsr_runtime_close(rt);
}

/* Places and meshes stay, whatever devices there are; what was abstract, and what is so here alone,
 * are not the same. */
TEST(a_text_is_the_same_again_on_any_number_of_devices)
{
  fixture x = open_fixture();
  tsr_mesh *line = tsr_mesh_make(x.rt, "x=4"), *plan = tsr_mesh_abstract(x.rt, "x=4");
  tsr_array *outer = tsr_iota(x.s, TSR_F64, TSR_SHAPE(8), 0, tsr_on(line, "x"));
  CHECK_STATUS(tsr_eval(&outer, 1), TSR_OK, x.s);
  tsr_function *f = tsr_function_make(x.s, with_data, .user = outer);
  const tsr_mesh *meshes[] = { line, plan };
  for (int i = 0; i < 2; i++) {
    const char *text = NULL;
    tsr_array *in = tsr_abstract_at(x.s, TSR_F64, TSR_SHAPE(8), tsr_on(meshes[i], "x"), "in.c:1");
    CHECK_STATUS(tsr_function_text_into(f, &text, in), TSR_OK, x.s);
    CHECK_STR_HAS(text, i ? "mesh 0 abstract \"x=4\"\nmesh 1 \"x=4\"\n" : "mesh 0 \"x=4\"\n");
    CHECK_STR_HAS(text, i ? "data 1 f64[8]@1\"(x)\"" : "data 1 f64[8]@0\"(x)\"");
    check_again("cpu:8", text);
    check_again("cpu:4", text);
    check_again("cpu:3", text);
    check_again("cpu:1", text);
  }
  tsr_runtime_close(x.rt);
}

/* ---- how large a text may be ----------------------------------------------------------------- */

/* What is read takes memory by the length of the text, however many texts in quotes are in it. */
TEST(lines_of_nodes_take_no_more_than_their_length)
{
  enum { NODES = 2000 };
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .allocator = &allocator);
  tsr_scope *s = tsr_scope_open(rt);
  char *text = malloc(400 + NODES * 90), *to = text;
  to += sprintf(to, "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\n"
                    "argument 0 f64[4]\nregion 0 {\n%%0 = arg(index=0) f64[4]\n");
  for (int i = 1; i <= NODES; i++)
    to += sprintf(to, "  %%%d = exp(%%%d) f64[4] \"some/folder/layer.c:%d\"\n", i, i - 1, i);
  sprintf(to, "return %%%d }\n", NODES);
  int64_t before = state.bytes;
  tsr_function_from_text(s, text);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK(state.bytes - before < (4 << 20)); /* it was 100 MB */
  free(text);
  tsr_runtime_close(rt);
}

/* What a body is made of: so many of one kind. */
typedef struct many {
  int regions, operands, results, depth;
} many;

static tsr_array *as_it_is(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(in[0]);
}

static tsr_array *made_of_many(tsr_scope *s, tsr_array *const *in, void *user)
{
  const many *m = user;
  tsr_array *x, **list = calloc((size_t)(m->operands + m->results + 1), sizeof *list);
  CHECK(tsr_tree_leaves(in[0], &x, 1) > 0);
  tsr_function *f = tsr_function_make(s, as_it_is);
  tsr_array *sum = tsr_sum(x), *out = x;
  /* Of another length each, so that each is a region of its own. */
  for (int i = 1; i < m->regions; i++)
    sum = tsr_add(sum, tsr_sum(tsr_call(f, tsr_broadcast_to(sum, TSR_SHAPE(i)))));
  out = tsr_add(x, sum);
  for (int i = 0; i < m->operands; i++) list[i] = x;
  if (m->operands) out = tsr_concat_at(list, m->operands, 0, TSR_HERE);
  for (int i = 0; i < m->results; i++) list[i] = tsr_add(x, i);
  if (m->results) out = tsr_tuple_at(s, list, m->results, TSR_HERE);
  for (int i = 0; i < m->depth; i++) out = tsr_tuple(s, out);
  free(list);
  return out;
}

/* `says`: why it cannot be written; NULL: it is, and read again. */
static void check_many(fixture *x, many m, int arguments, const char *says)
{
  const char *text = NULL;
  tsr_scope *s = tsr_scope_open(x->rt);
  tsr_array *a = tsr_iota(s, TSR_F64, TSR_SHAPE(1), 0, (tsr_sharding){ 0 });
  tsr_array **leaf = calloc((size_t)arguments + 1, sizeof *leaf);
  for (int i = 0; i < arguments; i++) leaf[i] = a;
  if (arguments) a = tsr_tuple_at(s, leaf, arguments, TSR_HERE);
  free(leaf);
  tsr_function *f = tsr_function_make(s, made_of_many, .user = &m);
  tsr_status status = tsr_function_text_into(f, &text, a);
  if (says) check_message(s, TSR_EUNSUPPORTED, says);
  else CHECK_STATUS(status, TSR_OK, s);
  if (!says) tsr_function_from_text(s, text);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
}

/* What is written is read: of all that has a limit the most there may be, and one more. */
TEST(what_is_too_much_for_a_text_is_not_written)
{
  fixture x = open_fixture();
  check_many(&x, (many){ .operands = 1024 }, 0, NULL);
  check_many(&x, (many){ .operands = 1025 }, 0, "1025 operands, expected at most 1024");
  check_many(&x, (many){ .results = 1024 }, 0, NULL);
  check_many(&x, (many){ .results = 1025 }, 0, "1025 results, expected at most 1024");
  check_many(&x, (many){ 0 }, 1024, NULL);
  check_many(&x, (many){ 0 }, 1025, "1025 arrays as arguments, expected at most 1024");
  check_many(&x, (many){ .depth = 33 }, 0, NULL);
  check_many(&x, (many){ .depth = 34 }, 0, "nested trees, expected at most 33");
  check_many(&x, (many){ .regions = 1000 }, 0, NULL);
  check_many(&x, (many){ .regions = 1001 }, 0, "more than 1000 regions");
  tsr_runtime_close(x.rt);
}

static tsr_status seen(const tsr_seen *what, void *user)
{
  (void)what, (void)user;
  return TSR_OK;
}

static tsr_array *shown(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return user ? tsr_print(in[0], "{}") : tsr_callback(in[0], seen);
}

TEST(what_cannot_be_saved_or_called_says_so)
{
  fixture x = open_fixture();
  const char *text = NULL;
  tsr_array *a = matrix(&x, TSR_F64);
  CHECK_I64(tsr_function_text_into(tsr_function_make(x.s, shown), &text, a), TSR_EUNSUPPORTED);
  check_message(x.s, TSR_EUNSUPPORTED, "tsr_callback at ");
  CHECK_I64(tsr_function_text_into(tsr_function_make(x.s, shown, .user = &x), &text, a),
            TSR_EUNSUPPORTED);
  check_message(x.s, TSR_EUNSUPPORTED, "tsr_print at ");
  CHECK(!text);
  CHECK_STATUS(tsr_function_text_into(tsr_function_make(x.s, inner), &text, a), TSR_OK, x.s);
  tsr_function *g = tsr_function_from_text(x.s, text);
  CHECK(tsr_is_inert(tsr_call(g, tsr_cast(a, TSR_F32))));
  check_message(x.s, TSR_EARG, "was saved for f64[8,4]");
  CHECK(tsr_is_inert(tsr_call(g, a, a)));
  check_message(x.s, TSR_EARG, "arguments have the forms *;*;");
  CHECK(tsr_is_inert(tsr_call(g, tsr_tuple(x.s, a))));
  check_message(x.s, TSR_EARG, "arguments have the forms (*);");
  CHECK_STATUS(tsr_eval(&(tsr_array *){ tsr_call(g, a) }, 1), TSR_OK, x.s);
  tsr_runtime_close(x.rt);
}

#define HEAD "tessera function 1 name \"f\" arguments \"\" result \"*\"\n"

TEST(what_is_wrong_with_a_text_has_its_line_and_column)
{
  static const struct {
    const char *text, *says;
  } cases[] = {
    { "", "line 1, column 1: found \"the end\", expected \"tessera\"" },
    { "tessera function 9\n", "line 1, column 17: version 9 of the format is unknown, expected 1" },
    { "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\nmesh 0 \"x=0\"\n",
      "line 2, column 6: " },
    { "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\nargument 0 f31[8]\n",
      "line 2, column 12: there is no dtype \"f31\"" },
    { "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\nargument 0 f32[8]\nregion 0 {\n"
      "  %0 = arg(index=0) f32[8]\n  %1 = plus(%0, %0) f32[8]\n  return %1\n}\n",
      "line 5, column 8: there is no operation \"plus\"" },
    { "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\nargument 0 f32[8]\nregion 0 {\n"
      "  %0 = arg(index=0) f32[8]\n  %1 = add(%0, %1) f32[8]\n  return %1\n}\n",
      "line 5, column 17: 1 is out of range, expected 0 to 0" },
    { "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\nargument 0 f32[8]\nregion 0 {\n"
      "  %0 = arg(index=0) f32[8]\n  %1 = add(%0, %0) f32[9]\n  return %1\n}\n",
      "line 5, column 4: a program is malformed at %1 (add): the shape is not the table's" },
    { "tessera function 1 name \"f\" arguments \"*;\" result \"*\"\nargument 0 f32[7]\nregion 0 {\n"
      "  %0 = arg(index=0) f32[8]\n  return %0\n}\n",
      "does not have the type of argument 0" },
    { "tessera function 1 name \"f\" arguments \"*;*;\" result \"*\"\nargument 0 f32[8]\nregion 0 "
      "{\n"
      "  %0 = arg(index=0) f32[8]\n  return %0\n}\n",
      "the forms \"*;*;\" do not fit 1 arguments" },
    { "tessera function 1 name \"f\" arguments \"\" result \"*\"\ndata 0 f32[2] 0x1p+0 "
      "0x1.0000001p+0\n",
      "line 2, column 22: f32 cannot hold this number exactly" },
    { HEAD "data 0 u64[1] -5\n", "line 2, column 15: -5 is out of range, expected 0 to 184467" },
    { HEAD "data 0 f64[1] 0x1p+1100\n", "line 2, column 15: f64 cannot hold this number" },
    { HEAD "data 0 f64[1] 0x1.0000000000001p-1074\n", "f64 cannot hold this number exactly" },
    { HEAD "data 0 f64[1] -0x1p-1075\n", "f64 cannot hold this number exactly" },
    { HEAD "region 0 {\n  %0 = const(0x1p+1024) f64[]\n  return %0\n}\n",
      "line 3, column 14: f64 cannot hold this number exactly" },
    { HEAD "region 0 {\n  %0 = const(0x1p+0) f64[]\n  return %0 # }",
      "found \"the end\", expected \"}\"" },
    { HEAD "region 0 {\n  %0 = const(0x1p+0) f64[]\n  return %0, }", "expected \"%\"" },
  };
  fixture x = open_fixture();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(tsr_function_from_text(x.s, cases[i].text));
    check_message(x.s, TSR_EPARSE, cases[i].says);
  }
  tsr_runtime_close(x.rt);
}

/* What a gradient would read beyond the node's operands. */
TEST(rules_take_no_more_than_their_nodes_have)
{
  fixture x = open_fixture();
  const char *text;
  CHECK_STATUS(tsr_function_text_into(tsr_checkpoint(tsr_function_make(x.s, inner)), &text,
                                      matrix(&x, TSR_F64)),
               TSR_OK, x.s);
  char *copy = strdup(text), *at = strstr(copy, "arguments=1");
  CHECK(at && strstr(copy, "again=1"));
  at[strlen("arguments=")] = '9';
  CHECK(tsr_function_from_text(x.s, copy));
  check_message(x.s, TSR_EPARSE, "operands, expected 9 and the operands of the rule");
  free(copy);
  tsr_runtime_close(x.rt);
}

/* A text damaged in one place is refused with its line, or is another good one. */
static bool try_text(const fixture *x, const char *text)
{
  tsr_scope *s = tsr_scope_open(x->s);
  tsr_function_from_text(s, text);
  tsr_status status = tsr_scope_status(s);
  if (status == TSR_EPARSE && !strstr(tsr_message(s), "line ")) FAIL("%s", tsr_message(s));
  if (status && status != TSR_EPARSE && status != TSR_EAXIS) FAIL("%s", tsr_message(s));
  tsr_scope_close(s);
  return status == TSR_OK;
}

TEST_TIMEOUT(damaged_texts_are_refused, 300)
{
  fixture x = open_fixture();
  const char *text = NULL;
  tsr_function *f = tsr_function_make(x.s, inner);
  tsr_function *l = tsr_function_make(x.s, loops, .user = f);
  CHECK_STATUS(tsr_function_text_into(l, &text, matrix(&x, TSR_F64)), TSR_OK, x.s);
  size_t length = strlen(text);
  int good = 0, all = test_quick() ? 300 : 4000;
  test_rng rng = test_seeded(3);
  for (int i = 0; i < all; i++) {
    char *other = strdup(text);
    size_t at = (size_t)test_range(&rng, 0, (int64_t)length - 1);
    static const char marks[] = "%{}[](),=\"@-0123456789abx \n#";
    int how = (int)test_range(&rng, 0, 3);
    if (how == 0) other[at] = marks[test_range(&rng, 0, sizeof marks - 2)];
    if (how == 1) other[at] = 0;
    if (how == 2) memmove(other + at, other + at + 1, length - at);
    if (how == 3) memcpy(other + at, text + length / 2, length - at < 9 ? length - at : 9);
    good += try_text(&x, other);
    free(other);
  }
  CHECK(good < all / 2);
  tsr_runtime_close(x.rt);
}
