/* Checkpoints of random functions that keep random values by their names: results, gradients and
 * derivatives along a direction are the same bits as without a checkpoint and as with checkpoints
 * that keep nothing. Names stand on values of all dtypes, in calls, loops, choices and checkpoints
 * in each other. LAW_SEED=n tries one; TEST_FULL=1 tries thousands. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/law_fixture.h"
#include "tessera.h"

enum { ROWS = 4, WIDTH = 3, LAYERS = 3, NAMES = 6, CELLS = ROWS * WIDTH };

/* How layers stand in the function. */
enum form { IN_LINE, SCANNED, CHOSEN, MAPPED, ON_DEVICES, FORMS };

enum mode { PLAIN, AGAIN, KEEPING, MODES };

/* A function by its seed: a body does the same each time it is traced. */
typedef struct drawn {
  uint64_t seed;
  const tsr_mesh *mesh;
  enum form form;
  enum mode mode;
  uint32_t seen;        /* the names that values have */
  uint32_t keep, inner; /* those that are kept, and by a checkpoint inside of another */
  bool twice;           /* layers are checkpoints of checkpoints */
} drawn;

static const char *const names[NAMES] = { "a", "b", "attention", "mlp out", "d", "e" };

/* A layer in the making. */
typedef struct making {
  drawn *of;
  test_rng rng;
  int depth;
} making;

static tsr_array *named(making *m, tsr_array *x)
{
  int n = (int)test_range(&m->rng, 0, NAMES - 1);
  m->of->seen |= 1u << n;
  return tsr_named(x, names[n]);
}

static tsr_array *steps(making *m, tsr_scope *s, tsr_array *x);

static tsr_array *part(tsr_scope *s, tsr_array *const *in, void *user)
{
  making inner = *(making *)user;
  return steps(&inner, s, in[0]);
}

static tsr_array *other_part(tsr_scope *s, tsr_array *const *in, void *user)
{
  making inner = *(making *)user;
  test_random(&inner.rng);
  return named(&inner, steps(&inner, s, in[0]));
}

static tsr_array *counted_part(tsr_scope *s, tsr_array *const *in, void *user)
{
  return part(s, (tsr_array *const[]){ tsr_add(in[1], tsr_mul(in[0], 0.1)) }, user);
}

static tsr_array *sliced_part(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = part(s, (tsr_array *const[]){ tsr_add(in[0], tsr_mul(in[1], 0.1)) }, user);
  return tsr_tuple(s, x, tsr_sum(x));
}

/* Calls that have a body of their own. */
static tsr_array *with_body(making *m, tsr_scope *s, tsr_array *x)
{
  making inner = { m->of, m->rng, m->depth + 1 };
  tsr_array *places = tsr_iota(s, TSR_F64, TSR_SHAPE(2), 0, (tsr_sharding){ 0 }), *out;
  int kind = (int)test_range(&m->rng, 0, 3);
  test_random(&m->rng);
  switch (kind) {
  case 0: return tsr_call(tsr_function_make(s, part, .user = &inner), x);
  case 1: return tsr_cond(tsr_gt(tsr_sum(x), 0), part, other_part, &inner, x);
  case 2: return tsr_fori(0, 2, counted_part, &inner, x);
  default:
    out = tsr_scan(sliced_part, &inner, x, .xs = places);
    return tsr_add(tsr_item(out, 0), tsr_mul(tsr_sum(tsr_item(out, 1)), 0.01));
  }
}

static tsr_array *step(making *m, tsr_scope *s, tsr_array *x)
{
  tsr_array *other;
  switch (test_range(&m->rng, 0, m->depth < 2 ? 11 : 9)) {
  case 0: return tsr_tanh(x);
  case 1: return tsr_sin(x);
  case 2: return tsr_add(tsr_mul(x, 0.9), 0.1);
  case 3: return tsr_where(named(m, tsr_gt(x, 0)), x, tsr_mul(x, 0.5));
  case 4:
    other = named(m, tsr_sum(tsr_square(x), .dims = TSR_DIMS(-1), .keep_dims = true));
    return tsr_div(x, tsr_add(other, 1));
  case 5: return tsr_cast(named(m, tsr_cast(x, TSR_F32)), TSR_F64);
  case 6:
    other = named(m, tsr_cast(tsr_mul(x, 4), TSR_I32));
    return tsr_add(tsr_exp(tsr_neg(tsr_square(x))), tsr_mul(tsr_cast(other, TSR_F64), 0.01));
  case 7: return tsr_add(x, tsr_mul(named(m, tsr_stop_gradient(x)), 0.1));
  case 8: return tsr_add(tsr_tanh(named(m, named(m, tsr_mul(x, 1.25)))), tsr_mul(x, 0.1));
  case 9: /* of no argument: it does not vary where the rest does */
    other = tsr_iota(s, TSR_F64, TSR_SHAPE(WIDTH), 0, (tsr_sharding){ 0 });
    return tsr_mul(x, tsr_add(named(m, tsr_cos(other)), 0.5));
  default: return with_body(m, s, x);
  }
}

