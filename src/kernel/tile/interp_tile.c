/* The pure tile functions and the table that the interpreter looks them up in.
 *
 * Each is a plain loop that the compiler vectorises for the instruction set of the moment; only
 * conversions between values and bits are written by hand. One loop serves each shape of operands
 * (vector with vector, vector with one value). Invariant: element i of the result depends on
 * element i of the operands alone, through one rounding.
 *
 * A tile function:
 *
 *   f(out, a, b, c, { n, scalar })   n elements; bit k of `scalar`: operand k is one
 *                                    value for all
 *
 * Bools are bits, 64 elements a word, the first of them lowest. Bits and elements after the n-th
 * have no meaning: they may be written where they fill a word, and are never counted. */
#include "kernel/tile/tile_inner.h"

#include "topology/half.h"

/* ---- one operand ---------------------------------------------------------------------------- */

/* Only the size counts: a copy does not depend on the bits' meaning. */
#define COPY(name, T)                                     \
  static void name(OPERANDS)                              \
  {                                                       \
    SPAN;                                                 \
    T *to = out;                                          \
    const T *from = a, v = *from;                         \
    UNUSED_3(b, c, scalar);                               \
    if (!scalar) memcpy(to, from, (size_t)n * sizeof(T)); \
    else                                                  \
      for (int64_t i = 0; i < n; i++) to[i] = v;          \
  }

COPY(copy_32, int32_t)
COPY(copy_64, int64_t)

/* Integers are negated and their size is taken as unsigned, where the least one wraps to itself
 * instead of being undefined. */
UNARY(neg_i32, int32_t, int32_t, (int32_t)(0 - (uint32_t)v))
UNARY(neg_i64, int64_t, int64_t, (int64_t)(0 - (uint64_t)v))
UNARY(neg_f32, float, float, -v)
UNARY(neg_f64, double, double, -v)
UNARY(abs_i32, int32_t, int32_t, v < 0 ? (int32_t)(0 - (uint32_t)v) : v)
UNARY(abs_i64, int64_t, int64_t, v < 0 ? (int64_t)(0 - (uint64_t)v) : v)
UNARY(abs_f32, float, float, fabsf(v))
UNARY(abs_f64, double, double, fabs(v))
UNARY(sqrt_f32, float, float, sqrtf(v))
UNARY(sqrt_f64, double, double, sqrt(v))
UNARY(rint_f32, float, float, rintf(v))
UNARY(rint_f64, double, double, rint(v))
UNARY(floor_f32, float, float, floorf(v))
UNARY(floor_f64, double, double, floor(v))
UNARY(ceil_f32, float, float, ceilf(v))
UNARY(ceil_f64, double, double, ceil(v))
UNARY(trunc_f32, float, float, truncf(v))
UNARY(trunc_f64, double, double, trunc(v))

/* ---- two operands --------------------------------------------------------------------------- */

/* `scalar` says which operand is one value for all: 2 the right one, 1 the left one, 0 none. The
 * operands are never both one value, as that would be a uniform, which the prologue computes with n
 * = 1. */
#define BINARY(name, T, R, EXPRESSION)          \
  static void name(OPERANDS)                    \
  {                                             \
    SPAN;                                       \
    R *to = out;                                \
    const T *x = a, *y = b;                     \
    (void)c;                                    \
    if (scalar == 2) {                          \
      const T r = *y;                           \
      ANY_ORDER for (int64_t i = 0; i < n; i++) \
      {                                         \
        T l = x[i];                             \
        to[i] = EXPRESSION;                     \
      }                                         \
    } else if (scalar == 1) {                   \
      const T l = *x;                           \
      ANY_ORDER for (int64_t i = 0; i < n; i++) \
      {                                         \
        T r = y[i];                             \
        to[i] = EXPRESSION;                     \
      }                                         \
    } else {                                    \
      ANY_ORDER for (int64_t i = 0; i < n; i++) \
      {                                         \
        T l = x[i], r = y[i];                   \
        to[i] = EXPRESSION;                     \
      }                                         \
    }                                           \
  }

/* Unsigned arithmetic wraps and gives the same bits as two's complement; the signed kind may not
 * overflow in C. */
#define WRAP32(l, op, r) ((int32_t)((uint32_t)(l)op(uint32_t)(r)))
#define WRAP64(l, op, r) ((int64_t)((uint64_t)(l)op(uint64_t)(r)))

BINARY(add_i32, int32_t, int32_t, WRAP32(l, +, r))
BINARY(add_i64, int64_t, int64_t, WRAP64(l, +, r))
BINARY(add_f32, float, float, l + r)
BINARY(add_f64, double, double, l + r)
BINARY(sub_i32, int32_t, int32_t, WRAP32(l, -, r))
BINARY(sub_i64, int64_t, int64_t, WRAP64(l, -, r))
BINARY(sub_f32, float, float, l - r)
BINARY(sub_f64, double, double, l - r)
BINARY(mul_i32, int32_t, int32_t, WRAP32(l, *, r))
BINARY(mul_i64, int64_t, int64_t, WRAP64(l, *, r))
BINARY(mul_f32, float, float, l *r)
BINARY(mul_f64, double, double, l *r)
BINARY(div_f32, float, float, l / r)
BINARY(div_f64, double, double, l / r)

/* Divisors 0 and -1 take part as 1, so that nothing traps; -1 is a negation, which wraps. C cuts
 * towards zero, so the quotient is one less where something is left and the signs differ. */
