/* A process's block of an array, between host memory and the parts on its devices:
 *
 *    block in host memory       | piece 0 | piece 2 |       of rows cut in four, of which this
 *    parts on devices             |         |               process has the first and the third
 *    the array                  | piece 0 | (another's) | piece 2 | (another's) |
 *
 * Where a piece begins in the block is the sum of those before it that are this process's. Sizes
 * are those of the value's own boxes, so that ragged rows need no case. */
#include "array/process_meeting.h"

#include "topology/portions.h"

/* Each part has its place in the block once, found before any worker starts. */
typedef struct block_job {
  const tsr__host_block *block;
  bool to_value;
  int64_t (*starts)[TSR_MAX_RANK]; /* [position] in the block */
  tsr__progress progress;
} block_job;

/* Elements along a dim in the pieces of this process below one of them. Dims have few pieces, so
 * summing anew for each costs nothing beside the copy. */
static int64_t start_in(const tsr__value *value, const tsr__portions *pieces, int64_t piece)
{
  int own = tsr__topology_of(value->rt)->process_index;
  int64_t total = 0;
  for (int64_t i = 0; i < piece; i++) {
    tsr_box box;
    if (!tsr__portions_has(pieces, own, i)) continue;
    tsr__value_box(value, pieces->holder[i], &box);
    total += box.size[pieces->dim];
  }
  return total;
}

/* Where the parts of a dim begin in the block. */
static bool find_starts(block_job *job, int dim)
{
  const tsr__value *value = job->block->value;
  bool counted = value->sharding.mesh && !(job->block->whole >> dim & 1);
  tsr__portions pieces;
  if (counted && !tsr__portions_open(&value->sharding, dim, &pieces)) return false;
  for (int p = 0; p < value->part_count; p++) {
    tsr_box box;
    if (!value->parts[p]) continue;
    tsr__value_box(value, p, &box);
    job->starts[p][dim] = box.start[dim];
    if (counted)
      job->starts[p][dim] = start_in(value, &pieces, tsr__dim_index(&value->sharding, dim, p));
  }
  if (counted) tsr__portions_close(&pieces);
  return true;
}

/* Replicas are filled each by itself; of those that are here, one is read. */
static bool takes_part(const block_job *job, int position)
{
  const tsr__value *value = job->block->value;
  if (!value->parts[position]) return false;
  int leader = tsr__replica_leader(&value->sharding, position);
  return job->to_value || tsr__value_near(value, leader) == position;
}

static void copy_part(void *user, int64_t position, int worker)
{
  block_job *job = user;
  const tsr__host_block *block = job->block;
  tsr__value *value = block->value;
  if (!takes_part(job, (int)position)) return;
  tsr_box box;
  tsr__value_box(value, (int)position, &box);
  tsr__box_copy copy = tsr__part_copy(value, &box);
  copy.progress = &job->progress;
  copy.worker = worker;
  /* A copy knows two boxes: the part's is all of it, and that of the host is where it stands in the
   * block. */
  *(job->to_value ? &copy.from_dims : &copy.to_dims) = block->shape->dims;
  *(job->to_value ? &copy.from_start : &copy.to_start) = job->starts[position];
  const tsr__device_ops *ops = tsr__devices_of(value->rt)->ops;
  if (job->to_value) ops->from_host(&copy, block->data, value->parts[position]);
  else ops->to_host(&copy, value->parts[position], block->data);
}

/* Waking the workers takes longer than a few thousand elements do. */
static bool copy_parts(block_job *job)
{
  const tsr__value *value = job->block->value;
  job->progress = (tsr__progress){ .rt = value->rt, .what = TSR__PROGRAM };
  if (tsr__shape_count(job->block->shape) > TSR__AT_ONCE)
    return tsr__parallel_progress(&job->progress, value->part_count, copy_part, job);
  for (int p = 0; p < value->part_count; p++) copy_part(job, p, 0);
  return true;
}

/* Dim by dim it is found where each part begins in the block; the tasks only read that. */
static tsr_status copy_block(const tsr__host_block *block, bool to_value, tsr__error *error)
{
  tsr__heap *heap = &block->value->rt->heap;
  block_job job = { .block = block, .to_value = to_value };
  size_t bytes = (size_t)block->value->part_count * sizeof *job.starts;
  bool found = true, done = true;
  job.starts = tsr__new(heap, bytes);
  if (!job.starts)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the positions of shards");
  for (int d = 0; d < block->value->shape.rank && found; d++) found = find_starts(&job, d);
  if (found) done = copy_parts(&job);
  tsr__del(heap, job.starts, bytes);
  if (!found) return tsr__error_set(error, TSR_ENOMEM, "no memory for the positions of shards");
  return done ? TSR_OK : tsr__cancelled(error, TSR__PROGRAM);
}

tsr_status tsr__block_to_value(const tsr__host_block *block, tsr__error *error)
{
  return copy_block(block, true, error);
}

tsr_status tsr__block_from_value(const tsr__host_block *block, tsr__error *error)
{
  return copy_block(block, false, error);
}

/* The others say where their parts lie, and wait until they were read. */
tsr_status tsr__fetch_at(const tsr__value *value, void *out, tsr__error *error)
{
  tsr__sight sight = { .rt = NULL };
  tsr_status status = tsr__see(value->rt, &value, 1, &sight, error);
  const tsr__host_block all = { (tsr__value *)(uintptr_t)value, out, &value->shape, ~0u };
  if (!status && out) status = tsr__block_from_value(&all, error);
  return tsr__unsee(&sight, status, error);
}
