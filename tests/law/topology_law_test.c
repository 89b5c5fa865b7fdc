/* Laws of placement, on random meshes, specs and shapes:
 *   - the parts of replica leaders tile an array, and replicas hold what their leader holds;
 *   - each part is what dealing elements out one by one gives;
 *   - dropping the minor axis of a dim never moves a border;
 *   - canonical forms are idempotent, and equal exactly when every position holds the same;
 *   - what is written can be read again. */
#include <stdio.h>
#include <stdlib.h>

#include "support/topology_fixture.h"

enum { DEVICES = 24 };

static const char *const mesh_texts[] = {
  "a=1",
  "a=2",
  "a=3",
  "a=4",
  "a=8",
  "a=2,b=2",
  "a=4,b=2",
  "a=2,b=3",
  "a=2,b=2,c=2",
  "a=2,b=1,c=3",
  "a=1,b=1",
  "a=3,b=2,c=4",
  "a=2,b=2,c=2,d=3",
  "a=1,b=2,c=1,d=2",
  "a=24",
  "a=5,b=4",
};
enum { MESHES = sizeof mesh_texts / sizeof *mesh_texts };

struct placement {
  tsr_sharding sharding;
  tsr_shape shape;
  int axes[TSR_MAX_RANK][TSR_MAX_AXES]; /* of each dim, the major one first; -1 ends */
};

/* Deals the axes of the mesh, in random order, to random dims or to none, and writes the spec. */
static struct placement random_placement(test_rng *rng, const tsr_mesh *mesh, int rank)
{
  struct placement out = { .shape = { .rank = rank } };
  int order[TSR_MAX_AXES], fill[TSR_MAX_RANK] = { 0 };
  char spec[128];
  size_t n = 0;

  for (int a = 0; a < mesh->axis_count; a++) {
    int at = (int)test_range(rng, 0, a);
    order[a] = order[at];
    order[at] = a;
  }
  for (int a = 0; a < mesh->axis_count; a++) {
    int64_t dim = test_range(rng, 0, rank);
    if (dim < rank) out.axes[dim][fill[dim]++] = order[a];
  }
  spec[0] = '\0';
  for (int d = 0; d < rank; d++) {
    out.axes[d][fill[d]] = -1;
    if (d) spec[n++] = ',';
    if (!fill[d]) spec[n++] = '-';
    for (int i = 0; i < fill[d]; i++)
      n += (size_t)sprintf(spec + n, "%s%s", i ? "+" : "", mesh->names[out.axes[d][i]]);
    spec[n] = '\0';
    out.shape.dims[d] = test_range(rng, 0, 4) ? test_range(rng, 1, 13) : test_range(rng, 0, 1);
  }
  out.sharding = tsr_on(mesh, spec);
  CHECK(!fixture_bad_spec(out.sharding));
  return out;
}

static tsr_mesh *random_mesh(test_rng *rng, tsr_runtime *rt)
{
  return tsr_mesh_make(rt, mesh_texts[test_range(rng, 0, MESHES - 1)]);
}

static int rounds(int full)
{
  return test_quick() ? full / 10 : full;
}

/* ---- tiling ---------------------------------------------------------------------------------- */

/* Adds one to each element of a box. */
static void stamp(int *counts, const tsr_shape *shape, const tsr_box *box)
{
  int64_t count = tsr__shape_count(shape);

  for (int64_t i = 0; i < count; i++) {
    bool inside = true;
    int64_t rest = i;
    for (int d = shape->rank - 1; d >= 0; d--) {
      int64_t at = rest % shape->dims[d];
      rest /= shape->dims[d];
      inside &= at >= box->start[d] && at < box->start[d] + box->size[d];
    }
    counts[i] += inside;
  }
}

