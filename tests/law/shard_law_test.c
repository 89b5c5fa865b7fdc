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

/* ---- exchanges among places -------------------------------------------------------------------
 *
 * Permutes and collectives of groups against the list of elements that each element of a result is
 * made of, in each direction, and the bytes of those that lie on other devices. */

enum { SENT, SHUFFLED, ALL_OF, TO_ALL, SCATTERED, TOTAL, LARGEST, EXCHANGES };
enum { PLACES = 8, SIDE = 16, SHARD = SIDE * SIDE };

typedef struct exchange {
  tsr_mesh *mesh;
  const char *axes, *spec;
  int kind, devices, places, each, dim, split;
  int listed[PLACES], at[PLACES]; /* groups; where each place is listed */
  int source[PLACES];             /* of a permute: -1 for none */
  int64_t own[2], out[2];         /* the shape of a shard */
  tsr_dtype dtype;
} exchange;

static tsr_array *exchanged(tsr_scope *s, tsr_array *const *in, void *user)
{
  const exchange *e = user;
  tsr_collective_args args = { .size = sizeof args, .x = in[0], .axis = e->axes, .tiled = true };
  tsr_pair pairs[PLACES];
  (void)s;
  args.dim = e->dim;
  args.split = e->split;
  args.groups = e->listed;
  args.group_count = e->places / e->each;
  switch (e->kind) {
  case SENT: {
    tsr_permute_args sent = { .size = sizeof sent, .x = in[0], .axis = e->axes, .pairs = pairs };
    for (int p = 0; p < e->places; p++)
      if (e->source[p] >= 0) pairs[sent.count++] = (tsr_pair){ e->source[p], p };
    return tsr_ppermute_at(&sent, TSR_HERE);
  }
  case SHUFFLED: return tsr_pshuffle_at(in[0], e->axes, e->source, e->places, TSR_HERE);
  case ALL_OF: return tsr_all_gather_at(&args, TSR_HERE);
  case TO_ALL: return tsr_all_to_all_at(&args, TSR_HERE);
  case SCATTERED: return tsr_psum_scatter_at(&args, TSR_HERE);
  case TOTAL: return tsr_psum_at(&args, TSR_HERE);
  default: return tsr_pmax_at(&args, TSR_HERE);
  }
}

static tsr_array *exchanged_places(tsr_scope *s, tsr_array *const *in, void *user)
{
  const exchange *e = user;
  (void)s;
  return tsr_shard_map(e->mesh, exchanged, user, .in = { in[0] }, .in_specs = { e->spec },
                       .out_specs = { e->spec });
}

/* The sum of the results times whole weights: the gradient is the transpose of the exchange. */
static tsr_array *weighted(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_mul(exchanged_places(s, in, user), in[1]));
}

/* The elements of x [places, own], by number, that element [i, j] of a place is made of: how
 * many. */
static int made_of(const exchange *e, int place, int64_t i, int64_t j, int64_t from[PLACES])
{
  int64_t index[2] = { i, j };
  int first = e->at[place] / e->each * e->each, own = e->at[place] % e->each, count = 0;
  for (int k = 0; k < e->each; k++) {
    int64_t at[2] = { i, j }, piece = e->own[e->split] / e->each;
    int other = e->listed[first + k];
    if (e->kind == SENT || e->kind == SHUFFLED) other = k ? -1 : e->source[place];
    if (e->kind == ALL_OF) {
      if (index[e->dim] / e->own[e->dim] != k) continue;
      at[e->dim] %= e->own[e->dim];
    } else if (e->kind == TO_ALL) {
      int64_t wide = e->out[e->dim] / e->each;
      if (index[e->dim] / wide != k) continue;
      at[e->dim] %= wide;
      at[e->split] += own * piece;
    } else if (e->kind == SCATTERED) {
      at[e->dim] += own * (e->own[e->dim] / e->each);
    }
    if (other >= 0) from[count++] = (other * e->own[0] + at[0]) * e->own[1] + at[1];
  }
  return count;
}

