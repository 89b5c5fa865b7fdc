/* Numbers in their shortest decimal form, by the method of R. Giulietti, "The Schubfach way to
 * render doubles" (2020): the decimals that read back as v = c * 2^q lie between the middles to its
 * neighbours, and there are one or two multiples of 10^k or 10^(k+1) among them.
 *
 *      left       v       right            scaled by 4 * 10^-k, k = floor(log10(gap)):
 *   ----[---------+---------]----             vb_left, vb, vb_right, each a product of 64 with
 *     s * 10^k   |   (s + 1) * 10^k          128 bits rounded to odd, so that comparisons are exact
 *
 * Invariant: of the shortest decimals that read back the nearest to v is written; ties go to the
 * even one.
 *
 * One method for all floats: f64, f32, f16 and bf16 differ in `split` alone, as what reads back is
 * decided by the gaps to a number's neighbours. */
#include "base/base.h"
#include "base/powers.h"

#include <math.h>
#include <stdlib.h>

__extension__ typedef unsigned __int128 wide;

/* A positive number in binary: c * 2^q. `edge`: the gap below is half the gap above. */
typedef struct binary {
  uint64_t c;
  int q;
  bool edge;
} binary;

/* A positive number in decimal: w * 10^k. */
typedef struct decimal {
  uint64_t w;
  int k;
} decimal;

/* ---- the shortest decimal -------------------------------------------------------------------- */

/*   exponent 0     denormal: low * 2^(1 - bias - fraction)
 *   else           hidden bit and low; at low 0 the numbers below lie half as close, but for the
 *                  smallest exponent, below which denormals go on in the same steps */
static binary split(uint64_t bits, int fraction, int bias)
{
  uint64_t low = bits & ((UINT64_C(1) << fraction) - 1);
  int exponent = (int)(bits >> fraction);
  if (!exponent) return (binary){ low, 1 - bias - fraction, false };
  return (binary){ low | UINT64_C(1) << fraction, exponent - bias - fraction,
                   !low && exponent > 1 };
}

/* The top 64 bits of x * g; the last is set where anything lies below. Enough to compare with whole
 * numbers, which is all that is done with it. Of the 64 bits below 1 is nothing: the power is
 * rounded up in its last place, so a product that is whole may come out above. */
