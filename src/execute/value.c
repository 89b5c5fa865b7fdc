/* Values: the elements of a global array as one buffer a mesh position.
 *
 *   f32[10]@(x) on x=4        position   0      1      2      3
 *                             elements   0..2   3..5   6..7   8..9
 *
 * A ragged value has run-time row counts instead of the usual borders: `rows[p]` rows lie at
 * position p, and positions with equal coordinates on the axes of dim 0 hold the same rows. */
#include "execute/execute.h"

enum { FEW_PARTS = 8 };

/* One block: the value, its buffers, and after them the rows of a ragged one.
 *
 *    tsr__value | parts[n] | rows[n] | before[n]       rows, before: NULL for the usual borders
 *
 * Those of few parts have one size, and some that are gone are kept for others. */
static size_t value_size(int parts)
{
  return sizeof(tsr__value) + (size_t)parts * (sizeof(tsr__buffer *) + 2 * sizeof(int64_t));
}

static size_t block_size(int parts)
{
  return value_size(parts < FEW_PARTS ? FEW_PARTS : parts);
}

/* Runs that are under way while a runtime closes have devices still, and nobody after them. */
static tsr__spares *spares_of(const tsr_runtime *rt, int parts)
{
  tsr__devices *devices = tsr__devices_of(rt);
  return parts <= FEW_PARTS && devices ? &devices->values : NULL;
}

/* Cleared. */
static tsr__value *take_value_block(tsr_runtime *rt, int parts)
{
  tsr__spares *spares = spares_of(rt, parts);
  tsr__value *value = spares ? tsr__spares_take(spares, &rt->heap, block_size(parts))
                             : tsr__new_raw(&rt->heap, block_size(parts));
  if (value) memset(value, 0, value_size(parts));
  return value;
}

static void give_block(tsr__value *value)
{
  tsr_runtime *rt = value->rt;
  tsr__spares *spares = spares_of(rt, value->part_count);
  if (spares) tsr__spares_give(spares, &rt->heap, value, block_size(value->part_count));
  else tsr__del(&rt->heap, value, block_size(value->part_count));
}

/* Without buffers: for those who have them already, as results of relational operators are.
 * `layout` is copied, its rows, too; parts are NULL until somebody fills them in. */
tsr__value *tsr__value_frame(tsr_runtime *rt, const tsr__layout *layout, tsr__error *error)
{
  int parts = tsr__positions(layout->sharding);
  tsr__value *value = take_value_block(rt, parts);
  if (!value) {
    tsr__error_set(error, TSR_ENOMEM,
                   "no memory for the description of an array; free some arrays");
    return NULL;
  }
  atomic_init(&value->refs, 1);
  value->rt = rt;
  value->dtype = (uint8_t)layout->dtype;
  value->shape = *layout->shape;
  value->sharding = *layout->sharding;
  value->part_count = parts;
  /*   value | parts[] | rows[] | before[]      the last two of ragged values only */
  value->parts = (tsr__buffer **)(value + 1);
  if (layout->rows) {
    value->rows = (int64_t *)(value->parts + parts);
    value->before = value->rows + parts;
    memcpy(value->rows, layout->rows, (size_t)parts * sizeof(int64_t));
    tsr__number_rows(layout->sharding, parts, layout->rows, value->before);
  }
  return value;
}

size_t tsr__part_bytes(const tsr__value *value, int position)
{
  tsr_box box;
  tsr__value_box(value, position, &box);
  return tsr__device_bytes((tsr_dtype)value->dtype, tsr__box_count(&box, value->shape.rank));
}

/* With a buffer at each position of this process; they hold anything, but where zeros must be. */
tsr__value *tsr__value_new(tsr_runtime *rt, const tsr__layout *layout, tsr__error *error)
{
  tsr__value *value = tsr__value_frame(rt, layout, error);
  if (!value) return NULL;
  const tsr__topology *topology = tsr__topology_of(rt);
  const tsr__devices *devices = tsr__devices_of(rt);
  /* If no dim is sharded, all parts are as large as the first. */
  bool cut = value->rows || tsr__used_axes(&value->sharding);
  size_t bytes = 0;
  for (int p = 0; p < value->part_count; p++) {
    int device = tsr__home_device(rt, &value->sharding, p);
    if (!p || cut) bytes = tsr__part_bytes(value, p);
    /* Another process's part stays NULL; loops over parts skip it. */
    if (!tsr__device_local(topology, device)) continue;
    value->parts[p] = devices->ops->take(rt, device, bytes, error);
    if (!value->parts[p]) {
      tsr__value_release(value);
      return NULL;
    }
    /* The other parts of an unreduced sum are zeros; code that fills the value skips them. */
    if (!tsr__holds(&value->sharding, p)) devices->ops->fill(value->parts[p], 0);
  }
  return value;
}

