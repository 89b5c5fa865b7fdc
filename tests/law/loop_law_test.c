/* The law of loops: a random body, run as a loop inside a program and written out step by step, has
 * the same bits, nested, on any mesh; its gradient and that of its gradient are those of central
 * differences. And bodies that are wrong say so, and harm nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/gradient_check.h"
#include "support/law_fixture.h"
#include "support/wrapped.h"
#include "tessera.h"

enum { ROWS = 3, COLS = 4, CELLS = ROWS * COLS, CARRIES = 3, OPS = 6, STEPS = 4, MOST = 16 };

typedef tsr_array *const *given;

/* One line of a body: what it makes of two values before it. */
enum {
  ADD,
  SUB,
  MUL,
  TANH,
  CENTRE,
  PRODUCT,
  TOGETHER,
  KINDS_SMOOTH,
  LARGER = KINDS_SMOOTH,
  WHERE,
  KINDS
};
enum { PLAIN, COND, FORI, SCAN, NESTINGS };
enum { FINE, OTHER_TYPE, OTHER_SHAPE, OTHER_TREE, NOTHING, FOREIGN, READS, FAULTS };

typedef struct line {
  int kind, a, b;
  bool bare; /* nothing stands around it */
  wrapping around;
  const tsr_mesh *mesh;
} line;

/* A body as data. Its values: the carries, what it sees of the step, the matrix, then its lines. */
typedef struct recipe {
  line lines[OPS];
  int count, carries, next[CARRIES], y, nesting, fault, steps;
  const struct recipe *inner[2]; /* of what is nested, behind the lines, on the last two values */
  bool written;                  /* out, step by step */
} recipe;

static void draw_recipe(test_rng *rng, const tsr_mesh *mesh, recipe *r, int carries, bool smooth)
{
  *r = (recipe){ .carries = carries, .steps = (int)test_range(rng, 0, STEPS) };
  r->count = (int)test_range(rng, 1, OPS);
  int values = carries + 2;
  for (int i = 0; i < r->count; i++, values++) {
    r->lines[i].kind = (int)test_range(rng, 0, (smooth ? KINDS_SMOOTH : KINDS) - 1);
    r->lines[i].a = (int)test_range(rng, 0, values - 1);
    if (r->lines[i].a == carries + 1) r->lines[i].a = 0; /* the matrix is of another shape */
    r->lines[i].bare = test_range(rng, 0, 2) > 0;
    r->lines[i].around = wrapping_draw(rng, smooth);
    r->lines[i].mesh = mesh;
    r->lines[i].b = r->lines[i].kind == PRODUCT ? carries + 1 : (int)test_range(rng, 0, carries);
  }
  for (int i = 0; i < carries; i++) r->next[i] = (int)test_range(rng, carries + 2, values - 1);
  r->y = (int)test_range(rng, carries + 2, values - 1);
}

static tsr_array *at_place(tsr_scope *s, given in, void *user)
{
  (void)user;
  return tsr_pmean(tsr_mul(in[0], tsr_sin(tsr_add(tsr_axis_index(s, "x"), 1))), "x");
}

/* A line of a body on devices, which is the same at all of them. */
static tsr_array *at_places(tsr_scope *s, given in, void *user)
{
  const line *l = user;
  return l->bare ? at_place(s, in, NULL) : wrapped(l->around, s, at_place, NULL, in, 1);
}

static tsr_array *line_body(tsr_scope *s, given in, void *user)
{
  const line *l = user;
  tsr_array *a = in[0], *b = in[1];
  (void)s;
  switch (l->kind) {
  case ADD: return tsr_mul(tsr_add(a, b), 0.5);
  case SUB: return tsr_sub(tsr_mul(a, 0.75), tsr_mul(b, 0.25));
  case MUL: return tsr_sin(tsr_mul(a, b));
  case TANH: return tsr_tanh(tsr_add(a, tsr_mul(b, 0.1)));
  case CENTRE: return tsr_sub(a, tsr_mean(a, .dims = TSR_DIMS(1), .keep_dims = true));
  case PRODUCT: return tsr_tanh(tsr_matmul(a, b, .reproducible = true));
  case TOGETHER:
    a = tsr_shard_map(l->mesh, at_places, user, .in = { a }, .in_specs = { "" },
                      .out_specs = { "" });
    return tsr_add(a, tsr_mul(b, 0.25));
  case LARGER: return tsr_maximum(a, tsr_mul(b, 0.9));
  default: return tsr_where(tsr_gt(a, b), a, tsr_sin(b));
  }
}

