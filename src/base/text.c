/* Text: a builder that grows, numbers in their shortest form, widths on a terminal, near names.
 *
 * Invariant of the builder: while `data` is not NULL, data[length] is '\0' and length is below
 * capacity; after a refusal `failed` stays set and the text so far remains valid. */
#include "base/base.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the builder ---- */

void tsr__text_init(tsr__text *text, tsr__heap *heap)
{
  *text = (tsr__text){ .heap = heap };
}

void tsr__text_free(tsr__text *text)
{
  if (text->heap) tsr__del(text->heap, text->data, text->capacity);
  else free(text->data);
  *text = (tsr__text){ .heap = text->heap };
}

/* Makes room for `more` bytes and the NUL. */
static bool reserve(tsr__text *text, size_t more)
{
  if (text->failed || more >= SIZE_MAX - text->length) {
    text->failed = true;
    return false;
  }
  size_t need = text->length + more + 1;
  if (need <= text->capacity) return true;
  if (text->heap) {
    if (need < 120) need = 120;
    text->failed = !tsr__grow(text->heap, (void **)&text->data, &text->capacity, need, 1);
    return !text->failed;
  }
  size_t wanted = text->capacity > SIZE_MAX / 4 ? need : text->capacity * 2;
  if (wanted < need) wanted = need < 120 ? 120 : need;
  char *grown = realloc(text->data, wanted);
  text->failed = !grown;
  if (!grown) return false;
  text->data = grown;
  text->capacity = wanted;
  return true;
}

void tsr__text_put(tsr__text *text, const char *bytes, size_t length)
{
  if (!reserve(text, length)) return;
  if (length) memcpy(text->data + text->length, bytes, length);
  text->length += length;
  text->data[text->length] = '\0';
}

