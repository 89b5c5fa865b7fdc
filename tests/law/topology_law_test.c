/* Laws of placement, on random meshes, specs and shapes:
 *   - the parts of replica leaders tile an array, and replicas hold what their leader holds;
 *   - each part is what dealing elements out one by one gives;
 *   - dropping the minor axis of a dim never moves a border;
 *   - groups, the parts of a dim and the positions of devices that arithmetic finds are those that
 *     a search over all positions finds;
 *   - canonical forms are idempotent, and equal exactly when every position holds the same;
 *   - what is written can be read again.
 * Computes on no device. */
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

/* ---- arithmetic and search ------------------------------------------------------------------- */

/* The coordinates of all positions, counted on one by one, the last axis fastest. */
static void count_coords(const tsr_mesh *mesh, int64_t coords[DEVICES][TSR_MAX_AXES])
{
  memset(coords[0], 0, sizeof coords[0]);
  for (int at = 1; at < mesh->device_count; at++) {
    memcpy(coords[at], coords[at - 1], sizeof coords[at]);
    for (int a = mesh->axis_count - 1; ++coords[at][a] == mesh->sizes[a]; a--) coords[at][a] = 0;
  }
}

/* Whether two positions differ along some axes alone. */
static bool in_one_group(const int64_t *left, const int64_t *right, int axes, unsigned along)
{
  for (int a = 0; a < axes; a++)
    if (left[a] != right[a] && !(along >> a & 1)) return false;
  return true;
}

TEST(groups_are_those_that_a_search_finds)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(8);

  for (int i = 0; i < rounds(2000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    unsigned along = (unsigned)test_random(&rng) & 255;
    int64_t coords[DEVICES][TSR_MAX_AXES];
    int groups = 0;
    count_coords(mesh, coords);
    for (int at = 0; at < mesh->device_count; at++) {
      int members[DEVICES], count = 0, index = -1;
      for (int other = 0; other < mesh->device_count; other++) {
        if (!in_one_group(coords[at], coords[other], mesh->axis_count, along)) continue;
        if (other == at) index = count;
        members[count++] = other;
      }
      CHECK_I64(tsr__mesh_group_size(mesh, along), count);
      CHECK_I64(tsr__mesh_group_leader(mesh, along, at), members[0]);
      CHECK_I64(tsr__mesh_group_index(mesh, along, at), index);
      if (members[0] != at) continue;
      CHECK_I64(tsr__mesh_group_offset(mesh, ~along, groups++), at);
      for (int m = 0; m < count; m++)
        CHECK_I64(at + tsr__mesh_group_offset(mesh, along, m), members[m]);
    }
  }
  CHECK_I64(tsr__mesh_group_size(NULL, 3), 1);
  CHECK_I64(tsr__mesh_group_offset(NULL, 3, 0), 0);
  CHECK_I64(tsr__mesh_group_leader(NULL, 3, 0), 0);
  CHECK_I64(tsr__mesh_group_index(NULL, 3, 0), 0);
  tsr_runtime_close(rt);
}

/* The lowest position whose part of a dim has an element. */
static int position_with(const struct placement *p, int d, int64_t element)
{
  for (int at = 0; at < tsr__positions(&p->sharding); at++) {
    tsr__span span = tsr__dim_span(&p->sharding, d, p->shape.dims[d], at);
    if (element >= span.start && element < span.start + span.length) return at;
  }
  FAIL("no position has element %lld", (long long)element);
}