#define INT_DIVISION(I, U, suffix)                                                    \
  INLINE I floordiv_##suffix(I l, I r)                                                \
  {                                                                                   \
    I by = r == 0 || r == -1 ? 1 : r;                                                 \
    I whole = l / by, rest = l % by;                                                  \
    if (rest != 0 && (rest < 0) != (by < 0)) whole--;                                 \
    if (r == -1) whole = (I)(0 - (U)l);                                               \
    return r == 0 ? 0 : whole;                                                        \
  }                                                                                   \
  INLINE I mod_##suffix(I l, I r)                                                     \
  {                                                                                   \
    I by = r == 0 || r == -1 ? 1 : r;                                                 \
    I rest = l % by;                                                                  \
    if (rest != 0 && (rest < 0) != (by < 0)) rest += by;                              \
    return rest;                                                                      \
  }                                                                                   \
  INLINE I fmod_##suffix(I l, I r)                                                    \
  {                                                                                   \
    return r == 0 || r == -1 ? 0 : l % r;                                             \
  }                                                                                   \
  /* Wraps; a negative power is the whole part of the quotient, 0 for a base of 0. */ \
  INLINE I pow_##suffix(I l, I r)                                                     \
  {                                                                                   \
    if (r < 0) return l == 1 ? 1 : l == -1 ? (r & 1 ? -1 : 1) : 0;                    \
    U result = 1, base = (U)l;                                                        \
    for (; r; r >>= 1) {                                                              \
      if (r & 1) result *= base;                                                      \
      base *= base;                                                                   \
    }                                                                                 \
    return (I)result;                                                                 \
  }

INT_DIVISION(int32_t, uint32_t, whole32)
INT_DIVISION(int64_t, uint64_t, whole64)

/* The divisor 0 gives 0, as above. */
#define UINT_DIVISION(U, suffix)       \
  INLINE U floordiv_##suffix(U l, U r) \
  {                                    \
    return r == 0 ? 0 : l / r;         \
  }                                    \
  INLINE U mod_##suffix(U l, U r)      \
  {                                    \
    return r == 0 ? 0 : l % r;         \
  }                                    \
  INLINE U pow_##suffix(U l, U r)      \
  {                                    \
    U result = 1;                      \
    for (; r; r >>= 1, l *= l)         \
      if (r & 1) result *= l;          \
    return result;                     \
  }

UINT_DIVISION(uint32_t, natural32)
UINT_DIVISION(uint64_t, natural64)

/* The remainder of an exact division cut towards zero, with the sign of l: a long division of
 * mantissas, 11 bits of the quotient a step, so nothing is rounded. Operands without a remainder
 * give NaN.
 *
 *   l = x * 2^from, r = y * 2^to:   x mod y, then 11 bits are brought down at a time:
 *   x < y < 2^53, so x << 11 fits 64 bits, and (x << 11) mod y is the next remainder */
INLINE double division_rest(double l, double r)
{
  const uint64_t sign = UINT64_C(1) << 63, hidden = UINT64_C(1) << 52, top = 0x7ff * hidden;
  uint64_t a, b;
  memcpy(&a, &l, sizeof a);
  memcpy(&b, &r, sizeof b);
  uint64_t minus = a & sign;
  a &= ~sign;
  b &= ~sign;
  /* No rest where r is 0 or NaN, or l infinite or NaN. An infinite r leaves l as it is. */
  if (b == 0 || a >= top || b > top) return NAN;
  /* The sizes of positive floats are ordered as their bits are. */
  if (a < b) return l;
  int64_t from = (int64_t)(a >> 52), to = (int64_t)(b >> 52);
  /* Mantissas as whole numbers, the hidden bit in front of those that have one. */
  uint64_t x = from ? (a & (hidden - 1)) | hidden : a, y = to ? (b & (hidden - 1)) | hidden : b;
  to += !to; /* denormals lie as numbers of exponent 1 do */
  /* Invariant: x < y is the remainder of the bits of l that were brought down so far. */
  x %= y;
  for (int64_t left = from + !from - to; left > 0 && x; left -= 11)
    x = (x << (left < 11 ? left : 11)) % y;
  /* Put right: the leading one back to bit 52, but not below the exponent of denormals. */
  if (x) {
    int64_t up = __builtin_clzll(x) - 11;
    if (up >= to) up = to - 1;
    x = (x << up) + ((uint64_t)(to - up - 1) << 52); /* the hidden bit adds one to the exponent */
  }
  x |= minus;
  memcpy(&l, &x, sizeof l);
  return l;
}

/* The remainder of an exact division rounded down: the sign of r, never rounded but where r is
 * added once. That of f32 has room in f64, which holds it exactly. */
INLINE double mod_real(double l, double r)
{
  double rest = division_rest(l, r);
  if (rest == 0) return copysign(0, r);
  return (rest < 0) != (r < 0) ? rest + r : rest;
}

/* A rest is no longer than r and lies on l's or r's last place, so those of f32 are f32. */
INLINE float mod_real32(float l, float r)
{
  float rest = (float)division_rest((double)l, (double)r);
  if (rest == 0) return copysignf(0, r);
  return (rest < 0) != (r < 0) ? rest + r : rest;
}

/* The whole quotient that goes with mod: l is floordiv * r + mod, up to rounding, which floor(l /
 * r) is not where l / r rounds up to a whole number (1 // 0.1 is 9, with 0.1 left). */
