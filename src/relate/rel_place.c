/* Moving rows without changing their order: placing, slicing, and putting tables one after the
 * other.
 *
 *   sources    | table 0: part 0 | part 1 | table 1: part 0 |      rows numbered over all tables
 *   target     | position 0 | position 1 | position 2 |            each wants a range of them
 *
 * All three are one job: ranges of rows, wanted by positions, copied from the parts that hold
 * them, from the own device where a replica is there. What crosses is counted by the copy
 * routine.
 *
 * Invariants: a task writes rows of one position from a multiple of 64 on, so no two write to one
 * word of bits; a range that a buffer of the same device holds exactly is shared, not copied. */
#include "relate/relate_inner.h"

#include "kernel/rows/pieces.h"

enum { PIECE = 1 << 20 };

/* `first` is the number of its first row among the rows of all sources, one after the other. */
typedef struct source {
  tsr__views views;
  int64_t first, total;
} source;

/*
 * `rows` is the draft's own list: what is decided here is what the draft will have. */
typedef struct placing {
  tsr_runtime *rt;
  const char *what;
  tsr__rel_stats *stats;
  tsr__error *error;
  source *sources;
  int source_count;
  const tsr_sharding *to;
  int64_t *start, *rows; /* by target position */
  int *device;
  bool *here; /* it is this process's: others are filled by theirs */
  int seen;   /* sources whose rows are here to be read */
  tsr__draft draft;
  int64_t pieces; /* a column */
  _Atomic int64_t moved_rows, moved_bytes;
} placing;

/* ---- where rows are -------------------------------------------------------------------------- */

/* A run of rows that lies in one part: of which slice does not matter for what they are. */
typedef struct run {
  const source *from;
  int part;
  int64_t at, count; /* rows of the part */
} run;

/* The run from global row `row` on. A row beyond the last is never asked for: ranges of the
 * target end with the sources' rows. Tables and parts without rows are stepped over by the same
 * loops. */
static run run_at(const placing *job, int64_t row)
{
  const source *s = job->sources;
  while (row >= s->first + s->total) s++;
  const tsr__parts *parts = &s->views.view[0].parts;
  int part = 0;
  for (row -= s->first; row >= parts->rows[part]; part++) row -= parts->rows[part];
  return (run){ s, part, row, parts->rows[part] - row };
}

/* The slice to copy a part from: the one on `device`, else the first that is to be had. Any slice
 * will do for the values; the one of the same device costs no traffic. What every process has
 * replicas of is not seen of others. */
static const tsr__view *nearest(const source *s, int part, int device)
{
  const tsr__view *found = NULL;
  for (int v = 0; v < s->views.slices; v++) {
    const tsr__view *view = &s->views.view[v];
    if (view->parts.device[part] == device) return view;
    bool there = !s->views.rel->count || view->columns[0].values[part];
    if (!found && there) found = view;
  }
  return found ? found : &s->views.view[0];
}

/* The view whose part holds exactly what a position wants, on its device; NULL: none. Without
 * rows there is nothing to share: an empty buffer of its own is cheaper than a held one that
 * keeps memory. Where a run is shorter than what is wanted, several must be put together. */
