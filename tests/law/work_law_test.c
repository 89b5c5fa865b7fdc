/* Work is shared where that is cheaper: random programs of products over arrays whose cut dim a
 * reshape, a loop, a slice or a product takes away, on random meshes, with and without speeds.
 *
 *   bits     those of the program without a mesh, whatever the speeds
 *   time     of what the planner takes never more than of what it would take if it shared no work
 *   places   what a user constrains lies as it was asked to
 *
 * The time of a plan is counted here: the bytes of its notes, and of each product the flops of the
 * device with the most of it, as all devices wait for that one, but for the flops that the product
 * has. LAW_SEED=n tries one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/flow.h"
#include "support/law_fixture.h"
#include "support/partition_check.h"

typedef enum form { STACKED, SUMMED, SLOPES, NESTED, INDEXED, SLICES, AT_ONCE, MAPPED, FORMS } form;

/* relu(x w) v of micro-batches of x [micro * rows, width]. */
typedef struct trial {
  form form;
  int64_t micro, rows, width, made;
  tsr_sharding x, w, wish;
  bool wishes; /* `wish` is where a user constrains what a product gives */
} trial;

static int64_t better,
    tried; /* plans that take less time than without shared work, of those tried */

/* ---- programs ---- */

/* Whole numbers, so that no sum of products rounds. */
static tsr_array *net(const trial *t, tsr_array *x, tsr_array *w)
{
  tsr_array *y = tsr_matmul(x, w);
  if (t->wishes) y = tsr_constrain(y, t->wish);
  return tsr_maximum(y, 0);
}

static tsr_array *stack_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_tuple(s, tsr_add(in[0], 1), net(user, in[1], in[2]));
}

static tsr_array *sum_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *y = net(user, in[1], in[2]);
  return tsr_tuple(s, tsr_add(in[0], tsr_sum(y)), tsr_max(y, .dims = TSR_DIMS(0)));
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(net(user, in[1], in[0]));
}

static tsr_array *slope_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *slope = tsr_call(tsr_grad(tsr_function_make(s, loss, .user = user)), in[2], in[1]);
  return tsr_tuple(s, tsr_add(in[0], slope), tsr_sum(slope));
}

static tsr_array *scanned(tsr_scope *s, const trial *t, tsr_array *const *in, tsr_body_fn *step,
                          tsr_shape carry)
{
  tsr_array *zero = tsr_full(s, 0, TSR_F32, carry, (tsr_sharding){ .mesh = NULL });
  tsr_array *xs = tsr_reshape(in[0], TSR_SHAPE(t->micro, t->rows, t->width));
  return tsr_scan(step, (void *)(uintptr_t)t, zero, .xs = xs, .with = in[1]);
}

/* A loop over halves of a micro-batch in a loop over micro-batches. */
static tsr_array *nested_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const trial *t = user;
  tsr_array *halves = tsr_reshape(in[1], TSR_SHAPE(2, t->rows / 2, t->width));
  tsr_array *out = tsr_scan(sum_step, user, in[0], .xs = halves, .with = in[2]);
  return tsr_tuple(s, tsr_item(out, 0), tsr_sum(tsr_item(out, 1)));
}

/* The micro-batch of a number. */
static tsr_array *index_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const trial *t = user;
  (void)s;
  tsr_array *x = tsr_take(tsr_item(in[2], 0), in[0], 0);
  x = tsr_reshape(x, TSR_SHAPE(t->rows, t->width));
  return tsr_add(in[1], tsr_sum(net(t, x, tsr_item(in[2], 1))));
}

static tsr_array *indexed(tsr_scope *s, const trial *t, tsr_array *const *in)
{
  tsr_array *xs = tsr_reshape(in[0], TSR_SHAPE(t->micro, t->rows, t->width));
  tsr_array *zero = tsr_full(s, 0, TSR_F32, TSR_SCALAR, (tsr_sharding){ .mesh = NULL });
  return tsr_fori(0, t->micro, index_step, (void *)(uintptr_t)t, zero,
                  .with = tsr_tuple(s, xs, in[1]));
}

static tsr_array *sliced(const trial *t, tsr_array *const *in)
{
  tsr_array *x = tsr_reshape(in[0], TSR_SHAPE(t->micro, t->rows, t->width)), *sum = NULL;
  for (int64_t i = 0; i < t->micro; i++) {
    tsr_array *one = tsr_reshape(tsr_slice(x, TSR_RANGE(i, i + 1)), TSR_SHAPE(t->rows, t->width));
    tsr_array *y = net(t, one, in[1]);
    sum = sum ? tsr_add(sum, y) : y;
  }
  return sum;
}

static tsr_array *one_row_block(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return net(user, in[0], in[1]);
}

