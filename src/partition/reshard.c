/* Moving an array from one sharding to another: who copies which box from whom, how many bytes
 * cross between devices, and what to call it.
 *
 *   to position 2:  [....####]        parts of `from` are disjoint and cover the array, so the
 *   from parts:     [aaa][bbb][cc]    pieces of a box are its intersections with them; of the
 *   pieces:             [b ][cc]      replicas of a part, the own device's is taken, else the
 *                                     lowest position's
 *
 * Nothing is ever gathered in full to be cut again: each device gets the elements that it lacks,
 * once. */
#include "partition/flow.h"

/* ---- pieces ---- */

/* The part of an array that a position of `from` holds, and what of it is in a box. False, with
 * neither whole: nothing; the first dim along which they miss each other tells. */
static bool meets_part(const tsr__reshard *move, int position, const tsr_box *want, tsr_box *part,
                       tsr_box *piece)
{
  for (int d = 0; d < move->shape->rank; d++) {
    tsr__span span = tsr__dim_span(move->from, d, move->shape->dims[d], position);
    int64_t end_a = span.start + span.length, end_b = want->start[d] + want->size[d];
    int64_t start = span.start > want->start[d] ? span.start : want->start[d];
    int64_t end = end_a < end_b ? end_a : end_b;
    if (start >= end) return false;
    part->start[d] = span.start;
    part->size[d] = span.length;
    piece->start[d] = start;
    piece->size[d] = end - start;
  }
  return true;
}

static bool same_size(const tsr_box *a, const tsr_box *b, int rank)
{
  bool same = true;
  for (int d = 0; d < rank; d++) same = same && a->size[d] == b->size[d];
  return same;
}

/* The position of `from` that lies on a device, -1 for none; `hint` is tried first. On one mesh it
 * is the hint, and on another mostly, too. */
static int position_on(const tsr_sharding *from, int device, int hint)
{
  int count = tsr__positions(from);
  if (hint < count && tsr__position_device(from, hint) == device) return hint;
  for (int p = 0; p < count; p++)
    if (tsr__position_device(from, p) == device) return p;
  return -1;
}

/* What a position is to have along a dim: of blocks, those of its items. Items are shared out like
 * a dim of their number. Blocks overlap where they are wider than a step, and the last ones may end
 * before they are full. */
static tsr__span wanted(const tsr__reshard *move, int d, int to_position)
{
  const tsr__blocks_attr *blocks = move->blocks;
  int64_t start, items;
  if (!blocks || !blocks->parts[d])
    return tsr__dim_span(move->to, d, move->shape->dims[d], to_position);
  tsr__dim_part(move->to, d, blocks->items[d], to_position, &start, &items);
  start *= blocks->step[d];
  int64_t left = move->shape->dims[d] - start;
  int64_t size = items ? (items - 1) * blocks->step[d] + blocks->width[d] : 0;
  return (tsr__span){ start, left < 0 ? 0 : left < size ? left : size };
}

