/* The ragged all-to-all.
 *
 *   sender 0   rows  a b c d     order 1 3 0 2     b d | a c     (to 0 | to 1)
 *   sender 1   rows  e f         order 0 1         e | f
 *   receiver 0       b d e       receiver 1        a c f
 *
 * Invariants: rows arrive in order of the senders and within a sender in order of its rows. The
 * device's routines copy all rows, or pick and copy them, and count the traffic; rows that stay
 * on their device are not counted. */
#include "execute/exchange_inner.h"

/* Working memory of an exchange, one block of the heap: [from * parts + to] the start of rows in
 * the sender's order and in the receiver's buffer, and the place of the next row; bytes by part.
 * `cursor` is `place` while rows go by `dest`: each row moves it by one. Each sender has a
 * stretch of it to itself. */
typedef tsr__exchange_room room;

static size_t room_size(int parts)
{
  size_t n = (size_t)parts;
  return n * (3 * n * sizeof(int64_t) + sizeof(tsr__traffic));
}

static bool room_new(tsr_runtime *rt, int parts, room *out)
{
  size_t pairs = (size_t)parts * (size_t)parts;
  out->start = tsr__new(&rt->heap, room_size(parts));
  if (!out->start) return false;
  out->place = out->start + pairs;
  out->cursor = out->place + pairs;
  out->traffic = (tsr__traffic *)(out->cursor + pairs);
  return true;
}

/* Values or validity of a column; a sender's may be NULL, then it sends nothing. */
typedef struct move_job {
  const tsr__exchange *ask;
  const room *room;
  tsr_dtype dtype;
  tsr__buffer *const *from, *const *to;
  tsr__progress progress;
} move_job;

enum { SLICE = 1 << 16 }; /* listed rows between two checks for cancellation */

/* Copies all rows of one receiver that lie by destination already, or are listed so. Each
 * receiver has one task, so that one worker writes each buffer, in order of its addresses. */
static void pick_rows_task(void *user, int64_t to, int worker)
{
  move_job *job = user;
  const tsr__exchange *ask = job->ask;
  const tsr__device_ops *ops = tsr__devices_of(ask->rt)->ops;
  tsr__traffic *traffic = &job->room->traffic[to];
  int parts = ask->from->count;
  for (int p = 0; p < parts; p++) {
    int pair = p * parts + (int)to;
    if (!ask->counts[pair] || !job->from[p]) continue;
    int64_t start = job->room->start[pair], place = job->room->place[pair];
    tsr__box_copy copy = { .dtype = job->dtype,
                           .rank = 1,
                           .from_dims = &ask->from->rows[p],
                           .from_start = &start,
                           .to_dims = &ask->rows[to],
                           .to_start = &place,
                           .size = &ask->counts[pair] };
    if (!ask->order) {
      ops->copy(&copy, job->from[p], job->to[to], traffic);
      continue;
    }
    /* Rows that lie together are one copy, which checks for cancellation itself; listed rows are
     * picked one by one and may take long. */
    for (int64_t at = 0, all = ask->counts[pair]; at < all; at += SLICE) {
      tsr__pick pick = { job->dtype, ask->order->buffers[p], start + at,
                         all - at < SLICE ? all - at : SLICE, place + at };
      if (tsr__progress_stops(&job->progress, worker)) return;
      ops->pick(&pick, job->from[p], job->to[to], traffic);
    }
  }
}

/* Sends all rows of one sender by their destinations: each line of its memory is read once and
 * not once a receiver. Tasks of several senders write to one receiver at once. Their ranges of
 * rows are apart, but two may meet in a word of bits, which the device's routine allows. */
static void disperse_rows_task(void *user, int64_t from, int worker)
{
  move_job *job = user;
  const tsr__exchange *ask = job->ask;
  int parts = ask->from->count;
  int64_t *next = job->room->cursor + from * parts;
  memcpy(next, job->room->place + from * parts, (size_t)parts * sizeof *next);
  tsr__disperse rows = { job->dtype,     parts, ask->dest[from], next, ask->counts + from * parts,
                         &job->progress, worker };
  if (job->from[from])
    tsr__devices_of(ask->rt)->ops->disperse(&rows, job->from[from], job->to,
                                            &job->room->traffic[from]);
}

static void release_buffers(tsr__buffer **buffers, int count)
{
  for (int i = 0; i < count; i++) {
    tsr__buffer_release(buffers[i]);
    buffers[i] = NULL;
  }
}

/* Makes fresh buffers of all receivers for values of a type. Bits are set: a sender without
 * validity writes none, and its rows count as valid where another sender's nulls make validity
 * necessary. */
