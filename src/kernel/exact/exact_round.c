/* From exact sums to results: each is one quotient of whole numbers, rounded once.
 *
 *     sum  = N                             mean = N / n
 *     var  = (n S2 - S1 S1) / (n (n - ddof))           std = its square root
 *     corr = (n Sxy - Sx Sy) / root of (n Sxx - Sx Sx) (n Syy - Sy Sy), of three that are rounded
 *
 * N, S1, S2 are long whole numbers times a power of two. The quotient is cut after at least 64 bits
 * and a sticky bit tells whether anything was cut off; that is all that rounding to the nearest,
 * ties to even, needs to know. Invariant: every step between the accumulator and `round_to` keeps
 * all bits, or records the loss in the sticky bit. */
#include "kernel/exact/exact.h"

#include <math.h>
#include <string.h>

enum { BIG_WORDS = 160 };

/* A whole number of 32-bit words, low word first, times 2^exponent. */
typedef struct big {
  uint32_t word[BIG_WORDS];
  int count; /* words in use; the top one is not 0; 0 words: the number 0 */
  int exponent;
  bool negative;
} big;

/* precision: bits of the mantissa; lowest: weight of the lowest bit of a denormal; limit: infinity
 * begins at 2^limit. */
typedef struct format {
  int precision, lowest, limit;
} format;

static const format format_f64 = { 53, -1074, 1024 };

static format format_of_dtype(tsr_dtype dtype)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  return (format){ info->precision, info->lowest, 3 - info->lowest - info->precision };
}

/* Zero words cost as much as others when multiplied: data of a small range leaves most of an
 * accumulator's words zero at both ends. */
static void trim_big(big *a)
{
  while (a->count && !a->word[a->count - 1]) a->count--;
  int low = 0;
  while (low < a->count && !a->word[low]) low++;
  if (!low) return;
  a->count -= low;
  a->exponent += 32 * low;
  memmove(a->word, a->word + low, (size_t)a->count * sizeof a->word[0]);
}

/* A carried copy of an accumulator's words, as sign and size. Words may be negative and larger than
 * 32 bits before carrying, so that one more than those that are not zero is carried into. The carry
 * left over at the top is -1 for a negative number: then its size is the two's complement of the
 * words. */
