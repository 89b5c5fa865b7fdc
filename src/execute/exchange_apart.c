/* The ragged all-to-all over several processes: nothing is sent, every process reads.
 *
 *   sender     rows  a b c d     by destination   b d | a c      in buffers that peers can open
 *   process 0  part 0 <- b d, and such rows of the other senders
 *   process 1  part 1 <- a c ...
 *
 * Each process puts the rows of its senders in order of their destinations, unless they lie so
 * already, and publishes their handles. All processes wait for each other, read the rows of their
 * own parts, and wait again before any memory is given back.
 *
 * Invariant: all processes know which columns of all senders have validity before any is read,
 * so that they agree. */
#include "execute/exchange_inner.h"

#define NOWHERE UINT64_MAX

bool tsr__exchange_here(const tsr__exchange *ask, int part)
{
  return tsr__device_local(tsr__topology_of(ask->rt), ask->from->device[part]);
}

static int process_of_part(const tsr__exchange *ask, int part)
{
  return tsr__device_process(tsr__topology_of(ask->rt), ask->from->device[part]);
}

static tsr_status no_memory_for_messages(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "exchange: no memory for the messages between processes; free some arrays");
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* Publishes `each` bytes about every part of this process and fills in those of the others' parts:
 * `all` is by part. Parts are in one order on all processes, so nothing says which is whose.
 *
 *   all       part   0  1 | 2  3       this process has 0 and 1: they go out, one behind the other,
 *   mine             0  1              and 2 and 3 are read out of the note of theirs */
static tsr_status tell_parts(const tsr__exchange *ask, void *all, size_t each, tsr__error *error)
{
  tsr__peers *peers = tsr__peers_of(ask->rt);
  tsr__heap *heap = &ask->rt->heap;
  size_t parts = (size_t)ask->from->count, count = (size_t)tsr__peers_count(peers);
  size_t bytes = parts * each + count * (sizeof(tsr__peers_note) + sizeof(size_t));
  tsr__peers_note *note = tsr__new(heap, bytes);
  if (!note) return no_memory_for_messages(error);
  /* One block: notes | next | the bytes that this process publishes. */
  size_t *next = (size_t *)(note + count), size = 0;
  char *mine = (char *)(next + count), *to = all;
  for (size_t p = 0; p < parts; p++) {
    if (!tsr__exchange_here(ask, (int)p)) continue;
    memcpy(mine + size, to + p * each, each);
    size += each;
  }
  tsr_status status = tsr__peers_gather(peers, mine, size, note, error);
  for (size_t p = 0; p < parts && !status; p++) {
    int process = process_of_part(ask, (int)p);
    if (next[process] + each > note[process].size)
      status = tsr__error_set(
          error, TSR_EPEER,
          "exchange: process %d published fewer row counts than this process expects", process);
    else memcpy(to + p * each, (const char *)note[process].data + next[process], each);
    next[process] += each;
  }
  tsr__del(heap, note, bytes);
  return status;
}

tsr_status tsr__exchange_tell_counts(const tsr__exchange *ask, tsr__error *error)
{
  return tell_parts(ask, ask->counts, (size_t)ask->from->count * sizeof *ask->counts, error);
}

/* ---- by destination -------------------------------------------------------------------------- */

/* Handles of a sender's values and validity of a column; NOWHERE: the sender has none. */
typedef struct place {
  uint64_t handle[2];
} place;

/* A column on its way; lists are by part. */
typedef struct crossing {
  const tsr__exchange *ask;
  const tsr__exchange_room *room;
  const tsr__colparts *column;
  place *place;
  /* values, validity: sorted by destination; as this process reads them */
  tsr__buffer **sent[2], **far[2];
  tsr__buffer **same; /* [sender]: a list of destinations, all the same buffer */
  tsr__buffer **to[2];
  void *block;
  size_t size;
  tsr__progress progress;
} crossing;

