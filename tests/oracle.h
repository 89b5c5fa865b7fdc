/* A naive evaluator for the law tests: dense arrays on one thread, one loop an operation, no
 * sharding, no fusion, and its own exact sum (one carry-propagating big integer). It shares no
 * code with the library. */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera/topology.h"

/* Wider than ISO C has; the extension is meant. */
__extension__ typedef __int128 big_int;
__extension__ typedef unsigned __int128 big_unsigned;

/* A float of 113 bits, which is what long double is on some machines. */
#if LDBL_MANT_DIG == 113
typedef long double big_float;
#else
__extension__ typedef __float128 big_float;
#endif

/* Elements of any dtype: f holds floats exactly, i integers and bools (of u64 the bits). */
typedef struct dense {
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t count;
  double *f;
  int64_t *i;
} dense;

static inline bool is_float(tsr_dtype t)
{
  return t == TSR_F16 || t == TSR_BF16 || t == TSR_F32 || t == TSR_F64;
}

/* Lives until test_kept_free: an evaluation leaves many small arrays behind. */
static inline void *dense_zeros(size_t bytes)
{
  tsr_allocator kept = test_kept();
  void *zeros = kept.allocate(bytes, 64, kept.user);
  CHECK(zeros != NULL);
  return memset(zeros, 0, bytes);
}

static inline dense dense_new(tsr_dtype dtype, tsr_shape shape)
{
  dense d = { .dtype = dtype, .shape = shape, .count = 1 };
  for (int k = 0; k < shape.rank; k++) d.count *= shape.dims[k];
  d.f = dense_zeros(((size_t)d.count + 1) * sizeof(double));
  d.i = dense_zeros(((size_t)d.count + 1) * sizeof(int64_t));
  return d;
}

/* What the oracle must know of a dtype. */
typedef struct kind_of {
  int bits;         /* integers: their width. Floats: of the mantissa, */
  int low;          /* the exponent of the smallest number, */
  double most;      /* and the largest number */
  bool is_unsigned; /* bool too */
} kind_of;

static inline kind_of kind(tsr_dtype t)
{
  switch (t) {
  case TSR_F64: return (kind_of){ 53, -1074, DBL_MAX, false };
  case TSR_F32: return (kind_of){ 24, -149, (double)FLT_MAX, false };
  case TSR_BF16: return (kind_of){ 8, -133, 0x1.fep127, false };
  case TSR_F16: return (kind_of){ 11, -24, 65504, false };
  case TSR_I64: return (kind_of){ 64, 0, 0, false };
  case TSR_I32: return (kind_of){ 32, 0, 0, false };
  case TSR_I16: return (kind_of){ 16, 0, 0, false };
  case TSR_I8: return (kind_of){ 8, 0, 0, false };
  case TSR_U64: return (kind_of){ 64, 0, 0, true };
  case TSR_U32: return (kind_of){ 32, 0, 0, true };
  case TSR_U16: return (kind_of){ 16, 0, 0, true };
  case TSR_U8: return (kind_of){ 8, 0, 0, true };
  default: return (kind_of){ 1, 0, 0, true };
  }
}

static inline big_int least_of(tsr_dtype t)
{
  kind_of k = kind(t);
  return k.is_unsigned ? 0 : -((big_int)1 << (k.bits - 1));
}

static inline big_int most_of(tsr_dtype t)
{
  kind_of k = kind(t);
  return ((big_int)1 << (k.is_unsigned ? k.bits : k.bits - 1)) - 1;
}

/* The number that an element of integers stands for. */
static inline big_int whole_of(tsr_dtype t, int64_t i)
{
  return t == TSR_U64 ? (big_int)(uint64_t)i : (big_int)i;
}

/* One rounding, ties to even: to a multiple of the last place that the dtype has there. */
static inline double round_to(tsr_dtype t, double v)
{
  kind_of k = kind(t);
  int e;
  if (t == TSR_F64 || v == 0 || !isfinite(v)) return v;
  frexp(v, &e);
  double place = ldexp(1, e - k.bits > k.low ? e - k.bits : k.low);
  double r = rint(v / place) * place;
  return fabs(r) > k.most ? copysign((double)INFINITY, v) : copysign(r, v);
}

