/* Gradients of what bodies do together: through tsr_shard_map, and asked for inside a body. Each
 * collective against central differences, once and twice; the gradient inside is that outside. */
#include <string.h>

#include "harness.h"
#include "support/gradient_check.h"
#include "tessera.h"

enum {
  PSUM,
  PMEAN,
  GROUPS,
  PMAX,
  GATHER,
  TILED,
  GATHER_GROUPS,
  SCATTER,
  SCATTER_TILED,
  ALL_TO_ALL,
  ALL_TO_ALL_TILED,
  PERMUTE,
  SHIFT,
  PBROADCAST,
  PMIN,
  SHUFFLE,
  SWAP,
  SWAP_TILED,
  SCATTER_GROUPS,
  RAGGED,
  INDEX,
  BOTH,
  KINDS
};

static const char *const names[] = { "psum",
                                     "pmean",
                                     "psum of groups",
                                     "pmax",
                                     "all_gather",
                                     "all_gather tiled",
                                     "all_gather of groups",
                                     "psum_scatter",
                                     "psum_scatter tiled",
                                     "all_to_all",
                                     "all_to_all tiled",
                                     "ppermute",
                                     "a shift",
                                     "pbroadcast",
                                     "pmin",
                                     "pshuffle",
                                     "pswapaxes",
                                     "pswapaxes tiled",
                                     "psum_scatter of groups",
                                     "ragged_all_to_all",
                                     "axis_index",
                                     "psum over two axes" };

/* Place i sends row 0 to place 0, rows 1 and 2 to place 1, and row 3 to place 3, where its number
 * says; what nobody sends stays. */
static tsr_array *ragged(tsr_scope *s, tsr_array *x)
{
  static const int64_t numbers[2][4] = { { 0, 1, 0, 3 }, { 1, 2, 0, 1 } };
  tsr_array *by[2], *at = tsr_axis_index(s, "i"), *to = tsr_square(x);
  for (int k = 0; k < 2; k++)
    by[k] = tsr_put(s, numbers[k], TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *places =
      tsr_mul(tsr_minimum(at, 2), tsr_full(s, 1, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 }));
  return tsr_ragged_all_to_all(x, "i", .to = to, .starts = by[0], .sizes = by[1], .places = places);
}

/* What one of 4 places along "i" makes of its x [4, 2]. */
static tsr_array *together(tsr_scope *s, int kind, tsr_array *x)
{
  static const int crossed[] = { 0, 2, 3, 1 };
  switch (kind) {
  case PSUM: return tsr_psum(x, "i");
  case PMEAN: return tsr_pmean(x, "i");
  case GROUPS: return tsr_psum(x, "i", .groups = crossed, .group_count = 2);
  case PMAX: return tsr_pmax(x, "i");
  case GATHER: return tsr_all_gather(x, "i", .dim = 1);
  case TILED: return tsr_all_gather(x, "i", .tiled = true);
  case GATHER_GROUPS: return tsr_all_gather(x, "i", .groups = crossed, .group_count = 2);
  case SCATTER: return tsr_psum_scatter(x, "i");
  case SCATTER_TILED: return tsr_psum_scatter(x, "i", .tiled = true);
  case ALL_TO_ALL: return tsr_all_to_all(x, "i", .dim = 1);
  case ALL_TO_ALL_TILED: return tsr_all_to_all(x, "i", .dim = 1, .tiled = true);
  case PERMUTE: return tsr_ppermute(x, "i", { 0, 1 }, { 1, 2 });
  case SHIFT: return tsr_ppermute(x, "i", { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 });
  case PBROADCAST: return tsr_pbroadcast(x, "i", 2);
  case PMIN: return tsr_pmin(x, "i");
  case SHUFFLE: return tsr_pshuffle(x, "i", 2, 0, 3, 1);
  case SWAP: return tsr_pswapaxes(x, "i");
  case SWAP_TILED: return tsr_pswapaxes(x, "i", .tiled = true);
  case SCATTER_GROUPS:
    return tsr_psum_scatter(x, "i", .tiled = true, .groups = crossed, .group_count = 2);
  case RAGGED: return ragged(s, x);
  case INDEX: return tsr_mul(x, tsr_axis_index(s, "i"));
  default: return tsr_psum(x, "i,j");
  }
}