/* `same` is a square: each sender has a list of as many destinations as there are parts, all of
 * them one buffer.
 *
 *    place[p] | sent[2][p] | far[2][p] | same[p][p]      of p parts */
static tsr_status crossing_new(crossing *c, tsr__error *error)
{
  size_t parts = (size_t)c->ask->from->count;
  c->size = parts * (sizeof(place) + (4 + parts) * sizeof(tsr__buffer *));
  c->block = tsr__new(&c->ask->rt->heap, c->size);
  if (!c->block) return no_memory_for_messages(error);
  c->place = c->block;
  c->sent[0] = (tsr__buffer **)(c->place + parts);
  c->sent[1] = c->sent[0] + parts;
  c->far[0] = c->sent[1] + parts;
  c->far[1] = c->far[0] + parts;
  c->same = c->far[1] + parts;
  return TSR_OK;
}

static void crossing_free(crossing *c)
{
  for (int p = 0; c->block && p < c->ask->from->count; p++)
    for (int i = 0; i < 2; i++) {
      tsr__buffer_release(c->far[i][p]);
      tsr__buffer_release(c->sent[i][p]);
    }
  if (c->block) tsr__del(&c->ask->rt->heap, c->block, c->size);
}

static tsr_dtype dtype_of_column(const crossing *c, int what)
{
  return what ? TSR_BOOL : c->column->dtype;
}

/* The buffer of a sender's values or validity; NULL for a sender without nulls, though others
 * may have some. */
static tsr__buffer *source_of(const crossing *c, int what, int part)
{
  tsr__buffer *const *from = what ? c->column->valid : c->column->values;
  return from ? from[part] : NULL;
}

/* Makes buffers for the rows that this process sends, and their handles; bits are set, as rows by
 * destination only clear them. A buffer whose rows lie by destination, and that peers can open, is
 * held instead: a reference keeps it while peers read. */
static tsr_status make_sent(crossing *c, tsr__error *error)
{
  const tsr__exchange *ask = c->ask;
  const tsr__device_ops *ops = tsr__devices_of(ask->rt)->ops;
  for (int i = 0; i < 2 * ask->from->count; i++) {
    int what = i % 2, p = i / 2;
    tsr__buffer *from = source_of(c, what, p);
    uint64_t *handle = &c->place[p].handle[what];
    *handle = NOWHERE;
    if (!from || !tsr__exchange_here(ask, p)) continue;
    if (!ask->dest && !ask->order && ops->share(from, handle)) {
      tsr__buffer_hold(from);
      c->sent[what][p] = from;
      continue;
    }
    size_t bytes = tsr__device_bytes(dtype_of_column(c, what), ask->from->rows[p]);
    c->sent[what][p] = ops->take(ask->rt, ask->from->device[p], bytes, error);
    if (!c->sent[what][p]) return error->status;
    ops->share(c->sent[what][p], handle);
    if (dtype_of_column(c, what) == TSR_BOOL) ops->fill(c->sent[what][p], 0xFF);
  }
  return TSR_OK;
}

/* Sorts a sender's rows by `dest`. All destinations are one buffer, each with a stretch of it.
 * Nothing crosses devices here, so the routine's counts are thrown away. */
static void put_rows_by_dest(crossing *c, int what, int part, int worker)
{
  const tsr__exchange *ask = c->ask;
  int parts = ask->from->count;
  int64_t *next = c->room->cursor + part * parts;
  tsr__buffer **same = c->same + part * parts;
  tsr__traffic none = { 0 };
  memcpy(next, c->room->start + part * parts, (size_t)parts * sizeof *next);
  for (int to = 0; to < parts; to++) same[to] = c->sent[what][part];
  tsr__disperse rows = { dtype_of_column(c, what),   parts,        ask->dest[part], next,
                         ask->counts + part * parts, &c->progress, worker };
  tsr__devices_of(ask->rt)->ops->disperse(&rows, source_of(c, what, part), same, &none);
}

