/* Fields to values. Each column type has a short inline path for the common spelling; what that
 * does not take goes through tsr__csv_classify, which knows all spellings of all types, and
 * whose answer decides whether the value fits the column.
 *
 * Invariant: an inline path accepts only what tsr__csv_classify would, with the same value. */
#include "io/csv/csv_inner.h"
#include "io/text/datetime.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- classes ----------------------------------------------------------------------------- */

static inline bool is_space(char c)
{
  return c == ' ' || c == '\t';
}

static tsr__text_span trim(tsr__text_span f)
{
  while (f.length && is_space(f.at[0])) f.at++, f.length--;
  while (f.length && is_space(f.at[f.length - 1])) f.length--;
  return f;
}

static inline bool is_word(tsr__text_span f, const char *word, size_t length)
{
  return f.length == length && memcmp(f.at, word, length) == 0;
}

static bool read_bool(tsr__text_span f, int64_t *value)
{
  *value = is_word(f, "true", 4) || is_word(f, "True", 4) || is_word(f, "TRUE", 4);
  /* Three spellings of each, JSON's, Python's and R's; "0" and "1" are integers. */
  return *value || is_word(f, "false", 5) || is_word(f, "False", 5) || is_word(f, "FALSE", 5);
}

static bool is_marker(const tsr__csv *csv, tsr__text_span f)
{
  for (int m = 0; m < csv->marker_count; m++)
    if (is_word(f, csv->marker[m].at, csv->marker[m].length)) return true;
  return csv->null_bytes && f.length == 1 && (unsigned char)f.at[0] == TSR__CSV_NULL;
}

/* Whether a field of a text column is null: see text_nulls. */
static bool is_null_text(const tsr__csv *csv, tsr__text_span f)
{
  if (csv->opts.text_nulls) return f.length == 0 || is_marker(csv, f);
  return csv->null_bytes && f.length == 1 && (unsigned char)f.at[0] == TSR__CSV_NULL;
}

/* A field without blanks and quotes around it. */
static tsr__text_span bare(tsr__text_span f)
{
  f = trim(f);
  /* "12" in quotes is the number 12, as pandas reads it; what must stay text is given that type. */
  if (f.length < 2 || f.at[0] != '"' || f.at[f.length - 1] != '"') return f;
  f.at++;
  f.length -= 2;
  return trim(f);
}

/* Whether an integer begins with zeros that it would not be written with: 007 and -01, not 0. */
static unsigned zeros_of(tsr__text_span f)
{
  if (f.at[0] == '-' || f.at[0] == '+') f.at++, f.length--;
  return f.length > 1 && f.at[0] == '0' ? TSR__CLASS_CODE : 0;
}