static inline uint64_t round_to_odd(tsr__power g, uint64_t x)
{
  wide low = (wide)x * g.low, high = (wide)x * g.high + (uint64_t)(low >> 64);
  return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* Trailing zeros may be left in w, as of 100 * 10^0; lay_out takes them off. */
static decimal shortest(binary b)
{
  /* floor(log10(2^q)), or of 3/4 of that at an edge, in units of 2^-22 */
  int k = (b.q * 1262611 - (b.edge ? 524031 : 0)) >> 22;
  tsr__power g = tsr__power_of(-k);
  if (-k < 0 || -k > TSR__POWER_EXACT) g.high += ++g.low == 0; /* rounded up, as the method wants */
  /* Between 1 and 4, so that four times c, of 55 bits, stays within 64. */
  int shift = b.q + tsr__power_log2(-k) + 1;
  uint64_t out = b.c & 1; /* the borders themselves read back as an even c */
  uint64_t left = round_to_odd(g, (4 * b.c - 2 + b.edge) << shift) + out;
  uint64_t middle = round_to_odd(g, 4 * b.c << shift);
  uint64_t right = round_to_odd(g, (4 * b.c + 2) << shift) - out;
  /* v lies from s to s + 1 in units of 10^k; first it is tried whether a digit less will do. */
  uint64_t s = middle / 4;
  if (s >= 10) {
    uint64_t tens = s / 10;
    bool below = left <= 40 * tens, above = 40 * tens + 40 <= right;
    /* Never both: 10^(k+1) is more than the gap. */
    if (below != above) return (decimal){ tens + above, k + 1 };
  }
  bool below = left <= 4 * s, above = 4 * s + 4 <= right;
  if (below != above) return (decimal){ s + above, k };
  /* Both of s and s + 1 read back: the nearer one, the even one at the middle. */
  uint64_t half = 4 * s + 2;
  bool up = middle > half || (middle == half && (s & 1));
  return (decimal){ s + up, k };
}

/* ---- digits ---------------------------------------------------------------------------------- */

static const char pairs[201] = "00010203040506070809101112131415161718192021222324"
                               "25262728293031323334353637383940414243444546474849"
                               "50515253545556575859606162636465666768697071727374"
                               "75767778798081828384858687888990919293949596979899";

/* Writes the digits of a number so that they end before `end`; returns where they begin. From
 * the end, as the number of digits is known only then, two at a time: half as many divisions. */
static char *digits_before(char *end, uint64_t value)
{
  while (value >= 100) {
    end -= 2;
    memcpy(end, pairs + 2 * (value % 100), 2);
    value /= 100;
  }
  if (value < 10) {
    *--end = (char)('0' + value);
    return end;
  }
  end -= 2;
  memcpy(end, pairs + 2 * value, 2);
  return end;
}

int tsr__text_i64(char *out, int64_t value)
{
  char room[20], *end = room + sizeof room, *at = out;
  if (value < 0) *at++ = '-';
  /* Negated as unsigned, where the least number has its size. */
  const char *digits = digits_before(end, value < 0 ? -(uint64_t)value : (uint64_t)value);
  memcpy(at, digits, (size_t)(end - digits));
  return (int)(at + (end - digits) - out);
}

int tsr__text_u64(char *out, uint64_t value)
{
  char room[20], *end = room + sizeof room;
  const char *digits = digits_before(end, value);
  memcpy(out, digits, (size_t)(end - digits));
  return (int)(end - digits);
}

/* As C writes it, e+07, of at most three digits. */
static char *put_exponent(char *at, int exponent)
{
  int size = abs(exponent);
  *at++ = 'e';
  *at++ = exponent < 0 ? '-' : '+';
  if (size >= 100) *at++ = (char)('0' + size / 100);
  memcpy(at, pairs + size % 100 * 2, 2);
  return at + 2;
}

/* Positional from 1e-4 up to 1e16, else with an exponent of at least two digits.
 *
 *   123 * 10^-1    12.3         point 2            count <= point: zeros behind
 *   123 * 10^2     12300        point 5            point <= 0: zeros in front
 *   123 * 10^-6    0.000123     point -3           beyond: 1.23e-05
 */
static char *lay_out(char *at, decimal d)
{
  char room[20], *end = room + sizeof room;
  const char *digits = digits_before(end, d.w);
  int count = (int)(end - digits), point = count + d.k; /* 0.digits * 10^point */
  while (digits[count - 1] == '0') count--;
  if (point < -3 || point > 16) {
    *at++ = digits[0];
    if (count > 1) *at++ = '.';
    memcpy(at, digits + 1, (size_t)count - 1);
    return put_exponent(at + count - 1, point - 1);
  }
  if (point <= 0) {
    memcpy(at, "0.000", 5);
    at += 2 - point;
    memcpy(at, digits, (size_t)count);
    return at + count;
  }
  if (count <= point) {
    memcpy(at, digits, (size_t)count);
    memset(at + count, '0', (size_t)(point - count));
    return at + point;
  }
  memcpy(at, digits, (size_t)point);
  at[point] = '.';
  memcpy(at + point + 1, digits + point, (size_t)(count - point));
  return at + count + 1;
}

static int put_special(char *out, double value)
{
  const char *text = isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  size_t length = strlen(text);
  memcpy(out, text, length + 1);
  return (int)length;
}

/* A finite number whose parts are known; whole ones below `dense` differ by less than their last
 * digit, so that none is shorter. The sign first, of -0 as well. */
static int put_number(char *out, double value, binary parts, double dense)
{
  char *at = out;
  double size = fabs(value);
  if (signbit(value)) *at++ = '-';
  /* A shorter way to the same text. */
  if (size < dense && size == (double)(int64_t)size) at += tsr__text_i64(at, (int64_t)size);
  else at = lay_out(at, shortest(parts));
  *at = '\0';
  return (int)(at - out);
}

/* `dense` is 1e15, of 15 digits; of the types below it is the first whole number whose neighbour is
 * two away. */
int tsr__text_f64(char *out, double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (!isfinite(value)) return put_special(out, value);
  return put_number(out, value, split(bits & (UINT64_MAX >> 1), 52, 1023), 1e15);
}

int tsr__text_f32(char *out, float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (!isfinite(value)) return put_special(out, (double)value);
  return put_number(out, (double)value, split(bits & (UINT32_MAX >> 1), 23, 127), 0x1p24);
}

int tsr__text_f16(char *out, uint16_t bits, double value)
{
  if (!isfinite(value)) return put_special(out, value);
  return put_number(out, value, split(bits & 0x7fff, 10, 15), 0x1p11);
}

int tsr__text_bf16(char *out, uint16_t bits, double value)
{
  if (!isfinite(value)) return put_special(out, value);
  return put_number(out, value, split(bits & 0x7fff, 7, 127), 0x1p8);
}