/* Written out a line stands alone. */
static tsr_array *one_line(tsr_scope *s, const recipe *r, const line *l, tsr_array *const *v)
{
  tsr_array *const two[3] = { v[l->a], v[l->b], NULL };
  line own = *l;
  own.bare |= r->written;
  return own.bare || l->kind == TOGETHER ? line_body(s, two, &own)
                                         : wrapped(l->around, s, line_body, &own, two, 2);
}

static tsr_array *nested(tsr_scope *s, const recipe *r, tsr_array *const *v, int last);

/* The lines of a body on its values; what is nested is the last of them. Returns the last one. */
static int run_lines(tsr_scope *s, const recipe *r, tsr_array **v)
{
  int at = r->carries + 2;
  for (int i = 0; i < r->count; i++, at++) v[at] = one_line(s, r, &r->lines[i], v);
  if (!r->nesting) return at - 1;
  v[at] = nested(s, r, v, at - 1);
  return at;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* What is wrong with a result, if something is to be. */
static tsr_array *spoil(tsr_scope *s, const recipe *r, tsr_array *a)
{
  static double sink[CELLS];
  switch (r->fault) {
  case OTHER_TYPE: return tsr_cast(a, TSR_F32);
  case OTHER_SHAPE: return tsr_ravel(a);
  case OTHER_TREE: return tsr_tuple(s, a, a);
  case NOTHING: return NULL;
  case FOREIGN: return tsr_item(tsr_tuple(s, a), 1);
  case READS: return tsr_read(a, sink, sizeof sink) ? a : NULL;
  default: return a;
  }
}

/* v: carries, what is seen, the matrix. Gives the next carries in their place, returns y. */
static tsr_array *one_step(tsr_scope *s, const recipe *r, tsr_array **v)
{
  tsr_array *next[CARRIES];
  int last = run_lines(s, r, v);
  for (int i = 0; i < r->carries; i++) next[i] = v[r->nesting && !i ? last : r->next[i]];
  tsr_array *y = v[r->y];
  if (r->fault && r->carries) next[0] = spoil(s, r, next[0]);
  memcpy(v, next, (size_t)r->carries * sizeof *v);
  return y;
}

static tsr_array *carries_of(tsr_scope *s, const recipe *r, tsr_array *const *v)
{
  for (int i = 0; i < r->carries; i++)
    if (!v[i]) return NULL;
  return tsr_tuple_at(s, v, r->carries, TSR_HERE);
}

static tsr_array *scan_step(tsr_scope *s, given in, void *user)
{
  const recipe *r = user;
  tsr_array *v[MOST];
  for (int i = 0; i < r->carries; i++) v[i] = tsr_item(in[0], i);
  v[r->carries] = in[1];
  v[r->carries + 1] = in[2];
  tsr_array *y = one_step(s, r, v), *next = carries_of(s, r, v);
  return next ? tsr_tuple(s, next, y) : NULL;
}

/* in: the number, the carry, (what else is seen, the matrix). */
static tsr_array *fori_step(tsr_scope *s, given in, void *user)
{
  const recipe *r = user;
  tsr_array *v[MOST] = { in[1] };
  v[1] = tsr_mul(tsr_item(in[2], 0), tsr_mul(tsr_cast(in[0], TSR_F64), 0.125));
  v[2] = tsr_item(in[2], 1);
  one_step(s, r, v);
  return v[0];
}

static tsr_array *first_branch(tsr_scope *s, given in, void *user)
{
  tsr_array *v[MOST] = { in[0], in[1], in[2] };
  const recipe *r = user;
  one_step(s, r->inner[0], v);
  return v[0];
}

static tsr_array *second_branch(tsr_scope *s, given in, void *user)
{
  tsr_array *v[MOST] = { in[0], in[1], in[2] };
  const recipe *r = user;
  one_step(s, r->inner[1], v);
  return v[0];
}

/* ---- what is nested -------------------------------------------------------------------------- */

static tsr_array *two_of(tsr_scope *s, tsr_array *a, tsr_array *b)
{
  tsr_array *both[2] = { a, b };
  (void)s;
  return tsr_stack(both, 2, 0);
}

static tsr_array *written_fori(tsr_scope *s, const recipe *r, tsr_array *a, tsr_array *with)
{
  for (int64_t k = 1; k < 4; k++) {
    tsr_array *number = tsr_put(s, &k, TSR_I64, (tsr_shape){ 0 }, (tsr_sharding){ 0 });
    a = fori_step(s, (tsr_array *[]){ number, a, with, NULL }, (void *)(uintptr_t)r);
  }
  return a;
}

static tsr_array *written_scan(tsr_scope *s, const recipe *r, tsr_array **v, tsr_array *xs)
{
  int64_t steps = tsr_shape_of(xs).dims[0];
  tsr_array *ys[STEPS + 1], *matrix = v[r->carries + 1];
  for (int64_t k = 0; k < steps; k++) {
    tsr_array *row = tsr_squeeze(tsr_slice(xs, TSR_RANGE(k, k + 1)), TSR_DIMS(0));
    v[r->carries] = row;
    v[r->carries + 1] = matrix;
    ys[k] = one_step(s, r, v);
  }
  return steps ? tsr_stack(ys, (int)steps, 0) : NULL;
}

/* On the last two values and the matrix: a choice, a count of three, a scan of two steps. */
static tsr_array *nested(tsr_scope *s, const recipe *r, tsr_array *const *v, int last)
{
  tsr_array *a = v[last], *b = v[r->carries], *matrix = v[r->carries + 1];
  recipe *inner = (recipe *)(uintptr_t)r->inner[0];
  void *self = (void *)(uintptr_t)r;
  if (r->nesting ==
      COND) /* written out they are one choice, too: what it says is known to nobody */
    return tsr_cond(tsr_gt(tsr_sum(a), 0.1), first_branch, second_branch, self, a, b, matrix);
  if (r->nesting == FORI) {
    tsr_array *with = tsr_tuple(s, b, matrix);
    if (r->written) return written_fori(s, inner, a, with);
    return tsr_fori(1, 4, fori_step, inner, a, .with = with);
  }
  tsr_array *xs = two_of(s, b, a), *w[MOST] = { a, NULL, matrix };
  if (!r->written)
    return tsr_field(tsr_scan(scan_step, inner, tsr_tuple(s, a), .xs = xs, .with = matrix), "0.0");
  written_scan(s, inner, w, xs);
  return w[0];
}

/* ---- a trial --------------------------------------------------------------------------------- */

typedef struct trial {
  recipe loop, inner[2];
  bool reverse;
} trial;

static void draw_trial(test_rng *rng, const tsr_mesh *mesh, trial *t, bool smooth)
{
  draw_recipe(rng, mesh, &t->loop, (int)test_range(rng, 1, CARRIES), smooth);
  for (int i = 0; i < 2; i++) {
    draw_recipe(rng, mesh, &t->inner[i], 1, smooth);
    t->loop.inner[i] = &t->inner[i];
  }
  t->loop.nesting = (int)test_range(rng, 0, NESTINGS - 1);
  t->reverse = test_range(rng, 0, 1);
}

/* in: the stack, the matrix, the carries. Everything that comes of it, one array. */
static tsr_array *whole(tsr_scope *s, given in, void *user)
{
  const trial *t = user;
  const recipe *r = &t->loop;
  tsr_array *v[MOST], *ys = NULL, *xs = in[0];
  for (int i = 0; i < r->carries; i++) v[i] = in[2 + i];
  v[r->carries + 1] = in[1];
  if (r->written) {
    if (t->reverse) xs = tsr_flip(xs, TSR_DIMS(0));
    ys = written_scan(s, r, v, xs);
    if (t->reverse && ys) ys = tsr_flip(ys, TSR_DIMS(0));
  } else {
    tsr_array *out = tsr_scan(scan_step, (void *)(uintptr_t)r, carries_of(s, r, v), .xs = xs,
                              .with = in[1], .reverse = t->reverse);
    ys = tsr_item(out, 1);
    for (int i = 0; i < r->carries; i++) v[i] = tsr_item(tsr_item(out, 0), i);
  }
  tsr_array *all = tsr_stack(v, r->carries, 0);
  return ys ? tsr_concat(((tsr_array *[]){ all, ys }), 2, 0) : all;
}

static int arguments(tsr_scope *s, const tsr_mesh *mesh, test_rng *rng, const recipe *r,
                     tsr_array **out)
{
  for (int i = 0; i < 2 + r->carries; i++) {
    double data[STEPS * CELLS + COLS * COLS];
    for (int k = 0; k < STEPS * CELLS + COLS * COLS; k++) data[k] = test_uniform(rng) * 2 - 1;
    tsr_shape shape = i == 0   ? TSR_SHAPE(r->steps, ROWS, COLS)
                      : i == 1 ? TSR_SHAPE(COLS, COLS)
                               : TSR_SHAPE(ROWS, COLS);
    out[i] = tsr_put(s, data, TSR_F64, shape, law_sharding(rng, mesh, shape.rank));
  }
  return 2 + r->carries;
}

static size_t read_all(tsr_scope *s, tsr_array *a, double *out, uint64_t seed)
{
  size_t bytes = sizeof *out;
  for (int d = 0; d < tsr_shape_of(a).rank; d++) bytes *= (size_t)tsr_shape_of(a).dims[d];
  if (tsr_read(a, out, bytes)) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(s));
  return bytes;
}

