/* The entries of a device table but those for rows: the kind's own where it can, else the CPU's in
 * mirrors.
 *
 * An entry lists its buffers once (touch_*), reads before writes, and names the two functions.
 *
 *   entry                      reads                          writes             changes
 *   fill, staging_open                                        the buffer
 *   number, from_host                                                            the buffer
 *   map, to_host, mask_count,  the buffer
 *   mask_find
 *   copy, pick, disperse       list of rows, the sender                          receivers
 *   assemble                   every piece of every part                         the parts
 *   compact, mask_first        the mask, the column                              the result
 *   run                        operands                       results
 *   call                       operands                       results
 *   all_reduce                 whole shards                   results            a share of them
 *
 * Bytes of a buffer that is written are not brought to the mirror, those of one that is changed
 * are: several calls may fill parts of one receiver, and bools share words. */
#include "kernel/fallback/mirror.h"

#include "kernel/device/cpu.h"
#include "kernel/routine/routine.h"
#include "kernel/tile/partial.h"

/* Runs `own` on the device if the kind has the entry and all buffers of the ask are the device's,
 * else `host`, in mirrors where some are. Entries without a status use it. */
#define EITHER(rt, entry, touch, ask, own, host)                        \
  do {                                                                  \
    if (tsr__is_for_cpu(rt, touch, ask)) {                              \
      host;                                                             \
    } else if (tsr__own_of(rt)->entry && tsr__device_can(touch, ask)) { \
      own;                                                              \
      tsr__device_did(touch, ask);                                      \
    } else if (tsr__mirrors_open_or_lose(rt, touch, ask)) {             \
      host;                                                             \
      tsr__mirrors_close(touch, ask);                                   \
    }                                                                   \
  } while (0)

/* Returns the status of an entry that the kind may have for some programs alone: `work` says for
 * which program it is called. `own` uses `told`, which stands for the run's error and `traffic`. */
#define EITHER_WORK(rt, traffic, touch, ask, own, host)               \
  do {                                                                \
    telling told = { error, traffic };                                \
    tsr_status status = tsr__mirrors_check(tsr__other_of(rt), error); \
    if (status) return status;                                        \
    if (tsr__is_for_cpu(rt, touch, ask)) return host;                 \
    if (!tsr__host_does(rt, &work) && tsr__device_can(touch, ask)) {  \
      if (!open_telling(rt, &told)) return error->status;             \
      status = own;                                                   \
      tsr__device_did(touch, ask);                                    \
      return status;                                                  \
    }                                                                 \
    if (!tsr__mirrors_open(touch, ask)) return tsr__no_mirror(error); \
    status = host;                                                    \
    tsr__mirrors_close(touch, ask);                                   \
    return status;                                                    \
  } while (0)

/* ---- buffers --------------------------------------------------------------------------------- */

static void give_mirrored(tsr__buffer *buffer)
{
  tsr__mirror_drop(buffer);
  if (tsr__other_of(buffer->rt)->kind.queue) tsr__queued_give(buffer);
  else tsr__own_of(buffer->rt)->give(buffer);
}

/* A copy takes the place of memory that the device cannot reach. */
static tsr__buffer *adopt_copy(tsr_runtime *rt, int device, const tsr__foreign *memory)
{
  tsr__error none = { .status = TSR_OK };
  tsr__buffer *buffer = tsr__own_of(rt)->take(rt, device, memory->bytes, &none);
  if (!buffer) return NULL;
  tsr__put_straight(buffer, 0, memory->data, memory->bytes);
  if (memory->release) memory->release(memory->data, memory->user);
  return buffer;
}

/* Entries that name a device, not a buffer, choose by the device. */
static tsr__buffer *take_by_kind(tsr_runtime *rt, int device, size_t bytes, tsr__error *error)
{
  const tsr__other *other = tsr__other_of(rt);
  if (!tsr__is_of_kind(other, device)) return tsr__cpu_take(rt, device, bytes, error);
  return other->kind.queue ? tsr__queued_take(rt, device, bytes, error)
                           : other->kind.ops->take(rt, device, bytes, error);
}