void tsr__value_expect(tsr_runtime *rt, const tsr__layout *layout, int count)
{
  tsr__error error = { 0 };
  /* As a value without buffers knows the size of each. */
  tsr__value *value = tsr__value_frame(rt, layout, &error);
  const tsr__devices *devices = tsr__devices_of(rt);
  for (int p = 0; value && p < value->part_count; p++) {
    int device = tsr__home_device(rt, &value->sharding, p);
    if (tsr__device_local(tsr__topology_of(rt), device))
      devices->ops->expect(rt, device, tsr__part_bytes(value, p), count);
  }
  tsr__value_release(value);
}

bool tsr__value_ragged(const tsr__value *value)
{
  return value->rows != NULL;
}

/* ---- sums that are kept ---- */

int tsr__value_kept(const tsr__value *value)
{
  return value->kept ? value->kept->row : -1;
}

int tsr__value_scales(const tsr__value *value, const tsr__scale_by **out)
{
  *out = value->kept ? value->kept->scales : NULL;
  return value->kept ? value->kept->scale_count : 0;
}

static size_t kept_size(int count)
{
  return sizeof(tsr__kept) + (size_t)count * sizeof(tsr__partial *);
}

/* Without partials, which the caller puts in and which go with it. */
tsr__kept *tsr__kept_new(tsr_runtime *rt, int row, int count, tsr__error *error)
{
  tsr__kept *kept = tsr__new(&rt->heap, kept_size(count));
  if (!kept) {
    tsr__error_set(error, TSR_ENOMEM, "no memory for unreduced partial sums");
    return NULL;
  }
  atomic_init(&kept->refs, 1);
  kept->row = (uint8_t)row;
  kept->rt = rt;
  kept->count = count;
  return kept;
}

/* A kept sum `of` another shows that one's partials and frees none. */
void tsr__kept_release(tsr__kept *kept)
{
  if (!kept || atomic_fetch_sub_explicit(&kept->refs, 1, memory_order_acq_rel) != 1) return;
  for (int p = 0; p < kept->count && !kept->of; p++)
    if (kept->partials[p]) tsr__devices_of(kept->rt)->ops->partial_free(kept->partials[p]);
  tsr__kept_release(kept->of);
  tsr__del(&kept->rt->heap, kept, kept_size(kept->count));
}

/* NULL is allowed, as of release: lists of values have gaps where nobody reads. */
void tsr__value_hold(tsr__value *value)
{
  if (value) atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
}

/* Buffers are counted as well: a part may be shared with another value (relate/ does so). */
void tsr__value_release(tsr__value *value)
{
  /* Whoever lets go last must see what all others wrote to it. */
  if (!value || atomic_fetch_sub_explicit(&value->refs, 1, memory_order_acq_rel) != 1) return;
  for (int p = 0; p < value->part_count; p++) tsr__buffer_release(value->parts[p]);
  tsr__kept_release(value->kept);
  tsr__value_release(value->follows);
  give_block(value);
}

/* `before` is by part, not by position. The loop goes down, so the lowest position of a part
 * writes last, though all replicas have the same count. */
int64_t tsr__number_rows(const tsr_sharding *sharding, int positions, const int64_t *rows,
                         int64_t *before)
{
  int64_t parts = tsr__dim_parts(sharding, 0), total = 0;
  for (int p = positions - 1; p >= 0; p--) before[tsr__dim_index(sharding, 0, p)] = rows[p];
  /* Counts become starts in place: each is read before it is overwritten. */
  for (int64_t part = 0; part < parts; part++) {
    int64_t here = before[part];
    before[part] = total;
    total += here;
  }
  return total;
}

int64_t tsr__rows_before(const tsr_sharding *sharding, const int64_t *before, int position)
{
  return before[tsr__dim_index(sharding, 0, position)];
}

/* The box that a position holds: by the usual borders, or by the rows that came to lie there. */
void tsr__value_box(const tsr__value *value, int position, tsr_box *out)
{
  tsr__box(&value->sharding, &value->shape, position, out);
  if (!value->rows) return;
  /* Ragged rows differ from the usual borders only in dim 0. */
  out->start[0] = tsr__rows_before(&value->sharding, value->before, position);
  out->size[0] = value->rows[position];
}

