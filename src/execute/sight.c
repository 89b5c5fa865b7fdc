/* Parts that other processes hold, made readable here while a step or the host needs them.
 *
 *   value        parts  0 1 | - -     of a process that has devices 0 and 1 of four
 *   seen value   parts  0 1 | 2 3     2 and 3 lie in the other's memory and are read there
 *
 * Each process publishes handles of its parts, all wait for each other and read. A published part
 * is held until the next meeting, to which peers come after they have read; after large reads they
 * wait for each other at once. Short parts stand in the note itself, which peers read anyway:
 *
 *   note of process 1    | place 2 | place 3 |  ...  | part 2 | part 3 |       by 64 bytes
 * Whether a value needs all this follows from its sharding alone, so that either all processes
 * meet or none. */
#include "execute/engine.h"
#include "kernel/fallback/fallback.h"

/* More than LARGE_BYTES is not left published until the next meeting, which may be far off: all
 * wait until everybody has read (tsr__unsee). */
enum { LARGE_BYTES = 1 << 26, NOTE_BYTES = 1024, PART_UNIT = 64 };
/* A place is the handle of a part or, with this bit, its offset in the note. */
#define INSIDE (UINT64_C(1) << 63)

/* Compares the process of each device with that of the first device of its group along these
 * axes. */
bool tsr__groups_are_apart(const tsr_runtime *rt, const tsr_mesh *mesh, unsigned axes)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  if (!axes || !mesh || !tsr__peers_of(rt)) return false;
  for (int p = 0; p < mesh->device_count; p++) {
    int first = p;
    for (int axis = 0; axis < mesh->axis_count; axis++)
      if (axes >> axis & 1) first -= (int)(tsr__mesh_coord(mesh, p, axis) * mesh->strides[axis]);
    if (tsr__device_process(topology, mesh->devices[p]) !=
        tsr__device_process(topology, mesh->devices[first]))
      return true;
  }
  return false;
}

/* The process of one replica of a leader's part. */
static int process_of_replica(const tsr__topology *topology, const tsr_sharding *sharding,
                              int leader, int replica)
{
  const tsr_mesh *mesh = sharding->mesh;
  int offset = tsr__mesh_group_offset(mesh, tsr__free_axes(sharding), replica);
  return tsr__device_process(topology, tsr__position_device(sharding, leader + offset));
}

static int replica_count(const tsr_sharding *sharding)
{
  return tsr__mesh_group_size(sharding->mesh, tsr__free_axes(sharding));
}

bool tsr__position_near(const tsr_runtime *rt, const tsr_sharding *sharding, int position,
                        int process)
{
  /* Every process has an array without a mesh. The replicas of an unreduced sum are zeros. */
  if (!sharding->mesh) return true;
  const tsr__topology *topology = tsr__topology_of(rt);
  int device = tsr__position_device(sharding, position);
  if (tsr__device_process(topology, device) == process) return true;
  if (sharding->unreduced) return false;
  int leader = tsr__replica_leader(sharding, position), count = replica_count(sharding), i = 0;
  while (i < count && process_of_replica(topology, sharding, leader, i) != process) i++;
  return i < count;
}

/* Whether the replicas of a leader lie in all processes. */
static bool are_everywhere(const tsr__topology *topology, const tsr_sharding *sharding, int leader)
{
  uint64_t met[TSR__MOST_DEVICES / 64] = { 0 };
  int processes = 0;
  for (int i = 0, count = replica_count(sharding); i < count; i++) {
    int process = process_of_replica(topology, sharding, leader, i);
    processes += !(met[process / 64] >> process % 64 & 1);
    met[process / 64] |= UINT64_C(1) << process % 64;
  }
  return processes == topology->process_count;
}

/* Whether every process has all parts of an array of this sharding. Such an array is read in
 * place, and nobody meets for it. */
static bool is_everywhere(const tsr_runtime *rt, const tsr_sharding *sharding)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  if (!sharding->mesh || sharding->mesh->own || topology->process_count == 1) return true;
  /* The other replicas of an unreduced sum are zeros. */
  int replicas = replica_count(sharding);
  if (sharding->unreduced || replicas < topology->process_count) return false;
  for (int i = 0; i < tsr__positions(sharding) / replicas; i++) {
    int leader = tsr__mesh_group_offset(sharding->mesh, ~tsr__free_axes(sharding), i);
    if (!are_everywhere(topology, sharding, leader)) return false;
  }
  return true;
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* The first bytes of a buffer as a box, whatever its elements are. `bytes` is borrowed. */
static tsr__box_copy box_of_bytes(const int64_t *bytes)
{
  static const int64_t start = 0;
  return (tsr__box_copy){ .dtype = TSR_U8,
                          .rank = 1,
                          .from_dims = bytes,
                          .from_start = &start,
                          .to_dims = bytes,
                          .to_start = &start,
                          .size = bytes };
}

