/* The law of per-device code: what random bodies make of shards, joined by collectives, is bit for
 * bit what the global program makes of the whole, on random meshes and specs. */
#include <stdio.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/wrapped.h"

enum { STEPS = 5, CALLS = 6 };

/* What both do, on the rows of x [r, c]. Numbers are whole: a shard's sum of others would be
 * rounded before it meets those of the others (docs/NUMERICS.md). */
enum { SCALE, CENTRE, SHARE, TURN, GATHER, EXTREME };

typedef struct plan {
  tsr_mesh *mesh;
  int steps[STEPS], count;
  const char *rows; /* the axis that cuts dim 0; NULL: none does */
  const char *columns;
  int64_t shard; /* rows of one */
} plan;

/* A sum over a dim, of shards over the axis that cuts it, too. */
static tsr_array *sum(tsr_array *x, int dim, const char *axis)
{
  tsr_array *part = tsr_sum(x, .dims = tsr_dims_of(&dim, 1), .keep_dims = true);
  return axis ? tsr_psum(part, axis) : part;
}

static tsr_array *most(tsr_array *x, const char *axis)
{
  tsr_array *part = tsr_max(x, .dims = TSR_DIMS(0), .keep_dims = true);
  return axis ? tsr_pmax(part, axis) : part;
}

/* Rows turned by those of one shard. */
static tsr_array *turn(const plan *p, tsr_array *x, bool here)
{
  tsr_pair pairs[8];
  tsr_permute_args args = { .size = sizeof args, .x = x, .axis = p->rows, .pairs = pairs };
  if (!here || !p->rows) return tsr_roll(x, p->shard, 0);
  args.count = (int)tsr_mesh_axis_size(p->mesh, p->rows);
  for (int i = 0; i < args.count; i++) pairs[i] = (tsr_pair){ i, (i + 1) % args.count };
  return tsr_ppermute_at(&args, TSR_HERE);
}

/* x less its rows in the reverse order of shards, by all rows at each place. */
static tsr_array *gather(const plan *p, tsr_scope *s, tsr_array *x, bool here)
{
  tsr_array *all = here && p->rows ? tsr_all_gather(x, p->rows, .tiled = true) : x;
  tsr_array *back = tsr_flip(all, TSR_DIMS(0));
  if (!here || !p->rows) return tsr_sub(x, back);
  tsr_array *first = tsr_mul(tsr_axis_index(s, p->rows), p->shard);
  tsr_array *zero = tsr_full(s, 0, TSR_I64, TSR_SCALAR, (tsr_sharding){ 0 });
  tsr_array *start = tsr_stack((tsr_array *[]){ first, zero }, 2, 0);
  return tsr_sub(x, tsr_dynamic_slice(back, start, tsr_shape_of(x)));
}

static tsr_array *run(const plan *p, tsr_scope *s, tsr_array *x, bool here)
{
  const char *rows = here ? p->rows : NULL, *columns = here ? p->columns : NULL;
  for (int i = 0; i < p->count; i++) {
    switch (p->steps[i]) {
    case SCALE: x = tsr_add(tsr_mul(x, 3), 2); break;
    case CENTRE: x = tsr_sub(x, tsr_mul(sum(x, 0, rows), 2)); break;
    case SHARE: x = tsr_floor(tsr_div(x, tsr_add(tsr_abs(sum(x, 1, columns)), 1))); break;
    case TURN: x = turn(p, x, here); break;
    case GATHER: x = gather(p, s, x, here); break;
    default: x = tsr_sub(x, most(x, rows)); break;
    }
  }
  return x;
}

static tsr_array *on_shards(tsr_scope *s, tsr_array *const *in, void *user)
{
  return run(user, s, in[0], true);
}

static const char *draw_axis(test_rng *rng, const char *other)
{
  static const char *const names[] = { "x", "y" };
  const char *name = names[test_range(rng, 0, 1)];
  return test_range(rng, 0, 3) == 0 || (other && !strcmp(name, other)) ? NULL : name;
}