static tsr__buffer *adopt_by_kind(tsr_runtime *rt, int device, const tsr__foreign *memory)
{
  const tsr__other *other = tsr__other_of(rt);
  if (!tsr__is_of_kind(other, device)) return tsr__cpu_adopt(rt, device, memory);
  return other->kind.ops->adopt ? other->kind.ops->adopt(rt, device, memory)
                                : adopt_copy(rt, device, memory);
}

static tsr_memory memory_by_kind(const tsr_runtime *rt, int device)
{
  const tsr__other *other = tsr__other_of(rt);
  return tsr__is_of_kind(other, device) ? other->kind.ops->memory(rt, device)
                                        : tsr__cpu_memory(rt, device);
}

/* The entry is a hint, which a kind may ignore. */
static void expect_by_kind(tsr_runtime *rt, int device, size_t bytes, int count)
{
  const tsr__other *other = tsr__other_of(rt);
  if (!tsr__is_of_kind(other, device)) tsr__cpu_expect(rt, device, bytes, count);
  else if (other->kind.ops->expect) other->kind.ops->expect(rt, device, bytes, count);
}

/* Counts elements that go from one device to another, if these are of different kinds. */
static void count_between(int from, int to, tsr_runtime *rt, tsr_dtype dtype, int64_t elements)
{
  tsr__other *other = tsr__other_of(rt);
  if (tsr__is_of_kind(other, from) != tsr__is_of_kind(other, to))
    atomic_fetch_add_explicit(&other->between, tsr__elements_bytes(dtype, elements),
                              memory_order_relaxed);
}

static void touch_written(tsr__touch *t, const void *ask)
{
  tsr__touch_buffer(t, ask, TSR__WRITES);
}

static void touch_changed(tsr__touch *t, const void *ask)
{
  tsr__touch_buffer(t, ask, TSR__CHANGES);
}

static void fill_either(tsr__buffer *buffer, uint8_t byte)
{
  EITHER(buffer->rt, fill, touch_written, buffer, tsr__own_of(buffer->rt)->fill(buffer, byte),
         tsr__cpu_fill(buffer, byte));
}

static void number_either(tsr__buffer *buffer, int64_t first, int64_t count)
{
  EITHER(buffer->rt, number, touch_changed, buffer,
         tsr__own_of(buffer->rt)->number(buffer, first, count),
         tsr__cpu_number(buffer, first, count));
}

/* The mirror stays until tsr__device_ops.unmap, or goes with the buffer. */
static const void *map_mirror(tsr__buffer *buffer)
{
  const tsr__device_ops *own = tsr__own_of(buffer->rt);
  if (tsr__on_host(buffer)) return buffer->data;
  if (own->map && tsr__device_can(tsr__touch_read, buffer)) return own->map(buffer);
  bool open = tsr__mirrors_open_or_lose(buffer->rt, tsr__touch_read, buffer);
  return open ? buffer->data : NULL;
}

static void unmap_mirror(tsr__buffer *buffer)
{
  const tsr__device_ops *own = tsr__own_of(buffer->rt);
  if (tsr__on_host(buffer)) return;
  if (own->map) own->unmap(buffer);
  else tsr__mirrors_close(tsr__touch_read, buffer);
}

/* The mirror stays until the staging buffer is given or dropped. */
static void *staging_mirror(tsr__buffer *buffer, bool keeps, tsr__error *error)
{
  const tsr__device_ops *own = tsr__own_of(buffer->rt);
  tsr__touch_fn *touch = keeps ? touch_changed : touch_written;
  if (tsr__on_host(buffer)) return buffer->data;
  if (own->staging_open && tsr__device_can(touch, buffer))
    return own->staging_open(buffer, keeps, error);
  if (tsr__mirrors_open(touch, buffer)) return buffer->data;
  tsr__no_mirror(error);
  return NULL;
}

