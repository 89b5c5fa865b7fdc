/* Laws of partitioning, on random programs, shapes, specs and meshes: the result verifies, operands
 * lie aligned with their users, reductions cover every element once, pieces of a reshard tile
 * their boxes exactly and come from where they must, and the bytes are those of the elements that
 * cross.
 * Computes on no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/flow.h"
#include "support/law_fixture.h"
#include "support/partition_check.h"

static const char *const mesh_texts[] = { "x=1", "x=2",     "x=3",     "x=4",
                                          "x=8", "x=2,y=2", "x=4,y=2", "x=2,y=2,z=2" };
enum { MESHES = sizeof mesh_texts / sizeof *mesh_texts };

/* A spec for `rank` dims that uses each axis at most once. */
static const char *random_spec(test_rng *rng, const tsr_mesh *mesh, int rank, char out[64])
{
  int at = 0;
  unsigned used = 0;
  for (int d = 0; d < rank; d++) {
    int many = 0;
    if (d) out[at++] = ',';
    for (int a = 0; a < tsr_mesh_axis_count(mesh); a++) {
      int axis = (int)test_range(rng, 0, tsr_mesh_axis_count(mesh) - 1);
      if (used >> axis & 1 || test_range(rng, 0, 2) == 0) continue;
      if (many++) out[at++] = '+';
      out[at++] = tsr_mesh_axis_name(mesh, axis)[0];
      used |= 1u << axis;
    }
    if (!many) out[at++] = '-';
  }
  out[at] = '\0';
  return out;
}

static tsr_shape random_shape(test_rng *rng)
{
  static const int64_t sizes[] = { 0, 1, 1, 2, 3, 5, 7, 8, 8, 10 };
  tsr_shape shape = { .rank = (int)test_range(rng, 0, 3) };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = sizes[test_range(rng, 0, 9)];
  test_rng deep = *rng;
  return law_deep(&deep, shape, TSR_MAX_RANK - 2);
}

/* ---- reshards ---- */

/* Speeds of axes, no two alike. */
static void random_speeds(test_rng *rng, tsr_mesh_opts *opts)
{
  for (int a = 0; a < opts->axis_count; a++) {
    int at = (int)test_range(rng, 0, a);
    opts->axis_bytes_per_s[a] = opts->axis_bytes_per_s[at];
    opts->axis_bytes_per_s[at] = (double)(1000 * (a + 1) + test_range(rng, 0, 999));
  }
}

/* One of the listed meshes, over the first devices or over any of them in any order; every other
 * mesh has speeds. */
static tsr_mesh *random_mesh(test_rng *rng, tsr_runtime *rt)
{
  tsr_mesh *listed = tsr_mesh_make(rt, mesh_texts[test_range(rng, 0, MESHES - 1)]);
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = tsr_mesh_axis_count(listed) };
  int devices[8];
  if (test_range(rng, 0, 1)) random_speeds(rng, &opts);
  if (opts.axis_bytes_per_s[0] == 0 && test_range(rng, 0, 1)) return listed;
  for (int i = 0; i < 8; i++) {
    int at = (int)test_range(rng, 0, i);
    devices[i] = devices[at];
    devices[at] = i;
  }
  for (int a = 0; a < opts.axis_count; a++) {
    opts.names[a] = tsr_mesh_axis_name(listed, a);
    opts.sizes[a] = tsr_mesh_axis_size(listed, opts.names[a]);
  }
  opts.devices = devices;
  return tsr_mesh_make_with(rt, &opts);
}

/* Any placement: mostly on a mesh, now and then with unreduced sums along an axis. */
static tsr_sharding random_side(test_rng *rng, const tsr_mesh *mesh, int rank, int unplaced)
{
  char spec[64];
  tsr_sharding at = tsr_on(mesh, random_spec(rng, mesh, rank, spec));
  if (test_range(rng, 0, 5) == 0)
    at.unreduced = (uint8_t)(tsr__free_axes(&at) & (unsigned)test_random(rng));
  if (test_range(rng, 1, unplaced) == 1) at = (tsr_sharding){ .mesh = NULL };
  return tsr__sharding_canon(&at);
}

/* ---- bytes along axes, element by element ---- */

/* The axis of the least speed along which two devices of a mesh differ; -1: they do not differ. A
 * device that the mesh does not have is reached along the slowest axis. */
