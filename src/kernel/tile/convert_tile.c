/* Conversions of a tile: between the types of registers, and between registers and memory.
 *
 *   to_T_F    from register type F to T, as docs/NUMERICS.md says: towards zero and saturating from
 *             floats to integers (NaN gives 0), wrapping between integers, rounded once to floats
 *   odd_F     to f32, and where that is not exact to the neighbour whose last bit is set:
 *             rounding that again, to fewer bits, is like rounding once from F
 *   widen_S   from storage type S to its register type, exactly
 *   narrow_S  back, rounding to the nearest (ties to even) or wrapping
 *   round_S   both at once: the value of a register after a store as S
 *   clamp_S   integers beyond S to its nearest end, for results of floats */
#include "kernel/tile/tile_inner.h"

#include "topology/half.h"

#define CONVERT(name, T, R, EXPRESSION) UNARY_AS(void TSR__ISA_NAME(tsr__##name), T, R, EXPRESSION)

/* ---- between registers ----------------------------------------------------------------------- */

/* Towards zero; beyond the range the nearest end; NaN gives 0. The conversion itself only ever
 * sees values in range. `limit` is 2^31 or 2^63 as a float. */
#define TO_INT(name, T, I, limit, least, most)           \
  INLINE I name(T v)                                     \
  {                                                      \
    I whole = (I)(v >= -(limit) && v < (limit) ? v : 0); \
    whole = v >= (limit) ? (most) : whole;               \
    return v < -(limit) ? (least) : whole;               \
  }

TO_INT(i32_of_f32, float, int32_t, 0x1p31f, INT32_MIN, INT32_MAX)
TO_INT(i64_of_f32, float, int64_t, 0x1p63f, INT64_MIN, INT64_MAX)
TO_INT(i32_of_f64, double, int32_t, 0x1p31, INT32_MIN, INT32_MAX)
TO_INT(i64_of_f64, double, int64_t, 0x1p63, INT64_MIN, INT64_MAX)

/* Goes through the signed type of the same width, which machines convert to: `half` is 2^31 or
 * 2^63. */
#define TO_UINT(name, T, U, I, half)                        \
  INLINE U name(T v)                                        \
  {                                                         \
    T low = v >= (half) ? v - (half) : v;                   \
    U whole = (U)(I)(low > 0 && low < (half) ? low : 0);    \
    whole += v >= (half) ? (U)1 << (sizeof(U) * 8 - 1) : 0; \
    return v >= 2 * (half) ? (U) ~(U)0 : whole;             \
  }

TO_UINT(u32_of_f32, float, uint32_t, int32_t, 0x1p31f)
TO_UINT(u64_of_f32, float, uint64_t, int64_t, 0x1p63f)
TO_UINT(u32_of_f64, double, uint32_t, int32_t, 0x1p31)
TO_UINT(u64_of_f64, double, uint64_t, int64_t, 0x1p63)

CONVERT(to_i32_i64, int64_t, int32_t, (int32_t)(uint32_t)(uint64_t)v)
CONVERT(to_i32_f32, float, int32_t, i32_of_f32(v))
CONVERT(to_i32_f64, double, int32_t, i32_of_f64(v))
CONVERT(to_i64_i32, int32_t, int64_t, v)
CONVERT(to_i64_u32, uint32_t, int64_t, (int64_t)v)
CONVERT(to_i64_f32, float, int64_t, i64_of_f32(v))
CONVERT(to_i64_f64, double, int64_t, i64_of_f64(v))
CONVERT(to_u32_f32, float, uint32_t, u32_of_f32(v))
CONVERT(to_u32_f64, double, uint32_t, u32_of_f64(v))
CONVERT(to_u64_f32, float, uint64_t, u64_of_f32(v))
CONVERT(to_u64_f64, double, uint64_t, u64_of_f64(v))
CONVERT(to_f32_i32, int32_t, float, (float)v)
CONVERT(to_f32_u32, uint32_t, float, (float)v)
CONVERT(to_f32_i64, int64_t, float, (float)v)
CONVERT(to_f32_u64, uint64_t, float, (float)v)
CONVERT(to_f32_f64, double, float, (float)v)
CONVERT(to_f64_i32, int32_t, double, (double)v)
CONVERT(to_f64_u32, uint32_t, double, (double)v)
CONVERT(to_f64_i64, int64_t, double, f64_of_i64(v))
CONVERT(to_f64_u64, uint64_t, double, (double)v)
CONVERT(to_f64_f32, float, double, (double)v)

#define FROM_BITS(name, T)                                                                    \
  void TSR__ISA_NAME(tsr__##name)(OPERANDS)                                                   \
  {                                                                                           \
    SPAN;                                                                                     \
    T *to = out;                                                                              \
    const uint64_t *from = a;                                                                 \
    UNUSED_3(b, c, scalar);                                                                   \
    for (int64_t at = 0; at < n; at += 64) {                                                  \
      uint64_t bits = from[at / 64];                                                          \
      int64_t count = n - at < 64 ? n - at : 64;                                              \
      ANY_ORDER for (int64_t i = 0; i < count; i++) to[at + i] = (T)(int64_t)(bits >> i & 1); \
    }                                                                                         \
  }

FROM_BITS(to_i32_bool, int32_t)
FROM_BITS(to_i64_bool, int64_t)
FROM_BITS(to_f32_bool, float)
FROM_BITS(to_f64_bool, double)

/* ---- half the bits: f16, bf16 ---------------------------------------------------------------- */

CONVERT(odd_f64, double, float, tsr__odd_of_f64(v))
CONVERT(odd_i64, int64_t, float, tsr__odd_of_i64(v))
CONVERT(odd_u64, uint64_t, float, tsr__odd_of_u64(v))

CONVERT(widen_f16, uint16_t, float, tsr__f32_of_f16(v))
CONVERT(narrow_f16, float, uint16_t, tsr__f16_of(v))
CONVERT(round_f16, float, float, tsr__f32_of_f16(tsr__f16_of(v)))
CONVERT(widen_bf16, uint16_t, float, tsr__f32_of_bf16(v))
CONVERT(narrow_bf16, float, uint16_t, tsr__bf16_of(v))
CONVERT(round_bf16, float, float, tsr__f32_of_bf16(tsr__bf16_of(v)))

/* ---- narrow integers ------------------------------------------------------------------------- */

/* Unsigned registers have no value below 0. */
#define at_least_i8(v) ((v) < INT8_MIN ? INT8_MIN : (v))
#define at_least_i16(v) ((v) < INT16_MIN ? INT16_MIN : (v))
#define at_least_u8(v) (v)
#define at_least_u16(v) (v)

#define WHOLES(suffix, N, R, most)               \
  CONVERT(widen_##suffix, N, R, v)               \
  CONVERT(narrow_##suffix, R, N, (N)(uint32_t)v) \
  CONVERT(round_##suffix, R, R, (N)(uint32_t)v)  \
  CONVERT(clamp_##suffix, R, R, at_least_##suffix(v) > (R)(most) ? (R)(most) : at_least_##suffix(v))

WHOLES(i8, int8_t, int32_t, INT8_MAX)
WHOLES(i16, int16_t, int32_t, INT16_MAX)
WHOLES(u8, uint8_t, uint32_t, UINT8_MAX)
WHOLES(u16, uint16_t, uint32_t, UINT16_MAX)