/* The same of an integer, which double may not hold. */
static inline double round_whole(tsr_dtype t, big_int v)
{
  kind_of k = kind(t);
  uint64_t magnitude = (uint64_t)(v < 0 ? -v : v), rest = 0, half = 0;
  int shift = 0;
  while (magnitude >> shift >> k.bits) shift++;
  if (shift) rest = magnitude & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
  magnitude >>= shift;
  if (shift && (rest > half || (rest == half && magnitude & 1))) magnitude++;
  double r = ldexp((double)magnitude, shift);
  if (r > k.most) r = (double)INFINITY;
  return v < 0 ? -r : r;
}

/* Rounds or wraps what was computed to the dtype. */
static inline void dense_set(dense *d, int64_t at, double f, int64_t i)
{
  switch (d->dtype) {
  case TSR_F64:
  case TSR_F32:
  case TSR_BF16:
  case TSR_F16: d->f[at] = round_to(d->dtype, f); break;
  case TSR_U64:
  case TSR_I64: d->i[at] = i; break;
  case TSR_I32: d->i[at] = (int32_t)(uint32_t)(uint64_t)i; break;
  case TSR_I16: d->i[at] = (int16_t)(uint16_t)(uint64_t)i; break;
  case TSR_I8: d->i[at] = (int8_t)(uint8_t)(uint64_t)i; break;
  case TSR_U32: d->i[at] = (uint32_t)(uint64_t)i; break;
  case TSR_U16: d->i[at] = (uint16_t)(uint64_t)i; break;
  case TSR_U8: d->i[at] = (uint8_t)(uint64_t)i; break;
  default: d->i[at] = i != 0;
  }
}

/* As in JAX with 64-bit types on: any float wins over integers, the two halves meet in f32; an
 * integer with a sign meets one without in the next wider one with a sign, u64 in f64. */
static inline tsr_dtype dense_promote(tsr_dtype a, tsr_dtype b)
{
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) return a == TSR_F64 || b == TSR_F64 ? TSR_F64 : TSR_F32;
  if (a == TSR_BOOL || b == TSR_BOOL) return a == TSR_BOOL ? b : a;
  kind_of x = kind(a), y = kind(b);
  if (x.is_unsigned == y.is_unsigned) return x.bits > y.bits ? a : b;
  if (x.is_unsigned) return dense_promote(b, a);
  if (x.bits > y.bits) return a;
  return y.bits == 8 ? TSR_I16 : y.bits == 16 ? TSR_I32 : y.bits == 32 ? TSR_I64 : TSR_F64;
}

/* Saturating truncation, NaN to 0. */
static inline int64_t to_integer(double v, tsr_dtype dtype)
{
  kind_of k = kind(dtype);
  double over = ldexp(1, k.is_unsigned ? k.bits : k.bits - 1);
  if (isnan(v)) return 0;
  if (v >= over) return (int64_t)(uint64_t)most_of(dtype);
  if (k.is_unsigned) return v <= 0 ? 0 : (int64_t)(uint64_t)v;
  return v <= -over ? (int64_t)least_of(dtype) : (int64_t)v;
}

static inline dense dense_cast(dense a, tsr_dtype dtype)
{
  dense r = dense_new(dtype, a.shape);
  for (int64_t k = 0; k < a.count; k++) {
    if (is_float(a.dtype)) {
      if (dtype == TSR_BOOL) dense_set(&r, k, 0, a.f[k] != 0);
      else if (is_float(dtype)) dense_set(&r, k, a.f[k], 0);
      else dense_set(&r, k, 0, to_integer(a.f[k], dtype));
    } else if (is_float(dtype)) {
      r.f[k] = round_whole(dtype, whole_of(a.dtype, a.i[k]));
    } else {
      dense_set(&r, k, 0, a.i[k]);
    }
  }
  return r;
}

