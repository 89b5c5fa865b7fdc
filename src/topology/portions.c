/* Invariant: every piece of a dim is some position's, so that each has a holder; a process has a
 * row of bits even where it has no device.
 *
 *   x=2,y=2, processes along y      bits of process 0   0101      holder   0 1 2 3
 *   cut by x+y: pieces 0 1 2 3                       1   1010
 *
 * Blocks are what a process has of a dim put side by side, also where other pieces lie between. */
#include "topology/portions.h"

#include "tessera/process_data.h"

/* The processes among which pieces are dealt out. */
static int processes_of(const tsr_mesh *mesh)
{
  return tsr__topology_of(mesh->rt)->process_count;
}

static int process_of(const tsr_mesh *mesh, int position)
{
  return tsr__device_process(tsr__topology_of(mesh->rt), mesh->devices[position]);
}

/* ---- the pieces of a dim --------------------------------------------------------------------- */

static size_t bytes_of(const tsr__portions *pieces)
{
  return (size_t)pieces->processes * pieces->words * sizeof *pieces->bits +
         (size_t)pieces->parts * sizeof *pieces->holder;
}

/* One block:  bits[processes][words] | holder[parts] */
bool tsr__portions_open(const tsr_sharding *sharding, int dim, tsr__portions *out)
{
  const tsr_mesh *mesh = sharding->mesh;
  tsr__portions pieces = { .sharding = sharding, .dim = dim };

  pieces.processes = processes_of(mesh);
  pieces.parts = tsr__dim_parts(sharding, dim);
  pieces.words = (size_t)(pieces.parts + 63) / 64;
  pieces.bits = tsr__new(&mesh->rt->heap, bytes_of(&pieces));
  if (!pieces.bits) return false;
  pieces.holder = (int *)(pieces.bits + (size_t)pieces.processes * pieces.words);
  /* Backwards, so that the lowest position that has a piece is its holder in the end. */
  for (int p = mesh->device_count - 1; p >= 0; p--) {
    int64_t piece = tsr__dim_index(sharding, dim, p);
    size_t row = (size_t)process_of(mesh, p) * pieces.words;
    pieces.bits[row + (size_t)piece / 64] |= UINT64_C(1) << (piece & 63);
    pieces.holder[piece] = p;
  }
  *out = pieces;
  return true;
}

void tsr__portions_close(tsr__portions *pieces)
{
  if (pieces->bits) tsr__del(&pieces->sharding->mesh->rt->heap, pieces->bits, bytes_of(pieces));
  pieces->bits = NULL;
}

bool tsr__portions_has(const tsr__portions *pieces, int process, int64_t piece)
{
  const uint64_t *row = pieces->bits + (size_t)process * pieces->words;
  return row[piece / 64] >> (piece & 63) & 1;
}

int64_t tsr__portions_first(const tsr__portions *pieces, int process)
{
  for (int64_t i = 0; i < pieces->parts; i++)
    if (tsr__portions_has(pieces, process, i)) return i;
  return -1;
}

static bool same_portions(const tsr__portions *pieces, int process, int other)
{
  const uint64_t *bits = pieces->bits;
  return memcmp(bits + (size_t)process * pieces->words, bits + (size_t)other * pieces->words,
                pieces->words * sizeof *bits) == 0;
}

/* Lengths differ by piece, so each is asked of a position that has it. */
int64_t tsr__portions_before(const tsr__portions *pieces, int64_t size, int process, int64_t piece)
{
  int64_t total = 0;
  for (int64_t i = 0; i < piece; i++)
    if (tsr__portions_has(pieces, process, i))
      total += tsr__dim_span(pieces->sharding, pieces->dim, size, pieces->holder[i]).length;
  return total;
}

/* The first process that has a piece. Every piece has one, so the search ends. */
static int owner_of(const tsr__portions *pieces, int64_t piece)
{
  int process = 0;
  while (!tsr__portions_has(pieces, process, piece)) process++;
  return process;
}

/* Whether all that a process has others have all of, or nothing: looked at by who owns its pieces,
 * mostly one for all of them. */
static bool overlaps(const tsr__portions *pieces, int process)
{
  int same = -1;
  for (int64_t i = 0; i < pieces->parts; i++) {
    if (!tsr__portions_has(pieces, process, i)) continue;
    int owner = owner_of(pieces, i);
    if (owner != same && !same_portions(pieces, process, owner)) return true;
    same = owner;
  }
  return false;
}