static int slowest_axis(const tsr_mesh *mesh, int one, int other)
{
  int a = tsr__mesh_position(mesh, one), b = tsr__mesh_position(mesh, other), slowest = -1;
  for (int axis = 0; axis < mesh->axis_count; axis++) {
    bool differs =
        a < 0 || b < 0 || tsr__mesh_coord(mesh, a, axis) != tsr__mesh_coord(mesh, b, axis);
    if (differs && (slowest < 0 || mesh->bytes_per_s[axis] < mesh->bytes_per_s[slowest]))
      slowest = axis;
  }
  return slowest;
}

/* The slowest axis that an element crosses on its way from the nearest of the devices that have it;
 * -1: the device itself has it. */
static int axis_of_element(const tsr_mesh *mesh, const tsr_sharding *from, const tsr_shape *shape,
                           int device, const int64_t at[TSR_MAX_RANK])
{
  int best = -2;
  for (int p = 0; p < tsr__positions(from); p++) {
    tsr_box part = check_box(from, shape, p);
    if (!tsr__holds(from, p) || !check_inside(&part, shape->rank, at)) continue;
    if (tsr__position_device(from, p) == device) return -1;
    int axis = slowest_axis(mesh, tsr__position_device(from, p), device);
    if (best == -2 || mesh->bytes_per_s[axis] > mesh->bytes_per_s[best]) best = axis;
  }
  CHECK(best >= 0);
  return best;
}

/* Each byte of a move counts along the slowest axis that it crosses from the nearest replica. */
static void check_along(const tsr_sharding *from, const tsr_sharding *to, const tsr_shape *shape)
{
  const tsr_mesh *mesh = to->mesh ? to->mesh : from->mesh;
  int64_t along[TSR_MAX_AXES] = { 0 };
  if (!mesh || !mesh->bytes_per_s[0]) return;
  for (int q = 0; q < tsr__positions(to); q++) {
    tsr_box want = check_box(to, shape, q);
    int64_t at[TSR_MAX_RANK];
    memcpy(at, want.start, sizeof at);
    if (!tsr__holds(to, q) || !tsr__box_count(&want, shape->rank)) continue;
    do {
      int axis = axis_of_element(mesh, from, shape, tsr__position_device(to, q), at);
      if (axis >= 0) along[axis] += 8;
    } while (check_next(&want, shape->rank, at));
  }
  tsr__crossed crossed = tsr__move_crosses(&(tsr__reshard){ from, to, shape, NULL, 0 }, TSR_F64);
  for (int a = 0; a < TSR_MAX_AXES; a++) CHECK_I64(crossed.along[a], along[a]);
}

static void check_bytes(const tsr_sharding *from, const tsr_sharding *to, const tsr_shape *shape,
                        int64_t crossing)
{
  unsigned axes;
  CHECK_I64(tsr__reshard_bytes(from, to, TSR_F64, shape), 8 * crossing);
  CHECK_I64(tsr__reshard_bytes(from, to, TSR_I32, shape), 4 * crossing);
  int64_t bits = tsr__reshard_bytes(from, to, TSR_BOOL, shape);
  CHECK(bits >= (crossing + 7) / 8 && bits <= crossing);
  tsr__reshard move = { from, to, shape, NULL, 0 };
  CHECK_I64(tsr__move_crosses(&move, TSR_F64).bytes, 8 * crossing);
  CHECK(tsr__move_crosses(&move, TSR_BOOL).bytes <= bits);
  if (tsr__reshard_move(from, to, shape, &axes) == TSR__MOVE_SLICE) CHECK_I64(crossing, 0);
}

TEST_TIMEOUT(pieces_tile_and_bytes_are_exact, 120)
{
  test_rng rng = test_seeded(11);
  tsr_runtime *rt = fixture_devices("cpu:8");
  int cases = test_quick() ? 600 : 6000;
  for (int i = 0; i < cases; i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt), *other = test_range(&rng, 0, 1) ? mesh : NULL;
    if (!other) other = random_mesh(&rng, rt);
    tsr_shape shape = random_shape(&rng);
    tsr_sharding from = random_side(&rng, mesh, shape.rank, 10);
    tsr_sharding to = random_side(&rng, other, shape.rank, 20);
    check_bytes(&from, &to, &shape, check_reshard(&from, &to, &shape));
    check_along(&from, &to, &shape);
  }
}