/* ---- broadcasting ---- */

static inline bool broadcast_shape(tsr_shape a, tsr_shape b, tsr_shape *out)
{
  int rank = a.rank > b.rank ? a.rank : b.rank;
  *out = (tsr_shape){ .rank = rank };
  for (int d = 0; d < rank; d++) {
    int64_t x = d - (rank - a.rank) >= 0 ? a.dims[d - (rank - a.rank)] : 1;
    int64_t y = d - (rank - b.rank) >= 0 ? b.dims[d - (rank - b.rank)] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out->dims[d] = x == 1 ? y : x;
  }
  return true;
}

static inline int64_t broadcast_index(tsr_shape from, tsr_shape to, int64_t at)
{
  int64_t index = 0, stride = 1;
  for (int d = to.rank - 1; d >= 0; d--) {
    int64_t c = at % to.dims[d];
    at /= to.dims[d];
    int k = d - (to.rank - from.rank);
    if (k < 0) continue;
    if (from.dims[k] != 1) index += c * stride;
    stride *= from.dims[k];
  }
  return index;
}

/* ---- elementwise ---- */

static inline double min_f(double a, double b)
{
  if (isnan(a) || isnan(b)) return (double)NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

static inline double max_f(double a, double b)
{
  if (isnan(a) || isnan(b)) return (double)NAN;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}

/* f32 and narrower operations are done in double and rounded: exact for + - * / sqrt of such
 * operands (53 >= 2 * 24 + 2), so this is one rounding. */
static inline double float_op(char op, double a, double b)
{
  switch (op) {
  case '+': return a + b;
  case '-': return a - b;
  case '*': return a * b;
  case '/': return a / b;
  case 'm': return min_f(a, b);
  default: return max_f(a, b);
  }
}

/* The quotient rounded down, and what it leaves: 0 for a divisor of 0. */
static inline int64_t floor_op(char op, big_int a, big_int b)
{
  if (b == 0) return 0;
  big_int q = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) q--;
  return (int64_t)(uint64_t)(op == 'q' ? q : a - q * b);
}

static inline int64_t int_op(char op, tsr_dtype t, int64_t a, int64_t b)
{
  bool less = whole_of(t, a) < whole_of(t, b);
  switch (op) {
  case '+': return (int64_t)((uint64_t)a + (uint64_t)b);
  case '-': return (int64_t)((uint64_t)a - (uint64_t)b);
  case '*': return (int64_t)((uint64_t)a * (uint64_t)b);
  case 'q':
  case 'r': return floor_op(op, whole_of(t, a), whole_of(t, b));
  case 'm': return less ? a : b;
  case 'M': return less ? b : a;
  case '&': return a & b;
  case '|': return a | b;
  default: return a ^ b;
  }
}

static inline bool compare_op(char op, tsr_dtype t, const dense *x, int64_t p, const dense *y,
                              int64_t q)
{
  bool floats = is_float(t);
  big_int a = floats ? 0 : whole_of(t, x->i[p]), b = floats ? 0 : whole_of(t, y->i[q]);
  bool less = floats ? x->f[p] < y->f[q] : a < b, same = floats ? x->f[p] == y->f[q] : a == b;
  bool more = floats ? x->f[p] > y->f[q] : a > b;
  switch (op) {
  case 'e': return same;
  case 'n': return !same;
  case 'l': return less;
  case 'L': return less || same;
  case 'g': return more;
  default: return more || same;
  }
}

