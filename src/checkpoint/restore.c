/* Reading what is needed of a step.
 *
 *   piece  | block | block | block |          a block is read once, its checksum compared, and each
 *              |       \                      run of elements in it goes to wherever it is needed
 *   part 0  <--+        \--> part 1, part 1's replica
 *
 *   piece [4:8, 0:6] in rows of 6       part [2:6, 3:6]      what both have: [4:6, 3:6], in the
 *       4 | . . . x x x |                 2 | - - - |        piece's memory two runs of 3
 *       5 | . . . x x x |                 ..
 *
 * Blocks that nobody here needs are not read. Where all of a block goes to one place it is read
 * there.
 *
 * Invariant: nothing but elements of checked blocks is given as read, and nothing outside of the
 * parts is written, whatever the files hold. */
#include "checkpoint/checkpoint_room.h"
#include "io/file/files.h"
#include "io/file/system.h"
#include "kernel/device/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where elements of an entry go: a dense box in memory. The box of a part, or of all of the array
 * for bytes that go to the host. */
typedef struct place {
  tsr_box box;
  char *to;
  int position;         /* of the value */
  tsr__staging staging; /* whose memory `to` is; closed: it is other memory */
} place;

/* One of the arrays that are restored. `place`: by part that lies here, or one for all of it in the
 * caller's memory; none to verify. */
typedef struct target {
  const tsr__listed *entry;
  const tsr__restoring *ask;
  int64_t size; /* bytes of an element in the file */
  place *place;
  int count;
  bool packed; /* bools: places are bytes of our own, which become bits at the end */
} target;

typedef struct read_task {
  int target;
  int64_t piece, block;
} read_task;

/* What a worker has: a block, and the file it read last. By worker, so nothing of it is locked.
 * Blocks of a piece follow each other as tasks, so a worker mostly reads on in the file that it
 * has. */
typedef struct reader {
  char *block;
  int fd, file; /* -1: none */
} reader;

/* Lives for one call. Workers write to their reader, to the places of their block, and to what is
 * atomic here. */
typedef struct read_job {
  const tsr__restore_ask *ask;
  tsr__heap *heap;
  target *target;
  read_task *task;
  size_t task_count, task_room;
  reader *reader;
  int workers;
  tsr__progress progress;
  _Atomic int64_t bytes;
  _Atomic bool failed;
  tsr__error error;
} read_job;

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory to restore the step; free some arrays");
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Elements of a piece, from .. end in its order, that a place has.
 *
 *   piece [4:8, 0:6]     below 6, 1     at = 6 * (i - 4) + j             elements of the block:
 *   place [2:6, 3:6]     beside 3, 1    place_at = 3 * (i - 2) + j - 3   from .. end of the piece
 */
typedef struct runs {
  int rank;
  const tsr_box *piece, *place;
  int64_t below[TSR_MAX_RANK];  /* elements of the piece below an index of a dim */
  int64_t beside[TSR_MAX_RANK]; /* the same of the place */
  bool whole[TSR_MAX_RANK];     /* both have the same of the dims below */
  int64_t from, end;
  int64_t size;
  const char *block; /* elements from `from` on; NULL: only looked for */
  char *to;
  int64_t enough;        /* runs after which nobody looks on */
  int64_t count, length; /* found: runs, and how long the first is */
  char *first_to;
} runs;

/* A run may begin before the block or end behind it, where blocks cut a row. */
static void take_run(runs *r, int64_t at, int64_t end, int64_t place_at)
{
  if (at < r->from) {
    place_at += r->from - at;
    at = r->from;
  }
  if (end > r->end) end = r->end;
  if (at >= end) return;
  char *to = r->to + place_at * r->size;
  if (!r->count++) {
    r->length = end - at;
    r->first_to = to;
  }
  if (r->block) memcpy(to, r->block + (at - r->from) * r->size, (size_t)((end - at) * r->size));
}

