/* Who holds which part of an array: boxes of true size, by arithmetic alone.
 *
 * A dim is cut axis by axis, the major axis first, and each cut gives the first (size mod
 * parts) parts one element more:
 *
 *     10 over data=4            3     3     2   2
 *     10 over data=2,model=2    5         5          dropping model leaves the border of
 *                               3    2    3    2     data where it was
 *
 * Invariant of a sharding: first[] never falls, and dims past its rank have no axes, so a dim's
 * axes can be read without a look at the rank. A bad spec has no axes at all. */
#include "topology/topology.h"

/* How many parts the axes of a dim cut it into. */
int64_t tsr__dim_parts(const tsr_sharding *sharding, int dim)
{
  int64_t parts = 1;

  for (int i = sharding->first[dim]; i < sharding->first[dim + 1]; i++)
    parts *= sharding->mesh->sizes[sharding->axis[i]];
  return parts;
}

/* Part `index` of a span that an axis cuts into `parts`. The first `rest` parts have one more, so
 * before part `index` stand so many of them. Most sizes fit in 32 bits, and division of those is
 * cheaper. */
static inline tsr__span cut_span(tsr__span span, int64_t parts, int64_t index)
{
  bool narrow = span.length <= UINT32_MAX && parts <= UINT32_MAX;
  int64_t quotient = narrow ? (uint32_t)span.length / (uint32_t)parts : span.length / parts;
  int64_t rest = span.length - quotient * parts;
  int64_t before = index * quotient + (index < rest ? index : rest);
  return (tsr__span){ span.start + before, quotient + (index < rest) };
}

tsr__span tsr__dim_span(const tsr_sharding *sharding, int dim, int64_t size, int position)
{
  tsr__span span = { 0, size };

  /* Each axis cuts what the one before left: nested, not by the product of their sizes, so that
   * a dim keeps its borders when minor axes are dropped. Nothing, and a size of the run (-1), is
   * not cut. */
  for (int i = sharding->first[dim]; i < sharding->first[dim + 1] && span.length > 0; i++) {
    int axis = sharding->axis[i];
    int64_t index = tsr__mesh_coord(sharding->mesh, position, axis);
    span = cut_span(span, sharding->mesh->sizes[axis], index);
  }
  return span;
}

/* Which part of a dim, counted from its start, a position has. */
int64_t tsr__dim_index(const tsr_sharding *sharding, int dim, int position)
{
  int64_t index = 0;

  for (int i = sharding->first[dim]; i < sharding->first[dim + 1]; i++)
    /* A number in mixed radix, major axis first, as spans are cut. */
    index = index * sharding->mesh->sizes[sharding->axis[i]] +
            tsr__mesh_coord(sharding->mesh, position, sharding->axis[i]);
  return index;
}

/* Like tsr__dim_span. The number of a part is in mixed radix; its digits are the coordinates. */
tsr__span tsr__part_span(const tsr_sharding *sharding, int dim, int64_t size, int64_t part)
{
  tsr__span span = { 0, size };
  int64_t below = tsr__dim_parts(sharding, dim);

  for (int i = sharding->first[dim]; i < sharding->first[dim + 1] && span.length > 0; i++) {
    int64_t parts = sharding->mesh->sizes[sharding->axis[i]];
    below /= parts;
    span = cut_span(span, parts, part / below);
    part %= below;
  }
  return span;
}

/* The inverse of the cut, axis by axis. The first `rest` parts have one element more.
 *
 *   7 over 3     | 0 1 2 | 3 4 | 5 6 |     rest 1, quotient 2: elements from 3 on are those of
 *                                          part 1 + (element - 3) / 2 */
int64_t tsr__part_with(const tsr_sharding *sharding, int dim, int64_t size, int64_t element)
{
  int64_t part = 0;

  for (int i = sharding->first[dim]; i < sharding->first[dim + 1]; i++) {
    int64_t parts = sharding->mesh->sizes[sharding->axis[i]];
    int64_t quotient = size / parts, rest = size - quotient * parts,
            long_end = rest * (quotient + 1);
    bool longer = element < long_end;
    int64_t before = longer ? element / (quotient + 1) : (element - long_end) / quotient;
    element -= longer ? before * (quotient + 1) : long_end + before * quotient;
    size = quotient + longer;
    part = part * parts + before + (longer ? 0 : rest);
  }
  return part;
}

int tsr__part_offset(const tsr_sharding *sharding, int dim, int64_t part)
{
  int offset = 0;

  for (int i = sharding->first[dim + 1] - 1; i >= sharding->first[dim]; i--) {
    int axis = sharding->axis[i];
    offset += (int)(part % sharding->mesh->sizes[axis]) * (int)sharding->mesh->strides[axis];
    part /= sharding->mesh->sizes[axis];
  }
  return offset;
}

