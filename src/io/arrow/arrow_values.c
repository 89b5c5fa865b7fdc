/* Elements of Arrow's arrays to values of columns.
 *
 *   validity bits of any offset  ->  words of bits of the part
 *   values, or indices of them   ->  numbers, or codes of texts
 *
 * Invariant: buffers may lie at any address, also at one that is no multiple of their elements'
 * size, and nothing that lies under a null is looked at.
 *
 * Rows come as runs: of one batch, to one part. What a run does not put stays 0 and null, as the
 * stripe was cleared before. */
#include "io/arrow/arrow_inner.h"

#include <stdio.h>

typedef tsr__arrow_run run;

/* Counted from 1, so that 0 is no fault. */
static bool fail_at(run *r, int64_t i, const char *why)
{
  r->fault->row = i + 1;
  r->fault->why = why;
  return false;
}

/* By memcpy: an address need be no multiple of the size. The compiler makes one load of it. u64
 * comes out in its bits; as an index it would be negative then, which is outside of any
 * dictionary. */
static inline int64_t integer_at(const void *buffer, int layout, int64_t at)
{
  const char *from = buffer;
  int8_t i8 = 0;
  int16_t i16 = 0;
  int32_t i32 = 0;
  int64_t i64 = 0;
  switch (layout) {
  case TSR__ARROW_BOOL: return tsr__arrow_bit(buffer, at);
  case TSR__ARROW_I8:
  case TSR__ARROW_U8: memcpy(&i8, from + at, 1); return layout == TSR__ARROW_I8 ? i8 : (uint8_t)i8;
  case TSR__ARROW_I16:
  case TSR__ARROW_U16:
    memcpy(&i16, from + at * 2, 2);
    return layout == TSR__ARROW_I16 ? i16 : (uint16_t)i16;
  case TSR__ARROW_I32:
  case TSR__ARROW_U32:
    memcpy(&i32, from + at * 4, 4);
    return layout == TSR__ARROW_I32 ? i32 : (int64_t)(uint32_t)i32;
  default: memcpy(&i64, from + at * 8, 8); return i64;
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
  /* Bit by bit, since the two offsets need not agree modulo 8. */
  for (int64_t i = 0; i < r->count; i++) {
    bool valid = !bits || tsr__arrow_bit(bits, r->from + i);
    r->valid[(r->at + i) / 64] |= (uint64_t)valid << ((r->at + i) % 64);
  }
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Dates and times. */
static bool put_moments(run *r)
{
  const void *buffer = r->array->buffers[1];
  bool date = r->column_type == TSR_COL_DATE;
  for (int64_t i = 0; i < r->count; i++) {
    if (!is_valid(r, i)) continue;
    int64_t value = integer_at(buffer, r->type->layout, r->from + i);
    /* Seconds and milliseconds grow, nanoseconds shrink: one of factor and divisor is 1. */
    if (__builtin_mul_overflow(value, r->type->factor, &value))
      return fail_at(r, i, "a time beyond what 64 bits of microseconds hold");
    if (value % r->type->divisor)
      return fail_at(
          r, i, date ? "a date that is not a whole day" : "a time that is not a whole microsecond");
    value /= r->type->divisor;
    if (date && (value < INT32_MIN || value > INT32_MAX))
      return fail_at(r, i, "a date beyond what 32 bits of days hold");
    if (date) ((int32_t *)r->out)[r->at + i] = (int32_t)value;
    else ((int64_t *)r->out)[r->at + i] = value;
  }
  return true;
}

/* By `or` into words that are 0: stripes begin at multiples of 64 rows, so no two have one word. */
static bool put_bools(run *r)
{
  uint64_t *words = r->out;
  for (int64_t i = 0; i < r->count; i++) {
    bool value = is_valid(r, i) && tsr__arrow_bit(r->array->buffers[1], r->from + i);
    words[(r->at + i) / 64] |= (uint64_t)value << ((r->at + i) % 64);
  }
  return true;
}

/* Numbers, which lie as columns have them; what lies under a null becomes 0. Floats keep the bits
 * they have, NaNs with their payloads. */
static bool put_numbers(run *r)
{
  /* Both are whole bytes: an offset in elements times the size. */
  size_t size = tsr_dtype_size((tsr_dtype)r->column_type);
  const char *from = (const char *)r->array->buffers[1] + (size_t)r->from * size;
  char *to = (char *)r->out + (size_t)r->at * size;
  /* Without a bitmap there are no nulls, and all is copied at once. */
  if (!r->array->buffers[0]) {
    memcpy(to, from, (size_t)r->count * size);
    return true;
  }
  for (int64_t i = 0; i < r->count; i++)
    if (is_valid(r, i)) memcpy(to + (size_t)i * size, from + (size_t)i * size, size);
  return true;
}

/* ---- decimals -------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

enum { WORDS = 4, DECIMAL_TEXT = 120 };

/* An integer of up to 256 bits, two's complement, lowest word first. */
typedef struct big {
  uint64_t word[WORDS];
} big;

/* Little-endian, as Arrow is, and so are the machines that this runs on. */
static big big_at(const struct ArrowArray *array, int bytes, int64_t at)
{
  big out;
  const char *from = (const char *)array->buffers[1] + (size_t)at * (size_t)bytes;
  /* The sign goes up through the words that a decimal of 128 bits or less does not have. */
  memset(&out, from[bytes - 1] < 0 ? 0xff : 0, sizeof out);
  memcpy(&out, from, (size_t)bytes);
  return out;
}

static bool is_i64(const big *value)
{
  uint64_t above = value->word[0] >> 63 ? UINT64_MAX : 0;
  return value->word[1] == above && value->word[2] == above && value->word[3] == above;
}

bool tsr__arrow_decimal_fits(const struct ArrowArray *array, int bytes, int64_t at)
{
  big value = big_at(array, bytes, at);
  return is_i64(&value);
}

/* Divides by ten to the nineteenth; the rest. Long division from the highest word down: five times
 * for all digits of 256 bits. */
static uint64_t cut_digits(big *value)
{
  const uint64_t ten19 = UINT64_C(10000000000000000000);
  wide rest = 0;
  for (int i = WORDS - 1; i >= 0; i--) {
    rest = rest << 64 | value->word[i];
    /* A rest is below 10^19, so rest * 2^64 + a word, divided by 10^19, fits 64 bits. */
    value->word[i] = (uint64_t)(rest / ten19);
    rest %= ten19;
  }
  return (uint64_t)rest;
}

/* "-123e-4"; the length. Written as text for the one reader of decimals that rounds exactly; slow,
 * and only where not all of a column are i64. A sign, 78 digits, 'e' and a scale of up to five
 * signs fit. */
static int decimal_text(big value, int32_t scale, char text[DECIMAL_TEXT])
{
  uint64_t part[5], carry = 1;
  bool negative = value.word[WORDS - 1] >> 63;
  /* The magnitude: all bits turned, and one added, carried on while words come out 0. */
  for (int i = 0; negative && i < WORDS; i++) {
    value.word[i] = ~value.word[i] + carry;
    carry = carry && !value.word[i];
  }
  int top = 4;
  /* 2^256 has 78 digits, five parts of nineteen at most. The loop leaves the lowest digits in
   * part[0]. */
  for (int i = 0; i < 5; i++) part[i] = cut_digits(&value);
  while (top > 0 && !part[top]) top--;
  int length =
      snprintf(text, DECIMAL_TEXT, "%s%llu", negative ? "-" : "", (unsigned long long)part[top]);
  while (top-- > 0)
    length += snprintf(text + length, DECIMAL_TEXT - (size_t)length, "%019llu",
                       (unsigned long long)part[top]);
  return length + snprintf(text + length, DECIMAL_TEXT - (size_t)length, "e%d", -scale);
}

/* i64 where all values are (tsr__arrow_open has seen them), else the nearest f64 to each. */
static bool put_decimals(run *r)
{
  char text[DECIMAL_TEXT];
  int64_t unused;
  for (int64_t i = 0; i < r->count; i++) {
    if (!is_valid(r, i)) continue;
    big value = big_at(r->array, r->type->bytes, r->from + i);
    if (r->column_type == TSR_COL_I64) {
      if (!is_i64(&value))
        return fail_at(r, i, "an integer that was null when the stream was opened");
      ((int64_t *)r->out)[r->at + i] = (int64_t)value.word[0];
    } else {
      int length = decimal_text(value, r->type->scale, text);
      tsr__decimal_read(r->decimal, text, (size_t)length, &unused, (double *)r->out + r->at + i);
    }
  }
  return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* One of the texts that lie outside or inside their views; false where its place cannot be.
 *
 *   short   | size: 4 | text: 12                             |
 *   long    | size: 4 | first 4 bytes | buffer: 4 | start: 4 |
 */
static bool view_at(const struct ArrowArray *array, int64_t at, const char **text, size_t *length)
{
  const char *view = (const char *)array->buffers[1] + (size_t)at * 16;
  int32_t size, index, start;
  int64_t room;
  memcpy(&size, view, 4);
  memcpy(&index, view + 8, 4);
  memcpy(&start, view + 12, 4);
  if (size < 0) return false;
  *text = view + 4;
  *length = (size_t)size;
  /* Up to 12 bytes stand in the view itself; longer ones have four bytes of their beginning there,
   * which of the buffers they lie in, and where. */
  if (size <= 12) return true;
  if (index < 0 || index >= array->n_buffers - 3 || start < 0) return false;
  /* The last buffer says how long the others are: validity, views, data ..., lengths. */
  memcpy(&room, (const char *)array->buffers[array->n_buffers - 1] + (size_t)index * 8, 8);
  if (start > room || size > room - start) return false;
  *text = (const char *)array->buffers[2 + index] + start;
  return true;
}

/* One text of an array; false where its place cannot be.
 *
 *   offsets   0 3 3 8      text 0: [0, 3)   1: empty   2: [3, 8)      one more than there are texts
 *
 * How long the bytes are nobody says, so offsets are checked against each other alone. */
static bool text_at(const struct ArrowArray *array, int layout, int64_t at, const char **text,
                    size_t *length)
{
  if (layout == TSR__ARROW_TEXT_VIEW) return view_at(array, at, text, length);
  const char *bytes = array->buffers[2];
  int offsets = layout == TSR__ARROW_TEXT ? TSR__ARROW_I32 : TSR__ARROW_I64;
  int64_t from = integer_at(array->buffers[1], offsets, at);
  int64_t to = integer_at(array->buffers[1], offsets, at + 1);
  if (from < 0 || to < from || (to > from && !bytes)) return false;
  *text = bytes ? bytes + from : "";
  *length = (size_t)(to - from);
  return true;
}

/* A text that goes nowhere must be one all the same. */
static bool look_at(run *r, int64_t i, const struct ArrowArray *array, int64_t at)
{
  const char *text;
  size_t length;
  if (!text_at(array, r->type->layout, at, &text, &length))
    return fail_at(r, i, "a text with impossible offsets");
  return tsr__utf8_valid(text, length) || fail_at(r, i, "a text that is not UTF-8");
}

/* The code of a text for row `i` of a run, whose bytes are looked at when it is new. `array` is the
 * run's or its dictionary. UTF-8 is looked at once a text and stripe: what is known already was
 * good. */
static bool put_text(run *r, int64_t i, const struct ArrowArray *array, int64_t at)
{
  const char *text;
  size_t length;
  bool added;
  int32_t *code = (int32_t *)r->out + r->at + i;
  if (!text_at(array, r->type->layout, at, &text, &length))
    return fail_at(r, i, "a text with impossible offsets");
  *code = tsr__dict_code(r->dict, text, length, false, &added);
  if (r->dict->failed) {
    r->fault->no_memory = true;
    return false;
  }
  return !added || tsr__utf8_valid(text, length) || fail_at(r, i, "a text that is not UTF-8");
}

/* Whether the text of a row goes anywhere. */
static bool wants(const run *r, int64_t i)
{
  int64_t at = r->at + i;
  return r->out && (!r->kept || r->kept[at / 64] >> (at % 64) & 1);
}

static bool put_texts(run *r)
{
  for (int64_t i = 0; i < r->count; i++)
    if (is_valid(r, i) && !(wants(r, i) ? put_text : look_at)(r, i, r->array, r->from + i))
      return false;
  return true;
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

static bool put_values(run *r)
{
  switch (r->type->layout) {
  case TSR__ARROW_NULL: return true;
  case TSR__ARROW_BOOL: return put_bools(r);
  case TSR__ARROW_DECIMAL: return put_decimals(r);
  case TSR__ARROW_TEXT:
  case TSR__ARROW_LARGE_TEXT:
  case TSR__ARROW_TEXT_VIEW: return put_texts(r);
  default: return (r->column_type >= TSR_COL_DATE ? put_moments : put_numbers)(r);
  }
}

/* The entry of row `i`, -1 for a null, which the row is then too; false outside the dictionary.
 * Validity of the row was put before; that of the entry is taken from it here. */
static bool entry_of(run *r, int64_t i, int64_t *out)
{
  const struct ArrowArray *entries = r->array->dictionary;
  const void *bits = r->type->layout == TSR__ARROW_NULL ? NULL : entries->buffers[0];
  /* The row's own null first: what its index holds then means nothing. */
  *out = -1;
  if (!is_valid(r, i)) return true;
  int64_t index = integer_at(r->array->buffers[1], r->type->index, r->from + i);
  if (index < 0 || index >= entries->length)
    return fail_at(r, i, "an index outside the dictionary");
  if (!bits || tsr__arrow_bit(bits, entries->offset + index)) *out = index;
  else r->valid[(r->at + i) / 64] &= ~(UINT64_C(1) << ((r->at + i) % 64));
  return true;
}

/* Each entry on its own, as a run of one row. Numbers of a dictionary are rare, so each goes the
 * way of a run instead of having loops of its own. */
static bool put_entries(run *r)
{
  const struct ArrowArray *entries = r->array->dictionary;
  for (int64_t i = 0, index; i < r->count; i++) {
    if (!entry_of(r, i, &index)) return false;
    if (index < 0) continue;
    run one = *r;
    one.array = entries;
    one.from = entries->offset + index;
    one.at = r->at + i;
    one.count = 1;
    /* Rows of faults count from 1 in the run; this one's run was a row of the other. */
    if (put_values(&one)) continue;
    r->fault->row += i;
    return false;
  }
  return true;
}

/* `known` (NULL: not kept) says which code an entry got: each is looked up once, and looked at once
 * where nobody wants it. A code + 1 fits, and is neither of these: no code is -2. */
static bool put_entry_texts(run *r, int32_t *known)
{
  enum { NEW = 0, SEEN = -1 };
  const struct ArrowArray *entries = r->array->dictionary;
  int32_t *codes = (int32_t *)r->out;
  for (int64_t i = 0, index; i < r->count; i++) {
    if (!entry_of(r, i, &index)) return false;
    if (index < 0) continue;
    int32_t said = known ? known[index] : NEW;
    if (!wants(r, i)) {
      if (said == NEW && !look_at(r, i, entries, entries->offset + index)) return false;
      if (known && said == NEW) known[index] = SEEN;
    } else if (known && said != NEW && said != SEEN) {
      codes[r->at + i] = said - 1;
    } else {
      if (!put_text(r, i, entries, entries->offset + index)) return false;
      if (known) known[index] = codes[r->at + i] + 1;
    }
  }
  return true;
}

static bool put_dictionary(run *r)
{
  int64_t entries = r->array->dictionary->length;
  if (r->column_type != TSR_COL_TEXT) return put_entries(r);
  /* A dictionary much larger than the rows at hand: its table would cost more to clear than it
   * saves. Asked of each run, as a stripe may be of several batches with dictionaries of their
   * own. */
  if (entries > r->count * 4) return put_entry_texts(r, NULL);
  size_t bytes = ((size_t)entries + 1) * sizeof(int32_t);
  tsr__heap *heap = r->dict->heap;
  int32_t *known = tsr__new(heap, bytes);
  bool fine = known && put_entry_texts(r, known);
  if (!known) r->fault->no_memory = true;
  tsr__del(heap, known, bytes);
  return fine;
}

bool tsr__arrow_put(tsr__arrow_run *r)
{
  /* Validity first: what follows asks it of each row, and never looks at what lies under a null. */
  put_validity(r);
  return r->type->index ? put_dictionary(r) : put_values(r);
}

bool tsr__arrow_text(const tsr__arrow_run *r, int64_t i, tsr__text_span *text, int64_t *entry)
{
  const struct ArrowArray *array = r->array;
  int64_t at = r->from + i;
  *entry = -1;
  if (array->buffers[0] && !tsr__arrow_bit(array->buffers[0], at)) return false;
  if (r->type->index) {
    int64_t index = integer_at(array->buffers[1], r->type->index, at);
    array = array->dictionary;
    if (index < 0 || index >= array->length) return false;
    *entry = index;
    at = array->offset + index;
    if (array->buffers[0] && !tsr__arrow_bit(array->buffers[0], at)) return false;
  }
  return text_at(array, r->type->layout, at, &text->at, &text->length);
}