static void one_trial(uint64_t seed)
{
  static const char *const meshes[] = { "x=2,y=4", "x=4,y=2", "x=8,y=1", "x=1,y=2", "x=2,y=3" };
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  plan p = { .mesh = tsr_mesh_make(rt, meshes[test_range(&rng, 0, 4)]) };
  p.rows = draw_axis(&rng, NULL);
  p.columns = draw_axis(&rng, p.rows);
  p.shard = test_range(&rng, 1, 3);
  p.count = (int)test_range(&rng, 1, STEPS);
  for (int i = 0; i < p.count; i++) p.steps[i] = (int)test_range(&rng, 0, CALLS - 1);
  int64_t r = p.shard * (p.rows ? tsr_mesh_axis_size(p.mesh, p.rows) : 1);
  int64_t c = test_range(&rng, 1, 3) * (p.columns ? tsr_mesh_axis_size(p.mesh, p.columns) : 1);
  char spec[32];
  snprintf(spec, sizeof spec, "%s,%s", p.rows ? p.rows : "-", p.columns ? p.columns : "-");
  tsr_array *x = tsr_uniform(s, .key = seed, .shape = TSR_SHAPE(r, c), .low = -9, .high = 9);
  x = tsr_floor(x);
  x = tsr_reshard(x, law_sharding(&rng, p.mesh, 2));
  tsr_array *found = tsr_shard_map(p.mesh, on_shards, &p, .in = { x }, .in_specs = { spec },
                                   .out_specs = { spec });
  tsr_array *want = run(&p, s, x, false);
  double a[24 * 24], b[24 * 24];
  size_t bytes = (size_t)(r * c) * sizeof *a;
  CHECK(bytes <= sizeof a);
  if (tsr_read(found, a, bytes) || tsr_read(want, b, bytes))
    FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(s));
  if (memcmp(a, b, bytes)) FAIL("seed %llu: shards give other bits", (unsigned long long)seed);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(bodies_on_shards_are_the_global_program, 900)
{
  law_each_seed(1, test_quick() ? 60 : 600, one_trial);
}

/* ---- what stands around an instruction ------------------------------------------------------- */

enum { GIVEN = 4, LINES = 5, VALUES = GIVEN + 2 * LINES };

/* One instruction on two values of one shape [r, c], which may differ along an axis or not. */
enum {
  SMOOTH,
  TIMES,
  SUMMED,
  AVERAGED,
  GATHERED,
  DEALT,
  SHIFTED,
  PLACED,
  FIRST,
  MIXED,
  SLOPED,
  KINDS
};

typedef struct instruction {
  int kind, a, b;
  const char *axis;
  wrapping around;
} instruction;

/* Along which axes an array may differ. */
enum { ALONG_X = 1, ALONG_Y = 2, ALONG_BOTH = 3 };

/* A body of such instructions. Of its arguments number 0 is the same everywhere, the others differ
 * along x, along y, and along both. */
typedef struct body {
  const tsr_mesh *mesh;
  instruction lines[LINES];
  int count;
  bool bare;   /* nothing stands around its instructions */
  bool mapped; /* its places are elements, of maps named x and y, and no devices */
  int along[2 * LINES];
} body;

static const char *const specs[] = { "", "x", "-,y", "x,y" };

static tsr_array *own_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_psum(tsr_sum(tsr_sin(tsr_mul(in[0], in[1]))), user);
}

/* Each place's [r, c] as many times as there are places, so that each gets one. */
static tsr_array *dealt(const char *axis, tsr_scope *s, tsr_array *x)
{
  int64_t n = tsr_axis_size(s, axis);
  tsr_array *by = tsr_cos(tsr_iota(s, TSR_F64, TSR_SHAPE(n, 1, 1), 0, (tsr_sharding){ 0 }));
  return tsr_psum_scatter(tsr_mul(tsr_expand_dims(x, TSR_DIMS(0)), by), axis);
}

static tsr_array *gathered(const char *axis, tsr_scope *s, tsr_array *x)
{
  int64_t n = tsr_axis_size(s, axis);
  tsr_array *by = tsr_cos(tsr_iota(s, TSR_F64, TSR_SHAPE(n, 1, 1), 0, (tsr_sharding){ 0 }));
  return tsr_sum(tsr_mul(tsr_all_gather(x, axis), by), .dims = TSR_DIMS(0));
}