typedef struct asked {
  int kind;
  tsr_mesh *mesh;
} asked;

/* The loss that all places have together: what differs is used with what does not. */
static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  const asked *a = user;
  tsr_array *x = tsr_mul(tsr_sin(in[0]), in[1]);
  tsr_array *y = together(s, a->kind, x);
  tsr_array *own = tsr_add(tsr_mul(y, tsr_add(tsr_sum(in[0]), tsr_sum(in[1]))), tsr_square(y));
  return tsr_psum(tsr_mul(tsr_sum(own), tsr_add(tsr_axis_index(s, "i,j"), 1)), "i,j");
}

static tsr_array *squeezed_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *both[] = { tsr_squeeze(in[0], TSR_DIMS(0)), in[1] };
  return loss(s, both, user);
}

static tsr_array *outer_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  const asked *a = user;
  (void)s;
  return tsr_shard_map(a->mesh, squeezed_loss, user, .in = { in[0], in[1] },
                       .in_specs = { "i,-,j", "-,j" }, .out_specs = { "" });
}

static tsr_array *slope_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, squeezed_loss, .user = user);
  return tsr_call(tsr_grad(f, .wrt = TSR_ARGS(0, 1)), in[0], in[1]);
}

static void check_same(tsr_scope *s, tsr_array *a, tsr_array *b, const char *name)
{
  double most = 1;
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_shape_of(a).rank, tsr_shape_of(b).rank);
  tsr_array *far = tsr_max(tsr_abs(tsr_sub(a, b)));
  CHECK_STATUS(tsr_read(far, &most, sizeof most), TSR_OK, s);
  if (!(most < 1e-9)) FAIL("%s: gradients differ by %g", name, most);
}

static tsr_array *numbers(tsr_scope *s, tsr_shape shape, double phase)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  tsr_array *at = tsr_arange(s, .stop = (double)count);
  return tsr_reshape(tsr_sin(tsr_add(tsr_mul(at, 1.37), phase)), shape);
}

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  asked a;
  tsr_array *given[2];
} fixture;

static fixture open_fixture(int kind)
{
  fixture f = { .rt = tsr_runtime_open("cpu:8", .threads = 2) };
  f.s = tsr_scope_open(f.rt);
  f.a = (asked){ .kind = kind, .mesh = tsr_mesh_make(f.rt, "i=4,j=2") };
  f.given[0] = numbers(f.s, TSR_SHAPE(4, 4, 4), 0.2);
  f.given[1] = numbers(f.s, TSR_SHAPE(4, 4), 0.9);
  return f;
}

static void close_fixture(fixture *f)
{
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  tsr_scope_close(f->s);
  tsr_runtime_close(f->rt);
}

TEST(gradients_through_shards_are_central_differences)
{
  for (int kind = 0; kind < KINDS; kind++) {
    fixture f = open_fixture(kind);
    gradient_case c = { .name = names[kind], .s = f.s, .body = outer_loss, .user = &f.a };
    c.in = f.given;
    c.count = 2;
    c.depth = 2;
    gradient_check(&c);
    close_fixture(&f);
  }
}

TEST(a_gradient_inside_a_body_is_that_outside)
{
  for (int kind = 0; kind < KINDS; kind++) {
    fixture f = open_fixture(kind);
    tsr_function *whole = tsr_function_make(f.s, outer_loss, .user = &f.a);
    tsr_array *want = tsr_call(tsr_grad(whole, .wrt = TSR_ARGS(0, 1)), f.given[0], f.given[1]);
    tsr_array *found =
        tsr_shard_map(f.a.mesh, slope_inside, &f.a, .in = { f.given[0], f.given[1] },
                      .in_specs = { "i,-,j", "-,j" }, .out_specs = { "i,-,j", "-,j" });
    for (int i = 0; i < 2; i++) check_same(f.s, tsr_item(found, i), tsr_item(want, i), names[kind]);
    close_fixture(&f);
  }
}

/* What a place has, and what all have; w is the same along "i". */
static tsr_array *own_and_all(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_mul(tsr_sin(in[0]), in[1]);
  (void)s, (void)user;
  return tsr_add(tsr_square(x), tsr_psum(x, "i,j"));
}

