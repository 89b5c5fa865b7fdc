/* Explicit shardings against the cases that the field documents: products, slices, pads, concats,
 * cumulative sums, results that are sums not yet made. Meshes are x=2,y=2 unless said. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

static tsr_array *numbers(fixture *f, tsr_shape shape, const char *spec)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  tsr_array *a = tsr_arange(f->s, 0, (double)count, .dtype = TSR_F32);
  tsr_array *out = tsr_reshard(tsr_reshape(a, shape), tsr_on(f->mesh, spec));
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f->s);
  return out;
}

/* What a call of a body comes to: the sharding of its result, with what it moved if anything, or
 * the message. */
static const char *outcome(fixture *f, tsr_body_fn *body, tsr_array *a, tsr_array *b)
{
  static char text[2000];
  tsr_function *fn = tsr_function_make(f->s, body, .explicit_shardings = true, .name = "body");
  tsr_array *out = b ? tsr_call(fn, a, b) : tsr_call(fn, a);
  const char *moves = tsr_is_inert(out) ? "" : tsr_explain(&out, 1);
  if (!tsr_eval(&out, 1)) {
    tsr_sharding at = tsr_sharding_of(out);
    tsr_sharding_text(&at, tsr_shape_of(out).rank, text, sizeof text);
    static const char *const kinds[] = { " all-gather", " all-reduce", " all-to-all" };
    for (int k = 0; k < 3; k++)
      if (strstr(moves, kinds[k] + 1)) strcat(text, kinds[k]);
    return text;
  }
  CHECK_STATUS(tsr_scope_status(f->s), TSR_EAXIS, NULL);
  snprintf(text, sizeof text, "%s", tsr_message(f->s));
  CHECK_STR_HAS(text, "explicit_test.c:");
  tsr_scope_clear(f->s);
  return text;
}

static tsr_array *product(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_matmul(in[0], in[1]);
}

TEST(products_lie_as_their_operands_say)
{
  static const char *const rows[][3] = {
    { "x,-", "-,y", "(x,y)" },
    { "x,-", "-,-", "(x,-)" },
    { "x,y", "-,-", "(x,-) all-gather" },
    { "x,-", "x,-", "(x,-) all-gather" },
    { "-,y", "-,y", "(-,y) all-gather" },
    { "x,-", "-,x", "would be sharded by one axis" },
    { "x,y", "x,y", "contracted dims are sharded in both operands" },
    { "x,y", "y,-", "contracted dims are sharded in both operands" },
    { "-,y", "y,-", "contracted dims are sharded in both operands" },
  };
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_array *a = numbers(&f, TSR_SHAPE(8, 2), rows[i][0]);
    tsr_array *b = numbers(&f, TSR_SHAPE(2, 8), rows[i][1]);
    const char *found = outcome(&f, product, a, b);
    bool fits = *rows[i][2] == '(';
    if (fits) CHECK_STR(found, rows[i][2]);
    if (fits) CHECK(!strchr(found, ' ') == !tsr_last_run(f.s).collectives);
    else CHECK_STR_HAS(found, rows[i][2]);
  }
  close_fixture(&f);
}

static tsr_array *joined(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], in[1]);
}

TEST(elements_are_cut_alike_or_whole)
{
  static const char *const rows[][3] = {
    { "x,y", "x,y", "(x,y)" },
    { "x,-", "-,y", "(x,y)" },
    { "-,-", "x+y,-", "(x+y,-)" },
    { "x,-", "y,-", "sharded differently along one dim" },
    { "x,-", "-,x", "would be sharded by one axis" },
  };
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_array *a = numbers(&f, TSR_SHAPE(4, 8), rows[i][0]);
    tsr_array *b = numbers(&f, TSR_SHAPE(4, 8), rows[i][1]);
    CHECK_STR_HAS(outcome(&f, joined, a, b), rows[i][2]);
  }
  close_fixture(&f);
}

static tsr_array *three_columns(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_slice(in[0], TSR_ALL, { 0, 3, 1 });
}

/* By how many, in front, behind and between. */
static int64_t padding[3];

static tsr_array *padded(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_pad(in[0], .low = { padding[0] }, .high = { padding[1] }, .interior = { padding[2] });
}

TEST(slices_and_pads_need_sizes_that_divide)
{
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  CHECK_STR(outcome(&f, three_columns, numbers(&f, TSR_SHAPE(4, 4), "x,-"), NULL), "(x,-)");
  CHECK_STR_HAS(outcome(&f, three_columns, numbers(&f, TSR_SHAPE(4, 4), "x,y"), NULL),
                "its axes do not divide; tsr_reshard");
  static const struct {
    int64_t by[3];
    const char *spec, *found;
  } pads[] = { { { 2, 2 }, "x", "(x)" },
               { { 2, 3 }, "x", "axes do not divide" },
               { { 0, 3 }, "x", "do not divide" },
               { { 4, 4 }, "x+y", "(x+y)" },
               { { 4, 3 }, "x+y", "do not divide" },
               { { 0, 3, 1 }, "x", "(x)" },
               { { 4, 4, 1 }, "x+y", "do not divide" },
               { { -1, 1 }, "x", "(x)" },
               { { -1, 0 }, "x", "do not divide" },
               { { -3, -1, 1 }, "x", "do not divide" },
               { { -3, 0, 1 }, "x+y", "(x+y)" } };
  for (size_t i = 0; i < sizeof pads / sizeof *pads; i++) {
    memcpy(padding, pads[i].by, sizeof padding);
    CHECK_STR_HAS(outcome(&f, padded, numbers(&f, TSR_SHAPE(8), pads[i].spec), NULL),
                  pads[i].found);
  }
  close_fixture(&f);
}

