/* Records that a function of the program gives in order, until it says that there are no more.
 *
 *   function -> | part 6: records | part 7: records |      a part is a batch's records, read ahead
 *                  filled             being read           by one thread at a time, in order
 *
 * A pipeline numbers the records of batch n from n * size on, whatever epoch that is of: so a
 * position says in which part its record lies. A part is read before its batch's memory is made,
 * as only then is it known how many records there are.
 *
 * Invariant: part k is written by who reads batch n with n mod parts = k, and read by those who
 * fill batch n; the ring's lock is between the two, and between that and the next writer. */
#include "pipeline/pipeline_room.h"
#include "tessera/sources.h"

struct tsr__stream {
  tsr_source source;
  tsr_stream_fn *fn;
  tsr_stream_begin *begin;
  void *user;
  const char *name;
  bool taken, used; /* a pipeline is at it; one was */
  /* Of that pipeline. */
  int64_t size, epochs, skip; /* records of a batch; records before the first that is wanted */
  int parts;
  tsr__stream_part *part;
  size_t row;
  /* Of who reads. */
  int64_t epoch, at; /* records of it so far */
  bool begun, drop;
  tsr__where *where; /* what it tells of itself; NULL: nobody wants it */
};

/* ---- reading --------------------------------------------------------------------------------- */

const tsr__stream_part *tsr__stream_part_of(const tsr__stream *s, int64_t batch)
{
  return &s->part[batch % s->parts];
}

/* `at` counts from the epoch's first record, as messages and states do. */
static tsr_status begin_epoch(tsr__stream *s, tsr__error *error)
{
  tsr_status status = s->begin ? s->begin(s->epoch, s->user) : TSR_OK;
  s->begun = true;
  s->at = 0;
  if (status)
    tsr__error_set(error, status, "%s: epoch %lld: .begin returned %s (%s)", s->name,
                   (long long)s->epoch, tsr_status_name(status), tsr_status_text(status));
  return error->status;
}

/* The next record to row `row` of a part; false: there is none, or an error. */
/* data   | field 0: size records | field 1: size records | ...     row `row` of each */
static bool next_record(tsr__stream *s, const tsr_pipeline *p, tsr__stream_part *part, int64_t row)
{
  void *out[TSR__MAX_COLUMNS];
  bool ended = false;
  char *base = part->data;
  for (int c = 0; c < s->source.column_count; c++) {
    size_t bytes = s->source.columns[c].bytes;
    out[c] = base + (size_t)row * bytes;
    base += (size_t)s->size * bytes;
  }
  if (s->where) atomic_store_explicit(&s->where->record, s->at, memory_order_relaxed);
  tsr_status status = s->fn(out, &ended, s->user);
  if (status)
    tsr__error_set(&part->error, status, "%s: record %lld: the function returned %s (%s)", s->name,
                   (long long)s->at, tsr_status_name(status), tsr_status_text(status));
  else if (tsr_pipeline_stopping(p))
    tsr__error_set(&part->error, TSR_ECANCELLED, "the pipeline is being closed");
  else if (!ended) s->at++;
  return !ended && !part->error.status;
}

/* The records of a batch, or of what an epoch has left. */
static void read_part(tsr__stream *s, const tsr_pipeline *p, tsr__stream_part *part)
{
  /* An epoch begins when its first record is wanted, not when the one before it ends: a pipeline of
   * one epoch must not open a second. */
  if (!s->begun && begin_epoch(s, &part->error)) return;
  bool more = true;
  /* To go on from a state, records that were delivered are read again into a place that is used
   * anew. */
  while (more && s->at < s->skip) more = next_record(s, p, part, 0);
  part->epoch = s->epoch;
  part->index = s->at / s->size;
  part->first = s->at;
  part->records = 0;
  while (more && part->records < s->size && (more = next_record(s, p, part, part->records)))
    part->records++;
  if (more || part->error.status) return;
  /* Dropped here, not by the ring: an epoch's number of batches is not known before it ends. */
  if (part->records < s->size && s->drop) part->records = 0;
  s->epoch++;
  s->begun = false;
}

bool tsr__stream_read(tsr__stream *s, const tsr_pipeline *p, int64_t batch, tsr__where *where)
{
  tsr__stream_part *part = &s->part[batch % s->parts];
  part->error = (tsr__error){ 0 };
  s->where = where;
  /* For all of a part: what blocks is the function, which is what closing tells. */
  if (where) atomic_store_explicit(&where->name, s->name, memory_order_release);
  part->records = 0;
  while (!part->records && !part->error.status && (s->epochs == -1 || s->epoch < s->epochs)) {
    /* An epoch of which some was skipped may have nothing left and still not be empty. */
    bool whole = !s->begun && !s->skip;
    read_part(s, p, part);
    s->skip = 0;
    /* An epoch of no batches is the last one: others would have none either. */
    if (whole && !part->records) s->epochs = s->epoch;
  }
  if (where) atomic_store_explicit(&where->name, NULL, memory_order_release);
  return part->error.status || part->records;
}