/* ---- programs ---- */

typedef struct maker {
  test_rng *rng;
  tsr_scope *s;
  tsr_mesh *mesh, *other;
  tsr_array *made[64];
  int count;
} maker;

static tsr_array *pick(maker *m)
{
  return m->made[test_range(m->rng, 0, m->count - 1)];
}

/* One that broadcasts with `a`, or `a` itself. */
static tsr_array *partner(maker *m, tsr_array *a)
{
  for (int k = 0; k < 8; k++) {
    tsr_array *b = pick(m);
    bool fits = true;
    for (int back = 1; back <= a->shape.rank && back <= b->shape.rank; back++) {
      int64_t x = a->shape.dims[a->shape.rank - back], y = b->shape.dims[b->shape.rank - back];
      fits &= x == y || x == 1 || y == 1;
    }
    if (fits) return b;
  }
  return a;
}

static tsr_array *random_leaf(maker *m)
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I32, TSR_I64, TSR_F32, TSR_F64 };
  tsr_mesh *mesh = test_range(m->rng, 0, 3) ? m->mesh : m->other;
  tsr_shape shape = random_shape(m->rng);
  char spec[64];
  if (m->count && test_range(m->rng, 0, 1)) shape = pick(m)->shape;
  if (test_range(m->rng, 0, 5) == 0) mesh = NULL;
  if (mesh) random_spec(m->rng, mesh, shape.rank, spec);
  return fixture_leaf(m->s, dtypes[test_range(m->rng, 0, 4)], shape, mesh, spec);
}

static tsr_array *random_source(maker *m)
{
  tsr__ask ask = { .dtype = TSR_F64, .shape = pick(m)->shape };
  if (test_range(m->rng, 0, 1)) {
    tsr_array *two = fixture_number(m->s, TSR_F64, 2);
    return tsr__make(m->s, TSR__OP_FULL, TSR__IN(two), &ask, NULL);
  }
  return tsr__make(m->s, TSR__OP_UNIFORM, TSR__IN_NONE, &ask, NULL);
}

static tsr_array *random_element(maker *m)
{
  static const tsr__op unary[] = { TSR__OP_NEG, TSR__OP_EXP, TSR__OP_ISNAN, TSR__OP_SQRT };
  static const tsr__op pairs[] = { TSR__OP_ADD, TSR__OP_DIV, TSR__OP_LT, TSR__OP_EQ,
                                   TSR__OP_MAXIMUM };
  tsr_array *a = pick(m);
  if (test_range(m->rng, 0, 3) == 0) {
    if (a->dtype == TSR_BOOL) return fixture_make(TSR__OP_NOT, a, NULL, NULL, NULL);
    return fixture_make(unary[test_range(m->rng, 0, 3)], a, NULL, NULL, NULL);
  }
  if (test_range(m->rng, 0, 4) == 0)
    return fixture_make(TSR__OP_MUL, a, fixture_number(m->s, TSR_F64, 3), NULL, NULL);
  if (a->dtype == TSR_BOOL && test_range(m->rng, 0, 1))
    return fixture_make(TSR__OP_WHERE, a, partner(m, a), fixture_number(m->s, TSR_I64, 0), NULL);
  return fixture_make(pairs[test_range(m->rng, 0, 4)], a, partner(m, a), NULL, NULL);
}

static tsr_array *random_reduction(maker *m)
{
  static const tsr__op ops[] = { TSR__OP_SUM, TSR__OP_MEAN, TSR__OP_VAR,  TSR__OP_PROD,
                                 TSR__OP_ANY, TSR__OP_ALL,  TSR__OP_COUNT };
  tsr_array *a = pick(m), *mask = NULL;
  uint32_t dims = a->shape.rank ? (uint32_t)test_range(m->rng, 0, (1 << a->shape.rank) - 1) : 0;
  tsr__op op = ops[test_range(m->rng, 0, 6)];
  if (test_range(m->rng, 0, 2) == 0) mask = fixture_make(TSR__OP_EQ, a, a, NULL, NULL);
  tsr_array *codes = NULL;
  tsr__reduce_attr attr = { .dims = dims, .keep = (uint16_t)test_range(m->rng, 0, 1) };
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  if (test_range(m->rng, 0, 5) == 0 && a->shape.rank) {
    tsr__ask iota = { .dtype = TSR_I32, .shape = a->shape };
    codes = tsr__make(m->s, TSR__OP_IOTA, TSR__IN_NONE, &iota, NULL);
    attr.groups = 10;
  }
  return tsr__make(m->s, op, TSR__IN(a, mask, codes), &ask, NULL);
}