static bool same_bits(tsr_runtime *rt, uint64_t seed)
{
  double found[(CARRIES + STEPS) * CELLS], want[(CARRIES + STEPS) * CELLS];
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  trial loop;
  draw_trial(&rng, mesh, &loop, false);
  trial out = loop;
  out.loop.written = true;
  for (int i = 0; i < 2; i++) {
    out.loop.inner[i] = &out.inner[i];
    out.inner[i].written = true;
  }
  tsr_array *in[2 + CARRIES + 1] = { NULL };
  int count = arguments(s, mesh, &rng, &loop.loop, in);
  tsr_array *a, *b = whole(s, in, &out);
  if (test_range(&rng, 0, 1)) a = whole(s, in, &loop);
  else a = tsr_call_at(tsr_function_make(s, whole, .user = &loop), in, count, TSR_HERE);
  size_t bytes = read_all(s, b, want, seed);
  CHECK_I64((int64_t)bytes, (int64_t)read_all(s, a, found, seed));
  for (size_t i = 0; i < bytes / sizeof *want; i++)
    if (memcmp(&found[i], &want[i], sizeof *want) != 0)
      FAIL("seed %llu: number %zu is %.17g, written out %.17g", (unsigned long long)seed, i,
           found[i], want[i]);
  tsr_scope_close(s);
  return loop.loop.steps > 0;
}

