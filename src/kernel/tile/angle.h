/* Angles beyond 2^20 less whole quarters of a turn, exactly (the method of Payne and Hanek).
 *
 *   x = m 2^e      2/pi = 0.1010001011111001...
 *                             |---- 192 bits ----|    bits before it: whole turns
 *
 * x 2/pi is the number of quarters; multiplied by m, 192 bits of 2/pi give the quarters modulo 4
 * with 137 bits after the point, and no double is nearer than 2^-62 to a whole number of quarters.
 * All of it is integers, so every instruction set gives the same. */
#ifndef TSR_KERNEL_ANGLE_H
#define TSR_KERNEL_ANGLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
__extension__ typedef unsigned __int128 wide;

/* A word of zeros, then 2/pi, 64 bits a word. */
static const uint64_t two_over_pi[] = {
  0,
  UINT64_C(0xa2f9836e4e441529),
  UINT64_C(0xfc2757d1f534ddc0),
  UINT64_C(0xdb6295993c439041),
  UINT64_C(0xfe5163abdebbc561),
  UINT64_C(0xb7246e3a424dd2e0),
  UINT64_C(0x06492eea09d1921c),
  UINT64_C(0xfe1deb1cb129a73e),
  UINT64_C(0xe88235f52ebb4484),
  UINT64_C(0xe99c7026b45f7e41),
  UINT64_C(0x3991d639835339f4),
  UINT64_C(0x9c845f8bbdf9283b),
  UINT64_C(0x1ff897ffde05980f),
  UINT64_C(0xef2f118b5a0a6d1f),
  UINT64_C(0x6d367ecf27cb09b7),
  UINT64_C(0x4f463f669e5fea2d),
  UINT64_C(0x7527bac7ebe5f17b),
  UINT64_C(0x3d0739f78a5292ea),
  UINT64_C(0x6bfb5fb11f8d5d08),
  UINT64_C(0x56033046fc7b6bab),
  UINT64_C(0xf0cfbc209af4361d),
};

/* 64 bits of it from a bit on, counted from the most significant one. */
static inline uint64_t two_over_pi_bits(int bit)
{
  const uint64_t *word = &two_over_pi[bit >> 6];
  int shift = bit & 63;
  return shift ? word[0] << shift | word[1] >> (64 - shift) : word[0];
}

static inline double double_of_exponent(int exponent)
{
  uint64_t bits = (uint64_t)(1023 + exponent) << 52;
  double out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

/* An angle less its whole quarters: two parts, and how many quarters modulo 4 were taken. */
typedef struct turned {
  double high, low;
  int quarters;
} turned;

/* Takes the bits of a positive finite number of at least 2^20. */
static inline turned reduced_angle(uint64_t bits)
{
  int e = (int)(bits >> 52) - 1075, from = e + 62;
  uint64_t m = (bits & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
  wide low = (wide)m * two_over_pi_bits(from + 128);
  wide middle = (wide)m * two_over_pi_bits(from + 64) + (uint64_t)(low >> 64);
  uint64_t high = m * two_over_pi_bits(from) + (uint64_t)(middle >> 64);
  wide part = ((wide)high << 64 | (uint64_t)middle) << 2 | (uint64_t)low >> 62;
  bool above = part >> 127; /* nearer to the next quarter */
  turned out = { 0, 0, (int)((high >> 62) + above) & 3 };
  if (above) part = -part;
  if (!part) return out;
  uint64_t top = (uint64_t)(part >> 64);
  int zeros = top ? __builtin_clzll(top) : 64 + __builtin_clzll((uint64_t)part);
  wide half_pi = UINT64_C(0xc90fdaa22168c235);
  uint64_t value = (uint64_t)((uint64_t)((part << zeros) >> 64) * half_pi >> 64);
  double scale = double_of_exponent(-63 - zeros) * (above ? -1 : 1), near = (double)value;
  out.high = near * scale;
  out.low = (double)(int64_t)(value - (uint64_t)near) * scale;
  return out;
}

static inline turned turned_angle(double x)
{
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (fabs(x) < 0x1p20) return (turned){ x, 0, 0 };
  if (!(fabs(x) < (double)INFINITY)) return (turned){ (double)NAN, 0, 0 };
  turned out = reduced_angle(bits & (UINT64_MAX >> 1));
  if (x < 0) out = (turned){ -out.high, -out.low, -out.quarters & 3 };
  return out;
}

#endif