/* The bytes that devices lack of what they are to have; those along axes that are not named have
 * the same. */
static int64_t least_bytes(const exchange *e)
{
  int64_t shard = e->own[0] * e->own[1], others = e->each - 1, count = 0;
  int64_t size = (int64_t)tsr_dtype_size(e->dtype);
  for (int p = 0; p < e->places; p++) count += e->source[p] >= 0 && e->source[p] != p;
  if (e->kind == ALL_OF) count = e->places * others;
  if (e->kind == TO_ALL || e->kind == SCATTERED) count = e->places * others, shard /= e->each;
  if (e->kind == TOTAL || e->kind == LARGEST) {
    /* Pieces are reduced by a place each and gathered, or all gather all where that is less. */
    int64_t piece = (shard + e->each - 1) / e->each;
    bool all = shard < e->each || shard < 2 * piece;
    count = e->places * others;
    shard = all ? shard : piece;
    /* Sums of i32 are of i64. */
    if (!all) size += e->kind == TOTAL && e->dtype == TSR_I32 ? 8 : size;
  }
  return count * shard * size * (e->devices / e->places);
}

static void draw_places(test_rng *rng, tsr_runtime *rt, exchange *e)
{
  static const int sizes[][2] = { { 8, 1 }, { 2, 4 }, { 4, 2 }, { 2, 3 }, { 6, 1 }, { 1, 5 } };
  static const char *const axes[] = { "x", "y", "x,y" }, *const joined[] = { "x", "y", "x+y" };
  const int *size = sizes[test_range(rng, 0, 5)], which = (int)test_range(rng, 0, 2);
  char text[32];
  snprintf(text, sizeof text, "x=%d,y=%d", size[0], size[1]);
  e->mesh = tsr_mesh_make(rt, text);
  e->axes = axes[which];
  e->spec = joined[which];
  e->devices = size[0] * size[1];
  e->places = which < 2 ? size[which] : e->devices;
  do e->each = (int)test_range(rng, 1, e->places);
  while (e->places % e->each);
  for (int i = 0; i < e->places; i++) {
    int k = (int)test_range(rng, 0, i);
    e->listed[i] = e->listed[k];
    e->listed[k] = i;
  }
  for (int i = 0; i < e->places; i++) {
    e->at[e->listed[i]] = i;
    e->source[i] = e->listed[(i * 5 + 1) % e->places];
  }
  /* Of five, 5 i + 1 is one place. */
  for (int i = 0; i < e->places && e->places % 5 == 0; i++) e->source[i] = e->listed[i];
  for (int i = 0; i < e->places && e->kind == SENT; i++)
    if (!test_range(rng, 0, 2)) e->source[i] = -1;
}

static exchange draw_exchange(test_rng *rng, tsr_runtime *rt)
{
  static const tsr_dtype dtypes[] = { TSR_F64, TSR_F32, TSR_I32, TSR_I64 };
  exchange e = { .kind = (int)test_range(rng, 0, EXCHANGES - 1) };
  draw_places(rng, rt, &e);
  e.dtype = dtypes[test_range(rng, 0, 3)];
  e.dim = (int)test_range(rng, 0, 1);
  e.split = e.kind == SCATTERED ? e.dim : (int)test_range(rng, 0, 1);
  for (int d = 0; d < 2; d++) e.own[d] = test_range(rng, 1, 3);
  bool pieces = e.kind == TO_ALL || e.kind == SCATTERED;
  if (pieces) e.own[e.split] = e.each * (test_range(rng, 0, 1) + 1);
  memcpy(e.out, e.own, sizeof e.out);
  if (e.kind == ALL_OF || e.kind == TO_ALL) e.out[e.dim] *= e.each;
  if (pieces) e.out[e.split] /= e.each;
  return e;
}

