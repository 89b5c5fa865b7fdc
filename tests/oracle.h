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

/* Elements of any dtype: f holds floats (f32 values exactly), i integers and bools. */
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

/* Rounds or wraps what was computed to the dtype. */
static inline void dense_set(dense *d, int64_t at, double f, int64_t i)
{
  switch (d->dtype) {
  case TSR_F64: d->f[at] = f; break;
  case TSR_F32: d->f[at] = (double)(float)f; break;
  case TSR_I64: d->i[at] = i; break;
  case TSR_I32: d->i[at] = (int32_t)(uint32_t)(uint64_t)i; break;
  default: d->i[at] = i != 0;
  }
}

static inline tsr_dtype dense_promote(tsr_dtype a, tsr_dtype b)
{
  static const tsr_dtype order[] = { TSR_F64, TSR_F32, TSR_I64, TSR_I32 }; /* as in JAX */
  for (int i = 0; i < 4; i++)
    if (a == order[i] || b == order[i]) return order[i];
  return TSR_BOOL;
}

/* Saturating truncation, NaN to 0. */
static inline int64_t to_integer(double v, tsr_dtype dtype)
{
  if (isnan(v)) return 0;
  if (dtype == TSR_I32)
    return v >= 2147483647.0 ? INT32_MAX : v <= -2147483648.0 ? INT32_MIN : (int32_t)v;
  return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

static inline dense dense_cast(dense a, tsr_dtype dtype)
{
  dense r = dense_new(dtype, a.shape);
  for (int64_t k = 0; k < a.count; k++) {
    if (is_float(a.dtype)) {
      if (dtype == TSR_BOOL) dense_set(&r, k, 0, a.f[k] != 0);
      else if (is_float(dtype)) dense_set(&r, k, a.f[k], 0);
      else dense_set(&r, k, 0, to_integer(a.f[k], dtype));
    } else if (dtype == TSR_F32) {
      r.f[k] = (double)(float)a.i[k];
    } else {
      dense_set(&r, k, (double)a.i[k], a.i[k]);
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

static inline double round_to(tsr_dtype t, double v)
{
  return t == TSR_F32 ? (double)(float)v : v;
}

/* '+': f32 operations are done in double and rounded: exact for + - * / sqrt of f32 operands
 * (53 >= 2 * 24 + 2), so this is one rounding. */
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

static inline int64_t int_op(char op, int64_t a, int64_t b)
{
  switch (op) {
  case '+': return (int64_t)((uint64_t)a + (uint64_t)b);
  case '-': return (int64_t)((uint64_t)a - (uint64_t)b);
  case '*': return (int64_t)((uint64_t)a * (uint64_t)b);
  case 'm': return a < b ? a : b;
  case 'M': return a > b ? a : b;
  case '&': return a & b;
  case '|': return a | b;
  default: return a ^ b;
  }
}

static inline bool compare_op(char op, bool floats, double fa, double fb, int64_t ia, int64_t ib)
{
  int less = floats ? fa < fb : ia < ib, same = floats ? fa == fb : ia == ib;
  int more = floats ? fa > fb : ia > ib;
  switch (op) {
  case 'e': return same;
  case 'n': return !same;
  case 'l': return less;
  case 'L': return less || same;
  case 'g': return more;
  default: return more || same;
  }
}

/* op: + - * / m(in) M(ax) & | ^ and comparisons e n l L g G. */
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
    if (compares) r.i[k] = compare_op(op, is_float(common), x.f[p], y.f[q], x.i[p], y.i[q]);
    else if (is_float(common)) dense_set(&r, k, float_op(op, x.f[p], y.f[q]), 0);
    else dense_set(&r, k, 0, int_op(op, x.i[p], y.i[q]));
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
    else dense_set(&r, k, 0, op == '-' || x.i[k] < 0 ? (int64_t)(0 - (uint64_t)x.i[k]) : x.i[k]);
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
  int64_t imin, imax;
  bool any, all;
  int64_t nonzero;
  uint64_t product;
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
    big_int v = x->dtype == TSR_U64 ? (big_int)(uint64_t)x->i[k] : (big_int)x->i[k];
    t->isum += v;
    /* Wraps for integers that only other results are asked of. */
    t->isquares = (big_int)((big_unsigned)t->isquares + (big_unsigned)v * (big_unsigned)v);
    t->imin = t->n && t->imin < v ? t->imin : (int64_t)v;
    t->imax = t->n && t->imax > v ? t->imax : (int64_t)v;
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
  if (!root) return to == TSR_F32 ? (double)(float)v : (double)v;
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
    if (lo * lo <= v && v <= hi * hi) return c;
  }
  return r;
}

/* op: S(um) P(rod, integers) A(mean) V(ar) D(std) m M, y(any) Y(all) c(ount). */
static inline dense dense_reduce(char op, dense x, uint32_t dims, bool keep, int64_t ddof,
                                 const dense *mask)
{
  tsr_dtype t = x.dtype;
  if (op == 'S' || op == 'P') t = t == TSR_BOOL || t == TSR_I32 ? TSR_I64 : t;
  if (strchr("AVD", op) && !is_float(t)) t = TSR_F64;
  if (op == 'y' || op == 'Y') t = TSR_BOOL;
  if (op == 'c') t = TSR_I64;
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
    tallies[k].imin = x.dtype == TSR_I32 ? INT32_MAX : x.dtype == TSR_BOOL ? 1 : INT64_MAX;
    tallies[k].imax = x.dtype == TSR_I32 ? INT32_MIN : x.dtype == TSR_BOOL ? 0 : INT64_MIN;
    tallies[k].fmin = (double)INFINITY;
    tallies[k].fmax = -(double)INFINITY;
  }
  for (int64_t k = 0; k < x.count; k++) {
    if (mask && !mask->i[broadcast_index(mask->shape, x.shape, k)]) continue;
    tally_add(&tallies[broadcast_index(full, x.shape, k)], &x, k);
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
    case 'm': dense_set(&r, k, y->fmin, y->imin); break;
    case 'M': dense_set(&r, k, y->fmax, y->imax); break;
    case 'y': r.i[k] = y->any; break;
    case 'Y': r.i[k] = y->all; break;
    default: r.i[k] = y->nonzero;
    }
  }
  free(tallies);
  return r;
}

