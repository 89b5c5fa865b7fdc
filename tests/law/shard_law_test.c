/* The law of per-device code: what random bodies make of shards, joined by collectives, is bit for
 * bit what the global program makes of the whole, on random meshes and specs. */
#include <stdio.h>
#include <string.h>

#include "support/law_fixture.h"

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