unsigned tsr__csv_classify(const tsr__csv *csv, tsr__text_span f, tsr__read_value *value)
{
  *value = (tsr__read_value){ 0 };
  f = bare(f);
  /* Null markers first: -999 may be one, and would be a number. */
  if (f.length == 0 || is_marker(csv, f)) return TSR__CLASS_NULL;
  if (f.length <= 5 && read_bool(f, &value->integer)) return TSR__CLASS_BOOL;
  switch (tsr__decimal_read(csv->decimal, f.at, f.length, &value->integer, &value->real)) {
  case TSR__NUMBER_INT: return TSR__CLASS_INT | zeros_of(f);
  /* Digits beyond i64: u64 may hold them, a float does in any case. */
  case TSR__NUMBER_BIG:
    value->natural = tsr__decimal_natural(f.at, f.length, (uint64_t *)&value->integer);
    return TSR__CLASS_BIG | zeros_of(f);
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

bool tsr__csv_fits(tsr_coltype type, unsigned class, const tsr__read_value *value)
{
  if (class & TSR__CLASS_CODE) return false;
  switch (type) {
  /* What a type takes without losing anything. Integers pass as floats and so on in
   * tsr__number_fits; dates are times at midnight. */
  case TSR_COL_BOOL: return class & (TSR__CLASS_NULL | TSR__CLASS_BOOL);
  case TSR_COL_DATE: return class & (TSR__CLASS_NULL | TSR__CLASS_DATE);
  case TSR_COL_TIME: return class & (TSR__CLASS_NULL | TSR__CLASS_DATE | TSR__CLASS_TIME);
  /* Nothing is ever looked at in a column of text: all fits. */
  case TSR_COL_TEXT: return false;
  default: return class == TSR__CLASS_NULL || tsr__number_fits(type, class, value);
  }
}

/* ---- fields --------------------------------------------------------------------------------- */

/* The choices that a column's place makes, made once. For column c of a batch of n columns:
 *
 *    begin   one behind the end of column c - 1 in the same row (ends, n apart)
 *            or, of column 0, behind the byte before the row (begins, 1 apart)
 *    end     the end of column c (ends, n apart), of the last one without CR (lasts, 1 apart) */
static inline tsr__csv_fields fields_of(const tsr__csv_batch *b, int column)
{
  size_t step = (size_t)b->columns;
  bool last = column + 1 == b->columns;
  return (tsr__csv_fields){ .base = b->base,
                            .before = column ? b->ends + column - 1 : b->begins,
                            .before_step = column ? step : 1,
                            .end = last ? b->lasts : b->ends + column,
                            .end_step = last ? 1 : step };
}

static inline tsr__text_span field_at(const tsr__csv_fields *f, int row)
{
  uint32_t from = f->before[(size_t)row * f->before_step] + 1;
  return (tsr__text_span){ f->base + from, f->end[(size_t)row * f->end_step] - from };
}

/* ---- contrary values ------------------------------------------------------------------------ */

/* From the first value that does not fit on, a column is only looked at: its classes say what it
 * will be read as next. */
static void classify_from(const tsr__csv *csv, tsr__csv_fields fields, int from, int to,
                          tsr__csv_lane *lane)
{
  tsr__read_value value;
  for (int row = from; row < to; row++)
    lane->seen |= tsr__csv_classify(csv, field_at(&fields, row), &value);
}

/* ---- typed columns --------------------------------------------------------------------------- */

/* What a typed loop works on: one column of one batch. */
struct job {
  const tsr__csv *csv;
  const tsr__csv_batch *batch;
  tsr__csv_lane *lane;
  tsr__csv_fields fields;
  tsr_coltype type;
  bool forced, slow; /* slow: what looks like a value may be a null marker */
  char point;
  uint64_t keep; /* rows of the word at hand that are wanted */
};

/* The class of a value that no inline path took; 0 if it does not fit the column. What does not fit
 * a forced type is bad, and null until the error is given. */
static unsigned slow_value(const struct job *job, int row, tsr__read_value *value)
{
  tsr__text_span field = field_at(&job->fields, row);
  tsr__csv_lane *lane = job->lane;
  unsigned class = tsr__csv_classify(job->csv, field, value);
  lane->seen |= class;
  /* Who gives a type wants the number, whatever its zeros. */
  if (job->forced) class &= ~(unsigned)TSR__CLASS_CODE;
  if (!tsr__csv_fits(job->type, class, value)) {
    /* Forced types keep theirs, and the value is an error. Found ones yield to the value. */
    int64_t *first = job->forced ? &lane->bad_row : &lane->contrary_row;
    if (*first < 0) *first = job->batch->first_row + row;
    *value = (tsr__read_value){ 0 };
    return job->forced ? TSR__CLASS_NULL : 0;
  }
  /* Days to microseconds. */
  if (class == TSR__CLASS_DATE && job->type == TSR_COL_TIME) value->integer *= INT64_C(86400000000);
  tsr_dtype dtype = (tsr_dtype)job->type;
  /* f32 and less are rounded from the text, not from an f64 that was rounded before: twice is not
   * once. */
  if (tsr__dtype_is_real(dtype) && dtype != TSR_F64) {
    field = bare(field);
    value->real = tsr__decimal_round(job->csv->decimal, dtype, field.at, field.length, value->real);
  }
  return class;
}

typedef bool fast_fn(const struct job *job, tsr__text_span field, tsr__read_value *value);
typedef bool plain_fn(const struct job *job, tsr__text_span field);
typedef void store_fn(void *out, int i, const tsr__read_value *value);

/* How a type is parsed and stored; constants, so that both are inlined into the loop. */
struct codec {
  fast_fn *fast;
  store_fn *store;
  uint64_t done;   /* rows of the word that have their value already */
  plain_fn *plain; /* whether `fast` would take the field, for values that nobody wants; or NULL */
};

/* Parses up to 64 rows from `row` into out[0..]; returns the validity word. */
ALWAYS_INLINE uint64_t parse_word(const struct job *job, int row, int count, void *out,
                                  struct codec codec)
{
  const tsr__csv_fields fields = job->fields;
  uint64_t valid = codec.done, all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  for (uint64_t rest = all & ~codec.done; rest; rest &= rest - 1) {
    int i = __builtin_ctzll(rest);
    tsr__read_value value;
    bool is_valid = true;
    /* A value nobody wants is only looked at, so that errors and types are those of a whole
     * reading. If it is plain it needs not even that. */
    if (codec.plain && !(job->keep >> i & 1) && !job->slow &&
        codec.plain(job, field_at(&fields, row + i))) {
      value = (tsr__read_value){ 0 };
    } else if (job->slow || !codec.fast(job, field_at(&fields, row + i), &value)) {
      unsigned class = slow_value(job, row + i, &value);
      /* This word's rows are looked at once more from `row` on, by classify_from. */
      if (class == 0) {
        job->lane->classify = true;
        return valid;
      }
      is_valid = class != TSR__CLASS_NULL;
    }
    codec.store(out, i, &value);
    valid |= (uint64_t)is_valid << i;
  }
  return valid;
}

/* Those of a word's numbers that can be parsed several at a time. They write only rows that they
 * could parse; `done` says which. */
static uint64_t many_integers(const struct job *job, int row, int count, void *out)
{
  const tsr__csv_scan *scan = job->csv->scan;
  return scan->integers && !job->slow ? scan->integers(&job->fields, row, count, out) : 0;
}

static uint64_t many_reals(const struct job *job, int row, int count, void *out)
{
  const tsr__csv_scan *scan = job->csv->scan;
  return scan->reals && !job->slow ? scan->reals(&job->fields, row, count, job->point, out) : 0;
}

/* Which bytes of eight are no digits, as their top bits. '0' is 0x30 and '9' 0x39: subtracting 0x30
 * borrows into the top bit below them, adding 0x46 carries into it above. */
static inline uint64_t no_digits(uint64_t x)
{
  uint64_t low = x - UINT64_C(0x3030303030303030), high = x + UINT64_C(0x4646464646464646);
  return (low | high) & UINT64_C(0x8080808080808080);
}

/* How many digits, at most eight, stand here. Exact up to the first byte that is none, though
 * borrows spoil the bytes behind it. */
static inline size_t leading_digits(const char *at)
{
  uint64_t x, other;
  /* Eight bytes are there behind any field: the text ends in padding. */
  memcpy(&x, at, 8);
  other = no_digits(x);
  return other ? (size_t)__builtin_ctzll(other) / 8 : 8;
}

/* One to eight digits as a number. Reads eight bytes. */
static inline bool digits_of(const char *at, size_t length, uint32_t *out)
{
  uint64_t x;
  memcpy(&x, at, 8);
  /* Moved to the top, with '0' in front: short numbers become eight digits. (A shift by 64 means
   * nothing in C.) */
  unsigned shift = 64 - 8 * (unsigned)length;
  x = (x << shift) | (shift ? UINT64_C(0x3030303030303030) >> (64 - shift) : 0);
  if (no_digits(x)) return false;
  x -= UINT64_C(0x3030303030303030);
  /* Digits to pairs, pairs to fours, fours to eight, each step in all lanes of the word:
   *
   *    d0 d1 d2 d3 d4 d5 d6 d7   ->   p0 . p1 . p2 . p3 .   ->   p0 10^6 + p1 10^4 + p2 100 + p3
   *
   *    in the upper half of a sum of two products (0xf4240 = 10^6, 0x64 = 100, 0x2710 = 10^4) */
  x = x * 10 + (x >> 8);
  x = ((x & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
       ((x >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
      32;
  *out = (uint32_t)x;
  return true;
}

/* One to eight digits and an optional minus. Reads past the field, into the padding at most. */
static inline bool fast_i64(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  /* The least number of so many digits that does not begin with a zero. */
  static const uint32_t least[] = { 0, 10, 100, 1000, 10000, 100000, 1000000, 10000000 };
  bool negative = f.length && f.at[0] == '-';
  uint32_t digits;
  /* The length less one as unsigned: 0 and 9 and more fail together. Nine digits would take a
   * second step, and are left to the general way. */
  if (f.length - negative - 1 >= 8) return false;
  if (!digits_of(f.at + negative, f.length - negative, &digits)) return false;
  if (digits < least[f.length - negative - 1] && !job->forced) return false;
  value->integer = negative ? -(int64_t)digits : (int64_t)digits;
  return true;
}

/* Whether a field begins with a zero and a digit, as a code may; the general way looks further. */
static inline bool zero_led(tsr__text_span f)
{
  const char *at = f.at + (f.length && (f.at[0] == '-' || f.at[0] == '+'));
  /* What stands behind a field is readable, and a digit only if the field goes on. */
  return at[0] == '0' && (unsigned char)(at[1] - '0') <= 9;
}

/* Up to eight digits, a point and up to eight more: the digits make an integer below 2^53, so one
 * division rounds correctly. Reads past the field, into the padding at most. */
static inline bool short_f64(tsr__text_span f, char dot, double *out)
{
  static const double tens[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8 };
  static const uint32_t scale[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000 };
  bool negative = f.length && f.at[0] == '-';
  const char *at = f.at + negative, *end = f.at + f.length;
  size_t before = leading_digits(at);
  /* Eight digits in front may be more than eight: not known here, so not taken. */
  if (before > (size_t)(end - at) || before == 8) return false;
  const char *point = at + before;
  size_t after = point < end ? (size_t)(end - point) - 1 : 0;
  if (point < end && *point != dot) return false;
  if (before + after == 0 || after > 8) return false;
  uint32_t whole = 0, fraction = 0;
  if (before && !digits_of(at, before, &whole)) return false;
  if (after && !digits_of(point + 1, after, &fraction)) return false;
  /* whole * 10^after + fraction < 10^16 only with 8 + 8 digits; `before` is 7 at most, so it is
   * below 10^15 < 2^53, and powers of ten up to 10^22 are exact: one rounding, by the division. */
  double value = (double)((int64_t)whole * scale[after] + fraction) / tens[after];
  *out = negative ? -value : value;
  return true;
}

static inline bool fast_f64(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  if (!job->forced && zero_led(f)) return false;
  if (short_f64(f, job->point, &value->real)) return true;
  /* '+', '-', digits and the point are what numbers begin with; "inf", "nan", blanks and quotes go
   * the general way. */
  if (f.length == 0 || f.at[0] < '+' || f.at[0] > '9') return false;
  return tsr__decimal_read(job->csv->decimal, f.at, f.length, &value->integer, &value->real) !=
         TSR__NUMBER_NONE;
}

/* Whether a field is up to eight digits, perhaps with a minus. */
static inline bool plain_i64(const struct job *job, tsr__text_span f)
{
  bool negative = f.length && f.at[0] == '-';
  if (!job->forced && zero_led(f)) return false;
  return f.length - negative - 1 < 8 && leading_digits(f.at + negative) >= f.length - negative;
}

/* Whether it is what short_f64 takes. */
static inline bool plain_f64(const struct job *job, tsr__text_span f)
{
  bool negative = f.length && f.at[0] == '-';
  const char *at = f.at + negative, *end = f.at + f.length;
  size_t before = leading_digits(at);
  if (!job->forced && zero_led(f)) return false;
  /* Digits only, as an integer is written: one to seven of them. */
  if (before >= (size_t)(end - at)) return before == (size_t)(end - at) && before - 1 < 7;
  if (before == 8 || at[before] != job->point) return false;
  size_t after = (size_t)(end - at) - before - 1;
  return after - 1 < 8 && leading_digits(at + before + 1) >= after;
}

static inline bool fast_f32(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  if (!fast_f64(job, f, value)) return false;
  value->real = (double)tsr__decimal_narrow(job->csv->decimal, f.at, f.length, value->real);
  return true;
}

static inline bool fast_i32(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  return fast_i64(job, f, value); /* its eight digits fit */
}

static inline bool fast_whole(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  return fast_i64(job, f, value) && tsr__dtype_holds((tsr_dtype)job->type, value->integer);
}

/* Floats of 16 bits: their fields are looked at twice, so that they are rounded once. */
static inline bool fast_none(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  (void)job, (void)f, (void)value;
  return false;
}

static inline bool fast_date(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  int32_t days;
  (void)job;
  if (!tsr__date_read(f.at, f.length, &days)) return false;
  value->integer = days;
  return true;
}

static inline bool fast_time(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  (void)job;
  return tsr__time_read(f.at, f.length, &value->integer);
}

static inline bool fast_bool(const struct job *job, tsr__text_span f, tsr__read_value *value)
{
  (void)job;
  return read_bool(f, &value->integer);
}

static inline void store_i64(void *out, int i, const tsr__read_value *value)
{
  ((int64_t *)out)[i] = value->integer;
}

static inline void store_f64(void *out, int i, const tsr__read_value *value)
{
  ((double *)out)[i] = value->real;
}

static inline void store_f32(void *out, int i, const tsr__read_value *value)
{
  ((float *)out)[i] = (float)value->real;
}

static inline void store_i32(void *out, int i, const tsr__read_value *value)
{
  ((int32_t *)out)[i] = (int32_t)value->integer;
}

static inline void store_bit(void *out, int i, const tsr__read_value *value)
{
  *(uint64_t *)out |= (uint64_t)value->integer << i;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Takes the quotes off and halves doubled ones, into scratch. NULL: out of memory. */
static const char *unquote(tsr__dict_local *dict, tsr__text_span *f)
{
  const char *at = f->at + 1, *end = f->at + f->length - 1;
  f->length = (size_t)(end - at);
  /* Most quoted texts hold no quote: they lie as they will be kept, without a copy. */
  if (!memchr(at, '"', f->length)) return at;
  if (!tsr__grow(dict->heap, (void **)&dict->scratch, &dict->scratch_size, f->length, 1)) {
    dict->failed = true;
    return NULL;
  }
  size_t count = 0;
  for (; at < end; at++) {
    /* Quotes inside come in pairs: the lexer of rows has seen to that. */
    dict->scratch[count++] = *at;
    if (*at == '"') at++;
  }
  f->length = count;
  return dict->scratch;
}

/* Takes the quotes off where that needs no copy. */
static inline bool plain_text(tsr__text_span *f)
{
  if (f->length < 2 || f->at[0] != '"') return true;
  f->at++;
  f->length -= 2;
  return !memchr(f->at, '"', f->length);
}

static bool text_one(const struct job *job, int row, int32_t *out, bool *added)
{
  tsr__dict_local *dict = &job->lane->dict;
  tsr__text_span f = field_at(&job->fields, row);
  const char *text = f.at;
  if (f.length >= 2 && text[0] == '"' && !(text = unquote(dict, &f))) return false;
  /* Scratch is used again by the next text, so it is copied (`text == scratch`). */
  *out = tsr__dict_code(dict, text, f.length, text == dict->scratch, added);
  return !dict->failed;
}

/* Some text of the word has doubled quotes: one at a time, so that codes keep the rows' order. */
static bool text_slow(const struct job *job, int row, uint64_t valid, int32_t *out, uint64_t *added)
{
  int n = 0;
  for (; valid; valid &= valid - 1) {
    bool is_new = false;
    if (!text_one(job, row + __builtin_ctzll(valid), &out[n], &is_new)) return false;
    *added |= (uint64_t)is_new << n++;
  }
  return true;
}

/* Looks at the texts that were added: bit n of `added` is for the n-th that is valid. Once a
 * distinct text, not once a row: the dictionary has seen all others. */
static void check_utf8(const struct job *job, int row, uint64_t valid, const int32_t *codes,
                       uint64_t added)
{
  tsr__csv_lane *lane = job->lane;
  for (int i = 0; added && lane->bad_row < 0; i++) {
    if (!(valid >> i & 1)) continue;
    tsr__text_span text = tsr__dict_local_text(&lane->dict, *codes++);
    if ((added & 1) && !tsr__utf8_valid(text.at, text.length))
      lane->bad_row = job->batch->first_row + row + i;
    added >>= 1;
  }
}

/* Looks at texts of rows that nobody wants: they must be UTF-8 all the same. */
static void check_dropped(const struct job *job, int row, uint64_t dropped)
{
  tsr__csv_lane *lane = job->lane;
  for (; dropped; dropped &= dropped - 1) {
    int i = __builtin_ctzll(dropped);
    tsr__text_span f = field_at(&job->fields, row + i);
    int64_t at = job->batch->first_row + row + i;
    if (tsr__utf8_valid(f.at, f.length)) continue;
    if (lane->bad_row < 0 || lane->bad_row > at) lane->bad_row = at;
    return;
  }
}

/* Which texts are not null: so only where that was asked for, or where cleaning made it so; the
 * empty one is a text. */
static uint64_t are_texts(const struct job *job, int row, int count)
{
  uint64_t valid = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  if (job->csv->opts.text_nulls || job->csv->null_bytes)
    for (int i = 0; i < count; i++)
      if (is_null_text(job->csv, field_at(&job->fields, row + i))) valid &= ~(UINT64_C(1) << i);
  return valid;
}

/* Codes of the texts that are wanted and not null, which `valid` says. */
static void code_texts(const struct job *job, int row, int count, uint64_t valid, int32_t *out)
{
  tsr__dict_local *dict = &job->lane->dict;
  tsr__text_span texts[64];
  int32_t codes[64];
  bool plain = true;
  /* Codes of the valid ones lie packed until all are known, then spread to their rows; nulls are
   * 0. */
  int n = 0;
  uint64_t added = 0, all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  for (uint64_t rest = valid; rest; rest &= rest - 1, n++) {
    texts[n] = field_at(&job->fields, row + __builtin_ctzll(rest));
    plain &= plain_text(&texts[n]);
  }
  /* The row where a text of this word came first, for the order in which dictionaries are
   * merged. */
  dict->now = job->batch->first_row + row;
  int32_t *to = valid == all ? out : codes;
  if (plain) added = tsr__dict_codes(dict, texts, n, to);
  else (void)text_slow(job, row, valid, to, &added);
  if (added && !dict->failed && !job->batch->ascii) check_utf8(job, row, valid, to, added);
  for (int i = 0, from = 0; to != out && i < count; i++)
    out[i] = valid >> i & 1 ? codes[from++] : 0;
}

static uint64_t text_word(const struct job *job, int row, int count, int32_t *out)
{
  uint64_t valid = are_texts(job, row, count);
  code_texts(job, row, count, valid & job->keep, out);
  if (!job->batch->ascii && (valid & ~job->keep)) check_dropped(job, row, valid & ~job->keep);
  if (job->lane->dict.failed) job->lane->no_memory = true;
  return job->lane->dict.failed ? 0 : valid;
}

static struct job text_job(const tsr__csv_file *file, int column, const tsr__csv_batch *batch,
                           tsr__csv_lane *lane)
{
  return (struct job){ .csv = file->csv,
                       .batch = batch,
                       .lane = lane,
                       .fields = fields_of(batch, file->at[column]),
                       .type = TSR_COL_TEXT };
}

void tsr__csv_look(const tsr__csv_file *file, int column, const tsr__csv_batch *batch,
                   tsr__csv_lane *lane)
{
  const struct job job = text_job(file, column, batch, lane);
  for (int row = 0; row < batch->rows; row += 64) {
    int count = batch->rows - row < 64 ? batch->rows - row : 64;
    uint64_t valid = are_texts(&job, row, count);
    if (!batch->ascii) check_dropped(&job, row, valid);
    lane->nulls += count - __builtin_popcountll(valid);
  }
}

uint64_t tsr__csv_texts(const tsr__csv_file *file, const tsr__csv_batch *batch, tsr__csv_lane *lane,
                        tsr__csv_run run, tsr__text_span *texts)
{
  const struct job job = text_job(file, run.column, batch, lane);
  uint64_t valid = are_texts(&job, run.row, run.count);
  for (int i = 0; i < run.count; i++) {
    tsr__text_span field = texts[i] = field_at(&job.fields, run.row + i);
    if (plain_text(&texts[i])) continue;
    /* Doubled quotes are rare: each such text gets bytes of its own. */
    const char *text = unquote(&lane->dict, &field);
    if (text) text = tsr__arena_text(&lane->dict.arena, text, field.length);
    if (!text) lane->no_memory = true;
    texts[i] = (tsr__text_span){ text ? text : "", text ? field.length : 0 };
  }
  return valid;
}

/* ---- a column of a batch --------------------------------------------------------------------- */

/* Types that are seldom given: by way of i64 or f64. */
static uint64_t seldom_word(const struct job *job, int row, int count, const tsr__csv_sink *sink)
{
  tsr_dtype dtype = (tsr_dtype)job->type;
  int64_t whole[64] = { 0 }, at = sink->at + row;
  double real[64] = { 0 };
  uint64_t word;
  if (tsr__dtype_is_real(dtype)) {
    word = parse_word(job, row, count, real, (struct codec){ fast_none, store_f64, 0, NULL });
    for (int i = 0; i < count; i++) tsr__dtype_put_real(dtype, sink->values, at + i, real[i]);
  } else {
    word = parse_word(job, row, count, whole, (struct codec){ fast_whole, store_i64, 0, NULL });
    for (int i = 0; i < count; i++) tsr__dtype_put_whole(dtype, sink->values, at + i, whole[i]);
  }
  return word;
}

static uint64_t any_word(const struct job *job, int row, int count, const tsr__csv_sink *sink)
{
  char *values = sink->values;
  int64_t at = sink->at + row;
  uint64_t bits = 0, word;
  void *wide = values + at * 8, *narrow = values + at * 4;
  switch (job->type) {
  case TSR_COL_BOOL: break;
  case TSR_COL_I64:
    return parse_word(job, row, count, wide,
                      (struct codec){ fast_i64, store_i64, many_integers(job, row, count, wide),
                                      plain_i64 });
  case TSR_COL_F64:
    return parse_word(job, row, count, wide,
                      (struct codec){ fast_f64, store_f64, many_reals(job, row, count, wide),
                                      plain_f64 });
  case TSR_COL_DATE:
    return parse_word(job, row, count, narrow, (struct codec){ fast_date, store_i32, 0, NULL });
  case TSR_COL_TIME:
    return parse_word(job, row, count, wide, (struct codec){ fast_time, store_i64, 0, NULL });
  case TSR_COL_I32:
    return parse_word(job, row, count, narrow, (struct codec){ fast_i32, store_i32, 0, plain_i64 });
  case TSR_COL_F32:
    return parse_word(job, row, count, narrow, (struct codec){ fast_f32, store_f32, 0, plain_f64 });
  case TSR_COL_TEXT: return text_word(job, row, count, narrow);
  default: return seldom_word(job, row, count, sink);
  }
  word = parse_word(job, row, count, &bits, (struct codec){ fast_bool, store_bit, 0, NULL });
  uint64_t *to = (uint64_t *)(void *)values + at / 64;
  /* Bits of a word that another batch began must stay; at its first row it may hold anything. */
  *to = at % 64 ? *to | bits << (at % 64) : bits;
  return word;
}

void tsr__csv_parse(const tsr__csv_file *file, int column, const tsr__csv_batch *batch,
                    tsr__csv_lane *lane, const tsr__csv_sink *sink)
{
  const tsr__csv *csv = file->csv;
  struct job job = { csv,
                     batch,
                     lane,
                     fields_of(batch, file->at[column]),
                     csv->columns[column].type,
                     csv->info[column].forced,
                     csv->odd_markers,
                     csv->point,
                     UINT64_MAX };
  int row = 0;
  while (row < batch->rows && !lane->no_memory && !lane->classify) {
    /* Up to a border of 64 rows of the sink, so that a word of validity is written by one step. */
    int64_t at = sink->at + row;
    int left = batch->rows - row, count = 64 - (int)(at % 64);
    if (count > left) count = left;
    /* Bits of rows before `at` are shifted out; those behind the count are never asked for. */
    if (sink->kept) job.keep = sink->kept[at / 64] >> (at % 64);
    uint64_t word = any_word(&job, row, count, sink);
    sink->validity[at / 64] = at % 64 ? sink->validity[at / 64] | word << (at % 64) : word;
    lane->nulls += count - __builtin_popcountll(word);
    /* Where a value did not fit the rows of this word were parsed in vain: they are classified with
     * the rest. */
    if (!lane->classify) row += count;
  }
  if (lane->classify) classify_from(csv, job.fields, row, batch->rows, lane);
}