/* Indices of dim `d` and below, at `at` of the piece and `place_at` of the place. As deep as the
 * rank. With `enough` it stops early: to know whether a block is needed one run will do. */
static void walk_runs(runs *r, int d, int64_t at, int64_t place_at)
{
  if (d == r->rank) {
    take_run(r, at, at + 1, place_at);
    return;
  }
  const tsr_box *piece = r->piece, *other = r->place;
  int64_t start = piece->start[d] > other->start[d] ? piece->start[d] : other->start[d];
  int64_t piece_end = piece->start[d] + piece->size[d], end = other->start[d] + other->size[d];
  if (piece_end < end) end = piece_end;
  /* Only indices whose elements are among those that are asked for. Rounded down and up: an index
   * whose elements lie only partly in the block is walked into. */
  int64_t low = (r->from - at) / r->below[d] + piece->start[d];
  int64_t high = (r->end - at + r->below[d] - 1) / r->below[d] + piece->start[d];
  if (r->from > at && low > start) start = low;
  if (high < end) end = high;
  if (start >= end) return;
  at += (start - piece->start[d]) * r->below[d];
  place_at += (start - other->start[d]) * r->beside[d];
  /* Where both have all of what is below, it is one run. */
  if (r->below[d] == r->beside[d] && r->whole[d]) {
    take_run(r, at, at + (end - start) * r->below[d], place_at);
    return;
  }
  for (int64_t i = start; i < end && r->count < r->enough;
       i++, at += r->below[d], place_at += r->beside[d])
    walk_runs(r, d + 1, at, place_at);
}

/* Elements of a piece. */
typedef struct stretch {
  const tsr__extent *piece;
  int64_t from, end;
} stretch;

/* Finds up to `enough` runs of what a place has of them; with `block` copies all. */
static runs find_runs(const target *t, const stretch *of, const place *p, int64_t enough,
                      const char *block)
{
  const tsr__extent *piece = of->piece;
  runs r = { .rank = t->entry->shape.rank,
             .piece = &piece->box,
             .place = &p->box,
             .from = of->from,
             .end = of->end,
             .size = t->size,
             .block = block,
             .enough = block ? INT64_MAX : enough,
             .to = p->to };
  int64_t below = 1, beside = 1;
  bool whole = true;
  for (int d = r.rank - 1; d >= 0; d--) {
    r.below[d] = below;
    r.beside[d] = beside;
    r.whole[d] = whole;
    below *= piece->box.size[d];
    beside *= p->box.size[d];
    whole = whole && piece->box.start[d] == p->box.start[d] && piece->box.size[d] == p->box.size[d];
  }
  /* Of an empty box there is nothing, and nothing to divide by. */
  if (below && beside) walk_runs(&r, 0, 0, 0);
  return r;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What a thread cannot return is told by the job; the first that fails says why. */
static void job_fails(read_job *job, const tsr__error *error)
{
  if (!atomic_exchange(&job->failed, true)) job->error = *error;
}

/* Has the reader's file be that one, which must be as long as the catalog says. Without blocking,
 * as what has a data file's name may be a pipe. Another length than the catalog says is told before
 * a byte is read. */
static tsr_status open_file(read_job *job, reader *r, int file, tsr__error *error)
{
  const tsr__data_file *data = &job->ask->catalog->file[file];
  char path[TSR__CHECKPOINT_PATH];
  struct stat info;
  if (r->file == file) return TSR_OK;
  if (r->fd >= 0) tsr__sys_close(r->fd);
  r->file = -1;
  int length = snprintf(path, sizeof path, "%s/%s", job->ask->folder, data->name);
  if (length < 0 || length >= (int)sizeof path)
    return tsr__file_error(job->ask->folder, "open", ENAMETOOLONG, error);
  r->fd = tsr__sys_open(path, O_RDONLY | O_NONBLOCK);
  if (r->fd < 0) return tsr__file_error(path, "open", errno, error);
  if (fstat(r->fd, &info)) return tsr__file_error(path, "examine", errno, error);
  if (!S_ISREG(info.st_mode) || (int64_t)info.st_size != data->bytes)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: has %lld bytes, expected %lld as it was saved: the file was changed",
                          path, (long long)info.st_size, (long long)data->bytes);
  r->file = file;
  return TSR_OK;
}

