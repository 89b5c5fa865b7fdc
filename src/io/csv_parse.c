/* Fields to values. Each column type has a short inline path for the common spelling; what that
 * does not take goes through tsr__csv_classify, which knows all spellings of all types, and
 * whose answer decides whether the value fits the column.
 *
 * Invariant: an inline path accepts only what tsr__csv_classify would, with the same value. */
#include "io/csv_inner.h"
#include "io/datetime.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- classes ----------------------------------------------------------------------------- */

static inline bool is_space(char c)
{
  return c == ' ' || c == '\t';
}

static tsr__csv_field trim(tsr__csv_field f)
{
  while (f.length && is_space(f.at[0])) f.at++, f.length--;
  while (f.length && is_space(f.at[f.length - 1])) f.length--;
  return f;
}

static inline bool is_word(tsr__csv_field f, const char *word, size_t length)
{
  return f.length == length && memcmp(f.at, word, length) == 0;
}

static bool read_bool(tsr__csv_field f, int64_t *value)
{
  *value = is_word(f, "true", 4) || is_word(f, "True", 4) || is_word(f, "TRUE", 4);
  return *value || is_word(f, "false", 5) || is_word(f, "False", 5) || is_word(f, "FALSE", 5);
}

unsigned tsr__csv_classify(const tsr__decimal *decimal, tsr__csv_field f, tsr__csv_value *value)
{
  *value = (tsr__csv_value){ 0 };
  f = trim(f);
  if (f.length >= 2 && f.at[0] == '"' && f.at[f.length - 1] == '"') {
    f.at++;
    f.length -= 2;
    f = trim(f);
  }
  if (f.length == 0 || is_word(f, "NA", 2)) return TSR__CLASS_NULL;
  if (f.length <= 5 && read_bool(f, &value->integer)) return TSR__CLASS_BOOL;
  switch (tsr__decimal_read(decimal, f.at, f.length, &value->integer, &value->real)) {
  case TSR__NUMBER_INT: return TSR__CLASS_INT;
  case TSR__NUMBER_BIG: return TSR__CLASS_BIG;
  case TSR__NUMBER_FLOAT: return TSR__CLASS_FLOAT;
  case TSR__NUMBER_NONE: break;
  }
  int32_t days;
  if (tsr__date_read(f.at, f.length, &days)) {
    value->integer = days;
    return TSR__CLASS_DATE;
  }
  if (tsr__time_read(f.at, f.length, &value->integer)) return TSR__CLASS_TIME;
  return TSR__CLASS_TEXT;
}

/* The table of csv.h. */
tsr__coltype tsr__csv_type_of(unsigned seen)
{
  const unsigned ints = TSR__CLASS_INT | TSR__CLASS_BIG, reals = ints | TSR__CLASS_FLOAT;
  const unsigned times = TSR__CLASS_DATE | TSR__CLASS_TIME;
  seen &= ~(unsigned)TSR__CLASS_NULL;
  if (seen == 0) return TSR__COL_F64;
  if (seen == TSR__CLASS_BOOL) return TSR__COL_BOOL;
  if (seen == TSR__CLASS_INT) return TSR__COL_I64;
  if (seen == TSR__CLASS_DATE) return TSR__COL_DATE;
  if ((seen & TSR__CLASS_FLOAT) && !(seen & ~reals)) return TSR__COL_F64;
  if ((seen & TSR__CLASS_TIME) && !(seen & ~times)) return TSR__COL_TIME;
  return TSR__COL_TEXT;
}

/* The classes whose values a column of a type can hold. */
static unsigned accepted(tsr__coltype type)
{
  switch (type) {
  case TSR__COL_BOOL: return TSR__CLASS_NULL | TSR__CLASS_BOOL;
  case TSR__COL_I64: return TSR__CLASS_NULL | TSR__CLASS_INT;
  case TSR__COL_F64:
    return TSR__CLASS_NULL | TSR__CLASS_INT | TSR__CLASS_BIG | TSR__CLASS_FLOAT;
  case TSR__COL_DATE: return TSR__CLASS_NULL | TSR__CLASS_DATE;
  case TSR__COL_TIME: return TSR__CLASS_NULL | TSR__CLASS_DATE | TSR__CLASS_TIME;
  case TSR__COL_TEXT: break;
  }
  return 0;
}

/* ---- fields --------------------------------------------------------------------------------- */

