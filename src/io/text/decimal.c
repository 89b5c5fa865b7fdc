/* Decimal text to double.
 *
 *   text  ->  w * 10^q, w < 10^19 (and "there were more digits")
 *   w < 2^53, |q| <= 22         one exact multiplication or division of doubles
 *   else                        w * 10^q from a table of 128 bits (base/powers.h)
 *   uncertain, tiny or huge     strtod in the C locale on at most 800 digits
 *
 * Invariant: 10^q = (T + d) * 2^e with 0 <= d < 1, so w * 10^q lies in [P, P + 2^64) times a power
 * of two for the 192-bit product P = w * T, and rounding is certain unless a border of rounding
 * lies in that interval. */
#include "io/text/decimal.h"

#include "base/powers.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

__extension__ typedef unsigned __int128 wide;

enum { MAX_DIGITS = 800 };

struct tsr__decimal {
  tsr__heap *heap;
  locale_t locale;
  char point;
};

tsr__decimal *tsr__decimal_open(tsr__heap *heap)
{
  tsr__decimal *decimal = tsr__new(heap, sizeof *decimal);
  if (!decimal) return NULL;
  decimal->heap = heap;
  decimal->point = '.';
  /* strtod reads by the locale of the process, in which the point may be a comma. */
  decimal->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!decimal->locale) {
    tsr__del(heap, decimal, sizeof *decimal);
    return NULL;
  }
  return decimal;
}

void tsr__decimal_close(tsr__decimal *decimal)
{
  if (!decimal) return;
  freelocale(decimal->locale);
  tsr__del(decimal->heap, decimal, sizeof *decimal);
}

void tsr__decimal_set_point(tsr__decimal *decimal, char point)
{
  decimal->point = point;
}

/* ---- reading the text ------------------------------------------------------------------- */

struct scanned {
  uint64_t w;         /* the first 19 significant digits */
  int64_t q;          /* value = w * 10^q (more when `cut`) */
  const char *digits; /* the first significant digit */
  const char *stop;   /* behind the last digit */
  bool negative, cut; /* cut: digits were left out of w */
  bool integer;       /* neither point nor exponent */
  char point;
};

static inline bool is_digit(char c)
{
  return (unsigned char)(c - '0') < 10;
}

