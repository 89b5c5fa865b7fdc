/* Rows that came through the Arrow C interface, to values.
 *
 *   batch 0 |offset 3: ...rows...|   batch 1 |rows|     validity bits of any offset
 *                  v                     v
 *   part 0 |stripe 0|stripe 1|  part 1 |stripe 2|       words of bits of their own
 *
 * Invariant: a batch is released once, when nobody holds it any more: the reader, and each buffer
 * that was borrowed from it, have one reference each.
 *
 * Rows of the stream are numbered over all batches; `first` says where each begins. A part's rows
 * are written by one worker each stripe, so nothing is locked. */
#include "io/arrow/arrow_inner.h"
#include "io/file/system.h"
#include "io/rows/stripes.h"

#include <errno.h>
#include <inttypes.h>

static const char what[] = "tsr_frame_from_arrow";

/* ---- opening --------------------------------------------------------------------------------- */

/* References are counted atomically: a borrowed buffer is given back on whatever thread frees the
 * array that had it, long after the reader was closed. */
static void drop_batch(tsr__arrow_batch *batch)
{
  if (!batch || atomic_fetch_sub(&batch->refs, 1) != 1) return;
  if (batch->array.release) batch->array.release(&batch->array);
  tsr__del(batch->heap, batch, sizeof *batch);
}

/* Codes are errnos; of a lack of memory the caller can be told by status. */
static tsr_status producer_failed(struct ArrowArrayStream *stream, int code, tsr__error *error)
{
  /* The text is the producer's and lives until its next call, so it goes into the message here. */
  const char *said = stream->get_last_error ? stream->get_last_error(stream) : NULL;
  char buffer[128];
  if (!said || !*said) said = tsr__sys_text(code, buffer, sizeof buffer);
  return tsr__error_set(error, code == ENOMEM ? TSR_ENOMEM : TSR_EIO,
                        "%s: the producer failed: %.600s", what, said);
}

static tsr_status take_schema(tsr__arrow *arrow, struct ArrowArrayStream *stream, tsr__error *error)
{
  struct ArrowSchema schema = { 0 };
  int code = stream->get_schema(stream, &schema);
  if (code) return producer_failed(stream, code, error);
  if (!schema.release)
    return tsr__error_set(error, TSR_EARG, "%s: the stream gave a released schema", what);
  tsr_status status = tsr__arrow_schema(arrow, &schema, error);
  /* What was needed of it was copied: names and types outlive the producer's schema. */
  schema.release(&schema);
  return status;
}

/* The next batch; NULL at the end, and on an error. */
static tsr__arrow_batch *take_batch(tsr__arrow *arrow, struct ArrowArrayStream *stream,
                                    tsr__error *error)
{
  tsr__arrow_batch *batch = tsr__new(arrow->heap, sizeof *batch);
  if (!batch) {
    tsr__arrow_no_memory(error);
    return NULL;
  }
  batch->heap = arrow->heap;
  atomic_init(&batch->refs, 1);
  int code = stream->get_next(stream, &batch->array);
  if (code) {
    /* A producer that failed may have left anything in the struct; nothing of it is ours to
     * release. */
    batch->array.release = NULL;
    producer_failed(stream, code, error);
  } else if (batch->array.release && !tsr__arrow_check(arrow, &batch->array, error)) {
    return batch;
  }
  drop_batch(batch);
  return NULL;
}

/* All are taken before anything is read, since types of decimals and the borders of parts depend on
 * all of them. Data is not copied: a batch keeps the producer's memory until it is released. */
static tsr_status take_batches(tsr__arrow *arrow, struct ArrowArrayStream *stream,
                               tsr__error *error)
{
  tsr__heap *heap = arrow->heap;
  for (;;) {
    /* `first` has one entry more than there are batches: where the next one would begin is how many
     * rows there are. */
    size_t count = (size_t)arrow->batch_count;
    if (!tsr__grow(heap, (void **)&arrow->batches, &arrow->batch_room, count + 1,
                   sizeof *arrow->batches) ||
        !tsr__grow(heap, (void **)&arrow->first, &arrow->first_room, count + 2,
                   sizeof *arrow->first))
      return tsr__arrow_no_memory(error);
    tsr__arrow_batch *batch = take_batch(arrow, stream, error);
    if (!batch) return error->status;
    int64_t rows = arrow->first[count] + batch->array.length;
    arrow->batches[arrow->batch_count++] = batch;
    arrow->first[count + 1] = rows;
    /* The widest value takes 8 bytes, and twice that still has room for alignment: no size computed
     * of rows further on can overflow. */
    if (rows > INT64_MAX / 16)
      return tsr__error_set(error, TSR_EARG, "%s: the batches have more rows than memory", what);
  }
}