void tsr__reshard_want(const tsr__reshard *move, int to_position, tsr_box *out)
{
  memset(out, 0, sizeof *out);
  for (int d = 0; d < move->shape->rank; d++) {
    tsr__span span = wanted(move, d, to_position);
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

/* Where a position has all it wants, one piece, of itself. Else parts are asked in order of
 * positions, one of each set of replicas: `own` in the place of its leader, so that what is here is
 * not fetched. */
void tsr__reshard_pieces(const tsr__reshard *move, int to_position, tsr__piece_fn fn, void *user)
{
  const tsr_sharding *from = move->from, *to = move->to;
  tsr_box want;
  /* Dims past the rank stay zero. */
  tsr_box part = { .size = { 0 } }, piece = { .size = { 0 } };
  int count = tsr__positions(from), rank = move->shape->rank;
  int device = to->mesh ? tsr__position_device(to, to_position) : move->device;
  int own = position_on(from, device, to_position);
  if (!tsr__holds(to, to_position)) return; /* zeros */
  if (own >= 0 && !tsr__holds(from, own)) own = -1;
  tsr__reshard_want(move, to_position, &want);
  if (own >= 0 && meets_part(move, own, &want, &part, &piece) && same_size(&piece, &want, rank)) {
    fn(user, &(tsr__moved_box){ own, &want, &part }); /* all of it is here */
    return;
  }
  int own_leader = own < 0 ? -1 : tsr__replica_leader(from, own);
  for (int p = 0; p < count; p++) {
    if (tsr__replica_leader(from, p) != p) continue;
    if (meets_part(move, p, &want, &part, &piece))
      fn(user, &(tsr__moved_box){ p == own_leader ? own : p, &piece, &part });
  }
}

static int64_t bytes_of(tsr_dtype dtype, int64_t count)
{
  return dtype == TSR_BOOL ? (count + 7) / 8 : count * (int64_t)tsr_dtype_size(dtype);
}

int64_t tsr__piece_bytes(tsr_dtype dtype, int rank, const tsr_box *box)
{
  return bytes_of(dtype, tsr__box_count(box, rank));
}

typedef struct tally {
  const tsr_sharding *from;
  const tsr_mesh *mesh; /* of the devices that take */
  int device, rank;
  tsr_dtype dtype;
  int64_t bytes;
} tally;

static void add_piece(void *user, const tsr__moved_box *piece)
{
  tally *t = user;
  int device = t->from->mesh ? tsr__position_device(t->from, piece->position)
                             : tsr__first_beside(t->mesh, t->device);
  if (device != t->device) t->bytes += tsr__piece_bytes(t->dtype, t->rank, piece->box);
}

int64_t tsr__move_bytes(const tsr__reshard *move, tsr_dtype dtype)
{
  const tsr_mesh *mesh = move->to->mesh ? move->to->mesh : move->from->mesh;
  tally t = { .from = move->from, .mesh = mesh, .rank = move->shape->rank, .dtype = dtype };
  for (int p = 0; p < tsr__positions(move->to); p++) {
    t.device = tsr__position_device(move->to, p);
    tsr__reshard_pieces(move, p, add_piece, &t);
  }
  if (move->to->mesh || !mesh) return t.bytes;
  /* What has no mesh each process gets: the first one's is counted. */
  for (int d = 1; d < tsr__topology_of(mesh->rt)->device_count; d++) {
    tsr__reshard there = *move;
    there.device = t.device = d;
    if (tsr__first_beside(mesh, d) == d) tsr__reshard_pieces(&there, 0, add_piece, &t);
  }
  return t.bytes;
}

int64_t tsr__reshard_bytes(const tsr_sharding *from, const tsr_sharding *to, tsr_dtype dtype,
                           const tsr_shape *shape)
{
  return tsr__move_bytes(&(tsr__reshard){ from, to, shape, NULL, 0 }, dtype);
}

/* The elements that a device wants and does not hold; a position that is on no device of `from`
 * holds none. Dim by dim, since plans ask this of many moves. `holds` is 0 or 1 at first: whether
 * there is a part here, then a product of what it shares with what is wanted, dim by dim. */
static int64_t lacking(const tsr__reshard *move, int to_position)
{
  const tsr_shape *shape = move->shape;
  int own = position_on(move->from, tsr__position_device(move->to, to_position), to_position);
  int64_t wants = 1, holds = own >= 0 && tsr__holds(move->from, own);
  for (int d = 0; d < shape->rank; d++) {
    tsr__span want = wanted(move, d, to_position);
    wants *= want.length;
    if (!holds) continue;
    tsr__span have = tsr__dim_span(move->from, d, shape->dims[d], own);
    int64_t end = want.start + want.length, other = have.start + have.length;
    int64_t start = want.start > have.start ? want.start : have.start;
    if (other < end) end = other;
    holds *= end > start ? end - start : 0;
  }
  return wants - holds;
}

int64_t tsr__reshard_weight(const tsr_sharding *from, const tsr_sharding *to, tsr_dtype dtype,
                            const tsr_shape *shape)
{
  return tsr__move_weight(&(tsr__reshard){ from, to, shape, NULL, 0 }, dtype);
}

int64_t tsr__move_weight(const tsr__reshard *move, tsr_dtype dtype)
{
  enum { LOOKED_AT = 64 };
  const tsr_sharding *to = move->to;
  int positions = tsr__positions(to), step = (positions + LOOKED_AT - 1) / LOOKED_AT;
  int64_t bytes = 0;
  for (int p = 0; p < positions; p += step) {
    if (!tsr__holds(to, p)) continue;
    bytes += bytes_of(dtype, lacking(move, p));
  }
  return bytes * step;
}

/* ---- comparing ---- */

/* Of sizes without devices the first ones, so that what lies on a mesh can meet it in a plan. */
static int device_at(const tsr_mesh *mesh, int position)
{
  return mesh->abstract ? position : mesh->devices[position];
}

bool tsr__same_devices(const tsr_mesh *a, const tsr_mesh *b)
{
  if (a == b) return true;
  if (!a || !b || a->device_count != b->device_count) return false;
  for (int i = 0; i < a->device_count; i++) {
    int device = device_at(a, i);
    bool found = device == device_at(b, i);
    for (int j = 0; j < b->device_count && !found; j++) found = device == device_at(b, j);
    if (!found) return false;
  }
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

/* Whether dropping axes never moves a border: each dim's shorter list begins the longer one. */
static bool is_prefix(const tsr_sharding *shorter, const tsr_sharding *longer)
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

/* By what becomes of each axis, of (x,y | -) on one mesh, the first that fits:
 *
 *   (x,y | z)  slice        each dim's list begins with what it was
 *   (x | -)    all-gather   each dim's list is the beginning of what it was
 *   (y,x | -)  permute      the same parts on other devices, where they are all as long
 *   (y | -)    all-gather   an axis is dropped and none changes its dim
 *   (x | y)    all-to-all   an axis cuts another dim than before
 *
 * A sum that meets on the way is none of these: the first along its axes have it, and send it. */
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
  if (*axes) return TSR__MOVE_BROADCAST; /* the sum, from the first that have it */
  *axes = dropped | shifted;
  if (is_prefix(from, to)) return TSR__MOVE_SLICE;
  if (is_prefix(to, from)) return TSR__MOVE_ALL_GATHER;
  if (*axes == 0) *axes = tsr__used_axes(from) & tsr__used_axes(to); /* another order on a dim */
  if (same_cuts(from, to, shape)) {
    *axes = tsr__used_axes(from) | tsr__used_axes(to);
    return TSR__MOVE_PERMUTE;
  }
  if (!shifted && dropped) return TSR__MOVE_ALL_GATHER;
  return TSR__MOVE_ALL_TO_ALL;
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
  if (!tsr__used_axes(from)) return TSR__MOVE_SLICE;
  if (!tsr__used_axes(to)) return TSR__MOVE_ALL_GATHER;
  return same_cuts(from, to, shape) ? TSR__MOVE_PERMUTE : TSR__MOVE_REMATERIALISE;
}