/* Eight digits at once; false if one of them is none. */
static inline bool eight_digits(const char *at, uint64_t *out)
{
  uint64_t x;
  memcpy(&x, at, 8);
  /* As in csv_parse.c: which bytes are no digits, then digits to pairs, fours and eight. */
  uint64_t low = x - UINT64_C(0x3030303030303030);
  uint64_t high = x + UINT64_C(0x4646464646464646);
  if ((low | high) & UINT64_C(0x8080808080808080)) return false;
  x = low * 10 + (low >> 8);
  x = ((x & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
       ((x >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
      32;
  *out = x & UINT32_MAX;
  return true;
}

/* Adds digits to w while it has room for them; returns where it stopped. */
static const char *take_digits(const char *at, const char *end, uint64_t *w, int *count)
{
  uint64_t eight;
  /* Up to 19 digits fit 64 bits: eight more only where 11 or fewer are there. */
  while (end - at >= 8 && *count <= 11 && eight_digits(at, &eight)) {
    /* Leading zeros are no significant digits: as long as w is 0, only what the eight have from
     * their first digit on counts. */
    if (*w) *count += 8;
    else
      for (uint64_t rest = eight; rest; rest /= 10) *count += 1;
    *w = *w * 100000000 + eight;
    at += 8;
  }
  while (at < end && *count < 19 && is_digit(*at)) {
    *w = *w * 10 + (uint64_t)(*at++ - '0');
    if (*w) *count += 1;
  }
  return at;
}

static const char *skip_digits(const char *at, const char *end)
{
  while (at < end && is_digit(*at)) at++;
  return at;
}

static bool scan_exponent(const char *at, const char *end, int64_t *q)
{
  bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  if (at == end) return false;
  int64_t value = 0;
  for (; at < end; at++) {
    if (!is_digit(*at)) return false;
    /* Beyond a billion it no longer matters what it is: 0 or infinity. */
    if (value < 1000000000) value = value * 10 + (*at - '0');
  }
  *q += negative ? -value : value;
  return true;
}

/* Digits and a point; `s->q` counts the digits behind the point that w holds, and those before
 * it that w left out. */
static bool scan_digits(struct scanned *s, const char **from, const char *end)
{
  const char *at = *from;
  int count = 0;
  s->digits = at;
  const char *stop = take_digits(at, end, &s->w, &count);
  const char *after = skip_digits(stop, end);
  /* Digits before the point that w has no room for are powers of ten. */
  s->cut = after > stop;
  s->q = after - stop;
  int64_t seen = after - at;
  if (after < end && *after == s->point) {
    s->integer = false;
    const char *fraction = after + 1;
    /* Where digits were left out before the point, none behind it may go into w. */
    stop = s->cut ? fraction : take_digits(fraction, end, &s->w, &count);
    after = skip_digits(stop, end);
    s->cut |= after > stop;
    s->q -= stop - fraction;
    seen += after - fraction;
  }
  s->stop = after;
  *from = after;
  /* A point alone, or a sign, is no number. */
  return seen > 0;
}

static bool scan(struct scanned *s, const char *at, const char *end, char point)
{
  *s = (struct scanned){ .integer = true, .point = point };
  if (at < end && (*at == '-' || *at == '+')) s->negative = *at++ == '-';
  if (!scan_digits(s, &at, end)) return false;
  if (at == end) return true;
  if (*at != 'e' && *at != 'E') return false;
  s->integer = false;
  return scan_exponent(at + 1, end, &s->q);
}

static bool same_word(const char *at, size_t length, const char *word)
{
  if (strlen(word) != length) return false;
  /* Letters only, whatever their size: | 0x20 is right for these. */
  for (size_t i = 0; i < length; i++)
    if ((at[i] | 0x20) != word[i]) return false;
  return true;
}

static bool read_word(const char *at, size_t length, double *real)
{
  bool negative = length && *at == '-';
  if (length && (*at == '-' || *at == '+')) at++, length--;
  double value;
  if (same_word(at, length, "inf") || same_word(at, length, "infinity")) value = (double)INFINITY;
  else if (same_word(at, length, "nan")) value = (double)NAN;
  else return false;
  *real = negative ? -value : value;
  return true;
}

/* ---- rounding ---------------------------------------------------------------------------- */

static inline bool exact_small(const struct scanned *s, double *out)
{
  static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
  /* 10^22 is the largest power of ten that is a double. */
  if (s->cut || s->w > (UINT64_C(1) << 53) || s->q < -22 || s->q > 22) return false;
  *out = s->q < 0 ? (double)s->w / tens[-s->q] : (double)s->w * tens[s->q];
  return true;
}

/* w * 10^q rounded; false when that is not certain or no normal number. See the top. */
static bool round_product(uint64_t w, int64_t q, double *out)
{
  if (q < TSR__POWER_LEAST || q > TSR__POWER_MOST || w == 0) return false;
  tsr__power power = tsr__power_of((int)q);
  int shift = __builtin_clzll(w);
  /* The leading bit of w at the top: the product's then stands at bit 63 or 62 of its upper
   * word. */
  w <<= shift;
  wide low = (wide)w * power.low;
  wide high = (wide)w * power.high + (uint64_t)(low >> 64);
  uint64_t top = (uint64_t)(high >> 64), middle = (uint64_t)high, bottom = (uint64_t)low;
  int carry = (int)(top >> 63);
  /* Smaller numbers have fewer bits and larger ones none: those go the long way. */
  int exponent = 63 + carry + tsr__power_log2((int)q) - shift; /* of the leading bit */
  if (exponent < -1022 || exponent > 1022) return false;

  /* 53 bits stay, and `drop` decide the rounding together with what is below. */
  int drop = 10 + carry;
  uint64_t mantissa = top >> drop;
  uint64_t rest = top & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
  bool below = (middle | bottom) != 0;
  bool exact = q >= 0 && q <= TSR__POWER_EXACT;
  /* The power is exact, or the interval of doubt (see the top) crosses no border. */
  if (!exact && (middle == UINT64_MAX || (rest == half && !below))) return false;
  /* Ties go to the even mantissa. */
  bool up = rest > half || (rest == half && (below || (mantissa & 1)));
  mantissa += up; /* 2^53 is right too: the exponent below takes the carry */
  uint64_t bits = ((uint64_t)(exponent + 1022) << 52) + mantissa;
  memcpy(out, &bits, sizeof *out);
  return true;
}

enum { LIBRARY_TEXT = MAX_DIGITS + 40 };

/* A number without its sign as the C library reads it. At most MAX_DIGITS digits decide a rounding
 * if one more says whether the rest is zero: no border between doubles has more than 770 digits. */
static void library_text(const struct scanned *s, char text[LIBRARY_TEXT])
{
  int count = 0;
  int64_t left_out = 0;
  bool more = false;
  for (const char *at = s->digits; at < s->stop; at++) {
    if (*at == s->point || (count == 0 && *at == '0')) continue;
    if (count < MAX_DIGITS) text[count++] = *at;
    else left_out++, more |= *at != '0';
  }
  if (count == 0) text[count++] = '0';
  /* A 1 stands for all that was left out: only whether it is nothing matters. */
  if (more) text[count++] = '1', left_out--;
  /* The exponent of the text itself is what q says beyond the digits that w holds. */
  int64_t exponent = s->q + left_out;
  uint64_t w = s->w;
  int held = 0;
  for (; w; w /= 10) held++;
  int64_t digits = count + left_out;
  exponent -= digits - held;
  /* strtod needs no more to know that it is 0 or infinity. */
  if (exponent > 100000) exponent = 100000;
  if (exponent < -100000) exponent = -100000;
  snprintf(text + count, LIBRARY_TEXT - (size_t)count, "e%d", (int)exponent);
}

static double by_library(const tsr__decimal *decimal, const struct scanned *s)
{
  char text[LIBRARY_TEXT];
  library_text(s, text);
  return strtod_l(text, NULL, decimal->locale);
}

static double round_scanned(const tsr__decimal *decimal, const struct scanned *s)
{
  double a, b;
  if (s->w == 0) return 0;
  if (exact_small(s, &a)) return a;
  if (!s->cut && round_product(s->w, s->q, &a)) return a;
  /* Digits were left out, so the value lies between w and w + 1: where both round alike, so does
   * it. */
  if (s->cut && round_product(s->w, s->q, &a) && round_product(s->w + 1, s->q, &b) && a == b)
    return a;
  return by_library(decimal, s);
}

tsr__number tsr__decimal_read(const tsr__decimal *decimal, const char *at, size_t length,
                              int64_t *integer, double *real)
{
  struct scanned s;
  if (!scan(&s, at, at + length, decimal->point))
    return read_word(at, length, real) ? TSR__NUMBER_FLOAT : TSR__NUMBER_NONE;
  double value = round_scanned(decimal, &s);
  *real = s.negative ? -value : value;
  if (!s.integer) return TSR__NUMBER_FLOAT;
  /* -2^63 is an i64, 2^63 is none. */
  if (s.cut || s.w > (uint64_t)INT64_MAX + s.negative) return TSR__NUMBER_BIG;
  *integer = s.negative ? (int64_t)(0 - s.w) : (int64_t)s.w;
  return TSR__NUMBER_INT;
}

/* A double on the same side of every border between floats as its text gives the same float; only
 * one that lies on a border says nothing. */
float tsr__decimal_narrow(const tsr__decimal *decimal, const char *at, size_t length, double real)
{
  uint64_t bits;
  memcpy(&bits, &real, sizeof bits);
  /* The 29 bits that a float has not: exactly half of its last bit is a border. Below FLT_MIN
   * floats have fewer bits, and borders stand elsewhere. */
  bool border = (bits & 0x1fffffff) == 0x10000000, tiny = fabs(real) < (double)FLT_MIN && real != 0;
  struct scanned s;
  char text[LIBRARY_TEXT];
  if ((!border && !tiny) || !scan(&s, at, at + length, decimal->point)) return (float)real;
  library_text(&s, text);
  float value = strtof_l(text, NULL, decimal->locale);
  return s.negative ? -value : value;
}

/* On which side of a double its text lies, both without their signs: -1, 0 or 1. The digits of the
 * double are all there, which takes at most 134 of a border between floats of 16 bits. */
static int side_of(const struct scanned *s, double real)
{
  char text[LIBRARY_TEXT], exact[192];
  library_text(s, text);
  tsr__text_decimals(exact, sizeof exact, fabs(real), 'e', 150);
  const char *a = text + strspn(text, "0"), *b = exact, *end = strchr(text, 'e');
  long power = strtol(end + 1, NULL, 10) + (end - a) - 1,
       other = strtol(strchr(b, 'e') + 1, NULL, 10);
  /* Of different lengths the longer is the larger. */
  if (power != other) return power < other ? -1 : 1;
  for (; a < end || *b != 'e'; a += a < end, b += *b != 'e') {
    if (*b == '.') b++;
    int left = a < end ? *a : '0', right = *b != 'e' ? *b : '0';
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

/* As tsr__decimal_narrow: what is next to a double on either side rounds differently only where it
 * is a border. */
double tsr__decimal_round(const tsr__decimal *decimal, tsr_dtype dtype, const char *at,
                          size_t length, double real)
{
  struct scanned s;
  if (dtype == TSR_F64 || !isfinite(real) || real == 0) return real;
  if (dtype == TSR_F32) return (double)tsr__decimal_narrow(decimal, at, length, real);
  double below = tsr__dtype_round(dtype, nextafter(real, 0));
  double above = tsr__dtype_round(dtype, nextafter(real, copysign((double)INFINITY, real)));
  if (below == above || !scan(&s, at, at + length, decimal->point)) return below;
  int side = side_of(&s, real);
  return side < 0 ? below : side > 0 ? above : tsr__dtype_round(dtype, real);
}

bool tsr__decimal_natural(const char *at, size_t length, uint64_t *out)
{
  uint64_t value = 0;
  if (length && *at == '+') at++, length--;
  for (size_t i = 0; i < length; i++) {
    unsigned digit = (unsigned)(at[i] - '0');
    if (digit > 9 || __builtin_mul_overflow(value, UINT64_C(10), &value) ||
        __builtin_add_overflow(value, (uint64_t)digit, &value))
      return false;
  }
  *out = value;
  return length > 0;
}