/* op: + - * / m(in) M(ax) & | ^, of integers q(uotient) r(est), and comparisons e n l L g G. */
static inline dense dense_binary(char op, dense a, dense b)
{
  bool compares = strchr("enlLgG", op) != NULL;
  tsr_dtype common = dense_promote(a.dtype, b.dtype);
  if (op == '/' && !is_float(common)) common = TSR_F64;
  tsr_shape shape;
  CHECK(broadcast_shape(a.shape, b.shape, &shape));
  dense x = dense_cast(a, common), y = dense_cast(b, common);
  dense r = dense_new(compares ? TSR_BOOL : common, shape);
  for (int64_t k = 0; k < r.count; k++) {
    int64_t p = broadcast_index(a.shape, shape, k), q = broadcast_index(b.shape, shape, k);
    if (compares) r.i[k] = compare_op(op, common, &x, p, &y, q);
    else if (is_float(common)) dense_set(&r, k, float_op(op, x.f[p], y.f[q]), 0);
    else dense_set(&r, k, 0, int_op(op, common, x.i[p], y.i[q]));
  }
  return r;
}

static inline dense dense_where(dense c, dense a, dense b)
{
  tsr_dtype common = dense_promote(a.dtype, b.dtype);
  tsr_shape ab, shape;
  CHECK(broadcast_shape(a.shape, b.shape, &ab) && broadcast_shape(c.shape, ab, &shape));
  dense x = dense_cast(a, common), y = dense_cast(b, common), r = dense_new(common, shape);
  for (int64_t k = 0; k < r.count; k++) {
    bool first = c.i[broadcast_index(c.shape, shape, k)];
    int64_t p = broadcast_index(first ? a.shape : b.shape, shape, k);
    r.f[k] = first ? x.f[p] : y.f[p];
    r.i[k] = first ? x.i[p] : y.i[p];
  }
  return r;
}

/* op: - (neg), a(bs), s(qrt), ! (not). */
static inline dense dense_unary(char op, dense a)
{
  tsr_dtype t = op == 's' && !is_float(a.dtype) ? TSR_F64 : a.dtype;
  dense x = dense_cast(a, t), r = dense_new(t, a.shape);
  for (int64_t k = 0; k < r.count; k++) {
    if (op == '!') r.i[k] = !x.i[k];
    else if (op == 's') dense_set(&r, k, sqrt(x.f[k]), 0);
    else if (is_float(t)) dense_set(&r, k, op == '-' ? -x.f[k] : fabs(x.f[k]), 0);
    else if (op == '-' || whole_of(t, x.i[k]) < 0)
      dense_set(&r, k, 0, (int64_t)(0 - (uint64_t)x.i[k]));
    else r.i[k] = x.i[k];
  }
  return r;
}

/* ---- exact sums: one two's complement number of 32-bit limbs, bit 0 weighs 2^-1280 ---- */

enum { LIMBS = 84, POINT = 1280 };

typedef struct big {
  uint32_t limb[LIMBS]; /* least first */
} big;

static inline void big_add(big *b, double v)
{
  if (v == 0) return;
  int e;
  int64_t m = (int64_t)ldexp(frexp(v, &e), 53);
  int at = e - 53 + POINT;
  uint64_t magnitude = (uint64_t)(m < 0 ? -m : m);
  uint32_t piece[3] = { (uint32_t)(magnitude << (at % 32)),
                        (uint32_t)(magnitude >> (32 - at % 32) >> 0),
                        (uint32_t)(at % 32 ? magnitude >> 32 >> (32 - at % 32) : 0) };
  if (at % 32 == 0) piece[1] = (uint32_t)(magnitude >> 32);
  int64_t carry = 0;
  for (int k = at / 32, j = 0; k < LIMBS; k++, j++) {
    int64_t t = (int64_t)b->limb[k] + (j < 3 ? (m < 0 ? -(int64_t)piece[j] : piece[j]) : 0) + carry;
    b->limb[k] = (uint32_t)t;
    carry = t >> 32;
  }
}

