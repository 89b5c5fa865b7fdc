/* Lines in explanations and programs are those of users, whatever a program went through: each
 * collective, loop, choice and rule, their gradients and maps. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "support/told.h"
#include "support/wrapped.h"
#include "tessera.h"

/* Each place that looks like a line of a file, "name.c:12", is of this file or of wrapped.c. */
static void check_lines(const char *text, const char *name)
{
  CHECK(text != NULL);
  for (const char *at = text; (at = strstr(at, ".c:")); at += 3) {
    const char *from = at;
    while (from > text && !strchr(" \n(/,", from[-1])) from--;
    size_t length = (size_t)(at - from);
    bool own = (length == strlen("sites_test") && !memcmp(from, "sites_test", length)) ||
               (length == strlen("wrapped") && !memcmp(from, "wrapped", length));
    if (!own) FAIL("%s names %.*s:\n%s", name, (int)length + 8, from, text);
  }
}

static void check_said(fixture *f, tsr_array *a, const char *name)
{
  tsr_array *leaves[16];
  if (tsr_is_inert(a)) FAIL("%s: %s", name, tsr_message(f->s));
  int count = tsr_tree_leaves(a, leaves, 16);
  check_lines(tsr_explain(leaves, count), name);
  told_check(tsr_explain(leaves, count), name);
  for (int i = 0; i < count; i++) check_lines(tsr_dump(leaves[i]), name);
}

/* ---- what places do together ----------------------------------------------------------------- */

enum {
  PSUM,
  PMEAN,
  PMAX,
  PMIN,
  GATHER,
  SCATTER,
  TO_ALL,
  SWAP,
  RAGGED,
  PERMUTE,
  GAPS,
  SHUFFLE,
  BROADCAST,
  VARY,
  INDEX,
  GROUPS,
  TOGETHER
};

static tsr_array *ragged(tsr_scope *s, tsr_array *x)
{
  tsr_array *none = tsr_full(s, 0, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *one = tsr_add(none, 1), *at = tsr_add(none, tsr_axis_index(s, "x"));
  return tsr_ragged_all_to_all(x, "x", .to = x, .starts = none, .sizes = one, .places = at);
}

/* x [4, 4] at one of four places. */
static tsr_array *together(tsr_scope *s, tsr_array *const *in, void *user)
{
  static const int crossed[] = { 0, 2, 3, 1 };
  tsr_array *x = tsr_sin(in[0]);
  switch (*(const int *)user) {
  case PSUM: return tsr_psum(x, "x");
  case PMEAN: return tsr_pmean(x, "x");
  case PMAX: return tsr_pmax(x, "x");
  case PMIN: return tsr_pmin(x, "x");
  case GATHER: return tsr_all_gather(x, "x", .tiled = true);
  case SCATTER: return tsr_psum_scatter(x, "x");
  case TO_ALL: return tsr_all_to_all(x, "x", .dim = 1);
  case SWAP: return tsr_pswapaxes(x, "x");
  case RAGGED: return ragged(s, x);
  case PERMUTE: return tsr_ppermute(x, "x", { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 0 });
  case GAPS: return tsr_ppermute(x, "x", { 0, 2 }, { 1, 3 });
  case SHUFFLE: return tsr_pshuffle(x, "x", 2, 0, 3, 1);
  case BROADCAST: return tsr_pbroadcast(x, "x", 2);
  case VARY: return tsr_pvary(x, "x");
  case INDEX: return tsr_mul(x, tsr_axis_index(s, "x"));
  default: return tsr_psum(x, "x", .groups = crossed, .group_count = 2);
  }
}

typedef struct places {
  const tsr_mesh *mesh;
  int kind;
} places;

static tsr_array *at_places(tsr_scope *s, tsr_array *const *in, void *user)
{
  places *p = user;
  (void)s;
  return tsr_shard_map(p->mesh, together, &p->kind, .in = { in[0] }, .in_specs = { "x" },
                       .out_specs = { "x" });
}

static tsr_array *sum_at_places(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_square(at_places(s, in, user)));
}

static tsr_array *sum_together(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_square(together(s, in, user)));
}

static tsr_array *slope_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_call(tsr_grad(tsr_function_make(s, sum_together, .user = user)), in[0]);
}

/* Rows of the table are those of the library: who reads of one wants to know which call it is part
 * of. Others are moves that shard_map makes, or none. */