static tsr_array *one_value(tsr_scope *s, tsr_array *const *in, void *user)
{
  const instruction *l = user;
  tsr_array *a = in[0], *b = in[1];
  switch (l->kind) {
  case SMOOTH: return tsr_tanh(tsr_add(tsr_mul(a, 0.7), tsr_mul(b, 0.4)));
  case TIMES: return tsr_mul(tsr_sin(a), tsr_sum(b, .dims = TSR_DIMS(1), .keep_dims = true));
  case SUMMED: return tsr_tanh(tsr_psum(tsr_mul(a, b), l->axis));
  case AVERAGED: return tsr_add(tsr_pmean(tsr_sin(a), l->axis), tsr_mul(b, 0.3));
  case GATHERED: return tsr_add(gathered(l->axis, s, a), b);
  case DEALT: return tsr_mul(dealt(l->axis, s, a), tsr_add(b, 1));
  case SHIFTED: return tsr_add(tsr_ppermute(tsr_mul(a, b), l->axis, { 0, 1 }, { 1, 0 }), a);
  case PLACED: return tsr_mul(a, tsr_sin(tsr_add(tsr_mul(tsr_axis_index(s, l->axis), 0.5), b)));
  case FIRST: return tsr_sub(tsr_pbroadcast(tsr_square(a), l->axis, 1), b);
  case MIXED: return tsr_mul(tsr_sin(b), tsr_add(tsr_psum(tsr_mul(a, b), l->axis), tsr_square(b)));
  default:
    return tsr_call(tsr_grad(tsr_function_make(s, own_loss, .user = (void *)(uintptr_t)l->axis)), a,
                    b);
  }
}

/* Another beside it, which may be the same where that differs. */
static tsr_array *instruct(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *beside = tsr_sin(tsr_mul(in[0], ((const instruction *)user)->kind + 1.0));
  return tsr_tuple(s, one_value(s, in, user), beside);
}

/* All values that it makes. */
static tsr_array *body_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  body *p = user;
  tsr_array *at[VALUES];
  memcpy(at, in, sizeof *at * GIVEN);
  for (int i = 0; i < p->count; i++) {
    instruction *l = &p->lines[i];
    tsr_array *const two[3] = { at[l->a], at[l->b], NULL };
    tsr_array *made = p->bare ? instruct(s, two, l) : wrapped(l->around, s, instruct, l, two, 2);
    for (int k = 0; k < 2; k++) at[GIVEN + 2 * i + k] = tsr_item(made, k);
  }
  return tsr_tuple_at(s, at + GIVEN, 2 * p->count, TSR_HERE);
}

/* A body at all places: its arguments differ as their numbers say, its results along `out`. */
static tsr_array *at_places(const body *p, tsr_scope *s, tsr_body_fn *of, tsr_array *const *in,
                            const int *out, int count)
{
  tsr_function *f = tsr_function_make(s, of, .user = (void *)(uintptr_t)p);
  tsr_shard_map_args args = { .size = sizeof args };
  for (int i = 0; i < GIVEN; i++) args.in[i] = in[i], args.in_specs[i] = specs[i];
  for (int i = 0; i < count; i++) args.out_specs[i] = specs[out[i]];
  if (!p->mapped) return tsr_shard_map_at(p->mesh, of, (void *)(uintptr_t)p, &args, TSR_HERE);
  for (int axis = ALONG_Y; axis >= ALONG_X; axis--) {
    tsr_vmap_args map = { .size = sizeof map, .function = f, .axis = axis == ALONG_X ? "x" : "y" };
    for (int i = 0; i < GIVEN; i++) map.in_dims[i] = i & axis ? 0 : TSR_UNMAPPED;
    for (int i = 0; i < count; i++) map.out_dims[i] = out[i] & axis ? 0 : TSR_UNMAPPED;
    f = tsr_vmap_at(&map, TSR_HERE);
  }
  return tsr_call_at(f, in, GIVEN, TSR_HERE);
}

static tsr_array *on_places(tsr_scope *s, tsr_array *const *in, void *user)
{
  const body *p = user;
  return at_places(p, s, body_of, in, p->along, 2 * p->count);
}

/* The sum of squares of a tree. */
static tsr_array *squares(tsr_scope *s, tsr_array *tree)
{
  tsr_array *sum = tsr_num(s, 0.0);
  if (tsr_is_inert(tree)) return tree;
  for (int i = 0; i < tsr_item_count(tree); i++)
    sum = tsr_add(sum, tsr_sum(tsr_square(tsr_item(tree, i))));
  return sum;
}