/* value / n rounded once to `bits` of mantissa with least exponent `low` (of the last bit). */
static inline double big_round(big b, uint64_t n, int bits, int low)
{
  bool negative = b.limb[LIMBS - 1] >> 31;
  uint64_t carry = 1;
  for (int k = 0; negative && k < LIMBS; k++) {
    carry += (uint32_t)~b.limb[k];
    b.limb[k] = (uint32_t)carry;
    carry >>= 32;
  }
  big_unsigned rest = 0;
  for (int k = LIMBS - 1; k >= 0; k--) {
    rest = rest << 32 | b.limb[k];
    b.limb[k] = (uint32_t)(rest / n);
    rest %= n;
  }
  int top = LIMBS * 32 - 1;
  while (top >= 0 && !(b.limb[top / 32] >> (top % 32) & 1)) top--;
  if (top < 0) return negative ? -0.0 : 0.0; /* under 2^-1280 after a division: rounds to zero */
  int last = top - bits + 1;
  if (last < low + POINT) last = low + POINT;
  uint64_t mantissa = 0;
  for (int k = top; k >= last; k--) mantissa = mantissa << 1 | (b.limb[k / 32] >> (k % 32) & 1);
  bool half = last > 0 && (b.limb[(last - 1) / 32] >> ((last - 1) % 32) & 1), sticky = rest != 0;
  for (int k = 0; k < last - 1; k++) sticky |= b.limb[k / 32] >> (k % 32) & 1;
  if (half && (sticky || mantissa & 1)) mantissa++;
  double r = ldexp((double)mantissa, last - POINT);
  return negative ? -r : r;
}

/* ---- reductions ---- */

typedef struct tally {
  big sum;
  bool nan, plus, minus, other_than_minus_zero;
  big_int isum, isquares;
  int64_t n;
  double fmin, fmax;
  big_int imin, imax;
  bool any, all;
  int64_t nonzero;
  uint64_t product;
  int64_t best; /* argmin, argmax: which element; -1 = none */
} tally;

static inline void tally_add(tally *t, const dense *x, int64_t k)
{
  bool nonzero = is_float(x->dtype) ? x->f[k] != 0 : x->i[k] != 0;
  if (is_float(x->dtype)) {
    double v = x->f[k];
    if (isnan(v)) t->nan = true;
    else if (isinf(v)) *(v > 0 ? &t->plus : &t->minus) = true;
    else big_add(&t->sum, v);
    if (v != 0 || !signbit(v)) t->other_than_minus_zero = true;
    t->fmin = t->n ? min_f(t->fmin, v) : v;
    t->fmax = t->n ? max_f(t->fmax, v) : v;
    double scaled = v * 1024;
    if (fabs(scaled) < 0x1p30 && scaled == floor(scaled)) {
      t->isum += (int64_t)scaled;
      t->isquares += (big_int)(int64_t)scaled * (int64_t)scaled;
    }
  } else {
    big_int v = whole_of(x->dtype, x->i[k]);
    t->isum += v;
    /* Wraps for integers that only other results are asked of. */
    t->isquares = (big_int)((big_unsigned)t->isquares + (big_unsigned)v * (big_unsigned)v);
    t->imin = t->n && t->imin < v ? t->imin : v;
    t->imax = t->n && t->imax > v ? t->imax : v;
    t->product *= (uint64_t)v;
  }
  t->any |= nonzero;
  t->all &= nonzero;
  t->nonzero += nonzero;
  t->n++;
}

static inline double tally_float_sum(const tally *t, tsr_dtype dtype, uint64_t divisor)
{
  if (divisor == 0) return (double)NAN;
  if (t->nan || (t->plus && t->minus)) return (double)NAN;
  if (t->plus) return (double)INFINITY;
  if (t->minus) return -(double)INFINITY;
  double r;
  switch (dtype) {
  case TSR_F16:
    r = big_round(t->sum, divisor, 11, -24);
    if (fabs(r) > 65504) r = copysign((double)INFINITY, r);
    break;
  case TSR_BF16: r = (double)(float)big_round(t->sum, divisor, 8, -133); break;
  case TSR_F32: r = (double)(float)big_round(t->sum, divisor, 24, -149); break;
  default: r = big_round(t->sum, divisor, 53, -1074);
  }
  if (r == 0 && t->n > 0 && !t->other_than_minus_zero) r = -0.0;
  return r;
}

/* Mean of integers: an exact rational, rounded once (a quotient of 113 bits, then 53: a second
 * rounding could only show on a tie that the first one does not keep, and it keeps ties). */