static tsr_array *program(tsr_scope *s, tsr_array *const *in, void *user)
{
  const trial *t = user;
  switch (t->form) {
  case STACKED: {
    tsr_array *y = tsr_item(scanned(s, t, in, stack_step, TSR_SCALAR), 1);
    return tsr_reshape(y, TSR_SHAPE(t->micro * t->rows, t->made));
  }
  case SUMMED: return tsr_item(scanned(s, t, in, sum_step, TSR_SCALAR), 0);
  case SLOPES: return tsr_item(scanned(s, t, in, slope_step, TSR_SHAPE(t->width, t->made)), 0);
  case NESTED: return tsr_item(scanned(s, t, in, nested_step, TSR_SCALAR), 0);
  case INDEXED: return indexed(s, t, in);
  case SLICES: return sliced(t, in);
  default: break;
  }
  tsr_array *x = tsr_reshape(in[0], TSR_SHAPE(t->micro, t->rows, t->width));
  if (t->form == AT_ONCE) return tsr_maximum(tsr_matmul(x, in[1]), 0);
  tsr_function *f = tsr_function_make(s, one_row_block, .user = user);
  return tsr_call(tsr_vmap(f, .in_dims = { 0, TSR_UNMAPPED }), x, in[1]);
}

/* ---- time, counted from boxes ---- */

/* The multiplications of a product at a position: by each letter of it once. */
static double products_at(const tsr__program *p, int n, int position)
{
  const tsr__dot_attr *attr = tsr__dot_of(p, &p->nodes[n]);
  double sizes[32], products = 1;
  const uint8_t *const letters[3] = { attr->left, attr->right, attr->out };
  const int nodes[3] = { tsr__in(p, &p->nodes[n], 0), tsr__in(p, &p->nodes[n], 1), n };
  for (int i = 0; i < 32; i++) sizes[i] = 1;
  for (int k = 0; k < 3; k++)
    for (int d = 0; d < p->nodes[nodes[k]].rank; d++) {
      int64_t part[2];
      if (!letters[k][d]) continue;
      check_part(p, nodes[k], d, p->nodes[nodes[k]].dims[d], position, part);
      sizes[letters[k][d]] = (double)part[1];
    }
  for (int i = 0; i < 32; i++) products *= sizes[i];
  return products;
}

static double repeated_seconds(const tsr__program *p, int n)
{
  const tsr_mesh *mesh = check_place(p, n)->mesh;
  double most = 0, all = 0, fastest = 1e9;
  /* Replicas of a part are made as often as there are devices with them. */
  unsigned used = tsr__used_axes(check_place(p, n));
  TSR_FOR_OPERANDS (p, &p->nodes[n], i, o) used |= tsr__used_axes(check_place(p, o));
  for (int q = 0; q < mesh->device_count; q++) {
    bool first = true;
    for (int a = 0; a < mesh->axis_count; a++)
      first &= used >> a & 1 || !tsr__mesh_coord(mesh, q, a);
    double products = products_at(p, n, q);
    most = products > most ? products : most;
    all += first ? products : 0;
  }
  if (mesh->bytes_per_s[0])
    for (int a = 0; a < mesh->axis_count; a++)
      fastest =
          !a || (double)mesh->bytes_per_s[a] > fastest ? (double)mesh->bytes_per_s[a] : fastest;
  double flops = mesh->flops_per_s ? (double)mesh->flops_per_s : 128 * fastest;
  return 2 * (most * mesh->device_count - all) / flops;
}

static double seconds_of(const tsr__partitioned *parts)
{
  const tsr__program *p = &parts->program;
  double seconds = 0;
  for (int i = 0; i < parts->note_count; i++) {
    const tsr__note *note = &parts->notes[i];
    bool speeds = note->mesh && note->mesh->bytes_per_s[0];
    for (int a = 0; speeds && a < note->mesh->axis_count; a++)
      seconds += (double)note->along[a] / (double)note->mesh->bytes_per_s[a];
    if (speeds && note->lead == i && note->bytes) seconds += 1e-5 * note->mesh->device_count;
    if (!speeds) seconds += (double)note->bytes / 1e9;
  }
  for (int n = 0; n < p->node_count; n++)
    if (tsr__ops[p->nodes[n].op].contracts && check_place(p, n)->mesh)
      seconds += repeated_seconds(p, n);
  for (int i = 0; i < parts->inner_count; i++) {
    const tsr__loop_attr *attr = tsr__attr_of(p, &p->nodes[parts->inner[i].node]);
    /* A number of steps that is the run's counts as one. */
    double steps = attr->count < 0 ? 1 : (double)attr->count;
    seconds += seconds_of(&parts->inner[i].parts) * steps;
  }
  return seconds;
}

/* ---- the laws ---- */

static void check_constraints(const tsr__program *p, const tsr__partitioned *parts, uint64_t seed)
{
  for (int n = 0; n < p->node_count; n++) {
    if (p->nodes[n].op != TSR__OP_CONSTRAIN || parts->home[n] < 0) continue;
    if (memcmp(check_place(p, n), check_place(&parts->program, parts->home[n]),
               sizeof(tsr_sharding)))
      FAIL("seed %llu: %%%d lies elsewhere than it was asked to", (unsigned long long)seed, n);
  }
}