static tsr_array *random_place(maker *m)
{
  tsr_array *a = pick(m);
  tsr_mesh *mesh = test_range(m->rng, 0, 2) ? m->mesh : m->other;
  char spec[64];
  tsr_sharding at = tsr_on(mesh, random_spec(m->rng, mesh, a->shape.rank, spec));
  tsr__op op = test_range(m->rng, 0, 1) ? TSR__OP_RESHARD : TSR__OP_CONSTRAIN;
  return tsr__make(m->s, op, TSR__IN(a), &(tsr__ask){ .sharding = &at }, NULL);
}

static tsr_array *random_take(maker *m)
{
  tsr_array *table = pick(m), *index = pick(m);
  if (table->shape.rank == 0 || index->shape.rank + table->shape.rank > 5) return random_element(m);
  if (index->dtype != TSR_I64)
    index = tsr__make(m->s, TSR__OP_CAST, TSR__IN(index), &(tsr__ask){ .dtype = TSR_I64 }, NULL);
  tsr__ask ask = { TSR__ATTR(tsr__span_attr, .dim = test_range(m->rng, 0, table->shape.rank - 1)) };
  return tsr__make(m->s, TSR__OP_TAKE, TSR__IN(table, index), &ask, NULL);
}

static void add_random(maker *m)
{
  tsr_array *a;
  switch (m->count ? test_range(m->rng, 0, 9) : 0) {
  case 0:
  case 1: a = random_leaf(m); break;
  case 2: a = random_source(m); break;
  case 3:
  case 4: a = random_reduction(m); break;
  case 5: a = random_place(m); break;
  case 6: a = random_take(m); break;
  default: a = random_element(m); break;
  }
  if (a->inert) FAIL("%s", tsr_message(m->s));
  m->made[m->count++] = a;
}

static void check_notes(const tsr__partitioned *parts)
{
  const tsr__program *p = &parts->program;
  for (int i = 0; i < parts->note_count; i++) {
    const tsr__note *note = &parts->notes[i];
    const tsr__gnode *g = &p->nodes[note->node];
    CHECK(note->bytes >= 0);
    CHECK((note->cheaper_bytes >= 0) == (note->cheaper[0] != '\0'));
    if (note->cheaper_bytes >= 0) CHECK(note->cheaper_bytes < note->bytes);
    if (g->op != TSR__OP_RESHARD) continue;
    tsr_shape shape = tsr__gnode_shape(g);
    int64_t crossing =
        check_reshard(check_place(p, tsr__in(p, g, 0)), check_place(p, note->node), &shape);
    if (g->dtype != TSR_BOOL)
      CHECK_I64(note->bytes, crossing * (int64_t)tsr_dtype_size((tsr_dtype)g->dtype));
  }
}

/* The same calls on two pretend processes, or twice on one, give equal plans. */
static void check_pure(const tsr__program *p, const tsr__partitioned *first, tsr__heap *heap)
{
  tsr__partitioned again;
  tsr__error error = { .status = TSR_OK };
  CHECK_STATUS(tsr__partition(p, heap, &again, &error), TSR_OK, NULL);
  CHECK(tsr__program_same(&again.program, &first->program));
  CHECK_I64(again.note_count, first->note_count);
  for (int i = 0; i < again.note_count; i++) CHECK_I64(again.notes[i].bytes, first->notes[i].bytes);
  tsr__partitioned_free(&again, heap);
}

/* Once partitioned, a program needs no more moves: partitioning it again adds none. That is so of
 * programs that lie on a mesh; what nobody placed may lie elsewhere the second time. */
static void check_settled(const tsr__partitioned *first, tsr__heap *heap)
{
  tsr__partitioned again;
  tsr__error error = { .status = TSR_OK };
  tsr__program placed;
  CHECK_STATUS(tsr__program_copy(&placed, &first->program, heap), TSR_OK, NULL);
  int free_nodes = 0;
  for (int n = 0; n < placed.node_count; n++) {
    bool number = placed.nodes[n].op == TSR__OP_CONST;
    if (placed.nodes[n].sharding) placed.nodes[n].flags |= TSR__PLACED;
    else free_nodes += !number;
  }
  tsr_status status = tsr__partition(&placed, heap, &again, &error);
  if (status) FAIL("%s", error.text);
  CHECK(free_nodes || again.program.node_count <= placed.node_count);
  tsr__partitioned_free(&again, heap);
  tsr__program_free(&placed);
}