/* What a body loses by itself: gradients that are taken in it are those of the sum over places. */
static tsr_array *own_total(tsr_scope *s, tsr_array *const *in, void *user)
{
  return squares(s, body_of(s, in, user));
}

static tsr_array *total(tsr_scope *s, tsr_array *const *in, void *user)
{
  return squares(s, on_places(s, in, user));
}

static tsr_dims all_given(void)
{
  return (tsr_dims){ .bits = (1u << GIVEN) - 1 };
}

static tsr_array *slopes_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, own_total, .user = user);
  return tsr_call_at(tsr_grad(f, .wrt = all_given()), in, GIVEN, TSR_HERE);
}

static const int each[2 * LINES] = { 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 };

/* Gradients that are taken in a body differ as what they are by; of a map each element has its own
 * of all. */
static tsr_array *inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  static const int alike[] = { 0, ALONG_X, ALONG_Y, ALONG_BOTH };
  const body *p = user;
  return at_places(p, s, slopes_inside, in, p->mapped ? each : alike, GIVEN);
}

static tsr_array *inside_total(tsr_scope *s, tsr_array *const *in, void *user)
{
  return squares(s, inside(s, in, user));
}

static tsr_array *ahead_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *all[2 * GIVEN];
  tsr_function *f = tsr_function_make(s, body_of, .user = user);
  for (int i = 0; i < 2 * GIVEN; i++) all[i] = i < GIVEN ? in[i] : tsr_cos(in[i - GIVEN]);
  return tsr_item(tsr_call_at(tsr_jvp(f, .wrt = all_given()), all, 2 * GIVEN, TSR_HERE), 1);
}

static tsr_array *ahead(tsr_scope *s, tsr_array *const *in, void *user)
{
  const body *p = user;
  return at_places(p, s, ahead_inside, in, p->mapped ? each : p->along, 2 * p->count);
}

/* What is asked of a body, as a tree or an array. */
static tsr_array *asked(tsr_scope *s, tsr_array *const *in, int what, body *p)
{
  tsr_function *f;
  switch (what) {
  case 0: return on_places(s, in, p);
  case 1: f = tsr_grad(tsr_function_make(s, total, .user = p), .wrt = all_given()); break;
  case 2: return inside(s, in, p);
  case 3: f = tsr_grad(tsr_function_make(s, inside_total, .user = p), .wrt = all_given()); break;
  default: return ahead(s, in, p);
  }
  return tsr_call_at(f, in, GIVEN, TSR_HERE);
}

enum { ASKED = 5 };
static const char *const asked_names[ASKED] = { "the value", "the gradient", "the gradient inside",
                                                "the gradient of that", "the jvp inside" };

static void describe(const body *p, char *out, size_t room)
{
  size_t at = (size_t)snprintf(out, room, "\n  %s", p->mapped ? "mapped" : "on a mesh");
  for (int i = 0; i < p->count; i++) {
    const instruction *l = &p->lines[i];
    at += (size_t)snprintf(out + at, room - at, "\n  %d.. = %d(%d, %d) over %s in %s, %s",
                           GIVEN + 2 * i, l->kind, l->a, l->b, l->axis,
                           wrapped_names[l->around.kinds[0]], wrapped_names[l->around.kinds[1]]);
  }
}

static void check_alike(tsr_scope *s, const tsr_array *a, const tsr_array *b, const char *what,
                        uint64_t seed, const body *p)
{
  char text[800] = "";
  double off[2] = { 1, 0 };
  describe(p, text, sizeof text);
  tsr_array *found = (tsr_array *)(uintptr_t)a, *want = (tsr_array *)(uintptr_t)b;
  if (strcmp(tsr_type_of(found), tsr_type_of(want)) != 0)
    FAIL("seed %llu: %s is %s, bare %s%s", (unsigned long long)seed, what, tsr_type_of(found),
         tsr_type_of(want), text);
  tsr_array *both[2] = { tsr_max(tsr_abs(tsr_sub(found, want))), tsr_max(tsr_abs(want)) };
  if (tsr_read(tsr_stack(both, 2, 0), off, sizeof off))
    FAIL("seed %llu: %s: %s%s", (unsigned long long)seed, what, tsr_message(s), text);
  if (!(off[0] <= 1e-10 * (1 + off[1])))
    FAIL("seed %llu: %s is off by %g of %g%s", (unsigned long long)seed, what, off[0], off[1],
         text);
}