/* Reads a block to `to` and compares its checksum. */
static tsr_status read_block(read_job *job, reader *r, const read_task *task, char *to,
                             tsr__error *error)
{
  const tsr__extent *piece = &job->ask->catalog->piece[task->piece];
  int64_t block = task->block, at = block * TSR__CHECKPOINT_BLOCK, length = piece->bytes - at;
  if (length > TSR__CHECKPOINT_BLOCK) length = TSR__CHECKPOINT_BLOCK;
  if (open_file(job, r, piece->file, error)) return error->status;
  const char *name = job->ask->catalog->file[piece->file].name;
  int64_t got = tsr__sys_read_all(r->fd, to, (size_t)length, piece->at + at);
  if (got < 0) return tsr__file_error(name, "read", errno, error);
  if (got < length)
    return tsr__file_shrunk(name, piece->at + at + got, piece->at + at + length, error);
  atomic_fetch_add_explicit(&job->bytes, length, memory_order_relaxed);
  if (tsr__crc32c(0, to, (size_t)length) == job->ask->catalog->sum[piece->sum + block])
    return TSR_OK;
  return tsr__error_set(
      error, TSR_EPARSE,
      "%s: bytes %lld to %lld have another checksum than in the catalog: the file was changed",
      name, (long long)(piece->at + at), (long long)(piece->at + at + length));
}

/* A block is a megabyte, which sizes of elements divide. */
static stretch stretch_of(const target *t, const tsr__extent *piece, int64_t block)
{
  int64_t each = TSR__CHECKPOINT_BLOCK / t->size, count = piece->bytes / t->size;
  int64_t from = block * each, end = count < from + each ? count : from + each;
  return (stretch){ piece, from, end };
}

/* Two passes over the places, the first to count: with a single one that takes all of the block in
 * one run, the file is read right there and nothing is copied. What was read there and has a wrong
 * checksum is no harm: nobody has seen the value. */
static void read_one(void *user, int64_t at, int worker)
{
  read_job *job = user;
  const read_task *task = &job->task[at];
  const target *t = &job->target[task->target];
  const tsr__extent *piece = &job->ask->catalog->piece[task->piece];
  reader *r = &job->reader[worker];
  tsr__error error = { .status = TSR_OK };
  stretch of = stretch_of(t, piece, task->block);
  char *direct = NULL;
  int users = 0;
  if (job->failed) return;
  for (int p = 0; p < t->count; p++) {
    runs found = find_runs(t, &of, &t->place[p], 1, NULL);
    users += found.count > 0;
    if (found.count && found.length == of.end - of.from) direct = found.first_to;
  }
  bool once = users == 1 && direct;
  if (!once && !r->block) r->block = tsr__new_raw(job->heap, TSR__CHECKPOINT_BLOCK);
  if (!once && !r->block) no_memory(&error);
  else read_block(job, r, task, once ? direct : r->block, &error);
  for (int p = 0; p < t->count && !once && !error.status; p++)
    find_runs(t, &of, &t->place[p], 0, r->block);
  if (error.status) job_fails(job, &error);
}

/* ---- what is to be read ---------------------------------------------------------------------- */

/* The blocks of a piece that some place of the target has a part of. Looked for block by block
 * before anything is read, so that the work is known and shared evenly. */
