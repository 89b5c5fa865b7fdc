/* Moves of an array from one sharding to another: the boxes that each device copies, their sources,
 * the bytes that cross between devices, and the name of the move.
 *
 *   to position 2:  [....####]        parts of `from` are disjoint and cover the array, so the
 *   from parts:     [aaa][bbb][cc]    pieces of a box are its intersections with them; of the
 *   pieces:             [b ][cc]      replicas of a part, the own device's is taken, else the
 *                                     lowest position's
 *
 * A move never gathers an array in full to cut it again: each device gets the elements that it
 * lacks, once. */
#include "partition/flow.h"

/* ---- pieces ---- */

/* The span that a part of `to` takes along a dim; with blocks, the span of its items. Items are
 * shared out like a dim of their number. Blocks overlap where they are wider than a step, and the
 * last ones may end before they are full. */
static tsr__span wanted_span(const tsr__reshard *move, int d, int64_t part)
{
  const tsr__blocks_attr *blocks = move->blocks;
  if (!blocks || !blocks->parts[d]) return tsr__part_span(move->to, d, move->shape->dims[d], part);
  tsr__span items = tsr__part_span(move->to, d, blocks->items[d], part);
  int64_t start = items.start * blocks->step[d], left = move->shape->dims[d] - start;
  int64_t size = items.length ? (items.length - 1) * blocks->step[d] + blocks->width[d] : 0;
  return (tsr__span){ start, left < 0 ? 0 : left < size ? left : size };
}

/* The span that a position of `to` takes along a dim.
 *
 * A move of blocks reads the number of the part first, since the items are shared out by it. */
static tsr__span wanted_at(const tsr__reshard *move, int d, int to_position)
{
  if (!move->blocks) return tsr__dim_span(move->to, d, move->shape->dims[d], to_position);
  return wanted_span(move, d, tsr__dim_index(move->to, d, to_position));
}

void tsr__reshard_want(const tsr__reshard *move, int to_position, tsr_box *out)
{
  memset(out, 0, sizeof *out);
  for (int d = 0; d < move->shape->rank; d++) {
    tsr__span span = wanted_at(move, d, to_position);
    out->start[d] = span.start;
    out->size[d] = span.length;
  }
}

tsr__reshard tsr__reshard_of(const tsr__program *program, int node, tsr_shape *shape)
{
  const tsr__gnode *g = &program->nodes[node], *in = &program->nodes[tsr__in(program, g, 0)];
  bool blocks = tsr__ops[g->op].attr == TSR__ATTR_BLOCKS;
  *shape = tsr__gnode_shape(in);
  return (tsr__reshard){ &program->shardings[in->sharding], &program->shardings[g->sharding], shape,
                         blocks ? tsr__attr_of(program, g) : NULL, 0 };
}

/* The position of `from` on the device that takes the shard at `to_position`; -1: no such position
 * with elements. This position is preferred to others, so that elements on the device are not
 * fetched. */
static int own_position(const tsr__reshard *move, int to_position)
{
  int device = move->to->mesh ? tsr__position_device(move->to, to_position) : move->device;
  int own = tsr__device_position(move->from, device);
  return own >= 0 && tsr__holds(move->from, own) ? own : -1;
}

/* An odometer over the overlaps of each dim: the last dim advances, and at its end it begins again
 * while the dim before it advances. */
void tsr__reshard_pieces(const tsr__reshard *move, int to_position, tsr__piece_fn fn, void *user)
{
  const tsr_sharding *from = move->from;
  tsr__overlap_walk walk[TSR_MAX_RANK], begin[TSR_MAX_RANK];
  tsr__overlap at[TSR_MAX_RANK];
  tsr_box want, part = { .size = { 0 } }, piece = { .size = { 0 } };
  int rank = move->shape->rank, own = own_position(move, to_position);
  int own_leader = own < 0 ? -1 : tsr__replica_leader(from, own);
  if (!tsr__holds(move->to, to_position)) return; /* zeros */
  tsr__reshard_want(move, to_position, &want);
  for (int d = 0; d < rank; d++) {
    tsr__span span = { want.start[d], want.size[d] };
    begin[d] = walk[d] = tsr__overlaps_begin(from, d, move->shape->dims[d], span);
    if (!tsr__overlaps_next(&walk[d], &at[d])) return;
  }
  for (int d = 0; d >= 0;) {
    int position = 0;
    for (d = 0; d < rank; d++) {
      position += at[d].offset;
      piece.start[d] = want.start[d] + at[d].to_start;
      piece.size[d] = at[d].size;
      part.start[d] = piece.start[d] - at[d].from_start;
      part.size[d] = at[d].part_size;
    }
    fn(user, &(tsr__moved_box){ position == own_leader ? own : position, &piece, &part });
    for (d = rank - 1; d >= 0 && !tsr__overlaps_next(&walk[d], &at[d]); d--) {
      walk[d] = begin[d];
      tsr__overlaps_next(&walk[d], &at[d]);
    }
  }
}