TEST_TIMEOUT(loops_have_the_bits_of_their_steps_written_out, 600)
{
  law_each_seed_on_8(1, test_quick() ? 40 : 400, 0.5, same_bits);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static bool slopes(tsr_runtime *rt, uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  trial t;
  draw_trial(&rng, mesh, &t, true);
  tsr_array *in[2 + CARRIES + 1] = { NULL };
  int count = arguments(s, mesh, &rng, &t.loop, in);
  gradient_check(&(gradient_case){ .name = "a loop",
                                   .s = s,
                                   .body = whole,
                                   .user = &t,
                                   .in = in,
                                   .count = count,
                                   .depth = seed % 4 ? 1 : 2,
                                   .seed = seed });
  tsr_scope_close(s);
  return t.loop.steps > 0;
}

TEST_TIMEOUT(gradients_of_loops_are_those_of_differences, 600)
{
  law_each_seed_on_8(5000, test_quick() ? 8 : 60, 0.5, slopes);
}

/* ---- bodies that are wrong ------------------------------------------------------------------- */

static bool wrong(tsr_runtime *rt, uint64_t seed)
{
  double found[(CARRIES + STEPS) * CELLS];
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  trial t;
  draw_trial(&rng, mesh, &t, false);
  bool deep = t.loop.nesting && test_range(&rng, 0, 1);
  (deep ? &t.inner[0] : &t.loop)->fault = (int)test_range(&rng, 1, FAULTS - 1);
  tsr_array *in[2 + CARRIES + 1] = { NULL };
  int count = arguments(s, mesh, &rng, &t.loop, in);
  tsr_function *f = tsr_function_make(s, whole, .user = &t);
  bool slope = test_range(&rng, 0, 1);
  tsr_array *a = tsr_call_at(slope ? tsr_grad(f) : f, in, count, TSR_HERE);
  bool failed = tsr_is_inert(a) || tsr_read(a, found, sizeof found);
  bool told = failed && tsr_scope_status(s) && strlen(tsr_message(s)) > 20;
  if (!told) FAIL("seed %llu: a wrong body is taken", (unsigned long long)seed);
  tsr_scope_close(s);
  same_bits(rt, seed);
  return told;
}

TEST_TIMEOUT(wrong_bodies_say_so_and_harm_nothing, 600)
{
  law_each_seed_on_8(9000, test_quick() ? 40 : 300, 0.9, wrong);
}