tsr_status tsr__exchange_receivers(const tsr__exchange *ask, tsr_dtype dtype,
                                   tsr__buffer *const *from, tsr__buffer **out, tsr__error *error)
{
  for (int p = 0; p < ask->from->count; p++) {
    size_t bytes = tsr__device_bytes(dtype, ask->rows[p]);
    out[p] = tsr__take_beside(from ? from[p] : NULL, ask->rt, ask->from->device[p], bytes, error);
    if (!out[p]) return error->status;
    if (dtype == TSR_BOOL) tsr__devices_of(ask->rt)->ops->fill(out[p], 0xFF);
  }
  return TSR_OK;
}

static tsr_status move_buffers(const tsr__exchange *ask, move_job *job, tsr__buffer **to,
                               tsr__error *error)
{
  tsr_status status = tsr__exchange_receivers(ask, job->dtype, job->from, to, error);
  if (status) return status;
  job->to = to;
  tsr__task_fn task = ask->dest ? disperse_rows_task : pick_rows_task;
  job->progress.rt = ask->rt;
  job->progress.what = "exchange";
  bool done = tsr__parallel_progress(&job->progress, ask->from->count, task, job);
  return done ? TSR_OK : tsr__cancelled(error, "exchange");
}

/* Whether a column has validity at any sender; if not, it has none afterwards either. */
static bool any_valid(const tsr__colparts *column, int parts)
{
  for (int p = 0; column->valid && p < parts; p++)
    if (column->valid[p]) return true;
  return false;
}

/* Validity moves like values, as bits, after them; a receiver of a column without nulls anywhere
 * gets none at all. */
static tsr_status exchange_column(const tsr__exchange *ask, int c, const room *r, tsr__error *error)
{
  int parts = ask->from->count;
  const tsr__colparts *column = &ask->columns[c];
  move_job job = { .ask = ask, .room = r, .dtype = column->dtype, .from = column->values };
  tsr_status status = move_buffers(ask, &job, ask->values + c * parts, error);
  if (status || !any_valid(column, parts)) return status;
  job.dtype = TSR_BOOL;
  job.from = column->valid;
  return move_buffers(ask, &job, ask->valid + c * parts, error);
}

/* Computes how many rows each receiver gets, the start of each sender's rows in its order, and
 * their place at the receiver.
 *
 *   counts  to 0  to 1      start  to 0  to 1      place  to 0  to 1
 *   p 0       2     2                0     2               0     0
 *   p 1       1     1                0     1               2     2       rows: 3, 3 */
static void plan_places(const tsr__exchange *ask, const room *r)
{
  int parts = ask->from->count;
  memset(ask->rows, 0, (size_t)parts * sizeof *ask->rows);
  for (int p = 0; p < parts; p++) {
    int64_t at = 0;
    for (int to = 0; to < parts; to++) {
      int pair = p * parts + to;
      int64_t rows = ask->counts[pair];
      r->start[pair] = at;
      r->place[pair] = ask->rows[to];
      at += rows;
      ask->rows[to] += rows;
      bool here = !ask->apart || tsr__exchange_here(ask, to);
      if (ask->moved && here && ask->from->device[p] != ask->from->device[to])
        ask->moved->rows += rows;
    }
    /* Every row goes somewhere, once: a count that forgets one would shift all that follow. */
    TSR_INVARIANT(at == ask->from->rows[p] || (ask->apart && !tsr__exchange_here(ask, p)));
  }
  /* Rows of other processes' parts are not counted here. */
  for (int to = 0; ask->apart && to < parts; to++)
    if (!tsr__exchange_here(ask, to)) ask->rows[to] = 0;
}

/* Moves column by column, so that at most one is on its way: the caller may free the sent rows
 * after this returns, not before. */
tsr_status tsr__exchange_rows(const tsr__exchange *ask, tsr__error *error)
{
  int parts = ask->from->count;
  room r;
  tsr_status status = TSR_OK;
  memset(ask->values, 0, (size_t)(parts * ask->column_count) * sizeof *ask->values);
  memset(ask->valid, 0, (size_t)(parts * ask->column_count) * sizeof *ask->valid);
  if (!room_new(ask->rt, parts, &r))
    return tsr__error_set(
        error, TSR_ENOMEM,
        "exchange: no memory for the rows that %d devices send each other; free some arrays",
        parts);
  if (ask->apart) status = tsr__exchange_tell_counts(ask, error);
  if (!status) plan_places(ask, &r);
  for (int c = 0; c < ask->column_count && !status; c++)
    status =
        ask->apart ? tsr__exchange_apart(ask, c, &r, error) : exchange_column(ask, c, &r, error);
  for (int p = 0; p < parts && ask->moved; p++) ask->moved->bytes += r.traffic[p].bytes;
  tsr__del(&ask->rt->heap, r.start, room_size(parts));
  if (status) {
    release_buffers(ask->values, parts * ask->column_count);
    release_buffers(ask->valid, parts * ask->column_count);
  }
  return status;
}