/* PARTITION_SHOW=1 prints every program: the last one before a failure is the culprit. */
static void show(const tsr__program *p, const tsr__partitioned *parts)
{
  tsr__text text;
  if (!getenv("PARTITION_SHOW")) return;
  tsr__text_init(&text, NULL);
  tsr__program_print(p, &text);
  tsr__text_add(&text, "  becomes\n");
  tsr__program_print(&parts->program, &text);
  fprintf(stderr, "----\n%s", tsr__text_get(&text));
  tsr__text_free(&text);
}

static void one_program(test_rng *rng, tsr_runtime *rt)
{
  maker m = { .rng = rng, .s = tsr_scope_open(rt) };
  m.mesh = m.other = tsr_mesh_make(rt, mesh_texts[test_range(rng, 0, MESHES - 1)]);
  for (int k = 0; k < 4; k++) {
    tsr_mesh *guess = tsr_mesh_make(rt, mesh_texts[test_range(rng, 0, MESHES - 1)]);
    if (tsr_mesh_device_count(guess) == tsr_mesh_device_count(m.mesh)) m.other = guess;
  }
  int64_t nodes = test_range(rng, 2, 14);
  while (m.count < nodes) add_random(&m);
  tsr_array *roots[3];
  int root_count = (int)test_range(rng, 1, 3);
  for (int i = 0; i < root_count; i++) roots[i] = m.made[test_range(rng, m.count / 2, m.count - 1)];
  tsr__program p;
  tsr__partitioned parts;
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(&p, &rt->heap);
  if (tsr__program_trace(&p, roots, root_count, &error)) FAIL("%s", error.text);
  if (tsr__program_verify(&p, &error)) FAIL("%s", error.text);
  if (tsr__partition(&p, &rt->heap, &parts, &error)) FAIL("%s", error.text);
  show(&p, &parts);
  check_partitioned(&p, &parts);
  check_notes(&parts);
  check_pure(&p, &parts, &rt->heap);
  check_settled(&parts, &rt->heap);
  tsr__partitioned_free(&parts, &rt->heap);
  tsr__program_free(&p);
  tsr_scope_close(m.s);
}

TEST_TIMEOUT(random_programs_are_sound, 120)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  int cases = test_quick() ? 500 : 10000;
  for (int i = 0; i < cases; i++) {
    test_rng rng = test_seeded(1000 + (uint64_t)i);
    one_program(&rng, rt);
  }
}

/* Whether the sum over the rows of an array is scattered, that is wanted somewhere, maybe left
 * unreduced over what is not used there. */
static bool one_sum(test_rng *rng, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, mesh_texts[test_range(rng, 0, MESHES - 1)]);
  char spec[64];
  tsr_shape shape = TSR_SHAPE(test_range(rng, 8, 64), test_range(rng, 8, 64));
  tsr_array *x = fixture_leaf(s, TSR_F64, shape, mesh, random_spec(rng, mesh, 2, spec));
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, x, NULL, 1, NULL);
  tsr_sharding at = tsr_on(mesh, random_spec(rng, mesh, 1, spec));
  if (test_range(rng, 0, 1))
    at.unreduced = (uint8_t)(tsr__dim_axes(&x->sharding, 0) & ~tsr__used_axes(&at));
  at = tsr__sharding_canon(&at);
  tsr_array *root =
      tsr__make(s, TSR__OP_CONSTRAIN, TSR__IN(sum), &(tsr__ask){ .sharding = &at }, NULL);
  tsr__program p;
  tsr__partitioned parts;
  tsr__error error = { .status = TSR_OK };
  bool scattered = false;
  tsr__program_init(&p, &rt->heap);
  if (tsr__program_trace(&p, &root, 1, &error)) FAIL("%s", error.text);
  if (tsr__partition(&p, &rt->heap, &parts, &error)) FAIL("%s", error.text);
  show(&p, &parts);
  check_partitioned(&p, &parts);
  check_settled(&parts, &rt->heap);
  for (int i = 0; i < parts.note_count; i++)
    scattered |= parts.notes[i].move == TSR__MOVE_REDUCE_SCATTER;
  tsr__partitioned_free(&parts, &rt->heap);
  tsr__program_free(&p);
  tsr_scope_close(s);
  return scattered;
}