static tsr_array *own_outside(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_shard_map(((asked *)user)->mesh, own_and_all, user, .in = { in[0], in[1] },
                       .in_specs = { "i,-,j", "-,j" }, .out_specs = { "i,-,j" });
}

static tsr_array *ahead_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, own_and_all, .user = user);
  return tsr_call(tsr_jvp(f, .wrt = TSR_ARGS(0, 1)), in[0], in[1], in[2], in[3]);
}

TEST(a_jvp_inside_a_body_is_that_outside)
{
  fixture f = open_fixture(PSUM);
  tsr_array *x = f.given[0], *w = f.given[1], *dx = tsr_cos(x), *dw = tsr_cos(w);
  tsr_function *whole = tsr_function_make(f.s, own_outside, .user = &f.a);
  tsr_array *want = tsr_call(tsr_jvp(whole, .wrt = TSR_ARGS(0, 1)), x, w, dx, dw);
  tsr_array *found = tsr_shard_map(f.a.mesh, ahead_inside, &f.a, .in = { x, w, dx, dw },
                                   .in_specs = { "i,-,j", "-,j", "i,-,j", "-,j" },
                                   .out_specs = { "i,-,j", "i,-,j" });
  for (int i = 0; i < 2; i++) check_same(f.s, tsr_item(found, i), tsr_item(want, i), "a jvp");
  close_fixture(&f);
}

/* ---- functions with rules of their own, and what has several results ------------------------- */

enum { PLAIN, BACKWARD, FORWARD, AGAIN, ADDED, SORTED, BEST, RULES };

static const char *const ruled_names[] = { "no rule",    "a rule backward", "a rule forward",
                                           "checkpoint", "a rule of a sum", "sort",
                                           "top_k" };

/* Of x, which is a device's own, and w, which is the same along "i"; linear in w alone. */
static tsr_array *mixed(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_add(tsr_square(in[0]), in[1]), tsr_psum(tsr_mul(in[0], in[1]), "i"));
}

/* Each place is due the sum of what is due to the sum, and w gets that of all places. */
static tsr_array *mixed_back(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *summed = tsr_psum(in[3], "i");
  (void)user;
  return tsr_tuple(s, tsr_add(tsr_mul(tsr_mul(in[3], in[0]), 2), tsr_mul(summed, in[1])),
                   tsr_add(in[3], tsr_mul(summed, in[0])));
}

static tsr_array *mixed_forward(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *d = tsr_add(tsr_mul(in[3], in[1]), tsr_mul(in[0], in[4]));
  (void)s, (void)user;
  return tsr_add(tsr_add(tsr_mul(tsr_mul(in[3], in[0]), 2), in[4]), tsr_psum(d, "i"));
}

static tsr_array *added(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], in[1]);
}

/* To w what each place gives, which need not differ. */
static tsr_array *added_back(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, in[3], in[3]);
}

static tsr_array *ruled(tsr_scope *s, int kind, tsr_array *x, tsr_array *w)
{
  tsr_function *f = tsr_function_make(s, mixed);
  switch (kind) {
  case PLAIN: return tsr_call(f, x, w);
  case BACKWARD: return tsr_call(tsr_custom_vjp(f, .backward = mixed_back), x, w);
  case FORWARD: return tsr_call(tsr_custom_jvp(f, .forward = mixed_forward), x, w);
  case AGAIN: return tsr_call(tsr_checkpoint(f), x, w);
  case ADDED:
    f = tsr_custom_vjp(tsr_function_make(s, added), .backward = added_back);
    return tsr_call(f, x, w);
  case SORTED: return tsr_mul(tsr_sort(tsr_mul(x, w), 0), w);
  default: return tsr_top_k(tsr_add(w, x), 1, 1);
  }
}

/* What is due to a plain sum is the same at all places. */
static tsr_array *own_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  const asked *a = user;
  return tsr_sum(ruled(s, a->kind % RULES, in[0], in[1]));
}

static tsr_array *plain_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_psum(own_sum(s, in, user), "i,j");
}

static tsr_array *weighed_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  const asked *a = user;
  tsr_array *y = ruled(s, a->kind % RULES, in[0], in[1]);
  tsr_array *own = tsr_sum(tsr_mul(tsr_square(y), tsr_add(tsr_axis_index(s, "i,j"), 1)));
  return tsr_psum(own, "i,j");
}