static inline double int_mean(const tally *t)
{
  return t->n ? (double)((big_float)t->isum / (big_float)t->n) : (double)NAN;
}

/* var or std of multiples of 1/1024 (floats) or of integers. */
static inline double tally_var(const tally *t, bool floats, int64_t ddof, bool root, tsr_dtype to)
{
  if (t->nan || t->plus || t->minus || t->n - ddof <= 0) return (double)NAN;
  big_float top = (big_float)((big_int)t->n * t->isquares - t->isum * t->isum);
  big_float v = top / ((big_float)t->n * (big_float)(t->n - ddof));
  if (floats) v /= 1048576;
  if (!root) return to == TSR_F32 ? (double)(float)v : round_to(to, (double)v);
  if (to == TSR_F32) {
    float r = sqrtf((float)v);
    for (int step = -2; step <= 2; step++) {
      float c = r;
      for (int s = 0; s < abs(step); s++) c = nextafterf(c, step < 0 ? 0.0f : INFINITY);
      big_float lo = ((big_float)c + nextafterf(c, 0)) / 2;
      big_float hi = ((big_float)c + nextafterf(c, INFINITY)) / 2;
      if (lo * lo <= v && v <= hi * hi) return (double)c;
    }
    return (double)r;
  }
  double r = sqrt((double)v);
  for (int step = -1; step <= 1; step++) {
    double c = step == 0 ? r : nextafter(r, step < 0 ? 0 : INFINITY);
    big_float lo = ((big_float)c + nextafter(c, 0)) / 2;
    big_float hi = ((big_float)c + nextafter(c, INFINITY)) / 2;
    if (lo * lo <= v && v <= hi * hi) return round_to(to, c);
  }
  return round_to(to, r);
}

/* Where element k of x stands in C order over the dims that are reduced. */
static inline int64_t place_in(const dense *x, uint32_t dims, int64_t k)
{
  int64_t place = 0, step = 1;
  for (int d = x->shape.rank - 1; d >= 0; d--) {
    if (dims >> d & 1) {
      place += k % x->shape.dims[d] * step;
      step *= x->shape.dims[d];
    }
    k /= x->shape.dims[d];
  }
  return place;
}

/* Whether element k comes before element `best` for argmin ('i') or argmax ('I'): of equal ones
 * the first stays, and the first NaN. */
static inline bool comes_first(char op, const dense *x, int64_t best, int64_t k)
{
  char better = op == 'i' ? 'l' : 'g';
  if (is_float(x->dtype) && isnan(x->f[best])) return false;
  if (is_float(x->dtype) && isnan(x->f[k])) return true;
  return compare_op(better, x->dtype, x, k, x, best);
}

/* op: S(um) P(rod, integers) A(mean) V(ar) D(std) m M, y(any) Y(all) c(ount), i I (argmin, argmax).
 */