/* Lists the overlaps of a dim, or only counts them (`list` NULL). Ten elements from three parts to
 * two:
 *
 *   from         | 0 1 2 3 | 4 5 6 | 7 8 9 |     part 0 takes  four of part 0, one of part 1
 *   to           | 0 1 2 3   4 | 5 6   7 8 9 |   part 1 takes  two of part 1, three of part 2
 *   first        0 2 4
 *
 * Both sides are in order, so a list has at most as many entries as both have parts. */
static int list_overlaps(const tsr__reshard *move, int d, int *first, tsr__overlap *list)
{
  int64_t parts = tsr__dim_parts(move->to, d);
  int count = 0;
  for (int64_t part = 0; part < parts; part++) {
    tsr__overlap_walk walk =
        tsr__overlaps_begin(move->from, d, move->shape->dims[d], wanted_span(move, d, part));
    tsr__overlap at;
    first[part] = count;
    for (; tsr__overlaps_next(&walk, &at); count++)
      if (list) list[count] = at;
  }
  first[parts] = count;
  return count;
}

bool tsr__overlaps_make(const tsr__reshard *move, tsr__arena *arena, tsr__overlaps *out)
{
  for (int d = 0; d < move->shape->rank; d++) {
    int64_t parts = tsr__dim_parts(move->to, d);
    out->first[d] = tsr__arena_raw(arena, ((size_t)parts + 1) * sizeof *out->first[d]);
    if (!out->first[d]) return false;
    size_t count = (size_t)list_overlaps(move, d, out->first[d], NULL);
    out->list[d] = tsr__arena_raw(arena, (count + 1) * sizeof *out->list[d]);
    if (!out->list[d]) return false;
    list_overlaps(move, d, out->first[d], out->list[d]);
  }
  return true;
}

bool tsr__overlaps_at(const tsr__reshard *move, const tsr__overlaps *overlaps, int to_position,
                      tsr__piece_grid *out)
{
  if (!tsr__holds(move->to, to_position)) return false;
  out->rank = move->shape->rank;
  out->own = own_position(move, to_position);
  out->leader = out->own < 0 ? -1 : tsr__replica_leader(move->from, out->own);
  for (int d = 0; d < out->rank; d++) {
    const int *first = overlaps->first[d] + tsr__dim_index(move->to, d, to_position);
    out->overlaps[d] = overlaps->list[d] + first[0];
    out->counts[d] = first[1] - first[0];
  }
  return true;
}

int64_t tsr__piece_bytes(tsr_dtype dtype, int rank, const tsr_box *box)
{
  return tsr__elements_bytes(dtype, tsr__box_count(box, rank));
}

/* The elements that a position needs from others; `own` is its device's position of `from`, or -1.
 * The count goes dim by dim, since plans ask for many moves. `shared` is 0 or 1 at first: whether
 * the device has a part, then the number of wanted elements in it. */
static int64_t lacking(const tsr__reshard *move, int to_position, int own)
{
  const tsr_shape *shape = move->shape;
  int64_t wants = 1, shared = own >= 0;
  for (int d = 0; d < shape->rank; d++) {
    tsr__span want = wanted_at(move, d, to_position);
    wants *= want.length;
    if (!shared) continue;
    tsr__span have = tsr__dim_span(move->from, d, shape->dims[d], own);
    int64_t end = want.start + want.length, other = have.start + have.length;
    int64_t start = want.start > have.start ? want.start : have.start;
    if (other < end) end = other;
    shared *= end > start ? end - start : 0;
  }
  return wants - shared;
}

typedef struct bit_count {
  int own, rank;
  int64_t bytes;
} bit_count;

static void add_bits(void *user, const tsr__moved_box *piece)
{
  bit_count *t = user;
  if (piece->position != t->own) t->bytes += tsr__piece_bytes(TSR_BOOL, t->rank, piece->box);
}

/* The bytes that come from other devices to a position. Bools are rounded up piece by piece. An
 * unplaced array lies on the first device of each process. */
static int64_t coming_bytes(const tsr__reshard *move, int to_position, int device, tsr_dtype dtype)
{
  const tsr_mesh *mesh = move->to->mesh ? move->to->mesh : move->from->mesh;
  int own = move->from->mesh                            ? tsr__device_position(move->from, device)
            : tsr__first_beside(mesh, device) == device ? 0
                                                        : -1;
  bit_count bits = { own, move->shape->rank, 0 };
  if (!tsr__holds(move->to, to_position)) return 0;
  if (dtype != TSR_BOOL) {
    if (own >= 0 && !tsr__holds(move->from, own)) own = -1;
    return tsr__elements_bytes(dtype, lacking(move, to_position, own));
  }
  tsr__reshard_pieces(move, to_position, add_bits, &bits);
  return bits.bytes;
}