static tsr_array *ruled_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *both[] = { tsr_squeeze(in[0], TSR_DIMS(0)), in[1] };
  return ((asked *)user)->kind < RULES ? plain_sum(s, both, user) : weighed_sum(s, both, user);
}

static tsr_array *ruled_outside(tsr_scope *s, tsr_array *const *in, void *user)
{
  const asked *a = user;
  (void)s;
  return tsr_shard_map(a->mesh, ruled_loss, user, .in = { in[0], in[1] },
                       .in_specs = { "i,-,j", "-,j" }, .out_specs = { "" });
}

static tsr_array *own_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *both[] = { tsr_squeeze(in[0], TSR_DIMS(0)), in[1] };
  return ((asked *)user)->kind < RULES ? own_sum(s, both, user) : weighed_sum(s, both, user);
}

/* Losses of places that nobody summed count as their sum. */
static tsr_array *ruled_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, own_loss, .user = user);
  return tsr_call(tsr_grad(f, .wrt = TSR_ARGS(0, 1)), in[0], in[1]);
}

TEST(rules_and_several_results_have_the_gradients_of_all_places)
{
  for (int kind = 0; kind < 2 * RULES; kind++) {
    fixture f = open_fixture(kind);
    const char *name = ruled_names[kind % RULES];
    gradient_case c = { .name = name, .s = f.s, .body = ruled_outside, .user = &f.a };
    c.in = f.given;
    c.count = 2;
    c.depth = 1;
    gradient_check(&c);
    tsr_function *whole = tsr_function_make(f.s, ruled_outside, .user = &f.a);
    tsr_array *want = tsr_call(tsr_grad(whole, .wrt = TSR_ARGS(0, 1)), f.given[0], f.given[1]);
    tsr_array *found =
        tsr_shard_map(f.a.mesh, ruled_inside, &f.a, .in = { f.given[0], f.given[1] },
                      .in_specs = { "i,-,j", "-,j" }, .out_specs = { "i,-,j", "-,j" });
    for (int i = 0; i < 2; i++) check_same(f.s, tsr_item(found, i), tsr_item(want, i), name);
    close_fixture(&f);
  }
}

/* ---- mapped over a name ---------------------------------------------------------------------- */

/* What one of 4 elements loses; they know of each other along "i". */
static tsr_array *element_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *y = together(s, *(int *)user, tsr_mul(tsr_sin(in[0]), in[1]));
  return tsr_mul(tsr_sum(tsr_add(tsr_square(y), tsr_mul(y, tsr_sum(in[0])))),
                 tsr_add(tsr_axis_index(s, "i"), 1));
}

static tsr_array *all_losses(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, element_loss, .user = user);
  return tsr_sum(tsr_call(tsr_vmap(f, .axis = "i"), in[0], in[1]));
}

/* Each element's gradient is that of all losses by what is its own. */
TEST(mapped_gradients_are_those_of_all_elements)
{
  for (int kind = 0; kind < BOTH; kind++) {
    fixture f = open_fixture(kind);
    f.given[1] = numbers(f.s, TSR_SHAPE(4, 4, 4), 0.4);
    tsr_function *one = tsr_function_make(f.s, element_loss, .user = &kind);
    tsr_function *all = tsr_function_make(f.s, all_losses, .user = &kind);
    tsr_function *each = tsr_vmap(tsr_grad(one, .wrt = TSR_ARGS(0, 1)), .axis = "i");
    tsr_array *found = tsr_call(each, f.given[0], f.given[1]);
    tsr_array *want = tsr_call(tsr_grad(all, .wrt = TSR_ARGS(0, 1)), f.given[0], f.given[1]);
    for (int i = 0; i < 2; i++) check_same(f.s, tsr_item(found, i), tsr_item(want, i), names[kind]);
    close_fixture(&f);
  }
}

/* ---- what is moved --------------------------------------------------------------------------- */

static tsr_array *gathered(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *all = tsr_all_gather(in[0], "d", .tiled = true); /* rows of a model */
  return tsr_psum(tsr_sum(tsr_square(tsr_matmul(in[1], all))), "d");
}