/* Where blocks overlap in part they cannot be counted: rows would belong to two of them. */
int tsr__portions_number(const tsr__portions *pieces, int process, int *index)
{
  int64_t mine = tsr__portions_first(pieces, process);
  int count = 0, before = 0;

  for (int p = 0; p < pieces->processes; p++) {
    int64_t first = tsr__portions_first(pieces, p);
    if (first < 0) continue;
    if (overlaps(pieces, p)) {
      *index = 0;
      return 0;
    }
    /* A block is counted by the first process that has it. */
    if (owner_of(pieces, first) != p) continue;
    count++;
    before += first < mine;
  }
  *index = mine < 0 ? -1 : before;
  return count;
}

/* ---- the block of a process ------------------------------------------------------------------ */

/* A process has all of its block where it has as many different parts as the block has pieces. */
bool tsr__has_all(const tsr_sharding *sharding, int process, int64_t pieces)
{
  const tsr_mesh *mesh = sharding->mesh;
  int64_t found = 0;

  for (int p = 0; p < mesh->device_count; p++) {
    bool first = process_of(mesh, p) == process;
    /* A replica of this process's further up counted already. */
    for (int q = tsr__replica_leader(sharding, p); q < p && first; q++)
      first = process_of(mesh, q) != process ||
              tsr__replica_leader(sharding, q) != tsr__replica_leader(sharding, p);
    found += first;
  }
  return found == pieces;
}

static bool some_device(const tsr_mesh *mesh, int process)
{
  for (int p = 0; p < mesh->device_count; p++)
    if (process_of(mesh, p) == process) return true;
  return false;
}

/* Dim by dim the block is a product of pieces; `whole` says whether the process has each
 * combination of them, which a mesh in another order of devices may not give it. */
static tsr_status block_of(const tsr_sharding *sharding, const tsr_shape *shape, int process,
                           tsr_process_part *out)
{
  int64_t all = 1;

  for (int d = 0; d < shape->rank; d++) {
    tsr__portions pieces;
    int64_t has = 0;
    if (!tsr__portions_open(sharding, d, &pieces)) return TSR_ENOMEM;
    out->count[d] = tsr__portions_number(&pieces, process, &out->index[d]);
    out->shape.dims[d] = tsr__portions_before(&pieces, shape->dims[d], process, pieces.parts);
    for (int64_t i = 0; i < pieces.parts; i++) has += tsr__portions_has(&pieces, process, i);
    all *= has;
    tsr__portions_close(&pieces);
  }
  out->whole = some_device(sharding->mesh, process) && tsr__has_all(sharding, process, all);
  return TSR_OK;
}

tsr_status tsr_process_part_of(const tsr_sharding *sharding, tsr_shape shape, int process,
                               tsr_process_part *out)
{
  tsr_process_part part = { .shape = shape, .whole = true };
  tsr__error error = { .status = TSR_OK };
  const tsr_sharding unplaced = { .mesh = NULL };

  if (!sharding) sharding = &unplaced;
  const tsr_mesh *mesh = sharding->mesh;
  if (!out)
    tsr__error_set(&error, TSR_EARG, "the pointer for the result is NULL; give the address of one");
  else if (!tsr__shape_check(&shape, &error)) tsr__sharding_check_form(sharding, &shape, &error);
  if (!error.status && mesh && mesh->abstract)
    tsr__error_set(&error, TSR_EAXIS,
                   "the mesh %s is abstract: sizes without devices; give a mesh with devices",
                   tsr_mesh_text(mesh));
  if (!error.status && (process < 0 || (mesh && process >= processes_of(mesh))))
    tsr__error_set(&error, TSR_EARG, "there is no process %d with a portion of the array", process);
  if (error.status)
    return tsr__fail(NULL, NULL, error.status, "tsr_process_part_of: %s", error.text);
  for (int d = 0; d < shape.rank; d++) part.count[d] = 1;
  tsr_status status = mesh ? block_of(sharding, &shape, process, &part) : TSR_OK;
  if (!status) *out = part;
  return status;
}

/* ---- who has what ---------------------------------------------------------------------------- */

int tsr_local_device_count(const tsr_runtime *rt)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  return topology ? topology->per_process : 0;
}