/* A copy of all that a position holds to where it lies alike. */
tsr__box_copy tsr__part_copy(const tsr__value *value, const tsr_box *box)
{
  static const int64_t zero[TSR_MAX_RANK];
  return (tsr__box_copy){ .dtype = (tsr_dtype)value->dtype,
                          .rank = value->shape.rank,
                          .from_dims = box->size,
                          .from_start = zero,
                          .to_dims = box->size,
                          .to_start = zero,
                          .size = box->size };
}

/* A copy between the whole global array (host) and one position's box. One end is the whole array
 * in host memory, so there the box begins where it lies in it; the device's end holds the box
 * alone. */
static void host_copy(const tsr__value *value, const tsr_box *box, bool to_device,
                      tsr__box_copy *out)
{
  *out = tsr__part_copy(value, box);
  *(to_device ? &out->from_dims : &out->to_dims) = value->shape.dims;
  *(to_device ? &out->from_start : &out->to_start) = box->start;
}

/* A job sets one of `from`, `to` and `read`, which says its task. */
typedef struct host_job {
  tsr__value *value;
  const void *from;
  void *to;
  tsr__reading_fn *read;
  void *user;
  int whole;          /* reading to the host: the position that has all elements; else -1 */
  _Atomic int failed; /* a tsr_status: reading, or memory for it */
  tsr__progress progress;
} host_job;

/* Replicas copy for themselves, which counts as no traffic: the host is nobody's device. */
static void from_host_task(void *user, int64_t position, int worker)
{
  host_job *job = user;
  tsr__value *value = job->value;
  if (!value->parts[position] || !tsr__holds(&value->sharding, (int)position)) return;
  tsr_box box;
  tsr__box_copy copy;
  tsr__value_box(value, (int)position, &box);
  host_copy(value, &box, true, &copy);
  copy.progress = &job->progress;
  copy.worker = worker;
  tsr__devices_of(value->rt)->ops->from_host(&copy, job->from, value->parts[position]);
}

enum { SLAB = 1 << 18 }; /* bytes that are read at once: in cache when they are copied */

/* Reads the rows of a box in slabs of whole rows of the array, `row` elements each. A shard may
 * be a slice of columns of a file that lies by rows: whole rows are read and the shard's part of
 * them is kept. `at` counts rows of the box; the slab's first row is its row 0, hence from_start
 * 0 and from_dims of the slab. */
static void read_slabs(host_job *job, const tsr_box *box, int64_t position, int worker)
{
  tsr__value *value = job->value;
  tsr__heap *heap = &value->rt->heap;
  size_t size = tsr_dtype_size((tsr_dtype)value->dtype);
  int64_t row = 1, rank = value->shape.rank, rows = rank ? box->size[0] : 1;
  for (int d = 1; d < rank; d++) row *= value->shape.dims[d];
  int64_t some = SLAB / (int64_t)size / row;
  if (some < 1) some = 1;
  if (some > rows) some = rows;
  size_t bytes = (size_t)(some * row) * size;
  void *slab = tsr__new_raw(heap, bytes);
  if (!slab) {
    job->failed = TSR_ENOMEM;
    return;
  }
  int64_t from_dims[TSR_MAX_RANK], from_start[TSR_MAX_RANK], to_start[TSR_MAX_RANK] = { 0 };
  tsr_box piece = *box;
  tsr__box_copy copy = { .dtype = (tsr_dtype)value->dtype,
                         .rank = (int)rank,
                         .from_dims = from_dims,
                         .from_start = from_start,
                         .to_dims = box->size,
                         .to_start = to_start,
                         .size = piece.size,
                         .progress = &job->progress,
                         .worker = worker };
  memcpy(from_dims, value->shape.dims, sizeof from_dims);
  memcpy(from_start, box->start, sizeof from_start);
  for (int64_t at = 0; at < rows && !job->failed; at += some) {
    int64_t count = rows - at < some ? rows - at : some;
    if (rank) {
      piece.size[0] = from_dims[0] = count;
      from_start[0] = 0;
      to_start[0] = at;
    }
    /* Reading goes in order within a position, and side by side over them: the reader must allow
     * that. */
    if (!job->read(job->user, (rank ? box->start[0] + at : 0) * row, count * row, slab)) {
      job->failed = TSR_EIO;
      break;
    }
    tsr__devices_of(value->rt)->ops->from_host(&copy, slab, value->parts[position]);
    if (tsr__progress_stops(&job->progress, worker)) break;
  }
  tsr__del(heap, slab, bytes);
}