static tsr_array *gathered_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_shard_map(user, gathered, NULL, .in = { in[0], in[1] }, .in_specs = { "d", "d" },
                       .out_specs = { "" });
}

/* What is gathered goes back as sums dealt out, which nobody wrote. */
TEST(explanations_name_the_transposed_collectives)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "d=8");
  tsr_array *w = tsr_reshard(numbers(s, TSR_SHAPE(64, 64), 0.1), tsr_on(mesh, "d"));
  tsr_array *x = tsr_reshard(numbers(s, TSR_SHAPE(1024, 64), 0.7), tsr_on(mesh, "d"));
  CHECK_STATUS(tsr_eval(&w, 1), TSR_OK, s);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_function *f = tsr_function_make(s, gathered_loss, .user = mesh);
  tsr_array *loss = tsr_call(f, w, x), *slope = tsr_call(tsr_grad(f), w, x);
  const char *forward = tsr_explain(&loss, 1);
  CHECK_STR_HAS(forward, "all-gather");
  CHECK(!strstr(forward, "reduce-scatter"));
  const char *back = tsr_explain(&slope, 1);
  CHECK_STR_HAS(back, "all-gather");
  CHECK_STR_HAS(back, "reduce-scatter");
  CHECK_STR_HAS(back, "(back from dot)");
  CHECK_STR_HAS(back, "the transpose of an all-gather");
  CHECK(!strstr(forward, "(back from") && !strstr(forward, "transpose"));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- what counts once, and what each place has ----------------------------------------------- */

static tsr_array *of_gathered(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *all = tsr_all_gather(in[0], "i");
  (void)s;
  return tsr_sum(tsr_square(user ? tsr_pvary(all, "i") : all));
}

static tsr_array *by_gathered(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *out[2];
  for (int each = 0; each < 2; each++) {
    void *own = each ? s : NULL;
    out[each] = tsr_call(tsr_grad(tsr_function_make(s, of_gathered, .user = own)), in[0]);
  }
  (void)user;
  return tsr_tuple_at(s, out, 2, TSR_HERE);
}

/* d sum(x^2) = 2 x of one loss, as often as there are places of one at each, as JAX has it. */
TEST(a_loss_of_what_all_have_counts_once_or_at_each_place)
{
  fixture f = open_fixture(0);
  tsr_array *x = numbers(f.s, TSR_SHAPE(8, 3), 0.4);
  tsr_array *both = tsr_shard_map(f.a.mesh, by_gathered, NULL, .in = { x }, .in_specs = { "i" },
                                  .out_specs = { "i", "i" });
  check_same(f.s, tsr_item(both, 0), tsr_mul(x, 2), "one loss");
  check_same(f.s, tsr_item(both, 1), tsr_mul(x, 8), "a loss at each of four places");
  close_fixture(&f);
}

static tsr_array *example_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_square(tsr_mul(in[0], in[1])));
}

/* Of each row of a shard, by what is the same at all places. */
static tsr_array *example_slopes(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *each =
      tsr_vmap(tsr_grad(tsr_function_make(s, example_loss)), .in_dims = { TSR_UNMAPPED, 0 });
  (void)user;
  return tsr_tuple(s, tsr_call(each, in[0], in[1]), tsr_call(each, tsr_pvary(in[0], "i"), in[1]));
}

TEST(each_element_of_a_map_in_a_body_has_the_gradient_of_all_places)
{
  fixture f = open_fixture(0);
  tsr_array *w = numbers(f.s, TSR_SHAPE(3), 0.1), *x = numbers(f.s, TSR_SHAPE(8, 3), 0.4);
  tsr_array *both = tsr_shard_map(f.a.mesh, example_slopes, NULL, .in = { w, x },
                                  .in_specs = { "", "i" }, .out_specs = { "", "i" });
  tsr_array *own = tsr_mul(tsr_mul(tsr_square(x), w), 2); /* [8, 3]: of each example */
  tsr_array *summed = tsr_sum(tsr_reshape(own, TSR_SHAPE(4, 2, 3)), .dims = TSR_DIMS(0));
  check_same(f.s, tsr_item(both, 0), summed, "all places'");
  check_same(f.s, tsr_item(both, 1), own, "each a name of its own");
  close_fixture(&f);
}