enum { SLICE = 1 << 16 }; /* rows between two checks for cancellation */

static void put_rows_by_order(crossing *c, int what, int part, int worker)
{
  const tsr__exchange *ask = c->ask;
  tsr__traffic none = { 0 };
  for (int64_t at = 0, rows = ask->from->rows[part]; at < rows; at += SLICE) {
    tsr__pick pick = { dtype_of_column(c, what), ask->order->buffers[part], at,
                       rows - at < SLICE ? rows - at : SLICE, at };
    if (tsr__progress_stops(&c->progress, worker)) return;
    tsr__devices_of(ask->rt)->ops->pick(&pick, source_of(c, what, part), c->sent[what][part],
                                        &none);
  }
}

/* A run of rows from one buffer to another. */
typedef struct strip {
  tsr__buffer *read, *write;
  int64_t from_rows, from, to_rows, to, count;
} strip;

static void copy_strip(const crossing *c, int what, const strip *s, tsr__traffic *traffic)
{
  tsr__box_copy copy = { .dtype = dtype_of_column(c, what),
                         .rank = 1,
                         .from_dims = &s->from_rows,
                         .from_start = &s->from,
                         .to_dims = &s->to_rows,
                         .to_start = &s->to,
                         .size = &s->count };
  tsr__devices_of(c->ask->rt)->ops->copy(&copy, s->read, s->write, traffic);
}