static inline dense dense_reduce(char op, dense x, uint32_t dims, bool keep, int64_t ddof,
                                 const dense *mask)
{
  tsr_dtype t = x.dtype;
  if (strchr("SP", op) && !is_float(t))
    t = kind(t).is_unsigned && t != TSR_BOOL ? TSR_U64 : TSR_I64;
  if (strchr("AVD", op) && !is_float(t)) t = TSR_F64;
  if (op == 'y' || op == 'Y') t = TSR_BOOL;
  if (strchr("ciI", op)) t = TSR_I64;
  tsr_shape full = x.shape, shape = { 0 };
  for (int d = 0; d < x.shape.rank; d++) {
    if (dims >> d & 1) full.dims[d] = 1;
    if (!(dims >> d & 1) || keep) shape.dims[shape.rank++] = full.dims[d];
  }
  dense r = dense_new(t, shape);
  tally *tallies = calloc((size_t)r.count + 1, sizeof(tally));
  for (int64_t k = 0; k < r.count; k++) {
    tallies[k].all = true;
    tallies[k].product = 1;
    tallies[k].best = -1;
    tallies[k].imin = is_float(x.dtype) ? 0 : most_of(x.dtype);
    tallies[k].imax = is_float(x.dtype) ? 0 : least_of(x.dtype);
    tallies[k].fmin = (double)INFINITY;
    tallies[k].fmax = -(double)INFINITY;
  }
  for (int64_t k = 0; k < x.count; k++) {
    if (mask && !mask->i[broadcast_index(mask->shape, x.shape, k)]) continue;
    tally *y = &tallies[broadcast_index(full, x.shape, k)];
    tally_add(y, &x, k);
    if (strchr("iI", op) && (y->best < 0 || comes_first(op, &x, y->best, k))) y->best = k;
  }
  bool floats = is_float(x.dtype);
  for (int64_t k = 0; k < r.count; k++) {
    tally *y = &tallies[k];
    switch (op) {
    case 'S': dense_set(&r, k, floats ? tally_float_sum(y, t, 1) : 0, (int64_t)y->isum); break;
    case 'P': dense_set(&r, k, 0, (int64_t)y->product); break;
    case 'A':
      dense_set(&r, k, floats ? tally_float_sum(y, t, (uint64_t)y->n) : int_mean(y), 0);
      break;
    case 'V': r.f[k] = tally_var(y, floats, ddof, false, t); break;
    case 'D': r.f[k] = tally_var(y, floats, ddof, true, t); break;
    case 'm': dense_set(&r, k, y->fmin, (int64_t)(uint64_t)y->imin); break;
    case 'M': dense_set(&r, k, y->fmax, (int64_t)(uint64_t)y->imax); break;
    case 'y': r.i[k] = y->any; break;
    case 'Y': r.i[k] = y->all; break;
    case 'i':
    case 'I': r.i[k] = y->best < 0 ? -1 : place_in(&x, dims, y->best); break;
    default: r.i[k] = y->nonzero;
    }
  }
  free(tallies);
  return r;
}

/* ---- lines along a dim ---- */

/* Element 0 of line `line` along a dim, and how far its elements are apart. */
static inline int64_t line_start(tsr_shape shape, int dim, int64_t line, int64_t *step)
{
  *step = 1;
  for (int d = dim + 1; d < shape.rank; d++) *step *= shape.dims[d];
  return line / *step * shape.dims[dim] * *step + line % *step;
}

/* Each prefix is a sum by itself. */
static inline dense dense_cumsum(dense x, int dim)
{
  tsr_dtype t = is_float(x.dtype)                                  ? x.dtype
                : kind(x.dtype).is_unsigned && x.dtype != TSR_BOOL ? TSR_U64
                                                                   : TSR_I64;
  dense r = dense_new(t, x.shape);
  int64_t along = x.shape.dims[dim], step;
  for (int64_t line = 0; along && line < x.count / along; line++) {
    int64_t first = line_start(x.shape, dim, line, &step);
    tally sum = { .n = 0 };
    for (int64_t k = 0; k < along; k++) {
      tally_add(&sum, &x, first + k * step);
      double real = is_float(t) ? tally_float_sum(&sum, t, 1) : 0;
      dense_set(&r, first + k * step, real, (int64_t)sum.isum);
    }
  }
  return r;
}

/* NaN beyond all, -0 and 0 equal. */
static inline bool belongs_before(const dense *x, int64_t a, int64_t b)
{
  if (!is_float(x->dtype)) return whole_of(x->dtype, x->i[a]) < whole_of(x->dtype, x->i[b]);
  return isnan(x->f[b]) ? !isnan(x->f[a]) : x->f[a] < x->f[b];
}