static inline tsr__csv_field field_of(const tsr__csv_batch *b, int row, int column)
{
  size_t at = (size_t)row * (size_t)b->columns + (size_t)column;
  uint32_t from = (column ? b->ends[at - 1] : b->begins[row]) + 1;
  uint32_t to = column + 1 == b->columns ? b->lasts[row] : b->ends[at];
  return (tsr__csv_field){ b->base + from, to - from };
}

tsr__csv_field tsr__csv_field_of(const tsr__csv_batch *batch, int row, int column)
{
  return field_of(batch, row, column);
}

/* ---- contrary values ------------------------------------------------------------------------ */

static void keep_contrary(tsr__csv_lane *lane, const tsr__csv_batch *batch, int row,
                          tsr__csv_field field)
{
  if (lane->contrary_row >= 0) return;
  size_t length = field.length < sizeof lane->contrary_text ? field.length
                                                            : sizeof lane->contrary_text - 1;
  lane->contrary_row = batch->first_row + row;
  memcpy(lane->contrary_text, field.at, length);
  lane->contrary_text[length] = 0;
}

static void classify_from(const tsr__csv *csv, int column, const tsr__csv_batch *batch,
                          tsr__csv_lane *lane, int row)
{
  tsr__csv_value value;
  for (; row < batch->rows; row++)
    lane->seen |= tsr__csv_classify(csv->decimal, field_of(batch, row, column), &value);
}

/* ---- typed columns --------------------------------------------------------------------------- */

/* What a typed loop works on: one column of one batch. */
struct job {
  const tsr__csv *csv;
  const tsr__csv_batch *batch;
  tsr__csv_lane *lane;
  int column;
  tsr__coltype type;
};

/* The class of a value that no inline path took; 0 if it does not fit the column. */
static unsigned slow_value(const struct job *job, int row, tsr__csv_value *value)
{
  tsr__csv_field field = field_of(job->batch, row, job->column);
  unsigned class = tsr__csv_classify(job->csv->decimal, field, value);
  job->lane->seen |= class;
  if (!(class & accepted(job->type))) {
    keep_contrary(job->lane, job->batch, row, field);
    return 0;
  }
  if (class == TSR__CLASS_DATE && job->type == TSR__COL_TIME)
    value->integer *= INT64_C(86400000000);
  return class;
}

typedef bool fast_fn(const struct job *job, tsr__csv_field field, tsr__csv_value *value);
typedef void store_fn(void *out, int i, const tsr__csv_value *value);

/* Parses up to 64 rows from `row` into out[0..]; returns the validity word. */
ALWAYS_INLINE uint64_t parse_word(const struct job *job, int row, int count, void *out,
                                  fast_fn *fast, store_fn *store)
{
  uint64_t valid = 0;
  for (int i = 0; i < count; i++) {
    tsr__csv_value value;
    bool is_valid = true;
    if (!fast(job, field_of(job->batch, row + i, job->column), &value)) {
      unsigned class = slow_value(job, row + i, &value);
      if (class == 0) {
        job->lane->classify = true;
        return valid;
      }
      is_valid = class != TSR__CLASS_NULL;
    }
    store(out, i, &value);
    valid |= (uint64_t)is_valid << i;
  }
  return valid;
}