/* One task for each sender: values and validity use the same working memory in turn. */
static void send_rows_task(void *user, int64_t task, int worker)
{
  crossing *c = user;
  const tsr__exchange *ask = c->ask;
  int part = (int)task;
  int64_t rows = ask->from->rows[part];
  for (int what = 0; what < 2; what++) {
    tsr__buffer *to = c->sent[what][part], *from = source_of(c, what, part);
    tsr__traffic none = { 0 };
    if (!to || to == from || !rows) continue;
    if (ask->dest) put_rows_by_dest(c, what, part, worker);
    else if (ask->order) put_rows_by_order(c, what, part, worker);
    else copy_strip(c, what, &(strip){ from, to, rows, 0, rows, 0, rows }, &none);
  }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* All rows of a sender, to any destination: they lie there as one buffer. */
static int64_t rows_sent(const crossing *c, int part)
{
  int64_t rows = 0;
  int parts = c->ask->from->count;
  for (int to = 0; to < parts; to++) rows += c->ask->counts[part * parts + to];
  return rows;
}

/* Requests from another host's sender the rows of this process's parts; bits by whole words. */
static void fetch_rows(const crossing *c, int what, int part)
{
  const tsr__exchange *ask = c->ask;
  int parts = ask->from->count;
  tsr_dtype dtype = dtype_of_column(c, what);
  for (int to = 0; to < parts; to++) {
    int64_t first = c->room->start[part * parts + to], count = ask->counts[part * parts + to];
    if (!tsr__exchange_here(ask, to) || !count) continue;
    if (dtype == TSR_BOOL) count += first % 64, first -= first % 64;
    size_t from = tsr__device_bytes(dtype, first);
    const tsr__byte_runs rows = { from, tsr__device_bytes(dtype, first + count) - from, 1, 0 };
    tsr__devices_of(ask->rt)->ops->fetch(c->far[what][part], &rows);
  }
}

/* Opens the published rows of other processes as buffers that are only read. A sender of this
 * process is read through its own buffer. */
static tsr_status open_sent_rows(crossing *c, tsr__error *error)
{
  const tsr__exchange *ask = c->ask;
  const tsr__device_ops *ops = tsr__devices_of(ask->rt)->ops;
  for (int i = 0; i < 2 * ask->from->count; i++) {
    int what = i % 2, p = i / 2;
    uint64_t handle = c->place[p].handle[what];
    if (handle == NOWHERE) continue;
    if (c->sent[what][p]) {
      tsr__buffer_hold(c->sent[what][p]);
      c->far[what][p] = c->sent[what][p];
      continue;
    }
    size_t bytes = tsr__device_bytes(dtype_of_column(c, what), rows_sent(c, p));
    c->far[what][p] = ops->open_shared(ask->rt, ask->from->device[p], handle, bytes, error);
    if (!c->far[what][p]) return error->status;
    fetch_rows(c, what, p);
  }
  return tsr__peers_fetched(tsr__peers_of(ask->rt), error);
}

/* Copies all rows of one receiver. Bits of several senders meet in its words, so it has one
 * task: no two tasks write there. */
static void receive_rows_task(void *user, int64_t task, int worker)
{
  crossing *c = user;
  const tsr__exchange *ask = c->ask;
  int parts = ask->from->count, to = (int)task;
  if (!tsr__exchange_here(ask, to)) return;
  for (int i = 0; i < 2 * parts; i++) {
    int what = i % 2, p = i / 2, pair = p * parts + to;
    tsr__buffer *from = c->far[what][p], *into = c->to[what] ? c->to[what][to] : NULL;
    if (!ask->counts[pair] || !from || !into) continue;
    if (tsr__progress_stops(&c->progress, worker)) return;
    strip s = { .read = from,
                .write = into,
                .from_rows = rows_sent(c, p),
                .from = c->room->start[pair],
                .to_rows = ask->rows[to],
                .to = c->room->place[pair],
                .count = ask->counts[pair] };
    copy_strip(c, what, &s, &c->room->traffic[to]);
  }
}

static tsr_status each_part(crossing *c, tsr__task_fn task, tsr__error *error)
{
  c->progress = (tsr__progress){ .rt = c->ask->rt, .what = "exchange" };
  bool done = tsr__parallel_progress(&c->progress, c->ask->from->count, task, c);
  return done ? TSR_OK : tsr__cancelled(error, "exchange");
}

/* Sorts the rows of this process and publishes their handles. */
static tsr_status publish_places(crossing *c, tsr__error *error)
{
  tsr_status status = make_sent(c, error);
  if (!status) status = each_part(c, send_rows_task, error);
  return status ? status : tell_parts(c->ask, c->place, sizeof *c->place, error);
}

/* Reads the rows of this process's parts. All wait at the end: nobody gives back published
 * memory before all have read. Validity is made only where some sender has some, which all
 * processes know alike. */
static tsr_status receive(crossing *c, tsr__buffer **values, tsr__buffer **valid, tsr__error *error)
{
  const tsr__exchange *ask = c->ask;
  bool nulls = false;
  for (int p = 0; p < ask->from->count; p++) nulls = nulls || c->place[p].handle[1] != NOWHERE;
  tsr_status status =
      tsr__exchange_receivers(ask, c->column->dtype, c->column->values, values, error);
  if (!status && nulls)
    status = tsr__exchange_receivers(ask, TSR_BOOL, c->column->valid, valid, error);
  c->to[0] = values;
  c->to[1] = nulls ? valid : NULL;
  if (!status) status = open_sent_rows(c, error);
  if (!status) status = each_part(c, receive_rows_task, error);
  return status ? status : tsr__peers_part(tsr__peers_of(ask->rt), error);
}

/* Moves a column with two meetings: after all know where rows are, and after all have read them. */
tsr_status tsr__exchange_apart(const tsr__exchange *ask, int column, const tsr__exchange_room *room,
                               tsr__error *error)
{
  crossing c = { .ask = ask, .room = room, .column = &ask->columns[column] };
  int first = column * ask->from->count;
  tsr_status status = crossing_new(&c, error);
  if (!status) status = publish_places(&c, error);
  if (!status) status = receive(&c, ask->values + first, ask->valid + first, error);
  crossing_free(&c);
  return status;
}