tsr__overlap_walk tsr__overlaps_begin(const tsr_sharding *sharding, int dim, int64_t size,
                                      tsr__span span)
{
  tsr__overlap_walk walk = { sharding, dim, size, 0, span.start, span };
  if (span.length > 0) walk.part = tsr__part_with(sharding, dim, size, span.start);
  return walk;
}

/* Parts lie in order, so those of a span are neighbours, but for empty ones between them. */
bool tsr__overlaps_next(tsr__overlap_walk *walk, tsr__overlap *out)
{
  int64_t at = walk->at, end = walk->span.start + walk->span.length;
  tsr__span have = { 0, 0 };

  if (at >= end) return false;
  while (!have.length) have = tsr__part_span(walk->sharding, walk->dim, walk->size, walk->part++);
  int64_t stop = have.start + have.length < end ? have.start + have.length : end;
  *out = (tsr__overlap){ have.length, at - have.start, at - walk->span.start, stop - at,
                         tsr__part_offset(walk->sharding, walk->dim, walk->part - 1) };
  walk->at = stop;
  return true;
}

/* Sizes of the run (-1) stay as they are. Dims behind the rank are 0. */
void tsr__box(const tsr_sharding *sharding, const tsr_shape *shape, int position, tsr_box *out)
{
  memset(out, 0, sizeof *out);
  for (int d = 0; d < shape->rank; d++) {
    out->size[d] = shape->dims[d];
    if (sharding->first[d] == sharding->first[d + 1]) continue;
    tsr__span span = tsr__dim_span(sharding, d, shape->dims[d], position);
    out->start[d] = span.start;
    out->size[d] = span.length;
  }
}

/* Axes as bits: those of a dim, and those of all dims. */
unsigned tsr__dim_axes(const tsr_sharding *sharding, int dim)
{
  unsigned mask = 0;

  for (int i = sharding->first[dim]; i < sharding->first[dim + 1]; i++)
    mask |= 1u << sharding->axis[i];
  return mask;
}

unsigned tsr__used_axes(const tsr_sharding *sharding)
{
  unsigned mask = 0;

  for (int i = 0; i < sharding->first[TSR_MAX_RANK]; i++) mask |= 1u << sharding->axis[i];
  return mask;
}

unsigned tsr__free_axes(const tsr_sharding *sharding)
{
  if (!sharding->mesh) return 0;
  return ((1u << sharding->mesh->axis_count) - 1) & ~tsr__used_axes(sharding);
}

/* Replicas have equal coordinates along the axes that cut something: the one with zeros elsewhere
 * leads.
 *
 *   x=2,y=3, spec x      0 1 2 | 3 4 5      y is free: 0 leads 0 1 2, 3 leads 3 4 5
 */
int tsr__replica_leader(const tsr_sharding *sharding, int position)
{
  return tsr__mesh_group_leader(sharding->mesh, tsr__free_axes(sharding), position);
}

/* ---- groups ------------------------------------------------------------------------------ */

int tsr__mesh_group_size(const tsr_mesh *mesh, unsigned axes)
{
  int64_t size = 1;

  for (int a = 0; mesh && a < mesh->axis_count; a++)
    if (axes >> a & 1) size *= mesh->sizes[a];
  return (int)size;
}

/* The index is a number in mixed radix of the coordinates along the group's axes. */
int tsr__mesh_group_offset(const tsr_mesh *mesh, unsigned axes, int index)
{
  uint32_t offset = 0, rest = (uint32_t)index;

  for (int a = mesh ? mesh->axis_count - 1 : -1; a >= 0; a--) {
    if (!(axes >> a & 1)) continue;
    offset += rest % (uint32_t)mesh->sizes[a] * mesh->strides[a];
    rest /= (uint32_t)mesh->sizes[a];
  }
  return (int)offset;
}

int tsr__mesh_group_index(const tsr_mesh *mesh, unsigned axes, int position)
{
  int64_t index = 0;

  for (int a = 0; mesh && a < mesh->axis_count; a++)
    if (axes >> a & 1) index = index * mesh->sizes[a] + tsr__mesh_coord(mesh, position, a);
  return (int)index;
}

int tsr__mesh_group_leader(const tsr_mesh *mesh, unsigned axes, int position)
{
  int leader = position;

  for (int a = 0; mesh && a < mesh->axis_count; a++)
    if (axes >> a & 1) leader -= (int)tsr__mesh_coord(mesh, position, a) * (int)mesh->strides[a];
  return leader;
}