TEST(parts_of_a_dim_are_those_that_a_search_finds)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(9);

  for (int i = 0; i < rounds(5000); i++) {
    tsr_mesh *mesh = random_mesh(&rng, rt);
    struct placement p = random_placement(&rng, mesh, (int)test_range(&rng, 1, 3));
    for (int d = 0; d < p.shape.rank; d++) {
      int64_t size = p.shape.dims[d];
      for (int at = mesh->device_count - 1; at >= 0; at--) {
        int64_t part = tsr__dim_index(&p.sharding, d, at);
        tsr__span span = tsr__part_span(&p.sharding, d, size, part);
        tsr__span expected = tsr__dim_span(&p.sharding, d, size, at);
        CHECK_I64(span.start, expected.start);
        CHECK_I64(span.length, expected.length);
        CHECK(tsr__part_offset(&p.sharding, d, part) <= at);
      }
      for (int64_t e = 0; e < size; e++) {
        int64_t part = tsr__part_with(&p.sharding, d, size, e);
        int lowest = position_with(&p, d, e);
        CHECK_I64(part, tsr__dim_index(&p.sharding, d, lowest));
        CHECK_I64(tsr__part_offset(&p.sharding, d, part), lowest);
      }
    }
  }
  tsr_runtime_close(rt);
}

/* Steps a walk to the overlap that has an element of the span, which begins there or has begun. */
static void check_overlap(const struct placement *p, tsr__span span, int64_t element,
                          tsr__overlap_walk *walk, tsr__overlap *at)
{
  int lowest = position_with(p, 0, element);
  tsr__span part = tsr__dim_span(&p->sharding, 0, p->shape.dims[0], lowest);
  int64_t place = element - span.start;
  if (element == span.start || element == part.start) {
    CHECK(tsr__overlaps_next(walk, at));
    CHECK_I64(at->to_start, place);
  }
  CHECK_I64(at->part_size, part.length);
  CHECK_I64(at->offset, lowest);
  CHECK_I64(at->from_start + place - at->to_start, element - part.start);
  CHECK(place < at->to_start + at->size);
}

TEST(overlaps_are_those_that_a_search_finds)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(10);

  for (int i = 0; i < rounds(10000); i++) {
    struct placement p = random_placement(&rng, random_mesh(&rng, rt), 1);
    int64_t size = p.shape.dims[0], start = test_range(&rng, 0, size);
    tsr__span span = { start, test_range(&rng, 0, size - start) };
    tsr__overlap_walk walk = tsr__overlaps_begin(&p.sharding, 0, size, span);
    tsr__overlap at = { 0 };
    for (int64_t e = start; e < start + span.length; e++) check_overlap(&p, span, e, &walk, &at);
    CHECK_I64(at.to_start + at.size, span.length);
    CHECK(!tsr__overlaps_next(&walk, &at));
  }
  tsr_runtime_close(rt);
}

/* Some devices in any order. */
static tsr_mesh *mesh_of_some(test_rng *rng, tsr_runtime *rt)
{
  int devices[DEVICES];
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = 2, .names = { "a", "b" } };
  for (int i = 0; i < DEVICES; i++) {
    int at = (int)test_range(rng, 0, i);
    devices[i] = devices[at];
    devices[at] = i;
  }
  opts.sizes[0] = test_range(rng, 1, 6);
  opts.sizes[1] = test_range(rng, 1, 4);
  opts.devices = devices;
  return tsr_mesh_make_with(rt, &opts);
}

TEST(positions_of_devices_are_those_that_a_search_finds)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  test_rng rng = test_seeded(11);

  for (int i = 0; i < rounds(2000); i++) {
    tsr_mesh *mesh = i % 4 ? mesh_of_some(&rng, rt) : random_mesh(&rng, rt);
    CHECK_STATUS(tsr_mesh_status(mesh), TSR_OK, NULL);
    for (int device = -2; device < DEVICES + 2; device++) {
      int expected = -1;
      for (int at = 0; at < mesh->device_count; at++)
        if (tsr_mesh_device(mesh, at) == device) expected = at;
      CHECK_I64(tsr__mesh_position(mesh, device), expected);
    }
  }
  tsr_sharding nowhere = { .mesh = NULL };
  CHECK_I64(tsr__device_position(&nowhere, 0), 0);
  CHECK_I64(tsr__device_position(&nowhere, 1), -1);
  tsr_mesh *sizes = tsr_mesh_abstract(rt, "a=3,b=2");
  CHECK_I64(tsr__mesh_position(sizes, 5), 5);
  CHECK_I64(tsr__mesh_position(sizes, 6), -1);
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