/* A part without elements has nothing to read, and no row size to divide by. */
static void from_reading_task(void *user, int64_t position, int worker)
{
  host_job *job = user;
  if (!job->value->parts[position]) return;
  tsr_box box;
  tsr__value_box(job->value, (int)position, &box);
  for (int d = 0; d < job->value->shape.rank; d++)
    if (!box.size[d]) return;
  read_slabs(job, &box, position, worker);
}

/* -1 where all replicas of a position are other processes'. */
int tsr__value_near(const tsr__value *value, int position)
{
  if (value->parts[position]) return position;
  const tsr_mesh *mesh = value->sharding.mesh;
  unsigned free = tsr__free_axes(&value->sharding);
  int leader = tsr__mesh_group_leader(mesh, free, position);
  for (int i = 0, count = tsr__mesh_group_size(mesh, free); i < count; i++) {
    int p = leader + tsr__mesh_group_offset(mesh, free, i);
    if (value->parts[p] && tsr__holds(&value->sharding, p)) return p;
  }
  return -1;
}

/* Each part is copied from one position: the first that is addressable. Replicas hold the same
 * elements: writing them twice would be a race and a waste. */
static void to_host_task(void *user, int64_t position, int worker)
{
  host_job *job = user;
  tsr__value *value = job->value;
  int from = job->whole;
  if (from < 0) from = tsr__value_near(value, tsr__replica_leader(&value->sharding, (int)position));
  if (from != position) return;
  tsr_box box;
  tsr__box_copy copy;
  tsr__value_box(value, (int)position, &box);
  host_copy(value, &box, false, &copy);
  copy.progress = &job->progress;
  copy.worker = worker;
  tsr__devices_of(value->rt)->ops->to_host(&copy, value->parts[position], job->to);
}

/* Runs one task a position, over the workers when there is enough to do. False: cancelled. Waking
 * the workers takes longer than a few thousand elements do. */
static bool each_position(host_job *job, tsr__task_fn fn)
{
  int64_t count = tsr__shape_count(&job->value->shape);
  job->progress = (tsr__progress){ .rt = job->value->rt, .what = TSR__PROGRAM };
  if (count > TSR__AT_ONCE)
    return tsr__parallel_progress(&job->progress, job->value->part_count, fn, job);
  for (int p = 0; p < job->value->part_count; p++) fn(job, p, 0);
  return true;
}

/* False: cancelled. */
bool tsr__value_from_host(tsr__value *value, const void *data)
{
  host_job job = { .value = value, .from = data };
  return each_position(&job, from_host_task);
}

/* Returns a status and no message: the reader knows the file's name and reports it. */
tsr_status tsr__value_from_reading(tsr__value *value, tsr__reading_fn *read, void *user)
{
  host_job job = { .value = value, .read = read, .user = user };
  if (!each_position(&job, from_reading_task) || job.progress.stop) return TSR_ECANCELLED;
  return (tsr_status)job.failed;
}

/* NULL: the position is another process's, or there is none. */
const void *tsr__value_map(const tsr__value *value, int position)
{
  if (position < 0 || position >= value->part_count || !value->parts[position]) return NULL;
  return tsr__devices_of(value->rt)->ops->map(value->parts[position]);
}

void tsr__value_unmap(const tsr__value *value, int position)
{
  if (value->parts[position]) tsr__devices_of(value->rt)->ops->unmap(value->parts[position]);
}

/* Copies the parts that the host filled at one position each to their replicas, with counted
 * traffic. Elements that the host read once serve all their devices. */
void tsr__value_replicate(tsr__value *value, tsr__traffic *traffic)
{
  for (int p = 0; p < value->part_count; p++) {
    int first = tsr__value_near(value, tsr__replica_leader(&value->sharding, p));
    if (first == p || !value->parts[p]) continue;
    tsr_box box;
    tsr__value_box(value, p, &box);
    tsr__box_copy copy = tsr__part_copy(value, &box);
    tsr__devices_of(value->rt)->ops->copy(&copy, value->parts[first], value->parts[p], traffic);
  }
}