/* One to eight digits and an optional minus. Reads past the field, into the padding at most. */
static inline bool fast_i64(const struct job *job, tsr__csv_field f, tsr__csv_value *value)
{
  (void)job;
  bool negative = f.length && f.at[0] == '-';
  const char *at = f.at + negative;
  size_t length = f.length - negative;
  if (length - 1 >= 8) return false;
  uint64_t x;
  memcpy(&x, at, 8);
  unsigned shift = 64 - 8 * (unsigned)length;
  x = (x << shift) | (shift ? UINT64_C(0x3030303030303030) >> (64 - shift) : 0);
  uint64_t low = x - UINT64_C(0x3030303030303030);
  uint64_t high = x + UINT64_C(0x4646464646464646);
  if ((low | high) & UINT64_C(0x8080808080808080)) return false;
  x = low * 10 + (low >> 8);
  x = ((x & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
       ((x >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >> 32;
  int64_t integer = (int64_t)(x & UINT32_MAX);
  value->integer = negative ? -integer : integer;
  return true;
}

static inline bool fast_f64(const struct job *job, tsr__csv_field f, tsr__csv_value *value)
{
  if (f.length == 0 || f.at[0] < '+' || f.at[0] > '9') return false;
  return tsr__decimal_read(job->csv->decimal, f.at, f.length, &value->integer, &value->real) !=
         TSR__NUMBER_NONE;
}

static inline bool fast_date(const struct job *job, tsr__csv_field f, tsr__csv_value *value)
{
  int32_t days;
  (void)job;
  if (!tsr__date_read(f.at, f.length, &days)) return false;
  value->integer = days;
  return true;
}

static inline bool fast_time(const struct job *job, tsr__csv_field f, tsr__csv_value *value)
{
  (void)job;
  return tsr__time_read(f.at, f.length, &value->integer);
}

static inline bool fast_bool(const struct job *job, tsr__csv_field f, tsr__csv_value *value)
{
  (void)job;
  return read_bool(f, &value->integer);
}

static inline void store_i64(void *out, int i, const tsr__csv_value *value)
{
  ((int64_t *)out)[i] = value->integer;
}

static inline void store_f64(void *out, int i, const tsr__csv_value *value)
{
  ((double *)out)[i] = value->real;
}

static inline void store_i32(void *out, int i, const tsr__csv_value *value)
{
  ((int32_t *)out)[i] = (int32_t)value->integer;
}

static inline void store_bit(void *out, int i, const tsr__csv_value *value)
{
  uint64_t word = i ? *(uint64_t *)out : 0;
  *(uint64_t *)out = word | (uint64_t)value->integer << i;
}

/* ---- text ---------------------------------------------------------------------------------------- */

/* Takes the quotes off and halves doubled ones, into scratch. NULL: out of memory. */
static const char *unquote(tsr__dict_local *dict, tsr__csv_field *f)
{
  const char *at = f->at + 1, *end = f->at + f->length - 1;
  f->length = (size_t)(end - at);
  if (!memchr(at, '"', f->length)) return at;
  if (!tsr__grow(dict->heap, (void **)&dict->scratch, &dict->scratch_size, f->length, 1))
    return NULL;
  size_t count = 0;
  for (; at < end; at++) {
    dict->scratch[count++] = *at;
    if (*at == '"') at++;
  }
  f->length = count;
  return dict->scratch;
}

static uint64_t text_word(const struct job *job, int row, int count, void *out)
{
  tsr__csv_lane *lane = job->lane;
  for (int i = 0; i < count; i++) {
    tsr__csv_field f = field_of(job->batch, row + i, job->column);
    const char *text = f.at;
    bool added, quoted = f.length >= 2 && text[0] == '"';
    if (quoted && !(text = unquote(&lane->dict, &f))) {
      lane->no_memory = true;
      return 0;
    }
    int32_t code = tsr__dict_code(&lane->dict, text, f.length, text == lane->dict.scratch, &added);
    if (code < 0) {
      lane->no_memory = true;
      return 0;
    }
    if (added && lane->bad_row < 0 && !tsr__utf8_valid(text, f.length))
      lane->bad_row = job->batch->first_row + row + i;
    ((int32_t *)out)[i] = code;
  }
  return count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

/* ---- a column of a batch -------------------------------------------------------------------------- */

static uint64_t any_word(const struct job *job, int row, int count, char *values, int64_t at)
{
  switch (job->type) {
  case TSR__COL_BOOL:
    return parse_word(job, row, count, values + at / 8, fast_bool, store_bit);
  case TSR__COL_I64:
    return parse_word(job, row, count, values + at * 8, fast_i64, store_i64);
  case TSR__COL_F64:
    return parse_word(job, row, count, values + at * 8, fast_f64, store_f64);
  case TSR__COL_DATE:
    return parse_word(job, row, count, values + at * 4, fast_date, store_i32);
  case TSR__COL_TIME:
    return parse_word(job, row, count, values + at * 8, fast_time, store_i64);
  case TSR__COL_TEXT: break;
  }
  return text_word(job, row, count, values + at * 4);
}

void tsr__csv_parse(const tsr__csv *csv, int column, const tsr__csv_batch *batch,
                    tsr__csv_lane *lane, void *values, uint64_t *validity, int64_t at)
{
  struct job job = { csv, batch, lane, column, csv->columns[column].type };
  if (lane->classify) {
    classify_from(csv, column, batch, lane, 0);
    return;
  }
  for (int row = 0; row < batch->rows && !lane->no_memory; row += 64) {
    int count = batch->rows - row < 64 ? batch->rows - row : 64;
    uint64_t word = any_word(&job, row, count, values, at + row);
    validity[(at + row) / 64] = word;
    lane->nulls += count - __builtin_popcountll(word);
    if (lane->classify) {
      classify_from(csv, column, batch, lane, row);
      return;
    }
  }
}