/* The bytes counted in one run, as they were explained, against the least. */
static void check_bytes(tsr_scope *s, const exchange *e, const char *what, uint64_t seed)
{
  tsr_run_stats stats = tsr_last_run(s);
  int64_t least = least_bytes(e), counted = stats.bytes_counted;
  if (counted == stats.bytes_explained && counted == least) return;
  FAIL("seed %llu: %s of kind %d over %s of %d places in groups of %d moves %lld bytes, says %lld; "
       "expected %lld",
       (unsigned long long)seed, what, e->kind, e->axes, e->places, e->each, (long long)counted,
       (long long)stats.bytes_explained, (long long)least);
}

static void check_values(tsr_scope *s, tsr_array *found, const double *want, int64_t count,
                         const char *what, uint64_t seed)
{
  static double got[PLACES * PLACES * SHARD];
  if (tsr_read(tsr_cast(found, TSR_F64), got, (size_t)count * sizeof *got))
    FAIL("seed %llu: %s: %s", (unsigned long long)seed, what, tsr_message(s));
  for (int64_t i = 0; i < count; i++)
    if (got[i] != want[i])
      FAIL("seed %llu: %s has %g at %lld, expected %g", (unsigned long long)seed, what, got[i],
           (long long)i, want[i]);
}

/* Both directions, on the host: element by element. */
static void exchange_here(const exchange *e, const double *x, const double *w, double *y, double *g)
{
  int64_t at = 0, from[PLACES];
  for (int p = 0; p < e->places; p++)
    for (int64_t i = 0; i < e->out[0]; i++)
      for (int64_t j = 0; j < e->out[1]; j++, at++) {
        int count = made_of(e, p, i, j, from);
        y[at] = count && e->kind == LARGEST ? x[from[0]] : 0;
        for (int k = 0; k < count; k++) {
          if (e->kind != LARGEST) y[at] += x[from[k]];
          else if (x[from[k]] > y[at]) y[at] = x[from[k]];
          g[from[k]] += w[at];
        }
      }
}

/* Whole numbers, of which sums are exact. */
static tsr_array *whole_numbers(tsr_scope *s, test_rng *rng, const exchange *e,
                                const int64_t *shape, double *out)
{
  int64_t rows = e->places * shape[0], count = rows * shape[1];
  for (int64_t i = 0; i < count; i++) out[i] = (double)test_range(rng, -50, 50);
  tsr_array *all = tsr_put(s, out, TSR_F64, TSR_SHAPE(rows, shape[1]), (tsr_sharding){ 0 });
  return tsr_reshard(tsr_cast(all, e->dtype), tsr_on(e->mesh, e->spec));
}

static void exchange_trial(uint64_t seed)
{
  static double x[PLACES * SHARD], w[PLACES * PLACES * SHARD], y[PLACES * PLACES * SHARD];
  static double g[PLACES * SHARD];
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  exchange e = draw_exchange(&rng, rt);
  tsr_array *given[3] = { whole_numbers(s, &rng, &e, e.own, x) };
  given[1] = whole_numbers(s, &rng, &e, e.out, w);
  memset(g, 0, sizeof g);
  exchange_here(&e, x, w, y, g);
  CHECK_STATUS(tsr_eval(given, 2), TSR_OK, s);
  tsr_array *made = exchanged_places(s, given, &e);
  CHECK_STATUS(tsr_eval(&made, 1), TSR_OK, s);
  check_bytes(s, &e, "the value", seed);
  check_values(s, made, y, e.places * e.out[0] * e.out[1], "the value", seed);
  if ((e.dtype == TSR_F64 || e.dtype == TSR_F32) && e.kind != LARGEST) {
    tsr_function *f = tsr_function_make(s, weighted, .user = &e);
    made = tsr_call_at(tsr_grad(f), given, 2, TSR_HERE);
    CHECK_STATUS(tsr_eval(&made, 1), TSR_OK, s);
    check_bytes(s, &e, "the gradient", seed);
    check_values(s, made, g, e.places * e.own[0] * e.own[1], "the gradient", seed);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(exchanges_move_what_devices_lack, 900)
{
  law_each_seed(1, test_quick() ? 80 : 600, exchange_trial);
}

/* ---- ragged ---------------------------------------------------------------------------------- */

enum { ROWS = 5, WIDE = 3, MOST_ROWS = PLACES * ROWS + 1, NUMBERS = PLACES * MOST_ROWS * WIDE };

static tsr_array *sent_rows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_ragged_all_to_all(in[0], user, .to = in[1], .starts = in[2], .sizes = in[3],
                               .places = in[4]);
}

static tsr_array *sent_among(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_shard_map(user, sent_rows, (void *)(uintptr_t) "x",
                       .in = { in[0], in[1], in[2], in[3], in[4] },
                       .in_specs = { "x", "x", "x", "x", "x" }, .out_specs = { "x" });
}

static tsr_array *sent_weighted(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_mul(sent_among(s, in, user), in[5]));
}