/* Whether all decimals of a column, which have no fractions, are i64. */
static bool all_fit(const tsr__arrow *arrow, int column)
{
  const tsr__arrow_type *type = &arrow->types[column];
  for (int64_t b = 0; b < arrow->batch_count; b++) {
    const struct ArrowArray *batch = &arrow->batches[b]->array, *array = batch->children[column];
    int64_t from = array->offset + batch->offset, count = batch->length;
    /* A dictionary's entries are looked at, each once, not the rows that name them: an entry nobody
     * names may decide the type, which is cheaper than reading twice. */
    if (type->index) {
      array = array->dictionary;
      from = array->offset;
      count = array->length;
    }
    const void *bits = array->null_count ? array->buffers[0] : NULL;
    for (int64_t i = from; i < from + count; i++)
      if ((!bits || tsr__arrow_bit(bits, i)) && !tsr__arrow_decimal_fits(array, type->bytes, i))
        return false;
  }
  return true;
}

/* Sums of integers come as decimals of 38 digits: what holds integers becomes them where they
 * fit. For good, before anybody sees the type: a column that retyped itself later would be planned
 * anew. */
static void settle_decimals(tsr__arrow *arrow)
{
  for (int i = 0; i < arrow->column_count; i++) {
    const tsr__arrow_type *type = &arrow->types[i];
    if (type->layout == TSR__ARROW_DECIMAL && type->scale == 0 && all_fit(arrow, i))
      arrow->columns[i].type = TSR_COL_I64;
  }
}

/* The stream is called from this thread alone and never again after this returns. */
tsr__arrow *tsr__arrow_open(tsr_runtime *rt, struct ArrowArrayStream *stream, tsr__error *error)
{
  /* The stream is moved, as the interface asks of consumers: with `release` cleared the caller's
   * struct is done with, whatever happens below. */
  struct ArrowArrayStream own = { 0 };
  if (stream) {
    own = *stream;
    stream->release = NULL;
  }
  if (!own.release || !own.get_schema || !own.get_next) {
    tsr__error_set(error, TSR_EARG,
                   "%s: the stream is NULL, was released or lacks its callbacks; make a new stream",
                   what);
    if (own.release) own.release(&own);
    return NULL;
  }
  tsr__arrow *arrow = tsr__new(&rt->heap, sizeof *arrow);
  if (arrow) {
    arrow->rt = rt;
    arrow->heap = &rt->heap;
    if (!take_schema(arrow, &own, error) && !take_batches(arrow, &own, error))
      settle_decimals(arrow);
  } else {
    tsr__arrow_no_memory(error);
  }
  /* All batches are here, so the producer can go. They need not outlive it: each has its own
   * release. */
  if (own.release) own.release(&own);
  if (!error->status) return arrow;
  tsr__arrow_close(arrow);
  return NULL;
}

/* In any state of opening. Buffers that were borrowed keep their batch. */
void tsr__arrow_close(tsr__arrow *arrow)
{
  if (!arrow) return;
  tsr__heap *heap = arrow->heap;
  for (int64_t b = 0; b < arrow->batch_count; b++) drop_batch(arrow->batches[b]);
  for (int i = 0; i < arrow->column_count; i++)
    tsr__del(heap, arrow->columns[i].name, strlen(arrow->columns[i].name) + 1);
  tsr__del(heap, arrow->columns, (size_t)arrow->column_count * sizeof *arrow->columns);
  tsr__del(heap, arrow->types, (size_t)arrow->column_count * sizeof *arrow->types);
  tsr__decimal_close(arrow->decimal);
  tsr__del(heap, arrow->batches, arrow->batch_room * sizeof *arrow->batches);
  tsr__del(heap, arrow->first, arrow->first_room * sizeof *arrow->first);
  tsr__del(heap, arrow, sizeof *arrow);
}

int64_t tsr__arrow_batches(const tsr__arrow *arrow)
{
  return arrow->batch_count;
}