TEST(leaders_tile_the_array)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(1);
  int *counts = malloc(13 * 13 * 13 * sizeof *counts);

  for (int i = 0; i < rounds(5000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    struct placement p = random_placement(&rng, mesh, (int)test_range(&rng, 0, 3));
    tsr_box boxes[DEVICES];
    memset(counts, 0, 13 * 13 * 13 * sizeof *counts);
    for (int at = 0; at < mesh->device_count; at++) {
      int leader = tsr__replica_leader(&p.sharding, at);
      CHECK_STATUS(tsr_shard_box(&p.sharding, p.shape, at, &boxes[at]), TSR_OK, NULL);
      CHECK(leader <= at && tsr__replica_leader(&p.sharding, leader) == leader);
      CHECK_BYTES(&boxes[at], &boxes[leader], sizeof boxes[at]);
      if (leader == at) stamp(counts, &p.shape, &boxes[at]);
    }
    for (int64_t k = 0; k < tsr__shape_count(&p.shape); k++) CHECK_I64(counts[k], 1);
  }
  free(counts);
  tsr_runtime_close(rt);
}

/* ---- the same parts by dealing --------------------------------------------------------------- */

/* The part of [start, start + size) that `index` of `parts` gets when elements are dealt one by
 * one, each part then keeping its count in one piece. */
static void deal(int64_t *start, int64_t *size, int64_t parts, int64_t index)
{
  int64_t counts[DEVICES] = { 0 };

  for (int64_t k = 0; k < *size; k++) counts[k % parts]++;
  for (int64_t k = 0; k < index; k++) *start += counts[k];
  *size = counts[index];
}

TEST(parts_are_what_dealing_gives)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(2);

  for (int i = 0; i < rounds(5000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    struct placement p = random_placement(&rng, mesh, (int)test_range(&rng, 1, 8));
    int64_t coords[TSR_MAX_AXES] = { 0 };
    for (int at = 0; at < mesh->device_count; at++) {
      tsr_box box;
      tsr__box(&p.sharding, &p.shape, at, &box);
      for (int d = 0; d < p.shape.rank; d++) {
        int64_t start = 0, size = p.shape.dims[d];
        for (const int *axis = p.axes[d]; *axis >= 0; axis++)
          deal(&start, &size, mesh->sizes[*axis], coords[*axis]);
        int64_t parts = tsr__dim_parts(&p.sharding, d);
        CHECK_I64(tsr__dim_span(&p.sharding, d, parts, at).start,
                  tsr__dim_index(&p.sharding, d, at));
        CHECK_I64(box.start[d], start);
        CHECK_I64(box.size[d], size);
      }
      for (int a = mesh->axis_count - 1; a >= 0; a--) { /* count on, the last axis fastest */
        if (++coords[a] < mesh->sizes[a]) break;
        coords[a] = 0;
      }
    }
  }
  tsr_runtime_close(rt);
}

TEST(large_sizes_split_without_overflow)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(3);

  for (int i = 0; i < rounds(5000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    struct placement p = random_placement(&rng, mesh, 1);
    int64_t size = INT64_MAX - test_range(&rng, 0, 100), total = 0;
    for (int at = 0; at < mesh->device_count; at++) {
      int64_t start, length;
      tsr__dim_part(&p.sharding, 0, size, at, &start, &length);
      CHECK(start >= 0 && length > 0 && start <= size - length);
      if (tsr__replica_leader(&p.sharding, at) == at) total += length;
    }
    CHECK_I64(total, size);
  }
  tsr_runtime_close(rt);
}

/* ---- borders stay ---------------------------------------------------------------------------- */

TEST(dropping_the_minor_axis_moves_no_border)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(4);

  for (int i = 0; i < rounds(20000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    struct placement p = random_placement(&rng, mesh, 1);
    int64_t size = test_range(&rng, 0, 100), first = INT64_MAX, last = 0, sum = 0;
    if (p.axes[0][0] < 0) continue;
    tsr_sharding without = p.sharding;
    for (int d = 0; d < TSR_MAX_RANK; d++) without.first[d + 1]--;
    int at = (int)test_range(&rng, 0, mesh->device_count - 1);
    int axis = p.sharding.axis[without.first[1]];
    int line = at - (int)(tsr__mesh_coord(mesh, at, axis) * mesh->strides[axis]);
    int64_t start, length, whole_start, whole_length;
    tsr__dim_part(&without, 0, size, at, &whole_start, &whole_length);
    for (int64_t k = 0; k < mesh->sizes[axis]; k++) { /* all coordinates along the minor axis */
      tsr__dim_part(&p.sharding, 0, size, line + (int)(k * mesh->strides[axis]), &start, &length);
      if (length && start < first) first = start;
      if (length && start + length > last) last = start + length;
      sum += length;
    }
    CHECK_I64(sum, whole_length);
    if (!sum) continue;
    CHECK_I64(first, whole_start);
    CHECK_I64(last, whole_start + whole_length);
  }
  tsr_runtime_close(rt);
}