void tsr__text_vadd(tsr__text *text, const char *format, va_list args)
{
  va_list again;
  va_copy(again, args);
  size_t room = text->failed ? 0 : text->capacity - text->length;
  int length = vsnprintf(room ? text->data + text->length : NULL, room, format, args);
  if (length < 0) {
    text->failed = true;
  } else if ((size_t)length < room) {
    text->length += (size_t)length;
  } else if (reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  if (text->data) text->data[text->length] = '\0'; /* a refused text leaves no half of itself */
  va_end(again);
}

void tsr__text_add(tsr__text *text, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  tsr__text_vadd(text, format, args);
  va_end(args);
}

void tsr__text_pad(tsr__text *text, char fill, int count)
{
  if (count <= 0 || !reserve(text, (size_t)count)) return;
  memset(text->data + text->length, fill, (size_t)count);
  text->length += (size_t)count;
  text->data[text->length] = '\0';
}

const char *tsr__text_get(const tsr__text *text)
{
  return text->data ? text->data : "";
}

/* ---- numbers ---- */

/* Significant digits of a finite positive number: 0.d1d2d3... * 10^point. */
typedef struct decimal {
  int count, point;
  char digits[20];
} decimal;

/* Which format a value is read back in. */
enum precision { SINGLE, DOUBLE };

static bool reads_back(const char *text, double value, enum precision precision)
{
  return precision == DOUBLE ? strtod(text, NULL) == value : (double)strtof(text, NULL) == value;
}

/* Takes the digits out of "d.ddde+xx", whatever stands between them. */
static void take_digits(const char *p, decimal *out)
{
  int used = 0;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9' && used < (int)sizeof out->digits) out->digits[used++] = *p;
  while (used > 1 && out->digits[used - 1] == '0') used--;
  out->count = used;
  out->point = (*p ? (int)strtol(p + 1, NULL, 10) : 0) + 1;
}

/* Text is written and read back in the current locale, so the two agree on the decimal point. */
static bool try_digits(double value, int count, enum precision precision, decimal *out)
{
  char text[64];
  snprintf(text, sizeof text, "%.*e", count - 1, value);
  if (!reads_back(text, value, precision)) return false;
  take_digits(text, out);
  return true;
}

/* Just above a power of two the gap to the next number is twice that below. Then the nearest
 * decimal of `count` digits may lie below and be lost, while the next one above reads back. */
static bool try_above(double value, int count, enum precision precision, decimal *out)
{
  int exponent;
  if (frexp(value, &exponent) != 0.5) return false;
  char text[64];
  snprintf(text, sizeof text, "%.*e", count - 1, value);
  char *last = strchr(text, 'e');
  if (!last) return false;
  do last--;
  while (last > text && (*last < '0' || *last > '9'));
  if (*last == '9') return false; /* a carry would mean fewer digits do; they did not */
  ++*last;
  if (!reads_back(text, value, precision)) return false;
  take_digits(text, out);
  return true;
}

/* The fewest digits that read back. Formats promise that any decimal of `sure` digits survives
 * the way there and back, so the short ones all show at `sure`; subnormals make no promise. */
static void shortest(double value, enum precision precision, decimal *out)
{
  int sure = precision == DOUBLE ? DBL_DIG : FLT_DIG;
  int enough = precision == DOUBLE ? DBL_DECIMAL_DIG : FLT_DECIMAL_DIG;
  bool tiny = value < (precision == DOUBLE ? DBL_MIN : (double)FLT_MIN);
  for (int count = tiny ? 1 : sure; count < enough; count++) {
    if (try_digits(value, count, precision, out)) return;
    if (try_above(value, count, precision, out)) return;
  }
  try_digits(value, enough, precision, out);
}

static char *put_digits(char *at, const decimal *d, int from, int to)
{
  for (int i = from; i < to; i++) *at++ = i < d->count ? d->digits[i] : '0';
  return at;
}

/* Positional from 1e-4 up to 1e16, else with an exponent of at least two digits. */
static char *lay_out(char *at, const decimal *d)
{
  int exponent = d->point - 1;
  if (exponent < -4 || exponent >= 16) {
    at = put_digits(at, d, 0, 1);
    if (d->count > 1) *at++ = '.';
    at = put_digits(at, d, 1, d->count);
    return at + snprintf(at, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
  }
  if (d->point <= 0) {
    *at++ = '0';
    *at++ = '.';
    for (int i = d->point; i < 0; i++) *at++ = '0';
    return put_digits(at, d, 0, d->count);
  }
  at = put_digits(at, d, 0, d->point);
  if (d->count > d->point) *at++ = '.';
  return put_digits(at, d, d->point, d->count);
}

static int put_special(char *out, double value)
{
  const char *text = isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  size_t length = strlen(text);
  memcpy(out, text, length + 1);
  return (int)length;
}

static int put_number(char *out, double value, enum precision precision)
{
  if (!isfinite(value)) return put_special(out, value);
  char *at = out;
  if (signbit(value)) *at++ = '-';
  double size = fabs(value);
  if (size < 1e15 && size == (double)(int64_t)size) {
    char digits[24];
    int count = 0;
    for (int64_t rest = (int64_t)size; rest || !count; rest /= 10)
      digits[count++] = (char)('0' + rest % 10);
    while (count) *at++ = digits[--count];
  } else {
    decimal d;
    shortest(size, precision, &d);
    at = lay_out(at, &d);
  }
  *at = '\0';
  return (int)(at - out);
}

int tsr__text_f64(char *out, double value)
{
  return put_number(out, value, DOUBLE);
}

int tsr__text_f32(char *out, float value)
{
  return put_number(out, (double)value, SINGLE);
}

/* ---- widths ---- */

typedef struct range {
  uint32_t first, last;
} range;

/* Characters that take no column of their own: combining marks, joiners, selectors. */
static const range zero_width[] = {
  { 0x0300, 0x036F },   { 0x0483, 0x0489 }, { 0x0591, 0x05BD }, { 0x05BF, 0x05BF },
  { 0x05C1, 0x05C2 },   { 0x05C4, 0x05C5 }, { 0x0610, 0x061A }, { 0x064B, 0x065F },
  { 0x0670, 0x0670 },   { 0x06D6, 0x06DC }, { 0x06DF, 0x06E4 }, { 0x06E7, 0x06E8 },
  { 0x06EA, 0x06ED },   { 0x0900, 0x0902 }, { 0x093C, 0x093C }, { 0x0941, 0x0948 },
  { 0x094D, 0x094D },   { 0x0E31, 0x0E31 }, { 0x0E34, 0x0E3A }, { 0x0E47, 0x0E4E },
  { 0x1160, 0x11FF },   { 0x1AB0, 0x1AFF }, { 0x1DC0, 0x1DFF }, { 0x200B, 0x200F },
  { 0x202A, 0x202E },   { 0x2060, 0x2064 }, { 0x20D0, 0x20F0 }, { 0x302A, 0x302D },
  { 0x3099, 0x309A },   { 0xFE00, 0xFE0F }, { 0xFE20, 0xFE2F }, { 0xFEFF, 0xFEFF },
  { 0xE0100, 0xE01EF },
};

/* Characters of two columns: East Asian wide and full-width forms, emoji. */
static const range double_width[] = {
  { 0x1100, 0x115F },   { 0x231A, 0x231B },   { 0x2329, 0x232A },   { 0x23E9, 0x23EC },
  { 0x25FD, 0x25FE },   { 0x2614, 0x2615 },   { 0x2648, 0x2653 },   { 0x26AA, 0x26AB },
  { 0x26BD, 0x26BE },   { 0x26C4, 0x26C5 },   { 0x2705, 0x2705 },   { 0x270A, 0x270B },
  { 0x2728, 0x2728 },   { 0x274C, 0x274C },   { 0x2753, 0x2755 },   { 0x2795, 0x2797 },
  { 0x2B1B, 0x2B1C },   { 0x2B50, 0x2B50 },   { 0x2E80, 0x303E },   { 0x3041, 0x33FF },
  { 0x3400, 0x4DBF },   { 0x4E00, 0xA4CF },   { 0xA960, 0xA97F },   { 0xAC00, 0xD7A3 },
  { 0xF900, 0xFAFF },   { 0xFE30, 0xFE6F },   { 0xFF00, 0xFF60 },   { 0xFFE0, 0xFFE6 },
  { 0x1F300, 0x1F64F }, { 0x1F680, 0x1F6FF }, { 0x1F900, 0x1FAFF }, { 0x20000, 0x3FFFD },
};

static bool in_ranges(const range *ranges, size_t count, uint32_t c)
{
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c > ranges[middle].last) low = middle + 1;
    else high = middle;
  }
  return low < count && c >= ranges[low].first;
}