/* ---- borrowing ------------------------------------------------------------------------------- */

/* From whatever thread; the batch is all it touches, never the reader, which may be gone. */
static void give_back(void *data, void *user)
{
  (void)data;
  drop_batch(user);
}

/* False: the column is read and copied as all are. */
bool tsr__arrow_borrow(tsr__arrow *arrow, int column, tsr__foreign *out)
{
  const tsr__arrow_type *type = &arrow->types[column];
  /* One batch of plain numbers without nulls, as devices want them: then the column is the
   * producer's memory itself. Several batches would have to be put together, units of time be
   * scaled. */
  if (arrow->batch_count != 1 || type->index || type->factor != 1 || type->divisor != 1)
    return false;
  tsr__arrow_batch *batch = arrow->batches[0];
  const struct ArrowArray *array = batch->array.children[column];
  int64_t rows = batch->array.length, from = array->offset + batch->array.offset;
  if (type->layout < TSR__ARROW_I8 || type->layout > TSR__ARROW_F64 || !rows) return false;
  size_t size = tsr__arrow_size(type->layout);
  /* A count of -1 means that nobody counted, and a bitmap may be there without a null in it. */
  if (array->buffers[0] && array->null_count)
    for (int64_t i = 0; i < rows; i++)
      if (!tsr__arrow_bit(array->buffers[0], from + i)) return false;
  const char *data = (const char *)array->buffers[1] + (size_t)from * size;
  /* Kernels load whole vectors of aligned buffers; an offset into a batch may have moved the data
   * off a line. */
  if ((uintptr_t)data & 63) return false;
  atomic_fetch_add(&batch->refs, 1);
  *out = (tsr__foreign){ (void *)(uintptr_t)data, (size_t)rows * size, give_back, batch };
  return true;
}

/* ---- stripes --------------------------------------------------------------------------------- */

typedef struct job {
  tsr__arrow *arrow;
  tsr__stripes stripes;
  tsr__arrow_fault *faults; /* [stripe] */
} job;

/* The batch that holds a row. The last one that begins at or before the row. Empty batches begin
 * where the next one does, so of several that begin there the last is found, which has it. */