static void close_staging_mirror(tsr__buffer *buffer, void *memory, bool filled)
{
  const tsr__device_ops *own = tsr__own_of(buffer->rt);
  if (tsr__on_host(buffer)) return;
  if (own->staging_open) own->staging_close(buffer, memory, filled);
  else tsr__mirrors_close(touch_written, buffer);
}

/* ---- other processes ------------------------------------------------------------------------- */

/* A kind that can share memory has all three entries (complete.c): these are for one process. */
static bool share_nothing(const tsr__buffer *buffer, uint64_t *handle)
{
  (void)buffer, (void)handle;
  return false;
}

static tsr__buffer *open_nothing(tsr_runtime *rt, int device, uint64_t handle, size_t bytes,
                                 tsr__error *error)
{
  (void)device, (void)handle, (void)bytes;
  tsr__error_set(error, TSR_EUNSUPPORTED, "devices of kind %s share no memory between processes",
                 tsr__own_of(rt)->kind);
  return NULL;
}

static void fetch_nothing(const tsr__buffer *opened, const tsr__byte_runs *runs)
{
  (void)opened, (void)runs;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Whether a box is one run of elements of a dense array, which begins at `at`. */
static bool is_run(const tsr__box_copy *copy, const int64_t *dims, const int64_t *start,
                   int64_t *at)
{
  bool whole = true, run = true; /* whole: all dims seen until now */
  int64_t stride = 1;
  *at = 0;
  for (int d = copy->rank - 1; d >= 0; d--) {
    run = run && (whole || copy->size[d] == 1);
    whole = whole && copy->size[d] == dims[d];
    *at += start[d] * stride;
    stride *= dims[d];
  }
  return run;
}

/* A box that is a run on both sides, in bytes. Bools are bits on one side alone. */
typedef struct straight {
  size_t from, to, bytes;
} straight;

static bool goes_straight(const tsr__box_copy *copy, straight *out)
{
  int64_t from, to, count = 1;
  if (copy->dtype == TSR_BOOL || copy->from_step) return false;
  if (!is_run(copy, copy->from_dims, copy->from_start, &from)) return false;
  if (!is_run(copy, copy->to_dims, copy->to_start, &to)) return false;
  for (int d = 0; d < copy->rank; d++) count *= copy->size[d];
  size_t size = tsr_dtype_size(copy->dtype);
  *out = (straight){ (size_t)from * size, (size_t)to * size, (size_t)count * size };
  return true;
}

/* Bytes that go straight pass no mirror: they are the user's copy, which every device needs, and do
 * not count as work of the host. */
static void from_host_either(const tsr__box_copy *copy, const void *host, tsr__buffer *to)
{
  straight s;
  if (goes_straight(copy, &s) && tsr__put_straight(to, s.to, (const char *)host + s.from, s.bytes))
    return;
  EITHER(to->rt, from_host, touch_changed, to, tsr__own_of(to->rt)->from_host(copy, host, to),
         tsr__cpu_from_host(copy, host, to));
}

static void to_host_either(const tsr__box_copy *copy, const tsr__buffer *from, void *host)
{
  straight s;
  if (goes_straight(copy, &s) && tsr__get_straight(from, s.from, (char *)host + s.to, s.bytes))
    return;
  EITHER(from->rt, to_host, tsr__touch_read, from, tsr__own_of(from->rt)->to_host(copy, from, host),
         tsr__cpu_to_host(copy, from, host));
}

typedef struct copying {
  const tsr__buffer *list, *from; /* list: rows or destinations; NULL: none */
  tsr__buffer *const *to;
  int count;
} copying;

/* Receivers are filled piece by piece, by several calls at once: their other bytes must stay. */
static void touch_copying(tsr__touch *t, const void *ask)
{
  const copying *c = ask;
  tsr__touch_buffer(t, c->list, TSR__READS);
  tsr__touch_buffer(t, c->from, TSR__READS);
  tsr__touch_buffers(t, c->to, c->count, TSR__CHANGES);
}

static int64_t elements_of(const tsr__box_copy *copy)
{
  int64_t count = 1;
  for (int d = 0; d < copy->rank; d++) count *= copy->size[d];
  return count;
}

/* A copy between host memory and a device. The host's side is its own memory, so that the device's
 * alone may need a mirror. False: bits, which the host has as bytes, and steps. */
static bool copy_between(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                         tsr__traffic *traffic)
{
  if (tsr__on_host(from) == tsr__on_host(to)) return false;
  if (copy->dtype == TSR_BOOL || copy->from_step) return false;
  if (tsr__on_host(from)) from_host_either(copy, from->data, to);
  else to_host_either(copy, from, to->data);
  if (traffic && from->device != to->device)
    traffic->bytes += tsr__elements_bytes(copy->dtype, elements_of(copy));
  return true;
}

static void copy_either(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                        tsr__traffic *traffic)
{
  const copying ask = { NULL, from, &to, 1 };
  count_between(from->device, to->device, to->rt, copy->dtype, elements_of(copy));
  if (copy_between(copy, from, to, traffic)) return;
  EITHER(to->rt, copy, touch_copying, &ask, tsr__own_of(to->rt)->copy(copy, from, to, traffic),
         tsr__cpu_copy(copy, from, to, traffic));
}

static void pick_either(const tsr__pick *pick, const tsr__buffer *from, tsr__buffer *to,
                        tsr__traffic *traffic)
{
  const copying ask = { pick->rows, from, &to, 1 };
  count_between(from->device, to->device, to->rt, pick->dtype, pick->count);
  EITHER(to->rt, pick, touch_copying, &ask, tsr__own_of(to->rt)->pick(pick, from, to, traffic),
         tsr__cpu_pick(pick, from, to, traffic));
}

static void disperse_either(const tsr__disperse *job, const tsr__buffer *from,
                            tsr__buffer *const *to, tsr__traffic *traffic)
{
  const copying ask = { job->dest, from, to, job->parts };
  for (int p = 0; p < job->parts; p++)
    if (to[p]) count_between(from->device, to[p]->device, from->rt, job->dtype, job->counts[p]);
  EITHER(from->rt, disperse, touch_copying, &ask,
         tsr__own_of(from->rt)->disperse(job, from, to, traffic),
         tsr__cpu_disperse(job, from, to, traffic));
}

typedef struct assembling {
  const tsr__assembly *parts;
  int count;
  tsr__buffer *const *from;
} assembling;

/* A walk over the pieces of a part, each once. */
typedef struct piece_walk {
  const tsr__piece_grid *pieces;
  bool more;
  int index[TSR_MAX_RANK]; /* the overlap, by dim */
} piece_walk;

static piece_walk first_piece_of_part(const tsr__piece_grid *pieces)
{
  piece_walk walk = { .pieces = pieces, .more = true };
  for (int d = 0; d < pieces->rank; d++) walk.more = walk.more && pieces->counts[d];
  return walk;
}

static void next_piece_of_part(piece_walk *walk)
{
  int d = walk->pieces->rank - 1;
  while (d >= 0 && ++walk->index[d] == walk->pieces->counts[d]) walk->index[d--] = 0;
  walk->more = d >= 0;
}

static int position_of_piece(const piece_walk *walk)
{
  const tsr__piece_grid *pieces = walk->pieces;
  int position = 0;
  for (int d = 0; d < pieces->rank; d++) position += pieces->overlaps[d][walk->index[d]].offset;
  return position == pieces->leader ? pieces->own : position;
}

static void touch_pieces(tsr__touch *t, const tsr__piece_grid *pieces, tsr__buffer *const *from)
{
  for (piece_walk w = first_piece_of_part(pieces); w.more; next_piece_of_part(&w))
    tsr__touch_buffer(t, from[position_of_piece(&w)], TSR__READS);
}

static void touch_assembling(tsr__touch *t, const void *ask)
{
  const assembling *a = ask;
  for (int i = 0; i < a->count; i++)
    if (!tsr__touch_skips(t, a->parts[i].to->device)) touch_pieces(t, &a->parts[i].pieces, a->from);
  for (int i = 0; i < a->count; i++) tsr__touch_buffer(t, a->parts[i].to, TSR__CHANGES);
}

/* A piece as a box to copy, without what lies outside of the assembly's slab. */
typedef struct piece_box {
  tsr__box_copy copy;
  int64_t from_dims[TSR_MAX_RANK], from_start[TSR_MAX_RANK], to_start[TSR_MAX_RANK],
      size[TSR_MAX_RANK];
} piece_box;

static void find_piece_box(const tsr__assembly *part, const piece_walk *walk, piece_box *out)
{
  for (int d = 0; d < part->pieces.rank; d++) {
    const tsr__overlap *o = &part->pieces.overlaps[d][walk->index[d]];
    int64_t from = o->to_start, to = from + o->size;
    if (d == part->slab_dim && from < part->slab_start) from = part->slab_start;
    if (d == part->slab_dim && to > part->slab_end) to = part->slab_end;
    out->from_dims[d] = o->part_size;
    out->from_start[d] = o->from_start + from - o->to_start;
    out->to_start[d] = from;
    out->size[d] = to > from ? to - from : 0;
  }
  out->copy = (tsr__box_copy){ .dtype = part->dtype,
                               .rank = part->pieces.rank,
                               .from_dims = out->from_dims,
                               .from_start = out->from_start,
                               .to_dims = part->to_dims,
                               .to_start = out->to_start,
                               .size = out->size,
                               .progress = part->progress,
                               .worker = part->worker,
                               .streams = part->streams };
}

static void count_pieces(const tsr__assembly *part, tsr__buffer *const *from)
{
  for (piece_walk w = first_piece_of_part(&part->pieces); w.more; next_piece_of_part(&w)) {
    const tsr__buffer *piece = from[position_of_piece(&w)];
    piece_box box;
    if (!piece) continue;
    find_piece_box(part, &w, &box);
    count_between(piece->device, part->to->device, part->to->rt, part->dtype,
                  elements_of(&box.copy));
  }
}

static bool assemble_alike(const tsr__assembly *parts, int count, tsr__buffer *const *from,
                           tsr__traffic *traffic)
{
  const assembling ask = { parts, count, from };
  bool all = true;
  tsr_runtime *rt = parts->to->rt;
  EITHER(rt, assemble, touch_assembling, &ask,
         all = tsr__own_of(rt)->assemble(parts, count, from, traffic),
         all = tsr__cpu_assemble(parts, count, from, traffic));
  return all;
}

/* The way to put a part together where CPU devices are beside. The side that has all of its pieces
 * does it; else it goes piece by piece, if every piece that passes from side to side is a range of
 * bytes or a box that the kind copies; else in mirrors. */
enum { BY_PIECES = 1 << 2 };

static unsigned way_of_part(const tsr__assembly *part, tsr__buffer *const *from)
{
  const tsr__device_ops *own = tsr__own_of(part->to->rt);
  bool to_host = tsr__on_host(part->to),
       boxes = to_host ? own->to_host != NULL : own->from_host != NULL;
  unsigned sides = tsr__ask_sides(touch_assembling, &(assembling){ part, 1, from });
  bool passes = part->dtype != TSR_BOOL;
  for (piece_walk w = first_piece_of_part(&part->pieces); w.more && passes;
       next_piece_of_part(&w)) {
    const tsr__buffer *piece = from[position_of_piece(&w)];
    piece_box box;
    straight run;
    find_piece_box(part, &w, &box);
    passes = piece && (boxes || tsr__on_host(piece) == to_host || goes_straight(&box.copy, &run));
  }
  return sides == TSR__ON_BOTH && passes ? BY_PIECES : sides;
}

static void assemble_by_pieces(const tsr__assembly *part, tsr__buffer *const *from,
                               tsr__traffic *traffic)
{
  for (piece_walk w = first_piece_of_part(&part->pieces); w.more; next_piece_of_part(&w)) {
    piece_box box;
    find_piece_box(part, &w, &box);
    if (elements_of(&box.copy))
      copy_either(&box.copy, from[position_of_piece(&w)], part->to, traffic);
  }
}

/* Parts that follow each other and go the same way go together. */
static bool assemble_either(const tsr__assembly *parts, int count, tsr__buffer *const *from,
                            tsr__traffic *traffic)
{
  bool all = true;
  if (!count) return true;
  if (!tsr__other_of(parts->to->rt)->mixed) return assemble_alike(parts, count, from, traffic);
  unsigned way = way_of_part(parts, from), other = way;
  for (int i = 0, next; i < count; i = next, way = other) {
    for (next = i + 1; next < count; next++)
      if ((other = way_of_part(&parts[next], from)) != way) break;
    for (int p = i; p < next; p++) {
      if (way == BY_PIECES) assemble_by_pieces(&parts[p], from, traffic);
      else count_pieces(&parts[p], from);
    }
    if (way != BY_PIECES) all = assemble_alike(&parts[i], next - i, from, traffic) && all;
  }
  return all;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static int64_t mask_count_either(const tsr__buffer *mask, int64_t rows)
{
  int64_t count = 0;
  EITHER(mask->rt, mask_count, tsr__touch_read, mask,
         count = tsr__own_of(mask->rt)->mask_count(mask, rows),
         count = tsr__cpu_mask_count(mask, rows));
  return count;
}

static int64_t mask_find_either(const tsr__buffer *mask, int64_t rows, bool bit, int64_t n)
{
  int64_t at = rows;
  EITHER(mask->rt, mask_find, tsr__touch_read, mask,
         at = tsr__own_of(mask->rt)->mask_find(mask, rows, bit, n),
         at = tsr__cpu_mask_find(mask, rows, bit, n));
  return at;
}

static void compact_either(const tsr__compact *job)
{
  const copying ask = { job->mask, job->from, &job->to, 1 };
  EITHER(job->to->rt, compact, touch_copying, &ask, tsr__own_of(job->to->rt)->compact(job),
         tsr__cpu_compact(job));
}

static void mask_first_either(const tsr__buffer *mask, int64_t rows, int64_t keep, tsr__buffer *to)
{
  const copying ask = { NULL, mask, &to, 1 };
  EITHER(to->rt, mask_first, touch_copying, &ask,
         tsr__own_of(to->rt)->mask_first(mask, rows, keep, to),
         tsr__cpu_mask_first(mask, rows, keep, to));
}

/* ---- kernels, routines, all-reduces ---------------------------------------------------------- */

/* A result may take the memory of an operand: all operands of a part come first. */
static void touch_run(tsr__touch *t, const void *ask)
{
  const tsr__run *run = ask;
  const tsr__kernel_io *io = tsr__kernel_io_of(run->kernel);
  for (int p = 0; p < run->part_count; p++) {
    if (tsr__touch_skips(t, run->parts[p].device)) continue;
    if (io->accum_count) tsr__touch_device(t, run->rt, run->parts[p].device);
    tsr__touch_buffers(t, run->parts[p].inputs, io->input_count, TSR__READS);
    tsr__touch_buffers(t, run->parts[p].outputs, io->output_count, TSR__WRITES);
  }
}

/* The places for the error and the traffic of one entry: the run's own, or those of a record where
 * the kind has queues. */
typedef struct telling {
  tsr__error *error;
  tsr__traffic *traffic;
} telling;

static bool open_telling(tsr_runtime *rt, telling *told)
{
  tsr__other *other = tsr__other_of(rt);
  tsr__late *late = other->kind.queue ? tsr__late_new(other, told->error) : NULL;
  if (late) *told = (telling){ &late->error, &late->traffic };
  return late || !other->kind.queue;
}

static tsr__device_work work_of_kernel(const tsr__run *run)
{
  return (
      tsr__device_work){ .kind = TSR__WORK_KERNEL, .program = run->program, .kernel = run->kernel };
}

static void drop_nothing(tsr__code *code)
{
  (void)code;
}

/* Stands for a kernel of which a kind makes nothing, so that the kind is asked once. */
static const tsr__code no_code = { drop_nothing };

static const tsr__code *prepare_kernel(const tsr__run *run, tsr__error *error)
{
  tsr__code *code = tsr__kernel_code(run->kernel);
  if (code) return code; /* another thread's, meanwhile */
  code = tsr__own_of(run->rt)->prepare(run->rt, run->program, run->kernel, error);
  if (!code && !error->status) code = (tsr__code *)(uintptr_t)&no_code;
  if (code) tsr__kernel_keep(run->kernel, code);
  return code;
}

/* A warm run finds the code, and waits for nobody. */
static tsr_status run_own(const tsr__run *run, tsr__error *error)
{
  const tsr__device_ops *own = tsr__own_of(run->rt);
  if (!own->prepare) return own->run(run, error);
  const tsr__code *code = tsr__kernel_code(run->kernel);
  if (!code) {
    pthread_mutex_t *making = &tsr__other_of(run->rt)->making;
    pthread_mutex_lock(making);
    code = prepare_kernel(run, error);
    pthread_mutex_unlock(making);
  }
  if (!code) return error->status;
  tsr__run with_code = *run;
  with_code.code = code == &no_code ? NULL : code;
  return own->run(&with_code, error);
}

/* Accumulators are listed nowhere: those that a kernel of the host adds to are the host's, and a
 * device uses its own in the order of its work. */
static tsr_status run_alike(const tsr__run *run, tsr__error *error)
{
  const tsr__device_work work = work_of_kernel(run);
  EITHER_WORK(run->rt, NULL, touch_run, run, run_own(run, told.error), tsr__cpu_run(run, error));
}

/* Whether each part of a kernel can be left to the kind of its device: not where an index may be
 * out of range, as the error names the first one of all parts. */
static bool runs_by_kind(const tsr__run *run)
{
  const tsr__device_work work = work_of_kernel(run);
  return tsr__other_of(run->rt)->mixed && !tsr__kernel_may_fail(run->kernel) &&
         !tsr__host_does(run->rt, &work) && tsr__ask_sides(touch_run, run) == TSR__ON_BOTH;
}

/* Runs the parts of one kind, neighbours together. */
static tsr_status run_side(const tsr__run *run, bool of_kind, tsr__error *error)
{
  const tsr__other *other = tsr__other_of(run->rt);
  tsr_status status = TSR_OK;
  for (int p = 0, next; p < run->part_count && !status; p = next) {
    bool side = tsr__is_of_kind(other, run->parts[p].device);
    for (next = p + 1; next < run->part_count; next++)
      if (tsr__is_of_kind(other, run->parts[next].device) != side) break;
    tsr__run some = *run;
    some.part_count = next - p;
    some.parts = &run->parts[p];
    if (run->busy) some.busy = &run->busy[p];
    if (side == of_kind) status = run_alike(&some, error);
  }
  return status;
}

/* The kind goes first: its entries may return before their work is over. */
static tsr_status run_either(const tsr__run *run, tsr__error *error)
{
  if (!runs_by_kind(run)) return run_alike(run, error);
  tsr_status status = run_side(run, true, error);
  return status ? status : run_side(run, false, error);
}

/* Results that nobody reads have no buffer, nor have shards of other processes. */
static void touch_call(tsr__touch *t, const void *ask)
{
  const tsr__call *call = ask;
  const tsr__gnode *node = tsr__call_node(call);
  int outs = node->result_count ? node->result_count : 1;
  for (int p = 0; p < call->part_count; p++) {
    const tsr__call_part *part = &call->parts[p];
    for (int i = 0; i < node->in_count; i++) tsr__touch_buffer(t, part->in[i].buffer, TSR__READS);
    for (int i = 0; i < outs; i++) tsr__touch_buffer(t, part->out[i].buffer, TSR__WRITES);
  }
}

static tsr_status call_own(const tsr__call *call, const telling *told)
{
  tsr__call own = *call;
  own.traffic = told->traffic;
  return tsr__own_of(call->rt)->call(&own, told->error);
}

static tsr_status call_either(const tsr__call *call, tsr__error *error)
{
  const tsr__device_work work = { .kind = TSR__WORK_ROUTINE,
                                  .program = call->program,
                                  .node = call->node };
  EITHER_WORK(call->rt, call->traffic, touch_call, call, call_own(call, &told),
              tsr__cpu_call(call, error));
}

/* A share that is one of several leaves the other elements to other processes. */
static void touch_all_reduce(tsr__touch *t, const void *ask)
{
  const tsr__all_reduce *c = ask;
  bool whole = c->share.index == 0 && c->share.count == 1;
  for (int m = 0; m < c->member_count; m++) tsr__touch_device(t, c->rt, c->devices[m]);
  for (int m = 0; c->elements && m < c->member_count; m++)
    tsr__touch_buffers(t, c->elements[m], c->accum_count, TSR__READS);
  for (int m = 0; m < c->member_count; m++)
    tsr__touch_buffers(t, c->outputs[m], c->final_count, whole ? TSR__WRITES : TSR__CHANGES);
}

static tsr_status all_reduce_either(const tsr__all_reduce *combine, tsr__traffic *traffic,
                                    tsr__error *error)
{
  const tsr__device_work work = { .kind = TSR__WORK_ALL_REDUCE,
                                  .program = combine->program,
                                  .node = combine->finals[0] };
  EITHER_WORK(combine->rt, traffic, touch_all_reduce, combine,
              tsr__own_of(combine->rt)->all_reduce(combine, told.traffic, told.error),
              tsr__cpu_all_reduce(combine, traffic, error));
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Accumulators in host memory, for a kind without its own. */
static void put_host_partials(tsr__device_ops *ops)
{
  ops->partial_bytes = tsr__cpu_partial_bytes;
  ops->partial = tsr__partial_new;
  ops->partial_free = tsr__partial_free;
  ops->partial_take = tsr__partial_take;
  ops->partial_tell = tsr__partial_tell;
  ops->partial_far = tsr__partial_far;
}

void tsr__complete(tsr__other *other)
{
  tsr__device_ops *ops = &other->ops;
  if (!ops->partial || other->mixed) put_host_partials(ops);
  if (!ops->share) {
    ops->share = share_nothing;
    ops->open_shared = open_nothing;
    ops->fetch = fetch_nothing;
  }
  if (!ops->call_axes) ops->call_axes = tsr__cpu_call_axes;
  if (!ops->call_apart) ops->call_apart = tsr__cpu_call_apart;
  if (!ops->call_room) ops->call_room = tsr__cpu_call_room;
  ops->rows = &tsr__rows_or_host;
  ops->take = take_by_kind;
  ops->give = give_mirrored;
  ops->adopt = adopt_by_kind;
  ops->memory = memory_by_kind;
  ops->expect = expect_by_kind;
  ops->fill = fill_either;
  ops->number = number_either;
  ops->map = map_mirror;
  ops->unmap = unmap_mirror;
  ops->staging_open = staging_mirror;
  ops->staging_close = close_staging_mirror;
  ops->from_host = from_host_either;
  ops->to_host = to_host_either;
  ops->copy = copy_either;
  ops->assemble = assemble_either;
  ops->pick = pick_either;
  ops->disperse = disperse_either;
  ops->run = run_either;
  ops->call = call_either;
  ops->all_reduce = all_reduce_either;
  ops->mask_count = mask_count_either;
  ops->mask_find = mask_find_either;
  ops->compact = compact_either;
  ops->mask_first = mask_first_either;
}