static void big_from_words(big *out, const int64_t *word, int count, int exponent)
{
  const tsr__words_used used = tsr__words_in_use(word, count);
  int64_t up = 0;
  count = (used.end < count ? used.end + 1 : count) - used.first;
  word += used.first;
  exponent += 32 * used.first;
  for (int i = 0; i < count; i++) {
    int64_t now = word[i] + up;
    out->word[i] = (uint32_t)(now & 0xffffffff);
    up = now >> 32;
  }
  out->negative = up < 0;
  uint64_t carry = out->negative;
  for (int i = 0; i < count && out->negative; i++) {
    carry += (uint32_t)~out->word[i];
    out->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
  out->count = count;
  out->exponent = exponent;
  trim_big(out);
}

static void big_from_u64s(big *out, const uint64_t *word, int count)
{
  for (int i = 0; i < count; i++) {
    out->word[2 * i] = (uint32_t)word[i];
    out->word[2 * i + 1] = (uint32_t)(word[i] >> 32);
  }
  out->count = 2 * count;
  out->exponent = 0;
  out->negative = false;
  trim_big(out);
}

static void big_from_i128(big *out, tsr__i128 value)
{
  tsr__u128 size = value < 0 ? -(tsr__u128)value : (tsr__u128)value;
  uint64_t word[2] = { (uint64_t)size, (uint64_t)(size >> 64) };
  big_from_u64s(out, word, 2);
  out->negative = value < 0;
}

static void big_multiply_u64(big *a, uint64_t by)
{
  tsr__u128 up = 0;
  for (int i = 0; i < a->count; i++) {
    up += (tsr__u128)a->word[i] * by;
    a->word[i] = (uint32_t)up;
    up >>= 32;
  }
  for (; up; up >>= 32) a->word[a->count++] = (uint32_t)up;
}

static void big_multiply(big *out, const big *a, const big *b)
{
  memset(out, 0, sizeof *out);
  out->count = a->count + b->count;
  out->exponent = a->exponent + b->exponent;
  out->negative = a->negative != b->negative;
  for (int i = 0; i < a->count; i++) {
    uint64_t up = 0;
    for (int k = 0; k < b->count; k++) {
      up += (uint64_t)a->word[i] * b->word[k] + out->word[i + k];
      out->word[i + k] = (uint32_t)up;
      up >>= 32;
    }
    out->word[i + b->count] = (uint32_t)up;
  }
  trim_big(out);
}

/* Puts zero words below: the same number with a lower exponent. Makes room for bits of a
 * quotient, which integer division would cut. */
static void big_extend(big *a, int words)
{
  memmove(a->word + words, a->word, (size_t)a->count * sizeof a->word[0]);
  memset(a->word, 0, (size_t)words * sizeof a->word[0]);
  a->count += words;
  a->exponent -= 32 * words;
}

/* The same number with an exponent that is a multiple of 32, as big_subtract needs it. */
static void big_align(big *a)
{
  int shift = (int)((unsigned)a->exponent & 31);
  if (!shift) return;
  uint32_t up = 0;
  for (int i = 0; i < a->count; i++) {
    uint32_t word = a->word[i];
    a->word[i] = word << shift | up;
    up = word >> (32 - shift);
  }
  if (up) a->word[a->count++] = up;
  a->exponent -= shift;
}

/* a -= b; their exponents are a multiple of 32 apart. Either may be the larger, and of either
 * sign: word by word with signs, and big_from_words settles both. */
static void big_subtract(big *a, big *b)
{
  int64_t word[BIG_WORDS];
  if (!b->count) return;
  if (!a->count) a->exponent = b->exponent;
  if (a->exponent > b->exponent) big_extend(a, (a->exponent - b->exponent) / 32);
  if (b->exponent > a->exponent) big_extend(b, (b->exponent - a->exponent) / 32);
  int count = (a->count > b->count ? a->count : b->count) + 1;
  for (int i = 0; i < count; i++) {
    int64_t left = i < a->count ? a->word[i] : 0, right = i < b->count ? b->word[i] : 0;
    word[i] = (a->negative ? -left : left) - (b->negative ? -right : right);
  }
  big_from_words(a, word, count, a->exponent);
}

/* a = floor(a / by); returns whether something was left over. Division by one 64-bit number at a
 * time; n (n - ddof) would be 126 bits, so var divides twice, and both remainders go into the
 * sticky bit: floor(floor(a / b) / c) is floor(a / (b c)). */
static bool big_divide_u64(big *a, uint64_t by)
{
  tsr__u128 rest = 0;
  for (int i = a->count - 1; i >= 0; i--) {
    rest = rest << 32 | a->word[i];
    a->word[i] = (uint32_t)(rest / by);
    rest %= by;
  }
  while (a->count && !a->word[a->count - 1]) a->count--;
  return rest != 0;
}

/* The top 128 bits of a number (its highest bit is the result's), the rest as a sticky bit.
 *
 *    a->word     [count-1] [count-2] [count-3] [count-4] | [count-5] ... [0]
 *    bits         1xxxxxxx  xxxxxxxx  xxxxxxxx  xxxxxxxx |  sticky: any bit at all */
typedef struct top128 {
  tsr__u128 bits;
  int exponent; /* weight of the lowest bit */
  bool sticky;
} top128;

static top128 big_top(const big *a)
{
  top128 top = { 0, a->exponent + 32 * (a->count - 4), false };
  for (int i = a->count - 1; i >= a->count - 4; i--)
    top.bits = top.bits << 32 | (i >= 0 ? a->word[i] : 0);
  int shift = __builtin_clz(a->word[a->count - 1]);
  uint32_t next = a->count > 4 ? a->word[a->count - 5] : 0;
  if (shift) {
    top.bits = top.bits << shift | next >> (32 - shift);
    next <<= shift;
    top.exponent -= shift;
  }
  top.sticky = next != 0;
  for (int i = a->count - 6; i >= 0 && !top.sticky; i--) top.sticky = a->word[i] != 0;
  return top;
}

/* Rounds bits * 2^exponent (highest of the 64 bits set) plus a little if sticky. Every f32 is
 * a double, so the double returned is exact in either format; beyond the largest f32 the
 * caller's cast gives the infinity, as rounding does. */
static double round_to(uint64_t bits, int exponent, bool sticky, format to)
{
  /* More is cut where the result is denormal: its last bit weighs `lowest`, whatever its
   * exponent. */
  int cut = 64 - to.precision;
  if (exponent + cut < to.lowest) cut = to.lowest - exponent;
  if (cut > 64) return 0; /* below half of the smallest denormal */
  uint64_t keep = cut == 64 ? 0 : bits >> cut;
  uint64_t half = (uint64_t)1 << (cut - 1);
  uint64_t rest = bits & (half | (half - 1));
  /* Ties go to even, unless anything below was cut: then it is no tie. */
  if (rest > half || (rest == half && (sticky || (keep & 1)))) keep++;
  if (!keep) return 0;
  /* A carry out of `keep` makes a power of two, which needs no other care: ldexp is exact here. */
  if (exponent + cut + 64 - __builtin_clzll(keep) > to.limit) return INFINITY;
  return ldexp((double)keep, exponent + cut);
}

static double round_big(const big *a, bool sticky, format to)
{
  if (!a->count) return a->negative ? -0.0 : 0.0;
  top128 top = big_top(a);
  sticky = sticky || top.sticky || (uint64_t)top.bits;
  double size = round_to((uint64_t)(top.bits >> 64), top.exponent + 64, sticky, to);
  return a->negative ? -size : size;
}

static double quotient_of_big(big *a, uint64_t by, format to)
{
  big_extend(a, 4); /* at least 64 bits of quotient for any divisor */
  bool sticky = big_divide_u64(a, by);
  return round_big(a, sticky, to);
}

/* floor(sqrt(value)) for a value of 127 or 128 bits: 64 bits. Bit by bit, 64 steps: a std reads
 * one number an element, so this is never in a hot loop. */
static uint64_t root128(tsr__u128 value)
{
  uint64_t root = 0;
  for (int bit = 63; bit >= 0; bit--) {
    uint64_t next = root | (uint64_t)1 << bit;
    if ((tsr__u128)next * next <= value) root = next;
  }
  return root;
}

/* The root of a quotient that was cut after 128 bits or more: cutting below the root's last
 * bit does not change the root's whole part. */
static double round_root(const big *a, bool sticky, format to)
{
  if (!a->count) return 0;
  top128 top = big_top(a);
  sticky = sticky || top.sticky;
  /* An even exponent, so that half of it is whole; the bit shifted out joins the sticky one. */
  if (top.exponent & 1) {
    sticky = sticky || (top.bits & 1);
    top.bits >>= 1;
    top.exponent++;
  }
  uint64_t root = root128(top.bits);
  sticky = sticky || (tsr__u128)root * root != top.bits;
  return round_to(root, top.exponent / 2, sticky, to);
}

typedef struct moments {
  big sum, squares;
  int64_t n, ddof;
  bool root;
} moments;

/* (n S2 - S1 S1) / (n (n - ddof)), or its root. In this order, so that all is whole numbers up to
 * the division: no cancellation can lose anything, however large the mean is beside the spread. */
static double spread_of_moments(moments *m, format to)
{
  if (m->n <= 0 || m->n <= m->ddof) return NAN;
  big product;
  big_multiply(&product, &m->sum, &m->sum);
  big_multiply_u64(&m->squares, (uint64_t)m->n);
  big_subtract(&m->squares, &product);
  if (m->squares.negative) return NAN; /* sums of different values */
  if (!m->squares.count) return 0;
  big_extend(&m->squares, 8); /* 256 bits, less 128 of divisors, leave the root its 128 */
  bool sticky = big_divide_u64(&m->squares, (uint64_t)m->n);
  sticky |= big_divide_u64(&m->squares, (uint64_t)m->n - (uint64_t)m->ddof);
  return m->root ? round_root(&m->squares, sticky, to) : round_big(&m->squares, sticky, to);
}

/* ---- sums of pairs ------------------------------------------------------------------------ */

/* size * 2^exponent, where |size| is 0 or 0.5 .. 1: rounded to f64, with no end of exponents. Of
 * n squares of large values the exponent may leave the range of f64 while the correlation is a
 * number between -1 and 1. */
typedef struct scaled {
  double size;
  int exponent;
} scaled;

static scaled scale_big(const big *a)
{
  if (!a->count) return (scaled){ 0, 0 };
  top128 top = big_top(a);
  double size =
      round_to((uint64_t)(top.bits >> 64), -64, top.sticky || (uint64_t)top.bits, format_f64);
  return (scaled){ a->negative ? -size : size, top.exponent + 128 };
}

/* n `product` - x y. */
static scaled comoment(big *product, const big *x, const big *y, int64_t n)
{
  big both;
  big_multiply(&both, x, y);
  big_align(&both);
  big_align(product);
  big_multiply_u64(product, (uint64_t)n);
  big_subtract(product, &both);
  return scale_big(product);
}

/* c / sqrt(a b). The correlation of a column with itself is exact: then a, b and c are equal, and
 * so are sqrt(a a) and a. A parity of exponents is moved into one size, so that the root of the
 * rest is a shift. Rounding of three sizes may leave r a little beyond 1. */
static double correlation(scaled a, scaled b, scaled c)
{
  if (!(a.size > 0 && b.size > 0)) return NAN;
  int odd = (a.exponent + b.exponent) & 1;
  double scale = sqrt(ldexp(a.size, odd) * b.size);
  double r = ldexp(c.size / scale, c.exponent - (a.exponent + b.exponent - odd) / 2);
  return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* ---- sums of floats ---------------------------------------------------------------------- */

/* NaN wins, and infinities of both signs make one: the same as adding them. */
static bool special_value_of(uint32_t flags, double *out)
{
  bool up = flags & TSR__SAW_PINF, down = flags & TSR__SAW_NINF;
  if (!(flags & TSR__SAW_NAN) && !up && !down) return false;
  if ((flags & TSR__SAW_NAN) || (up && down)) *out = NAN;
  else *out = up ? INFINITY : -INFINITY;
  return true;
}

/* An accumulator of either width. */
typedef struct view {
  const int64_t *word;
  int count, base;
  uint32_t flags;
} view;

static view view_of(const tsr__acc *acc)
{
  return (view){ acc->word, TSR__ACC_WORDS, TSR__ACC_BASE, acc->flags };
}

static view view2_of(const tsr__acc2 *acc)
{
  return (view){ acc->word, TSR__ACC2_WORDS, TSR__ACC2_BASE, acc->flags };
}

/* Three words, of less than 2^62 each, are one number of 128 bits: the sum of values whose sizes
 * are not far apart, which most are. False: there are more, or it is 0. */
static bool sum_of_few_words(const view *acc, format to, double *out)
{
  const tsr__words_used used = tsr__words_in_use(acc->word, acc->count);
  tsr__i128 sum = 0;
  if (used.end - used.first > 3) return false;
  for (int i = used.end - 1; i >= used.first; i--) sum = sum * ((tsr__i128)1 << 32) + acc->word[i];
  if (!sum) return false;
  tsr__u128 size = sum < 0 ? -(tsr__u128)sum : (tsr__u128)sum;
  uint64_t high = (uint64_t)(size >> 64), low = (uint64_t)size;
  int shift = __builtin_clzll(high ? high : low), exponent = acc->base + 32 * used.first;
  size <<= shift;
  *out = high ? round_to((uint64_t)(size >> 64), exponent + 64 - shift, (uint64_t)size != 0, to)
              : round_to((uint64_t)size, exponent - shift, false, to);
  if (sum < 0) *out = -*out;
  return true;
}

static double view_quotient(view acc, int64_t by, format to)
{
  double out;
  if (by <= 0) return NAN;
  if (special_value_of(acc.flags, &out) || (by == 1 && sum_of_few_words(&acc, to, &out)))
    return out;
  big sum;
  big_from_words(&sum, acc.word, acc.count, acc.base);
  /* Exactly zero: -0 only where nothing but -0 was seen. No value at all has no flags and gives
   * +0. */
  if (!sum.count) return acc.flags == TSR__SAW_NEG_ZERO ? -0.0 : 0.0;
  return by == 1 ? round_big(&sum, false, to) : quotient_of_big(&sum, (uint64_t)by, to);
}

static double view_spread(view sum, view squares, moments *m, format to)
{
  double out;
  if (special_value_of(sum.flags | squares.flags, &out)) return NAN;
  big_from_words(&m->sum, sum.word, sum.count, sum.base);
  big_from_words(&m->squares, squares.word, squares.count, squares.base);
  /* S1 S1 and n S2 are subtracted, so their bits must stand at equal places modulo 32. */
  big_align(&m->sum);
  big_align(&m->squares);
  return spread_of_moments(m, to);
}

double tsr__acc_sum(const tsr__acc *acc, tsr_dtype to)
{
  return view_quotient(view_of(acc), 1, format_of_dtype(to));
}

double tsr__acc_mean(const tsr__acc *acc, int64_t n, tsr_dtype to)
{
  return view_quotient(view_of(acc), n, format_of_dtype(to));
}

double tsr__acc_var(const tsr__acc *sum, const tsr__acc2 *squares, int64_t n, int64_t ddof,
                    tsr_dtype to)
{
  moments m = { .n = n, .ddof = ddof };
  return view_spread(view_of(sum), view2_of(squares), &m, format_of_dtype(to));
}

double tsr__acc_std(const tsr__acc *sum, const tsr__acc2 *squares, int64_t n, int64_t ddof,
                    tsr_dtype to)
{
  moments m = { .n = n, .ddof = ddof, .root = true };
  return view_spread(view_of(sum), view2_of(squares), &m, format_of_dtype(to));
}

double tsr__acc2_mean(const tsr__acc2 *acc, int64_t n, tsr_dtype to)
{
  return view_quotient(view2_of(acc), n, format_of_dtype(to));
}

double tsr__acc2_spread(const tsr__acc2 *sum, const tsr__acc2 *squares, const tsr__spread_read *how,
                        tsr_dtype to)
{
  moments m = { .n = how->n, .ddof = how->ddof, .root = how->root };
  return view_spread(view2_of(sum), view2_of(squares), &m, format_of_dtype(to));
}

static void big_from_acc2(big *out, const tsr__acc2 *acc)
{
  big_from_words(out, acc->word, TSR__ACC2_WORDS, TSR__ACC2_BASE);
}

double tsr__acc2_corr_f64(const tsr__pair_sums *sums, int64_t n)
{
  big x, y, product;
  double unused;
  if (special_value_of(sums->x.flags | sums->y.flags | sums->xy.flags, &unused)) return NAN;
  big_from_acc2(&x, &sums->x);
  big_from_acc2(&y, &sums->y);
  big_from_acc2(&product, &sums->xx);
  scaled a = comoment(&product, &x, &x, n);
  big_from_acc2(&product, &sums->yy);
  scaled b = comoment(&product, &y, &y, n);
  big_from_acc2(&product, &sums->xy);
  return correlation(a, b, comoment(&product, &x, &y, n));
}

/* ---- sums of integers -------------------------------------------------------------------- */

static double int_quotient(tsr__i128 sum, uint64_t by, format to)
{
  big a;
  big_from_i128(&a, sum);
  return a.count ? quotient_of_big(&a, by, to) : 0;
}

double tsr__i128_f64(tsr__i128 value)
{
  return int_quotient(value, 1, format_f64);
}

double tsr__mean_i128(tsr__i128 sum, int64_t n, tsr_dtype to)
{
  return n > 0 ? int_quotient(sum, (uint64_t)n, format_of_dtype(to)) : NAN;
}

static double int_spread(tsr__i128 sum, const tsr__isq *squares, moments *m, format to)
{
  big_from_i128(&m->sum, sum);
  /* Only its square is used. */
  m->sum.negative = false;
  big_from_u64s(&m->squares, squares->word, 3);
  return spread_of_moments(m, to);
}

double tsr__var_i128(tsr__i128 sum, const tsr__isq *squares, int64_t n, int64_t ddof, tsr_dtype to)
{
  moments m = { .n = n, .ddof = ddof };
  return int_spread(sum, squares, &m, format_of_dtype(to));
}

double tsr__std_i128(tsr__i128 sum, const tsr__isq *squares, int64_t n, int64_t ddof, tsr_dtype to)
{
  moments m = { .n = n, .ddof = ddof, .root = true };
  return int_spread(sum, squares, &m, format_of_dtype(to));
}

/* A number of two's complement that 64 bits hold. */
static bool is_short(const tsr__isq *value)
{
  uint64_t sign = 0 - (value->word[0] >> 63);
  return value->word[1] == sign && value->word[2] == sign;
}

/* The same as `comoment` of numbers below 2^63: all fits 128 bits. Common data is short: integers
 * of a million rows with sums below 2^63 need no long arithmetic. The conversion to double is the
 * one rounding that scale_big does, too. */
static scaled short_comoment(const tsr__isq *product, int64_t x, int64_t y, int64_t n)
{
  return (scaled){ (double)((tsr__i128)(int64_t)product->word[0] * n - (tsr__i128)x * y), 0 };
}

static scaled int_comoment(const tsr__isq *product, tsr__i128 x, tsr__i128 y, int64_t n)
{
  big a, b, both;
  int64_t word[7];
  for (int i = 0; i < 6; i++) word[i] = (uint32_t)(product->word[i / 2] >> (32 * (i & 1)));
  word[6] = (int64_t)product->word[2] < 0 ? -1 : 0;
  big_from_i128(&a, x);
  big_from_i128(&b, y);
  big_from_words(&both, word, 7, 0);
  return comoment(&both, &a, &b, n);
}

double tsr__corr_i128_f64(const tsr__pair_ints *s, int64_t n)
{
  bool fits = s->x == (int64_t)s->x && s->y == (int64_t)s->y && n < INT64_C(1) << 62;
  if (fits && is_short(&s->xx) && is_short(&s->yy) && is_short(&s->xy))
    return correlation(short_comoment(&s->xx, (int64_t)s->x, (int64_t)s->x, n),
                       short_comoment(&s->yy, (int64_t)s->y, (int64_t)s->y, n),
                       short_comoment(&s->xy, (int64_t)s->x, (int64_t)s->y, n));
  return correlation(int_comoment(&s->xx, s->x, s->x, n), int_comoment(&s->yy, s->y, s->y, n),
                     int_comoment(&s->xy, s->x, s->y, n));
}
