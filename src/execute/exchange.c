/* The ragged all-to-all.
 *
 *   sender 0   rows  a b c d     order 1 3 0 2     b d | a c     (to 0 | to 1)
 *   sender 1   rows  e f         order 0 1         e | f
 *   receiver 0       b d e       receiver 1        a c f
 *
 * Invariants: rows arrive in order of the senders and within a sender in order of its rows. All of them
 * go through the device's routines that copy, or pick and copy, which count; what stays on its
 * device is not counted. */
#include "execute/exchange.h"

enum { ORDER_ROWS = 1 << 17 };

/* ---- ordering rows by destination -------------------------------------------------------------------- */

typedef struct order_job {
  const tsr__routes *routes;
  int64_t *tally; /* [piece * parts + to]: rows, then where the piece's first row for `to` goes */
} order_job;

/* The part of a piece, and the piece's number within it. */
static int part_of(const tsr__parts *parts, int64_t *piece)
{
  int p = 0;
  for (int64_t here; *piece >= (here = (parts->rows[p] + ORDER_ROWS - 1) / ORDER_ROWS); p++)
    *piece -= here;
  return p;
}

static void tally_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const order_job *job = user;
  const tsr__parts *parts = job->routes->parts;
  int64_t *tally = job->tally + task * parts->count, piece = task;
  int p = part_of(parts, &piece);
  int64_t first = piece * ORDER_ROWS, end = first + ORDER_ROWS;
  if (end > parts->rows[p]) end = parts->rows[p];
  const uint16_t *dest = job->routes->dest[p];
  for (int64_t r = first; r < end; r++) tally[dest[r]]++;
}

static void place_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const order_job *job = user;
  const tsr__parts *parts = job->routes->parts;
  int64_t *next = job->tally + task * parts->count, piece = task;
  int p = part_of(parts, &piece);
  int64_t first = piece * ORDER_ROWS, end = first + ORDER_ROWS;
  if (end > parts->rows[p]) end = parts->rows[p];
  const uint16_t *dest = job->routes->dest[p];
  uint32_t *order = job->routes->order->at[p];
  for (int64_t r = first; r < end; r++) order[next[dest[r]]++] = (uint32_t)r;
}

/* From rows a piece to places: destinations in order, and the pieces of a part within each. */
static void number_pieces(const order_job *job)
{
  const tsr__parts *parts = job->routes->parts;
  int count = parts->count;
  int64_t *tally = job->tally;
  for (int p = 0; p < count; p++) {
    int64_t pieces = (parts->rows[p] + ORDER_ROWS - 1) / ORDER_ROWS, at = 0;
    for (int to = 0; to < count; to++) {
      int64_t first = at;
      for (int64_t i = 0; i < pieces; i++) {
        int64_t rows = tally[i * count + to];
        tally[i * count + to] = at;
        at += rows;
      }
      job->routes->counts[p * count + to] = at - first;
    }
    tally += pieces * count;
  }
}

tsr_status tsr__exchange_order(tsr_runtime *rt, const tsr__routes *routes, tsr__error *error)
{
  const tsr__parts *parts = routes->parts;
  tsr_status status = tsr__index_new(rt, parts, routes->order, error);
  if (status) return status;
  int64_t pieces = 0;
  for (int p = 0; p < parts->count; p++) pieces += (parts->rows[p] + ORDER_ROWS - 1) / ORDER_ROWS;
  size_t size = (size_t)(pieces * parts->count + 1) * sizeof(int64_t);
  order_job job = { routes, tsr__new(&rt->heap, size) };
  if (!job.tally)
    status = tsr__error_set(error, TSR_ENOMEM,
                            "exchange: no memory for the counts of %lld pieces of rows for %d "
                            "devices; free some arrays",
                            (long long)pieces, parts->count);
  if (!status && !tsr__parallel_long(rt, "exchange", pieces, tally_task, &job))
    status = tsr__cancelled(error, "exchange");
  if (!status) number_pieces(&job);
  if (!status && !tsr__parallel_long(rt, "exchange", pieces, place_task, &job))
    status = tsr__cancelled(error, "exchange");
  tsr__del(&rt->heap, job.tally, size);
  if (status) tsr__index_free(rt, routes->order);
  return status;
}

/* ---- moving rows -------------------------------------------------------------------------------------- */

typedef struct move_job {
  const tsr__exchange *ask;
  const tsr__colparts *column;
  tsr__buffer **values, **valid; /* by receiver; valid[to] NULL: no nulls anywhere */
  const int64_t *start;          /* [from * parts + to]: of the rows in the sender's order */
  tsr__traffic *traffic;         /* a receiver each */
} move_job;

/* Some rows of a buffer: where they start in the sender's order and in the receiver's buffer. */
typedef struct stretch {
  int from, to;
  int64_t start, at, count;
} stretch;

static void move_stretch(const move_job *job, tsr_dtype dtype, const stretch *s,
                         const tsr__buffer *from, tsr__buffer *to)
{
  const tsr__exchange *ask = job->ask;
  const tsr__device_ops *ops = tsr__devices_of(ask->rt)->ops;
  if (ask->order) {
    const uint32_t *rows = ask->order->at[s->from] + s->start;
    ops->pick(&(tsr__pick){ dtype, rows, s->count, s->at }, from, to, &job->traffic[s->to]);
    return;
  }
  tsr__box_copy copy = { .dtype = dtype,
                         .rank = 1,
                         .from_dims = &ask->from->rows[s->from],
                         .from_start = &s->start,
                         .to_dims = &ask->rows[s->to],
                         .to_start = &s->at,
                         .size = &s->count };
  ops->copy(&copy, from, to, &job->traffic[s->to]);
}