INLINE double floordiv_real(double l, double r)
{
  double rest = division_rest(l, r), quotient = (l - rest) / r;
  if (r == 0) return l / r;
  if (rest != 0 && (r < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0, l / r);
  /* The quotient is nearly whole, off by a rounding either way; beyond 2^53 it is whole of
   * itself. */
  double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

/* Works like f64's; the rest, which is an f32, is taken there. */
INLINE float floordiv_real32(float l, float r)
{
  float rest = (float)division_rest((double)l, (double)r), quotient = (l - rest) / r;
  if (r == 0) return l / r;
  if (rest != 0 && (r < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysignf(0, l / r);
  float whole = floorf(quotient);
  return quotient - whole > 0.5f ? whole + 1 : whole;
}

BINARY(floordiv_i32, int32_t, int32_t, floordiv_whole32(l, r))
BINARY(floordiv_i64, int64_t, int64_t, floordiv_whole64(l, r))
BINARY(floordiv_u32, uint32_t, uint32_t, floordiv_natural32(l, r))
BINARY(floordiv_u64, uint64_t, uint64_t, floordiv_natural64(l, r))
BINARY(floordiv_f32, float, float, floordiv_real32(l, r))
BINARY(floordiv_f64, double, double, floordiv_real(l, r))
BINARY(mod_i32, int32_t, int32_t, mod_whole32(l, r))
BINARY(mod_i64, int64_t, int64_t, mod_whole64(l, r))
BINARY(mod_u32, uint32_t, uint32_t, mod_natural32(l, r))
BINARY(mod_u64, uint64_t, uint64_t, mod_natural64(l, r))
BINARY(mod_f32, float, float, mod_real32(l, r))
BINARY(mod_f64, double, double, mod_real(l, r))
BINARY(fmod_i32, int32_t, int32_t, fmod_whole32(l, r))
BINARY(fmod_i64, int64_t, int64_t, fmod_whole64(l, r))
/* Rounded down and towards zero are the same without signs. */
BINARY(fmod_u32, uint32_t, uint32_t, mod_natural32(l, r))
BINARY(fmod_u64, uint64_t, uint64_t, mod_natural64(l, r))
BINARY(fmod_f32, float, float, (float)division_rest((double)l, (double)r))
BINARY(fmod_f64, double, double, division_rest(l, r))
BINARY(pow_i32, int32_t, int32_t, pow_whole32(l, r))
BINARY(pow_i64, int64_t, int64_t, pow_whole64(l, r))
BINARY(pow_u32, uint32_t, uint32_t, pow_natural32(l, r))
BINARY(pow_u64, uint64_t, uint64_t, pow_natural64(l, r))

/* Equal values: the bits in common tell +0 from -0. Unordered ones: all bits of a NaN joined by
 * others are still a NaN. So the smaller of both zeros is -0, and the larger +0. */
#define FLOAT_ENDS(T, I, suffix)     \
  INLINE T joined_##suffix(T l, T r) \
  {                                  \
    I a, b;                          \
    memcpy(&a, &l, sizeof a);        \
    memcpy(&b, &r, sizeof b);        \
    a |= b;                          \
    memcpy(&l, &a, sizeof l);        \
    return l;                        \
  }                                  \
  INLINE T common_##suffix(T l, T r) \
  {                                  \
    I a, b;                          \
    memcpy(&a, &l, sizeof a);        \
    memcpy(&b, &r, sizeof b);        \
    a &= b;                          \
    memcpy(&l, &a, sizeof l);        \
    return l;                        \
  }

FLOAT_ENDS(float, uint32_t, f32)
FLOAT_ENDS(double, uint64_t, f64)

BINARY(min_i32, int32_t, int32_t, l < r ? l : r)
BINARY(min_i64, int64_t, int64_t, l < r ? l : r)
BINARY(min_u32, uint32_t, uint32_t, l < r ? l : r)
BINARY(min_u64, uint64_t, uint64_t, l < r ? l : r)
BINARY(min_f32, float, float, l < r ? l : r < l ? r : joined_f32(l, r))
BINARY(min_f64, double, double, l < r ? l : r < l ? r : joined_f64(l, r))
BINARY(max_i32, int32_t, int32_t, l > r ? l : r)
BINARY(max_i64, int64_t, int64_t, l > r ? l : r)
BINARY(max_u32, uint32_t, uint32_t, l > r ? l : r)
BINARY(max_u64, uint64_t, uint64_t, l > r ? l : r)
BINARY(max_f32, float, float, l > r ? l : r > l ? r : l == r ? common_f32(l, r) : joined_f32(l, r))
BINARY(max_f64, double, double,
       l > r    ? l
       : r > l  ? r
       : l == r ? common_f64(l, r)
                : joined_f64(l, r))

/* These serve integers, and floats in formulas. */
BINARY(and_i32, uint32_t, uint32_t, l &r)
BINARY(and_i64, uint64_t, uint64_t, l &r)
BINARY(or_i32, uint32_t, uint32_t, l | r)
BINARY(or_i64, uint64_t, uint64_t, l | r)
BINARY(xor_i32, uint32_t, uint32_t, l ^ r)
BINARY(xor_i64, uint64_t, uint64_t, l ^ r)
/* Shifts of formulas, whose counts are constants in range; those of users (left, right) have any
 * count. */
BINARY(shl_i64, uint64_t, uint64_t, l << (r & 63))
BINARY(shr_i64, uint64_t, uint64_t, l >> (r & 63))

/* Counts that are too large shift everything out, and of a signed number its sign is left. */
BINARY(left_i32, uint32_t, uint32_t, r < 32 ? l << (r & 31) : 0)
BINARY(left_i64, uint64_t, uint64_t, r < 64 ? l << (r & 63) : 0)
BINARY(right_i32, int32_t, int32_t, l >> ((uint32_t)r < 32 ? r : 31))
BINARY(right_i64, int64_t, int64_t, l >> ((uint64_t)r < 64 ? r : 63))
BINARY(right_u32, uint32_t, uint32_t, r < 32 ? l >> (r & 31) : 0)
BINARY(right_u64, uint64_t, uint64_t, r < 64 ? l >> (r & 63) : 0)
/* Counting leading zeros of 0 is undefined for the instruction, hence the branch. */
UNARY(popcount_i32, uint32_t, uint32_t, (uint32_t)__builtin_popcount(v))
UNARY(popcount_i64, uint64_t, uint64_t, (uint64_t)__builtin_popcountll(v))
UNARY(clz_i32, uint32_t, uint32_t, v ? (uint32_t)__builtin_clz(v) : 32)
UNARY(clz_i64, uint64_t, uint64_t, v ? (uint64_t)__builtin_clzll(v) : 64)
BINARY(copysign_f32, float, float, copysignf(l, r))
BINARY(copysign_f64, double, double, copysign(l, r))

/* The next number of few bits differs in its last one, which is bit `step` of its register, or,
 * below `least`, where numbers are as close as they get, by `tiny`. Narrow floats lie in an f32,
 * whose fraction has 13 bits more than that of f16 and 16 more than that of bf16: hence their
 * steps. */
#define NEXT(name, T, U, ABS, SIGN, step, least, tiny, largest)                \
  INLINE T name##_of(T x, T y)                                                 \
  {                                                                            \
    T size = ABS(x);                                                           \
    U bits;                                                                    \
    if (x != x || y != y) return x + y;                                        \
    if (x == y) return y;                                                      \
    if (size == 0) return SIGN((T)(tiny), y);                                  \
    bool down = (y > x) != (x > 0);                                            \
    if (size > (T)(largest)) return SIGN((T)(largest), x); /* from infinity */ \
    memcpy(&bits, &size, sizeof bits);                                         \
    bits = down ? bits - (U)(step) : bits + (U)(step);                         \
    bool close = down ? size <= (T)(least) : size < (T)(least);                \
    if (close) size = down ? size - (T)(tiny) : size + (T)(tiny);              \
    else memcpy(&size, &bits, sizeof size);                                    \
    return SIGN(size, x);                                                      \
  }                                                                            \
  BINARY(name, T, T, name##_of(l, r))

NEXT(next_f16, float, uint32_t, fabsf, copysignf, 0x2000, 0x1p-14f, 0x1p-24f, 65504)
NEXT(next_bf16, float, uint32_t, fabsf, copysignf, 0x10000, 0x1p-126f, 0x1p-133f, 0x1.fep127f)
NEXT(next_f32, float, uint32_t, fabsf, copysignf, 1, 0x1p-126f, 0x1p-149f, 0x1.fffffep127f)
NEXT(next_f64, double, uint64_t, fabs, copysign, 1, 0x1p-1022, 0x1p-1074, 0x1.fffffffffffffp1023)

/* ---- comparisons: bits out ------------------------------------------------------------------- */

/* A comparison of 64 elements fills bytes, which compilers make vectors of, and these become one
 * word of bits at once (pack64). Nobody may rely on bits beyond n. */
#define TO_BITS(name, T, EXPRESSION)                  \
  static void name(OPERANDS)                          \
  {                                                   \
    SPAN;                                             \
    uint64_t *to = out;                               \
    const T *x = a, *y = b;                           \
    (void)c;                                          \
    for (int64_t at = 0; at < n; at += 64) {          \
      uint8_t byte[64] = { 0 };                       \
      int64_t count = n - at < 64 ? n - at : 64;      \
      if (scalar == 2) {                              \
        const T r = *y;                               \
        ANY_ORDER for (int64_t i = 0; i < count; i++) \
        {                                             \
          T l = x[at + i];                            \
          byte[i] = EXPRESSION;                       \
        }                                             \
      } else if (scalar == 1) {                       \
        const T l = *x;                               \
        ANY_ORDER for (int64_t i = 0; i < count; i++) \
        {                                             \
          T r = y[at + i];                            \
          byte[i] = EXPRESSION;                       \
        }                                             \
      } else {                                        \
        ANY_ORDER for (int64_t i = 0; i < count; i++) \
        {                                             \
          T l = x[at + i], r = y[at + i];             \
          byte[i] = EXPRESSION;                       \
        }                                             \
      }                                               \
      to[at / 64] = pack64(byte);                     \
    }                                                 \
  }

#ifdef TILE_AVX512
/* Masked loads read nothing where the mask is 0, so the last elements need no loop of their own
 * and no byte beyond them is touched. */
#define M512_f64(p, k) _mm512_maskz_loadu_pd((__mmask8)(k), p)
#define M512_f32(p, k) _mm512_maskz_loadu_ps((__mmask16)(k), p)
#define M512_i64(p, k) _mm512_maskz_loadu_epi64((__mmask8)(k), p)
#define M512_i32(p, k) _mm512_maskz_loadu_epi32((__mmask16)(k), p)
#define M512_u64(p, k) M512_i64(p, k)
#define M512_u32(p, k) M512_i32(p, k)
#define V512_f64 __m512d
#define V512_f32 __m512
#define V512_i64 __m512i
#define V512_i32 __m512i
#define V512_u64 __m512i
#define V512_u32 __m512i
#define ONE_f64(v) _mm512_set1_pd(v)
#define ONE_f32(v) _mm512_set1_ps(v)
#define ONE_i64(v) _mm512_set1_epi64(v)
#define ONE_i32(v) _mm512_set1_epi32(v)
#define ONE_u64(v) _mm512_set1_epi64((int64_t)(v))
#define ONE_u32(v) _mm512_set1_epi32((int32_t)(v))
#define CMP512_f64(l, r, float_p, int_p) _mm512_cmp_pd_mask(l, r, float_p)
#define CMP512_f32(l, r, float_p, int_p) _mm512_cmp_ps_mask(l, r, float_p)
#define CMP512_i64(l, r, float_p, int_p) _mm512_cmp_epi64_mask(l, r, int_p)
#define CMP512_i32(l, r, float_p, int_p) _mm512_cmp_epi32_mask(l, r, int_p)
#define CMP512_u64(l, r, float_p, int_p) _mm512_cmp_epu64_mask(l, r, int_p)
#define CMP512_u32(l, r, float_p, int_p) _mm512_cmp_epu32_mask(l, r, int_p)

/* A vector's answers are one or two bytes of the result. */
#define COMPARE_ONE(name, T, s, M, float_p, int_p)           \
  static void name##_##s(OPERANDS)                           \
  {                                                          \
    SPAN;                                                    \
    enum { LANES = 64 / sizeof(T) };                         \
    const T *x = a, *y = b;                                  \
    M *to = out;                                             \
    (void)c;                                                 \
    V512_##s l = ONE_##s(*x), r = ONE_##s(*y);               \
    int64_t whole = n - n % LANES;                           \
    for (int64_t i = 0; i < whole; i += LANES) {             \
      if (scalar != 1) l = M512_##s(x + i, ~0u);             \
      if (scalar != 2) r = M512_##s(y + i, ~0u);             \
      to[i / LANES] = (M)CMP512_##s(l, r, float_p, int_p);   \
    }                                                        \
    if (whole == n) return;                                  \
    unsigned some = (1u << (n - whole)) - 1;                 \
    if (scalar != 1) l = M512_##s(x + whole, some);          \
    if (scalar != 2) r = M512_##s(y + whole, some);          \
    to[whole / LANES] = (M)CMP512_##s(l, r, float_p, int_p); \
  }
/* Given an operator and the predicates of instructions; each version takes the ones that it
 * needs. */
#define COMPARE(name, OP, float_p, int_p)                   \
  COMPARE_ONE(name, int32_t, i32, uint16_t, float_p, int_p) \
  COMPARE_ONE(name, int64_t, i64, uint8_t, float_p, int_p)  \
  COMPARE_ONE(name, float, f32, uint16_t, float_p, int_p)   \
  COMPARE_ONE(name, double, f64, uint8_t, float_p, int_p)
#define COMPARE_NATURAL(name, OP, int_p)               \
  COMPARE_ONE(name, uint32_t, u32, uint16_t, 0, int_p) \
  COMPARE_ONE(name, uint64_t, u64, uint8_t, 0, int_p)
#else
#define COMPARE(name, OP, float_p, int_p) \
  TO_BITS(name##_i32, int32_t, (l OP r))  \
  TO_BITS(name##_i64, int64_t, (l OP r))  \
  TO_BITS(name##_f32, float, (l OP r))    \
  TO_BITS(name##_f64, double, (l OP r))
#define COMPARE_NATURAL(name, OP, int_p)  \
  TO_BITS(name##_u32, uint32_t, (l OP r)) \
  TO_BITS(name##_u64, uint64_t, (l OP r))
#endif

/* Comparisons are C's for floats: quiet and ordered, so that a NaN is neither below, above nor
 * equal, and only != holds for it. AVX-512 names > on integers "not less or equal". */
COMPARE(eq, ==, _CMP_EQ_OQ, _MM_CMPINT_EQ)
COMPARE(ne, !=, _CMP_NEQ_UQ, _MM_CMPINT_NE)
COMPARE(lt, <, _CMP_LT_OQ, _MM_CMPINT_LT)
COMPARE(le, <=, _CMP_LE_OQ, _MM_CMPINT_LE)
COMPARE(gt, >, _CMP_GT_OQ, _MM_CMPINT_NLE)
COMPARE(ge, >=, _CMP_GE_OQ, _MM_CMPINT_NLT)
COMPARE_NATURAL(lt, <, _MM_CMPINT_LT)
COMPARE_NATURAL(le, <=, _MM_CMPINT_LE)
COMPARE_NATURAL(gt, >, _MM_CMPINT_NLE)
COMPARE_NATURAL(ge, >=, _MM_CMPINT_NLT)

/* Only whether it overflows is kept; the result itself is another instruction's. */
#define OVERFLOWS(name, T, builtin) TO_BITS(name, T, builtin(l, r, &(T){ 0 }))

OVERFLOWS(addovf_i32, int32_t, __builtin_add_overflow)
OVERFLOWS(addovf_i64, int64_t, __builtin_add_overflow)
OVERFLOWS(addovf_u32, uint32_t, __builtin_add_overflow)
OVERFLOWS(addovf_u64, uint64_t, __builtin_add_overflow)
OVERFLOWS(subovf_i32, int32_t, __builtin_sub_overflow)
OVERFLOWS(subovf_i64, int64_t, __builtin_sub_overflow)
OVERFLOWS(subovf_u32, uint32_t, __builtin_sub_overflow)
OVERFLOWS(subovf_u64, uint64_t, __builtin_sub_overflow)
OVERFLOWS(mulovf_i32, int32_t, __builtin_mul_overflow)
OVERFLOWS(mulovf_i64, int64_t, __builtin_mul_overflow)
OVERFLOWS(mulovf_u32, uint32_t, __builtin_mul_overflow)
OVERFLOWS(mulovf_u64, uint64_t, __builtin_mul_overflow)

/* Tests of one operand are comparisons with itself or with zero. */
#define TEST_ONE(name, T, by, other, s)                       \
  static void name(OPERANDS)                                  \
  {                                                           \
    SPAN;                                                     \
    const T zero = 0;                                         \
    UNUSED_3(b, c, scalar);                                   \
    (void)zero;                                               \
    by(out, a, other, NULL, (tsr__stretch){ (int32_t)n, s }); \
  }

TEST_ONE(isnan_f32, float, ne_f32, a, 0)
TEST_ONE(isnan_f64, double, ne_f64, a, 0)
TEST_ONE(to_bool_i32, int32_t, ne_i32, &zero, 2)
TEST_ONE(to_bool_i64, int64_t, ne_i64, &zero, 2)
TEST_ONE(to_bool_f32, float, ne_f32, &zero, 2)
TEST_ONE(to_bool_f64, double, ne_f64, &zero, 2)

/* ---- bits ------------------------------------------------------------------------------------ */

#define LOGIC(name, EXPRESSION)                                               \
  static void name(OPERANDS)                                                  \
  {                                                                           \
    SPAN;                                                                     \
    uint64_t *to = out;                                                       \
    const uint64_t *x = a, *y = b;                                            \
    UNUSED_3(c, scalar, y);                                                   \
    ANY_ORDER for (int64_t i = 0; i < (n + 63) / 64; i++) to[i] = EXPRESSION; \
  }

/* A word at a time: the bits after the last element take part and mean nothing. */
LOGIC(copy_bool, x[i])
LOGIC(not_bool, ~x[i])
LOGIC(and_bool, x[i] & y[i])
LOGIC(or_bool, x[i] | y[i])
LOGIC(xor_bool, x[i] ^ y[i])
LOGIC(eq_bool, ~(x[i] ^ y[i]))
/* The order of false below true: l < r is (not l) and r, and so on. */
LOGIC(andnot_bool, ~x[i] & y[i])
LOGIC(le_bool, ~x[i] | y[i])
LOGIC(gt_bool, x[i] & ~y[i])
LOGIC(ge_bool, x[i] | ~y[i])

/* One bool for a whole tile. A tile of bits is 128 bytes, as large as a cell of a bool uniform. */
static void spread_bool(OPERANDS)
{
  SPAN;
  uint64_t *to = out, all = 0 - (*(const uint64_t *)a & 1);
  (void)n;
  UNUSED_3(b, c, scalar);
  for (int i = 0; i < TSR__TILE / 64; i++) to[i] = all;
}

/* b: NULL, or a second condition. */
static int64_t count_tile_bits(const uint64_t *a, const uint64_t *b, int64_t n)
{
  int64_t count = 0;
  for (int64_t i = 0; i < n / 64; i++) count += __builtin_popcountll(b ? a[i] & b[i] : a[i]);
  /* Bits beyond the end are whatever was there and must not count. */
  if (n % 64 == 0) return count;
  const uint64_t last = b ? a[n / 64] & b[n / 64] : a[n / 64];
  return count + __builtin_popcountll(last & ((UINT64_C(1) << (n % 64)) - 1));
}

/* ---- three operands -------------------------------------------------------------------------- */

static void where_bool(OPERANDS)
{
  SPAN;
  uint64_t *to = out;
  const uint64_t *bits = a, *x = b, *y = c;
  (void)scalar;
  ANY_ORDER for (int64_t i = 0; i < (n + 63) / 64; i++) to[i] =
      (bits[i] & x[i]) | (~bits[i] & y[i]);
}

/* Elements are chosen as integers of their size: 32 or 64 bits. Here bit 1 of `scalar` is the value
 * for true, bit 2 that for false. */
#ifdef TILE_AVX512
#define WHERE(name, T, s, M)                                                       \
  static void name(OPERANDS)                                                       \
  {                                                                                \
    SPAN;                                                                          \
    enum { LANES = 64 / sizeof(T) };                                               \
    T *to = out;                                                                   \
    const T *x = b, *y = c;                                                        \
    const M *bits = a;                                                             \
    __m512i l = ONE_##s(*x), r = ONE_##s(*y);                                      \
    int64_t whole = n - n % LANES;                                                 \
    for (int64_t i = 0; i < whole; i += LANES) {                                   \
      if (!(scalar & 2)) l = M512_##s(x + i, ~0u);                                 \
      if (!(scalar & 4)) r = M512_##s(y + i, ~0u);                                 \
      _mm512_storeu_si512(to + i, _mm512_mask_blend_ep##s(bits[i / LANES], r, l)); \
    }                                                                              \
    if (whole == n) return;                                                        \
    unsigned some = (1u << (n - whole)) - 1;                                       \
    if (!(scalar & 2)) l = M512_##s(x + whole, some);                              \
    if (!(scalar & 4)) r = M512_##s(y + whole, some);                              \
    _mm512_mask_storeu_ep##s(to + whole, (M)some,                                  \
                             _mm512_mask_blend_ep##s(bits[whole / LANES], r, l));  \
  }
#else
#define WHERE(name, T, s, M)                                                                      \
  static void name(OPERANDS)                                                                      \
  {                                                                                               \
    SPAN;                                                                                         \
    T *to = out;                                                                                  \
    const T *x = b, *y = c;                                                                       \
    const uint64_t *words = a;                                                                    \
    for (int64_t at = 0; at < n; at += 64) {                                                      \
      const uint64_t bits = words[at / 64];                                                       \
      int64_t count = n - at < 64 ? n - at : 64;                                                  \
      if (scalar & 2 && scalar & 4) {                                                             \
        const T l = *x, r = *y;                                                                   \
        ANY_ORDER for (int64_t i = 0; i < count; i++) to[at + i] = bits >> i & 1 ? l : r;         \
      } else if (scalar & 2) {                                                                    \
        const T l = *x;                                                                           \
        ANY_ORDER for (int64_t i = 0; i < count; i++) to[at + i] = bits >> i & 1 ? l : y[at + i]; \
      } else if (scalar & 4) {                                                                    \
        const T r = *y;                                                                           \
        ANY_ORDER for (int64_t i = 0; i < count; i++) to[at + i] = bits >> i & 1 ? x[at + i] : r; \
      } else {                                                                                    \
        ANY_ORDER for (int64_t i = 0; i < count; i++) to[at + i] =                                \
            bits >> i & 1 ? x[at + i] : y[at + i];                                                \
      }                                                                                           \
    }                                                                                             \
  }
#endif

WHERE(where_32, int32_t, i32, uint16_t)
WHERE(where_64, int64_t, i64, uint8_t)

/* The product of the first two may be taken in any order; without hardware libm's is exact. Eight
 * loops, one for each choice of single values. */
#define FMA(name, T, fused)                                                                   \
  static void name(OPERANDS)                                                                  \
  {                                                                                           \
    SPAN;                                                                                     \
    const T *x = a, *y = b, *z = c;                                                           \
    T *to = out;                                                                              \
    const T x0 = *x, y0 = *y, z0 = *z;                                                        \
    switch (scalar) {                                                                         \
    case 0: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x[i], y[i], z[i]); break; \
    case 1: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x0, y[i], z[i]); break;   \
    case 2: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x[i], y0, z[i]); break;   \
    case 3: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x0, y0, z[i]); break;     \
    case 4: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x[i], y[i], z0); break;   \
    case 5: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x0, y[i], z0); break;     \
    case 6: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x[i], y0, z0); break;     \
    default: ANY_ORDER for (int64_t i = 0; i < n; i++) to[i] = fused(x0, y0, z0);             \
    }                                                                                         \
  }

/* Results of few bits: the product is exact in f64, and where the sum is not, the odd one of both
 * neighbours is taken, here and in f32, so that rounding to few bits is as if once. The rounding
 * error of the sum is found without a branch (Knuth's two-sum); that rounding to odd and then once
 * more is as rounding once is Boldo and Melquiond's. */
INLINE float fma_odd(float x, float y, float z)
{
  double product = (double)x * (double)y, add = (double)z, sum = product + add;
  double back = sum - product, lost = (product - (sum - back)) + (add - back);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (fabs(lost) > 0 && !(bits & 1)) bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
  memcpy(&sum, &bits, sizeof bits);
  return tsr__odd_of_f64(sum);
}

FMA(fma_f64, double, fma)
FMA(fma_f32, float, fmaf)
FMA(fma_half, float, fma_odd)

/* ---- past the caches ------------------------------------------------------------------------- */

/* Past the caches: lines are not read before they are written. The bases of results are aligned
 * where this is used (move_slot). */
static void stream_bytes(void *to, const void *from, size_t bytes)
{
  size_t whole = 0;
#if defined(TILE_AVX512)
  for (; whole + 64 <= bytes; whole += 64)
    _mm512_stream_si512((void *)((char *)to + whole),
                        _mm512_loadu_si512((const char *)from + whole));
#elif defined(TILE_AVX2)
  for (; whole + 32 <= bytes; whole += 32)
    _mm256_stream_si256((void *)((char *)to + whole),
                        _mm256_loadu_si256((const void *)((const char *)from + whole)));
#elif defined(TILE_SSE2)
  for (; whole + 16 <= bytes; whole += 16)
    _mm_stream_si128((void *)((char *)to + whole),
                     _mm_loadu_si128((const void *)((const char *)from + whole)));
#endif
  memcpy((char *)to + whole, (const char *)from + whole, bytes - whole);
}

static void stream_drain(void)
{
/* Streamed stores are ordered with nothing; the fence makes them visible before the task is
 * done. */
#if defined(TILE_AVX512) || defined(TILE_AVX2) || defined(TILE_SSE2)
  _mm_sfence();
#endif
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Integers: operations that ignore the sign, operations that depend on it. */
#define SIGNED(name) [TSR_I32] = name##_i32, [TSR_I64] = name##_i64
#define WHOLE(name) SIGNED(name), [TSR_U32] = name##_i32, [TSR_U64] = name##_i64
#define EACH(name) SIGNED(name), [TSR_U32] = name##_u32, [TSR_U64] = name##_u64
#define REAL(name) [TSR_F32] = name##_f32, [TSR_F64] = name##_f64
#define SIZED(name)                                                                           \
  [TSR_I32] = name##_32, [TSR_I64] = name##_64, [TSR_U32] = name##_32, [TSR_U64] = name##_64, \
  [TSR_F32] = name##_32, [TSR_F64] = name##_64

/* Functions of other files of this instruction set, by their full names. */
#define TILES(name) TSR__ISA_NAME(tsr__##name)
/* A conversion, by the type it is from or of. */
#define FROM_i(name) [TSR_I32] = TILES(name##_i32), [TSR_I64] = TILES(name##_i64)
#define FROM_u(name) [TSR_U32] = TILES(name##_u32), [TSR_U64] = TILES(name##_u64)
#define FROM_f(name) [TSR_F32] = TILES(name##_f32), [TSR_F64] = TILES(name##_f64)
#define NARROW_WHOLE(name)                                                                 \
  [TSR_I8] = TILES(name##_i8), [TSR_I16] = TILES(name##_i16), [TSR_U8] = TILES(name##_u8), \
  [TSR_U16] = TILES(name##_u16)
#define NARROW_ALL(name) \
  NARROW_WHOLE(name), [TSR_F16] = TILES(name##_f16), [TSR_BF16] = TILES(name##_bf16)

/* Indexed by instruction and dtype of the operands; a NULL is a pair that emit.c never writes.
 * Narrow types have entries only where memory meets registers (widen, narrow, round, clamp), or
 * where the width shows in the result (next, fma). */
static tsr__tile_fn *const functions[TSR__K_COUNT][TSR__DTYPES] = {
  [TSR__K_COPY] = { [TSR_BOOL] = copy_bool, SIZED(copy) },
  [TSR__K_SPREAD] = { [TSR_BOOL] = spread_bool },
  [TSR__K_NEG] = { WHOLE(neg), REAL(neg) },
  [TSR__K_ABS] = { SIGNED(abs), [TSR_U32] = copy_32, [TSR_U64] = copy_64, REAL(abs) },
  [TSR__K_SQRT] = { REAL(sqrt) },
  [TSR__K_RINT] = { REAL(rint) },
  [TSR__K_FLOOR] = { REAL(floor) },
  [TSR__K_CEIL] = { REAL(ceil) },
  [TSR__K_TRUNC] = { REAL(trunc) },
  [TSR__K_ISNAN] = { REAL(isnan) },
  [TSR__K_NOT] = { [TSR_BOOL] = not_bool },
  [TSR__K_TO_BOOL] = { [TSR_BOOL] = copy_bool, WHOLE(to_bool), REAL(to_bool) },
  /* Between integers of one size the bits stay; a longer one is cut to its low bits, which are the
   * same for both signs. */
  [TSR__K_TO_I32] = { [TSR_BOOL] = TILES(to_i32_bool),
                      [TSR_I32] = copy_32,
                      [TSR_U32] = copy_32,
                      [TSR_I64] = TILES(to_i32_i64),
                      [TSR_U64] = TILES(to_i32_i64),
                      FROM_f(to_i32) },
  [TSR__K_TO_U32] = { [TSR_BOOL] = TILES(to_i32_bool),
                      [TSR_I32] = copy_32,
                      [TSR_U32] = copy_32,
                      [TSR_I64] = TILES(to_i32_i64),
                      [TSR_U64] = TILES(to_i32_i64),
                      FROM_f(to_u32) },
  [TSR__K_TO_I64] = { [TSR_BOOL] = TILES(to_i64_bool),
                      [TSR_I32] = TILES(to_i64_i32),
                      [TSR_U32] = TILES(to_i64_u32),
                      [TSR_I64] = copy_64,
                      [TSR_U64] = copy_64,
                      FROM_f(to_i64) },
  [TSR__K_TO_U64] = { [TSR_BOOL] = TILES(to_i64_bool),
                      [TSR_I32] = TILES(to_i64_i32),
                      [TSR_U32] = TILES(to_i64_u32),
                      [TSR_I64] = copy_64,
                      [TSR_U64] = copy_64,
                      FROM_f(to_u64) },
  [TSR__K_TO_F32] = { [TSR_BOOL] = TILES(to_f32_bool),
                      FROM_i(to_f32),
                      FROM_u(to_f32),
                      [TSR_F32] = copy_32,
                      [TSR_F64] = TILES(to_f32_f64) },
  [TSR__K_TO_F64] = { [TSR_BOOL] = TILES(to_f64_bool),
                      FROM_i(to_f64),
                      FROM_u(to_f64),
                      [TSR_F32] = TILES(to_f64_f32),
                      [TSR_F64] = copy_64 },
  [TSR__K_ODD] = { [TSR_I64] = TILES(odd_i64),
                   [TSR_U64] = TILES(odd_u64),
                   [TSR_F64] = TILES(odd_f64) },
  [TSR__K_WIDEN] = { NARROW_ALL(widen) },
  [TSR__K_NARROW] = { NARROW_ALL(narrow) },
  [TSR__K_ROUND] = { NARROW_ALL(round) },
  [TSR__K_CLAMP] = { NARROW_WHOLE(clamp) },
  /* Bools as numbers of one bit: a sum is `or`, a difference `xor`, a product `and`; the smaller
   * one is `and`, the larger `or`. */
  [TSR__K_ADD] = { [TSR_BOOL] = or_bool, WHOLE(add), REAL(add) },
  [TSR__K_SUB] = { [TSR_BOOL] = xor_bool, WHOLE(sub), REAL(sub) },
  [TSR__K_MUL] = { [TSR_BOOL] = and_bool, WHOLE(mul), REAL(mul) },
  [TSR__K_DIV] = { REAL(div) },
  [TSR__K_FLOORDIV] = { EACH(floordiv), REAL(floordiv) },
  [TSR__K_MOD] = { EACH(mod), REAL(mod) },
  [TSR__K_FMOD] = { EACH(fmod), REAL(fmod) },
  [TSR__K_POPCOUNT] = { WHOLE(popcount) },
  [TSR__K_CLZ] = { WHOLE(clz) },
  [TSR__K_LEFT] = { WHOLE(left) },
  [TSR__K_RIGHT] = { EACH(right) },
  [TSR__K_COPYSIGN] = { REAL(copysign) },
  [TSR__K_NEXT] = { REAL(next), [TSR_F16] = next_f16, [TSR_BF16] = next_bf16 },
  [TSR__K_MIN] = { [TSR_BOOL] = and_bool, EACH(min), REAL(min) },
  [TSR__K_MAX] = { [TSR_BOOL] = or_bool, EACH(max), REAL(max) },
  /* Equal bits are equal integers, whatever the sign; order is another matter. */
  [TSR__K_EQ] = { [TSR_BOOL] = eq_bool, WHOLE(eq), REAL(eq) },
  [TSR__K_NE] = { [TSR_BOOL] = xor_bool, WHOLE(ne), REAL(ne) },
  [TSR__K_LT] = { [TSR_BOOL] = andnot_bool, EACH(lt), REAL(lt) },
  [TSR__K_LE] = { [TSR_BOOL] = le_bool, EACH(le), REAL(le) },
  [TSR__K_GT] = { [TSR_BOOL] = gt_bool, EACH(gt), REAL(gt) },
  [TSR__K_GE] = { [TSR_BOOL] = ge_bool, EACH(ge), REAL(ge) },
  [TSR__K_AND] = { [TSR_BOOL] = and_bool, WHOLE(and) },
  [TSR__K_OR] = { [TSR_BOOL] = or_bool, WHOLE(or) },
  [TSR__K_XOR] = { [TSR_BOOL] = xor_bool, WHOLE(xor) },
  [TSR__K_ADDOVF] = { EACH(addovf) },
  [TSR__K_SUBOVF] = { EACH(subovf) },
  [TSR__K_MULOVF] = { EACH(mulovf) },
  [TSR__K_SHL] = { [TSR_I64] = shl_i64 },
  [TSR__K_SHR] = { [TSR_I64] = shr_i64 },
  [TSR__K_WHERE] = { [TSR_BOOL] = where_bool, SIZED(where) },
  [TSR__K_PHILOX] = { [TSR_U64] = TILES(philox_u64) },
  [TSR__K_FMA] = { REAL(fma), [TSR_F16] = fma_half, [TSR_BF16] = fma_half },
#define FORMULA(name, count) [TSR__K_##name] = { FROM_f(name) },
  TSR__FORMULA_MAP(FORMULA)
#undef FORMULA
      /* The map above gave the floats; powers of integers wrap. */
      [TSR__K_pow][TSR_I32] = pow_i32,
  [TSR__K_pow][TSR_I64] = pow_i64,
  [TSR__K_pow][TSR_U32] = pow_u32,
  [TSR__K_pow][TSR_U64] = pow_u64,
};

/* All that is compiled for one instruction set, in one table: choosing the set chooses all of
 * it. */
const tsr__tiles TILES(tiles) = {
  .isa = TSR__ISA_TEXT(TSR__ISA),
  .exact = &TILES(exact_ops),
  .fn = functions,
  .extreme = { [TSR_I32] = TILES(extreme_i32),
               [TSR_I64] = TILES(extreme_i64),
               [TSR_F32] = TILES(extreme_f32),
               [TSR_F64] = TILES(extreme_f64) },
  .count = count_tile_bits,
  .stream = stream_bytes,
  .drain = stream_drain,
  .uniform_f64 = TILES(uniform_f64),
  .uniform_f32 = TILES(uniform_f32),
  .search = { [TSR_I32] = TILES(search_i32),
              [TSR_I64] = TILES(search_i64),
              [TSR_U32] = TILES(search_u32),
              [TSR_U64] = TILES(search_u64),
              [TSR_F32] = TILES(search_f32),
              [TSR_F64] = TILES(search_f64) },
  .keep = { TILES(keep_8), TILES(keep_16), TILES(keep_32), TILES(keep_64) },
  .units = TILES(units),
  .aim = TILES(aim),
  .within = TILES(within),
  .turn = TILES(turn),
  .image = &TILES(image_tiles),
  .rounds = TILES(rounds),
  .products = TILES(products),
};