static tsr_array *both(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_concat(in, 2, 0);
}

static tsr_array *running(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_cumsum(in[0], 0);
}

static tsr_array *running_flat(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_cumsum(tsr_ravel(in[0]), 0);
}

static tsr_array *best(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_top_k(in[0], 2, 2);
}

static tsr_array *in_order(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sort(in[0], 0);
}

TEST(concats_and_routines_along_a_dim)
{
  fixture f = open_fixture("cpu:4", "x=2,y=1");
  tsr_array *a = numbers(&f, TSR_SHAPE(4, 4), "x,y"), *b = numbers(&f, TSR_SHAPE(4, 4), "x,y");
  CHECK_STR(outcome(&f, both, a, b), "(x,-)"); /* an axis of one device cuts nothing */
  b = numbers(&f, TSR_SHAPE(4, 4), "-,x");
  CHECK_STR_HAS(outcome(&f, both, a, b), "operands have different shardings");
  CHECK_STR_HAS(outcome(&f, running, numbers(&f, TSR_SHAPE(2, 8), "x,-"), NULL),
                "runs along a sharded dim");
  CHECK_STR(outcome(&f, running, numbers(&f, TSR_SHAPE(2, 8), "-,x"), NULL), "(-,x)");
  CHECK_STR_HAS(outcome(&f, running_flat, numbers(&f, TSR_SHAPE(2, 8), "x,-"), NULL), "cumsum at ");
  CHECK_STR_HAS(outcome(&f, running_flat, numbers(&f, TSR_SHAPE(2, 8), "-,x"), NULL),
                "reshape at ");
  CHECK_STR(outcome(&f, running_flat, numbers(&f, TSR_SHAPE(2, 8), "-"), NULL), "(-)");
  CHECK_STR_HAS(outcome(&f, in_order, numbers(&f, TSR_SHAPE(4, 32, 32), "x"), NULL),
                "runs along a sharded dim");
  CHECK_STR(outcome(&f, best, numbers(&f, TSR_SHAPE(4, 32, 32), "x"), NULL), "(x,-,-)");
  close_fixture(&f);
}

static tsr_array *same(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return in[0];
}

TEST(a_result_may_be_a_sum_not_yet_made)
{
  fixture f = open_fixture("cpu:4", "x=2");
  tsr_function *fn = tsr_function_make(f.s, same, .explicit_shardings = true, .mesh = f.mesh,
                                       .out_specs = { ";sum(x)" });
  tsr_array *out = tsr_call(fn, numbers(&f, TSR_SHAPE(4), "-"));
  for (int p = 0; p < 2; p++) {
    tsr_shard shard;
    CHECK_STATUS(tsr_shard_view(out, p, &shard), TSR_OK, f.s);
    for (int i = 0; i < 4; i++) CHECK(((const float *)shard.data)[i] == (p ? 0 : (float)i));
  }
  close_fixture(&f);
}

static tsr_array *chosen(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *left = tsr_reshard(in[0], tsr_on((tsr_mesh *)user, "x,-"));
  return tsr_matmul(left, in[1]);
}

TEST(a_reshard_chooses)
{
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  tsr_function *fn = tsr_function_make(f.s, chosen, .explicit_shardings = true, .user = f.mesh);
  tsr_array *a = numbers(&f, TSR_SHAPE(8, 2), "x,y"), *b = numbers(&f, TSR_SHAPE(2, 8), "y,-");
  tsr_array *out = tsr_call(fn, a, b);
  float got[64], want[64];
  CHECK_STATUS(tsr_read(out, got, sizeof got), TSR_OK, f.s);
  CHECK_STATUS(tsr_read(tsr_matmul(a, b), want, sizeof want), TSR_OK, f.s);
  CHECK(!memcmp(got, want, sizeof got));
  tsr_sharding at = tsr_sharding_of(out);
  char text[64];
  tsr_sharding_text(&at, 2, text, sizeof text);
  CHECK_STR(text, "(x,-)");
  close_fixture(&f);
}

/* ---- calls and loops ------------------------------------------------------------------------- */

static tsr_array *calls(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_function *f = tsr_function_make(s, product);
  return tsr_call(tsr_checkpoint(f), tsr_call(f, in[0], in[1]), tsr_transpose(in[1]));
}

static tsr_array *squares(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_square(tsr_matmul(in[0], in[1])));
}

static tsr_array *slope_of_squares(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_call(tsr_grad(tsr_function_make(s, squares)), in[0], in[1]);
}