static void draw_body(test_rng *rng, body *p)
{
  static const char *const axes[] = { "x", "y", "x,y" };
  for (int i = 0; i < p->count; i++) {
    instruction *l = &p->lines[i];
    l->kind = (int)test_range(rng, 0, KINDS - 1);
    l->axis = axes[test_range(rng, 0, l->kind == SHIFTED || l->kind == FIRST ? 1 : 2)];
    l->a = (int)test_range(rng, i ? GIVEN - 1 : 0, GIVEN + 2 * i - 1);
    l->b = (int)test_range(rng, 0, GIVEN + 2 * i - 1);
    l->around = wrapping_draw(rng, true);
  }
}

static void give(tsr_scope *s, const body *p, uint64_t seed, tsr_array **in)
{
  for (int i = 0; i < GIVEN; i++) {
    int64_t x = i & ALONG_X ? tsr_mesh_axis_size(p->mesh, "x") : 1;
    int64_t y = i & ALONG_Y ? tsr_mesh_axis_size(p->mesh, "y") : 1;
    tsr_shape shape = { .rank = 0 };
    if (p->mapped && i & ALONG_X) shape.dims[shape.rank++] = x;
    if (p->mapped && i & ALONG_Y) shape.dims[shape.rank++] = y;
    shape.dims[shape.rank++] = p->mapped ? 2 : 2 * x;
    shape.dims[shape.rank++] = p->mapped ? 3 : 3 * y;
    in[i] = tsr_uniform(s, .key = seed * 9 + (uint64_t)i, .shape = shape, .low = -1, .high = 1,
                        .dtype = TSR_F64);
  }
}

static bool may_be(tsr_runtime *rt, const body *p, uint64_t seed)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *in[GIVEN];
  give(s, p, seed, in);
  on_places(s, in, (void *)(uintptr_t)p);
  tsr_status told = tsr_scope_status(s);
  tsr_scope_close(s);
  return !told;
}

/* Finds for each value of the bare body where it is the same, which is asked of all bodies then. */
static void find_along(tsr_runtime *rt, body *p, uint64_t seed)
{
  p->bare = true;
  memcpy(p->along, each, sizeof p->along);
  for (int i = 0; i < 2 * p->count; i++) {
    p->along[i] = 0;
    while (p->along[i] < ALONG_BOTH && !may_be(rt, p, seed)) p->along[i]++;
  }
}

static void wrap_trial(uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  body p = { .mesh = tsr_mesh_make(rt, test_range(&rng, 0, 1) ? "x=2,y=2" : "x=2,y=4") };
  p.mapped = test_range(&rng, 0, 2) == 0;
  p.count = (int)test_range(&rng, 1, LINES);
  draw_body(&rng, &p);
  tsr_array *in[GIVEN + 1] = { NULL };
  find_along(rt, &p, seed);
  give(s, &p, seed, in);
  CHECK_STATUS(tsr_eval(in, GIVEN), TSR_OK, s);
  for (int what = 0; what < ASKED; what++) {
    tsr_array *both[2];
    for (int bare = 0; bare < 2; bare++) {
      p.bare = bare;
      both[bare] = asked(s, in, what, &p);
    }
    if (tsr_is_inert(both[1]))
      FAIL("seed %llu: bare: %s", (unsigned long long)seed, tsr_message(s));
    if (tsr_is_inert(both[0])) {
      char text[800] = "";
      describe(&p, text, sizeof text);
      FAIL("seed %llu: %s: %s%s", (unsigned long long)seed, asked_names[what], tsr_message(s),
           text);
    }
    for (int i = 0; i < tsr_item_count(both[1]); i++)
      check_alike(s, tsr_item(both[0], i), tsr_item(both[1], i), asked_names[what], seed, &p);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(what_stands_around_an_instruction_changes_nothing, 1500)
{
  law_each_seed(1, test_quick() ? 8 : 40, wrap_trial);
}