int64_t tsr__move_bytes(const tsr__reshard *move, tsr_dtype dtype)
{
  const tsr_mesh *mesh = move->to->mesh ? move->to->mesh : move->from->mesh;
  int64_t bytes = 0;
  for (int p = 0; p < tsr__positions(move->to); p++)
    bytes += coming_bytes(move, p, tsr__position_device(move->to, p), dtype);
  if (move->to->mesh || !mesh) return bytes;
  /* Each process gets a copy of an unplaced array: that of the first process is counted above. */
  for (int d = 1; d < tsr__topology_of(mesh->rt)->device_count; d++) {
    tsr__reshard there = *move;
    there.device = d;
    if (tsr__first_beside(mesh, d) == d) bytes += coming_bytes(&there, 0, d, dtype);
  }
  return bytes;
}

int64_t tsr__reshard_bytes(const tsr_sharding *from, const tsr_sharding *to, tsr_dtype dtype,
                           const tsr_shape *shape)
{
  return tsr__move_bytes(&(tsr__reshard){ from, to, shape, NULL, 0 }, dtype);
}

/* A position of `to` whose pieces are counted along the axes that they cross. */
typedef struct arrival {
  tsr__crossed *crossed;
  const tsr__reshard *move;
  tsr__arrival to;
} arrival;

/* A move between two meshes, or from a place without a mesh, is rare: its pieces are counted one by
 * one. */
static void add_arriving_piece(void *user, const tsr__moved_box *piece)
{
  arrival *a = user;
  int64_t bytes = tsr__piece_bytes(a->to.dtype, a->move->shape->rank, piece->box) * a->to.times;
  tsr__crossed_add(a->crossed, &(tsr__sent){ a->move->from, piece->position, a->to.device, bytes });
}

/* Counts dim by dim where both sides lie on one mesh, since plans ask for many moves. */
static void add_arrival(tsr__crossed *crossed, const tsr__reshard *move, int to_position,
                        tsr__arrival to)
{
  tsr_box want;
  arrival pieces = { crossed, move, to };
  if (move->from->mesh != crossed->mesh) {
    tsr__reshard_pieces(move, to_position, add_arriving_piece, &pieces);
    return;
  }
  tsr__reshard_want(move, to_position, &want);
  tsr__crossed_to_position(crossed, move, &want, to);
}

/* Looks at most at 16 positions, each of which stands for its neighbours. An odd distance between
 * them keeps them from lying alike along a minor axis. */
static void look_along(tsr__crossed *crossed, const tsr__reshard *move, tsr_dtype dtype)
{
  enum { LOOKED_AT = 16 };
  const tsr_sharding *to = move->to;
  int positions = tsr__positions(to), step = positions <= LOOKED_AT ? 1 : positions / LOOKED_AT | 1;
  int looks = (positions + step - 1) / step, times = (positions + looks / 2) / looks;
  for (int p = 0; p < positions; p += step) {
    int device = to->mesh ? tsr__position_device(to, p) : move->device;
    if (tsr__holds(to, p)) add_arrival(crossed, move, p, (tsr__arrival){ dtype, device, times });
  }
}

/* Counts at most 64 positions, evenly spaced, each of which stands for its neighbours. */
tsr__crossed tsr__move_crosses(const tsr__reshard *move, tsr_dtype dtype)
{
  enum { LOOKED_AT = 64 };
  const tsr_sharding *to = move->to;
  int positions = tsr__positions(to), step = (positions + LOOKED_AT - 1) / LOOKED_AT;
  tsr__crossed crossed = { .mesh = to->mesh ? to->mesh : move->from->mesh };
  for (int p = 0; p < positions; p += step)
    if (tsr__holds(to, p))
      crossed.bytes += tsr__elements_bytes(dtype, lacking(move, p, own_position(move, p)));
  crossed.bytes *= step;
  if (tsr__mesh_has_speeds(crossed.mesh)) look_along(&crossed, move, dtype);
  return crossed;
}

/* ---- comparing ---- */

/* An abstract mesh, which has sizes and no devices, counts as the first devices, so that arrays on
 * a mesh can meet it in a plan. */
bool tsr__same_devices(const tsr_mesh *a, const tsr_mesh *b)
{
  if (a == b) return true;
  if (!a || !b || a->device_count != b->device_count) return false;
  for (int i = 0; i < a->device_count; i++)
    if (tsr__mesh_position(b, a->abstract ? i : a->devices[i]) < 0) return false;
  return true;
}

/* ---- the ladder ---- */