static bool add_tasks(read_job *job, int at, int64_t index)
{
  const target *t = &job->target[at];
  const tsr__extent *piece = &job->ask->catalog->piece[index];
  for (int64_t b = 0; b < tsr__block_count(piece->bytes); b++) {
    stretch of = stretch_of(t, piece, b);
    bool wanted = job->ask->verify;
    for (int p = 0; p < t->count && !wanted; p++)
      wanted = find_runs(t, &of, &t->place[p], 1, NULL).count > 0;
    if (!wanted) continue;
    if (!tsr__grow(job->heap, (void **)&job->task, &job->task_room, job->task_count + 1,
                   sizeof *job->task))
      return false;
    job->task[job->task_count++] = (read_task){ at, index, b };
  }
  return true;
}

/* A place is the staging buffer of a part, open until end_target. Bools have memory of a byte each
 * instead, and become bits at the end. Elements that were not saved, as the saved shape is another,
 * are 0. */
static bool add_place(read_job *job, target *t, int position, const tsr_box *box)
{
  place *p = &t->place[t->count];
  int64_t bytes = tsr__box_count(box, t->entry->shape.rank) * t->size;
  *p = (place){ .box = *box, .position = position };
  if (t->packed) p->to = tsr__new(job->heap, (size_t)bytes + 1);
  else if (!tsr__staging_open(t->ask->value->parts[position], &p->staging, &job->error))
    p->to = p->staging.memory;
  if (!p->to) return false;
  if (!t->packed && !tsr__shape_same(&t->ask->value->shape, &t->entry->shape))
    memset(p->to, 0, (size_t)bytes);
  t->count++;
  return true;
}

/* A value has a place for each part that lies here and has elements; bytes to the host have one;
 * what is only verified has none, and all of its blocks are read. */
static bool make_target(read_job *job, int at)
{
  target *t = &job->target[at];
  const tsr__restoring *ask = &job->ask->target[at];
  tsr__value *value = ask->value;
  *t = (target){ .entry = ask->entry,
                 .ask = ask,
                 .size = (int64_t)tsr_dtype_size((tsr_dtype)ask->entry->dtype),
                 .packed = value && value->dtype == TSR_BOOL };
  int parts = value ? value->part_count : 1;
  t->place = tsr__new(job->heap, (size_t)parts * sizeof *t->place);
  if (!t->place) return false;
  if (!value && !job->ask->verify) {
    memcpy(t->place->box.size, ask->entry->shape.dims, sizeof t->place->box.size);
    t->place->to = ask->data;
    t->count = 1;
  }
  for (int p = 0; value && p < parts; p++) {
    tsr_box box;
    /* Of a value that is a sum of parts the first alone has the elements. */
    if (!value->parts[p] || !tsr__holds(&value->sharding, p)) continue;
    tsr__value_box(value, p, &box);
    if (tsr__box_count(&box, value->shape.rank) && !add_place(job, t, p, &box)) return false;
  }
  for (int64_t i = 0; i < ask->entry->count; i++)
    if (!add_tasks(job, at, ask->entry->first + i)) return false;
  return true;
}

/* Bytes of bools become the bits of their parts. By the device's own copy: how it packs bits is not
 * known here. */
static void pack(const target *t, const place *p)
{
  static const int64_t zero[TSR_MAX_RANK];
  const tsr__value *value = t->ask->value;
  tsr__box_copy copy = { .dtype = (tsr_dtype)value->dtype,
                         .rank = value->shape.rank,
                         .from_dims = p->box.size,
                         .from_start = zero,
                         .to_dims = p->box.size,
                         .to_start = zero,
                         .size = p->box.size };
  tsr__devices_of(value->rt)->ops->from_host(&copy, p->to, value->parts[p->position]);
}

/* Ends a target, also one that is half made: the places that were never begun are zeros. After a
 * failure the devices get nothing, and the caller releases the values. */
