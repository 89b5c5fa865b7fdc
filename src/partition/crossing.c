/* Bytes that cross between devices, by mesh axis, and their cost.
 *
 * Devices send elements to each other directly, so a byte that crosses several axes goes at the
 * speed of the slowest of them, and counts along that axis:
 *
 *   data=2@25e9,model=4@900e9       position   0 1 2 3      0 -> 2   crosses model
 *                                              4 5 6 7      0 -> 4   crosses data
 *                                                           0 -> 6   crosses both: along data
 *
 * A device reads the replica of a part that it reaches along the fastest axes: on
 * one mesh, the replica with the device's own coordinates along the axes that do not cut the part.
 * The executor too reads a replica of its own process before those of others.
 *
 * A plan's costs are integers. On meshes without speeds a cost is a number of bytes. If a mesh has
 * speeds, a byte costs as many units as it takes time, relative to the fastest axis. */
#include "partition/flow.h"

/* The cost of a byte along the fastest axis, before common factors are removed, and the most that a
 * byte costs. */
enum { UNIT = 64, MOST_COST = 1 << 30 };

/* ---- costs ---- */

/* Euclid's: the greatest common divisor of two numbers, one of which may be 0. */
static int64_t common_divisor(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* A program has few meshes, mostly one, so the list is walked. NULL: the mesh has no speeds. */
static const tsr__rate *find_rate(const tsr__flow *flow, const tsr_mesh *mesh)
{
  for (const tsr__rate *rate = flow->rates; rate; rate = rate->next)
    if (rate->mesh == mesh) return rate;
  return NULL;
}

/* Lists each mesh with speeds once; returns the fastest speed of all. */
static int64_t list_rates(tsr__flow *flow)
{
  int64_t fastest = 0;
  for (int p = 1; p < flow->place_count; p++) {
    const tsr_mesh *mesh = flow->places[p].mesh;
    if (!tsr__mesh_has_speeds(mesh) || find_rate(flow, mesh)) continue;
    tsr__rate *rate = tsr__arena_new(flow->arena, sizeof *rate);
    flow->failed |= !rate;
    if (!rate) return 0;
    *rate = (tsr__rate){ flow->rates, mesh, { 0 } };
    flow->rates = rate;
    int64_t speed = mesh->bytes_per_s[mesh->slowest[mesh->axis_count - 1]];
    if (speed > fastest) fastest = speed;
  }
  return fastest;
}

/* Equal speeds give a cost of 1, so that their plans are those without speeds:
 *
 *   25e9, 900e9        2304, 64      -> 36, 1
 *   400e9, 900e9       144, 64       -> 9, 4
 *
 * A mesh without speeds counts as the fastest. */
void tsr__flow_start_rates(tsr__flow *flow)
{
  int64_t fastest = list_rates(flow), common = UNIT;
  for (tsr__rate *rate = flow->rates; rate && !flow->failed; rate = rate->next)
    for (int a = 0; a < rate->mesh->axis_count; a++) {
      int64_t speed = rate->mesh->bytes_per_s[a], cost = (UNIT * fastest + speed / 2) / speed;
      rate->cost[a] = cost < MOST_COST ? cost : MOST_COST;
      common = common_divisor(common, rate->cost[a]);
    }
  for (tsr__rate *rate = flow->rates; rate; rate = rate->next)
    for (int a = 0; a < rate->mesh->axis_count; a++) rate->cost[a] /= common;
  flow->byte_cost = flow->rates ? UNIT / common : 1;
  flow->fastest = fastest;
}

/* The product, or TSR__MUCH where it is more. */
static int64_t multiply_cost(int64_t bytes, int64_t cost)
{
  int64_t all;
  return __builtin_mul_overflow(bytes, cost, &all) || all > TSR__MUCH ? TSR__MUCH : all;
}

int64_t tsr__flow_cost(const tsr__flow *flow, const tsr__crossed *crossed)
{
  const tsr__rate *rate = find_rate(flow, crossed->mesh);
  if (!rate) return multiply_cost(crossed->bytes, flow->byte_cost);
  int64_t cost = 0;
  for (int a = 0; a < rate->mesh->axis_count; a++) {
    cost += multiply_cost(crossed->along[a], rate->cost[a]);
    if (cost > TSR__MUCH) return TSR__MUCH;
  }
  return cost;
}

/* All devices wait for a collective, so each of them spends the time. The cost is that of the bytes
 * that the fastest axis would carry meanwhile, since costs are in such bytes:
 *
 *   900e9 bytes/s   9e6 bytes in 10 us, for each device of the mesh */
int64_t tsr__flow_step_cost(const tsr__flow *flow, const tsr_mesh *mesh)
{
  return multiply_cost(multiply_cost(flow->fastest / TSR__STEPS_PER_S, flow->byte_cost),
                       mesh->device_count);
}

/* ---- bytes by axis ---- */

void tsr__crossed_in_groups(tsr__crossed *crossed, unsigned axes, int64_t bytes)
{
  const tsr_mesh *mesh = crossed->mesh;
  int64_t members = tsr__mesh_group_size(mesh, axes);
  crossed->bytes += (members - 1) * bytes;
  for (int k = 0; k < mesh->axis_count && tsr__mesh_has_speeds(mesh); k++) {
    int a = mesh->slowest[k];
    if (!(axes >> a & 1)) continue;
    /* The members left that have another coordinate than the leader along this axis. */
    crossed->along[a] += (members - members / mesh->sizes[a]) * bytes;
    members /= mesh->sizes[a];
  }
}

void tsr__crossed_in_line(tsr__crossed *crossed, const tsr_sharding *at, int dim, int64_t bytes)
{
  const tsr_mesh *mesh = crossed->mesh;
  int64_t parts = 1;
  crossed->bytes += (tsr__dim_parts(at, dim) - 1) * bytes;
  for (int i = at->first[dim]; i < at->first[dim + 1] && tsr__mesh_has_speeds(mesh); i++) {
    int64_t before = parts;
    int slow = at->axis[i];
    parts *= mesh->sizes[at->axis[i]];
    /* These neighbours differ along this axis and along all minor ones. */
    for (int k = i + 1; k < at->first[dim + 1]; k++)
      if (mesh->sizes[at->axis[k]] > 1 && mesh->bytes_per_s[at->axis[k]] < mesh->bytes_per_s[slow])
        slow = at->axis[k];
    crossed->along[slow] += (parts - before) * bytes;
  }
}

/* The place in mesh->slowest of the slowest axis along which two positions differ; axis_count: they
 * do not differ. A position outside the mesh (-1) differs along all axes. */
static int place_between(const tsr_mesh *mesh, int a, int b)
{
  int k = 0;
  if (a < 0 || b < 0) return 0;
  for (; a != b && k < mesh->axis_count; k++) {
    int axis = mesh->slowest[k];
    if (tsr__mesh_coord(mesh, a, axis) != tsr__mesh_coord(mesh, b, axis)) break;
  }
  return a == b ? mesh->axis_count : k;
}

/* The device at a position of a sharding, as a device reads it: an array without a mesh lies beside
 * that device. */
static int device_read(const tsr__sent *sent, const tsr_mesh *mesh, int position)
{
  return sent->from->mesh ? tsr__position_device(sent->from, position)
                          : tsr__first_beside(mesh, sent->device);
}

void tsr__crossed_add(tsr__crossed *crossed, const tsr__sent *sent)
{
  const tsr_mesh *mesh = crossed->mesh, *other = sent->from->mesh;
  unsigned free = other ? tsr__free_axes(sent->from) & ~(unsigned)sent->from->unreduced : 0;
  int to = tsr__mesh_position(mesh, sent->device), place = -1;
  for (int i = 0; i < (other ? tsr__mesh_group_size(other, free) : 1); i++) {
    int leader = other ? tsr__mesh_group_leader(other, free, sent->from_position) : 0;
    int at = other ? leader + tsr__mesh_group_offset(other, free, i) : 0;
    int k = place_between(mesh, tsr__mesh_position(mesh, device_read(sent, mesh, at)), to);
    if (k > place) place = k;
  }
  if (place < mesh->axis_count) crossed->along[mesh->slowest[place]] += sent->bytes;
}

/* ---- moves ---- */

/* A move between two shardings of one mesh is counted dim by dim, not piece by piece: an array that
 * is cut over 512 devices has as many pieces, and its dims have few overlaps each. */

/* A position that takes elements from parts on the same mesh. */
typedef struct taker {
  const tsr__reshard *move;
  const tsr_mesh *mesh;
  int64_t coords[TSR_MAX_AXES]; /* in the order of mesh->slowest */
} taker;

/* The place among the slowest axes of the slowest axis along which a part of a dim lies elsewhere;
 * axis_count: the part lies here. */
static int place_of_slowest(const taker *t, unsigned axes, int offset)
{
  int k = 0;
  for (; k < t->mesh->axis_count; k++) {
    int axis = t->mesh->slowest[k];
    if (axes >> axis & 1 && tsr__mesh_coord(t->mesh, offset, axis) != t->coords[k]) break;
  }
  return k;
}

/* Multiplies by the wanted elements of one more dim: near[k] elements of the box cross no axis that
 * is slower than place k.
 *
 *   wanted 8 x 8, dim 0 cut by data=2, dim 1 by model=2     near[data] = 64, near[model] = 32,
 *                                                           near[here] = 16 */
static void count_near(const taker *t, int d, tsr__span want, int64_t near[TSR_MAX_AXES + 1])
{
  const tsr__reshard *move = t->move;
  int64_t counts[TSR_MAX_AXES + 1] = { 0 }, sum = 0;
  unsigned axes = tsr__dim_axes(move->from, d);
  tsr__overlap_walk walk = tsr__overlaps_begin(move->from, d, move->shape->dims[d], want);
  tsr__overlap at;
  while (tsr__overlaps_next(&walk, &at)) counts[place_of_slowest(t, axes, at.offset)] += at.size;
  for (int k = t->mesh->axis_count; k >= 0; k--) {
    sum += counts[k];
    near[k] *= sum;
  }
}

void tsr__crossed_to_position(tsr__crossed *crossed, const tsr__reshard *move, const tsr_box *want,
                              tsr__arrival to)
{
  const tsr_mesh *mesh = crossed->mesh;
  taker t = { .move = move, .mesh = mesh };
  int64_t near[TSR_MAX_AXES + 1];
  int last = mesh->axis_count, position = tsr__mesh_position(mesh, to.device);
  if (position < 0) {
    crossed->along[mesh->slowest[0]] +=
        tsr__elements_bytes(to.dtype, tsr__box_count(want, move->shape->rank)) * to.times;
    return;
  }
  for (int k = 0; k <= last; k++) near[k] = 1;
  for (int k = 0; k < last; k++) t.coords[k] = tsr__mesh_coord(mesh, position, mesh->slowest[k]);
  for (int d = 0; d < move->shape->rank; d++)
    count_near(&t, d, (tsr__span){ want->start[d], want->size[d] }, near);
  /* The first positions along the unreduced axes have the value of a sum. */
  for (int k = last - 1; k >= 0; k--)
    if (move->from->unreduced >> mesh->slowest[k] & 1 && t.coords[k])
      for (int j = k + 1; j <= last; j++) near[j] = 0;
  for (int k = 0; k < last; k++)
    crossed->along[mesh->slowest[k]] +=
        tsr__elements_bytes(to.dtype, near[k] - near[k + 1]) * to.times;
}

/* ---- moves in two steps ---- */

/* A move that may stop at a place on its way, the best place so far and its cost. */
typedef struct stops {
  const tsr__flow *flow;
  const tsr__reshard *move;
  tsr_dtype dtype;
  int64_t least;
  tsr_sharding best;
  bool found;
} stops;

/* The cost of one step, which is one collective. */
static int64_t cost_between(const stops *s, const tsr_sharding *from, const tsr_sharding *to)
{
  tsr__crossed crossed =
      tsr__move_crosses(&(tsr__reshard){ from, to, s->move->shape, NULL, 0 }, s->dtype);
  return tsr__flow_cost(s->flow, &crossed);
}

/* The second step is weighed only if the first leaves something to gain. Equal costs leave the stop
 * that was found first: the one with the fewest axes. */
static void try_stop(stops *s, const tsr_sharding *stop)
{
  int64_t cost = cost_between(s, s->move->from, stop);
  cost += tsr__flow_step_cost(s->flow, s->move->to->mesh);
  if (cost < s->least) cost += cost_between(s, stop, s->move->to);
  if (cost >= s->least) return;
  s->least = cost;
  s->best = *stop;
  s->found = true;
}

/* The target, cut further by fast axes: at `only` dim, or (-1) where the source is cut by them.
 * They stand in the order in which they cut the source. */
static tsr_sharding stop_of(const tsr__reshard *move, unsigned fast, int only)
{
  const tsr_sharding *from = move->from;
  tsr_sharding out = *move->to;
  unsigned left = fast & ~tsr__used_axes(from);
  for (int d = 0; d < move->shape->rank; d++) {
    uint8_t axis[TSR_MAX_AXES];
    int count = 0;
    for (int i = 0; i < from->first[TSR_MAX_RANK] && (only < 0 || only == d); i++) {
      bool here = only == d || (i >= from->first[d] && i < from->first[d + 1]);
      if (here && fast >> from->axis[i] & 1) axis[count++] = from->axis[i];
    }
    for (int a = 0; a < TSR_MAX_AXES && only == d; a++)
      if (left >> a & 1) axis[count++] = (uint8_t)a;
    out = tsr__cut_further(&out, d, axis, count);
  }
  return out;
}

/* The slowest axis that a move crosses; -1: nothing crosses. */
static int slowest_crossed(const tsr__crossed *crossed)
{
  for (int k = 0; k < crossed->mesh->axis_count; k++)
    if (crossed->along[crossed->mesh->slowest[k]]) return crossed->mesh->slowest[k];
  return -1;
}

/* A slow axis need not carry a part to each device of a group that fast axes join: a device fetches
 * its share of the part, and the group gathers the shares.
 *
 *   data=2@25e9,model=4@900e9     (data) -> (-)           each device fetches half of the array
 *                                 (data) -> (model)       an eighth along data
 *                                 (model) -> (-)          the rest along model
 */
static stops find_stop(const tsr__flow *flow, const tsr__reshard *move, tsr_dtype dtype)
{
  const tsr_sharding *from = move->from, *to = move->to;
  const tsr_mesh *mesh = to->mesh;
  tsr__crossed direct = tsr__move_crosses(move, dtype);
  stops s = { .flow = flow, .move = move, .dtype = dtype };
  s.least = tsr__flow_cost(flow, &direct);
  if (!tsr__mesh_has_speeds(mesh) || to->unreduced || (from->mesh && from->mesh != mesh)) return s;
  int slow = slowest_crossed(&direct);
  unsigned fast = 0, free = tsr__free_axes(to);
  for (int k = mesh->axis_count - 1; k > 0 && slow >= 0; k--) {
    int a = mesh->slowest[k];
    if (mesh->bytes_per_s[a] <= mesh->bytes_per_s[slow]) break;
    if (!(free >> a & 1) || mesh->sizes[a] == 1) continue;
    fast |= 1u << a;
    for (int only = -1; only < move->shape->rank; only++) {
      tsr_sharding stop = stop_of(move, fast, only);
      if (memcmp(&stop, to, sizeof stop)) try_stop(&s, &stop);
    }
  }
  return s;
}

bool tsr__flow_stop(const tsr__flow *flow, const tsr__reshard *move, tsr_dtype dtype,
                    tsr_sharding *out)
{
  if (!tsr__mesh_has_speeds(move->to->mesh)) return false;
  stops s = find_stop(flow, move, dtype);
  if (s.found) *out = s.best;
  return s.found;
}

int64_t tsr__flow_move_cost(const tsr__flow *flow, const tsr__reshard *move, tsr_dtype dtype)
{
  return find_stop(flow, move, dtype).least;
}