/* The buffer of a part that peers can open, and its handle. Memory that the user lent has none, so
 * it is copied. */
static tsr__buffer *share_part(const tsr__value *value, int position, uint64_t *handle,
                               tsr__error *error)
{
  const tsr__device_ops *ops = tsr__devices_of(value->rt)->ops;
  tsr__buffer *part = value->parts[position];
  if (ops->share(part, handle)) {
    tsr__buffer_hold(part);
    return part;
  }
  size_t bytes = tsr__part_bytes(value, position);
  tsr__buffer *copy =
      ops->take(value->rt, tsr__home_device(value->rt, &value->sharding, position), bytes, error);
  if (!copy) return NULL;
  const int64_t size = (int64_t)bytes;
  const tsr__box_copy box = box_of_bytes(&size);
  ops->copy(&box, part, copy, NULL);
  ops->share(copy, handle);
  return copy;
}

/* Publishes handles of the parts of this process, in the order of their positions. The sight holds
 * each part, as the run may release the value before peers have read it. */
static tsr_status tell_handles(const tsr__value *value, tsr__sight *sight, tsr__error *error)
{
  for (int p = 0; p < value->part_count; p++) {
    if (!value->parts[p]) continue;
    tsr__buffer *part = share_part(value, p, &sight->places[sight->told_count], error);
    if (!part) return error->status;
    sight->told[sight->told_count++] = part;
  }
  return TSR_OK;
}

/* `made`: also a value of which every process has replicas, as these may not be filled yet. An
 * array without a mesh, or on this process's own mesh, has no parts elsewhere. */
static bool needs_sight(const tsr__value *value, bool made)
{
  if (!value || !value->sharding.mesh || value->sharding.mesh->own) return false;
  return made || !is_everywhere(value->rt, &value->sharding);
}

/* Computes the bytes of each part once, as notes and memory need them. If no dim is sharded, all
 * parts are as large as the first. */
static void find_sizes(const tsr__sight *sight, const tsr__value **values)
{
  size_t *out = sight->sizes;
  for (int i = 0; i < sight->count; i++) {
    if (!sight->wanted[i]) continue;
    bool cut = values[i]->rows || tsr__used_axes(&values[i]->sharding);
    for (int p = 0; p < values[i]->part_count; p++)
      out[p] = p && !cut ? out[0] : tsr__part_bytes(values[i], p);
    out += values[i]->part_count;
  }
}

static size_t in_units(size_t bytes)
{
  return (bytes + PART_UNIT - 1) / PART_UNIT * PART_UNIT;
}

/* Puts the parts of this process after the places in the note; returns where they end. */
static size_t put_parts_in_note(const tsr__value *value, tsr__sight *sight, const size_t *sizes,
                                char *note, size_t at)
{
  for (int p = 0; p < value->part_count; p++) {
    if (!value->parts[p]) continue;
    const void *part = tsr__value_map(value, p);
    if (sizes[p]) memcpy(note + at, part, sizes[p]);
    tsr__value_unmap(value, p);
    sight->places[sight->told_count++] = INSIDE | at;
    at += in_units(sizes[p]);
  }
  return at;
}

/* The bytes of a note with all parts of a process in it; `first` is where they begin. */
static size_t inside_bytes(const tsr__sight *sight, const tsr__value **values, int process,
                           size_t *first)
{
  const tsr__topology *topology = tsr__topology_of(sight->rt);
  const size_t *sizes = sight->sizes;
  size_t places = 0, bytes = 0;
  for (int i = 0; i < sight->count; i++)
    for (int p = 0; sight->wanted[i] && p < values[i]->part_count; p++, sizes++) {
      int device = tsr__position_device(&values[i]->sharding, p);
      if (tsr__device_process(topology, device) != process) continue;
      places++;
      bytes += in_units(*sizes);
    }
  *first = in_units(places * sizeof *sight->places);
  return *first + bytes;
}

