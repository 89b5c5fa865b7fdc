/* Rows that came through the Arrow C interface, to values.
 *
 *   batch 0 |offset 3: ...rows...|   batch 1 |rows|     validity bits of any offset
 *                  v                     v
 *   part 0 |stripe 0|stripe 1|  part 1 |stripe 2|       words of bits of their own
 *
 * Invariant: a batch is released once, when nobody holds it any more: the reader, and each buffer that
 * was borrowed from it, have one reference each. */
#include "io/arrow_inner.h"
#include "io/stripes.h"
#include "io/system.h"

#include <errno.h>
#include <inttypes.h>

static const char what[] = "tsr_frame_from_arrow";

/* ---- opening --------------------------------------------------------------------------------- */

static void drop_batch(tsr__arrow_batch *batch)
{
  if (!batch || atomic_fetch_sub(&batch->refs, 1) != 1) return;
  if (batch->array.release) batch->array.release(&batch->array);
  tsr__del(batch->heap, batch, sizeof *batch);
}

static tsr_status producer_failed(struct ArrowArrayStream *stream, int code, tsr__error *error)
{
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
    return tsr__error_set(error, TSR_EARG, "%s: the stream gave a schema that was released", what);
  tsr_status status = tsr__arrow_schema(arrow, &schema, error);
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
    batch->array.release = NULL;
    producer_failed(stream, code, error);
  } else if (batch->array.release && !tsr__arrow_check(arrow, &batch->array, error)) {
    return batch;
  }
  drop_batch(batch);
  return NULL;
}

static tsr_status take_batches(tsr__arrow *arrow, struct ArrowArrayStream *stream,
                               tsr__error *error)
{
  tsr__heap *heap = arrow->heap;
  for (;;) {
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
    if (rows > INT64_MAX / 16)
      return tsr__error_set(error, TSR_EARG, "%s: the batches have more rows than memory", what);
  }
}

tsr__arrow *tsr__arrow_open(tsr_runtime *rt, struct ArrowArrayStream *stream, tsr__error *error)
{
  struct ArrowArrayStream own = { 0 };
  if (stream) {
    own = *stream;
    stream->release = NULL;
  }
  if (!own.release || !own.get_schema || !own.get_next) {
    tsr__error_set(error, TSR_EARG,
                   "%s: the stream is NULL, was released or lacks its calls; make a new one", what);
    if (own.release) own.release(&own);
    return NULL;
  }
  tsr__arrow *arrow = tsr__new(&rt->heap, sizeof *arrow);
  if (arrow) {
    arrow->rt = rt;
    arrow->heap = &rt->heap;
    if (!take_schema(arrow, &own, error)) take_batches(arrow, &own, error);
  } else {
    tsr__arrow_no_memory(error);
  }
  if (own.release) own.release(&own);
  if (!error->status) return arrow;
  tsr__arrow_close(arrow);
  return NULL;
}

void tsr__arrow_close(tsr__arrow *arrow)
{
  if (!arrow) return;
  tsr__heap *heap = arrow->heap;
  for (int64_t b = 0; b < arrow->batch_count; b++) drop_batch(arrow->batches[b]);
  for (int i = 0; i < arrow->column_count; i++)
    tsr__del(heap, arrow->columns[i].name, strlen(arrow->columns[i].name) + 1);
  tsr__del(heap, arrow->columns, (size_t)arrow->column_count * sizeof *arrow->columns);
  tsr__del(heap, arrow->types, (size_t)arrow->column_count * sizeof *arrow->types);
  tsr__del(heap, arrow->batches, arrow->batch_room * sizeof *arrow->batches);
  tsr__del(heap, arrow->first, arrow->first_room * sizeof *arrow->first);
  tsr__del(heap, arrow, sizeof *arrow);
}

int tsr__arrow_columns(const tsr__arrow *arrow, const tsr__csv_column **out)
{
  *out = arrow->columns;
  return arrow->column_count;
}

int64_t tsr__arrow_rows(const tsr__arrow *arrow)
{
  return arrow->batch_count ? arrow->first[arrow->batch_count] : 0;
}

int64_t tsr__arrow_batches(const tsr__arrow *arrow)
{
  return arrow->batch_count;
}

/* ---- borrowing ------------------------------------------------------------------------------- */

static bool bit_at(const void *bits, int64_t at)
{
  return ((const uint8_t *)bits)[at / 8] >> (at % 8) & 1;
}

static void give_back(void *data, void *user)
{
  (void)data;
  drop_batch(user);
}