static tsr_array *other_slope(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, squares);
  (void)user;
  return tsr_call(tsr_grad(f, .wrt = TSR_ARGS(1)), in[0], in[1]);
}

TEST(what_is_called_is_part_of_the_body)
{
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  tsr_array *a = numbers(&f, TSR_SHAPE(8, 4), "x,-"), *b = numbers(&f, TSR_SHAPE(4, 4), "-,-");
  CHECK_STR(outcome(&f, calls, a, b), "(x,-)");
  CHECK_STR(outcome(&f, slope_of_squares, a, b), "(x,-)");
  b = numbers(&f, TSR_SHAPE(4, 4), "-,y");
  /* As JAX does, gradients lie as what they are by. */
  CHECK_STR_HAS(outcome(&f, slope_of_squares, a, b), "(x,-)");
  CHECK_STR_HAS(outcome(&f, other_slope, a, b), "(-,y)");
  const char *found = outcome(&f, calls, a, b);
  CHECK_STR_HAS(found, "contracted dims are sharded in both operands");
  CHECK_STR_HAS(found, "dot at ");
  close_fixture(&f);
}

enum { SCANS, STACKS, FORI, WHILE, COND, COUNTED, TURNS, DIFFERS, WRONG, LOOPS };

static tsr_array *scan_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *next = tsr_add(tsr_mul(in[0], 0.5F), in[1]);
  return tsr_tuple(s, *(int *)user == TURNS ? tsr_transpose(next) : next, tsr_mul(next, 2));
}

static tsr_array *fori_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[1], 3);
}

static tsr_array *wrong_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_cumsum(in[1], 0);
}

static tsr_array *goes_on(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_max(in[0]), 1000);
}

static tsr_array *twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_mul(in[0], 2), 1);
}

static tsr_array *flipped(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_transpose(in[0]);
}

/* Of a [4, 4] and steps of such. */
static tsr_array *loops(tsr_scope *s, tsr_array *const *in, void *user)
{
  int kind = *(int *)user;
  tsr_array *none = tsr_full(s, 0, TSR_F32, kind == COUNTED ? TSR_SHAPE(3, 4) : TSR_SHAPE(4, 4),
                             (tsr_sharding){ 0 });
  tsr_array *more = tsr_gt(tsr_sum(in[0]), 0);
  switch (kind) {
  case SCANS:
  case TURNS: return tsr_item(tsr_scan(scan_step, user, in[0], .xs = in[1]), 0);
  case STACKS: return tsr_item(tsr_scan(scan_step, user, none, .xs = in[1]), 1);
  case FORI: return tsr_fori(0, 3, fori_step, user, in[0]);
  case WHILE: return tsr_while(goes_on, twice, user, in[0]);
  case COND: return tsr_cond(more, twice, fori_step, user, in[0], in[0]);
  case COUNTED:
    return tsr_item(tsr_scan(scan_step, user, none, .xs = tsr_moveaxis(in[1], 1, 0)), 0);
  case DIFFERS: return tsr_cond(more, twice, flipped, user, in[0]);
  default: return tsr_fori(0, 3, wrong_step, user, in[0]);
  }
}

TEST(loops_are_walked_as_a_step_sees_them)
{
  static const char *const found[LOOPS] = { [SCANS] = "(x,-)",
                                            [STACKS] = "(-,x,-)",
                                            [FORI] = "(x,-)",
                                            [WHILE] = "(x,-)",
                                            [COND] = "(x,-)",
                                            [COUNTED] = "steps along a sharded dim",
                                            [TURNS] = "a step changes the sharding of a carry",
                                            [DIFFERS] = "the bodies shard a result differently",
                                            [WRONG] = "cumsum at " };
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  tsr_array *a = numbers(&f, TSR_SHAPE(4, 4), "x,-"), *xs = numbers(&f, TSR_SHAPE(3, 4, 4), "-,x");
  for (int kind = 0; kind < LOOPS; kind++) {
    tsr_function *fn = tsr_function_make(f.s, loops, .user = &kind, .explicit_shardings = true);
    tsr_function *plain = tsr_function_make(f.s, loops, .user = &kind);
    tsr_array *out = tsr_call(fn, a, xs);
    if (*found[kind] != '(') {
      CHECK(tsr_is_inert(out));
      CHECK_STR_HAS(tsr_message(f.s), found[kind]);
      tsr_scope_clear(f.s);
      continue;
    }
    char text[64];
    float got[48], want[48];
    size_t bytes = kind == STACKS ? sizeof got : sizeof got / 3;
    CHECK_STATUS(tsr_read(out, got, bytes), TSR_OK, f.s);
    CHECK_STATUS(tsr_read(tsr_call(plain, a, xs), want, bytes), TSR_OK, f.s);
    CHECK_BYTES(got, want, bytes);
    tsr_sharding at = tsr_sharding_of(out);
    tsr_sharding_text(&at, tsr_shape_of(out).rank, text, sizeof text);
    CHECK_STR(text, found[kind]);
  }
  close_fixture(&f);
}