/* The checks of all questions about a shape; an unplaced sharding for NULL. */
static tsr_status check_question(const char *call, const tsr_sharding **sharding,
                                 const tsr_shape *shape, const void *out)
{
  static const tsr_sharding unplaced = { .mesh = NULL };
  tsr__error error = { .status = TSR_OK };

  if (!*sharding) *sharding = &unplaced;
  if (!out)
    tsr__error_set(&error, TSR_EARG, "the pointer for the result is NULL; give the address of one");
  else if (!tsr__shape_check(shape, &error)) tsr__sharding_check_form(*sharding, shape, &error);
  return error.status ? tsr__fail(NULL, NULL, error.status, "%s: %s", call, error.text) : TSR_OK;
}

tsr_status tsr_shard_box(const tsr_sharding *sharding, tsr_shape shape, int position, tsr_box *out)
{
  static const char call[] = "tsr_shard_box";
  tsr_status status = check_question(call, &sharding, &shape, out);
  if (status) return status;
  int count = tsr__positions(sharding);
  if (position < 0 || position >= count)
    return tsr__fail(NULL, NULL, TSR_EARG, "%s: position %d, expected 0..%d", call, position,
                     count - 1);
  tsr__box(sharding, &shape, position, out);
  return TSR_OK;
}

tsr_status tsr_shard_boxes(const tsr_sharding *sharding, tsr_shape shape, tsr_box *out, int count)
{
  static const char call[] = "tsr_shard_boxes";
  tsr_status status = check_question(call, &sharding, &shape, out);
  int all = status ? 0 : tsr__positions(sharding);
  if (!status && count != all)
    status = tsr__fail(NULL, NULL, TSR_EARG, "%s: the array holds %d boxes, expected %d", call,
                       count, all);
  for (int p = 0; !status && p < count; p++) tsr__box(sharding, &shape, p, &out[p]);
  return status;
}

/* The largest shape that any position has. */
tsr_status tsr_shard_shape(const tsr_sharding *sharding, tsr_shape shape, tsr_shape *out)
{
  tsr_status status = check_question("tsr_shard_shape", &sharding, &shape, out);
  if (status) return status;
  for (int d = 0; d < shape.rank; d++) /* the first part is the largest */
    shape.dims[d] = tsr__dim_span(sharding, d, shape.dims[d], 0).length;
  *out = shape;
  return TSR_OK;
}

/* Numbered in the order of the mesh; replica 0 is the leader. */
int tsr_shard_replica(const tsr_sharding *sharding, int position)
{
  const tsr_mesh *mesh = sharding ? sharding->mesh : NULL;

  if (position < 0 || position >= (mesh ? mesh->device_count : 1)) return -1;
  /* Partial sums along an axis are no replicas of each other. */
  unsigned free = mesh ? tsr__free_axes(sharding) & ~(unsigned)sharding->unreduced : 0;
  return tsr__mesh_group_index(mesh, free, position);
}

/* Whether every position has all of it. */
bool tsr_sharding_replicated(const tsr_sharding *sharding)
{
  if (!sharding || !sharding->mesh) return true;
  tsr_sharding canon = tsr__sharding_canon(sharding);
  return !sharding->mesh->error && !canon.first[TSR_MAX_RANK] && !canon.open && !canon.unreduced;
}

/* Whether all positions are this process's. Without a mesh it lies with each process itself. */
bool tsr_sharding_addressable(const tsr_sharding *sharding)
{
  const tsr_mesh *mesh = sharding ? sharding->mesh : NULL;

  /* Nothing lies there. */
  if (mesh && (mesh->error || mesh->abstract)) return false;
  for (int p = 0; mesh && p < mesh->device_count; p++)
    if (!tsr__device_local(tsr__topology_of(mesh->rt), mesh->devices[p])) return false;
  return true;
}

/* ---- equality of placements -------------------------------------------------------------- */

/* One form for placements that mean the same: axes of size 1 cut nothing, and the rank is no
 * matter. */
tsr_sharding tsr__sharding_canon(const tsr_sharding *sharding)
{
  tsr_sharding out;
  uint8_t used = 0;

  memset(&out, 0, sizeof out); /* equal bytes: no field is left to chance */
  out.mesh = sharding->mesh;
  out.rank = TSR_MAX_RANK;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    for (int i = sharding->first[d]; i < sharding->first[d + 1]; i++)
      if (sharding->mesh->sizes[sharding->axis[i]] > 1) out.axis[used++] = sharding->axis[i];
    out.first[d + 1] = used;
    /* Of a dim whose axes were all of size 1 nothing is cut, and only cut dims have a priority. */
    if (used > out.first[d]) tsr__dim_set_priority(&out, d, tsr__dim_priority(sharding, d));
  }
  out.open = sharding->open;
  out.memory = sharding->memory;
  for (int a = 0; sharding->unreduced >> a; a++)
    if (sharding->unreduced >> a & 1 && sharding->mesh->sizes[a] > 1)
      out.unreduced |= (uint8_t)(1u << a);
  return out;
}