/* Whether all parts of all processes fit in their notes; all processes give the same answer. */
static bool all_inside(const tsr__sight *sight, const tsr__value **values)
{
  int processes = tsr__topology_of(sight->rt)->process_count;
  size_t first;
  for (int process = 0; process < processes; process++)
    if (inside_bytes(sight, values, process, &first) > NOTE_BYTES) return false;
  return true;
}

/* All processes publish their parts. `made`: values that are being made are read in place. */
static tsr_status gather_places(tsr__sight *sight, const tsr__value **values, bool made,
                                tsr__error *error)
{
  _Alignas(PART_UNIT) char note[NOTE_BYTES];
  tsr__peers *peers = tsr__peers_of(sight->rt);
  const size_t *sizes = sight->sizes;
  int own = tsr__peers_index(peers);
  bool places_only = made || sight->result_count;
  size_t at = 0, bytes = places_only ? NOTE_BYTES + 1 : inside_bytes(sight, values, own, &at);
  bool inside = bytes <= NOTE_BYTES;
  tsr_status status = TSR_OK;
  for (int i = 0; i < sight->count && !status; i++) {
    if (!sight->wanted[i]) continue;
    if (inside) at = put_parts_in_note(values[i], sight, sizes, note, at);
    else status = tell_handles(values[i], sight, error);
    sizes += values[i]->part_count;
  }
  size_t places = (size_t)sight->told_count * sizeof *sight->places;
  if (inside && places) memcpy(note, sight->places, places);
  if (!status)
    status = tsr__peers_gather(peers, inside ? note : (const void *)sight->places,
                               inside ? bytes : places, sight->notes, error);
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static tsr_status says_less(int process, tsr__error *error)
{
  return tsr__error_set(error, TSR_EPEER,
                        "process %d published fewer shards than this process expects", process);
}

/* The value that will have all parts, with those that are here; if `sizes` is set, memory for
 * the others is allocated, too. This comes before the meeting, so that a process without memory
 * reports it there. */
static tsr__value *prepare_seen_value(const tsr__value *value, const size_t *sizes,
                                      tsr__error *error)
{
  tsr_runtime *rt = value->rt;
  tsr__layout layout = { (tsr_dtype)value->dtype, &value->shape, &value->sharding, value->rows };
  tsr__value *seen = tsr__value_frame(rt, &layout, error);
  for (int p = 0; seen && p < value->part_count; p++) {
    int device = tsr__position_device(&value->sharding, p);
    seen->parts[p] = value->parts[p];
    if (value->parts[p]) tsr__buffer_hold(value->parts[p]);
    if (value->parts[p] || !sizes) continue;
    seen->parts[p] = tsr__devices_of(rt)->ops->take(rt, device, sizes[p], error);
    if (seen->parts[p]) continue;
    tsr__value_release(seen);
    return NULL;
  }
  return seen;
}

/* Fills in remote parts. `next` [process] counts its places that were read. A part that is not
 * in the note borrows the other process's memory (no release): its readers must end before the
 * next meeting. A part that is here counts in its process's note as well, so that places stay in
 * step. */
static tsr_status fill_seen_value(const tsr__sight *sight, const tsr__value *value,
                                  const size_t *sizes, tsr__value *seen, tsr__error *error)
{
  const tsr__device_ops *ops = tsr__devices_of(value->rt)->ops;
  const tsr__peers_note *notes = sight->notes;
  for (int p = 0; p < value->part_count; p++) {
    int device = tsr__position_device(&value->sharding, p);
    int process = tsr__device_process(tsr__topology_of(value->rt), device);
    int64_t at = sight->next[process]++;
    size_t bytes = sizes[p];
    uint64_t place = 0;
    if (value->parts[p]) continue;
    if ((size_t)(at + 1) * sizeof place > notes[process].size) return says_less(process, error);
    memcpy(&place, (const char *)notes[process].data + (size_t)at * sizeof place, sizeof place);
    tsr__buffer *part = seen->parts[p];
    if (!(place & INSIDE)) {
      tsr__buffer_release(part);
      part = ops->open_shared(value->rt, device, place, bytes, error);
    } else if (!part) {
      part = ops->take(value->rt, device, bytes, error);
    }
    seen->parts[p] = part;
    if (!part) return error->status;
    if (!(place & INSIDE) || !bytes) continue;
    /* The part is copied: a note may be overwritten before the part is read. */
    place &= ~INSIDE;
    if (place > notes[process].size || bytes > notes[process].size - place)
      return says_less(process, error);
    const int64_t size = (int64_t)bytes;
    const tsr__box_copy box = box_of_bytes(&size);
    ops->from_host(&box, (const char *)notes[process].data + place, part);
  }
  return TSR_OK;
}

/* Requests bytes of a buffer from another host's process; a part that came with the note is here
 * already. */
static void fetch_bytes(const tsr__buffer *from, size_t first, size_t bytes)
{
  from->ops->fetch(from, &(tsr__byte_runs){ first, bytes, 1, 0 });
}

static void fetch_part(const tsr__value *seen, int position)
{
  fetch_bytes(seen->parts[position], 0, tsr__part_bytes(seen, position));
}

/* The position that a replica is read at instead: one that is here, else the first. So of ten
 * replicas in another process one is fetched, and the nine others share it. Replicas of an
 * unreduced sum stay: each is zeros of its own, except the one with the addends. */
static int find_stand_in(const tsr__value *value, int position)
{
  int leader = tsr__replica_leader(&value->sharding, position), near;
  if (!tsr__holds(&value->sharding, position)) return position;
  near = tsr__value_near(value, position);
  return near >= 0 ? near : tsr__holds(&value->sharding, leader) ? leader : position;
}

/* Lets replicas share one part; `all`: requests all remote parts, each once. */
static void settle_replicas(const tsr__value *value, tsr__value *seen, bool all)
{
  for (int p = 0; p < seen->part_count; p++) {
    int from = find_stand_in(value, p);
    if (all && from == p && !value->parts[p]) fetch_part(seen, p);
    if (from == p) continue;
    tsr__buffer_hold(seen->parts[from]);
    tsr__buffer_release(seen->parts[p]);
    seen->parts[p] = seen->parts[from];
  }
}

static size_t sight_bytes(const tsr__sight *sight, int positions, int processes)
{
  return sizeof *sight + (size_t)sight->count * sizeof(tsr__value *) +
         (size_t)positions * (sizeof(tsr__buffer *) + sizeof(uint64_t) + sizeof(size_t)) +
         (size_t)processes * (sizeof(tsr__peers_note) + sizeof(int64_t)) + (size_t)sight->count;
}

/* One block:
 *    the sight | made[count] | told[positions] | places[positions] | sizes[positions] | notes[n]
 *    | next[n] | wanted[count]
 * The sight is copied there if it must outlive its caller. */
static bool open_sight(tsr__sight *sight, int positions, int processes)
{
  sight->room_bytes = sight_bytes(sight, positions, processes);
  tsr__sight *block = tsr__new(&sight->rt->heap, sight->room_bytes);
  if (!block) return false;
  sight->made = (tsr__value **)(block + 1);
  sight->told = (tsr__buffer **)(sight->made + sight->count);
  sight->places = (uint64_t *)(sight->told + positions);
  sight->sizes = (size_t *)(sight->places + positions);
  sight->notes = (tsr__peers_note *)(sight->sizes + positions);
  sight->next = (int64_t *)(sight->notes + processes);
  sight->wanted = (bool *)(sight->next + processes);
  return true;
}

static void close_sight(tsr__sight *sight)
{
  for (int i = 0; sight->made && i < sight->count; i++) tsr__value_release(sight->made[i]);
  for (int i = 0; i < sight->told_count; i++) tsr__buffer_release(sight->told[i]);
  if (sight->made) tsr__del(&sight->rt->heap, (tsr__sight *)sight->made - 1, sight->room_bytes);
  *sight = (tsr__sight){ .rt = sight->rt };
}

/* Closes a sight after peers have read. The block is the sight's own memory and is freed with
 * it, hence the copy. If a process is gone, nobody waits for the rest, and one of them may still
 * write results: a process that was stopped and taken for failed can wake at any time. That
 * memory stays unused until the runtime closes. */
static void close_later(void *user, bool came)
{
  tsr__sight *block = user, own = *block;
  if (came || !own.result_count) {
    close_sight(&own);
    return;
  }
  tsr__engine *engine = own.rt->slots[TSR__SLOT_PLANS];
  block->next_held = engine->held;
  engine->held = block;
}

void tsr__sights_drop(tsr__sight *held)
{
  for (tsr__sight *next; held; held = next) {
    next = held->next_held;
    close_later(held, true);
  }
}

/* Keeps the published parts unchanged until all have come to the next meeting. */
static void hold_sight_back(tsr__sight *sight)
{
  tsr__sight *block = (tsr__sight *)sight->made - 1;
  *block = *sight;
  *sight = (tsr__sight){ .rt = block->rt };
  tsr__peers_later(tsr__peers_of(block->rt), close_later, block);
}

/* After a failure peers no longer need this process's parts. Results are kept, however, as peers
 * may be writing them if they can have read where these lie. */
static void give_up_sight(tsr__sight *sight)
{
  if (sight->result_count && tsr__peers_met(tsr__peers_of(sight->rt))) hold_sight_back(sight);
  else close_sight(sight);
}

/* How values are read: all elements are fetched, or only requested ones; or the values are being
 * made. */
typedef enum seeing { WHOLE, PIECES, MADE } seeing;

static bool is_made_value(const tsr__sight *sight, int i, seeing how)
{
  return how == MADE || i >= sight->count - sight->result_count;
}

/* Publishes the parts of all values, meets, then reads one value after another, in the same
 * order in each process, as notes have no names. A value is replaced in the list only once it
 * has all parts. */
static tsr_status see(tsr__sight *sight, const tsr__value **values, seeing how, tsr__error *error)
{
  tsr__peers *peers = tsr__peers_of(sight->rt);
  int positions = 0, wanted = 0;
  size_t bytes = 0;
  for (int i = 0; peers && i < sight->count; i++)
    if (needs_sight(values[i], is_made_value(sight, i, how))) {
      positions += values[i]->part_count;
      bytes += tsr__device_bytes((tsr_dtype)values[i]->dtype, tsr__shape_count(&values[i]->shape));
      wanted++;
    }
  if (!wanted) return TSR_OK;
  /* The bytes are those of whole arrays, so that all processes give the same answer. */
  sight->large = bytes > LARGE_BYTES;
  if (!open_sight(sight, positions, tsr__peers_count(peers)))
    return tsr__error_set(error, TSR_ENOMEM, "no memory to read the shards of other processes");
  for (int i = 0; i < sight->count; i++)
    sight->wanted[i] = needs_sight(values[i], is_made_value(sight, i, how));
  find_sizes(sight, values);
  /* Results that peers write are awaited at the run's END, so nothing is promised then. */
  bool inside = sight->promise && !sight->result_count && all_inside(sight, values);
  tsr_status status = TSR_OK;
  const size_t *sizes = sight->sizes;
  for (int i = 0; i < sight->count && !status; i++) {
    if (!sight->wanted[i]) continue;
    sight->made[i] = prepare_seen_value(values[i], inside ? sizes : NULL, error);
    if (!sight->made[i]) status = error->status;
    sizes += values[i]->part_count;
  }
  if (!status && inside) tsr__peers_promise(peers, sight->promise);
  if (!status) status = gather_places(sight, values, how == MADE, error);
  sight->met = !status;
  sizes = sight->sizes;
  for (int i = 0; i < sight->count && !status; i++) {
    if (!sight->wanted[i]) continue;
    status = fill_seen_value(sight, values[i], sizes, sight->made[i], error);
    sizes += values[i]->part_count;
    if (!status && !is_made_value(sight, i, how))
      settle_replicas(values[i], sight->made[i], how == WHOLE);
    values[i] = status ? values[i] : sight->made[i];
  }
  if (!status && how == WHOLE) status = tsr__peers_fetched(peers, error);
  if (!status && sight->result_count) status = tsr__peers_still_here(peers, error);
  if (status) give_up_sight(sight);
  return status;
}

tsr_status tsr__see(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                    tsr__error *error)
{
  *sight = (tsr__sight){ .rt = rt, .count = count };
  return see(sight, values, WHOLE, error);
}

tsr_status tsr__see_made(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                         tsr__error *error)
{
  *sight = (tsr__sight){ .rt = rt, .count = count };
  return see(sight, values, MADE, error);
}

tsr_status tsr__see_pieces(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                           tsr__error *error)
{
  *sight = (tsr__sight){ .rt = rt,
                         .count = count,
                         .promise = sight->promise,
                         .result_count = sight->result_count,
                         .ends = sight->ends };
  return see(sight, values, PIECES, error);
}

bool tsr__sight_is_far(const tsr__sight *sight)
{
  const tsr__peers *peers = tsr__peers_of(sight->rt);
  return sight->made && peers && tsr__peers_hosts(peers) > 1;
}

/* A box of a part in memory: by dim its first index, its size and the stride of elements. */
typedef struct extent {
  int64_t first[TSR_MAX_RANK], size[TSR_MAX_RANK], stride[TSR_MAX_RANK];
} extent;

/* Finds the box that a copy reads; steps make it wider than the copy's size. False: it is empty. */
static bool find_copy_extent(const tsr__box_copy *copy, extent *out)
{
  int64_t stride = 1;
  for (int d = copy->rank - 1; d >= 0; d--) {
    int64_t step = copy->from_step ? copy->from_step[d] : 1;
    int64_t reach = step * (copy->size[d] - 1);
    if (copy->size[d] <= 0) return false;
    out->first[d] = copy->from_start[d] + (reach < 0 ? reach : 0);
    out->size[d] = (reach < 0 ? -reach : reach) + 1;
    out->stride[d] = stride;
    stride *= copy->from_dims[d];
  }
  return true;
}

/* Requests the bytes from the first element to the last; bits by whole words. */
static void fetch_hull(const tsr__buffer *from, const tsr__box_copy *copy, const extent *e)
{
  int64_t first = 0, last = 0;
  for (int d = 0; d < copy->rank; d++) {
    first += e->first[d] * e->stride[d];
    last += (e->first[d] + e->size[d] - 1) * e->stride[d];
  }
  if (copy->dtype == TSR_BOOL) first -= first % 64;
  size_t start = tsr__device_bytes(copy->dtype, first);
  fetch_bytes(from, start, tsr__device_bytes(copy->dtype, last + 1) - start);
}

/* The last dims that are read whole make one run; runs along the dim before are requested
 * together. */
void tsr__sight_want_box(const tsr__buffer *from, const tsr__box_copy *copy)
{
  enum { MOST = 4096 };
  extent e;
  int d = copy->rank;
  int64_t run = 1, outer = 1, element = (int64_t)tsr_dtype_size(copy->dtype);
  if (!tsr__buffer_lent(from) || !find_copy_extent(copy, &e)) return;
  for (bool whole = true; d > 0 && whole; d--) {
    run *= e.size[d - 1];
    whole = e.size[d - 1] == copy->from_dims[d - 1];
  }
  for (int k = 0; k < d - 1; k++) outer *= e.size[k];
  if (copy->dtype == TSR_BOOL || outer > MOST) {
    fetch_hull(from, copy, &e);
    return;
  }
  tsr__byte_runs runs = { .bytes = (size_t)(run * element),
                          .count = d > 0 ? (size_t)e.size[d - 1] : 1,
                          .stride = d > 0 ? (size_t)(e.stride[d - 1] * element) : 0 };
  for (int64_t n = 0; n < outer; n++) {
    int64_t first = 0, rest = n;
    for (int k = copy->rank - 1; k >= 0; k--) {
      bool counts = k < d - 1;
      first += (e.first[k] + (counts ? rest % e.size[k] : 0)) * e.stride[k];
      if (counts) rest /= e.size[k];
    }
    runs.first = (size_t)(first * element);
    from->ops->fetch(from, &runs);
  }
}

/* Bits are requested by whole bytes. */
void tsr__sight_want(const tsr__sight *sight, const tsr__sight_part *part)
{
  tsr__value *seen = sight->made ? sight->made[part->value] : NULL;
  if (!seen) return;
  size_t from = tsr__device_bytes((tsr_dtype)seen->dtype, part->first + 1) -
                tsr__device_bytes((tsr_dtype)seen->dtype, 1);
  size_t end = tsr__device_bytes((tsr_dtype)seen->dtype, part->first + part->count);
  fetch_bytes(seen->parts[part->position], from, end - from);
}

/* A replica is read at its first position, or here (find_stand_in). */
void tsr__sight_want_all(const tsr__sight *sight, int value)
{
  const tsr__value *seen = sight->made ? sight->made[value] : NULL;
  for (int p = 0; seen && p < seen->part_count; p++)
    if (!tsr__holds(&seen->sharding, p) || tsr__replica_leader(&seen->sharding, p) == p)
      fetch_part(seen, p);
}

/* Without remote parts no sight was opened, and nothing was requested. */
tsr_status tsr__sight_come(const tsr__sight *sight, tsr__error *error)
{
  return sight->made ? tsr__peers_fetched(tsr__peers_of(sight->rt), error) : TSR_OK;
}

/* On a failure nothing is kept for peers: the run ends with it, and they learn that when they
 * leave. After large reads all processes wait for each other at once, else at the next meeting. */
tsr_status tsr__unsee(tsr__sight *sight, tsr_status status, tsr__error *error)
{
  tsr__peers *peers = tsr__peers_of(sight->rt);
  if (!sight->made) return status;
  if (sight->result_count) {
    bool parts = !status && (sight->large || !sight->ends);
    hold_sight_back(sight);
    return parts ? tsr__peers_part(peers, error) : status;
  }
  if (status || !sight->met || sight->large) {
    if (!status && sight->met) status = tsr__peers_part(peers, error);
    close_sight(sight);
    return status;
  }
  hold_sight_back(sight);
  return TSR_OK;
}

/* ---- the host -------------------------------------------------------------------------------- */

/* A fingerprint by which processes find out that they fetch different arrays. */
static uint64_t print_of(const tsr__value *value, const char *what)
{
  uint64_t hash = tsr__hash(what, strlen(what), value->dtype);
  return tsr__hash(value->shape.dims, (size_t)value->shape.rank * sizeof(int64_t), hash);
}

/* If parts are remote, the run stays open until tsr__host_saw. */
tsr_status tsr__host_sees(const tsr__value **value, const char *what, tsr__sight *sight,
                          tsr__error *error)
{
  tsr_runtime *rt = (*value)->rt;
  tsr__peers *peers = tsr__peers_of(rt);
  *sight = (tsr__sight){ .rt = rt };
  if (!peers || is_everywhere(rt, &(*value)->sharding)) return tsr__value_here(*value, what, error);
  const tsr__peers_work work = { .fingerprint = print_of(*value, what), .what = what };
  tsr_status status = tsr__peers_enter(peers, &work, error);
  if (status) return status;
  status = tsr__see(rt, value, 1, sight, error);
  if (!status) return TSR_OK;
  return tsr__peers_leave(peers, status, error);
}

/* If no part was remote, no run is open. */
tsr_status tsr__host_saw(tsr__sight *sight, tsr_status status, tsr__error *error)
{
  tsr__peers *peers = tsr__peers_of(sight->rt);
  bool met = sight->made != NULL;
  if (!status) status = tsr__devices_check(sight->rt, error);
  if (!met) return status;
  status = tsr__unsee(sight, status, error);
  return tsr__peers_leave(peers, status, error);
}

/* Whether peers wait for an array: they read its value, or evaluate it first. An array's
 * `shared` is set when it was made of arrays on a mesh of all processes, so all processes agree. */
static bool others_wait(const tsr_array *a, const tsr__refusal *refusal)
{
  const tsr__value *value = a ? a->value : NULL;
  if (!a || !a->node.scope) return false;
  if (!value || (refusal->looks && value->kept)) return tsr__is_shared(a);
  return refusal->fetches && !is_everywhere(value->rt, &value->sharding);
}

/* The fingerprint 0 says that the work is only to report a failure (tsr__peers_work). */
static void refuse_run(tsr_runtime *rt, const tsr__refusal *refusal)
{
  tsr__peers *peers = tsr__peers_of(rt);
  if (!peers || !refusal->status) return;
  const tsr__peers_work work = { .what = "an error", .site = refusal->site };
  tsr__error error = { .status = TSR_OK };
  tsr__error_set(&error, refusal->status, "%s", refusal->message);
  if (!tsr__peers_enter(peers, &work, &error)) tsr__peers_leave(peers, refusal->status, &error);
}

bool tsr__refuse_fetches(tsr__value *const *values, int count, const tsr__refusal *refusal)
{
  int first = 0;
  while (first < count && is_everywhere(values[first]->rt, &values[first]->sharding)) first++;
  if (first == count) return false;
  refuse_run(values[first]->rt, refusal);
  return true;
}

void tsr__refuse_all(tsr__operands arrays, const tsr__refusal *refusal)
{
  const tsr_array *first = NULL;
  for (int i = 0; i < arrays.count && !first; i++)
    if (others_wait(arrays.at[i], refusal)) first = arrays.at[i];
  if (first) refuse_run(first->node.scope->rt, refusal);
}