/* By insertion: the elements in ascending order, or where they were. */
static inline dense dense_sort(dense x, int dim, bool places)
{
  dense r = dense_new(places ? TSR_I64 : x.dtype, x.shape);
  int64_t along = x.shape.dims[dim], step;
  int64_t *order = calloc((size_t)along + 1, sizeof *order);
  for (int64_t line = 0; along && line < x.count / along; line++) {
    int64_t first = line_start(x.shape, dim, line, &step);
    for (int64_t k = 0; k < along; k++) {
      int64_t at = k, mine = first + k * step;
      for (; at > 0 && belongs_before(&x, mine, first + order[at - 1] * step); at--)
        order[at] = order[at - 1];
      order[at] = k;
    }
    for (int64_t k = 0; k < along; k++) {
      int64_t to = first + k * step, from = first + order[k] * step;
      dense_set(&r, to, places ? 0 : x.f[from], places ? order[k] : x.i[from]);
    }
  }
  free(order);
  return r;
}

/* ---- elements of C memory ---- */

/* The bits of a half that holds v. */
static inline uint16_t half_bits(tsr_dtype t, double v)
{
  uint16_t sign = signbit(v) ? 0x8000 : 0;
  float single = (float)v;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  if (t == TSR_BF16) return (uint16_t)(bits >> 16);
  if (isnan(v)) return 0x7e00;
  if (isinf(v)) return (uint16_t)(sign | 0x7c00);
  int e = 0;
  double m = fabs(v) < 0x1p-14 ? 0 : frexp(fabs(v), &e);
  if (m == 0) return (uint16_t)(sign | (uint16_t)(fabs(v) * 0x1p24));
  return (uint16_t)(sign | (uint16_t)((e + 14) << 10) | (uint16_t)((m * 2 - 1) * 1024));
}

static inline double half_of_bits(tsr_dtype t, uint16_t bits)
{
  uint32_t wide = (uint32_t)bits << 16;
  float single;
  memcpy(&single, &wide, sizeof single);
  if (t == TSR_BF16) return (double)single;
  int e = bits >> 10 & 31, m = bits & 1023;
  double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
             : e     ? ldexp(1024 + m, e - 25)
                     : ldexp(m, -24);
  return bits >> 15 ? -v : v;
}

static inline void dense_store(const dense *d, void *out)
{
  size_t size = tsr_dtype_size(d->dtype);
  for (int64_t k = 0; k < d->count; k++) {
    switch (d->dtype) {
    case TSR_F64: ((double *)out)[k] = d->f[k]; break;
    case TSR_F32: ((float *)out)[k] = (float)d->f[k]; break;
    case TSR_F16:
    case TSR_BF16: ((uint16_t *)out)[k] = half_bits(d->dtype, d->f[k]); break;
    default: memcpy((char *)out + (size_t)k * size, &d->i[k], size); /* little-endian */
    }
  }
}

/* Element k of C memory, as those of a dense array lie. */
static inline void dense_load(tsr_dtype t, const void *from, int64_t k, double *f, int64_t *i)
{
  switch (t) {
  case TSR_F64: *f = ((const double *)from)[k]; break;
  case TSR_F32: *f = (double)((const float *)from)[k]; break;
  case TSR_F16:
  case TSR_BF16: *f = half_of_bits(t, ((const uint16_t *)from)[k]); break;
  case TSR_U64:
  case TSR_I64: *i = ((const int64_t *)from)[k]; break;
  case TSR_I32: *i = ((const int32_t *)from)[k]; break;
  case TSR_U32: *i = ((const uint32_t *)from)[k]; break;
  case TSR_I16: *i = ((const int16_t *)from)[k]; break;
  case TSR_U16: *i = ((const uint16_t *)from)[k]; break;
  case TSR_I8: *i = ((const int8_t *)from)[k]; break;
  default: *i = ((const uint8_t *)from)[k];
  }
}

/* The first element that differs in bits (NaNs are equal), or -1. */
static inline int64_t dense_differs(const dense *d, const void *found)
{
  for (int64_t k = 0; k < d->count; k++) {
    double f = 0;
    int64_t i = 0;
    dense_load(d->dtype, found, k, &f, &i);
    bool same = is_float(d->dtype) ? (isnan(f) && isnan(d->f[k])) || memcmp(&f, &d->f[k], 8) == 0
                                   : i == d->i[k];
    if (!same) return k;
  }
  return -1;
}

#endif