TEST_TIMEOUT(scattered_sums_are_settled, 60)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  int cases = test_quick() ? 200 : 2000, scattered = 0;
  for (int i = 0; i < cases; i++) {
    test_rng rng = test_seeded(9000 + (uint64_t)i);
    scattered += one_sum(&rng, rt);
  }
  CHECK(scattered > cases / 20);
}

/* ---- rows whose number is known at run time ---- */

static tsr_array *random_kept(maker *m, bool even)
{
  tsr_array *a = m->made[test_range(m->rng, 0, m->count - 1)];
  switch (test_range(m->rng, 0, 4)) {
  case 0: return fixture_make(TSR__OP_NEG, a, NULL, NULL, NULL);
  case 1: return fixture_make(TSR__OP_MUL, a, fixture_number(m->s, TSR_F64, 2), NULL, NULL);
  case 2: return even ? a : fixture_make(TSR__OP_FLOOR, a, NULL, NULL, NULL);
  default:
    return fixture_make(TSR__OP_ADD, a, m->made[test_range(m->rng, 0, m->count - 1)], NULL, NULL);
  }
}

/* A table is filtered by one mask; its columns are computed with and reduced, filtered in place or
 * rebalanced. */
static void one_table(test_rng *rng, tsr_runtime *rt)
{
  maker m = { .rng = rng, .s = tsr_scope_open(rt) };
  m.mesh = m.other = tsr_mesh_make(rt, mesh_texts[test_range(rng, 0, MESHES - 1)]);
  char spec[64];
  bool even = test_range(rng, 0, 1), wide = test_range(rng, 0, 1);
  int64_t rows = test_range(rng, 0, 20);
  tsr_array *mask =
      fixture_leaf(m.s, TSR_BOOL, TSR_SHAPE(rows), m.mesh, random_spec(rng, m.mesh, 1, spec));
  tsr_shape shape = wide ? TSR_SHAPE(rows, 3) : TSR_SHAPE(rows);
  const tsr_array *first = NULL;
  for (int i = 0; i < 3; i++) {
    tsr_array *x = fixture_leaf(m.s, TSR_F64, shape, m.mesh, random_spec(rng, m.mesh, 1, spec));
    if (first) { /* columns of one table lie alike */
      tsr_sharding at = first->sharding;
      x = tsr__make(m.s, TSR__OP_RESHARD, TSR__IN(x), &(tsr__ask){ .sharding = &at }, NULL);
    } else {
      first = x;
    }
    x = fixture_make(TSR__OP_COMPACT, x, mask, NULL, NULL);
    m.made[m.count++] = even ? fixture_make(TSR__OP_REBALANCE, x, NULL, NULL, NULL) : x;
  }
  for (int i = 0; i < 6; i++) {
    tsr_array *next = random_kept(&m, even);
    m.made[m.count++] = next;
  }
  tsr_array *last = m.made[m.count - 1];
  tsr_array *roots[3] = { last, fixture_reduce(TSR__OP_MEAN, last, NULL, 0, NULL),
                          fixture_reduce(TSR__OP_SUM, m.made[m.count - 2], NULL, 1, NULL) };
  tsr__program p;
  tsr__partitioned parts;
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(&p, &rt->heap);
  if (tsr__program_trace(&p, roots, 3, &error)) FAIL("%s", error.text);
  if (tsr__program_verify(&p, &error)) FAIL("%s", error.text);
  if (tsr__partition(&p, &rt->heap, &parts, &error)) FAIL("%s", error.text);
  show(&p, &parts);
  check_partitioned(&p, &parts);
  check_pure(&p, &parts, &rt->heap);
  tsr__partitioned_free(&parts, &rt->heap);
  tsr__program_free(&p);
  tsr_scope_close(m.s);
}

TEST_TIMEOUT(filtered_tables_are_sound, 60)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  int cases = test_quick() ? 200 : 2000;
  for (int i = 0; i < cases; i++) {
    test_rng rng = test_seeded(5000 + (uint64_t)i);
    one_table(&rng, rt);
  }
}