/* Per axis of one mesh: the dim it cuts, -1 for none. */
static void axis_dims(const tsr_sharding *s, int8_t dim[TSR_MAX_AXES])
{
  memset(dim, -1, TSR_MAX_AXES);
  for (int d = 0; d < TSR_MAX_RANK; d++)
    for (int i = s->first[d]; i < s->first[d + 1]; i++) dim[s->axis[i]] = (int8_t)d;
}

bool tsr__cuts_begin(const tsr_sharding *shorter, const tsr_sharding *longer)
{
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int count = shorter->first[d + 1] - shorter->first[d];
    if (count > longer->first[d + 1] - longer->first[d]) return false;
    if (memcmp(&shorter->axis[shorter->first[d]], &longer->axis[longer->first[d]], (size_t)count))
      return false;
  }
  return true;
}

/* Whether both cut every dim into the same parts, maybe at other positions. */
static bool same_cuts(const tsr_sharding *a, const tsr_sharding *b, const tsr_shape *shape)
{
  for (int d = 0; d < shape->rank; d++) {
    int64_t parts = tsr__dim_parts(a, d);
    if (parts != tsr__dim_parts(b, d)) return false;
    int axes = a->first[d + 1] - a->first[d], others = b->first[d + 1] - b->first[d];
    if ((axes > 1 || others > 1) && shape->dims[d] % parts) return false;
  }
  return true;
}

static unsigned all_axes(const tsr_mesh *mesh)
{
  unsigned mask = 0;
  for (int a = 0; mesh && a < mesh->axis_count; a++)
    if (mesh->sizes[a] > 1) mask |= 1u << a;
  return mask;
}

/* The move follows from the changes of each axis; for (x,y | -) on one mesh, the first that fits:
 *
 *   (x,y | z)  slice        each dim's list begins with its old list
 *   (x | -)    all-gather   each dim's list is the beginning of its old list
 *   (y,x | -)  permute      the same parts on other devices, where they are all as long
 *   (y | -)    all-gather   an axis is dropped and none changes its dim
 *   (x | y)    all-to-all   an axis cuts another dim than before
 *
 * A sum that is reduced on the way is a broadcast: the first devices along its axes have the sum,
 * and send it. */
static int move_on_mesh(const tsr_sharding *from, const tsr_sharding *to, const tsr_shape *shape,
                        unsigned *axes)
{
  unsigned dropped = tsr__used_axes(from) & ~tsr__used_axes(to), shifted = 0;
  int8_t before[TSR_MAX_AXES], after[TSR_MAX_AXES];
  axis_dims(from, before);
  axis_dims(to, after);
  for (int a = 0; a < TSR_MAX_AXES; a++)
    if (before[a] >= 0 && after[a] >= 0 && before[a] != after[a]) shifted |= 1u << a;
  *axes = from->unreduced & ~to->unreduced;
  if (*axes) return TSR__MOVE_BROADCAST; /* the sum, from the first devices, which have it */
  *axes = dropped | shifted;
  if (tsr__cuts_begin(from, to)) return TSR__MOVE_SLICE;
  if (tsr__cuts_begin(to, from)) return TSR__MOVE_ALL_GATHER;
  if (*axes == 0) *axes = tsr__used_axes(from) & tsr__used_axes(to); /* another order on a dim */
  if (same_cuts(from, to, shape)) {
    *axes = tsr__used_axes(from) | tsr__used_axes(to);
    return TSR__MOVE_PERMUTE;
  }
  if (!shifted && dropped) return TSR__MOVE_ALL_GATHER;
  return TSR__MOVE_ALL_TO_ALL;
}

/* Whether each device that takes elements has a part of `from` with elements of its own. */
static bool is_on_each(const tsr_sharding *from, const tsr_sharding *to)
{
  for (int p = 0; p < tsr__positions(to); p++) {
    int own = tsr__device_position(from, tsr__position_device(to, p));
    if (own < 0 || !tsr__holds(from, own)) return false;
  }
  return true;
}

int tsr__reshard_move(const tsr_sharding *from, const tsr_sharding *to, const tsr_shape *shape,
                      unsigned *out_axes)
{
  if (from->mesh && from->mesh == to->mesh) return move_on_mesh(from, to, shape, out_axes);
  if (!from->mesh) {
    *out_axes = all_axes(to->mesh);
    return TSR__MOVE_BROADCAST;
  }
  if (!to->mesh) {
    *out_axes = tsr__used_axes(from);
    return TSR__MOVE_ALL_GATHER;
  }
  *out_axes = all_axes(to->mesh);
  if (!tsr__used_axes(from)) return is_on_each(from, to) ? TSR__MOVE_SLICE : TSR__MOVE_BROADCAST;
  if (!tsr__used_axes(to)) return TSR__MOVE_ALL_GATHER;
  return same_cuts(from, to, shape) ? TSR__MOVE_PERMUTE : TSR__MOVE_REMATERIALISE;
}