/* ---- canonical forms ------------------------------------------------------------------------- */

static bool same_on_all_positions(const tsr_sharding *a, const tsr_sharding *b,
                                  const tsr_shape *shape)
{
  for (int at = 0; at < tsr__positions(a); at++) {
    tsr_box left, right;
    tsr__box(a, shape, at, &left);
    tsr__box(b, shape, at, &right);
    if (memcmp(&left, &right, sizeof left) != 0) return false;
  }
  return true;
}

TEST(canonical_forms_are_equal_exactly_for_equal_placements)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(5);
  int equal = 0;

  for (int i = 0; i < rounds(50000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    int rank = (int)test_range(&rng, 1, 3);
    struct placement p = random_placement(&rng, mesh, rank), q = random_placement(&rng, mesh, rank);
    tsr_shape generic = { .rank = rank, .dims = { 1009, 1013, 1019 } }; /* no two cuts coincide */
    tsr_sharding a = tsr__sharding_canon(&p.sharding), b = tsr__sharding_canon(&q.sharding);
    tsr_sharding again = tsr__sharding_canon(&a);
    bool same = same_on_all_positions(&p.sharding, &q.sharding, &generic);
    CHECK_BYTES(&again, &a, sizeof a);
    CHECK(same_on_all_positions(&p.sharding, &a, &generic));
    CHECK_I64(memcmp(&a, &b, sizeof a) == 0, same);
    CHECK_I64(tsr__sharding_equal(&p.sharding, &q.sharding), same);
    CHECK_I64(tsr_sharding_same(&p.sharding, &q.sharding, generic), same);
    equal += same;
  }
  CHECK(equal > rounds(50000) / 20);
  tsr_runtime_close(rt);
}

/* On shapes of any size, "same" means that each device holds the same elements. */
TEST(same_means_the_same_elements_on_each_device)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(6);
  int equal = 0;

  for (int i = 0; i < rounds(50000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt), *other = random_mesh(&rng, rt);
    int rank = (int)test_range(&rng, 1, 2);
    struct placement p = random_placement(&rng, mesh, rank),
                     q = random_placement(&rng, other, rank);
    bool same = mesh->device_count == other->device_count;
    for (int at = 0; same && at < mesh->device_count; at++) {
      tsr_box a, b;
      tsr__box(&p.sharding, &p.shape, at, &a);
      tsr__box(&q.sharding, &p.shape, at, &b);
      int64_t left = 1, right = 1;
      for (int d = 0; d < rank; d++) {
        left *= a.size[d];
        right *= b.size[d];
      }
      if (left || right) same = memcmp(&a, &b, sizeof a) == 0;
    }
    CHECK_I64(tsr_sharding_same(&p.sharding, &q.sharding, p.shape), same);
    equal += same;
  }
  CHECK(equal > rounds(50000) / 50);
  tsr_runtime_close(rt);
}

/* ---- text ------------------------------------------------------------------------------------ */

TEST(what_is_written_is_read_again)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(7);

  for (int i = 0; i < rounds(20000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    int rank = (int)test_range(&rng, 0, 8);
    struct placement p = random_placement(&rng, mesh, rank);
    char text[512];
    tsr_sharding_text(&p.sharding, rank, text, sizeof text);
    tsr_sharding again = tsr_on(mesh, text);
    CHECK_BYTES(&again, &p.sharding, sizeof again);
    CHECK(tsr_mesh_make(rt, tsr_mesh_text(mesh)) == mesh);
  }
  tsr_runtime_close(rt);
}