static void check_time(tsr_runtime *rt, tsr_array *root, uint64_t seed)
{
  tsr__program p;
  tsr__partitioned taken, plain;
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(&p, &rt->heap);
  if (tsr__program_trace(&p, &root, 1, &error)) FAIL("%s", error.text);
  if (tsr__partition(&p, &rt->heap, &taken, &error)) FAIL("%s", error.text);
  if (tsr__partition_region(&p, &rt->heap, NULL, &plain, &error)) FAIL("%s", error.text);
  double most = seconds_of(&plain), now = seconds_of(&taken);
  if (now > most * (1 + 1e-9))
    FAIL("seed %llu: %g s, %g without shared work", (unsigned long long)seed, now, most);
  better += now < most * (1 - 1e-9);
  tried++;
  check_constraints(&p, &taken, seed);
  tsr__partitioned_free(&taken, &rt->heap);
  tsr__partitioned_free(&plain, &rt->heap);
  tsr__program_free(&p);
}

/* Small whole numbers. */
static tsr_array *leaf(tsr_scope *s, uint64_t key, tsr_shape shape, tsr_sharding at)
{
  tsr_array *a = tsr_randint(s, -2, 3, .key = key, .dtype = TSR_I32, .shape = shape);
  a = tsr_cast(a, TSR_F32);
  if (at.mesh) a = tsr_reshard(a, at);
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
  return a;
}

static tsr_array *result_of(tsr_scope *s, const trial *t, uint64_t seed)
{
  tsr_array *x = leaf(s, 2 * seed, TSR_SHAPE(t->micro * t->rows, t->width), t->x);
  tsr_array *w = leaf(s, 2 * seed + 1, TSR_SHAPE(t->width, t->made), t->w);
  tsr_array *out = tsr_call(tsr_function_make(s, program, .user = (void *)(uintptr_t)t), x, w);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  return out;
}

enum { MOST = 8 * 16 * 32 };

/* The same axes without speeds, with speeds, or with speeds and flops. */
static const tsr_mesh *random_mesh(test_rng *rng, tsr_runtime *rt)
{
  tsr_mesh *listed = tsr_mesh_make(rt, law_meshes[test_range(rng, 0, LAW_MESHES - 1)]);
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = tsr_mesh_axis_count(listed) };
  int speeds = (int)test_range(rng, 0, 2);
  for (int a = 0; a < opts.axis_count; a++) {
    opts.names[a] = tsr_mesh_axis_name(listed, a);
    opts.sizes[a] = tsr_mesh_axis_size(listed, opts.names[a]);
    if (speeds) opts.axis_bytes_per_s[a] = (double)(INT64_C(1) << test_range(rng, 20, 40));
  }
  if (speeds == 2) opts.flops_per_s = (double)(INT64_C(1) << test_range(rng, 20, 45));
  return tsr_mesh_make_with(rt, &opts);
}

static void run_trial(uint64_t seed)
{
  static const int64_t micros[] = { 1, 2, 3, 4, 4, 8 }, rows[] = { 2, 4, 6, 8, 16 },
                       widths[] = { 1, 3, 8, 16, 32 };
  static float found[MOST], expected[MOST];
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = random_mesh(&rng, rt);
  trial alone = { .form = (form)test_range(&rng, 0, FORMS - 1),
                  .micro = micros[test_range(&rng, 0, 5)],
                  .rows = rows[test_range(&rng, 0, 4)],
                  .width = widths[test_range(&rng, 0, 4)],
                  .made = widths[test_range(&rng, 0, 4)] };
  trial placed = alone;
  placed.x = law_sharding(&rng, mesh, 2);
  placed.w = law_sharding(&rng, mesh, 2);
  placed.wish = law_sharding(&rng, mesh, 2);
  if (!placed.x.mesh) placed.x = tsr_on(mesh, "x");
  placed.wishes = placed.wish.mesh && alone.form != MAPPED && test_range(&rng, 0, 2) == 0;
  tsr_array *y = result_of(s, &placed, seed), *want = result_of(s, &alone, seed);
  check_time(rt, y, seed);
  tsr_shape shape = tsr_shape_of(y);
  size_t bytes = (size_t)tsr__shape_count(&shape) * sizeof *found;
  CHECK(bytes <= sizeof found);
  CHECK_STATUS(tsr_read(y, found, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(want, expected, bytes), TSR_OK, s);
  if (memcmp(found, expected, bytes)) FAIL("seed %llu: other bits", (unsigned long long)seed);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(shared_work_takes_no_more_time_and_changes_no_bit, 600)
{
  law_each_seed(1, test_quick() ? 100 : 1500, run_trial);
  if (better * 20 < tried && !getenv("LAW_SEED"))
    FAIL("%lld of %lld plans share work", (long long)better, (long long)tried);
}