/* A replica is counted for another process's position: all have the same bits. */
int64_t tsr__value_true(const tsr__value *value, int position)
{
  tsr_box box;
  int near = tsr__value_near(value, position);
  tsr__value_box(value, position, &box);
  return tsr__devices_of(value->rt)->ops->mask_count(value->parts[near], box.size[0]);
}

/* ---- the host looks -------------------------------------------------------------------------- */

tsr_status tsr__value_here(const tsr__value *value, const char *what, tsr__error *error)
{
  for (int p = 0; p < value->part_count; p++)
    if (tsr__value_near(value, p) < 0)
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "%s: elements cannot yet be read from other processes: device %d "
                            "belongs to another process; use a mesh of this process's devices",
                            what, tsr__position_device(&value->sharding, p));
  return TSR_OK;
}

/* Into memory of the whole array, in C order; bools as bytes. Where parts lie in other processes
 * all call it, and each gets all elements. */
tsr_status tsr__value_fetch(const tsr__value *value, void *out, const char *what, tsr__error *error)
{
  tsr__sight sight;
  tsr_status status = tsr__host_sees(&value, what, &sight, error);
  host_job job = { .value = (tsr__value *)value, .to = out };
  bool cut = value->rows || tsr__used_axes(&value->sharding);
  job.whole = cut ? -1 : tsr__value_near(value, 0);
  if (!status && !each_position(&job, to_host_task)) status = tsr__cancelled(error, what);
  return tsr__host_saw(&sight, status, error);
}

/* Each part once, by its leader. */
tsr_status tsr__value_count(const tsr__value *mask, int64_t *out, const char *what,
                            tsr__error *error)
{
  int64_t total = 0;
  tsr__sight sight;
  tsr_status status = tsr__host_sees(&mask, what, &sight, error);
  for (int p = 0; p < mask->part_count && !status; p++)
    if (tsr__replica_leader(&mask->sharding, p) == p) total += tsr__value_true(mask, p);
  status = tsr__host_saw(&sight, status, error);
  if (!status) *out = total;
  return status;
}

/* The addressable position that holds a row, and its box. Boxes are looked at one by one: asking
 * for a single row is rare and never in a loop of rows. */
static int find_row_position(const tsr__value *value, int64_t row, tsr_box *box)
{
  for (int p = 0; p < value->part_count; p++) {
    tsr__value_box(value, p, box);
    if (row >= box->start[0] && row < box->start[0] + box->size[0])
      return tsr__value_near(value, p);
  }
  return -1;
}

/* Part by part in global order: each is counted whole until the wanted one lies in it, and only
 * that one is searched. `place.n` counts from 0 over all ones, or all zeros; beyond the last one
 * the row is the number of rows. */
tsr_status tsr__value_find(const tsr__value *mask, tsr__value_place place, int64_t *row,
                           const char *what, tsr__error *error)
{
  const tsr__device_ops *ops = tsr__devices_of(mask->rt)->ops;
  int64_t at = 0, rows = mask->shape.dims[0], left = place.n;
  tsr__sight sight;
  tsr_status status = tsr__host_sees(&mask, what, &sight, error);
  while (!status && at < rows) {
    tsr_box box;
    const tsr__buffer *bits = mask->parts[find_row_position(mask, at, &box)];
    int64_t here = ops->mask_count(bits, box.size[0]);
    if (!place.bit) here = box.size[0] - here;
    if (left < here) {
      at += ops->mask_find(bits, box.size[0], place.bit, left);
      break;
    }
    left -= here;
    at += box.size[0];
  }
  status = tsr__host_saw(&sight, status, error);
  if (!status) *row = at;
  return status;
}

/* One element, copied by itself. Rows that nobody has leave `out` as it is. */
tsr_status tsr__value_at(const tsr__value *value, int64_t row, void *out, const char *what,
                         tsr__error *error)
{
  static const int64_t zero[1], one[1] = { 1 };
  tsr_box box;
  tsr__sight sight;
  tsr_status status = tsr__host_sees(&value, what, &sight, error);
  int p = status ? -1 : find_row_position(value, row, &box);
  if (p < 0) return tsr__host_saw(&sight, status, error);
  int64_t start = row - box.start[0];
  tsr__box_copy copy = { .dtype = (tsr_dtype)value->dtype,
                         .rank = 1,
                         .from_dims = box.size,
                         .from_start = &start,
                         .to_dims = one,
                         .to_start = zero,
                         .size = one };
  tsr__devices_of(value->rt)->ops->to_host(&copy, value->parts[p], out);
  return tsr__host_saw(&sight, TSR_OK, error);
}