static tsr_array *steps(making *m, tsr_scope *s, tsr_array *x)
{
  int count = m->depth ? 1 : (int)test_range(&m->rng, 1, 3);
  for (int i = 0; i < count; i++) {
    x = step(m, s, x);
    if (test_range(&m->rng, 0, 1)) x = named(m, x);
  }
  return x;
}

/* Each argument is used by one layer, so that what comes to it is added up in the same order
 * wherever the layer stands. */
static tsr_array *layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  drawn *d = user;
  making m = { d, test_seeded(d->seed), 0 };
  tsr_array *x = steps(&m, s, in[0]);
  tsr_array *h = named(&m, tsr_matmul(x, in[1], .reproducible = true));
  return tsr_add(steps(&m, s, h), tsr_mul(x, 0.5));
}

static tsr_function *keeping(tsr_function *f, uint32_t keep)
{
  tsr_checkpoint_args args = { .size = sizeof args, .function = f };
  for (int n = 0, count = 0; n < NAMES; n++)
    if (keep >> n & 1) args.keep[count++] = names[n];
  return tsr_checkpoint_at(&args, TSR_HERE);
}

static tsr_function *layer_of(tsr_scope *s, drawn *d)
{
  tsr_function *f = tsr_function_make(s, layer, .user = d);
  bool keeps = d->mode == KEEPING;
  if (d->mode == PLAIN) return f;
  if (d->twice) f = keeping(f, keeps ? d->inner : 0);
  return keeping(f, keeps ? d->keep : 0);
}

static tsr_array *scanned(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_call(layer_of(s, user), in[0], in[1]);
  return tsr_tuple(s, x, tsr_sum(x));
}

static tsr_array *called(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_call(layer_of(s, user), in[0], in[1]);
}

static tsr_array *passed(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], tsr_sum(in[1]));
}

static tsr_array *weight(tsr_array *w, int i)
{
  return tsr_reshape(tsr_slice(w, (tsr_range){ i, i + 1, 1 }), TSR_SHAPE(WIDTH, WIDTH));
}

static tsr_array *all_layers(tsr_scope *s, tsr_array *const *in, void *user)
{
  drawn *d = user;
  tsr_array *x = in[0], *w = in[1], *out;
  switch (d->form) {
  case IN_LINE:
    for (int i = 0; i < LAYERS; i++) x = tsr_call(layer_of(s, d), x, weight(w, i));
    return x;
  case SCANNED:
    out = tsr_scan(scanned, d, x, .xs = w);
    return tsr_add(tsr_item(out, 0), tsr_mul(tsr_sum(tsr_item(out, 1)), 0.1));
  case CHOSEN:
    x = tsr_cond(tsr_gt(tsr_sum(x), 0), called, passed, d, x, weight(w, 0));
    return tsr_cond(tsr_gt(tsr_sum(x), 1e9), called, passed, d, x, weight(w, 1));
  case MAPPED:
    x = tsr_reshape(x, TSR_SHAPE(2, ROWS / 2, WIDTH));
    x = tsr_call(tsr_vmap(layer_of(s, d), .in_dims = { 0, TSR_UNMAPPED }), x, weight(w, 0));
    return tsr_reshape(x, TSR_SHAPE(ROWS, WIDTH));
  default:
    return tsr_shard_map(d->mesh, called, d, .in = { x, weight(w, 0) }, .in_specs = { "x" },
                         .out_specs = { "x" });
  }
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *y = all_layers(s, in, user);
  return tsr_sum(tsr_mul(y, tsr_add(y, 0.25)));
}

static tsr_array *steepness(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *g = tsr_grad(tsr_function_make(s, loss, .user = user), .wrt = TSR_ARGS(0, 1));
  tsr_array *both = tsr_call(g, in[0], in[1]);
  return tsr_add(tsr_sum(tsr_square(tsr_item(both, 0))), tsr_sum(tsr_sin(tsr_item(both, 1))));
}

/* All that is compared. */
typedef struct found {
  double value[CELLS], by_x[CELLS], by_w[LAYERS * WIDTH * WIDTH], along[1], second[CELLS];
  double mapped[2 * CELLS], saved[CELLS];
} found;

static void read(tsr_scope *s, const drawn *d, const char *what, tsr_array *a, double *out,
                 int count)
{
  if (tsr_read(a, out, (size_t)count * sizeof *out))
    FAIL("seed %llu, mode %d, %s: %s", (unsigned long long)d->seed, (int)d->mode, what,
         tsr_message(s));
}