static void check_call_named(tsr_array *a, int kind)
{
  static const char *const calls[TOGETHER] = {
    [PSUM] = "psum",        [PMEAN] = "pmean",   [PMAX] = "pmax",
    [PMIN] = "pmin",        [GAPS] = "ppermute", [PERMUTE] = "ppermute",
    [SHUFFLE] = "pshuffle", [GROUPS] = "psum",   [RAGGED] = "ragged_all_to_all",
  };
  tsr_array *leaves[16];
  char want[40], *text = told_unfold(tsr_explain(leaves, tsr_tree_leaves(a, leaves, 16)));
  snprintf(want, sizeof want, "(of %s)", calls[kind] ? calls[kind] : "");
  if (calls[kind] && !strstr(text, want)) FAIL("no %s in:\n%s", want, text);
  free(text);
}

static void check_places(int kind)
{
  fixture f = open_fixture("cpu:4", "x=4");
  places p = { f.mesh, kind };
  tsr_array *x = tsr_reshape(tsr_arange(f.s, .stop = 64), TSR_SHAPE(16, 4));
  x = tsr_reshard(x, tsr_on(f.mesh, "x"));
  tsr_function *sum = tsr_function_make(f.s, sum_at_places, .user = &p);
  tsr_function *one = tsr_function_make(f.s, together, .user = &p.kind);
  tsr_array *cut = tsr_reshape(x, TSR_SHAPE(4, 4, 4));
  check_said(&f, at_places(f.s, &x, &p), "places");
  check_call_named(at_places(f.s, &x, &p), kind);
  check_said(&f, tsr_call(tsr_grad(sum), x), "their gradient");
  check_call_named(tsr_call(tsr_grad(sum), x), kind);
  check_said(&f, tsr_call(tsr_hvp(sum), x, x), "their second derivative");
  check_said(&f, tsr_call(tsr_jvp(sum), x, x), "their jvp");
  check_said(&f,
             tsr_shard_map(f.mesh, slope_inside, &p.kind, .in = { x }, .in_specs = { "x" },
                           .out_specs = { "x" }),
             "a gradient inside");
  check_said(&f, tsr_call(tsr_vmap(one, .axis = "x"), cut), "a map");
  check_said(&f, tsr_call(tsr_pmap(one, .axis = "x"), cut), "a pmap");
  close_fixture(&f);
}

TEST(what_places_do_is_told_by_lines_of_users)
{
  for (int kind = 0; kind < TOGETHER; kind++) check_places(kind);
}

/* ---- what stands around ---------------------------------------------------------------------- */

static tsr_array *layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *h = tsr_tanh(tsr_matmul(in[0], in[1]));
  return tsr_div(h, tsr_std(h, .dims = TSR_DIMS(0), .keep_dims = true));
}

static tsr_array *around(tsr_scope *s, tsr_array *const *in, void *user)
{
  return wrapped((wrapping){ { *(const int *)user, WRAPPED_NOT } }, s, layer, NULL, in, 2);
}

static tsr_array *sum_around(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_square(around(s, in, user)));
}

static tsr_array *plus(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], in[1]);
}

static void check_around(int kind)
{
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  tsr_array *x =
      tsr_reshard(tsr_reshape(tsr_arange(f.s, .stop = 16), TSR_SHAPE(4, 4)), tsr_on(f.mesh, "x,y"));
  tsr_array *w = tsr_reshard(tsr_cos(x), tsr_on(f.mesh, "y,x"));
  tsr_function *f0 = tsr_function_make(f.s, around, .user = &kind);
  tsr_function *sum = tsr_function_make(f.s, sum_around, .user = &kind);
  const char *name = wrapped_names[kind];
  check_said(&f, tsr_call(f0, x, w), name);
  check_said(&f, tsr_call(tsr_jvp(f0), x, w, x), name);
  if (kind != WRAPPED_WHILE) {
    check_said(&f, tsr_call(tsr_grad(sum, .wrt = TSR_ARGS(0, 1)), x, w), name);
    check_said(&f, tsr_call(tsr_hvp(sum), x, w, x), name);
    check_said(&f, tsr_call(tsr_jacobian(f0), x, w), name);
  }
  check_said(&f, tsr_call(tsr_linearize(f0, .at = { x, w }), x), name);
  tsr_array *rows = tsr_stack(((tsr_array *[]){ x, w, x }), 3, 0);
  check_said(&f, tsr_call(tsr_vmap(f0, .in_dims = { 0, TSR_UNMAPPED }), rows, w), name);
  tsr_function *named = tsr_xmap(f0, .in_axes = { "rows", "rows" }, .out_axes = { "rows" });
  check_said(&f, tsr_call(named, rows, rows), name);
  check_said(&f, tsr_associative_scan(plus, NULL, x), "prefixes");
  close_fixture(&f);
}

TEST(what_stands_around_is_told_by_lines_of_users)
{
  for (int kind = 0; kind < WRAPPED_KINDS; kind++) check_around(kind);
}