/* Rows that places send each other, by sender and receiver. A row that two senders give stays that
 * of the later one. */
typedef struct sendings {
  int places, rows; /* of a receiver */
  int64_t lists[3][PLACES * PLACES];
  int origin[PLACES * MOST_ROWS]; /* by row of all receivers: the row of all senders; -1: none */
  int64_t given, stay;            /* rows that are given to others, and those of them that stay */
} sendings;

static void find_origins(sendings *d)
{
  for (int r = 0; r < d->places * d->rows; r++) d->origin[r] = -1;
  for (int k = 0; k < d->places * d->places; k++) {
    int from = k / d->places, to = k % d->places;
    d->given += from == to ? 0 : d->lists[1][k];
    for (int64_t i = 0; i < d->lists[1][k]; i++)
      d->origin[to * d->rows + d->lists[2][k] + i] = (int)(from * ROWS + d->lists[0][k] + i);
  }
  for (int r = 0; r < d->places * d->rows; r++)
    d->stay += d->origin[r] >= 0 && d->origin[r] / ROWS != r / d->rows;
}

static sendings draw_sendings(test_rng *rng, int places)
{
  sendings d = { .places = places, .rows = 1 };
  for (int to = 0; to < places; to++) {
    int64_t at = test_range(rng, 0, 1);
    for (int from = 0; from < places; from++) {
      int k = from * places + to;
      d.lists[0][k] = test_range(rng, 0, ROWS);
      d.lists[1][k] = test_range(rng, 0, 3) ? test_range(rng, 0, ROWS - d.lists[0][k]) : 0;
      at -= test_range(rng, 0, 3) ? 0 : test_range(rng, 0, at);
      d.lists[2][k] = at;
      at += d.lists[1][k];
      d.rows = at > d.rows ? (int)at : d.rows;
    }
  }
  find_origins(&d);
  return d;
}

typedef struct ragged {
  uint64_t seed;
  tsr_scope *s;
  tsr_mesh *mesh;
  int copies; /* devices with the same rows */
  sendings d;
  double x[NUMBERS], to[NUMBERS], w[NUMBERS]; /* of all places */
  tsr_array *given[6];
} ragged;

static void check_numbers(const ragged *t, tsr_array *found, const double *want, int64_t rows,
                          const char *what)
{
  static double got[NUMBERS];
  CHECK_STATUS(tsr_read(found, got, (size_t)(rows * WIDE) * sizeof *got), TSR_OK, t->s);
  for (int64_t i = 0; i < rows * WIDE; i++)
    if (got[i] != want[i])
      FAIL("seed %llu: %s is %g at %lld, expected %g", (unsigned long long)t->seed, what, got[i],
           (long long)i, want[i]);
}

/* Rows are counted when they were sent; what is explained before are the lists, which places send
 * each other. */
static void check_rows(const ragged *t, const char *what, int64_t bytes)
{
  tsr_run_stats stats = tsr_last_run(t->s);
  int64_t lists = 3 * (t->d.places - 1) * t->d.places * (int64_t)sizeof(int64_t) * t->copies;
  if (stats.bytes_escaped == bytes * t->copies &&
      stats.bytes_counted == stats.bytes_explained + stats.bytes_escaped &&
      stats.bytes_explained <= lists)
    return;
  FAIL("seed %llu: %s: %lld bytes of rows, expected %lld; %lld of all, of which %lld explained, at "
       "most %lld of lists",
       (unsigned long long)t->seed, what, (long long)stats.bytes_escaped,
       (long long)(bytes * t->copies), (long long)stats.bytes_counted,
       (long long)stats.bytes_explained, (long long)lists);
}