static tsr_status read_stream(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const tsr__stream *s = (const tsr__stream *)source;
  (void)error;
  for (int64_t i = 0; i < ask->count; i++) {
    const char *base = tsr__stream_part_of(s, ask->at[i] / s->size)->data;
    size_t row = (size_t)(ask->at[i] % s->size);
    for (int c = 0; c < source->column_count; c++) {
      size_t bytes = source->columns[c].bytes;
      if (ask->cells[c].data) memcpy(tsr__cell_of(ask, c, i), base + row * bytes, bytes);
      base += (size_t)s->size * bytes;
    }
  }
  return TSR_OK;
}

/* A record's id is its place in its epoch. */
static void ids_stream(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                       int64_t *to)
{
  const tsr__stream *s = (const tsr__stream *)source;
  (void)epoch;
  for (int64_t i = 0; i < count; i++)
    to[i] = tsr__stream_part_of(s, at[i] / s->size)->first + at[i] % s->size;
}

static void about_stream(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%s, read again from the start of an epoch to restore the position",
                ((const tsr__stream *)source)->name);
}

static const tsr__records_ops stream_ops = { "stream", read_stream, ids_stream, about_stream,
                                             NULL,     NULL,        NULL };

/* ---- pipelines ------------------------------------------------------------------------------- */

tsr__stream *tsr__stream_of(const tsr_source *source)
{
  return source->streams ? (tsr__stream *)source->leaf : NULL;
}

tsr_status tsr__stream_check(const tsr__stream *s, const tsr_pipeline_args *args, tsr__error *error)
{
  if (args->remainder == TSR_WRAP)
    return tsr__error_set(error, TSR_EARG,
                          "TSR_WRAP fills the last batch with the first records of the epoch, but "
                          "a stream no longer has them; use another .remainder");
  /* Without .begin it is a pipe: what was read is gone. */
  if (args->epochs != 1 && !s->begin)
    return tsr__error_set(
        error, TSR_EARG,
        "%lld epochs of a stream without .begin, expected 1: such a stream can be read only once",
        (long long)args->epochs);
  if (s->taken)
    return tsr__error_set(error, TSR_ESTATE,
                          "another pipeline reads the stream %s; close that pipeline first",
                          s->name);
  if (s->used && !s->begin)
    return tsr__error_set(error, TSR_ESTATE,
                          "the stream %s was read already; give .begin to read a stream again",
                          s->name);
  return TSR_OK;
}

tsr_status tsr__stream_open(tsr__stream *s, const tsr_pipeline_args *args, int parts,
                            tsr__error *error)
{
  tsr__heap *heap = &s->source.node.scope->rt->heap;
  size_t bytes;
  s->row = 1;
  for (int c = 0; c < s->source.column_count; c++) s->row += s->source.columns[c].bytes;
  s->size = args->batch_size;
  s->epochs = args->epochs;
  s->drop = args->remainder == TSR_DROP;
  s->at = 0;
  s->begun = false;
  s->parts = parts;
  s->part = tsr__new(heap, (size_t)parts * sizeof *s->part);
  bool fine = s->part && !__builtin_mul_overflow(s->row, (size_t)s->size, &bytes);
  for (int i = 0; fine && i < parts; i++) fine = (s->part[i].data = tsr__new_raw(heap, bytes));
  /* Set before it may fail: closing frees the parts only of who has taken it. */
  s->taken = true;
  if (fine) return TSR_OK;
  tsr__stream_close(s);
  return tsr__error_set(error, TSR_ENOMEM, "no memory for %d batches of a stream", parts);
}

void tsr__stream_seek(tsr__stream *s, int64_t epoch, int64_t records)
{
  s->epoch = epoch;
  s->skip = records;
}

void tsr__stream_close(tsr__stream *s)
{
  tsr__heap *heap = &s->source.node.scope->rt->heap;
  if (!s->taken) return;
  for (int i = 0; s->part && i < s->parts; i++)
    tsr__del(heap, s->part[i].data, s->row * (size_t)s->size);
  tsr__del(heap, s->part, (size_t)s->parts * sizeof *s->part);
  s->part = NULL;
  s->taken = false;
  s->used = true;
}

/* ---- the call -------------------------------------------------------------------------------- */

tsr_source *tsr_source_stream_with(tsr_scope *scope, const tsr_stream_args *given, const char *site)
{
  const char *call = "tsr_source_stream";
  tsr_stream_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  int count = 0;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!args.fn) tsr__error_set(&error, TSR_EARG, "the function is NULL; give one");
    else count = tsr__columns_of(args.fields, columns, &error);
  }
  const char *name = args.name ? args.name : "stream";
  name = tsr__arena_text(&scope->arena, name, strlen(name));
  if (!name) tsr__error_set(&error, TSR_ENOMEM, "no memory for a name");
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call, site, &stream_ops, sizeof(tsr__stream), 0, columns, count,
                             NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  if (source->inert) return source;
  tsr__stream *s = (tsr__stream *)source;
  source->streams = true;
  s->fn = args.fn;
  s->begin = args.begin;
  s->user = args.user;
  s->name = name;
  return source;
}