/* Priorities say how to choose, not where things lie. */
bool tsr__sharding_equal(const tsr_sharding *a, const tsr_sharding *b)
{
  tsr_sharding left = tsr__sharding_canon(a), right = tsr__sharding_canon(b);

  memset(left.priority, 0, sizeof left.priority);
  memset(right.priority, 0, sizeof right.priority);
  return memcmp(&left, &right, sizeof left) == 0;
}

/* Two boxes without elements are the same wherever they start. */
static bool same_box(const tsr_box *a, const tsr_box *b, int rank)
{
  bool empty_a = false, empty_b = false, same = true;

  for (int d = 0; d < rank; d++) {
    empty_a |= a->size[d] == 0;
    empty_b |= b->size[d] == 0;
    same &= a->start[d] == b->start[d] && a->size[d] == b->size[d];
  }
  return same || (empty_a && empty_b);
}

/* Whether a position has the value of a sum that is not made yet. */
bool tsr__holds(const tsr_sharding *sharding, int position)
{
  bool first = true;
  /* The first along each axis of the sum has the value; with the others' zeros it adds up. */
  for (int a = 0; sharding->unreduced >> a; a++)
    if (sharding->unreduced >> a & 1)
      first = first && !tsr__mesh_coord(sharding->mesh, position, a);
  return first;
}

/* Whether one of two has a mesh and there are several processes: then what has none lies in each of
 * them, and nowhere as what has one. */
static bool only_one_placed(const tsr_sharding *a, const tsr_sharding *b)
{
  const tsr_mesh *mesh = a->mesh ? a->mesh : b->mesh;

  if (!a->mesh == !b->mesh || mesh->abstract) return false;
  return tsr__topology_of(mesh->rt)->process_count > 1;
}

static bool sharding_fits(const tsr_sharding *sharding, const tsr_shape *shape)
{
  tsr__error error = { .status = TSR_OK };
  tsr_sharding loose = *sharding;

  /* Strictness is a wish about sizes and no part of where things are. */
  loose.strict = false;
  return tsr__sharding_check_form(&loose, shape, &error) == TSR_OK;
}

/* Canonical forms tell most; what differs in them may still place this shape alike: a dim of
 * size 1 that is cut, or two axes in the place of one. So boxes are compared, device by device. */
bool tsr_sharding_same(const tsr_sharding *a, const tsr_sharding *b, tsr_shape shape)
{
  const tsr_sharding unplaced = { .mesh = NULL };
  tsr__error error = { .status = TSR_OK };

  if (!a) a = &unplaced;
  if (!b) b = &unplaced;
  if (tsr__shape_check(&shape, &error) || !sharding_fits(a, &shape) || !sharding_fits(b, &shape))
    return false;
  /* Canonical forms that are equal need no look at boxes. */
  if (tsr__sharding_equal(a, b)) return true;
  if (a->unreduced | b->unreduced || a->memory != b->memory) return false;
  if (tsr__positions(a) != tsr__positions(b) || only_one_placed(a, b)) return false;
  for (int p = 0; p < tsr__positions(a); p++) {
    tsr_box left, right;
    int q = tsr__device_position(b, tsr__position_device(a, p));
    if (q < 0) return false;
    tsr__box(a, &shape, p, &left);
    tsr__box(b, &shape, q, &right);
    if (!same_box(&left, &right, shape.rank)) return false;
  }
  return true;
}

/* Stricter: the same position on both sides, as buffers are listed by it. Both were checked for the
 * shape; false where it is not sure, which only costs a move. */
bool tsr__same_places(const tsr_sharding *a, const tsr_sharding *b, const tsr_shape *shape)
{
  if (!memcmp(a, b, sizeof *a)) return true;
  if (a->unreduced != b->unreduced || a->memory != b->memory) return false;
  if (tsr__positions(a) != tsr__positions(b) || only_one_placed(a, b)) return false;
  for (int p = 0; p < tsr__positions(a); p++) {
    tsr_box left, right;
    if (tsr__position_device(a, p) != tsr__position_device(b, p)) return false;
    for (int d = 0; d < shape->rank; d++) {
      int64_t size = shape->dims[d];
      if (size < 0) { /* known at run time: only the same cut is sure to be the same */
        if (tsr__dim_axes(a, d) || tsr__dim_axes(b, d)) return false;
        continue;
      }
      tsr__dim_part(a, d, size, p, &left.start[d], &left.size[d]);
      tsr__dim_part(b, d, size, p, &right.start[d], &right.size[d]);
      if (left.start[d] != right.start[d] || left.size[d] != right.size[d]) return false;
    }
  }
  return true;
}