static found find(tsr_scope *s, drawn *d, tsr_array *x, tsr_array *w, bool twice)
{
  found out = { .second = { 0 }, .mapped = { 0 } };
  tsr_function *f = tsr_function_make(s, loss, .user = d);
  tsr_array *both = tsr_call(tsr_grad(f, .wrt = TSR_ARGS(0, 1)), x, w);
  tsr_array *along = tsr_item(tsr_call(tsr_jvp(f), x, w, tsr_cos(x)), 1);
  read(s, d, "value", tsr_call(tsr_function_make(s, all_layers, .user = d), x, w), out.value,
       CELLS);
  read(s, d, "by x", tsr_item(both, 0), out.by_x, CELLS);
  read(s, d, "by w", tsr_item(both, 1), out.by_w, LAYERS * WIDTH * WIDTH);
  read(s, d, "along", along, out.along, 1);
  if (d->form != ON_DEVICES) {
    tsr_function *each = tsr_vmap(tsr_grad(f), .in_dims = { 0, TSR_UNMAPPED });
    tsr_array *two = tsr_tile(tsr_reshape(x, TSR_SHAPE(1, ROWS, WIDTH)), 2, 1, 1);
    read(s, d, "mapped", tsr_call(each, two, w), out.mapped, 2 * CELLS);
  }
  const char *text;
  if (tsr_function_text_into(f, &text, x, w))
    FAIL("seed %llu: %s", (unsigned long long)d->seed, tsr_message(s));
  read(s, d, "saved", tsr_call(tsr_grad(tsr_function_from_text(s, text)), x, w), out.saved, CELLS);
  if (twice)
    read(s, d, "second", tsr_call(tsr_grad(tsr_function_make(s, steepness, .user = d)), x, w),
         out.second, CELLS);
  return out;
}

static void same(const drawn *d, const char *what, const double *a, const double *b, int count,
                 double within)
{
  for (int i = 0; i < count; i++) {
    double gap = a[i] - b[i], size = 1 + (a[i] < 0 ? -a[i] : a[i]);
    if (!memcmp(&a[i], &b[i], sizeof *a) || (gap <= within * size && -gap <= within * size))
      continue;
    FAIL("seed %llu, form %d, mode %d, keep %x, %s %d: %.17g, expected %.17g",
         (unsigned long long)d->seed, (int)d->form, (int)d->mode, d->keep, what, i, a[i], b[i]);
  }
}

static void try_one(uint64_t seed)
{
  static const char *const specs[] = { "x", "-", "-,x", "y" };
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  drawn d = { .seed = seed, .mesh = tsr_mesh_make(rt, "x=2, y=2") };
  bool twice = seed % 4 == 0;
  found all[MODES];
  d.form = (enum form)test_range(&rng, 0, FORMS - 1);
  d.twice = test_range(&rng, 0, 2) == 0;
  tsr_sharding on = tsr_on(d.mesh, specs[test_range(&rng, 0, 3)]);
  tsr_array *x = tsr_normal(s, .key = seed, .shape = TSR_SHAPE(ROWS, WIDTH), .on = on);
  tsr_array *w = tsr_normal(s, .key = seed + 1, .shape = TSR_SHAPE(LAYERS, WIDTH, WIDTH));
  CHECK_STATUS(tsr_eval((tsr_array *[]){ x, w }, 2), TSR_OK, s);
  for (d.mode = PLAIN; d.mode < MODES; d.mode++) {
    if (d.mode == KEEPING) {
      d.keep = (uint32_t)test_range(&rng, 0, (1 << NAMES) - 1) & d.seen;
      d.inner = (uint32_t)test_range(&rng, 0, (1 << NAMES) - 1) & d.seen;
    }
    all[d.mode] = find(s, &d, x, w, twice);
    const found *own = &all[d.mode], *first = &all[0];
    same(&d, "value", own->value, first->value, CELLS, 0);
    same(&d, "by x", own->by_x, first->by_x, CELLS, 0);
    same(&d, "by w", own->by_w, first->by_w, LAYERS * WIDTH * WIDTH, 0);
    same(&d, "along", own->along, first->along, 1, 0);
    same(&d, "saved", own->saved, own->by_x, CELLS, 0);
    same(&d, "mapped", own->mapped, first->mapped, 2 * CELLS, 0);
    same(&d, "second", own->second, first->second, CELLS, 1e-5);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(what_is_kept_changes_no_bit, 1500)
{
  law_each_seed(1, getenv("TEST_FULL") ? 2000 : test_quick() ? 20 : 120, try_one);
}