/* ---- elements of C memory ---- */

static inline void dense_store(const dense *d, void *out)
{
  for (int64_t k = 0; k < d->count; k++) {
    switch (d->dtype) {
    case TSR_F64: ((double *)out)[k] = d->f[k]; break;
    case TSR_F32: ((float *)out)[k] = (float)d->f[k]; break;
    case TSR_I64: ((int64_t *)out)[k] = d->i[k]; break;
    case TSR_I32: ((int32_t *)out)[k] = (int32_t)d->i[k]; break;
    default: ((uint8_t *)out)[k] = (uint8_t)d->i[k];
    }
  }
}

/* The first element that differs in bits (NaNs are equal), or -1. */
static inline int64_t dense_differs(const dense *d, const void *found)
{
  for (int64_t k = 0; k < d->count; k++) {
    bool same;
    if (d->dtype == TSR_F64) {
      double v = ((const double *)found)[k];
      same = (isnan(v) && isnan(d->f[k])) || memcmp(&v, &d->f[k], 8) == 0;
    } else if (d->dtype == TSR_F32) {
      float v = ((const float *)found)[k], w = (float)d->f[k];
      same = (isnan(v) && isnan(w)) || memcmp(&v, &w, 4) == 0;
    } else if (d->dtype == TSR_I64) {
      same = ((const int64_t *)found)[k] == d->i[k];
    } else if (d->dtype == TSR_I32) {
      same = ((const int32_t *)found)[k] == d->i[k];
    } else {
      same = ((const uint8_t *)found)[k] == (uint8_t)d->i[k];
    }
    if (!same) return k;
  }
  return -1;
}

#endif