static const tsr__view *same_part(const placing *job, int position, int *part)
{
  if (!job->rows[position]) return NULL;
  run r = run_at(job, job->start[position]);
  if (r.at || r.count != job->rows[position]) return NULL;
  const tsr__view *view = nearest(r.from, r.part, job->device[position]);
  *part = r.part;
  return view->parts.device[r.part] == job->device[position] ? view : NULL;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* Rows of one column at one position. */
typedef struct strip {
  int column;
  tsr__piece piece;
} strip;

/* Values and validity are copied in one task, since both need the run to be found. A column
 * without validity leaves the ones that `fresh` wrote: its rows are all there. */
static void copy_run(placing *job, const strip *to, const run *r)
{
  const tsr__device_ops *ops = tsr__devices_of(job->rt)->ops;
  int position = to->piece.part, device = job->device[position];
  const tsr__view *view = nearest(r->from, r->part, device);
  const tsr__colparts *column = &view->columns[to->column];
  size_t at = (size_t)to->column * (size_t)job->draft.positions + (size_t)position;
  tsr__traffic traffic = { 0 };
  tsr__box_copy copy = { .dtype = column->dtype,
                         .rank = 1,
                         .from_dims = &view->parts.rows[r->part],
                         .from_start = &r->at,
                         .to_dims = &job->rows[position],
                         .to_start = &to->piece.start,
                         .size = &r->count };
  ops->copy(&copy, column->values[r->part], job->draft.values[at], &traffic);
  copy.dtype = TSR_BOOL;
  if (column->valid) ops->copy(&copy, column->valid[r->part], job->draft.valid[at], &traffic);
  atomic_fetch_add(&job->moved_bytes, traffic.bytes);
  /* Rows are counted once and not once a column. */
  if (!to->column && view->parts.device[r->part] != device)
    atomic_fetch_add(&job->moved_rows, r->count);
}

/* One strip: a piece of a column at a position, which may take runs of several parts and
 * tables. */
static void copy_task(void *user, int64_t task, int worker)
{
  (void)worker;
  placing *job = user;
  tsr__parts parts = { job->draft.positions, job->device, job->rows };
  strip to = { (int)(task / job->pieces), tsr__piece_of(&parts, PIECE, task % job->pieces) };
  int64_t row = job->start[to.piece.part] + to.piece.start, left = to.piece.count;
  int part;
  /* Shared by position_room already: there is nothing to copy, and writing would change the
   * source. */
  if (!job->here[to.piece.part] || same_part(job, to.piece.part, &part)) return;
  while (left) {
    run r = run_at(job, row);
    if (r.count > left) r.count = left;
    to.piece.count = r.count;
    copy_run(job, &to, &r);
    to.piece.start += r.count;
    row += r.count;
    left -= r.count;
  }
}

/* ---- the target's buffers -------------------------------------------------------------------- */

static bool has_nulls(const placing *job, int c)
{
  for (int i = 0; i < job->source_count; i++)
    if (job->sources[i].views.rel->column[c].valid) return true;
  return false;
}

static tsr__buffer *hold(tsr__buffer *buffer)
{
  tsr__buffer_hold(buffer);
  return buffer;
}

/* A buffer of what a position wants of a column: undefined, or all ones where rows without
 * validity may come to lie among others. */
static tsr__buffer *fresh(const placing *job, int position, tsr_dtype dtype, bool ones)
{
  size_t bytes = tsr__device_bytes(dtype, job->rows[position]);
  tsr__buffer *buffer =
      tsr__devices_of(job->rt)->ops->take(job->rt, job->device[position], bytes, job->error);
  if (buffer && ones) tsr__devices_of(job->rt)->ops->fill(buffer, 0xFF);
  return buffer;
}

/* A shared buffer is held once more. It is never written to again, neither here nor later: values
 * are immutable once made. */
static tsr_status position_room(placing *job, int c, int position)
{
  size_t at = (size_t)c * (size_t)job->draft.positions + (size_t)position;
  tsr__buffer **values = &job->draft.values[at], **valid = &job->draft.valid[at];
  int part;
  const tsr__view *same = same_part(job, position, &part);
  const tsr__colparts *shared = same ? &same->columns[c] : NULL;
  *values = shared ? hold(shared->values[part]) : fresh(job, position, job->draft.dtype[c], false);
  if (!*values) return job->error->status;
  /* Judged over all sources: one table with nulls is enough for all positions to need validity. */
  if (!has_nulls(job, c)) return TSR_OK;
  *valid =
      shared && shared->valid ? hold(shared->valid[part]) : fresh(job, position, TSR_BOOL, true);
  return *valid ? TSR_OK : job->error->status;
}

/* What is shared needs no room. All positions are checked before the first buffer is taken, so
 * that a refusal changes nothing. */
static tsr_status make_room(placing *job)
{
  tsr__need need = { job->rt, job->what, job->stats };
  int64_t bits = 0;
  for (int c = 0; c < job->draft.count; c++)
    bits +=
        (job->draft.dtype[c] == TSR_BOOL ? 1 : 8 * (int64_t)tsr_dtype_size(job->draft.dtype[c])) +
        has_nulls(job, c);
  for (int p = 0, part; p < job->draft.positions; p++) {
    if (!job->here[p] || same_part(job, p, &part)) continue;
    int64_t bytes = job->rows[p] * bits / 8 + 16 * job->draft.count; /* bits in whole words */
    tsr_status status = tsr__need_check(&need, job->device[p], bytes, job->error);
    if (status) return status;
  }
  for (int c = 0; c < job->draft.count; c++)
    for (int p = 0; p < job->draft.positions; p++) {
      if (!job->here[p]) continue;
      tsr_status status = position_room(job, c, p);
      if (status) return status;
    }
  return TSR_OK;
}

/* ---- rows of other hosts --------------------------------------------------------------------- */

/* Whether another position here, one before, wants the same rows: they are asked for once. */
static bool asked_before(const placing *job, int position)
{
  for (int p = 0; p < position; p++)
    if (job->here[p] && job->start[p] == job->start[position] &&
        job->rows[p] == job->rows[position])
      return true;
  return false;
}

static void want_run(const placing *job, int position, const run *r)
{
  const tsr__view *view = nearest(r->from, r->part, job->device[position]);
  for (int c = 0; c < job->draft.count; c++) {
    const tsr__colparts *column = &view->columns[c];
    tsr__box_copy copy = { .dtype = column->dtype,
                           .rank = 1,
                           .from_dims = &view->parts.rows[r->part],
                           .from_start = &r->at,
                           .size = &r->count };
    tsr__sight_want_box(column->values[r->part], &copy);
    copy.dtype = TSR_BOOL;
    if (column->valid) tsr__sight_want_box(column->valid[r->part], &copy);
  }
}

/* The rows that are copied here, and no others, as the rest of a part is for others. */
static tsr_status see_rows(placing *job)
{
  const tsr__peers *peers = tsr__peers_of(job->rt);
  int part;
  if (!peers || tsr__peers_hosts(peers) < 2) return TSR_OK;
  for (int p = 0; p < job->draft.positions; p++) {
    int64_t row = job->start[p], left = job->rows[p];
    if (!job->here[p] || asked_before(job, p) || same_part(job, p, &part)) continue;
    while (left) {
      run r = run_at(job, row);
      if (r.count > left) r.count = left;
      want_run(job, p, &r);
      row += r.count;
      left -= r.count;
    }
  }
  tsr_status status = TSR_OK;
  for (int i = 0; i < job->source_count && !status; i++)
    status = tsr__sight_come(&job->sources[i].views.sight, job->error);
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static tsr_status no_memory(const placing *job)
{
  return tsr__error_set(job->error, TSR_ENOMEM,
                        "%s: no memory for the description of %d tables; free some arrays",
                        job->what, job->source_count);
}

static size_t plan_size(int positions)
{
  return (size_t)positions * (sizeof(int64_t) + sizeof(int) + sizeof(bool));
}

/* Looks at the sources, and makes a draft of the target without rows yet. Columns of all sources
 * are equal in number and type; the callers see to that. */
static tsr_status placing_new(placing *job, const tsr__rel *const *in, int count)
{
  const tsr__rel *first = in[0];
  int positions = tsr__positions(job->to);
  job->rt = first->rt;
  job->source_count = count;
  job->sources = tsr__new(&job->rt->heap, (size_t)count * sizeof *job->sources);
  if (!job->sources) return no_memory(job);
  tsr_status status = tsr__draft_new(job->rt, job->to, first->count, &job->draft, job->error);
  for (int i = 0; i < count && !status; i++) {
    source *s = &job->sources[i];
    s->total = in[i]->total;
    s->first = i ? s[-1].first + s[-1].total : 0;
    status = tsr__views_see(in[i], &s->views, job->error);
    if (!status) job->seen = i + 1;
  }
  if (status) return status;
  job->start = tsr__new(&job->rt->heap, plan_size(positions));
  if (!job->start) return no_memory(job);
  job->device = (int *)(job->start + positions);
  job->rows = job->draft.rows;
  job->here = (bool *)(job->device + positions);
  for (int p = 0; p < positions; p++) {
    job->device[p] = tsr__home_device(job->rt, job->to, p);
    job->here[p] = tsr__device_local(tsr__topology_of(job->rt), job->device[p]);
  }
  for (int c = 0; c < first->count; c++)
    job->draft.dtype[c] = (tsr_dtype)first->column[c].values->dtype;
  return TSR_OK;
}

/* Lets go of all, once other processes have read what they want; returns `status`, or what became
 * of it. */
static tsr_status placing_end(placing *job, tsr_status status)
{
  tsr__heap *heap = &job->rt->heap;
  for (int i = 0; job->sources && i < job->seen; i++)
    status = tsr__views_close(&job->sources[i].views, status, job->error);
  for (int i = job->seen; job->sources && i < job->source_count; i++)
    tsr__views_free(&job->sources[i].views);
  tsr__del(heap, job->sources, (size_t)job->source_count * sizeof *job->sources);
  tsr__del(heap, job->start, plan_size(tsr__positions(job->to)));
  tsr__draft_free(&job->draft);
  return status;
}

/* Then all processes tell of the same movements. */
static bool moves_apart(const placing *job)
{
  bool apart = tsr__rel_apart(job->rt, job->to);
  for (int i = 0; i < job->source_count; i++) apart = apart || job->sources[i].views.apart;
  return apart;
}

/* Fills the target, once the ranges are known, and makes the table. A task is a column's piece,
 * so a table of few rows and many columns still has many tasks. */
static tsr_status finish(placing *job, tsr__rel *out)
{
  tsr_status status = make_room(job);
  if (!status) status = see_rows(job);
  if (status) return status;
  tsr__parts parts = { job->draft.positions, job->device, job->rows };
  job->pieces = tsr__piece_count(&parts, PIECE);
  if (!tsr__parallel_long(job->rt, job->what, job->pieces * job->draft.count, copy_task, job))
    return tsr__cancelled(job->error, job->what);
  tsr__moved moved = { job->moved_rows, job->moved_bytes };
  /* What lies without a mesh each process has for itself, and is counted once. */
  if (!job->to->mesh && tsr__topology_of(job->rt)->process_index) moved = (tsr__moved){ 0 };
  if (moved.rows || moves_apart(job)) tsr__stats_add(job->stats, "rows", &moved);
  if (job->stats) job->stats->method = "copies";
  return tsr__draft_finish(&job->draft, out, job->error);
}

/* Replicas get equal ranges, since spans depend on the coordinates of dim 0's axes only. */
static void usual_ranges(placing *job)
{
  const source *last = &job->sources[job->source_count - 1];
  for (int p = 0; p < job->draft.positions; p++) {
    tsr__span span = tsr__dim_span(job->to, 0, last->first + last->total, p);
    job->start[p] = span.start;
    job->rows[p] = span.length;
  }
}

/* Devices of other processes are refused for the sources by their views; here for the target: where
 * there is nobody who fills it. */
static tsr_status check_local(const placing *job, const tsr__rel *in)
{
  if (tsr__peers_of(in->rt)) return TSR_OK;
  for (int p = 0; p < tsr__positions(job->to); p++)
    if (!tsr__device_local(tsr__topology_of(in->rt), tsr__position_device(job->to, p)))
      return tsr__error_set(job->error, TSR_EUNSUPPORTED,
                            "rows cannot yet be moved between processes: device %d belongs to "
                            "another process; use a mesh of this process's devices",
                            tsr__position_device(job->to, p));
  return TSR_OK;
}

/* A table that was made goes where others could not read what they wanted. */
static tsr_status end_of(placing *job, tsr_status made, tsr__rel *out)
{
  tsr_status status = placing_end(job, made);
  if (status && !made) tsr__rel_free(out);
  return status;
}

tsr_status tsr__place_table(const tsr__rel *in, const tsr_sharding *to, tsr__rel *out,
                            tsr__rel_stats *stats, tsr__error *error)
{
  tsr_sharding target = tsr__sharding_canon(to);
  placing job = { .rt = in->rt, .what = "place", .stats = stats, .error = error, .to = &target };
  tsr_status status = check_local(&job, in);
  if (!status) status = placing_new(&job, &in, 1);
  if (!status) usual_ranges(&job);
  if (!status) status = finish(&job, out);
  return end_of(&job, status, out);
}

tsr_status tsr__rel_place(const tsr__rel *in, const tsr_sharding *to, tsr__rel *out,
                          tsr__rel_stats *stats, tsr__error *error)
{
  tsr__rel_meeting meeting = { .rt = in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__rel_enter(&meeting, "place", in, to);
  if (status) return status;
  return tsr__rel_leave(&meeting, tsr__place_table(in, to, out, stats, error), out);
}

/* Each position wants what it holds of the first `count` rows. Rows stay where they are: a
 * position that keeps all it has shares its buffers, so that cutting a table costs only the part
 * in which the cut lies. */
static void first_ranges(placing *job, int64_t count)
{
  const tsr__views *views = &job->sources[0].views;
  for (int v = 0; v < views->slices; v++) {
    const tsr__view *view = &views->view[v];
    int64_t at = 0;
    for (int p = 0; p < views->parts; p++) {
      int64_t next = at + view->parts.rows[p], end = next < count ? next : count;
      job->start[view->position[p]] = at;
      job->rows[view->position[p]] = end > at ? end - at : 0;
      at = next;
    }
  }
}

/* It is called "sort" in messages, as its only caller cuts what it sorted. */
tsr_status tsr__first_of_table(const tsr__rel *in, int64_t count, tsr__rel *out, tsr__error *error)
{
  placing job = { .rt = in->rt, .what = "sort", .error = error, .to = &in->sharding };
  tsr_status status = placing_new(&job, &in, 1);
  if (!status) first_ranges(&job, count < in->total ? count : in->total);
  if (!status) status = finish(&job, out);
  return end_of(&job, status, out);
}

static tsr_status concat(const tsr__rel *const *in, int count, tsr__rel *out, tsr__rel_stats *stats,
                         tsr__error *error)
{
  placing job = {
    .rt = in[0]->rt, .what = "concat", .stats = stats, .error = error, .to = &in[0]->sharding
  };
  tsr_status status = TSR_OK;
  for (int i = 1; i < count && !status; i++) {
    bool equal = in[i]->count == in[0]->count;
    for (int c = 0; equal && c < in[0]->count; c++)
      equal = in[i]->column[c].values->dtype == in[0]->column[c].values->dtype;
    if (!equal)
      status = tsr__error_set(error, TSR_EDTYPE,
                              "concat: table %d has other columns than the first; select and cast "
                              "the same columns first",
                              i);
  }
  if (!status) status = placing_new(&job, in, count);
  if (!status) usual_ranges(&job);
  if (!status) status = finish(&job, out);
  return end_of(&job, status, out);
}

/* Of several tables one on a mesh is enough for all processes to meet. */
static const tsr__rel *first_apart(const tsr__rel *const *in, int count)
{
  for (int i = 0; i < count; i++)
    if (tsr__rel_apart(in[i]->rt, &in[i]->sharding)) return in[i];
  return in[0];
}

tsr_status tsr__rel_concat(const tsr__rel *const *in, int count, tsr__rel *out,
                           tsr__rel_stats *stats, tsr__error *error)
{
  tsr__rel_meeting meeting = { .rt = in[0]->rt, .error = error, .stats = stats };
  tsr_status status = tsr__rel_enter(&meeting, "concat", first_apart(in, count), NULL);
  if (status) return status;
  return tsr__rel_leave(&meeting, concat(in, count, out, stats, error), out);
}