/* Reads one character; the bytes it takes, or 0 for what is no UTF-8 (overlong forms, surrogates
 * and what ends too early included). */
static size_t read_utf8(const unsigned char *p, size_t length, uint32_t *out)
{
  static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
  if (p[0] < 0x80) {
    *out = p[0];
    return 1;
  }
  size_t size = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
  if (p[0] < 0xC0 || p[0] >= 0xF8 || size > length) return 0;
  uint32_t c = p[0] & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
    c = c << 6 | (p[i] & 0x3Fu);
  }
  if (c < least[size] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return 0;
  *out = c;
  return size;
}

void tsr__text_tame(char *text)
{
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if ((c < ' ' && c != '\t' && c != '\n') || c == 0x7f) *text = '?';
  }
}

int tsr__text_width(const char *text, size_t length)
{
  const unsigned char *p = (const unsigned char *)text;
  int width = 0;
  while (length) {
    uint32_t c = 0;
    size_t size = read_utf8(p, length, &c);
    if (!size || c < 0x300) width++;
    else if (in_ranges(double_width, sizeof double_width / sizeof *double_width, c)) width += 2;
    else if (!in_ranges(zero_width, sizeof zero_width / sizeof *zero_width, c)) width++;
    if (!size) size = 1;
    p += size;
    length -= size;
  }
  return width;
}

/* ---- near names ---- */

#define LONGEST_NAME 63

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Optimal string alignment: insertions, deletions, changes and swaps of neighbours cost 1.
 * Three rows of the table are enough. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
  int rows[3][LONGEST_NAME + 1];
  int *above2 = rows[0], *above = rows[1], *row = rows[2];
  for (int j = 0; j <= b_length; j++) above[j] = j;
  for (int i = 1; i <= a_length; i++) {
    row[0] = i;
    for (int j = 1; j <= b_length; j++) {
      char x = lower(a[i - 1]), y = lower(b[j - 1]);
      int best = above[j - 1] + (x != y);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y;
      if (swapped && above2[j - 2] + 1 < best) best = above2[j - 2] + 1;
      row[j] = best;
    }
    int *oldest = above2;
    above2 = above;
    above = row;
    row = oldest;
  }
  return above[b_length];
}

int tsr__text_nearest(const char *word, const char *const *names, int count)
{
  size_t length = strlen(word);
  if (!length || length > LONGEST_NAME) return -1;
  int limit = length < 3 ? 1 : ((int)length + 2) / 3, nearest = -1;
  for (int i = 0; i < count; i++) {
    size_t other = names[i] ? strlen(names[i]) : 0;
    if (!other || other > LONGEST_NAME) continue;
    int distance = edit_distance(word, (int)length, names[i], (int)other);
    int longer = (int)(length > other ? length : other);
    if (distance > limit || distance >= longer) continue;
    limit = distance - 1; /* only a nearer one replaces it; ties go to the first */
    nearest = i;
  }
  return nearest;
}