static void check_sent(ragged *t)
{
  static double y[NUMBERS];
  int64_t rows = t->d.places * t->d.rows;
  tsr_array *made = sent_among(t->s, t->given, t->mesh);
  for (int64_t r = 0; r < rows; r++)
    memcpy(y + r * WIDE, t->d.origin[r] < 0 ? t->to + r * WIDE : t->x + t->d.origin[r] * WIDE,
           WIDE * sizeof *y);
  CHECK_STATUS(tsr_eval(&made, 1), TSR_OK, t->s);
  check_rows(t, "the value", t->d.stay * WIDE * (int64_t)sizeof *y);
  check_numbers(t, made, y, rows, "the value");
}

/* Each row takes back what is due to all that it became. Of each row that was given a byte says
 * whether it stayed. */
static void check_sent_back(ragged *t)
{
  static double gx[NUMBERS], gto[NUMBERS];
  int64_t rows = t->d.places * t->d.rows;
  tsr_function *f = tsr_function_make(t->s, sent_weighted, .user = t->mesh);
  tsr_array *both = tsr_call_at(tsr_grad(f, .wrt = TSR_ARGS(0, 1)), t->given, 6, TSR_HERE);
  tsr_array *made[2] = { tsr_item(both, 0), tsr_item(both, 1) };
  memset(gx, 0, sizeof gx);
  memset(gto, 0, sizeof gto);
  for (int64_t i = 0; i < rows * WIDE; i++) {
    int origin = t->d.origin[i / WIDE];
    if (origin < 0) gto[i] = t->w[i];
    else gx[origin * WIDE + i % WIDE] += t->w[i];
  }
  CHECK_STATUS(tsr_eval(made, 2), TSR_OK, t->s);
  check_rows(t, "the gradient", t->d.stay * WIDE * (int64_t)sizeof *gx + t->d.given);
  check_numbers(t, made[0], gx, (int64_t)t->d.places * ROWS, "the gradient of x");
  check_numbers(t, made[1], gto, rows, "the gradient of .to");
}

static void ragged_trial(uint64_t seed)
{
  static const char *const meshes[] = { "x=8", "x=4,y=2", "x=2,y=3", "x=1", "x=5" };
  static const int copies[] = { 1, 2, 3, 1, 1 };
  static ragged t;
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  int which = (int)test_range(&rng, 0, 4);
  t = (ragged){ .seed = seed, .s = tsr_scope_open(rt), .copies = copies[which] };
  t.mesh = tsr_mesh_make(rt, meshes[which]);
  t.d = draw_sendings(&rng, (int)tsr_mesh_axis_size(t.mesh, "x"));
  for (int i = 0; i < NUMBERS; i++) t.x[i] = i + 1, t.to[i] = -i, t.w[i] = i % 97 - 50;
  tsr_sharding on = tsr_on(t.mesh, "x");
  tsr_shape all = TSR_SHAPE(t.d.places * t.d.rows, WIDE);
  t.given[0] = tsr_put(t.s, t.x, TSR_F64, TSR_SHAPE(t.d.places * ROWS, WIDE), on);
  t.given[1] = tsr_put(t.s, t.to, TSR_F64, all, on);
  for (int i = 0; i < 3; i++)
    t.given[2 + i] = tsr_put(t.s, t.d.lists[i], TSR_I64, TSR_SHAPE(t.d.places * t.d.places), on);
  t.given[5] = tsr_put(t.s, t.w, TSR_F64, all, on);
  CHECK_STATUS(tsr_eval(t.given, 6), TSR_OK, t.s);
  check_sent(&t);
  check_sent_back(&t);
  tsr_scope_close(t.s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(ragged_rows_alone_are_sent_there_and_back, 900)
{
  law_each_seed(1, test_quick() ? 40 : 200, ragged_trial);
}