/* All that one receiver gets of a column. Nobody else writes to its buffers. */
static void receive_task(void *user, int64_t to, int worker)
{
  (void)worker;
  const move_job *job = user;
  const tsr__colparts *column = job->column;
  int parts = job->ask->from->count;
  stretch s = { .to = (int)to };
  for (; s.from < parts; s.from++, s.at += s.count) {
    s.count = job->ask->counts[s.from * parts + to];
    s.start = job->start[s.from * parts + to];
    if (!s.count) continue;
    move_stretch(job, column->dtype, &s, column->values[s.from], job->values[to]);
    if (column->valid && column->valid[s.from])
      move_stretch(job, TSR_BOOL, &s, column->valid[s.from], job->valid[to]);
  }
}

/* Working memory of an exchange: one block of the heap. */
typedef struct room {
  int64_t *start;
  tsr__traffic *traffic;
} room;

static size_t room_size(int parts)
{
  return (size_t)parts * ((size_t)parts * sizeof(int64_t) + sizeof(tsr__traffic));
}

static bool room_new(tsr_runtime *rt, int parts, room *out)
{
  out->start = tsr__new(&rt->heap, room_size(parts));
  if (!out->start) return false;
  out->traffic = (tsr__traffic *)(out->start + (size_t)parts * (size_t)parts);
  return true;
}

static void drop(tsr__buffer **buffers, int count)
{
  for (int i = 0; i < count; i++) {
    tsr__buffer_release(buffers[i]);
    buffers[i] = NULL;
  }
}

/* Fresh buffers of all receivers for values of a type; bits are set, as those of senders without
 * validity stay so. */
static tsr_status receivers(const tsr__exchange *ask, tsr_dtype dtype, tsr__buffer **out,
                            tsr__error *error)
{
  for (int p = 0; p < ask->from->count; p++) {
    size_t bytes = tsr__device_bytes(dtype, ask->rows[p]);
    out[p] = tsr__devices_of(ask->rt)->ops->buffer(ask->rt, ask->from->device[p], bytes, error);
    if (!out[p]) return error->status;
    if (dtype == TSR_BOOL) memset(out[p]->data, 0xFF, bytes);
  }
  return TSR_OK;
}

static bool any_valid(const tsr__colparts *column, int parts)
{
  for (int p = 0; column->valid && p < parts; p++)
    if (column->valid[p]) return true;
  return false;
}

static tsr_status exchange_column(const tsr__exchange *ask, int c, room *r, tsr__error *error)
{
  int parts = ask->from->count;
  const tsr__colparts *column = &ask->columns[c];
  tsr__buffer **values = ask->values + c * parts, **valid = ask->valid + c * parts;
  move_job job = { ask, column, values, valid, r->start, r->traffic };
  tsr_status status = receivers(ask, column->dtype, values, error);
  if (!status && any_valid(column, parts)) status = receivers(ask, TSR_BOOL, valid, error);
  if (status) return status;
  if (!tsr__parallel_long(ask->rt, "exchange", parts, receive_task, &job))
    return tsr__cancelled(error, "exchange");
  return TSR_OK;
}

/* How many rows each receiver gets, and where each sender's pieces start. */
static void plan(const tsr__exchange *ask, int64_t *start)
{
  int parts = ask->from->count;
  memset(ask->rows, 0, (size_t)parts * sizeof *ask->rows);
  for (int p = 0; p < parts; p++) {
    int64_t at = 0;
    for (int to = 0; to < parts; to++) {
      int64_t rows = ask->counts[p * parts + to];
      start[p * parts + to] = at;
      at += rows;
      ask->rows[to] += rows;
      if (ask->moved && ask->from->device[p] != ask->from->device[to]) ask->moved->rows += rows;
    }
    TSR_INVARIANT(at == ask->from->rows[p]);
  }
}

tsr_status tsr__exchange_rows(const tsr__exchange *ask, tsr__error *error)
{
  int parts = ask->from->count;
  room r;
  tsr_status status = TSR_OK;
  memset(ask->values, 0, (size_t)(parts * ask->column_count) * sizeof *ask->values);
  memset(ask->valid, 0, (size_t)(parts * ask->column_count) * sizeof *ask->valid);
  if (!room_new(ask->rt, parts, &r))
    return tsr__error_set(error, TSR_ENOMEM,
                          "exchange: no memory for what %d devices send each other; free some "
                          "arrays",
                          parts);
  plan(ask, r.start);
  for (int c = 0; c < ask->column_count && !status; c++)
    status = exchange_column(ask, c, &r, error);
  for (int p = 0; p < parts && ask->moved; p++) ask->moved->bytes += r.traffic[p].bytes;
  tsr__del(&ask->rt->heap, r.start, room_size(parts));
  if (status) {
    drop(ask->values, parts * ask->column_count);
    drop(ask->valid, parts * ask->column_count);
  }
  return status;
}
