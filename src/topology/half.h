/* Floats of 16 bits, and how wider numbers are rounded to them once.
 *
 *   f16    sign, 5 bits of exponent, 10 of the mantissa      bf16   the upper half of an f32
 *
 * A value on its way from f64 or i64 goes to f32 "to odd" first: cut, and the last bit set if
 * anything was lost. Thirteen bits more than f16 needs, it then rounds as the value itself
 * would. */
#ifndef TSR_TOPOLOGY_HALF_H
#define TSR_TOPOLOGY_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define TSR__INLINE static inline __attribute__((always_inline))

TSR__INLINE uint32_t tsr__bits_of_f32(float v)
{
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

TSR__INLINE float tsr__f32_of_bits(uint32_t bits)
{
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* One back towards zero where rounding went away from it, then the last bit set if any was lost. */
TSR__INLINE float tsr__odd_of_f64(double v)
{
  float near = (float)v;
  double back = (double)near;
  uint32_t bits = tsr__bits_of_f32(near);
  bits -= fabs(back) > fabs(v);
  return tsr__f32_of_bits(bits | (back != v && v == v));
}

TSR__INLINE float tsr__odd_of_u64(uint64_t v)
{
  if (v < UINT64_C(1) << 24) return (float)v;
  int shift = 40 - __builtin_clzll(v);
  uint64_t lost = v & ((UINT64_C(1) << shift) - 1);
  return (float)((v >> shift) | (lost != 0)) * (float)(UINT64_C(1) << shift);
}

TSR__INLINE float tsr__odd_of_i64(int64_t v)
{
  return v < 0 ? -tsr__odd_of_u64(0 - (uint64_t)v) : tsr__odd_of_u64((uint64_t)v);
}

/* Denormals are rounded by an addition that leaves just their bits, the rest by carrying half a
 * unit, less one where the last bit kept is 0, into them. */
TSR__INLINE uint16_t tsr__f16_of(float v)
{
  uint32_t bits = tsr__bits_of_f32(v), sign = bits & 0x80000000u, size = bits ^ sign;
  uint32_t small = tsr__bits_of_f32(tsr__f32_of_bits(size) + 0.5f) - 0x3f000000u;
  uint32_t usual = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
  uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t half = size < 0x38800000u ? small : usual;
  half = size >= 0x47800000u ? large : half;
  return (uint16_t)(half | sign >> 16);
}

/* The exponent moves by 112: a product does that, and makes denormals whole. */
TSR__INLINE float tsr__f32_of_f16(uint16_t v)
{
  uint32_t sign = (uint32_t)(v & 0x8000) << 16, size = (uint32_t)(v & 0x7fff) << 13;
  uint32_t bits = tsr__bits_of_f32(tsr__f32_of_bits(size) * 0x1p112f);
  bits = size >= 0x0f800000u ? size | 0x7f800000u : bits;
  return tsr__f32_of_bits(bits | sign);
}

TSR__INLINE uint16_t tsr__bf16_of(float v)
{
  uint32_t bits = tsr__bits_of_f32(v), near = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(v == v ? near : 0x7fc0u | bits >> 16);
}

TSR__INLINE float tsr__f32_of_bf16(uint16_t v)
{
  return tsr__f32_of_bits((uint32_t)v << 16);
}

#undef TSR__INLINE

#endif