bool tsr__arrow_borrow(tsr__arrow *arrow, int column, tsr__foreign *out)
{
  const tsr__arrow_type *type = &arrow->types[column];
  if (arrow->batch_count != 1 || type->entries || type->factor != 1 || type->divisor != 1)
    return false;
  tsr__arrow_batch *batch = arrow->batches[0];
  const struct ArrowArray *array = batch->array.children[column];
  int64_t rows = batch->array.length, from = array->offset + batch->array.offset;
  size_t size = 0;
  if (type->layout == TSR__ARROW_I32 || type->layout == TSR__ARROW_F32) size = 4;
  if (type->layout == TSR__ARROW_I64 || type->layout == TSR__ARROW_F64) size = 8;
  if (!size || !rows) return false;
  if (array->buffers[0] && array->null_count)
    for (int64_t i = 0; i < rows; i++)
      if (!bit_at(array->buffers[0], from + i)) return false;
  const char *data = (const char *)array->buffers[1] + (size_t)from * size;
  if ((uintptr_t)data & 63) return false;
  atomic_fetch_add(&batch->refs, 1);
  *out = (tsr__foreign){ (void *)(uintptr_t)data, (size_t)rows * size, give_back, batch };
  return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What went wrong in a stripe. */
typedef struct fault {
  bool no_memory;
  int64_t row; /* of the stream, counted from 1; 0: none */
  int column;
  const char *why;
} fault;

typedef struct job {
  tsr__arrow *arrow;
  tsr__stripes stripes;
  fault *faults; /* [stripe] */
} job;

/* Rows of one batch on their way to one column of one stripe. */
typedef struct run {
  fault *fault;
  const struct ArrowArray *array;
  const tsr__arrow_type *type;
  tsr__coltype column_type;
  int64_t from; /* the first one's element in the array's buffers */
  int64_t count;
  int64_t at; /* its element in the part */
  void *out;
  uint64_t *valid;
  tsr__dict_local *dict;
} run;

static bool fail_at(run *r, int64_t i, const char *why)
{
  r->fault->row = i + 1; /* in the run; made the stream's by read_target */
  r->fault->why = why;
  return false;
}

static inline int64_t integer_at(const void *buffer, int layout, int64_t at)
{
  switch (layout) {
  case TSR__ARROW_BOOL: return bit_at(buffer, at);
  case TSR__ARROW_I8: return ((const int8_t *)buffer)[at];
  case TSR__ARROW_U8: return ((const uint8_t *)buffer)[at];
  case TSR__ARROW_I16: return ((const int16_t *)buffer)[at];
  case TSR__ARROW_U16: return ((const uint16_t *)buffer)[at];
  case TSR__ARROW_I32: return ((const int32_t *)buffer)[at];
  case TSR__ARROW_U32: return ((const uint32_t *)buffer)[at];
  default: return ((const int64_t *)buffer)[at];
  }
}

static bool is_valid(const run *r, int64_t i)
{
  return r->valid[(r->at + i) / 64] >> ((r->at + i) % 64) & 1;
}

/* Validity of any offset to bits of the part's words, which are 0. */
static void put_validity(run *r)
{
  const void *bits = r->type->layout == TSR__ARROW_NULL ? NULL : r->array->buffers[0];
  if (r->type->layout == TSR__ARROW_NULL) return;
  for (int64_t i = 0; i < r->count; i++) {
    bool valid = !bits || bit_at(bits, r->from + i);
    r->valid[(r->at + i) / 64] |= (uint64_t)valid << ((r->at + i) % 64);
  }
}

/* Dates, times and integers. */
static bool put_integers(run *r)
{
  const void *buffer = r->array->buffers[1];
  bool narrow = r->column_type == TSR__COL_I32 || r->column_type == TSR__COL_DATE;
  for (int64_t i = 0; i < r->count; i++) {
    if (!is_valid(r, i)) continue;
    int64_t value = integer_at(buffer, r->type->layout, r->from + i);
    if (r->type->layout == TSR__ARROW_U64 && value < 0)
      return fail_at(r, i, "an unsigned integer beyond 2^63 - 1");
    if (__builtin_mul_overflow(value, r->type->factor, &value))
      return fail_at(r, i, "a time beyond what 64 bits of microseconds hold");
    if (value % r->type->divisor)
      return fail_at(
          r, i, narrow ? "a date that is no whole day" : "a time that is no whole microsecond");
    value /= r->type->divisor;
    if (narrow && (value < INT32_MIN || value > INT32_MAX))
      return fail_at(r, i, "a date beyond what 32 bits of days hold");
    if (narrow) ((int32_t *)r->out)[r->at + i] = (int32_t)value;
    else ((int64_t *)r->out)[r->at + i] = value;
  }
  return true;
}

static bool put_bools(run *r)
{
  uint64_t *words = r->out;
  for (int64_t i = 0; i < r->count; i++) {
    bool value = is_valid(r, i) && bit_at(r->array->buffers[1], r->from + i);
    words[(r->at + i) / 64] |= (uint64_t)value << ((r->at + i) % 64);
  }
  return true;
}

/* Floats; what lies under a null becomes 0. */
static bool put_floats(run *r)
{
  size_t size = r->type->layout == TSR__ARROW_F32 ? 4 : 8;
  const char *from = (const char *)r->array->buffers[1] + (size_t)r->from * size;
  char *to = (char *)r->out + (size_t)r->at * size;
  if (!r->array->buffers[0]) {
    memcpy(to, from, (size_t)r->count * size);
    return true;
  }
  for (int64_t i = 0; i < r->count; i++)
    if (is_valid(r, i)) memcpy(to + (size_t)i * size, from + (size_t)i * size, size);
  return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* One text of an array; false where its place cannot be. */
static bool text_at(const struct ArrowArray *array, int layout, int64_t at, const char **text,
                    size_t *length)
{
  const char *bytes = array->buffers[2];
  int64_t from, to;
  if (layout == TSR__ARROW_TEXT_VIEW) {
    const char *view = (const char *)array->buffers[1] + (size_t)at * 16;
    int32_t size, index, start;
    memcpy(&size, view, 4);
    memcpy(&index, view + 8, 4);
    memcpy(&start, view + 12, 4);
    if (size < 0) return false;
    *text = view + 4;
    *length = (size_t)size;
    if (size <= 12) return true;
    if (index < 0 || index >= array->n_buffers - 3 || start < 0) return false;
    int64_t room;
    memcpy(&room, (const char *)array->buffers[array->n_buffers - 1] + (size_t)index * 8, 8);
    if (start > room || size > room - start) return false;
    *text = (const char *)array->buffers[2 + index] + start;
    return true;
  }
  if (layout == TSR__ARROW_TEXT) {
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    from = offsets[0];
    to = offsets[1];
  } else {
    const int64_t *offsets = (const int64_t *)array->buffers[1] + at;
    from = offsets[0];
    to = offsets[1];
  }
  if (from < 0 || to < from || (to > from && !bytes)) return false;
  *text = bytes ? bytes + from : "";
  *length = (size_t)(to - from);
  return true;
}

/* Where the texts of a run lie: in the column or in its dictionary. */
typedef struct texts {
  const struct ArrowArray *array;
  int layout;
} texts;

/* The code of a text for row `i` of a run, whose bytes are looked at when it is new. */
static bool put_text(run *r, int64_t i, texts from, int64_t at, int32_t *code)
{
  const char *text;
  size_t length;
  bool added;
  if (!text_at(from.array, from.layout, at, &text, &length))
    return fail_at(r, i, "a text whose offsets cannot be");
  *code = tsr__dict_code(r->dict, text, length, false, &added);
  if (*code < 0) {
    r->fault->no_memory = true;
    return false;
  }
  return !added || tsr__utf8_valid(text, length) || fail_at(r, i, "a text that is no UTF-8");
}

static bool put_texts(run *r)
{
  int32_t *codes = r->out;
  for (int64_t i = 0; i < r->count; i++)
    if (is_valid(r, i) &&
        !put_text(r, i, (texts){ r->array, r->type->layout }, r->from + i, &codes[r->at + i]))
      return false;
  return true;
}

static void make_null(run *r, int64_t i)
{
  r->valid[(r->at + i) / 64] &= ~(UINT64_C(1) << ((r->at + i) % 64));
}

/* `known` (NULL: not kept) says which code an entry got: each is looked up once. */
static bool put_indexed(run *r, int32_t *known)
{
  const struct ArrowArray *entries = r->array->dictionary;
  const void *entry_bits = entries->buffers[0];
  int32_t *codes = r->out;
  for (int64_t i = 0; i < r->count; i++) {
    if (!is_valid(r, i)) continue;
    int64_t index = integer_at(r->array->buffers[1], r->type->layout, r->from + i);
    if (index < 0 || index >= entries->length)
      return fail_at(r, i, "an index outside the dictionary");
    if (entry_bits && !bit_at(entry_bits, entries->offset + index)) {
      make_null(r, i);
      continue;
    }
    int32_t *code = &codes[r->at + i];
    if (known && known[index]) {
      *code = known[index] - 1;
      continue;
    }
    texts from = { entries, r->type->entries };
    if (!put_text(r, i, from, entries->offset + index, code)) return false;
    if (known) known[index] = *code + 1;
  }
  return true;
}

static bool put_dictionary(run *r)
{
  int64_t entries = r->array->dictionary->length;
  if (entries > r->count * 4) return put_indexed(r, NULL);
  size_t bytes = ((size_t)entries + 1) * sizeof(int32_t);
  tsr__heap *heap = r->dict->heap;
  int32_t *known = tsr__new(heap, bytes);
  bool fine = known && put_indexed(r, known);
  if (!known) r->fault->no_memory = true;
  tsr__del(heap, known, bytes);
  return fine;
}

/* ---- stripes ----------------------------------------------------------------------------------- */

static bool put_run(run *r)
{
  put_validity(r);
  if (r->type->entries) return put_dictionary(r);
  switch (r->type->layout) {
  case TSR__ARROW_NULL: return true;
  case TSR__ARROW_BOOL: return put_bools(r);
  case TSR__ARROW_F32:
  case TSR__ARROW_F64: return put_floats(r);
  case TSR__ARROW_TEXT:
  case TSR__ARROW_LARGE_TEXT:
  case TSR__ARROW_TEXT_VIEW: return put_texts(r);
  default: return put_integers(r);
  }
}

/* The batch that holds a row. */
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

static bool read_target(job *j, int64_t s, int target)
{
  tsr__arrow *arrow = j->arrow;
  const tsr__csv_read *read = j->stripes.read;
  const tsr__stripe *st = &j->stripes.stripe[s];
  const tsr__csv_target *t = &read->targets[target];
  int64_t row = read->rows[st->part] + st->from, end = read->rows[st->part] + st->to;
  int64_t at = st->from;
  for (int64_t b = batch_of(arrow, row); row < end; b++) {
    const struct ArrowArray *batch = &arrow->batches[b]->array;
    int64_t last = arrow->first[b + 1] < end ? arrow->first[b + 1] : end;
    if (last <= row) continue;
    const struct ArrowArray *array = batch->children[t->column];
    run r = { .fault = &j->faults[s],
              .array = array,
              .type = &arrow->types[t->column],
              .column_type = tsr__stripes_type(&j->stripes, target),
              .from = array->offset + batch->offset + row - arrow->first[b],
              .count = last - row,
              .at = at,
              .out = t->values[st->part],
              .valid = t->validity[st->part],
              .dict = tsr__stripe_dict(&j->stripes, s, target) };
    if (!put_run(&r)) {
      j->faults[s].row += j->faults[s].row ? row : 0;
      j->faults[s].column = t->column;
      return false;
    }
    at += last - row;
    row = last;
  }
  return true;
}

static void read_stripe(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  for (int i = 0; i < j->stripes.read->target_count; i++) {
    tsr__stripe_clear(&j->stripes, task, i);
    if (!read_target(j, task, i)) return;
    tsr__stripe_count(&j->stripes, task, i);
  }
}

/* The fault of the first row that has one. */
static tsr_status look_for_faults(const job *j, tsr__error *error)
{
  const fault *first = NULL;
  for (int64_t s = 0; s < j->stripes.count; s++) {
    const fault *f = &j->faults[s];
    if (f->no_memory) return tsr__arrow_no_memory(error);
    if (f->row && (!first || f->row < first->row)) first = f;
  }
  if (!first) return TSR_OK;
  return tsr__error_set(error, TSR_EVALUE, "%s: column '%.60s' holds %s, in row %" PRId64, what,
                        j->arrow->columns[first->column].name, first->why, first->row - 1);
}

static tsr_status run_job(job *j, tsr__error *error)
{
  if (!tsr__parallel_long(j->arrow->rt, what, j->stripes.count, read_stripe, j))
    return tsr__cancelled(error, what);
  if (look_for_faults(j, error)) return error->status;
  return tsr__stripes_finish(&j->stripes, what, error);
}

tsr_status tsr__arrow_read_parts(tsr__arrow *arrow, tsr__csv_read *read, tsr__error *error)
{
  job j = { .arrow = arrow };
  bool fine = tsr__stripes_open(&j.stripes, arrow->rt, read, arrow->columns, 0);
  size_t size = (size_t)(j.stripes.count + 1) * sizeof *j.faults;
  j.faults = tsr__new(arrow->heap, size);
  tsr_status status = fine && j.faults ? run_job(&j, error) : tsr__arrow_no_memory(error);
  tsr__stripes_close(&j.stripes);
  tsr__del(arrow->heap, j.faults, size);
  return status;
}