int tsr_local_device(const tsr_runtime *rt, int index)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  if (!topology || index < 0 || index >= topology->per_process) return -1;
  return topology->process_index * topology->per_process + index;
}

int tsr_device_process(const tsr_runtime *rt, int device)
{
  return tsr__device_process(tsr__topology_of(rt), device);
}

int tsr_mesh_process_count(const tsr_mesh *mesh)
{
  int count = 0;
  if (!mesh || mesh->error || mesh->abstract) return 0;
  for (int process = 0; process < processes_of(mesh); process++)
    count += some_device(mesh, process);
  return count;
}

/* Without a mesh there is one shard, here. */
int tsr_local_shard(const tsr_sharding *sharding, int index)
{
  const tsr_mesh *mesh = sharding ? sharding->mesh : NULL;
  if (!mesh) return index == 0 ? 0 : -1;
  if (mesh->error || mesh->abstract) return -1;
  for (int p = 0; p < mesh->device_count; p++)
    if (tsr__device_local(tsr__topology_of(mesh->rt), mesh->devices[p]) && index-- == 0) return p;
  return -1;
}

int tsr_local_shard_count(const tsr_sharding *sharding)
{
  int count = 0;
  while (tsr_local_shard(sharding, count) >= 0) count++;
  return count;
}

/* ---- a process's part of a mesh -------------------------------------------------------------- */

/* The coordinates of this process's devices along each axis, from where so many. */
typedef struct corner {
  int64_t start[TSR_MAX_AXES], size[TSR_MAX_AXES];
  int devices;
} corner;

/* A block where the smallest box of coordinates has no more places than the process has devices. */
static bool find_corner(const tsr_mesh *mesh, int process, corner *out)
{
  *out = (corner){ .devices = 0 };
  for (int p = 0; p < mesh->device_count; p++) {
    if (process_of(mesh, p) != process) continue;
    for (int a = 0; a < mesh->axis_count; a++) {
      int64_t at = tsr__mesh_coord(mesh, p, a), end = out->start[a] + out->size[a];
      int64_t start = !out->devices || at < out->start[a] ? at : out->start[a];
      out->size[a] = (!out->devices || at + 1 > end ? at + 1 : end) - start;
      out->start[a] = start;
    }
    out->devices++;
  }
  int64_t count = 1;
  for (int a = 0; a < mesh->axis_count; a++) count *= out->size[a];
  return out->devices && count == out->devices;
}

static tsr_mesh *no_block(const tsr_mesh *mesh, int devices)
{
  tsr__error error = { .status = TSR_OK };
  int process = tsr__topology_of(mesh->rt)->process_index;

  if (devices)
    tsr__error_set(&error, TSR_EARG,
                   "tsr_mesh_local: the %d devices of process %d do not form a block of mesh %s; "
                   "order the devices process by process",
                   devices, process, mesh->text);
  else
    tsr__error_set(&error, TSR_EARG, "tsr_mesh_local: process %d has no device in mesh %s", process,
                   mesh->text);
  return (tsr_mesh *)tsr__mesh_bad(mesh->rt, &error);
}

/* Devices in the order of positions, which within a block is that of the smaller mesh. */
tsr_mesh *tsr_mesh_local(const tsr_mesh *mesh)
{
  corner own;
  if (!mesh || mesh->error || mesh->abstract || mesh->own) return (tsr_mesh *)mesh;
  if (!find_corner(mesh, tsr__topology_of(mesh->rt)->process_index, &own))
    return no_block(mesh, own.devices);
  tsr__error error = { .status = TSR_OK };
  size_t bytes = (size_t)own.devices * sizeof(int);
  int *devices = tsr__new(&mesh->rt->heap, bytes), count = 0;
  if (!devices) {
    tsr__error_set(&error, TSR_ENOMEM, "tsr_mesh_local: no memory for the list of devices");
    return (tsr_mesh *)tsr__mesh_bad(mesh->rt, &error);
  }
  for (int p = 0; p < mesh->device_count; p++)
    if (tsr__device_local(tsr__topology_of(mesh->rt), mesh->devices[p]))
      devices[count++] = mesh->devices[p];
  tsr_mesh *out = tsr__mesh_own(mesh, own.size, devices);
  tsr__del(&mesh->rt->heap, devices, bytes);
  return out;
}