static int64_t batch_of(const tsr__arrow *arrow, int64_t row)
{
  int64_t low = 0, high = arrow->batch_count - 1;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (arrow->first[middle] <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* Of two faults of a stripe that of the earlier row counts, then that of the earlier column:
 * whichever was read first. */
static void take_fault(tsr__arrow_fault *to, const tsr__arrow_fault *fault, int64_t row, int column)
{
  int64_t at = fault->row + row;
  to->no_memory |= fault->no_memory;
  if (!fault->row || (to->row && (to->row < at || (to->row == at && to->column < column)))) return;
  *to = *fault;
  /* Counted from one within the run until now. */
  to->row += row;
  to->column = column;
}

/*   row   of the stream       from   element of an array's buffers       at   element of the part
 */
static bool read_target(job *j, int64_t s, int target, uint64_t *spare)
{
  tsr__arrow *arrow = j->arrow;
  const tsr__read_ask *read = j->stripes.read;
  const tsr__stripe *st = &j->stripes.stripe[s];
  const tsr__read_target *t = &read->targets[target];
  int64_t row = read->rows[st->part] + st->from, end = read->rows[st->part] + st->to;
  int64_t at = t->told ? 0 : st->from;
  /* A stripe may lie over several batches: a run in each. */
  for (int64_t b = batch_of(arrow, row); row < end; b++) {
    const struct ArrowArray *batch = &arrow->batches[b]->array;
    int64_t last = arrow->first[b + 1] < end ? arrow->first[b + 1] : end;
    /* An empty batch. */
    if (last <= row) continue;
    const struct ArrowArray *array = batch->children[t->column];
    tsr__arrow_fault fault = { 0 };
    tsr__arrow_run r = { .fault = &fault,
                         .array = array,
                         .type = &arrow->types[t->column],
                         .decimal = arrow->decimal,
                         .column_type = tsr__stripes_type(&j->stripes, target),
                         .from = array->offset + batch->offset + row - arrow->first[b],
                         .count = last - row,
                         .at = at,
                         .out = t->told ? NULL : t->values[st->part],
                         .valid = t->told ? spare : t->validity[st->part],
                         .kept = tsr__stripe_kept(&j->stripes, s, target),
                         .dict = tsr__stripe_dict(&j->stripes, s, target) };
    if (!tsr__arrow_put(&r)) {
      take_fault(&j->faults[s], &fault, row, t->column);
      return false;
    }
    at += last - row;
    row = last;
  }
  return true;
}

/* What a predicate said of a batch's dictionary, by entry. */
typedef struct said {
  int64_t batch;
  uint8_t *of; /* 0: not asked yet */
  size_t room;
} said;

/* Predicates at work on a stripe. */
typedef struct asking {
  job *j;
  tsr__stripe_asks asks;
  said *said;      /* by predicate */
  uint64_t *spare; /* bits of a target of which nothing is kept */
} asking;

/* Where a predicate keeps what it said of the entry; NULL: it is asked anew. A dictionary much
 * larger than a stripe is not worth clearing a list for. */
static uint8_t *said_of(asking *a, const tsr__judge *judge, int64_t batch, int64_t entry)
{
  enum { MOST = 1 << 16 };
  const tsr__arrow *arrow = a->j->arrow;
  int column = a->j->stripes.read->targets[judge->predicate->target].column;
  said *s = &a->said[judge->predicate - a->j->stripes.read->predicates];
  size_t entries = (size_t)arrow->batches[batch]->array.children[column]->dictionary->length;
  if (entries > MOST) return NULL;
  if (!tsr__grow(arrow->heap, (void **)&s->of, &s->room, entries, 1)) return NULL;
  if (s->batch != batch + 1) memset(s->of, 0, entries);
  s->batch = batch + 1;
  return &s->of[entry];
}

static bool asks(asking *a, const tsr__judge *judge, int64_t batch, const tsr__arrow_run *r)
{
  enum { FAILS = 1, PASSES };
  tsr__text_span text;
  int64_t entry;
  if (!tsr__arrow_text(r, 0, &text, &entry)) return false;
  if (!judge) return true;
  uint8_t once = 0, *of = entry < 0 ? NULL : said_of(a, judge, batch, entry);
  if (!of) of = &once;
  if (!*of) *of = tsr__judge_text(judge, text) ? PASSES : FAILS;
  return *of == PASSES;
}

static uint64_t ask_texts(void *user, int target, tsr__stripe_word rows, uint64_t ask,
                          const tsr__judge *judge)
{
  asking *a = user;
  const tsr__arrow *arrow = a->j->arrow;
  const tsr__read_ask *read = a->j->stripes.read;
  int column = read->targets[target].column;
  int64_t first = read->rows[a->j->stripes.stripe[rows.stripe].part] + rows.from;
  int64_t b = batch_of(arrow, first);
  uint64_t bits = 0;
  for (uint64_t rest = ask; rest; rest &= rest - 1) {
    int i = __builtin_ctzll(rest);
    while (arrow->first[b + 1] <= first + i) b++;
    const struct ArrowArray *batch = &arrow->batches[b]->array, *array = batch->children[column];
    tsr__arrow_run r = { .array = array,
                         .type = &arrow->types[column],
                         .from = array->offset + batch->offset + first + i - arrow->first[b] };
    bits |= (uint64_t)asks(a, judge, b, &r) << i;
  }
  return bits;
}

/* The targets that must be there before rows are judged, or the others. */
static bool read_targets(job *j, int64_t task, bool judged, uint64_t *spare)
{
  const tsr__stripe *st = &j->stripes.stripe[task];
  for (int i = 0; i < j->stripes.read->target_count; i++) {
    const tsr__read_target *t = &j->stripes.read->targets[i];
    if (t->there || tsr__stripes_judged(&j->stripes, i) != judged) continue;
    if (t->told) memset(spare, 0, (size_t)(st->to - st->from + 63) / 64 * sizeof *spare);
    if (!read_target(j, task, i, spare) && j->faults[task].no_memory) return false;
  }
  return true;
}

/* False: out of memory. */
static bool read_judged(job *j, int64_t task, asking *a)
{
  const tsr__stripe *st = &j->stripes.stripe[task];
  if (!a->said || !a->spare || !read_targets(j, task, true, NULL)) return false;
  tsr__stripe_judge(&j->stripes, task, st->from, st->to - st->from, &a->asks);
  return !a->asks.no_memory && read_targets(j, task, false, a->spare);
}

static void judge_stripe(job *j, int64_t task)
{
  tsr__heap *heap = j->arrow->heap;
  const tsr__stripe *st = &j->stripes.stripe[task];
  int count = j->stripes.read->predicate_count;
  asking a = { .j = j, .asks = { .texts = ask_texts } };
  size_t size = (size_t)count * sizeof *a.said;
  size_t words = (size_t)(st->to - st->from + 63) / 64 * sizeof *a.spare;
  a.asks.user = &a;
  a.said = tsr__new(heap, size);
  a.spare = tsr__new(heap, words);
  tsr__judged_open(&a.asks.judged, heap);
  if (!read_judged(j, task, &a)) j->faults[task].no_memory = true;
  for (int p = 0; a.said && p < count; p++) tsr__del(heap, a.said[p].of, a.said[p].room);
  tsr__judged_close(&a.asks.judged, heap);
  tsr__del(heap, a.spare, words);
  tsr__del(heap, a.said, size);
}

static void read_stripe(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  /* Bits are put in by `or`, so the words must be 0 first; whole words are a stripe's own. */
  tsr__stripe_clear(&j->stripes, task);
  if (j->stripes.read->predicate_count) judge_stripe(j, task);
  else read_targets(j, task, false, NULL);
  tsr__stripe_count(&j->stripes, task);
}

/* The fault of the first row that has one. */
static tsr_status look_for_faults(const job *j, tsr__error *error)
{
  /* The first row, not the first stripe that failed: the message is the same for any workers. */
  const tsr__arrow_fault *first = NULL;
  for (int64_t s = 0; s < j->stripes.count; s++) {
    const tsr__arrow_fault *f = &j->faults[s];
    if (f->no_memory) return tsr__arrow_no_memory(error);
    if (f->row && (!first || f->row < first->row)) first = f;
  }
  if (!first) return TSR_OK;
  return tsr__error_set(error, TSR_EVALUE, "%s: column '%.60s' holds %s, in row %" PRId64, what,
                        j->arrow->columns[first->column].name, first->why, first->row - 1);
}

/* Faults after cancelling are not looked for: some stripes were not read then. */
static tsr_status run_job(job *j, tsr__error *error)
{
  if (!tsr__parallel_long(j->arrow->rt, what, j->stripes.count, read_stripe, j))
    return tsr__cancelled(error, what);
  if (look_for_faults(j, error)) return error->status;
  return tsr__stripes_finish(&j->stripes, what, error);
}

/* Nothing is ever retyped. Contents at fault: TSR_EVALUE, TSR_EPARSE. */
static tsr_status arrow_read(void *file, tsr__read_ask *read, tsr__error *error)
{
  tsr__arrow *arrow = file;
  job j = { .arrow = arrow };
  /* A stripe has a fault of its own, so workers share no place to write one to. */
  bool fine = tsr__stripes_open(&j.stripes, arrow->rt, read, arrow->columns, 0);
  size_t size = (size_t)(j.stripes.count + 1) * sizeof *j.faults;
  j.faults = tsr__new(arrow->heap, size);
  tsr_status status = fine && j.faults ? run_job(&j, error) : tsr__arrow_no_memory(error);
  tsr__stripes_close(&j.stripes);
  tsr__del(arrow->heap, j.faults, size);
  return status;
}

/* ---- as a reader ----------------------------------------------------------------------------- */

static void arrow_close(void *file)
{
  tsr__arrow_close(file);
}

static int arrow_columns(const void *file, const tsr__read_column **out)
{
  const tsr__arrow *arrow = file;
  *out = arrow->columns;
  return arrow->column_count;
}

static const char *arrow_path(const void *file)
{
  (void)file;
  return "stream";
}

static tsr_status arrow_count(void *file, int64_t *rows, tsr__error *error)
{
  const tsr__arrow *arrow = file;
  (void)error;
  *rows = arrow->batch_count ? arrow->first[arrow->batch_count] : 0;
  return TSR_OK;
}

static bool arrow_borrow(void *file, int column, tsr__foreign *out)
{
  return tsr__arrow_borrow(file, column, out);
}

const tsr__reader_ops tsr__arrow_reader = { .format = "arrow",
                                            .close = arrow_close,
                                            .columns = arrow_columns,
                                            .path = arrow_path,
                                            .count = arrow_count,
                                            .read = arrow_read,
                                            .borrow = arrow_borrow };