static void end_target(read_job *job, target *t)
{
  int64_t rank = t->entry ? t->entry->shape.rank : 0;
  for (int i = 0; i < t->count && t->ask->value; i++) {
    place *p = &t->place[i];
    int64_t bytes = tsr__box_count(&p->box, (int)rank) * t->size;
    if (t->packed && !job->failed) pack(t, p);
    if (t->packed) tsr__del(job->heap, p->to, (size_t)bytes + 1);
    else if (job->failed) tsr__staging_drop(&p->staging);
    else tsr__staging_give(&p->staging);
  }
  int parts = t->ask && t->ask->value ? t->ask->value->part_count : 1;
  tsr__del(job->heap, t->place, (size_t)parts * sizeof *t->place);
}

/* ---- headers --------------------------------------------------------------------------------- */

/* What other tools read: it is as it was written, and nothing but tensors follows. By the calling
 * thread, with the first worker's reader, which is idle by then. The length is bounded by
 * catalog_read.c. */
static tsr_status check_header(read_job *job, int file, tsr__error *error)
{
  const tsr__data_file *data = &job->ask->catalog->file[file];
  reader *r = &job->reader[0];
  if (open_file(job, r, file, error)) return error->status;
  char *header = tsr__new_raw(job->heap, (size_t)data->header + 1);
  if (!header) return no_memory(error);
  int64_t got = tsr__sys_read_all(r->fd, header, (size_t)data->header, 0);
  if (got < 0) tsr__file_error(data->name, "read", errno, error);
  else if (got < data->header) tsr__file_shrunk(data->name, got, data->bytes, error);
  else if (tsr__crc32c(0, header, (size_t)got) != data->sum)
    tsr__error_set(error, TSR_EPARSE,
                   "%s: the header has another checksum than in the catalog: the file was changed",
                   data->name);
  tsr__del(job->heap, header, (size_t)data->header + 1);
  return error->status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static tsr_status open_job(read_job *job, tsr__error *error)
{
  job->workers = tsr__worker_count(job->ask->rt);
  job->target = tsr__new(job->heap, (size_t)(job->ask->count + 1) * sizeof *job->target);
  job->reader = tsr__new(job->heap, (size_t)job->workers * sizeof *job->reader);
  for (int w = 0; job->reader && w < job->workers; w++)
    job->reader[w].fd = job->reader[w].file = -1;
  bool good = job->target && job->reader;
  for (int i = 0; i < job->ask->count && good; i++) good = make_target(job, i);
  /* A staging buffer says itself why it could not be opened. */
  if (!good && !job->error.status) no_memory(&job->error);
  if (!good) *error = job->error;
  return error->status;
}

static void close_job(read_job *job)
{
  for (int i = 0; job->target && i < job->ask->count; i++) end_target(job, &job->target[i]);
  for (int w = 0; job->reader && w < job->workers; w++) {
    if (job->reader[w].fd >= 0) tsr__sys_close(job->reader[w].fd);
    tsr__del(job->heap, job->reader[w].block, TSR__CHECKPOINT_BLOCK);
  }
  tsr__del(job->heap, job->target, (size_t)(job->ask->count + 1) * sizeof *job->target);
  tsr__del(job->heap, job->reader, (size_t)job->workers * sizeof *job->reader);
  tsr__del(job->heap, job->task, job->task_room * sizeof *job->task);
}

/* On an error parts hold anything: the caller releases its values. */
tsr_status tsr__restore(const tsr__restore_ask *ask, tsr__error *error)
{
  read_job job = { .ask = ask,
                   .heap = &ask->rt->heap,
                   .progress = { .rt = ask->rt, .what = TSR__CHECKPOINT } };
  if (!open_job(&job, error) &&
      !tsr__parallel_progress(&job.progress, (int64_t)job.task_count, read_one, &job))
    tsr__cancelled(error, TSR__CHECKPOINT);
  if (!error->status && job.failed) *error = job.error;
  for (size_t f = 0; ask->verify && f < ask->catalog->files && !error->status; f++)
    check_header(&job, (int)f, error);
  job.failed = error->status != TSR_OK;
  close_job(&job);
  if (ask->read) *ask->read += job.bytes;
  return error->status;
}
