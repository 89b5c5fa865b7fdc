/* Index vectors, and columns gathered by them.
 *
 *   index   3 0 - 1        column   a b c d        out   d a . b
 *                                                  valid 1 1 0 1     '-' is TSR__NO_ROW
 *
 * Invariant: an index names rows of the part it is used on, or TSR__NO_ROW where the ask says so; a
 * value is never read for a row that is missing. */
#include "kernel/device/cpu.h"
#include "kernel/rows/pieces.h"

/* One block: rows | pointers | buffers, by part. `at` are the buffers' addresses, for the kernels
 * that loop. */
static size_t index_size(int parts)
{
  return (size_t)parts * (sizeof(int64_t) + sizeof(uint32_t *) + sizeof(tsr__buffer *));
}

tsr_status tsr__index_new(tsr_runtime *rt, const tsr__parts *parts, tsr__index *out,
                          tsr__error *error)
{
  *out = (tsr__index){ .parts = parts->count };
  out->rows = tsr__new(&rt->heap, index_size(parts->count));
  if (!out->rows)
    return tsr__error_set(error, TSR_ENOMEM,
                          "rows: no memory for the description of an index; free some arrays");
  out->at = (uint32_t **)(out->rows + parts->count);
  out->buffers = (tsr__buffer **)(out->at + parts->count);
  for (int p = 0; p < parts->count; p++) {
    size_t bytes = (size_t)parts->rows[p] * sizeof(uint32_t);
    out->buffers[p] = tsr__cpu_take(rt, parts->device[p], bytes, error);
    if (!out->buffers[p]) {
      tsr__index_free(rt, out);
      return error->status;
    }
    out->at[p] = tsr__cpu_data(out->buffers[p]);
    out->rows[p] = parts->rows[p];
  }
  return TSR_OK;
}

void tsr__index_free(tsr_runtime *rt, tsr__index *index)
{
  if (index->rows)
    for (int p = 0; p < index->parts; p++) tsr__buffer_release(index->buffers[p]);
  tsr__del(&rt->heap, index->rows, index_size(index->parts));
  *index = (tsr__index){ 0 };
}

/* ---- gathering ------------------------------------------------------------------------------- */

typedef struct gather_job {
  const tsr__gather *ask;
  tsr__parts parts; /* the index's parts */
  tsr__buffer **values, **valid;
} gather_job;

/* Which rows are there at all. A column without nulls, gathered by an index that may miss: only
 * the missing rows are null. */
static void gather_there(const uint32_t *at, int64_t n, uint64_t *to)
{
  for (int64_t i = 0; i < n; i += 64) {
    int some = n - i < 64 ? (int)(n - i) : 64;
    uint64_t bits = 0;
    for (int k = 0; k < some; k++) bits |= (uint64_t)(at[i + k] != TSR__NO_ROW) << k;
    to[i / 64] = bits;
  }
}

/* The identity: the same rows from the same place. A piece begins at a multiple of 64, so bits
 * are copied in whole words. */
static void copy_same_rows(tsr_dtype dtype, int64_t start, int64_t n, const void *from, void *to)
{
  if (dtype == TSR_BOOL) {
    memcpy((uint64_t *)to + start / 64, (const uint64_t *)from + start / 64,
           (size_t)(n + 63) / 64 * sizeof(uint64_t));
    return;
  }
  size_t size = tsr_dtype_size(dtype);
  memcpy((char *)to + (size_t)start * size, (const char *)from + (size_t)start * size,
         (size_t)n * size);
}

/* NULL for `at` takes rows in order. */
static void gather_values(const gather_job *job, const tsr__piece *piece, const uint32_t *at)
{
  tsr_dtype dtype = job->ask->from->dtype;
  const void *from = tsr__cpu_data(job->ask->from->values[piece->part]);
  char *to = tsr__cpu_data(job->values[piece->part]);
  int64_t size = (int64_t)tsr_dtype_size(dtype);
  /* Copied by size: the bits' meaning plays no part; bools are single bits. */
  if (!at) copy_same_rows(dtype, piece->start, piece->count, from, to);
  else if (dtype == TSR_BOOL)
    tsr__pick_bits(at, piece->count, from, (uint64_t *)(void *)to + piece->start / 64);
  else
    tsr__picks[tsr__size_log(size)][job->ask->may_miss](at, piece->count, from,
                                                        to + piece->start * size);
}

static void gather_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const gather_job *job = user;
  const tsr__gather *ask = job->ask;
  tsr__piece piece = tsr__piece_of(&job->parts, TSR__PIECE_ROWS, task);
  /* NULL: the identity of the whole part. */
  const uint32_t *at = ask->index->at[piece.part];
  if (at) at += piece.start;
  gather_values(job, &piece, at);
  if (!job->valid[piece.part]) return;
  uint64_t *valid = tsr__cpu_data(job->valid[piece.part]);
  const tsr__buffer *from = ask->from->valid ? ask->from->valid[piece.part] : NULL;
  if (!at) copy_same_rows(TSR_BOOL, piece.start, piece.count, tsr__cpu_data(from), valid);
  else if (from) tsr__pick_bits(at, piece.count, tsr__cpu_data(from), valid + piece.start / 64);
  else gather_there(at, piece.count, valid + piece.start / 64);
}

static void drop_gathered(int parts, tsr__buffer **buffers)
{
  for (int p = 0; p < parts; p++) {
    tsr__buffer_release(buffers[p]);
    buffers[p] = NULL;
  }
}

/* A buffer a part; validity where a row may be null or missing. */
static tsr_status gather_room(tsr_runtime *rt, const gather_job *job, tsr__error *error)
{
  const tsr__gather *ask = job->ask;
  for (int p = 0; p < ask->parts->count; p++) {
    int64_t rows = ask->index->rows[p];
    int device = ask->parts->device[p];
    /* The identity misses nothing. */
    bool nulls = (ask->may_miss && ask->index->at[p]) || (ask->from->valid && ask->from->valid[p]);
    job->values[p] = tsr__cpu_take(rt, device, tsr__device_bytes(ask->from->dtype, rows), error);
    if (!job->values[p]) return error->status;
    if (!nulls) continue;
    job->valid[p] = tsr__cpu_take(rt, device, tsr__device_bytes(TSR_BOOL, rows), error);
    if (!job->valid[p]) return error->status;
  }
  return TSR_OK;
}

tsr_status tsr__gather_column(tsr_runtime *rt, const tsr__gather *ask, tsr__buffer **values,
                              tsr__buffer **valid, tsr__error *error)
{
  int count = ask->parts->count;
  gather_job job = { ask, { count, ask->parts->device, ask->index->rows }, values, valid };
  memset(values, 0, (size_t)count * sizeof *values);
  memset(valid, 0, (size_t)count * sizeof *valid);
  tsr_status status = gather_room(rt, &job, error);
  if (!status && !tsr__parallel_long(rt, "rows", tsr__piece_count(&job.parts, TSR__PIECE_ROWS),
                                     gather_task, &job))
    status = tsr__cancelled(error, "rows");
  if (status) {
    drop_gathered(count, values);
    drop_gathered(count, valid);
  }
  return status;
}
